//! Further callees of an INVITE that a proxy has forked: their dialogs are acknowledged and ended.

use sip::Method;

use super::Engine;
use super::identity::NOBODY;
use super::received::{Received, address_uri};
use super::session::{RequestIdentity, State, route_set};
use super::time::Time;
use super::writing::{copy_credentials, write_line};
use crate::record::Party;
use crate::script::{Script, StepNumber};

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
        let tag = response.tag_of_to().unwrap_or_default();
        let tag = self.fingerprints.text(tag);
        let id = self.sessions.id(index);
        let mut branch = Vec::new();
        let Some(session) = self.sessions.get_mut(index) else {
            return;
        };
        let number = session.invite_client.request.branch;
        self.identity.write_branch(id, number, &mut branch);
        branch.extend_from_slice(format!(".{tag:x}").as_bytes());
        let forks = &mut session.extra(script).forks;
        let is_known = forks.contains(&tag);
        let is_remembered = !is_known && forks.len() < MAXIMUM_FORKS;
        if is_remembered {
            forks.push(tag);
        }
        self.send_to_fork(index, response, &Method::Ack, &branch);
        if is_known {
            // Its BYE is retransmitted by the clock.
            return;
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
        let Some(parent) = self.sessions.get(of) else {
            return;
        };
        let (script_number, connection) = (parent.script, parent.connection);
        let cseq = parent.invite_client.request.cseq.saturating_add(1);
        let t1 = self.t1_of(of);
        let timeout = Some(self.config.timers.give_up);
        let index = self.sessions.allocate();
        let id = self.sessions.id(index);
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
        let bye = RequestIdentity {
            method: Method::Bye,
            cseq,
            branch: session.next_branch(),
            own_branch: None,
            step: StepNumber::NONE,
        };
        let mut branch = Vec::new();
        self.identity.write_branch(id, bye.branch, &mut branch);
        session.non_invite_client.begin(bye, now, t1, timeout);
        self.join_connection(index);
        let start = self.transmits.len();
        self.send_to_fork(of, response, &Method::Bye, &branch);
        if t1.is_some()
            && let Some(session) = self.sessions.get_mut(index)
        {
            let message = self.transmits.written(start..self.transmits.len());
            self.buffers
                .keep(&mut session.non_invite_client.message, message);
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
            Received::read(&session.invite_client.message),
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
        route_set::write_of_caller(response, out);
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
            copy_credentials(&session.invite_client.message, start, out);
        }
        let connection = session.connection;
        self.send_written(start, connection);
    }
}
