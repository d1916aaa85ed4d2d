//! A pool of buffers for the texts that sessions keep.

/// Memory for texts that are kept for a while: given back, it is used again, for texts of the same size.
#[derive(Debug, Default)]
pub(super) struct Buffers {
    small: Vec<Vec<u8>>,
    large: Vec<Vec<u8>>,
}

/// How many of each size are kept for use.
const MAXIMUM: usize = 4_096;

/// Octets of a small one: the texts of a dialog fit as a rule.
const SMALL: usize = 256;

/// The largest that are kept for use, in octets.
const LARGEST: usize = 4_096;

impl Buffers {
    /// A small one, empty.
    pub(super) fn take_small(&mut self) -> Vec<u8> {
        let buffer = self.small.pop();
        buffer.unwrap_or_else(|| Vec::with_capacity(SMALL))
    }

    /// Keeps a copy of a text in the place of another one.
    pub(super) fn keep(&mut self, place: &mut Vec<u8>, text: &[u8]) {
        if place.capacity() == 0 {
            let of_its_size = match text.len() {
                ..=SMALL => Some(self.take_small()),
                _ => self.large.pop(),
            };
            if let Some(buffer) = of_its_size {
                *place = buffer;
            }
        }
        place.clear();
        // No more than that: they are many.
        place.reserve_exact(text.len());
        place.extend_from_slice(text);
    }

    /// Forgets a text.
    pub(super) fn give_back(&mut self, place: &mut Vec<u8>) {
        if place.capacity() == 0 {
            return;
        }
        let mut buffer = std::mem::take(place);
        let of_its_size = match buffer.capacity() {
            capacity if capacity <= SMALL => &mut self.small,
            capacity if capacity <= LARGEST => &mut self.large,
            _ => return,
        };
        if of_its_size.len() < MAXIMUM {
            buffer.clear();
            of_its_size.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_kept_in_memory_of_their_size() {
        let mut buffers = Buffers::default();
        let (mut small, mut large, mut huge) = (Vec::new(), Vec::new(), Vec::new());
        buffers.keep(&mut small, b"small");
        buffers.keep(&mut large, &[b'l'; 600]);
        buffers.keep(&mut huge, &[b'h'; LARGEST + 1]);
        assert_eq!(
            (&small[..], large.len(), large.capacity()),
            (&b"small"[..], 600, 600)
        );
        for text in [&mut small, &mut large, &mut huge] {
            buffers.give_back(text);
            assert_eq!(text.capacity(), 0);
        }
        assert_eq!((buffers.small.len(), buffers.large.len()), (1, 1));
        let mut again = Vec::new();
        buffers.keep(&mut again, &[b'a'; 500]);
        assert_eq!((again.len(), again.capacity()), (500, 600));
        buffers.keep(&mut again, b"shorter");
        assert_eq!(again, b"shorter");
        assert_eq!(buffers.take_small().capacity(), SMALL);
        assert!(buffers.take_small().is_empty());
    }
}
