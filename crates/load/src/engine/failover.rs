//! The second next hop: where a request goes whose first one does not answer (RFC 3263 section 4.3).

use super::Engine;
use super::config::ConnectionId;
use super::session::State;
use super::trigger::Trigger;
use crate::script::{Script, Step};

impl Engine {
    /// Names the connection by which requests outside of dialogs go that nobody has answered on another one, or
    /// that were answered 503 there, or for which that is not open (RFC 3263 section 4.3). Answers and all that
    /// follows in their dialogs go that way, too.
    pub fn set_alternative(&mut self, id: ConnectionId, alternative: ConnectionId) {
        self.connections.set_alternative(id, alternative);
    }

    /// Sends a request of a session once more by the other connection, where there is one: as a transaction of its own
    /// (RFC 3263 section 4.3). Returns whether it is sent.
    pub(super) fn fail_over(
        &mut self,
        script: &Script,
        index: u32,
        is_invite: bool,
        trigger: &Trigger<'_>,
    ) -> bool {
        let Some(session) = self.sessions.get(index) else {
            return false;
        };
        let number = session.client(is_invite).request.step;
        let Some(Step::Send(send)) = script.step(number) else {
            return false;
        };
        if session.state == State::Lingering || !session.may_go_elsewhere(is_invite) {
            return false;
        }
        let Some(alternative) = self.connections.alternative(session.connection) else {
            return false;
        };
        self.sessions.leave_connection(index);
        if let Some(session) = self.sessions.get_mut(index) {
            session.connection = alternative;
            session.dialog.forget_peer();
        }
        self.join_connection(index);
        self.counters.failovers += 1;
        self.send_instead(script, index, (number, send), trigger, false);
        true
    }

    /// The connection of a session is lost, on which it waits for answers: what it has asked is asked on the other one,
    /// where there is one. Returns whether it is.
    pub(super) fn fail_over_lost(
        &mut self,
        script: &Script,
        index: u32,
        is_invite: bool,
        trigger: &Trigger<'_>,
    ) -> bool {
        let is_sent = self.fail_over(script, index, is_invite, trigger);
        if is_sent {
            self.wait_anew(script, index, trigger);
        }
        is_sent
    }

    /// A script that waits for the answer to a request which has been sent elsewhere waits as long as before.
    pub(super) fn wait_anew(&mut self, script: &Script, index: u32, trigger: &Trigger<'_>) {
        let Some(session) = self.sessions.get_mut(index) else {
            return;
        };
        if session.state == State::Expecting
            && let Some(Step::Expect(expect)) = script.step(session.step)
            && let Some(timeout) = expect.timeout
        {
            session.wait_until = trigger.moment.now.after(timeout);
        }
    }
}
