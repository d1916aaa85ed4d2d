//! Split Fast Retransmit (SFR, Iyengar 2006): which chunks get a miss indication from a SACK. With several
//! paths in use those of a slow one are reported missing while they are on their way, so that a chunk is
//! missing only when a later one that was sent on the same path has arrived.

use crate::association::path_id::PathId;

/// Chunks below the limit get a miss indication; offsets from the first outstanding chunk.
#[derive(Debug)]
pub(crate) enum MissLimits {
    /// One for all chunks: the highest TSN newly acknowledged (section 7.2.4).
    Common(Option<u32>),
    /// One for those of each path.
    Split {
        limits: Vec<(PathId, u32)>,
        /// How many packets the SACK acknowledges, of which each would have been told by a SACK of its own.
        packets: u8,
    },
}

impl MissLimits {
    /// No limits yet. `split` is given where each path has its own: how many packets the SACK acknowledges.
    pub(crate) fn new(split: Option<u8>) -> MissLimits {
        match split {
            None => MissLimits::Common(None),
            Some(packets) => MissLimits::Split {
                limits: Vec::new(),
                packets,
            },
        }
    }

    /// How many miss indications a chunk gets: with delayed acknowledgements (DAC) as many as packets are
    /// acknowledged, if all of them came over one path.
    pub(crate) fn indications(&self) -> u8 {
        match self {
            MissLimits::Split { limits, packets } if limits.len() == 1 => *packets,
            _ => 1,
        }
    }

    /// The chunk at `offset`, which was sent on `path` last, is newly acknowledged. Where it was `moved`,
    /// nobody knows by which path it came.
    pub(crate) fn newly_acknowledged(&mut self, path: PathId, offset: u32, moved: bool) {
        match self {
            MissLimits::Common(highest) => *highest = (*highest).max(Some(offset)),
            MissLimits::Split { .. } if moved => {}
            MissLimits::Split { limits, .. } => {
                match limits.iter_mut().find(|(other, _)| *other == path) {
                    Some((_, highest)) => *highest = (*highest).max(offset),
                    None => limits.push((path, offset)),
                }
            }
        }
    }

    /// The association is in Fast Recovery, and the cumulative TSN moved: everything that is reported
    /// missing counts, where there is one limit for all (section 7.2.4).
    pub(crate) fn cumulative_advanced(&mut self, highest_reported: Option<u32>) {
        if let MissLimits::Common(limit) = self {
            *limit = highest_reported;
        }
    }

    /// The limit for chunks that were sent on `path` last.
    pub(crate) fn on(&self, path: PathId) -> Option<u32> {
        match self {
            MissLimits::Common(limit) => *limit,
            MissLimits::Split { limits, .. } => {
                let limit = limits.iter().find(|(other, _)| *other == path);
                limit.map(|(_, highest)| *highest)
            }
        }
    }

    /// The highest limit.
    pub(crate) fn highest(&self) -> Option<u32> {
        match self {
            MissLimits::Common(limit) => *limit,
            MissLimits::Split { limits, .. } => limits.iter().map(|(_, highest)| *highest).max(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_a_limit_of_its_own() {
        let [slow, fast] = [PathId::FIRST, PathId::FIRST.next().unwrap()];
        let mut limits = MissLimits::new(Some(2));
        assert_eq!(limits.highest(), None);
        limits.newly_acknowledged(fast, 9, false);
        assert_eq!(limits.indications(), 2);
        limits.newly_acknowledged(fast, 7, false);
        limits.newly_acknowledged(slow, 8, true);
        limits.cumulative_advanced(Some(20));
        assert_eq!((limits.on(fast), limits.on(slow)), (Some(9), None));
        assert_eq!(limits.highest(), Some(9));
        limits.newly_acknowledged(slow, 3, false);
        assert_eq!(limits.indications(), 1, "packets of several paths");
        let mut limits = MissLimits::new(None);
        limits.newly_acknowledged(fast, 9, true);
        assert_eq!((limits.on(fast), limits.on(slow)), (Some(9), Some(9)));
        limits.cumulative_advanced(Some(20));
        assert_eq!(limits.on(slow), Some(20));
    }
}
