//! The names of the stream schedulers, as users write them.

use std::fmt;
use std::str::FromStr;

use crate::StreamScheduler;

impl StreamScheduler {
    /// Every scheduler, in the order of RFC 8260 section 3.
    pub const ALL: [StreamScheduler; 6] = [
        StreamScheduler::FirstComeFirstServed,
        StreamScheduler::RoundRobin,
        StreamScheduler::RoundRobinPerPacket,
        StreamScheduler::Priority,
        StreamScheduler::FairCapacity,
        StreamScheduler::WeightedFairQueueing,
    ];
}

/// The name of RFC 8260 section 3 in small letters, without its `SCTP_SS_`.
impl fmt::Display for StreamScheduler {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            StreamScheduler::FirstComeFirstServed => "fcfs",
            StreamScheduler::RoundRobin => "rr",
            StreamScheduler::RoundRobinPerPacket => "rr-pkt",
            StreamScheduler::Priority => "prio",
            StreamScheduler::FairCapacity => "fc",
            StreamScheduler::WeightedFairQueueing => "wfq",
        })
    }
}

/// There is no scheduler of this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no stream scheduler has this name: fcfs, rr, rr-pkt, prio, fc or wfq is expected")]
pub struct UnknownStreamScheduler;

impl FromStr for StreamScheduler {
    type Err = UnknownStreamScheduler;

    fn from_str(name: &str) -> Result<StreamScheduler, UnknownStreamScheduler> {
        StreamScheduler::ALL
            .into_iter()
            .find(|scheduler| scheduler.to_string() == name)
            .ok_or(UnknownStreamScheduler)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for scheduler in StreamScheduler::ALL {
            assert_eq!(scheduler.to_string().parse(), Ok(scheduler));
            let expected = UnknownStreamScheduler.to_string();
            assert!(expected.contains(&scheduler.to_string()), "{scheduler}");
        }
        assert_eq!("RR".parse::<StreamScheduler>(), Err(UnknownStreamScheduler));
    }
}
