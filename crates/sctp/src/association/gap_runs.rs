//! What Gap Ack Blocks acknowledge (RFC 9260 section 3.3.4), as runs of offsets that can be
//! compared with those of another SACK.

use crate::packet::GapAckBlock;

/// TSNs as offsets from the first outstanding one, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) first: u32,
    pub(crate) last: u32,
}

/// Reads Gap Ack Blocks into ascending, isolated runs of offsets. A block whose ends are reversed
/// is left out, and so is one that touches the Cumulative TSN: it contradicts that, and would have
/// us wait without a timer for a chunk that is never acknowledged for good. `false` when a block
/// reaches beyond what is outstanding.
pub(crate) fn read_gaps(
    gaps: impl Iterator<Item = GapAckBlock>,
    outstanding: u32,
    runs: &mut Vec<Run>,
) -> bool {
    runs.clear();
    let mut ascending = true;
    for gap in gaps {
        if gap.end < gap.start {
            continue;
        }
        if u32::from(gap.end) > outstanding {
            runs.clear();
            return false;
        }
        if gap.start < 2 {
            continue;
        }
        let run = Run {
            first: u32::from(gap.start) - 1,
            last: u32::from(gap.end) - 1,
        };
        ascending &= runs.last().is_none_or(|before| before.last + 1 < run.first);
        runs.push(run);
    }
    if !ascending {
        runs.sort_unstable_by_key(|run| run.first);
        runs.dedup_by(|next, run| {
            let joined = next.first <= run.last + 1;
            if joined {
                run.last = run.last.max(next.last);
            }
            joined
        });
    }
    true
}

/// Counts the offsets of `runs` from a point `advance` further on.
pub(crate) fn rebase(runs: &mut Vec<Run>, advance: u32) {
    if advance == 0 {
        return;
    }
    runs.retain_mut(|run| {
        if run.last < advance {
            return false;
        }
        run.first = run.first.saturating_sub(advance);
        run.last -= advance;
        true
    });
}

/// Calls `action` with each offset that is in `these` but not in `those`, ascending. Both are
/// ascending and isolated.
pub(crate) fn for_each_only_in(these: &[Run], those: &[Run], mut action: impl FnMut(u32)) {
    let mut skip = those.iter().peekable();
    for run in these {
        let mut offset = run.first;
        while offset <= run.last {
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
        let mut runs = Vec::new();
        read_gaps(gaps, outstanding, &mut runs)
            .then(|| runs.iter().map(|run| (run.first, run.last)).collect())
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
