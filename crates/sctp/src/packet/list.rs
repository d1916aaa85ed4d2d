//! Lists of numbers in parameters and error causes.

use std::fmt;
use std::marker::PhantomData;

/// A list of 16-bit numbers, as they lie in the packet.
pub struct U16List<'a, T> {
    bytes: &'a [[u8; 2]],
    items: PhantomData<fn() -> T>,
}

impl<'a, T> U16List<'a, T> {
    /// A list of numbers in network byte order.
    pub fn new(numbers: &'a [[u8; 2]]) -> U16List<'a, T> {
        U16List {
            bytes: numbers,
            items: PhantomData,
        }
    }

    /// How many numbers there are.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether there is no number.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(super) fn as_bytes(&self) -> &'a [u8] {
        self.bytes.as_flattened()
    }

    pub(super) fn read(bytes: &'a [u8]) -> Option<U16List<'a, T>> {
        match bytes.as_chunks() {
            (numbers, []) => Some(U16List::new(numbers)),
            _ => None,
        }
    }
}

impl<'a, T: From<u16>> U16List<'a, T> {
    /// The numbers in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = T> + Clone + use<'a, T> {
        self.bytes
            .iter()
            .map(|&bytes| T::from(u16::from_be_bytes(bytes)))
    }
}

impl<T> Clone for U16List<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for U16List<'_, T> {}

impl<T> PartialEq for U16List<'_, T> {
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }
}

impl<T> Eq for U16List<'_, T> {}

impl<T> Default for U16List<'_, T> {
    fn default() -> Self {
        U16List::new(&[])
    }
}

impl<T: From<u16> + fmt::Debug> fmt::Debug for U16List<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
