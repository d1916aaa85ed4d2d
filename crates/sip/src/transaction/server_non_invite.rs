//! The non-INVITE server transaction: RFC 3261 section 17.2.2, Figure 8, with RFC 4320.

use super::TransactionConfig;
use super::action::{Action, Actions, Timer};

/// The state of a non-INVITE server transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The user is at work.
    Trying,
    /// A provisional response was sent.
    Proceeding,
    /// The final response was sent.
    Completed,
    /// The end.
    Terminated,
}

/// The machine.
///
/// A user that never answers leaves nothing behind: when the client has given up, no response is of
/// use any more (RFC 4320 section 4.2), and the transaction ends without one.
#[derive(Debug)]
pub(super) struct ServerNonInvite {
    state: State,
    is_reliable: bool,
}

impl ServerNonInvite {
    /// A request came that matches no transaction.
    pub(super) fn start(
        config: &TransactionConfig,
        is_reliable: bool,
    ) -> (ServerNonInvite, Actions) {
        let machine = ServerNonInvite {
            state: State::Trying,
            is_reliable,
        };
        let trying_after = config.time_until_timer_e_is_t2();
        let timer = if trying_after < config.timeout() {
            // Expiry follows it: most requests are answered before.
            Action::Start(Timer::Trying, trying_after)
        } else {
            Action::Start(Timer::Expiry, config.timeout())
        };
        (machine, [Action::PassUp, timer].into())
    }

    /// The request came again.
    pub(super) fn handle_retransmission(&mut self) -> Actions {
        match self.state {
            State::Proceeding | State::Completed => {
                [Action::RetransmitResponse, Action::Absorb].into()
            }
            State::Trying | State::Terminated => [Action::Absorb].into(),
        }
    }

    /// The user has passed a response of this status down.
    pub(super) fn respond(&mut self, status: u16, config: &TransactionConfig) -> Actions {
        match (self.state, status) {
            (State::Trying | State::Proceeding, ..200) => {
                self.state = State::Proceeding;
                [Action::SendResponse].into()
            }
            // Timer J is zero on reliable transports.
            (State::Trying | State::Proceeding, _) if self.is_reliable => {
                self.state = State::Terminated;
                [Action::SendResponse, Action::Terminate].into()
            }
            (State::Trying | State::Proceeding, _) => {
                self.state = State::Completed;
                let timer_j = Action::Start(Timer::J, config.timeout());
                [Action::SendResponse, timer_j].into()
            }
            (State::Completed | State::Terminated, _) => Actions::none(),
        }
    }

    /// A timer fired.
    pub(super) fn handle_timer(&mut self, timer: Timer, config: &TransactionConfig) -> Actions {
        let expiry = || {
            let rest = config.timeout_after(config.time_until_timer_e_is_t2());
            Action::Follow(Timer::Expiry, rest)
        };
        match (self.state, timer) {
            (State::Trying, Timer::Trying) => {
                self.state = State::Proceeding;
                [Action::SendTrying, expiry()].into()
            }
            (State::Proceeding, Timer::Trying) => [expiry()].into(),
            (State::Trying | State::Proceeding, Timer::Expiry) | (State::Completed, Timer::J) => {
                self.state = State::Terminated;
                [Action::Terminate].into()
            }
            _ => Actions::none(),
        }
    }

    /// A response could not be sent. The state stays (RFC 6026 section 8.8).
    pub(super) fn handle_send_failure(&self) -> Actions {
        match self.state {
            State::Proceeding | State::Completed => [Action::InformFailure].into(),
            State::Trying | State::Terminated => Actions::none(),
        }
    }

    /// Whether the final response was sent and is kept.
    pub(super) fn is_completed(&self) -> bool {
        self.state == State::Completed
    }

    /// Whether a message can still be needed: the request, to build a 100, or the last response.
    pub(super) fn needs_message(&self) -> bool {
        self.state != State::Terminated
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(32);
    const TRYING: Duration = Duration::from_millis(3500);

    fn config() -> TransactionConfig {
        TransactionConfig::default()
    }

    /// A machine on an unreliable transport whose user has sent these responses.
    fn after(statuses: &[u16]) -> ServerNonInvite {
        let (mut machine, _) = ServerNonInvite::start(&config(), false);
        for &status in statuses {
            machine.respond(status, &config());
        }
        machine
    }

    #[test]
    fn request_from_network() {
        let (machine, actions) = ServerNonInvite::start(&config(), false);
        let trying = Action::Start(Timer::Trying, TRYING);
        assert_eq!(actions, [Action::PassUp, trying]);
        assert_eq!(machine.state, State::Trying);

        // A client that has given up before is not told to wait.
        let slow = TransactionConfig {
            t2: Duration::from_secs(3600),
            ..config()
        };
        let (_, actions) = ServerNonInvite::start(&slow, false);
        let expiry = Action::Start(Timer::Expiry, TIMEOUT);
        assert_eq!(actions, [Action::PassUp, expiry]);
    }

    #[test]
    fn trying_discards_retransmissions() {
        let mut machine = after(&[]);
        assert_eq!(machine.handle_retransmission(), [Action::Absorb]);
        assert_eq!(machine.handle_send_failure(), []);
    }

    #[test]
    fn a_100_is_sent_unless_the_user_was_quicker() {
        let mut machine = after(&[]);
        let expiry = Action::Follow(Timer::Expiry, TIMEOUT - TRYING);
        let actions = machine.handle_timer(Timer::Trying, &config());
        assert_eq!(actions, [Action::SendTrying, expiry]);
        assert_eq!(machine.state, State::Proceeding);
        let actions = after(&[100]).handle_timer(Timer::Trying, &config());
        assert_eq!(actions, [expiry]);
        let actions = after(&[200]).handle_timer(Timer::Trying, &config());
        assert_eq!(actions, []);
    }

    #[test]
    fn responses() {
        for statuses in [&[][..], &[100]] {
            let mut machine = after(statuses);
            assert_eq!(machine.respond(100, &config()), [Action::SendResponse]);
            assert_eq!(machine.state, State::Proceeding);
            for status in [200, 302, 404, 503, 603] {
                let mut machine = after(statuses);
                let timer_j = Action::Start(Timer::J, TIMEOUT);
                let actions = machine.respond(status, &config());
                assert_eq!(actions, [Action::SendResponse, timer_j]);
                assert_eq!(machine.state, State::Completed);
            }
        }
    }

    #[test]
    fn proceeding_and_completed_repeat_the_response() {
        for statuses in [&[100][..], &[200]] {
            let mut machine = after(statuses);
            let before = machine.state;
            let actions = machine.handle_retransmission();
            assert_eq!(actions, [Action::RetransmitResponse, Action::Absorb]);
            assert_eq!(machine.handle_send_failure(), [Action::InformFailure]);
            assert_eq!(machine.state, before);
        }
    }

    #[test]
    fn completed_discards_responses_until_timer_j() {
        let mut machine = after(&[200]);
        for status in [100, 200, 500] {
            assert_eq!(machine.respond(status, &config()), []);
        }
        assert_eq!(machine.handle_timer(Timer::Expiry, &config()), []);
        assert_eq!(
            machine.handle_timer(Timer::J, &config()),
            [Action::Terminate]
        );
    }

    #[test]
    fn completed_is_passed_over_on_reliable_transports() {
        let (mut machine, _) = ServerNonInvite::start(&config(), true);
        let actions = machine.respond(200, &config());
        assert_eq!(actions, [Action::SendResponse, Action::Terminate]);
    }

    #[test]
    fn without_a_final_response_the_end_comes_when_the_client_gives_up() {
        for statuses in [&[][..], &[100]] {
            let actions = after(statuses).handle_timer(Timer::Expiry, &config());
            assert_eq!(actions, [Action::Terminate]);
        }
    }
}
