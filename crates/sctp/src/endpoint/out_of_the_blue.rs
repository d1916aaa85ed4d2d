//! Packets that belong to no association (RFC 9260 section 8.4).

use super::Endpoint;
use crate::PathAddress;
use crate::packet::{Cause, CauseBuffer, Chunk, Packet};

/// What to do with a packet out of the blue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    None,
    Abort,
    ShutdownComplete,
}

impl Endpoint {
    /// Answers a packet out of the blue, by the rules of section 8.4 after the ones for non-unicast
    /// addresses, INIT and COOKIE ECHO, which are applied before. Either answer reflects the
    /// packet's verification tag.
    pub(super) fn handle_out_of_the_blue(&mut self, from: PathAddress, parsed: &Packet<'_>) {
        self.statistics.drops.out_of_the_blue += 1;
        let header = parsed.header();
        let address = self.reply_address(from, header.source_port, header.verification_tag);
        match answer_to(parsed) {
            Answer::None => {}
            Answer::Abort => self.replies.abort(address, true, &CauseBuffer::new()),
            Answer::ShutdownComplete => self.replies.shutdown_complete(address, true),
        }
    }
}

/// Rules 2 and 5 to 8. The first rule that any chunk of the packet fulfils holds.
fn answer_to(parsed: &Packet<'_>) -> Answer {
    let mut shutdown_ack = false;
    let mut discard = false;
    for chunk in parsed.chunks() {
        match chunk {
            Ok(Chunk::Abort(_)) => return Answer::None,
            Ok(Chunk::ShutdownAck) => shutdown_ack = true,
            Ok(Chunk::ShutdownComplete(_) | Chunk::CookieAck) => discard = true,
            Ok(Chunk::Error(error)) => {
                discard |= error
                    .causes
                    .iter()
                    .any(|cause| matches!(cause, Ok(Cause::StaleCookie { .. })));
            }
            _ => {}
        }
    }
    if shutdown_ack {
        Answer::ShutdownComplete
    } else if discard {
        Answer::None
    } else {
        Answer::Abort
    }
}
