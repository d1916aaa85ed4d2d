//! The transaction layer: every machine of RFC 3261 section 17 with the corrections of RFC 6026.
//!
//! [`Transactions`] stands between the transports and a transaction user, which is the core of a
//! proxy or of a user agent. It is fed with the messages that come, the user's requests and
//! responses, and the time; it is polled for messages to send and for events. One owner holds it, and
//! nothing in it waits.
//!
//! Each machine is a file of its own that knows a state and what to do on each arc of its figure:
//! `client_invite` (Figure 5), `client_non_invite` (Figure 6), `server_invite` (Figure 7) and
//! `server_non_invite` (Figure 8). `clients` and `servers` find the machine for a message and do
//! what it asks for.

mod action;
mod client_invite;
mod client_non_invite;
mod clients;
mod common;
mod config;
mod event;
mod id;
mod index;
mod keyed;
mod matching;
mod routing;
mod server;
mod server_invite;
mod server_non_invite;
mod servers;
mod statistics;
mod table;
mod timers;

use std::collections::VecDeque;
use std::hint::black_box;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use ahash::RandomState;
use bytes::Bytes;
use rand::RngExt;
use rand_chacha::ChaCha12Rng;

use crate::token::push_token;
use crate::{Flow, MAGIC_COOKIE, Message, Method, Name, Peek, Peer, Target, Transmit};

use clients::Clients;
use common::Common;
use routing::ResponseRoute;
use servers::Servers;

pub use config::TransactionConfig;
pub use event::TransactionEvent;
pub use id::{ClientId, ServerId, TransactionKey};
pub use routing::note_source;
pub use statistics::TransactionStatistics;

/// Why a request was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendRequestError {
    /// There are as many client transactions as the configuration allows.
    #[error("too many transactions")]
    Overloaded,
    /// The message is no request, or an ACK, which makes no transaction; or it lacks what names a
    /// transaction: a branch in the topmost Via, Call-ID, CSeq with its method.
    #[error("not a request that makes a transaction")]
    NoTransaction,
    /// A transaction with this branch and method is under way.
    #[error("branch in use")]
    BranchInUse,
}

/// A request as it goes on the wire, with what names it.
#[derive(Clone, Debug)]
pub struct WrittenRequest<'a> {
    /// Its method, which is that in CSeq too.
    pub method: &'a Method,
    /// The branch in its topmost Via.
    pub branch: &'a str,
    /// Its Call-ID.
    pub call_id: &'a [u8],
    /// The whole message.
    pub octets: Bytes,
}

/// All transactions of one owner.
#[derive(Debug)]
pub struct Transactions {
    clients: Clients,
    servers: Servers,
    common: Common,
    rng: ChaCha12Rng,
}

impl Transactions {
    /// A layer without transactions. The generator gives branches and the keys of the hash tables.
    pub fn new(config: TransactionConfig, mut rng: ChaCha12Rng) -> Transactions {
        let hasher =
            RandomState::with_seeds(rng.random(), rng.random(), rng.random(), rng.random());
        Transactions {
            clients: Clients::new(rng.random()),
            servers: Servers::new(rng.random(), hasher),
            common: Common::new(config),
            rng,
        }
    }

    /// A branch for the Via of a new request: the magic cookie and 80 bits that nobody can guess
    /// (RFC 3261 section 8.1.1.7).
    pub fn new_branch(&mut self) -> String {
        let mut branch = String::with_capacity(BRANCH_LENGTH);
        self.push_new_branch(&mut branch);
        branch
    }

    /// Appends a [new branch](Transactions::new_branch) to a text.
    pub fn push_new_branch(&mut self, text: &mut String) {
        text.push_str(MAGIC_COOKIE);
        push_token(text, &mut self.rng);
    }

    /// Takes in a message that a transport received and [validated](Message::validate).
    pub fn handle_message(&mut self, now: Instant, flow: Flow, message: Message) {
        if message.is_request() {
            let common = &mut self.common;
            self.servers.handle_request(common, now, flow, message);
        } else {
            let common = &mut self.common;
            self.clients.handle_response(common, now, flow, message);
        }
        self.sweep_timers();
    }

    /// Whether a request belongs to a server transaction that is there: its own, or that of the INVITE
    /// which it cancels or acknowledges. Any other one is either new or none of this layer's business
    /// (section 16.11).
    pub fn knows(&mut self, request: &Message) -> bool {
        self.servers.knows(request)
    }

    /// [`knows`](Transactions::knows) for a request that was peeked at.
    pub fn knows_peeked(&mut self, request: &Peek<'_>) -> bool {
        self.servers.knows_peeked(request)
    }

    /// Takes in that the transport could not send a message of a transaction (section 18.4).
    pub fn handle_send_failure(&mut self, now: Instant, transaction: TransactionKey) {
        let common = &mut self.common;
        match transaction {
            TransactionKey::Client(id) => self.clients.handle_send_failure(common, now, id),
            TransactionKey::Server(id) => self.servers.handle_send_failure(common, now, id),
        }
    }

    /// Takes in that the network says of a datagram that it did not get to this address (section 18.4): of one that began
    /// with this message, whose last fields may be missing.
    ///
    /// It can be forged by who knows the branch and where the datagram went: by everybody farther on, too, who finds the
    /// branch in the Via list. They are on the way of the request, and so could refuse or drop it as well: what they can do
    /// is to end this transaction as if its next hop had not been there. Others would have to guess the branch.
    pub fn handle_undelivered(&mut self, now: Instant, remote: SocketAddr, beginning: &Message) {
        let transaction = match beginning.is_request() {
            true => {
                let client = self.clients.find_sent(beginning, remote);
                client.map(TransactionKey::Client)
            }
            false => {
                let server = self.servers.find_answered(beginning, remote);
                server.map(TransactionKey::Server)
            }
        };
        if let Some(transaction) = transaction {
            self.handle_send_failure(now, transaction);
        }
    }

    /// Sends a request other than ACK in a client transaction. The topmost Via is the sender's, with
    /// a branch from [`new_branch`](Transactions::new_branch) (a CANCEL has that of its INVITE).
    ///
    /// # Errors
    ///
    /// Nothing is sent where there is no room, or no transaction can be made of the request.
    pub fn send_request(
        &mut self,
        now: Instant,
        request: Message,
        target: Target,
    ) -> Result<ClientId, SendRequestError> {
        self.send_request_to(now, request, target, None)
    }

    /// [`send_request`](Transactions::send_request) to somebody of whom more than the address is
    /// known: what a TLS certificate has to show, further addresses.
    ///
    /// # Errors
    ///
    /// Those of [`send_request`](Transactions::send_request).
    pub fn send_request_to(
        &mut self,
        now: Instant,
        request: Message,
        target: Target,
        peer: Option<Arc<Peer>>,
    ) -> Result<ClientId, SendRequestError> {
        let via = request.top_via();
        let branch = via.and_then(|via| via.branch()).unwrap_or_default();
        let (Some(method), Some(call_id), Some((_, cseq_method))) = (
            request.method(),
            request.header_bytes(Name::CallId),
            request.cseq(),
        ) else {
            return Err(SendRequestError::NoTransaction);
        };
        // Responses are matched by the method in CSeq.
        if *method != cseq_method {
            return Err(SendRequestError::NoTransaction);
        }
        let written = WrittenRequest {
            method,
            branch,
            call_id,
            octets: request.to_bytes(),
        };
        self.send_written(now, written, target, peer)
    }

    /// [`send_request_to`](Transactions::send_request_to) for a request that is written already.
    ///
    /// # Errors
    ///
    /// Those of [`send_request`](Transactions::send_request).
    pub fn send_written(
        &mut self,
        now: Instant,
        request: WrittenRequest<'_>,
        target: Target,
        peer: Option<Arc<Peer>>,
    ) -> Result<ClientId, SendRequestError> {
        let common = &mut self.common;
        let kept = clients::kept_octets(&request, &target);
        self.servers.make_room_for_octets(common, kept);
        let sent = self.clients.send(common, now, request, target, peer);
        self.sweep_timers();
        sent
    }

    /// Answers a request. The response goes the way that section 18.2.2 says; it is discarded where
    /// the transaction has ended or has sent its final response (but for further 2xx responses to
    /// INVITE).
    ///
    /// Provisional responses other than 100, and 408, are no answers to a request other than INVITE
    /// (RFC 4320): that is for the user to see to. Where it sends nothing in time, a 100 is sent.
    pub fn respond(&mut self, now: Instant, transaction: ServerId, response: Message) {
        let common = &mut self.common;
        self.servers.respond(common, now, transaction, response);
        self.sweep_timers();
    }

    /// Notes that it is not known who has sent a request of this length, as of a datagram. An INVITE is refused (400 to 699)
    /// once, without retransmissions, unless a provisional response was sent: where it comes again, it is another one (RFC
    /// 3261 section 26.3.2.4). Other responses are repeated as long as all of them are no more than three times what came.
    pub fn set_unproved(&mut self, transaction: ServerId, length: usize) {
        self.servers.set_unproved(transaction, length);
    }

    /// Notes that it is known who has sent a request.
    pub fn set_proved(&mut self, transaction: ServerId) {
        self.servers.set_proved(transaction);
    }

    /// Notes that a request is taken on: it is brought to somebody else, whose answer is not ours, or its credentials were
    /// looked at. Whatever answers it is as reliable as three times what came permits.
    pub fn set_taken_on(&mut self, transaction: ServerId) {
        self.servers.set_taken_on(transaction);
    }

    /// Where the answer to a request goes of which it is [not known](Transactions::set_unproved) who has sent it.
    pub fn unproved(&self, transaction: ServerId) -> Option<IpAddr> {
        self.servers.unproved(transaction)
    }

    /// Ends a transaction without a response.
    pub fn forget(&mut self, transaction: ServerId) {
        self.servers.end(&mut self.common, transaction);
    }

    /// Sends a message outside of any transaction: the ACK to a 2xx (section 13.2.2.4).
    pub fn send_stateless(&mut self, now: Instant, message: Message, target: Target) {
        self.send_stateless_to(now, message, target, None);
    }

    /// [`send_stateless`](Transactions::send_stateless) to somebody of whom more than the address
    /// is known.
    pub fn send_stateless_to(
        &mut self,
        _now: Instant,
        message: Message,
        target: Target,
        peer: Option<Arc<Peer>>,
    ) {
        if message.is_request() {
            self.common.statistics.requests_sent += 1;
        } else {
            self.common.statistics.responses_sent += 1;
        }
        let call_id = message.header_bytes(Name::CallId).unwrap_or_default();
        self.transmit_stateless(message.to_bytes(), call_id, target, peer);
    }

    /// [`send_stateless_to`](Transactions::send_stateless_to) for a request that is written already.
    pub fn send_written_stateless(
        &mut self,
        request: WrittenRequest<'_>,
        target: Target,
        peer: Option<Arc<Peer>>,
    ) {
        self.common.statistics.requests_sent += 1;
        self.transmit_stateless(request.octets, request.call_id, target, peer);
    }

    fn transmit_stateless(
        &mut self,
        payload: Bytes,
        call_id: &[u8],
        target: Target,
        peer: Option<Arc<Peer>>,
    ) {
        self.common.transmits.push_back(Transmit {
            target,
            peer,
            payload,
            call: call_hash(call_id),
            transaction: None,
        });
    }

    /// Answers a request that has no transaction, along the way that its topmost Via, which is that
    /// of the response, says (section 18.2.2). Nothing is sent where there is no Via.
    pub fn respond_stateless(&mut self, now: Instant, flow: Flow, response: Message) {
        if let Some(via) = response.top_via() {
            let target = ResponseRoute::new(&flow, &via).target();
            self.send_stateless(now, response, target);
        }
    }

    /// The request of a client transaction, for a CANCEL to be made of: what that does not need of it may be missing.
    /// `None` once it has its final response, and of a request other than INVITE over a reliable transport.
    pub fn sent_request(&self, transaction: ClientId) -> Option<Message> {
        self.clients.sent_request(transaction)
    }

    /// Gives a client transaction up: one that is cancelled and gets no final response (section
    /// 9.1), or whose Timer C has fired (section 16.8). Responses that come yet are strays.
    pub fn abandon(&mut self, now: Instant, transaction: ClientId) {
        self.clients.abandon(&mut self.common, now, transaction);
    }

    /// The next message to send.
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        pop_front(&mut self.common.transmits)
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<TransactionEvent> {
        pop_front(&mut self.common.events)
    }

    /// When [`handle_timeout`](Transactions::handle_timeout) is to be called next. There may be
    /// nothing to do then: timers of ended transactions are not taken out one by one.
    pub fn next_timeout(&self) -> Option<Instant> {
        self.common.timers.next_timeout()
    }

    /// Lets the timers fire whose time has come.
    pub fn handle_timeout(&mut self, now: Instant) {
        /// How many are looked at side by side.
        const TOGETHER: usize = 32;
        loop {
            // Most are of transactions that have done nothing for half a minute: what is known of them is far away.
            let due = self.common.timers.due(now).take(TOGETHER);
            let prefetched = due.map(|(number, timer)| match timer.is_of_clients() {
                true => self.clients.prefetch(number),
                false => self.servers.prefetch(number),
            });
            black_box(prefetched.fold(0, |all, word| all ^ word));
            for _ in 0..TOGETHER {
                let Some((number, timer)) = self.common.timers.pop_due(now) else {
                    return;
                };
                let common = &mut self.common;
                if timer.is_of_clients() {
                    self.clients.handle_timer(common, now, number, timer);
                } else {
                    self.servers.handle_timer(common, now, number, timer);
                }
            }
        }
    }

    /// What has been done.
    pub fn statistics(&self) -> &TransactionStatistics {
        &self.common.statistics
    }

    /// How many client transactions there are.
    pub fn client_transactions(&self) -> usize {
        self.clients.len()
    }

    /// How many server transactions there are.
    pub fn server_transactions(&self) -> usize {
        self.servers.len()
    }

    /// How many of them have more to do than to answer retransmissions until Timer J fires. The others end early when
    /// there is no room for new ones.
    pub fn server_transactions_in_progress(&self) -> usize {
        self.servers.in_progress()
    }

    /// How many octets of messages are kept to be sent again.
    pub fn kept_octets(&self) -> usize {
        self.common.kept_octets()
    }

    /// Keeps the number of running timers in proportion to that of the transactions.
    fn sweep_timers(&mut self) {
        /// No more than this many timers of a transaction run at one time.
        const TIMERS: usize = 4;
        /// Timers that are not worth a sweep.
        const FEW: usize = 1024;
        let (clients, servers) = (&self.clients, &self.servers);
        let transactions = clients.len() + servers.len();
        if self.common.timers.len() > 2 * TIMERS * transactions + FEW {
            self.common.timers.sweep(|number, timer| {
                if timer.is_of_clients() {
                    clients.contains(number)
                } else {
                    servers.contains(number)
                }
            });
        }
    }
}

/// Takes the first out. A queue that is empty begins again at its beginning, for as much of it is used as is at hand.
fn pop_front<T>(queue: &mut VecDeque<T>) -> Option<T> {
    let first = queue.pop_front();
    if queue.is_empty() {
        queue.clear();
    }
    first
}

/// Room for a branch.
const BRANCH_LENGTH: usize = 24;

/// What a stream is chosen by where each call has its own: a hash of its Call-ID, the same in every
/// run. Eight octets are multiplied in at a time.
fn call_hash(call_id: &[u8]) -> u32 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let mix = |hash: u64, word: [u8; 8]| {
        let mixed = (hash ^ u64::from_le_bytes(word)).wrapping_mul(FACTOR);
        mixed ^ mixed >> 32
    };
    let (words, rest) = call_id.as_chunks::<8>();
    let hash = words.iter().fold(0, |hash, word| mix(hash, *word));
    let mut last = [0; 8];
    for (place, octet) in last.iter_mut().zip(rest) {
        *place = *octet;
    }
    // The upper half of the product has been mixed into the lower one.
    mix(hash, last) as u32
}

#[cfg(test)]
mod tests;
