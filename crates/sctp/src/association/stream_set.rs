//! Some streams of one direction, or all of them.

/// A set of streams.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StreamSet {
    /// Every stream that there is.
    All,
    /// One bit for each stream, up to the last one in the set.
    Listed(Vec<u64>),
}

impl StreamSet {
    /// The streams of a list, which stands for all of them when it is empty (RFC 6525 section 4.1).
    pub(crate) fn of_list(list: impl IntoIterator<Item = u16>) -> StreamSet {
        let mut words = Vec::new();
        for stream in list {
            let (index, bit) = position(stream);
            if index >= words.len() {
                words.resize(index + 1, 0);
            }
            if let Some(word) = words.get_mut(index) {
                *word |= bit;
            }
        }
        if words.is_empty() {
            StreamSet::All
        } else {
            StreamSet::Listed(words)
        }
    }

    /// Whether the stream is in the set.
    pub(crate) fn contains(&self, stream: u16) -> bool {
        let (index, bit) = position(stream);
        match self {
            StreamSet::All => true,
            StreamSet::Listed(words) => words.get(index).is_some_and(|word| word & bit != 0),
        }
    }

    /// Its streams, ascending; `None` when it has all of them.
    pub(crate) fn listed(&self) -> Option<impl Iterator<Item = u16>> {
        let StreamSet::Listed(words) = self else {
            return None;
        };
        let bits = |(index, word): (u16, &u64)| {
            let word = *word;
            (0..64)
                .filter(move |bit| word & (1 << bit) != 0)
                .map(move |bit| index * 64 + bit)
        };
        Some((0..).zip(words).flat_map(bits))
    }
}

fn position(stream: u16) -> (usize, u64) {
    (usize::from(stream / 64), 1 << (stream % 64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_what_was_listed() {
        let set = StreamSet::of_list([5, 64, u16::MAX, 5]);
        let held: Vec<u16> = (0..=u16::MAX)
            .filter(|stream| set.contains(*stream))
            .collect();
        assert_eq!(held, [5, 64, u16::MAX]);
        let listed: Vec<u16> = set.listed().into_iter().flatten().collect();
        assert_eq!(listed, held);
        assert!(!StreamSet::of_list([0]).contains(1000));
    }

    #[test]
    fn an_empty_list_means_all() {
        let set = StreamSet::of_list([]);
        assert_eq!(set, StreamSet::All);
        assert!(set.listed().is_none());
        assert!(set.contains(u16::MAX));
    }
}
