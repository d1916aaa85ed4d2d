//! Transactions by number.

use slab::Slab;

/// A slab whose numbers are not used again: a number is a place and a serial number, and tells what
/// is in the place now from what was there before.
#[derive(Debug)]
pub(super) struct Table<T> {
    places: Slab<(u32, T)>,
    next_serial: u32,
}

impl<T> Table<T> {
    pub(super) fn new() -> Table<T> {
        Table {
            places: Slab::new(),
            next_serial: 0,
        }
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    /// Puts something in and returns its number.
    pub(super) fn insert(&mut self, item: T) -> u64 {
        let serial = self.next_serial;
        self.next_serial = serial.wrapping_add(1);
        let place = self.places.insert((serial, item));
        u64::from(serial) << 32 | place as u64
    }

    pub(super) fn contains(&self, number: u64) -> bool {
        let (place, serial) = split(number);
        matches!(self.places.get(place), Some((found, _)) if *found == serial)
    }

    pub(super) fn get(&self, number: u64) -> Option<&T> {
        let (place, serial) = split(number);
        match self.places.get(place) {
            Some((found, item)) if *found == serial => Some(item),
            _ => None,
        }
    }

    pub(super) fn get_mut(&mut self, number: u64) -> Option<&mut T> {
        let (place, serial) = split(number);
        match self.places.get_mut(place) {
            Some((found, item)) if *found == serial => Some(item),
            _ => None,
        }
    }

    pub(super) fn remove(&mut self, number: u64) -> Option<T> {
        if !self.contains(number) {
            return None;
        }
        self.places
            .try_remove(split(number).0)
            .map(|(_, item)| item)
    }
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
}
