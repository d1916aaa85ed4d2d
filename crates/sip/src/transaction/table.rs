//! Transactions by number.

/// Entries whose numbers are not used again: a number is a place and a serial number, and tells what
/// is in the place now from what was there before.
///
/// Places come in blocks that stay where they are: a table that grows neither moves what is in it nor
/// asks for more than it needs. The place that was given up last is taken first, while it is still at hand.
#[derive(Debug)]
pub(super) struct Table<T> {
    blocks: Vec<Vec<Place<T>>>,
    /// The places that have been given up.
    free: Vec<u32>,
    length: usize,
}

/// Something that can be in a table.
pub(super) trait Entry {
    /// Gives back what it holds. What it is by itself may stay until another takes its place.
    fn vacate(&mut self);
}

/// It begins with a line of the processor's cache, and with its serial number: what an entry has first lies in the same
/// line.
#[derive(Debug)]
#[repr(C, align(64))]
struct Place<T> {
    /// Of the entry that is in it, or will be next.
    serial: u32,
    item: T,
}

/// How many bits of a number tell the place. The next four are zero: there is more in the world, but not
/// in the memory of a process.
pub(super) const PLACE_BITS: u32 = 28;

/// Places of a block: a power of two.
const BLOCK: usize = 128;

impl<T: Entry> Table<T> {
    pub(super) fn new() -> Table<T> {
        Table {
            blocks: Vec::new(),
            free: Vec::new(),
            length: 0,
        }
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.length
    }

    /// Puts something in and returns its number.
    pub(super) fn insert(&mut self, item: T) -> u64 {
        self.length += 1;
        if let Some(number) = self.free.pop()
            && let Some(place) = self.place_mut(number as usize)
        {
            place.item = item;
            return name(place.serial, number as usize);
        }
        if self.blocks.last().is_none_or(|block| block.len() == BLOCK) {
            self.blocks.push(Vec::with_capacity(BLOCK));
        }
        let last = self.blocks.len() - 1;
        let block = &mut self.blocks[last];
        block.push(Place { serial: 0, item });
        name(0, last * BLOCK + block.len() - 1)
    }

    pub(super) fn contains(&self, number: u64) -> bool {
        self.get(number).is_some()
    }

    pub(super) fn get(&self, number: u64) -> Option<&T> {
        let (place, serial) = split(number);
        let place = self.place(place)?;
        (place.serial == serial).then_some(&place.item)
    }

    pub(super) fn get_mut(&mut self, number: u64) -> Option<&mut T> {
        let (place, serial) = split(number);
        let place = self.place_mut(place)?;
        (place.serial == serial).then_some(&mut place.item)
    }

    /// What is in a place that is taken, and its number.
    pub(super) fn at(&self, place: u32) -> Option<(u64, &T)> {
        let found = self.place(place as usize)?;
        Some((name(found.serial, place as usize), &found.item))
    }

    /// Takes an entry out, if it is there.
    pub(super) fn remove(&mut self, number: u64) {
        let (place, serial) = split(number);
        if let Some(found) = self.place_mut(place)
            && found.serial == serial
        {
            found.serial = serial.wrapping_add(1);
            found.item.vacate();
            self.free.push(place as u32);
            self.length -= 1;
        }
    }

    fn place(&self, place: usize) -> Option<&Place<T>> {
        self.blocks.get(place / BLOCK)?.get(place % BLOCK)
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
pub(super) fn split(number: u64) -> (usize, u32) {
    (number as u32 as usize, (number >> 32) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An entry that can be told whether it is there.
    #[derive(Debug, PartialEq)]
    struct Held(Option<usize>);

    impl Entry for Held {
        fn vacate(&mut self) {
            self.0 = None;
        }
    }

    #[test]
    fn numbers_of_the_removed_find_nothing() {
        let mut table = Table::new();
        let first = table.insert(Held(Some(1)));
        assert_eq!(table.at(0), Some((first, &Held(Some(1)))));
        table.remove(first);
        assert_eq!(table.get(first), None);
        let second = table.insert(Held(Some(2)));
        assert_ne!(first, second);
        assert_eq!(table.get_mut(first), None);
        table.remove(first);
        assert!(!table.contains(first));
        assert_eq!(table.get_mut(second), Some(&mut Held(Some(2))));
        assert_eq!(table.at(0), Some((second, &Held(Some(2)))));
        assert_eq!(table.len(), 1);
    }

    #[test]
    fn places_are_used_again_in_whatever_order_they_are_given_up() {
        let mut table = Table::new();
        let insert = |table: &mut Table<Held>, item| table.insert(Held(Some(item)));
        let mut numbers: Vec<u64> = (0..1000).map(|item| insert(&mut table, item)).collect();
        for round in 0..10 {
            for at in (round..1000).step_by(3) {
                assert_eq!(table.get(numbers[at]), Some(&Held(Some(at))));
                table.remove(numbers[at]);
            }
            for at in (round..1000).step_by(3).rev() {
                numbers[at] = insert(&mut table, at);
            }
        }
        for (item, number) in numbers.iter().enumerate() {
            assert_eq!(table.get(*number), Some(&Held(Some(item))));
        }
        assert_eq!(table.len(), 1000);
        assert_eq!(table.blocks.len(), 1000_usize.div_ceil(BLOCK));
    }
}
