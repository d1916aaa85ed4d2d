//! Our requests and their transactions (RFC 3261 section 17.1).

use std::time::Duration;

use sip::Method;

use super::timers::TransactionTimers;
use crate::engine::authentication::Understood;
use crate::engine::buffers::Buffers;
use crate::engine::config::Timers;
use crate::engine::time::Time;
use crate::script::StepNumber;

/// One of our requests and its transaction.
#[derive(Debug)]
pub(in crate::engine) struct ClientTransaction {
    pub(in crate::engine) state: ClientState,
    pub(in crate::engine) request: RequestIdentity,
    /// Timers A and E, B and F.
    pub(in crate::engine) timers: TransactionTimers,
    pub(in crate::engine) message: Vec<u8>,
    /// How often it was sent again as its responses had asked, and the hashes of the realms that had credentials then.
    pub(in crate::engine) attempts: u8,
    realms: [u32; 3],
    pub(in crate::engine) cancel: Cancel,
    /// The last provisional response; 0 before there is one.
    provisional: u16,
}

/// Method, sequence number and branch of a request.
#[derive(Clone, Debug)]
pub(in crate::engine) struct RequestIdentity {
    pub(in crate::engine) method: Method,
    pub(in crate::engine) cseq: u32,
    /// The number of the transaction in the branch that the engine writes.
    pub(in crate::engine) branch: u16,
    /// The fingerprint of the branch that the script has written instead of that one.
    pub(in crate::engine) own_branch: Option<u64>,
    /// Which step has sent it.
    pub(in crate::engine) step: StepNumber,
}

/// Where a client transaction stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::engine) enum ClientState {
    /// There is none.
    #[default]
    Idle,
    /// No response yet: Calling or Trying.
    Calling,
    /// A provisional one.
    Proceeding,
    /// A final one: Completed, or Accepted (RFC 6026 section 7.2).
    Final(u16),
}

/// Whether a request is to be cancelled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::engine) enum Cancel {
    #[default]
    No,
    /// As soon as there is a provisional response (RFC 3261 section 9.1).
    Wanted,
    Sent,
}

/// How often a request is sent again with credentials, or with a longer time, at most.
const MAXIMUM_ATTEMPTS: u8 = 4;

impl ClientTransaction {
    /// Begins the transaction of a request. Without `t1` it is not retransmitted, without `timeout` it waits for ever.
    pub(in crate::engine) fn begin(
        &mut self,
        request: RequestIdentity,
        now: Time,
        t1: Option<Duration>,
        timeout: Option<Duration>,
    ) {
        self.state = ClientState::Calling;
        self.request = request;
        self.timers.start(now, t1, timeout);
        self.cancel = Cancel::No;
        self.provisional = 0;
    }

    /// Ends the transaction without a response.
    pub(in crate::engine) fn abandon(&mut self) {
        self.state = ClientState::Idle;
        self.timers.stop();
    }

    /// Whether a final response is still to come.
    pub(in crate::engine) fn is_pending(&self) -> bool {
        matches!(self.state, ClientState::Calling | ClientState::Proceeding)
    }

    /// Whether it was answered with a 2xx.
    pub(in crate::engine) fn has_succeeded(&self) -> bool {
        matches!(self.state, ClientState::Final(200..300))
    }

    /// Whether it was answered with another final response than a 2xx.
    pub(in crate::engine) fn was_refused(&self) -> bool {
        matches!(self.state, ClientState::Final(300..))
    }

    /// A provisional response has come. Returns whether it says what the one before has not said.
    pub(in crate::engine) fn proceed(&mut self, now: Time, status: u16, timers: &Timers) -> bool {
        let is_new = std::mem::replace(&mut self.provisional, status) != status;
        let is_first = self.state == ClientState::Calling;
        self.state = ClientState::Proceeding;
        if self.request.method != Method::Invite {
            // From now on at intervals of T2 (section 17.1.2.2).
            self.timers.set_interval(timers.t2);
            return is_new;
        }
        self.timers.stop_retransmitting();
        if self.cancel != Cancel::Sent && (is_first || status > 100) {
            // Timer B is that of the state Calling alone (section 17.1.1.2). What follows is as with
            // Timer C, which 100 does not set again (section 16.7 step 2).
            self.timers.expire_at(now.after(timers.proceeding));
        }
        is_new
    }

    /// A final response has come.
    pub(in crate::engine) fn complete(&mut self, status: u16) {
        self.state = ClientState::Final(status);
        self.timers.stop();
    }

    /// Whether no response has come in time, which ends the transaction.
    pub(in crate::engine) fn times_out(&mut self, now: Time) -> bool {
        let is_silent = self.timers.has_expired(now);
        if is_silent {
            self.abandon();
        }
        is_silent
    }

    /// Whether the request may be sent again as its response asks.
    pub(in crate::engine) fn may_be_repeated(&self) -> bool {
        self.attempts < MAXIMUM_ATTEMPTS && self.cancel == Cancel::No
    }

    /// Forgets how often the request was sent again: another one follows.
    pub(in crate::engine) fn forget_attempts(&mut self) {
        self.attempts = 0;
        self.realms = [0; 3];
    }

    /// Whether challenges are to be answered: not where one comes again though it has been answered in this
    /// transaction, since the password is wrong then (section 22.1).
    pub(in crate::engine) fn may_answer(&mut self, challenges: &[Understood]) -> bool {
        if challenges.is_empty() {
            return false;
        }
        for challenge in challenges {
            if self.realms.contains(&challenge.realm) {
                if !challenge.is_stale {
                    return false;
                }
                continue;
            }
            if let Some(place) = self.realms.iter_mut().find(|realm| **realm == 0) {
                *place = challenge.realm;
            }
        }
        true
    }

    pub(super) fn reset(&mut self, buffers: &mut Buffers) {
        self.abandon();
        buffers.give_back(&mut self.message);
        self.forget_attempts();
        self.cancel = Cancel::No;
    }
}

impl Default for ClientTransaction {
    fn default() -> ClientTransaction {
        ClientTransaction {
            state: ClientState::Idle,
            request: RequestIdentity {
                method: Method::Invite,
                cseq: 0,
                branch: 0,
                own_branch: None,
                step: StepNumber::NONE,
            },
            timers: TransactionTimers::default(),
            message: Vec::new(),
            attempts: 0,
            realms: [0; 3],
            cancel: Cancel::No,
            provisional: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begun(method: Method) -> ClientTransaction {
        let timers = Timers::default();
        let mut client = ClientTransaction::default();
        let request = RequestIdentity {
            method,
            ..client.request.clone()
        };
        client.begin(request, Time::START, Some(timers.t1), Some(timers.give_up));
        client
    }

    fn at(seconds: u64) -> Time {
        Time::START.after(Duration::from_secs(seconds))
    }

    #[test]
    fn a_provisional_response_ends_timer_b_of_an_invite() {
        let timers = Timers::default();
        let mut invite = begun(Method::Invite);
        assert!(invite.timers.retransmits(at(1), Duration::MAX));
        invite.proceed(at(2), 180, &timers);
        assert!(!invite.timers.is_retransmitting() && invite.is_pending());
        // A 100 does not make it longer.
        invite.proceed(at(100), 100, &timers);
        assert!(!invite.times_out(at(181)) && invite.times_out(at(182)));
        assert_eq!(invite.state, ClientState::Idle);
    }

    #[test]
    fn another_request_goes_on_at_intervals_of_t2() {
        let timers = Timers::default();
        let mut bye = begun(Method::Bye);
        bye.proceed(Time::START, 100, &timers);
        assert!(bye.timers.retransmits(at(1), timers.t2));
        assert!(!bye.timers.retransmits(at(4), timers.t2));
        assert!(bye.timers.retransmits(at(5), timers.t2));
        assert!(bye.times_out(at(32)));
    }

    #[test]
    fn a_challenge_is_answered_once_unless_its_nonce_is_stale() {
        let mut client = begun(Method::Register);
        let challenge = |realm, is_stale| Understood { realm, is_stale };
        assert!(!client.may_answer(&[]));
        assert!(client.may_answer(&[challenge(1, false)]));
        assert!(client.may_answer(&[challenge(1, true), challenge(2, false)]));
        assert!(!client.may_answer(&[challenge(2, false)]));
        client.forget_attempts();
        assert!(client.may_answer(&[challenge(2, false)]));
    }
}
