//! Responses that the engine sends by itself: to requests outside of any session, and to those that no script expects.

use sip::{Method, StartLine};

use super::Engine;
use super::config::ConnectionId;
use super::identity::{SessionId, write_decimal};
use super::received::Received;
use super::recently_ended::EndedSession;
use super::time::Moment;
use super::writing::{write_line, write_vias};

/// The methods that the engine's own users understand, as Allow lists them.
const ALLOW: &[u8] = b"Allow: INVITE, ACK, CANCEL, BYE, OPTIONS\r\n";

/// The reason phrases of the answers that the engine gives by itself (RFC 3261 section 21).
fn reason(status: u16) -> &'static str {
    match status {
        100 => "Trying",
        200 => "OK",
        405 => "Method Not Allowed",
        481 => "Call/Transaction Does Not Exist",
        482 => "Loop Detected",
        487 => "Request Terminated",
        488 => "Not Acceptable Here",
        500 => "Server Internal Error",
        _ => "",
    }
}

impl Engine {
    /// Answers a request with a response that says nothing but its status, with the tag of a session (RFC 3261
    /// section 8.2.6), or one that belongs to none.
    pub(super) fn answer(
        &mut self,
        request: &Received<'_>,
        connection: ConnectionId,
        status: u16,
        session: SessionId,
    ) {
        let start = self.transmits.len();
        let out = self.transmits.buffer();
        out.extend_from_slice(b"SIP/2.0 ");
        write_decimal(status.into(), out);
        out.push(b' ');
        out.extend_from_slice(reason(status).as_bytes());
        out.extend_from_slice(b"\r\n");
        write_vias(request, self.connections.get(connection), out);
        write_line("From", request.from, out);
        out.extend_from_slice(b"To: ");
        out.extend_from_slice(request.to);
        if status > 100 && request.tag_of_to().is_none() {
            out.extend_from_slice(b";tag=");
            self.identity.write_tag(session, out);
        }
        out.extend_from_slice(b"\r\n");
        write_line("Call-ID", request.call_id, out);
        write_line("CSeq", request.cseq_value, out);
        if status == 405 || (status == 200 && request.cseq_method == Method::Options) {
            out.extend_from_slice(ALLOW);
        }
        out.extend_from_slice(b"Content-Length: 0\r\n\r\n");
        self.send_written(start, connection);
    }

    /// Answers a request that belongs to no session and begins none.
    pub(super) fn answer_stray(
        &mut self,
        moment: Moment,
        request: &Received<'_>,
        connection: ConnectionId,
    ) {
        let call = self.call(request);
        let branch = self.fingerprints.transaction(request);
        if let Some(EndedSession::Answered(answered)) = self.recently_ended.get(moment.now, call) {
            let is_invite = request.cseq_method == Method::Invite;
            if is_invite && answered.invite == Some(request.cseq) {
                // It has crossed what it led to.
                self.counters.repeated += 1;
                return;
            }
            let is_same = answered.cseq == request.cseq && answered.branch == branch;
            if !is_invite && is_same {
                self.counters.repeated += 1;
                self.counters.retransmissions += 1;
                let (status, session) = (answered.status, answered.session);
                match &answered.response {
                    Some(octets) => {
                        let start = self.transmits.len();
                        self.transmits.buffer().extend_from_slice(octets);
                        self.send_written(start, connection);
                    }
                    None => self.answer(request, connection, status, session),
                }
                return;
            }
            let acknowledges = request.cseq_method == Method::Ack;
            if acknowledges && answered.invite == Some(request.cseq) {
                self.counters.repeated += 1;
                return;
            }
        }
        self.counters.stray_requests += 1;
        let StartLine::Request { method, .. } = &request.start else {
            return;
        };
        let is_within = request.tag_of_to().is_some();
        let status = match method {
            // Nobody answers an ACK (RFC 3261 section 17.1.1.3).
            Method::Ack => return,
            _ if is_within => 481,
            Method::Cancel | Method::Bye => 481,
            Method::Options => 200,
            _ => 405,
        };
        // A tag that no session has: places are counted from 0.
        let nobody = SessionId {
            index: u32::MAX,
            generation: call as u32,
        };
        self.answer(request, connection, status, nobody);
    }
}
