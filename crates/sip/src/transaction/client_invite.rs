//! The INVITE client transaction: RFC 3261 section 17.1.1, Figure 5 as RFC 6026 section 8.4 draws it.

use super::TransactionConfig;
use super::action::{Action, Actions, Timer};

/// The state of an INVITE client transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The INVITE was sent; Timer A runs on unreliable transports.
    Calling,
    /// A provisional response came.
    Proceeding,
    /// A non-2xx final response came; retransmissions of it are acknowledged.
    Completed,
    /// A 2xx came; further ones are the user's.
    Accepted,
    /// The end.
    Terminated,
}

/// The machine.
#[derive(Debug)]
pub(super) struct ClientInvite {
    state: State,
    is_reliable: bool,
    /// How often Timer A has fired.
    retransmissions: u8,
}

impl ClientInvite {
    /// The user has passed an INVITE down.
    pub(super) fn start(config: &TransactionConfig, is_reliable: bool) -> (ClientInvite, Actions) {
        let machine = ClientInvite {
            state: State::Calling,
            is_reliable,
            retransmissions: 0,
        };
        let timer = if is_reliable {
            Action::Start(Timer::B, config.timeout())
        } else {
            // Timer B begins when this one fires.
            Action::Start(Timer::A, config.t1)
        };
        let actions = [Action::SendRequest, timer].into();
        (machine, actions)
    }

    /// A response of this status came.
    pub(super) fn handle_response(&mut self, status: u16, config: &TransactionConfig) -> Actions {
        match (self.state, status) {
            (State::Calling, ..200) => {
                self.state = State::Proceeding;
                if self.is_reliable {
                    [Action::PassUp, Action::Start(Timer::A, config.t1)].into()
                } else {
                    [Action::PassUp].into()
                }
            }
            (State::Proceeding, ..200) => [Action::PassUp].into(),
            (State::Calling | State::Proceeding, 200..300) => {
                self.state = State::Accepted;
                [Action::PassUp, Action::Start(Timer::M, config.timeout())].into()
            }
            // Timer D is zero on reliable transports.
            (State::Calling | State::Proceeding, _) if self.is_reliable => {
                self.state = State::Terminated;
                [Action::SendAck, Action::PassUp, Action::Terminate].into()
            }
            (State::Calling | State::Proceeding, _) => {
                self.state = State::Completed;
                let timer_d = Action::Start(Timer::D, config.timer_d);
                [Action::SendAck, Action::PassUp, timer_d].into()
            }
            (State::Completed, 300..) => [Action::RetransmitAck, Action::Absorb].into(),
            (State::Accepted, 200..300) => [Action::PassUp].into(),
            (State::Completed | State::Accepted | State::Terminated, _) => [Action::Absorb].into(),
        }
    }

    /// A timer fired.
    pub(super) fn handle_timer(&mut self, timer: Timer, config: &TransactionConfig) -> Actions {
        match (self.state, timer) {
            (State::Calling, Timer::A) => {
                self.retransmissions = self.retransmissions.saturating_add(1);
                let timer_a = Action::Start(Timer::A, config.doubled_t1(self.retransmissions));
                if self.retransmissions == 1 {
                    let timer_b = Action::Follow(Timer::B, config.timeout_after(config.t1));
                    [Action::RetransmitRequest, timer_a, timer_b].into()
                } else {
                    [Action::RetransmitRequest, timer_a].into()
                }
            }
            // Most calls that are not answered by now go on ringing.
            (State::Proceeding, Timer::A) => [Action::KeepFollowerFields].into(),
            (State::Calling, Timer::B) => {
                self.state = State::Terminated;
                [Action::InformTimeout, Action::Terminate].into()
            }
            (State::Completed, Timer::D) | (State::Accepted, Timer::M) => {
                self.state = State::Terminated;
                [Action::Terminate].into()
            }
            _ => Actions::none(),
        }
    }

    /// The INVITE or its ACK could not be sent.
    pub(super) fn handle_send_failure(&mut self) -> Actions {
        match self.state {
            State::Calling | State::Completed => {
                self.state = State::Terminated;
                [Action::InformFailure, Action::Terminate].into()
            }
            State::Proceeding | State::Accepted | State::Terminated => Actions::none(),
        }
    }

    /// Whether a message can still be sent: the INVITE or its ACK.
    pub(super) fn needs_message(&self) -> bool {
        matches!(
            self.state,
            State::Calling | State::Proceeding | State::Completed
        )
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const T1: Duration = Duration::from_millis(500);
    const TIMEOUT: Duration = Duration::from_secs(32);
    const ACKNOWLEDGED: [Action; 3] = [
        Action::SendAck,
        Action::PassUp,
        Action::Start(Timer::D, TIMEOUT),
    ];
    const PROVISIONAL: [Action; 1] = [Action::PassUp];
    const ACCEPTED: [Action; 2] = [Action::PassUp, Action::Start(Timer::M, TIMEOUT)];

    fn config() -> TransactionConfig {
        TransactionConfig::default()
    }

    /// A machine on an unreliable transport to which these responses have come.
    fn after(statuses: &[u16]) -> ClientInvite {
        let (mut machine, _) = ClientInvite::start(&config(), false);
        for &status in statuses {
            machine.handle_response(status, &config());
        }
        machine
    }

    #[test]
    fn invite_from_user() {
        let (machine, actions) = ClientInvite::start(&config(), false);
        assert_eq!(machine.state, State::Calling);
        let (timer_a, timer_b) = (
            Action::Start(Timer::A, T1),
            Action::Start(Timer::B, TIMEOUT),
        );
        assert_eq!(actions, [Action::SendRequest, timer_a]);

        let (_, actions) = ClientInvite::start(&config(), true);
        assert_eq!(actions, [Action::SendRequest, timer_b]);
    }

    #[test]
    fn calling_and_timer_a() {
        let mut machine = after(&[]);
        let again = Action::Start(Timer::A, T1 * 2);
        let timer_b = Action::Follow(Timer::B, TIMEOUT - T1);
        let actions = machine.handle_timer(Timer::A, &config());
        assert_eq!(actions, [Action::RetransmitRequest, again, timer_b]);
        for factor in [4, 8, 16, 32, 64] {
            let again = Action::Start(Timer::A, T1 * factor);
            let actions = machine.handle_timer(Timer::A, &config());
            assert_eq!(actions, [Action::RetransmitRequest, again]);
        }
        assert_eq!(machine.state, State::Calling);
    }

    #[test]
    fn calling_and_timer_b() {
        let mut machine = after(&[]);
        let actions = machine.handle_timer(Timer::B, &config());
        assert_eq!(actions, [Action::InformTimeout, Action::Terminate]);
    }

    #[test]
    fn calling_and_transport_error() {
        let actions = after(&[]).handle_send_failure();
        assert_eq!(actions, [Action::InformFailure, Action::Terminate]);
    }

    #[test]
    fn calling_and_responses() {
        for (status, expected, state) in [
            (100, &PROVISIONAL[..], State::Proceeding),
            (199, &PROVISIONAL, State::Proceeding),
            (200, &ACCEPTED, State::Accepted),
            (299, &ACCEPTED, State::Accepted),
            (300, &ACKNOWLEDGED, State::Completed),
            (699, &ACKNOWLEDGED, State::Completed),
        ] {
            let mut machine = after(&[]);
            let actions = machine.handle_response(status, &config());
            assert_eq!(actions.iter().collect::<Vec<_>>(), expected);
            assert_eq!(machine.state, state);
        }
    }

    #[test]
    fn proceeding_and_responses() {
        for (status, expected, state) in [
            (180, &[Action::PassUp][..], State::Proceeding),
            (200, &ACCEPTED, State::Accepted),
            (486, &ACKNOWLEDGED, State::Completed),
        ] {
            let mut machine = after(&[100]);
            let actions = machine.handle_response(status, &config());
            assert_eq!(actions.iter().collect::<Vec<_>>(), expected);
            assert_eq!(machine.state, state);
        }
    }

    #[test]
    fn proceeding_ends_retransmission_and_timer_b() {
        let mut machine = after(&[100]);
        assert_eq!(
            machine.handle_timer(Timer::A, &config()),
            [Action::KeepFollowerFields]
        );
        assert_eq!(machine.handle_timer(Timer::B, &config()), []);
        assert_eq!(machine.handle_send_failure(), []);
        assert_eq!(machine.state, State::Proceeding);
    }

    #[test]
    fn what_is_not_sent_again_is_forgotten_on_reliable_transports_too() {
        let (mut machine, _) = ClientInvite::start(&config(), true);
        let actions = machine.handle_response(180, &config());
        assert_eq!(actions, [Action::PassUp, Action::Start(Timer::A, T1)]);
        assert_eq!(machine.handle_response(180, &config()), [Action::PassUp]);
        assert_eq!(
            machine.handle_timer(Timer::A, &config()),
            [Action::KeepFollowerFields]
        );
    }

    #[test]
    fn completed_acknowledges_again() {
        let mut machine = after(&[486]);
        for status in [300, 486, 699] {
            let actions = machine.handle_response(status, &config());
            assert_eq!(actions, [Action::RetransmitAck, Action::Absorb]);
        }
        for status in [100, 180, 200] {
            let actions = machine.handle_response(status, &config());
            assert_eq!(actions, [Action::Absorb]);
        }
        assert_eq!(machine.state, State::Completed);
    }

    #[test]
    fn completed_and_its_ends() {
        assert_eq!(
            after(&[486]).handle_timer(Timer::D, &config()),
            [Action::Terminate]
        );
        let actions = after(&[486]).handle_send_failure();
        assert_eq!(actions, [Action::InformFailure, Action::Terminate]);
    }

    #[test]
    fn completed_is_passed_over_on_reliable_transports() {
        let (mut machine, _) = ClientInvite::start(&config(), true);
        let actions = machine.handle_response(404, &config());
        assert_eq!(
            actions,
            [Action::SendAck, Action::PassUp, Action::Terminate]
        );
    }

    #[test]
    fn accepted_passes_every_2xx_and_nothing_else() {
        let mut machine = after(&[180, 200]);
        assert_eq!(machine.handle_response(200, &config()), [Action::PassUp]);
        assert_eq!(machine.handle_response(202, &config()), [Action::PassUp]);
        assert_eq!(machine.handle_response(180, &config()), [Action::Absorb]);
        assert_eq!(machine.handle_response(486, &config()), [Action::Absorb]);
        assert_eq!(machine.handle_send_failure(), []);
        for timer in [Timer::A, Timer::B] {
            assert_eq!(machine.handle_timer(timer, &config()), []);
        }
        assert!(!machine.needs_message());
        assert_eq!(
            machine.handle_timer(Timer::M, &config()),
            [Action::Terminate]
        );
    }

    #[test]
    fn accepted_lasts_on_reliable_transports_too() {
        let (mut machine, _) = ClientInvite::start(&config(), true);
        assert_eq!(machine.handle_response(200, &config()), ACCEPTED);
    }
}
