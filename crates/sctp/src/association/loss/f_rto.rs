//! F-RTO (RFC 5682 section 3.1, with SACKs): whether T3-rtx expired for nothing, because everything was
//! only late. After the first retransmission new data leaves in place of others; if the next SACK
//! acknowledges something that was not sent again, it had arrived before.

use crate::association::path_id::PathId;
use crate::packet::Tsn;

/// New data in place of retransmissions: at most so many packets (step 2b).
const NEW_PACKETS: u8 = 2;

/// Which step of the algorithm is next.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum FRto {
    /// None.
    #[default]
    Off,
    /// Step 2: the first retransmission is to be acknowledged.
    Retransmitted {
        /// Where T3-rtx expired.
        path: PathId,
        /// RecoveryPoint.
        recovery_point: Tsn,
    },
    /// Step 3: the next SACK decides.
    NewData {
        /// Where T3-rtx expired.
        path: PathId,
        /// RecoveryPoint.
        recovery_point: Tsn,
        /// Packets with new data that may leave yet.
        packets: u8,
    },
}

/// What a SACK says.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Answer {
    pub(crate) cumulative: Tsn,
    /// The cumulative TSN moved.
    pub(crate) advanced: bool,
    /// The highest TSN that it newly acknowledges.
    pub(crate) highest: Option<Tsn>,
    /// It acknowledges something that T3-rtx has marked for retransmission, and that was not sent again.
    pub(crate) original_arrived: bool,
    /// There is new data, and the peer's window has room for it.
    pub(crate) has_new_data: bool,
}

impl FRto {
    /// T3-rtx of `path` expired (step 1); `highest` is the highest TSN sent.
    pub(crate) fn begin(path: PathId, highest: Tsn) -> FRto {
        FRto::Retransmitted {
            path,
            recovery_point: highest,
        }
    }

    /// Whether what is marked for retransmission waits, for new data goes in its place.
    pub(crate) fn holds_back(&self) -> bool {
        matches!(self, FRto::NewData { packets: 1.., .. })
    }

    /// A packet with new data left.
    pub(crate) fn new_data_sent(&mut self) {
        if let FRto::NewData { packets, .. } = self {
            *packets = packets.saturating_sub(1);
        }
    }

    /// A SACK came (steps 2 and 3). Gives the path on which T3-rtx expired for nothing.
    pub(crate) fn acknowledged(&mut self, answer: Answer) -> Option<PathId> {
        match *self {
            FRto::Off => None,
            FRto::Retransmitted {
                path,
                recovery_point,
            } => {
                if answer.advanced {
                    let is_covered = recovery_point <= answer.cumulative;
                    *self = if is_covered || !answer.has_new_data {
                        FRto::Off
                    } else {
                        FRto::NewData {
                            path,
                            recovery_point,
                            packets: NEW_PACKETS,
                        }
                    };
                }
                None
            }
            FRto::NewData {
                path,
                recovery_point,
                ..
            } => {
                *self = FRto::Off;
                let beyond = answer
                    .highest
                    .is_some_and(|highest| highest > recovery_point);
                (answer.original_arrived && !beyond).then_some(path)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATH: PathId = PathId::FIRST;

    fn answer(cumulative: u32) -> Answer {
        Answer {
            cumulative: Tsn(cumulative),
            advanced: true,
            highest: Some(Tsn(cumulative)),
            original_arrived: false,
            has_new_data: true,
        }
    }

    #[test]
    fn what_was_not_sent_again_and_arrives_after_the_first_answer_tells() {
        let mut f_rto = FRto::begin(PATH, Tsn(9));
        let early = Answer {
            original_arrived: true,
            ..answer(5)
        };
        assert_eq!(f_rto.acknowledged(early), None, "it may have come before");
        assert!(f_rto.holds_back());
        assert_eq!(f_rto.acknowledged(early), Some(PATH));
        assert_eq!(f_rto, FRto::Off);
    }

    #[test]
    fn ordinary_recovery_goes_on_otherwise() {
        let mut covered = FRto::begin(PATH, Tsn(9));
        covered.acknowledged(answer(9));
        assert_eq!(covered, FRto::Off, "step 2a");

        let mut without_data = FRto::begin(PATH, Tsn(9));
        without_data.acknowledged(Answer {
            has_new_data: false,
            ..answer(5)
        });
        assert_eq!(without_data, FRto::Off, "step 2b");

        let mut beyond = FRto::begin(PATH, Tsn(9));
        beyond.acknowledged(Answer {
            advanced: false,
            ..answer(4)
        });
        assert_eq!(beyond, FRto::begin(PATH, Tsn(9)), "a duplicate");
        beyond.acknowledged(answer(5));
        let new_data = Answer {
            original_arrived: true,
            highest: Some(Tsn(10)),
            ..answer(5)
        };
        assert_eq!(beyond.acknowledged(new_data), None, "step 3a");
    }

    #[test]
    fn two_packets_of_new_data_go_first() {
        let mut f_rto = FRto::begin(PATH, Tsn(9));
        assert!(!f_rto.holds_back());
        f_rto.acknowledged(answer(5));
        for _ in 0..2 {
            assert!(f_rto.holds_back());
            f_rto.new_data_sent();
        }
        assert!(!f_rto.holds_back());
    }
}
