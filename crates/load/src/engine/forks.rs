//! Further callees of an INVITE that a proxy has forked: their dialogs are acknowledged and ended.

use sip::Method;

use super::Engine;
use super::received::{Received, address_uri};
use super::render::{copy_credentials, write_line};
use super::responses::write_route_set;
use super::session::{ClientState, NOBODY, State};
use super::time::Time;
use crate::record::Party;
use crate::script::Script;

/// Callees of one INVITE whose BYEs are repeated until they are answered; those of others are sent once.
const MAXIMUM_FORKS: usize = 16;

impl Engine {
    /// A 2xx of another callee is a dialog of its own: it is acknowledged each time that it comes, and ended (RFC
    /// 3261 section 13.2.2.4).
    pub(super) fn end_fork(
        &mut self,
        script: &Script,
        index: u32,
        response: &Received<'_>,
        now: Time,
    ) {
        let tag = self.hash(response.tag_of_to().unwrap_or_default());
        let name = self.sessions.name(index);
        let mut branch = Vec::new();
        let Some(session) = self.sessions.get(index) else {
            return;
        };
        self.identity
            .write_branch(name, session.invite.branch, &mut branch);
        branch.extend_from_slice(format!(".{tag:x}").as_bytes());
        self.send_to_fork(index, response, &Method::Ack, &branch);
        let Some(extra) = self.extra(script, index) else {
            return;
        };
        if extra.forks.contains(&tag) {
            // Its BYE is repeated by the clock.
            return;
        }
        let is_remembered = extra.forks.len() < MAXIMUM_FORKS;
        if is_remembered {
            extra.forks.push(tag);
        }
        if !is_remembered || self.sessions.len() >= self.config.maximum_sessions {
            branch.extend_from_slice(b".BYE");
            self.send_to_fork(index, response, &Method::Bye, &branch);
            return;
        }
        self.begin_fork(script, index, response, now);
    }

    /// The BYE has a session of its own, which is nothing but its transaction (section 17.1.2).
    fn begin_fork(&mut self, script: &Script, of: u32, response: &Received<'_>, now: Time) {
        let timers = self.config.timers;
        let Some(parent) = self.sessions.get(of) else {
            return;
        };
        let (script_number, connection) = (parent.script, parent.connection);
        let cseq = parent.invite.cseq.saturating_add(1);
        let index = self.sessions.allocate();
        let is_unreliable = self
            .connections
            .get(connection)
            .is_some_and(|connection| connection.is_unreliable());
        let is_repeating = is_unreliable && self.config.is_repeating;
        let name = self.sessions.name(index);
        let Some(session) = self.sessions.fresh(index) else {
            return;
        };
        session.state = State::Lingering;
        session.party = Party::Caller;
        session.script = script_number;
        session.user = NOBODY;
        session.user_number = 0;
        session.peer_number = 0;
        session.connection = connection;
        session.dialog.is_ended = true;
        let branch_number = session.next_branch();
        let client = &mut session.other;
        client.method = Method::Bye;
        client.state = ClientState::Calling;
        client.cseq = cseq;
        client.branch = branch_number;
        client.own_branch = None;
        client.timers.interval = timers.t1;
        client.timers.give_up_at = now.after(timers.give_up);
        if is_repeating {
            client.timers.repeat_at = now.after(timers.t1);
        }
        self.list(index);
        let mut branch = Vec::new();
        self.identity.write_branch(name, branch_number, &mut branch);
        let start = self.transmits.len();
        self.send_to_fork(of, response, &Method::Bye, &branch);
        if is_repeating && let Some(session) = self.sessions.get_mut(index) {
            let message = self.transmits.written(start..self.transmits.len());
            self.buffers.keep(&mut session.other.message, message);
        }
        self.end_turn(script, index, now);
    }

    /// Writes a request within the dialog that a response of another callee has begun.
    fn send_to_fork(
        &mut self,
        index: u32,
        response: &Received<'_>,
        method: &Method,
        branch: &[u8],
    ) {
        let Some(session) = self.sessions.get(index) else {
            return;
        };
        let Some(connection) = self.connections.get(session.connection) else {
            return;
        };
        let (Ok(invite), Some(target)) = (
            Received::read(&session.invite.message),
            response.contact_uri().or(address_uri(response.to)),
        ) else {
            return;
        };
        let start = self.transmits.len();
        let out = self.transmits.buffer();
        out.extend_from_slice(method.as_str().as_bytes());
        out.push(b' ');
        out.extend_from_slice(target);
        out.extend_from_slice(b" SIP/2.0\r\nVia: SIP/2.0/");
        let transport = connection.connection.transport.via_name();
        out.extend_from_slice(transport.as_bytes());
        out.push(b' ');
        out.extend_from_slice(connection.local().as_bytes());
        out.extend_from_slice(b";branch=");
        out.extend_from_slice(branch);
        out.extend_from_slice(b"\r\nMax-Forwards: 70\r\n");
        write_route_set(response, out);
        for (field, value) in [
            ("From", invite.from),
            ("To", response.to),
            ("Call-ID", invite.call_id),
        ] {
            write_line(field, value, out);
        }
        // Each dialog has sequence numbers of its own (section 12.2.1.1).
        let cseq = match method {
            Method::Ack => invite.cseq,
            _ => invite.cseq.saturating_add(1),
        };
        let rest = format!("CSeq: {cseq} {method}\r\nContent-Length: 0\r\n\r\n");
        out.extend_from_slice(rest.as_bytes());
        if *method == Method::Ack {
            copy_credentials(&session.invite.message, start, out);
        }
        let connection = session.connection;
        self.send_written(start, connection);
    }
}
