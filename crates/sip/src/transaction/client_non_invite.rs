//! The non-INVITE client transaction: RFC 3261 section 17.1.2, Figure 6.

use super::TransactionConfig;
use super::action::{Action, Actions, Timer};

/// The state of a non-INVITE client transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The request was sent.
    Trying,
    /// A provisional response came.
    Proceeding,
    /// A final response came; retransmissions of it are absorbed.
    Completed,
    /// The end.
    Terminated,
}

/// The machine.
#[derive(Debug)]
pub(super) struct ClientNonInvite {
    state: State,
    is_reliable: bool,
    /// How often Timer E has fired.
    retransmissions: u8,
}

impl ClientNonInvite {
    /// The user has passed a request down.
    pub(super) fn start(
        config: &TransactionConfig,
        is_reliable: bool,
    ) -> (ClientNonInvite, Actions) {
        let machine = ClientNonInvite {
            state: State::Trying,
            is_reliable,
            retransmissions: 0,
        };
        let timer = if is_reliable {
            Action::Start(Timer::F, config.timeout())
        } else {
            // Timer F begins when this one fires.
            Action::Start(Timer::E, config.t1)
        };
        let actions = [Action::SendRequest, timer].into();
        (machine, actions)
    }

    /// A response of this status came.
    pub(super) fn handle_response(&mut self, status: u16, config: &TransactionConfig) -> Actions {
        match (self.state, status) {
            (State::Trying | State::Proceeding, ..200) => {
                self.state = State::Proceeding;
                [Action::PassUp].into()
            }
            // Timer K is zero on reliable transports.
            (State::Trying | State::Proceeding, _) if self.is_reliable => {
                self.state = State::Terminated;
                [Action::PassUp, Action::Terminate].into()
            }
            (State::Trying | State::Proceeding, _) => {
                self.state = State::Completed;
                [Action::PassUp, Action::Start(Timer::K, config.t4)].into()
            }
            (State::Completed | State::Terminated, _) => [Action::Absorb].into(),
        }
    }

    /// A timer fired.
    pub(super) fn handle_timer(&mut self, timer: Timer, config: &TransactionConfig) -> Actions {
        match (self.state, timer) {
            (State::Trying | State::Proceeding, Timer::E) => {
                self.retransmissions = self.retransmissions.saturating_add(1);
                let interval = match self.state {
                    State::Proceeding => config.t2,
                    _ => config.doubled_t1(self.retransmissions).min(config.t2),
                };
                let timer_e = Action::Start(Timer::E, interval);
                if self.retransmissions == 1 {
                    let timer_f = Action::Follow(Timer::F, config.timeout_after(config.t1));
                    [Action::RetransmitRequest, timer_e, timer_f].into()
                } else {
                    [Action::RetransmitRequest, timer_e].into()
                }
            }
            (State::Trying | State::Proceeding, Timer::F) => {
                self.state = State::Terminated;
                [Action::InformTimeout, Action::Terminate].into()
            }
            (State::Completed, Timer::K) => {
                self.state = State::Terminated;
                [Action::Terminate].into()
            }
            _ => Actions::none(),
        }
    }

    /// The request could not be sent.
    pub(super) fn handle_send_failure(&mut self) -> Actions {
        match self.state {
            State::Trying | State::Proceeding => {
                self.state = State::Terminated;
                [Action::InformFailure, Action::Terminate].into()
            }
            State::Completed | State::Terminated => Actions::none(),
        }
    }

    /// Whether the request can still be sent.
    pub(super) fn needs_message(&self) -> bool {
        matches!(self.state, State::Trying | State::Proceeding)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const T1: Duration = Duration::from_millis(500);
    const T2: Duration = Duration::from_secs(4);
    const T4: Duration = Duration::from_secs(5);
    const TIMEOUT: Duration = Duration::from_secs(32);

    fn config() -> TransactionConfig {
        TransactionConfig::default()
    }

    /// A machine on an unreliable transport to which these responses have come.
    fn after(statuses: &[u16]) -> ClientNonInvite {
        let (mut machine, _) = ClientNonInvite::start(&config(), false);
        for &status in statuses {
            machine.handle_response(status, &config());
        }
        machine
    }

    #[test]
    fn request_from_user() {
        let (machine, actions) = ClientNonInvite::start(&config(), false);
        assert_eq!(machine.state, State::Trying);
        let (timer_e, timer_f) = (
            Action::Start(Timer::E, T1),
            Action::Start(Timer::F, TIMEOUT),
        );
        assert_eq!(actions, [Action::SendRequest, timer_e]);

        let (_, actions) = ClientNonInvite::start(&config(), true);
        assert_eq!(actions, [Action::SendRequest, timer_f]);
    }

    #[test]
    fn trying_and_timer_e() {
        let mut machine = after(&[]);
        let again = Action::Start(Timer::E, T1 * 2);
        let timer_f = Action::Follow(Timer::F, TIMEOUT - T1);
        let actions = machine.handle_timer(Timer::E, &config());
        assert_eq!(actions, [Action::RetransmitRequest, again, timer_f]);
        for interval in [T1 * 4, T2, T2, T2] {
            let again = Action::Start(Timer::E, interval);
            let actions = machine.handle_timer(Timer::E, &config());
            assert_eq!(actions, [Action::RetransmitRequest, again]);
        }
        assert_eq!(machine.state, State::Trying);
    }

    #[test]
    fn proceeding_and_timer_e() {
        let mut machine = after(&[100]);
        let again = Action::Start(Timer::E, T2);
        let timer_f = Action::Follow(Timer::F, TIMEOUT - T1);
        let actions = machine.handle_timer(Timer::E, &config());
        assert_eq!(actions, [Action::RetransmitRequest, again, timer_f]);
        for _ in 0..3 {
            let again = Action::Start(Timer::E, T2);
            let actions = machine.handle_timer(Timer::E, &config());
            assert_eq!(actions, [Action::RetransmitRequest, again]);
        }
        assert_eq!(machine.state, State::Proceeding);
    }

    #[test]
    fn timer_f_and_transport_errors() {
        for statuses in [&[][..], &[100]] {
            let actions = after(statuses).handle_timer(Timer::F, &config());
            assert_eq!(actions, [Action::InformTimeout, Action::Terminate]);
            let actions = after(statuses).handle_send_failure();
            assert_eq!(actions, [Action::InformFailure, Action::Terminate]);
        }
    }

    #[test]
    fn responses() {
        for statuses in [&[][..], &[100], &[100, 183]] {
            let mut machine = after(statuses);
            assert_eq!(machine.handle_response(182, &config()), [Action::PassUp]);
            assert_eq!(machine.state, State::Proceeding);
            for status in [200, 302, 404, 503, 603] {
                let mut machine = after(statuses);
                let actions = machine.handle_response(status, &config());
                assert_eq!(actions, [Action::PassUp, Action::Start(Timer::K, T4)]);
                assert_eq!(machine.state, State::Completed);
            }
        }
    }

    #[test]
    fn completed_absorbs_until_timer_k() {
        let mut machine = after(&[200]);
        for status in [100, 200, 404] {
            assert_eq!(machine.handle_response(status, &config()), [Action::Absorb]);
        }
        for timer in [Timer::E, Timer::F] {
            assert_eq!(machine.handle_timer(timer, &config()), []);
        }
        assert_eq!(machine.handle_send_failure(), []);
        assert_eq!(
            machine.handle_timer(Timer::K, &config()),
            [Action::Terminate]
        );
    }

    #[test]
    fn completed_is_passed_over_on_reliable_transports() {
        let (mut machine, _) = ClientNonInvite::start(&config(), true);
        let actions = machine.handle_response(200, &config());
        assert_eq!(actions, [Action::PassUp, Action::Terminate]);
    }
}
