//! A session (RFC 7501 section 3.1.1): one run of a script by one of our users, with its transactions and its dialog.

mod client_transaction;
mod dialog;
pub(super) mod route_set;
mod server_transaction;
mod target_set;
mod timers;

use sip::Method;

use super::buffers::Buffers;
use super::config::ConnectionId;
use super::identity::NOBODY;
use super::received::Received;
use super::time::Time;
use super::transmit_queue::TransmitQueue;
use crate::record::{Outcome, Party};
use crate::script::{Script, StepNumber, Variable};

use client_transaction::ClientTransaction;
pub(super) use client_transaction::{Cancel, ClientState, RequestIdentity};
use dialog::Dialog;
pub(super) use server_transaction::ServerState;
use server_transaction::ServerTransaction;
pub(super) use target_set::TargetSet;

/// A session.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) generation: u32,
    pub(super) state: State,
    pub(super) party: Party,
    pub(super) script: u16,
    pub(super) step: StepNumber,
    /// The place of our user among the engine's, or [`NOBODY`].
    pub(super) user: u32,
    /// The number of our user; 0 for none.
    pub(super) user_number: u32,
    /// The number of the user at the other end; 0 where it is not known.
    pub(super) peer_number: u32,
    pub(super) connection: ConnectionId,
    /// The sessions that began before and after it on the same connection, of those that can be lost; or [`NOBODY`].
    pub(super) older: u32,
    pub(super) newer: u32,
    /// How many sessions had begun when this one did, it included.
    pub(super) number: u64,
    /// When a pause ends, or waiting for a message.
    pub(super) wait_until: Time,
    /// Our last INVITE.
    pub(super) invite_client: ClientTransaction,
    /// Our last other request.
    pub(super) non_invite_client: ClientTransaction,
    /// The peer's last INVITE.
    pub(super) invite_server: ServerTransaction,
    /// The peer's last other request.
    pub(super) non_invite_server: ServerTransaction,
    /// Sequence number of our last request.
    pub(super) cseq: u32,
    /// Branches used so far.
    pub(super) branches: u16,
    pub(super) dialog: Dialog,
    pub(super) ack: Ack,
    pub(super) times: Times,
    pub(super) notes: Notes,
    /// The fingerprint of the Call-ID, where the session is found by it.
    pub(super) call_id_fingerprint: u64,
    /// The request that began the session, where it is needed later.
    pub(super) initial: Vec<u8>,
    /// The last message received, where it is needed later.
    pub(super) last: Vec<u8>,
    pub(super) extra: Option<Box<Extra>>,
}

/// The state of a session's script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Its place is free.
    Free,
    /// A step is being done.
    Running,
    /// It waits for a message.
    Expecting,
    /// It waits for a time.
    Pausing,
    /// Its script is over and its record written; transactions go on.
    Lingering,
}

/// The kind of a request that arrives within a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    /// It has come before.
    Retransmission,
    /// It has come by another way already (RFC 3261 section 8.2.2.2).
    Merged,
    /// It is older than one that has come (section 12.2.2).
    OutOfOrder,
    New,
}

/// How the ACK is sent again when the response comes again (RFC 3261 sections 13.2.2.4 and 17.1.1.2).
#[derive(Debug, Default)]
pub(super) enum Ack {
    /// None was sent.
    #[default]
    None,
    /// By the same step: its template says the same again.
    Step(StepNumber, u16),
    /// As it was.
    Octets(Box<[u8]>),
}

/// The times of a session's events.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    pub(super) due: Time,
    pub(super) begun: Time,
    pub(super) first_invited: Time,
    pub(super) invited: Time,
    /// The INVITE came to its callee.
    pub(super) reached: Time,
    pub(super) first_provisional: Time,
    pub(super) progress: Time,
    pub(super) answered: Time,
    pub(super) acknowledged: Time,
    pub(super) bye: Time,
    pub(super) bye_answered: Time,
}

impl Times {
    fn new() -> Times {
        Times {
            due: Time::NEVER,
            begun: Time::NEVER,
            first_invited: Time::NEVER,
            invited: Time::NEVER,
            reached: Time::NEVER,
            first_provisional: Time::NEVER,
            progress: Time::NEVER,
            answered: Time::NEVER,
            acknowledged: Time::NEVER,
            bye: Time::NEVER,
            bye_answered: Time::NEVER,
        }
    }
}

/// Further values for the record of a session, and flags.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Notes {
    pub(super) status: u16,
    pub(super) bye_status: u16,
    pub(super) retransmissions: u32,
    pub(super) authentications: u8,
    /// The user repeats the call when it has ended.
    pub(super) is_repeating: bool,
    /// It removes a binding.
    pub(super) is_unregistering: bool,
    /// The user was registered when it began.
    pub(super) is_refresh: bool,
    /// Seconds for which the registrar holds the binding.
    pub(super) expires: Option<u32>,
    /// An ACK has come that no step has expected yet.
    pub(super) has_early_ack: bool,
    /// No message has been kept yet.
    pub(super) is_first_turn: bool,
    /// A BYE is to follow as soon as it may.
    pub(super) is_bye_wanted: bool,
    /// The record of its set-up was written.
    pub(super) is_setup_recorded: bool,
    /// The (first) BYE was the peer's.
    pub(super) is_bye_from_peer: bool,
    /// It counts as in flight.
    pub(super) is_in_flight: bool,
    /// It is filed under its Call-ID.
    pub(super) is_filed: bool,
    /// It is among the sessions of its connection, which can be lost.
    pub(super) is_on_connection: bool,
    /// The outcome, once it is known.
    pub(super) outcome: Option<Outcome>,
}

/// State that few sessions need.
#[derive(Debug, Default)]
pub(super) struct Extra {
    pub(super) variables: Vec<Option<Vec<u8>>>,
    /// By number: when a timer was started and stopped.
    pub(super) timers: Vec<(Time, Time)>,
    /// Hashes of the tags of further callees of its INVITE, whose dialogs were ended.
    pub(super) forks: Vec<u64>,
    /// Where its request was redirected to.
    pub(super) targets: Option<Box<TargetSet>>,
}

impl Session {
    pub(super) fn new() -> Session {
        Session {
            generation: 0,
            state: State::Free,
            party: Party::Caller,
            script: 0,
            step: StepNumber(0),
            user: NOBODY,
            user_number: 0,
            peer_number: 0,
            connection: ConnectionId(0),
            older: NOBODY,
            newer: NOBODY,
            number: 0,
            wait_until: Time::NEVER,
            invite_client: ClientTransaction::default(),
            non_invite_client: ClientTransaction::default(),
            invite_server: ServerTransaction::default(),
            non_invite_server: ServerTransaction::default(),
            cseq: 0,
            branches: 0,
            dialog: Dialog::default(),
            ack: Ack::None,
            times: Times::new(),
            notes: Notes::default(),
            call_id_fingerprint: 0,
            initial: Vec::new(),
            last: Vec::new(),
            extra: None,
        }
    }

    /// When something is due.
    pub(super) fn next(&self) -> Time {
        self.wait_until
            .min(self.invite_client.timers.next())
            .min(self.non_invite_client.timers.next())
            .min(self.invite_server.timers.next())
    }

    /// The transaction of our last INVITE, or of our last other request.
    pub(super) fn client(&self, is_invite: bool) -> &ClientTransaction {
        match is_invite {
            true => &self.invite_client,
            false => &self.non_invite_client,
        }
    }

    /// As [`client`](Session::client).
    pub(super) fn client_mut(&mut self, is_invite: bool) -> &mut ClientTransaction {
        match is_invite {
            true => &mut self.invite_client,
            false => &mut self.non_invite_client,
        }
    }

    /// Classifies a request of the peer by its sequence number and the fingerprint of its branch.
    pub(super) fn classify(&self, request: &Received<'_>, branch: u64) -> Arrival {
        let server = match request.cseq_method {
            Method::Invite => &self.invite_server,
            _ => &self.non_invite_server,
        };
        if server.has_cseq(request.cseq) && server.branch == branch {
            return Arrival::Retransmission;
        }
        if request.cseq_method == Method::Invite && server.has_cseq(request.cseq) {
            return Arrival::Merged;
        }
        if request.cseq < self.dialog.remote_cseq {
            return Arrival::OutOfOrder;
        }
        Arrival::New
    }

    /// Begins the server transaction of a request.
    pub(super) fn begin_server(&mut self, request: &Received<'_>, branch: u64) {
        self.dialog.remote_cseq = request.cseq;
        match request.cseq_method {
            Method::Invite => self.invite_server.begin(request.cseq, branch),
            _ => self.non_invite_server.begin(request.cseq, branch),
        }
    }

    /// Whether a request of ours may go elsewhere: it is outside of a dialog, and not given up meanwhile.
    pub(super) fn may_go_elsewhere(&self, is_invite: bool) -> bool {
        self.party == Party::Caller
            && !self.dialog.is_confirmed
            && self.client(is_invite).cancel == Cancel::No
            && (is_invite || self.dialog.remote_tag.is_empty())
    }

    /// Whether our last INVITE was sent within its dialog.
    pub(super) fn has_reinvited(&self) -> bool {
        Received::read(&self.invite_client.message).is_ok_and(|invite| invite.tag_of_to().is_some())
    }

    /// Whether a 2xx to an INVITE that begins a dialog comes from another callee than the first one did.
    pub(super) fn is_fork(&self, response: &Received<'_>) -> bool {
        self.dialog.is_of_another(response) && !self.has_reinvited()
    }

    /// Copies responses of this turn that may have to be sent again.
    pub(super) fn keep_responses(&mut self, transmits: &TransmitQueue, buffers: &mut Buffers) {
        self.invite_server.keep_response(transmits, buffers);
        self.non_invite_server.keep_response(transmits, buffers);
    }

    /// The state that few sessions need, with room for the variables and timers of the script.
    pub(super) fn extra(&mut self, script: &Script) -> &mut Extra {
        self.extra.get_or_insert_with(|| {
            Box::new(Extra {
                variables: vec![None; script.variables().len()],
                timers: vec![(Time::NEVER, Time::NEVER); script.timers()],
                forks: Vec::new(),
                targets: None,
            })
        })
    }

    /// The value of a variable.
    pub(super) fn variable(&self, variable: Variable) -> Option<&[u8]> {
        let extra = self.extra.as_deref()?;
        extra.variables.get(usize::from(variable.0))?.as_deref()
    }

    /// Whether the INVITE that began it has had no final response.
    pub(super) fn is_unanswered(&self) -> bool {
        self.invite_server.state == ServerState::Proceeding
    }

    /// Whether it is a call of ours that has been set up and goes on.
    pub(super) fn is_held(&self) -> bool {
        self.party == Party::Caller
            && matches!(self.state, State::Expecting | State::Pausing)
            && self.times.acknowledged.is_known()
            && !self.times.bye.is_known()
    }

    /// The number of the next transaction.
    pub(super) fn next_branch(&mut self) -> u16 {
        self.branches = self.branches.wrapping_add(1);
        self.branches
    }

    /// Whether a transaction is not over, so that the session has to linger.
    pub(super) fn is_busy(&self) -> bool {
        self.next().is_known()
    }

    /// Everything as at the beginning, but the memory.
    pub(super) fn reset(&mut self, buffers: &mut Buffers) {
        self.generation = self.generation.wrapping_add(1);
        self.state = State::Free;
        self.step = StepNumber(0);
        self.older = NOBODY;
        self.newer = NOBODY;
        self.wait_until = Time::NEVER;
        self.invite_client.reset(buffers);
        self.non_invite_client.reset(buffers);
        self.invite_server.reset(buffers);
        self.non_invite_server.reset(buffers);
        self.cseq = 0;
        self.branches = 0;
        self.dialog.reset(buffers);
        self.ack = Ack::None;
        self.times = Times::new();
        self.notes = Notes::default();
        self.call_id_fingerprint = 0;
        buffers.give_back(&mut self.initial);
        buffers.give_back(&mut self.last);
        self.extra = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn invite(cseq: u32) -> String {
        format!(
            "INVITE sip:b@x SIP/2.0\r\nVia: SIP/2.0/UDP a;branch=z9hG4bK1\r\nFrom: <sip:a@x>;tag=1\r\n\
             To: <sip:b@x>\r\nCall-ID: c\r\nCSeq: {cseq} INVITE\r\n\r\n"
        )
    }

    #[test]
    fn requests_are_told_apart_by_sequence_number_and_branch() {
        let text = [1, 2, 3].map(invite);
        let [first, second, third] = text
            .each_ref()
            .map(|text| Received::read(text.as_bytes()).unwrap());
        let mut session = Session::new();
        assert_eq!(session.classify(&second, 7), Arrival::New);
        session.begin_server(&second, 7);
        assert!(session.is_unanswered());
        assert_eq!(session.classify(&second, 7), Arrival::Retransmission);
        assert_eq!(session.classify(&second, 8), Arrival::Merged);
        assert_eq!(session.classify(&first, 8), Arrival::OutOfOrder);
        assert_eq!(session.classify(&third, 8), Arrival::New);
    }

    #[test]
    fn another_callee_is_a_fork_but_not_of_an_invite_within_the_dialog() {
        let answer = |tag| {
            invite(1)
                .replace("INVITE sip:b@x SIP/2.0", "SIP/2.0 200 OK")
                .replace("To: <sip:b@x>", &format!("To: <sip:b@x>;tag={tag}"))
        };
        let (one, other) = (answer("one"), answer("other"));
        let [one, other] = [&one, &other].map(|text| Received::read(text.as_bytes()).unwrap());
        let mut session = Session::new();
        session.invite_client.message = invite(1).into_bytes();
        session.dialog.learn_callee(&one);
        assert!(!session.is_fork(&one) && session.is_fork(&other));
        assert!(session.may_go_elsewhere(true) && !session.may_go_elsewhere(false));
        let within = invite(2).replace("To: <sip:b@x>", "To: <sip:b@x>;tag=one");
        session.invite_client.message = within.into_bytes();
        assert!(session.has_reinvited() && !session.is_fork(&other));
    }

    #[test]
    fn a_place_is_as_new_when_it_is_used_again() {
        let mut buffers = Buffers::default();
        let mut session = Session::new();
        session.state = State::Lingering;
        let text = invite(5);
        let request = Received::read(text.as_bytes()).unwrap();
        session.begin_server(&request, 1);
        session.dialog.learn_caller(&request);
        session.wait_until = Time::START;
        session.reset(&mut buffers);
        assert_eq!((session.generation, session.state), (1, State::Free));
        assert!(!session.is_busy() && session.dialog.call_id.is_empty());
        assert_eq!(session.classify(&request, 1), Arrival::New);
    }
}
