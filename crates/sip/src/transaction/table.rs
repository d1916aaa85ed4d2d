//! Transactions by number.

/// Entries whose numbers are not used again: a number is a place and a serial number, and tells what
/// is in the place now from what was there before.
///
/// Places come in blocks that stay where they are: a table that grows neither moves what is in it nor
/// asks for more than it needs.
#[derive(Debug)]
pub(super) struct Table<T> {
    blocks: Vec<Vec<Place<T>>>,
    /// The place that was given up last.
    free: Option<u32>,
    length: usize,
    next_serial: u32,
}

#[derive(Debug)]
enum Place<T> {
    Taken {
        serial: u32,
        item: T,
    },
    /// With the place that was given up before this one.
    Free(Option<u32>),
}

/// How many bits of a number tell the place. The next four are zero: there is more in the world, but not
/// in the memory of a process.
pub(super) const PLACE_BITS: u32 = 28;

/// Places of a block: a power of two.
const BLOCK: usize = 128;

impl<T> Table<T> {
    pub(super) fn new() -> Table<T> {
        Table {
            blocks: Vec::new(),
            free: None,
            length: 0,
            next_serial: 0,
        }
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.length
    }

    /// Puts something in and returns its number.
    pub(super) fn insert(&mut self, item: T) -> u64 {
        let serial = self.next_serial;
        self.next_serial = serial.wrapping_add(1);
        self.length += 1;
        let taken = Place::Taken { serial, item };
        let free = self.free;
        if let Some(number) = free
            && let Some(place) = self.place_mut(number as usize)
        {
            let before = std::mem::replace(place, taken);
            if let Place::Free(next) = before {
                self.free = next;
            }
            return name(serial, number as usize);
        }
        if self.blocks.last().is_none_or(|block| block.len() == BLOCK) {
            self.blocks.push(Vec::with_capacity(BLOCK));
        }
        let last = self.blocks.len() - 1;
        let block = &mut self.blocks[last];
        block.push(taken);
        name(serial, last * BLOCK + block.len() - 1)
    }

    pub(super) fn contains(&self, number: u64) -> bool {
        self.get(number).is_some()
    }

    pub(super) fn get(&self, number: u64) -> Option<&T> {
        let (place, serial) = split(number);
        match self.blocks.get(place / BLOCK)?.get(place % BLOCK)? {
            Place::Taken {
                serial: found,
                item,
            } if *found == serial => Some(item),
            _ => None,
        }
    }

    pub(super) fn get_mut(&mut self, number: u64) -> Option<&mut T> {
        let (place, serial) = split(number);
        match self.place_mut(place)? {
            Place::Taken {
                serial: found,
                item,
            } if *found == serial => Some(item),
            _ => None,
        }
    }

    pub(super) fn remove(&mut self, number: u64) -> Option<T> {
        let (place, serial) = split(number);
        let free = self.free;
        let found = self.place_mut(place)?;
        if !matches!(found, Place::Taken { serial: taken, .. } if *taken == serial) {
            return None;
        }
        let Place::Taken { item, .. } = std::mem::replace(found, Place::Free(free)) else {
            return None;
        };
        self.free = Some(place as u32);
        self.length -= 1;
        Some(item)
    }

    fn place_mut(&mut self, place: usize) -> Option<&mut Place<T>> {
        self.blocks.get_mut(place / BLOCK)?.get_mut(place % BLOCK)
    }
}

/// The number of a place and a serial number.
fn name(serial: u32, place: usize) -> u64 {
    u64::from(serial) << 32 | place as u64
}

/// The place and the serial number.
fn split(number: u64) -> (usize, u32) {
    (number as u32 as usize, (number >> 32) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_the_removed_find_nothing() {
        let mut table = Table::new();
        let first = table.insert("first");
        assert_eq!(table.remove(first), Some("first"));
        let second = table.insert("second");
        assert_ne!(first, second);
        assert_eq!(table.get_mut(first), None);
        assert_eq!(table.remove(first), None);
        assert!(!table.contains(first));
        assert_eq!(table.get_mut(second), Some(&mut "second"));
        assert_eq!(table.len(), 1);
    }

    #[test]
    fn places_are_used_again_in_whatever_order_they_are_given_up() {
        let mut table = Table::new();
        let mut numbers: Vec<u64> = (0..1000).map(|item| table.insert(item)).collect();
        for round in 0..10 {
            for at in (round..1000).step_by(3) {
                assert_eq!(table.remove(numbers[at]), Some(at));
            }
            for at in (round..1000).step_by(3).rev() {
                numbers[at] = table.insert(at);
            }
        }
        for (item, number) in numbers.iter().enumerate() {
            assert_eq!(table.get(*number), Some(&item));
        }
        assert_eq!(table.len(), 1000);
        assert_eq!(table.blocks.len(), 1000_usize.div_ceil(BLOCK));
    }
}
