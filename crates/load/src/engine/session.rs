//! A session of a script: what it has done so far, its transactions, its dialog.

use sip::Method;

use super::buffers::Buffers;
use super::config::ConnectionId;
use super::redirection::Redirection;
use super::time::Time;
use crate::record::{Outcome, Party};
use crate::script::StepNumber;

/// No user, no session.
pub(super) const NOBODY: u32 = u32::MAX;

/// A session of a script.
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
    pub(super) invite: Client,
    pub(super) other: Client,
    pub(super) invited: ServerInvite,
    pub(super) asked: Server,
    /// Sequence number of our last request.
    pub(super) cseq: u32,
    /// Branches used so far.
    pub(super) branches: u16,
    pub(super) dialog: Dialog,
    pub(super) ack: Ack,
    pub(super) times: Times,
    pub(super) notes: Notes,
    /// The hash of the Call-ID, where the session is found by it.
    pub(super) call_id_hash: u64,
    /// The request that began the session, where it is needed later.
    pub(super) initial: Vec<u8>,
    /// The last message received, where it is needed later.
    pub(super) last: Vec<u8>,
    pub(super) extra: Option<Box<Extra>>,
}

/// What a session is about.
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

/// One of our requests and its transaction (RFC 3261 section 17.1).
#[derive(Debug)]
pub(super) struct Client {
    pub(super) state: ClientState,
    pub(super) method: Method,
    pub(super) cseq: u32,
    pub(super) branch: u16,
    /// The hash of the branch that the script has written instead of that one.
    pub(super) own_branch: Option<u64>,
    /// Which step has sent it.
    pub(super) step: StepNumber,
    /// Timers A and E, B and F.
    pub(super) timers: Timers,
    pub(super) message: Vec<u8>,
    /// How often it was sent with credentials, and the hashes of the realms that these were for.
    pub(super) attempts: u8,
    pub(super) realms: [u32; 3],
    pub(super) cancel: Cancel,
}

/// When a message of a transaction is repeated, and until when.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timers {
    pub(super) repeat_at: Time,
    pub(super) interval: std::time::Duration,
    pub(super) give_up_at: Time,
}

impl Timers {
    /// When something is due.
    fn next(self) -> Time {
        self.repeat_at.min(self.give_up_at)
    }

    /// Nothing is due any more.
    pub(super) fn stop(&mut self) {
        self.repeat_at = Time::NEVER;
        self.give_up_at = Time::NEVER;
    }
}

impl Default for Timers {
    fn default() -> Timers {
        Timers {
            repeat_at: Time::NEVER,
            interval: std::time::Duration::ZERO,
            give_up_at: Time::NEVER,
        }
    }
}

/// Where a client transaction stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum ClientState {
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
pub(super) enum Cancel {
    #[default]
    No,
    /// As soon as there is a provisional response (RFC 3261 section 9.1).
    Wanted,
    Sent,
}

impl Client {
    /// Whether a final response is still to come.
    pub(super) fn is_pending(&self) -> bool {
        matches!(self.state, ClientState::Calling | ClientState::Proceeding)
    }

    fn reset(&mut self, buffers: &mut Buffers) {
        self.state = ClientState::Idle;
        self.timers.stop();
        buffers.give_back(&mut self.message);
        self.attempts = 0;
        self.realms = [0; 3];
        self.cancel = Cancel::No;
    }
}

impl Default for Client {
    fn default() -> Client {
        Client {
            state: ClientState::Idle,
            method: Method::Invite,
            cseq: 0,
            branch: 0,
            own_branch: None,
            step: StepNumber(0),
            timers: Timers::default(),
            message: Vec::new(),
            attempts: 0,
            realms: [0; 3],
            cancel: Cancel::No,
        }
    }
}

/// The INVITE of the peer and its transaction (RFC 3261 sections 13.3.1.4 and 17.2.1).
#[derive(Debug)]
pub(super) struct ServerInvite {
    pub(super) state: ServerState,
    pub(super) cseq: u32,
    /// The hash of its branch.
    pub(super) branch: u64,
    /// Our last response.
    pub(super) response: Vec<u8>,
    /// Where that response was written, while it has not been copied.
    pub(super) written: Option<(usize, usize)>,
    /// Those of a final response: Timers G and H, or the repetitions of section 13.3.1.4 and their end.
    pub(super) timers: Timers,
}

/// Where a server transaction stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum ServerState {
    /// There is none.
    #[default]
    Idle,
    /// No final response yet.
    Proceeding,
    /// A final response was sent, to an INVITE one that has no ACK.
    Answered(u16),
    /// The ACK came.
    Acknowledged(u16),
}

impl Default for ServerInvite {
    fn default() -> ServerInvite {
        ServerInvite {
            state: ServerState::Idle,
            cseq: 0,
            branch: 0,
            response: Vec::new(),
            written: None,
            timers: Timers::default(),
        }
    }
}

impl ServerInvite {
    fn reset(&mut self, buffers: &mut Buffers) {
        self.state = ServerState::Idle;
        self.timers.stop();
        buffers.give_back(&mut self.response);
        self.written = None;
    }
}

/// The last request of the peer that is no INVITE, and its transaction (RFC 3261 section 17.2.2).
#[derive(Debug, Default)]
pub(super) struct Server {
    pub(super) state: ServerState,
    pub(super) cseq: u32,
    pub(super) branch: u64,
    pub(super) response: Vec<u8>,
    pub(super) written: Option<(usize, usize)>,
    /// Whether a script has said more in that response than can be made of the request once more.
    pub(super) says_more: bool,
}

impl Server {
    fn reset(&mut self, buffers: &mut Buffers) {
        self.state = ServerState::Idle;
        buffers.give_back(&mut self.response);
        self.written = None;
        self.says_more = false;
    }
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

/// A text of a dialog: where it is in [`Dialog::text`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Span {
    start: u16,
    length: u16,
}

impl Span {
    pub(super) fn is_empty(self) -> bool {
        self.length == 0
    }
}

/// What is known of the peer: all in one piece of memory, which the next session takes over.
#[derive(Debug, Default)]
pub(super) struct Dialog {
    text: Vec<u8>,
    /// The Call-ID, where it is not ours.
    pub(super) call_id: Span,
    /// From and To of the request that began the session, as they came.
    pub(super) from: Span,
    pub(super) to: Span,
    /// The peer's tag.
    pub(super) remote_tag: Span,
    /// The peer's Contact.
    pub(super) target: Span,
    /// Whole lines of Route.
    pub(super) routes: Span,
    /// Up to where the text does not change with the peer's answers.
    fixed: u16,
    /// Whether the tag is written by the script itself, and its hash then.
    pub(super) own_tag: u64,
    /// The highest sequence number of the peer's requests (RFC 3261 section 12.2.2).
    pub(super) remote_cseq: u32,
    /// Whether a 2xx to an INVITE was sent or received.
    pub(super) is_confirmed: bool,
    /// Whether a BYE was sent or received.
    pub(super) is_ended: bool,
    /// Whether the first proxy of the route set is a strict router (RFC 3261 section 12.2.1.1).
    pub(super) is_strict: bool,
}

/// How much of a peer's text a session keeps at most.
const MAXIMUM_TEXT: usize = 16 * 1024;

impl Dialog {
    pub(super) fn get(&self, span: Span) -> &[u8] {
        let start = usize::from(span.start);
        self.text
            .get(start..start + usize::from(span.length))
            .unwrap_or_default()
    }

    /// Keeps a text; nothing of it where there is no room.
    pub(super) fn push(&mut self, text: &[u8]) -> Span {
        self.push_with(|out| out.extend_from_slice(text))
    }

    /// Keeps a text that is written by a function; nothing of it where there is no room.
    pub(super) fn push_with(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> Span {
        let start = self.text.len();
        write(&mut self.text);
        if self.text.len() > MAXIMUM_TEXT {
            self.text.truncate(start);
        }
        Span {
            start: start as u16,
            length: (self.text.len() - start) as u16,
        }
    }

    /// What was kept so far stays.
    pub(super) fn fix(&mut self) {
        self.fixed = self.text.len() as u16;
    }

    /// Forgets what depends on the peer's answers.
    pub(super) fn forget_peer(&mut self) {
        self.text.truncate(usize::from(self.fixed));
        self.remote_tag = Span::default();
        self.target = Span::default();
        self.routes = Span::default();
        self.is_strict = false;
    }

    /// Replaces the peer's Contact, and nothing else (RFC 3261 section 12.2.1.2). One for which there is no
    /// room is not taken.
    pub(super) fn replace_target(&mut self, target: &[u8]) {
        if self.get(self.target) == target {
            return;
        }
        let tag = self.get(self.remote_tag).to_vec();
        let routes = self.get(self.routes).to_vec();
        let length = usize::from(self.fixed) + tag.len() + routes.len() + target.len();
        if length > MAXIMUM_TEXT {
            return;
        }
        let is_strict = self.is_strict;
        // The old texts go, so that a call that is changed often does not grow.
        self.forget_peer();
        self.remote_tag = self.push(&tag);
        self.target = self.push(target);
        self.routes = self.push(&routes);
        self.is_strict = is_strict;
    }

    /// Gets room for texts.
    pub(super) fn prepare(&mut self, buffers: &mut Buffers) {
        self.text = buffers.take_small();
    }

    fn reset(&mut self, buffers: &mut Buffers) {
        buffers.give_back(&mut self.text);
        *self = Dialog::default();
    }
}

/// When what happened.
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

/// What else a record says, and what the engine remembers of a session.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Notes {
    pub(super) status: u16,
    pub(super) bye_status: u16,
    pub(super) retransmissions: u32,
    pub(super) authentications: u8,
    /// A user who comes back is to come back when it has ended.
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
    /// It is in the table of Call-IDs.
    pub(super) is_in_table: bool,
    /// It is among the sessions of its connection.
    pub(super) is_listed: bool,
    /// The outcome, once it is known.
    pub(super) outcome: Option<Outcome>,
}

/// What few sessions have.
#[derive(Debug, Default)]
pub(super) struct Extra {
    pub(super) variables: Vec<Option<Vec<u8>>>,
    /// By number: when a timer was started and stopped.
    pub(super) timers: Vec<(Time, Time)>,
    /// Hashes of the tags of further callees of its INVITE, whose dialogs were ended.
    pub(super) forks: Vec<u64>,
    /// Where its request was redirected to.
    pub(super) redirection: Option<Box<Redirection>>,
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
            invite: Client::default(),
            other: Client::default(),
            invited: ServerInvite::default(),
            asked: Server::default(),
            cseq: 0,
            branches: 0,
            dialog: Dialog::default(),
            ack: Ack::None,
            times: Times::new(),
            notes: Notes::default(),
            call_id_hash: 0,
            initial: Vec::new(),
            last: Vec::new(),
            extra: None,
        }
    }

    /// When something is due.
    pub(super) fn next(&self) -> Time {
        self.wait_until
            .min(self.invite.timers.next())
            .min(self.other.timers.next())
            .min(self.invited.timers.next())
    }

    /// Whether the INVITE that began it has had no final response.
    pub(super) fn is_unanswered(&self) -> bool {
        self.invited.state == ServerState::Proceeding
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
        self.invite.reset(buffers);
        self.other.reset(buffers);
        self.invited.reset(buffers);
        self.asked.reset(buffers);
        self.cseq = 0;
        self.branches = 0;
        self.dialog.reset(buffers);
        self.ack = Ack::None;
        self.times = Times::new();
        self.notes = Notes::default();
        self.call_id_hash = 0;
        buffers.give_back(&mut self.initial);
        buffers.give_back(&mut self.last);
        self.extra = None;
    }
}
