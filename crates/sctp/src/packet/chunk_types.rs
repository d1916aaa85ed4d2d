//! Sets of chunk types.

use super::ChunkType;
use std::fmt;

/// A set of chunk types.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ChunkTypes([u64; 4]);

impl ChunkTypes {
    /// Whether a type is there.
    #[inline]
    pub(crate) fn contains(&self, chunk_type: ChunkType) -> bool {
        let (word, bit) = place(chunk_type);
        self.0.get(word).is_some_and(|word| word & bit != 0)
    }

    /// Adds a type.
    pub(crate) fn insert(&mut self, chunk_type: ChunkType) {
        let (word, bit) = place(chunk_type);
        if let Some(word) = self.0.get_mut(word) {
            *word |= bit;
        }
    }

    /// The types, ascending.
    pub(crate) fn iter(&self) -> impl Iterator<Item = ChunkType> {
        (0..=u8::MAX)
            .map(ChunkType)
            .filter(|chunk_type| self.contains(*chunk_type))
    }
}

fn place(ChunkType(number): ChunkType) -> (usize, u64) {
    (usize::from(number / 64), 1 << (number % 64))
}

impl FromIterator<ChunkType> for ChunkTypes {
    fn from_iter<I: IntoIterator<Item = ChunkType>>(types: I) -> ChunkTypes {
        let mut set = ChunkTypes::default();
        for chunk_type in types {
            set.insert(chunk_type);
        }
        set
    }
}

impl fmt::Debug for ChunkTypes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_holds_what_was_put_in_and_nothing_else() {
        let types = [0, 63, 64, 130, 192, 255].map(ChunkType);
        let set: ChunkTypes = types.into_iter().rev().collect();
        assert_eq!(set.iter().collect::<Vec<_>>(), types);
        assert!(!set.contains(ChunkType(1)));
    }
}
