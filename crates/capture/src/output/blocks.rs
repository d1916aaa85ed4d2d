//! Text on its way into a file.

use std::io::{self, Write};

/// Octets of a block. The kernel has pieces of memory so small at hand; for more of them it has to be asked less often, but it
/// has to look for larger pieces.
const BLOCK: usize = 32 * 1024;

/// Text on its way into a file, which is made in the place from where it is written: in whole blocks that lie where blocks of
/// the file do.
#[derive(Debug)]
pub struct Blocks<W> {
    out: W,
    text: Vec<u8>,
    /// How far into a block what was written goes.
    begun: usize,
}

impl<W: Write> Blocks<W> {
    /// Text that goes there, of which there is none yet.
    pub fn new(out: W) -> Blocks<W> {
        Blocks {
            out,
            text: Vec::with_capacity(BLOCK + BLOCK / 8),
            begun: 0,
        }
    }

    /// Appends what `make` appends, and writes the blocks that are whole with it.
    ///
    /// # Errors
    ///
    /// When they cannot be written.
    #[inline]
    pub fn push(&mut self, make: impl FnOnce(&mut Vec<u8>)) -> io::Result<()> {
        make(&mut self.text);
        match self.text.len() + self.begun < BLOCK {
            true => Ok(()),
            false => self.write((self.begun + self.text.len()) / BLOCK * BLOCK - self.begun),
        }
    }

    /// Writes what there is, and then this, without a copy of it.
    ///
    /// # Errors
    ///
    /// When it cannot be written.
    pub fn write_through(&mut self, text: &[u8]) -> io::Result<()> {
        self.write(self.text.len())?;
        self.begun = (self.begun + text.len()) % BLOCK;
        self.out.write_all(text)
    }

    /// Writes all that there is.
    ///
    /// # Errors
    ///
    /// When it cannot be written.
    pub fn flush(&mut self) -> io::Result<()> {
        self.write(self.text.len())?;
        self.out.flush()
    }

    /// Writes the first so many octets. They are gone in any case: nothing is kept for a file that takes nothing.
    fn write(&mut self, octets: usize) -> io::Result<()> {
        let written = self.out.write_all(&self.text[..octets]);
        self.text.drain(..octets);
        self.begun = (self.begun + octets) % BLOCK;
        written
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What was written, and how far it went each time.
    #[derive(Default)]
    struct Seen {
        text: Vec<u8>,
        ends: Vec<usize>,
    }

    impl Write for &mut Seen {
        fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
            self.text.extend_from_slice(octets);
            self.ends.push(self.text.len());
            Ok(octets.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    proptest! {
        #[test]
        fn all_is_written_in_whole_blocks(
            parts in prop::collection::vec(
                (0_usize..3 * BLOCK, prop::bool::weighted(0.1), prop::bool::weighted(0.1)),
                0..12,
            ),
        ) {
            let mut seen = Seen::default();
            let mut blocks = Blocks::new(&mut seen);
            let mut all = Vec::new();
            let mut flushed = Vec::new();
            for (number, (length, is_flushed, is_through)) in parts.into_iter().enumerate() {
                let part = vec![number as u8; length];
                all.extend_from_slice(&part);
                if is_through {
                    flushed.push(all.len() - length);
                    flushed.push(all.len());
                    blocks.write_through(&part).unwrap();
                } else {
                    blocks.push(|text| text.extend_from_slice(&part)).unwrap();
                }
                prop_assert!(blocks.text.len() < BLOCK);
                if is_flushed {
                    blocks.flush().unwrap();
                    flushed.push(all.len());
                }
            }
            blocks.flush().unwrap();
            flushed.push(all.len());
            prop_assert_eq!(&seen.text, &all);
            for end in seen.ends {
                prop_assert!(end.is_multiple_of(BLOCK) || flushed.contains(&end));
            }
        }
    }
}
