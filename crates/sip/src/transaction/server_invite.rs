//! The INVITE server transaction: RFC 3261 section 17.2.1, Figure 7 as RFC 6026 section 8.6 draws it.

use std::time::Duration;

use super::TransactionConfig;
use super::action::{Action, Actions, Timer};

/// The state of an INVITE server transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The user is at work; no response was sent.
    Unanswered,
    /// As before, and a provisional response was sent: together with the former, "Proceeding".
    Proceeding,
    /// A non-2xx final response was sent and is retransmitted until its ACK comes.
    Completed,
    /// The ACK came.
    Confirmed,
    /// A 2xx was sent; its reliability is the user's business.
    Accepted,
    /// The end.
    Terminated,
}

/// The machine.
#[derive(Debug)]
pub(super) struct ServerInvite {
    state: State,
    is_reliable: bool,
    /// How often Timer G has fired.
    retransmissions: u8,
}

impl ServerInvite {
    /// An INVITE came that matches no transaction.
    pub(super) fn start(config: &TransactionConfig, is_reliable: bool) -> (ServerInvite, Actions) {
        let (state, actions) = match config.trying_after {
            Some(Duration::ZERO) => {
                let actions = [Action::SendTrying, Action::PassUp].into();
                (State::Proceeding, actions)
            }
            Some(delay) => {
                let actions = [Action::PassUp, Action::Start(Timer::Trying, delay)].into();
                (State::Unanswered, actions)
            }
            None => (State::Unanswered, [Action::PassUp].into()),
        };
        let machine = ServerInvite {
            state,
            is_reliable,
            retransmissions: 0,
        };
        (machine, actions)
    }

    /// The INVITE came again.
    pub(super) fn handle_retransmission(&mut self) -> Actions {
        match self.state {
            State::Proceeding | State::Completed => {
                [Action::RetransmitResponse, Action::Absorb].into()
            }
            State::Unanswered | State::Confirmed | State::Accepted | State::Terminated => {
                [Action::Absorb].into()
            }
        }
    }

    /// An ACK came.
    pub(super) fn handle_ack(&mut self, config: &TransactionConfig) -> Actions {
        match self.state {
            // Timer I is zero on reliable transports.
            State::Completed if self.is_reliable => {
                self.state = State::Terminated;
                [Action::Terminate].into()
            }
            State::Completed => {
                self.state = State::Confirmed;
                [Action::Start(Timer::I, config.t4)].into()
            }
            State::Accepted => [Action::PassUp].into(),
            State::Unanswered | State::Proceeding | State::Confirmed | State::Terminated => {
                [Action::Absorb].into()
            }
        }
    }

    /// The user has passed a response of this status down.
    pub(super) fn respond(&mut self, status: u16, config: &TransactionConfig) -> Actions {
        match (self.state, status) {
            (State::Unanswered | State::Proceeding, ..200) => {
                self.state = State::Proceeding;
                [Action::SendResponse].into()
            }
            (State::Unanswered | State::Proceeding, 200..300) => {
                self.state = State::Accepted;
                let timer_l = Action::Start(Timer::L, config.timeout());
                [Action::SendAnswer, timer_l].into()
            }
            (State::Unanswered | State::Proceeding, _) => {
                self.state = State::Completed;
                let timer_h = Action::Start(Timer::H, config.timeout());
                if self.is_reliable {
                    [Action::SendResponse, timer_h].into()
                } else {
                    let timer_g = Action::Start(Timer::G, config.t1);
                    [Action::SendResponse, timer_g, timer_h].into()
                }
            }
            (State::Accepted, 200..300) => [Action::SendAnswer].into(),
            (State::Completed | State::Confirmed | State::Accepted | State::Terminated, _) => {
                Actions::none()
            }
        }
    }

    /// The user refuses the INVITE, and whoever has sent it is not known: the response is sent once and the transaction
    /// ends, as in an element without state (RFC 3261 sections 16.11 and 26.3.2.4). Where the client has had a
    /// provisional response it does not repeat the INVITE, so that the response is [repeated](ServerInvite::respond).
    pub(super) fn refuse_once(&mut self, status: u16, config: &TransactionConfig) -> Actions {
        match self.state {
            State::Unanswered if status >= 400 && !self.is_reliable => {
                self.state = State::Terminated;
                [Action::SendResponse, Action::Terminate].into()
            }
            _ => self.respond(status, config),
        }
    }

    /// A timer fired.
    pub(super) fn handle_timer(&mut self, timer: Timer, config: &TransactionConfig) -> Actions {
        match (self.state, timer) {
            (State::Unanswered, Timer::Trying) => {
                self.state = State::Proceeding;
                [Action::SendTrying].into()
            }
            (State::Completed, Timer::G) => {
                self.retransmissions = self.retransmissions.saturating_add(1);
                let interval = config.doubled_t1(self.retransmissions).min(config.t2);
                let timer_g = Action::Start(Timer::G, interval);
                [Action::RetransmitResponse, timer_g].into()
            }
            (State::Completed, Timer::H) => {
                self.state = State::Terminated;
                [Action::InformAckTimeout, Action::Terminate].into()
            }
            (State::Confirmed, Timer::I) | (State::Accepted, Timer::L) => {
                self.state = State::Terminated;
                [Action::Terminate].into()
            }
            _ => Actions::none(),
        }
    }

    /// A response could not be sent. The state stays, so that retransmissions of the INVITE are
    /// still absorbed (RFC 6026 section 7.1).
    pub(super) fn handle_send_failure(&self) -> Actions {
        match self.state {
            State::Proceeding | State::Completed | State::Accepted => {
                [Action::InformFailure].into()
            }
            State::Unanswered | State::Confirmed | State::Terminated => Actions::none(),
        }
    }

    /// Whether a message can still be needed: the request, to build a 100, or the last response.
    pub(super) fn needs_message(&self) -> bool {
        matches!(
            self.state,
            State::Unanswered | State::Proceeding | State::Completed
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const T1: Duration = Duration::from_millis(500);
    const T2: Duration = Duration::from_secs(4);
    const T4: Duration = Duration::from_secs(5);
    const TIMEOUT: Duration = Duration::from_secs(32);

    fn config() -> TransactionConfig {
        TransactionConfig::default()
    }

    /// A machine on an unreliable transport whose user has sent these responses.
    fn after(statuses: &[u16]) -> ServerInvite {
        let (mut machine, _) = ServerInvite::start(&config(), false);
        for &status in statuses {
            machine.respond(status, &config());
        }
        machine
    }

    fn confirmed() -> ServerInvite {
        let mut machine = after(&[486]);
        machine.handle_ack(&config());
        assert_eq!(machine.state, State::Confirmed);
        machine
    }

    #[test]
    fn a_refusal_of_a_stranger_is_sent_once() {
        let mut machine = after(&[]);
        let actions = machine.refuse_once(407, &config());
        assert_eq!(actions, [Action::SendResponse, Action::Terminate]);
        // Whoever has had a provisional response waits for the final one.
        let mut machine = after(&[100]);
        let actions = machine.refuse_once(407, &config());
        let as_always = after(&[100]).respond(407, &config());
        assert!(actions.iter().eq(as_always.iter()));
        let (mut machine, _) = ServerInvite::start(&config(), true);
        let actions = machine.refuse_once(407, &config());
        assert!(
            !actions
                .iter()
                .any(|action| matches!(action, Action::Terminate))
        );
    }

    #[test]
    fn invite_from_network() {
        let trying_after = |trying_after| TransactionConfig {
            trying_after,
            ..config()
        };
        let (machine, actions) = ServerInvite::start(&config(), false);
        let delay = Duration::from_millis(200);
        assert_eq!(
            actions,
            [Action::PassUp, Action::Start(Timer::Trying, delay)]
        );
        assert_eq!(machine.state, State::Unanswered);

        let (machine, actions) = ServerInvite::start(&trying_after(Some(Duration::ZERO)), false);
        assert_eq!(actions, [Action::SendTrying, Action::PassUp]);
        assert_eq!(machine.state, State::Proceeding);

        let (_, actions) = ServerInvite::start(&trying_after(None), false);
        assert_eq!(actions, [Action::PassUp]);
    }

    #[test]
    fn a_100_is_sent_unless_the_user_was_quicker() {
        let mut machine = after(&[]);
        let actions = machine.handle_timer(Timer::Trying, &config());
        assert_eq!(actions, [Action::SendTrying]);
        assert_eq!(machine.state, State::Proceeding);
        for statuses in [&[180][..], &[200], &[486]] {
            let actions = after(statuses).handle_timer(Timer::Trying, &config());
            assert_eq!(actions, []);
        }
    }

    #[test]
    fn proceeding_and_retransmissions() {
        assert_eq!(after(&[]).handle_retransmission(), [Action::Absorb]);
        let mut machine = after(&[180]);
        let actions = machine.handle_retransmission();
        assert_eq!(actions, [Action::RetransmitResponse, Action::Absorb]);
        assert_eq!(machine.state, State::Proceeding);
    }

    #[test]
    fn proceeding_and_responses() {
        for statuses in [&[][..], &[180]] {
            let mut machine = after(statuses);
            for status in [101, 183, 199] {
                let actions = machine.respond(status, &config());
                assert_eq!(actions, [Action::SendResponse]);
                assert_eq!(machine.state, State::Proceeding);
            }
            for status in [200, 299] {
                let mut machine = after(statuses);
                let timer_l = Action::Start(Timer::L, TIMEOUT);
                let actions = machine.respond(status, &config());
                assert_eq!(actions, [Action::SendAnswer, timer_l]);
                assert_eq!(machine.state, State::Accepted);
            }
            for status in [300, 699] {
                let mut machine = after(statuses);
                let timer_g = Action::Start(Timer::G, T1);
                let timer_h = Action::Start(Timer::H, TIMEOUT);
                let actions = machine.respond(status, &config());
                assert_eq!(actions, [Action::SendResponse, timer_g, timer_h]);
                assert_eq!(machine.state, State::Completed);
            }
        }
    }

    #[test]
    fn proceeding_and_ack() {
        let mut machine = after(&[180]);
        assert_eq!(machine.handle_ack(&config()), [Action::Absorb]);
        assert_eq!(machine.state, State::Proceeding);
    }

    #[test]
    fn completed_retransmits() {
        let mut machine = after(&[486]);
        let actions = machine.handle_retransmission();
        assert_eq!(actions, [Action::RetransmitResponse, Action::Absorb]);
        for interval in [T1 * 2, T1 * 4, T2, T2] {
            let again = Action::Start(Timer::G, interval);
            let actions = machine.handle_timer(Timer::G, &config());
            assert_eq!(actions, [Action::RetransmitResponse, again]);
        }
        for status in [100, 200, 486] {
            assert_eq!(machine.respond(status, &config()), []);
        }
        assert_eq!(machine.state, State::Completed);
    }

    #[test]
    fn completed_and_its_ends() {
        let actions = after(&[486]).handle_timer(Timer::H, &config());
        assert_eq!(actions, [Action::InformAckTimeout, Action::Terminate]);
        let actions = after(&[486]).handle_ack(&config());
        assert_eq!(actions, [Action::Start(Timer::I, T4)]);
    }

    #[test]
    fn reliable_transports_need_no_timers_g_and_i() {
        let (mut machine, _) = ServerInvite::start(&config(), true);
        let actions = machine.respond(404, &config());
        let timer_h = Action::Start(Timer::H, TIMEOUT);
        assert_eq!(actions, [Action::SendResponse, timer_h]);
        assert_eq!(machine.handle_ack(&config()), [Action::Terminate]);
    }

    #[test]
    fn confirmed_absorbs_until_timer_i() {
        let mut machine = confirmed();
        assert_eq!(machine.handle_ack(&config()), [Action::Absorb]);
        assert_eq!(machine.handle_retransmission(), [Action::Absorb]);
        for timer in [Timer::G, Timer::H] {
            assert_eq!(machine.handle_timer(timer, &config()), []);
        }
        assert_eq!(machine.handle_send_failure(), []);
        assert_eq!(
            machine.handle_timer(Timer::I, &config()),
            [Action::Terminate]
        );
    }

    #[test]
    fn accepted_until_timer_l() {
        let mut machine = after(&[180, 200]);
        assert!(!machine.needs_message());
        assert_eq!(machine.handle_retransmission(), [Action::Absorb]);
        assert_eq!(machine.handle_ack(&config()), [Action::PassUp]);
        assert_eq!(machine.respond(200, &config()), [Action::SendAnswer]);
        assert_eq!(machine.respond(180, &config()), []);
        assert_eq!(machine.respond(486, &config()), []);
        assert_eq!(
            machine.handle_timer(Timer::L, &config()),
            [Action::Terminate]
        );
    }

    #[test]
    fn transport_errors_change_no_state() {
        for statuses in [&[180][..], &[486], &[200]] {
            let machine = after(statuses);
            let before = machine.state;
            assert_eq!(machine.handle_send_failure(), [Action::InformFailure]);
            assert_eq!(machine.state, before);
        }
    }
}
