//! The settings of concurrent multipath transfer (CMT), and their names as users write them.

use std::fmt;
use std::str::FromStr;

/// Which path the next new data goes to, where several are used at a time
/// ([`AssociationConfig::cmt`](crate::AssociationConfig::cmt)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum PathScheduler {
    /// The paths take turns, as far as their congestion windows allow.
    RoundRobin,
    /// The path of the least round-trip time among those whose congestion windows allow more.
    MinRtt,
    /// Earliest Completion First (Lim 2017): a slower path is used only if what waits would not be sent sooner
    /// over the fastest one.
    #[default]
    Ecf,
    /// Blocking Estimation (Ferlin 2016): a slower path is used only if data in flight there would not block
    /// the window while the fastest one could go on.
    Blest,
    /// Each message goes over all paths, for what has to arrive soon; the receiver drops the duplicates.
    Redundant,
}

/// How send and receive buffers are divided among paths (Adhari 2011, Dreibholz 2011). What is
/// outstanding on one path cannot block the others then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum BufferSplitting {
    /// Any path may fill them.
    #[default]
    None,
    /// Each path has an equal share of the send buffer.
    Send,
    /// Each path has an equal share of the peer's receive buffer.
    Receive,
    /// Both.
    Both,
}

impl PathScheduler {
    /// Every scheduler.
    pub const ALL: [PathScheduler; 5] = [
        PathScheduler::RoundRobin,
        PathScheduler::MinRtt,
        PathScheduler::Ecf,
        PathScheduler::Blest,
        PathScheduler::Redundant,
    ];
}

impl BufferSplitting {
    /// Every way.
    pub const ALL: [BufferSplitting; 4] = [
        BufferSplitting::None,
        BufferSplitting::Send,
        BufferSplitting::Receive,
        BufferSplitting::Both,
    ];
}

impl fmt::Display for PathScheduler {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            PathScheduler::RoundRobin => "round-robin",
            PathScheduler::MinRtt => "min-rtt",
            PathScheduler::Ecf => "ecf",
            PathScheduler::Blest => "blest",
            PathScheduler::Redundant => "redundant",
        })
    }
}

impl fmt::Display for BufferSplitting {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            BufferSplitting::None => "none",
            BufferSplitting::Send => "send",
            BufferSplitting::Receive => "receive",
            BufferSplitting::Both => "both",
        })
    }
}

/// There is no path scheduler of this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "no path scheduler has this name: round-robin, min-rtt, ecf, blest or redundant is expected"
)]
pub struct UnknownPathScheduler;

/// There is no way to split buffers of this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("none, send, receive or both is expected")]
pub struct UnknownBufferSplitting;

impl FromStr for PathScheduler {
    type Err = UnknownPathScheduler;

    fn from_str(name: &str) -> Result<PathScheduler, UnknownPathScheduler> {
        PathScheduler::ALL
            .into_iter()
            .find(|scheduler| scheduler.to_string() == name)
            .ok_or(UnknownPathScheduler)
    }
}

impl FromStr for BufferSplitting {
    type Err = UnknownBufferSplitting;

    fn from_str(name: &str) -> Result<BufferSplitting, UnknownBufferSplitting> {
        BufferSplitting::ALL
            .into_iter()
            .find(|splitting| splitting.to_string() == name)
            .ok_or(UnknownBufferSplitting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for scheduler in PathScheduler::ALL {
            let name = scheduler.to_string();
            assert_eq!(name.parse(), Ok(scheduler));
            assert!(UnknownPathScheduler.to_string().contains(&name));
        }
        for splitting in BufferSplitting::ALL {
            let name = splitting.to_string();
            assert_eq!(name.parse(), Ok(splitting));
            assert!(UnknownBufferSplitting.to_string().contains(&name));
        }
        assert_eq!("ECF".parse::<PathScheduler>(), Err(UnknownPathScheduler));
        assert_eq!(
            "all".parse::<BufferSplitting>(),
            Err(UnknownBufferSplitting)
        );
    }
}
