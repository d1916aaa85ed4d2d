//! NR-SACK: which of the TSNs above the cumulative one are received for good, so that the peer need not
//! keep them (draft-natarajan-tsvwg-sctp-nrsack).
//!
//! What was delivered, or thrown away, is not taken back. What waits for a message's other fragments, or
//! for its turn, may be: [`Receiver::renege`].

use super::Receiver;
use crate::AssociationConfig;
use crate::association::received_tsns::{Arrival, Bounds, ReceivedTsns, TsnRange};
use crate::packet::{ChunkType, GapAckBlock, NrSack, PacketWriter, Tsn};

/// The TSNs that are not taken back.
#[derive(Debug)]
pub(super) struct NonRenegable {
    tsns: ReceivedTsns,
}

impl NonRenegable {
    /// None yet; `cumulative` is the cumulative TSN.
    pub(super) fn new(cumulative: Tsn, bounds: Bounds) -> NonRenegable {
        NonRenegable {
            tsns: ReceivedTsns::new(cumulative.next(), bounds),
        }
    }

    /// Changes how much is kept in mind from now on.
    pub(super) fn set_bounds(&mut self, bounds: Bounds) {
        self.tsns.set_bounds(bounds);
    }

    /// A TSN is not taken back. One too many is told as one that may be.
    pub(super) fn add(&mut self, tsn: Tsn) {
        if self.tsns.classify(tsn) == Arrival::New {
            self.tsns.record(tsn);
        }
    }

    /// The cumulative TSN is `cumulative` now.
    fn advance(&mut self, cumulative: Tsn) {
        if self.tsns.cumulative() < cumulative {
            self.tsns.advance(cumulative);
        }
    }

    fn add_range(&mut self, range: TsnRange) {
        let mut tsn = range.first;
        while tsn <= range.last {
            self.add(tsn);
            tsn = tsn.next();
        }
    }
}

/// The blocks of an NR-SACK.
#[derive(Debug, Default, PartialEq, Eq)]
struct Blocks {
    renegable: Vec<GapAckBlock>,
    non_renegable: Vec<GapAckBlock>,
}

impl Blocks {
    /// Tells apart what of `all` is in `kept` and what is not: the lowest `most` blocks of both kinds
    /// together. Both are ascending and isolated, and `kept` is a part of `all`.
    fn new(
        all: impl Iterator<Item = GapAckBlock>,
        kept: impl Iterator<Item = GapAckBlock>,
        most: usize,
    ) -> Blocks {
        let mut blocks = Blocks::default();
        let mut kept = kept.peekable();
        for gap in all {
            // None once the highest offset that there is has been passed.
            let mut next = Some(gap.start);
            while let Some(inner) = kept.next_if(|inner| inner.start <= gap.end) {
                if let Some(start) = next.filter(|start| *start < inner.start) {
                    let end = inner.start - 1;
                    blocks.renegable.push(GapAckBlock { start, end });
                }
                blocks.non_renegable.push(inner);
                next = inner.end.checked_add(1);
            }
            if let Some(start) = next.filter(|start| *start <= gap.end) {
                let end = gap.end;
                blocks.renegable.push(GapAckBlock { start, end });
            }
            if blocks.len() >= most {
                break;
            }
        }
        blocks.truncate(most);
        blocks
    }

    fn len(&self) -> usize {
        self.renegable.len() + self.non_renegable.len()
    }

    /// Leaves out the highest blocks.
    fn truncate(&mut self, most: usize) {
        while self.len() > most {
            let highest = |blocks: &Vec<GapAckBlock>| blocks.last().map(|block| block.start);
            if highest(&self.renegable) > highest(&self.non_renegable) {
                self.renegable.pop();
            } else {
                self.non_renegable.pop();
            }
        }
    }
}

impl Receiver {
    /// The most bytes that the NR-SACK takes that would be written.
    pub(super) fn nr_sack_size(&self, kept: &NonRenegable) -> usize {
        let blocks = self.tsns.gaps().len() + 2 * kept.tsns.gaps().len();
        NrSack::OVERHEAD + (blocks + self.tsns.duplicates().len()) * NrSack::ENTRY_LENGTH
    }

    /// Writes an NR-SACK with a window of `window` bytes; tells whether there was room for it.
    pub(super) fn write_nr_sack(
        &mut self,
        kept: &mut NonRenegable,
        writer: &mut PacketWriter<'_>,
        window: u32,
        config: &AssociationConfig,
    ) -> bool {
        let Some(room) = writer
            .remaining_for(ChunkType::NR_SACK)
            .checked_sub(NrSack::OVERHEAD)
        else {
            return false;
        };
        kept.advance(self.tsns.cumulative());
        for range in self.streams.take_delivered() {
            kept.add_range(range);
        }
        let entries = room / NrSack::ENTRY_LENGTH;
        let blocks = Blocks::new(self.tsns.gaps(), kept.tsns.gaps(), entries);
        let duplicates = self.tsns.duplicates().len().min(entries - blocks.len());
        writer
            .nr_sack(
                self.tsns.cumulative(),
                window,
                self.packets_to_tell(config),
                blocks.renegable.into_iter(),
                blocks.non_renegable.into_iter(),
                self.tsns.duplicates().iter().copied().take(duplicates),
            )
            .is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(ends: &[(u16, u16)]) -> Vec<GapAckBlock> {
        ends.iter()
            .map(|&(start, end)| GapAckBlock { start, end })
            .collect()
    }

    #[test]
    fn tells_apart_what_is_kept() {
        let all = || blocks(&[(2, 9), (12, 12), (14, 15)]).into_iter();
        let kept = || blocks(&[(2, 2), (4, 5), (9, 9), (14, 15)]).into_iter();
        let whole = Blocks::new(all(), kept(), 100);
        assert_eq!(whole.renegable, blocks(&[(3, 3), (6, 8), (12, 12)]));
        assert_eq!(
            whole.non_renegable,
            blocks(&[(2, 2), (4, 5), (9, 9), (14, 15)])
        );
        let part = Blocks::new(all(), kept(), 4);
        assert_eq!(part.renegable, blocks(&[(3, 3), (6, 8)]));
        assert_eq!(part.non_renegable, blocks(&[(2, 2), (4, 5)]));
        assert_eq!(Blocks::new(all(), kept(), 0), Blocks::default());
    }

    #[test]
    fn the_highest_offsets_do_not_overflow() {
        let all = blocks(&[(u16::MAX - 1, u16::MAX)]);
        let kept = blocks(&[(u16::MAX, u16::MAX)]);
        let both = Blocks::new(all.clone().into_iter(), kept.into_iter(), 9);
        assert_eq!(both.renegable, blocks(&[(u16::MAX - 1, u16::MAX - 1)]));
        let kept = all.clone();
        let both = Blocks::new(all.into_iter(), kept.into_iter(), 9);
        assert_eq!(both.renegable, []);
    }
}
