//! Packets that belong to no association (RFC 9260 section 8.4).

use super::{Endpoint, is_unicast};
use crate::packet::{Cause, CauseBuffer, Chunk, CommonHeader, Packet, Protection};
use crate::replies::{Replies, ReplyAddress};
use crate::{PathAddress, Transmit};

/// Answers a packet to an SCTP port that no endpoint has (RFC 9260 section 8.4), for drivers that
/// share one carrier between endpoints. `packet` begins with the SCTP common header; `None` when
/// it is to be dropped silently.
pub fn answer_out_of_the_blue(from: PathAddress, packet: &[u8]) -> Option<Transmit> {
    let parsed = Packet::read(packet).ok()?;
    parsed.check().ok()?;
    if !is_unicast(from) {
        return None;
    }
    let header = parsed.header();
    let address = |verification_tag| ReplyAddress {
        to: from,
        local_port: header.destination_port,
        peer_port: header.source_port,
        verification_tag,
        protection: Protection::default(),
    };
    let mut replies = Replies::new(1, LARGEST_ANSWER);
    // RFC 4895 section 6.3: an AUTH chunk is not taken into account.
    let first = parsed
        .chunks()
        .find(|chunk| !matches!(chunk, Ok(Chunk::Auth(_))));
    match first {
        // Rule 3: refused with the tag that the INIT says.
        Some(Ok(Chunk::Init(init))) if init.initiate_tag != 0 => {
            replies.abort(address(init.initiate_tag), false, &CauseBuffer::new());
        }
        // Rule 4: a cookie that nobody here can have made (section 5.1.5).
        Some(Ok(Chunk::Init(_) | Chunk::CookieEcho(_))) => {}
        _ if header.verification_tag == 0 => {}
        _ => reply(&mut replies, address(header.verification_tag), &parsed),
    }
    replies.pop()
}

/// An ABORT or a SHUTDOWN COMPLETE without anything in it.
const LARGEST_ANSWER: usize = CommonHeader::LENGTH + 4;

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
        reply(&mut self.replies, address, parsed);
    }
}

fn reply(replies: &mut Replies, address: ReplyAddress, parsed: &Packet<'_>) {
    match answer_to(parsed) {
        Answer::None => {}
        Answer::Abort => replies.abort(address, true, &CauseBuffer::new()),
        Answer::ShutdownComplete => replies.shutdown_complete(address, true),
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
