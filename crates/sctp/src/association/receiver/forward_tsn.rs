//! The peer's FORWARD-TSN or I-FORWARD-TSN: it does not send again what is missing up to there (RFC 3758 section 3.6).

use super::Receiver;
use crate::AssociationConfig;
use crate::association::message_key::MessageKey;
use crate::association::path_id::PathId;
use crate::packet::{ForwardTsn, IForwardTsn, Mid, Tsn};

/// What became of a FORWARD-TSN or I-FORWARD-TSN.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Forwarding {
    /// The cumulative TSN has moved on.
    Advanced,
    /// It was there, or beyond, before.
    OutOfDate,
    /// It tells of more than the peer can have sent.
    OutOfReach,
}

/// What a FORWARD-TSN tells, or an I-FORWARD-TSN.
#[derive(Debug)]
pub(crate) struct Skip {
    /// It is an I-FORWARD-TSN (RFC 8260 section 2.3.1).
    pub(crate) interleaved: bool,
    /// What is missing up to there is not sent again.
    point: Tsn,
    /// The last message that is skipped of each stream.
    last: Vec<MessageKey>,
}

impl From<&ForwardTsn<'_>> for Skip {
    fn from(chunk: &ForwardTsn<'_>) -> Skip {
        let last = chunk.skipped.iter().map(|skipped| MessageKey {
            stream: skipped.stream,
            unordered: false,
            mid: Mid(skipped.ssn.0.into()),
        });
        Skip {
            interleaved: false,
            point: chunk.new_cumulative_tsn,
            last: last.collect(),
        }
    }
}

impl From<&IForwardTsn<'_>> for Skip {
    fn from(chunk: &IForwardTsn<'_>) -> Skip {
        let last = chunk.skipped.iter().map(|skipped| MessageKey {
            stream: skipped.stream,
            unordered: skipped.unordered,
            mid: skipped.mid,
        });
        Skip {
            interleaved: true,
            point: chunk.new_cumulative_tsn,
            last: last.collect(),
        }
    }
}

impl Receiver {
    /// Takes in a FORWARD-TSN or I-FORWARD-TSN that came on `path`. `budget` is how many more bytes the endpoint may
    /// hold.
    pub(crate) fn skip(
        &mut self,
        skip: &Skip,
        path: PathId,
        budget: usize,
        config: &AssociationConfig,
    ) -> Forwarding {
        let forwarding = self.forward_to(skip.point, &skip.last, path, config);
        if forwarding == Forwarding::Advanced {
            for last in &skip.last {
                if last.unordered {
                    self.streams.skip_unordered(last.stream, last.mid);
                } else if self.streams.skip(last.stream, last.mid) {
                    // It may be the turn of a message of which a part is there.
                    self.no_part_is_next = false;
                }
            }
            self.deliver_part(None, budget, config);
        }
        forwarding
    }

    /// Moves the cumulative TSN on, and throws away what waits for TSNs that are skipped.
    fn forward_to(
        &mut self,
        point: Tsn,
        last: &[MessageKey],
        path: PathId,
        config: &AssociationConfig,
    ) -> Forwarding {
        // It is acknowledged as DATA is.
        self.packet.data = true;
        self.data_path = Some(path);
        let cumulative = self.tsns.cumulative();
        if point <= cumulative {
            // The SACK may have been lost, so it is repeated at once.
            self.packet.duplicate = true;
            return Forwarding::OutOfDate;
        }
        if point.distance_from(cumulative) > most_sent(config) {
            self.packet.dropped = true;
            return Forwarding::OutOfReach;
        }
        let gaps = self.tsns.gaps().len();
        self.tsns.advance(point);
        self.packet.gap |= gaps > 0 || self.tsns.has_gaps();
        if self.tsns.gaps().len() < gaps {
            // Fragments that are held are no longer above the cumulative TSN.
            self.no_part_is_next = false;
        }
        self.has_skipped = true;
        let skipped = self.reassembly.skip(point, self.tsns.cumulative(), last);
        self.buffered -= skipped.bytes;
        for stream in skipped.handed_out_on {
            self.aborted.extend(self.streams.abort_partial(stream));
            self.no_part_is_next = false;
        }
        if !self.tsns.has_gaps() {
            self.out_of_order = 0;
        }
        self.starved = None;
        self.join_fragments(config);
        Forwarding::Advanced
    }
}

/// How many TSNs a peer can have sent that were not acknowledged: a chunk has a byte of user data at least,
/// and the window was never larger. As many as Gap Ack Blocks can tell of are taken in any case.
fn most_sent(config: &AssociationConfig) -> u32 {
    config.a_rwnd.max(u16::MAX.into())
}
