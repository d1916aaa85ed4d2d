//! What Gap Ack Blocks acknowledge (RFC 9260 section 3.3.4), as ranges of offsets that can be
//! compared with those of another SACK.

use crate::packet::GapAckBlock;

/// TSNs as offsets from the first outstanding one, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OffsetRange {
    pub(crate) first: u32,
    pub(crate) last: u32,
}

/// Reads Gap Ack Blocks into ascending, isolated ranges of offsets. A block whose ends are reversed
/// is left out, and so is one that touches the Cumulative TSN: it contradicts that, and would have
/// us wait without a timer for a chunk that is never acknowledged for good. `false` when a block
/// reaches beyond what is outstanding.
pub(crate) fn read_gaps(
    gaps: impl Iterator<Item = GapAckBlock>,
    outstanding: u32,
    ranges: &mut Vec<OffsetRange>,
) -> bool {
    ranges.clear();
    let mut ascending = true;
    for gap in gaps {
        if gap.end < gap.start {
            continue;
        }
        if u32::from(gap.end) > outstanding {
            ranges.clear();
            return false;
        }
        if gap.start < 2 {
            continue;
        }
        let range = OffsetRange {
            first: u32::from(gap.start) - 1,
            last: u32::from(gap.end) - 1,
        };
        ascending &= ranges
            .last()
            .is_none_or(|before| before.last + 1 < range.first);
        ranges.push(range);
    }
    if !ascending {
        ranges.sort_unstable_by_key(|range| range.first);
        ranges.dedup_by(|next, range| {
            let joined = next.first <= range.last + 1;
            if joined {
                range.last = range.last.max(next.last);
            }
            joined
        });
    }
    true
}

/// Counts the offsets of `ranges` from a point `advance` further on.
pub(crate) fn rebase(ranges: &mut Vec<OffsetRange>, advance: u32) {
    if advance == 0 {
        return;
    }
    ranges.retain_mut(|range| {
        if range.last < advance {
            return false;
        }
        range.first = range.first.saturating_sub(advance);
        range.last -= advance;
        true
    });
}

/// Calls `action` with each offset that is in `these` but not in `those`, ascending. Both are
/// ascending and isolated.
pub(crate) fn for_each_only_in(
    these: &[OffsetRange],
    those: &[OffsetRange],
    mut action: impl FnMut(u32),
) {
    let mut skip = those.iter().peekable();
    for range in these {
        let mut offset = range.first;
        while offset <= range.last {
            while skip.next_if(|other| other.last < offset).is_some() {}
            match skip.peek() {
                Some(other) if other.first <= offset => offset = other.last + 1,
                _ => {
                    action(offset);
                    offset += 1;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(gaps: &[(u16, u16)], outstanding: u32) -> Option<Vec<(u32, u32)>> {
        let gaps = gaps.iter().map(|&(start, end)| GapAckBlock { start, end });
        let mut ranges = Vec::new();
        read_gaps(gaps, outstanding, &mut ranges).then(|| {
            ranges
                .iter()
                .map(|range| (range.first, range.last))
                .collect()
        })
    }

    #[test]
    fn sorts_joins_and_sifts_blocks() {
        assert_eq!(
            read(&[(7, 7), (2, 3), (4, 5), (3, 2), (0, 9), (1, 9)], 9),
            Some(vec![(1, 4), (6, 6)])
        );
        assert_eq!(read(&[(2, 3), (5, 10)], 9), None);
    }
}
