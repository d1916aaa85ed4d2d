//! Questions that only the world outside can answer, and what waits for the answers.
//!
//! The core emits a [`Query`] with an id, parks what needs the answer, and goes on. Time-out, bound
//! and order are kept here, so that a store or resolver may answer when and in what order it likes:
//! - as many questions to the store wait as [`QueryLimits::maximum_parked`] says, and of next hops as
//!   [`QueryLimits::maximum_resolving`] does; the next one is refused;
//! - a question without an answer in [`QueryLimits::timeout`] is given up, a later answer ignored;
//! - of one address of record one update is asked at a time, in the order of arrival (RFC 3261
//!   section 10.3); so many others wait for it as [`MAXIMUM_HELD_UPDATES`] says, the next one is refused.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ahash::RandomState;
use bytes::Bytes;
use rand::Rng;
use rand_chacha::ChaCha12Rng;
use sip::digest::Credentials;
use sip::{Peer, Transport};

use super::binding::{AddressOfRecord, Bindings};
use super::update::{Update, UpdateError};

/// Names a question; never used again for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct QueryId(pub(crate) u64);

/// A question.
#[derive(Clone, Debug, PartialEq)]
pub enum Query {
    /// The bindings of an address of record. Answered by [`Answer::Bindings`], or
    /// [`Answer::Unknown`] where no such user exists.
    Lookup(AddressOfRecord),
    /// A change of the bindings of an address of record, to be made by [`Update::apply`]. Answered by
    /// [`Answer::Bindings`] as they are when the change is safe, or by [`Answer::Refused`].
    Update(AddressOfRecord, Update),
    /// The addresses of a next hop, the most preferred first, each with our own address toward it.
    /// Answered by [`Answer::NextHops`].
    Resolve(Destination),
    /// What is stored of a user's password. Answered by [`Answer::Credentials`].
    Credentials {
        /// The realm, which the password belongs to as much as to the name.
        realm: Box<str>,
        /// The name of the user, as the client gives it.
        username: Box<str>,
    },
    /// Some of all addresses of record, with their bindings. Answered by [`Answer::Page`].
    Page {
        /// Where the page begins.
        from: Place,
        /// How many addresses of record it may have.
        limit: usize,
    },
    /// A request over HTTP. Answered by [`Answer::Http`], whatever the status.
    Http(Box<HttpRequest>),
    /// A command to a Redis server. Answered by [`Answer::Redis`], an error of the server's included.
    Redis(Box<RedisCommand>),
}

/// A request over HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpRequest {
    /// The method: `GET` or `POST`.
    pub method: Box<str>,
    /// The URL, `http:` or `https:`.
    pub url: Box<str>,
    /// Header fields beside those that every request has.
    pub fields: Vec<(Box<str>, Box<str>)>,
    /// The body.
    pub body: Bytes,
}

/// The response to a request over HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpResponse {
    /// The status.
    pub status: u16,
    /// The body.
    pub body: Bytes,
}

/// A command to a Redis server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedisCommand {
    /// The server, such as `redis://192.0.2.30:6379/0`.
    pub url: Box<str>,
    /// The command and its arguments.
    pub words: Vec<Bytes>,
}

/// The reply of a Redis server: the types of RESP2.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RedisReply {
    /// There is no such thing.
    Nil,
    /// A number.
    Integer(i64),
    /// A status, or a string.
    Text(Bytes),
    /// An array.
    List(Vec<RedisReply>),
    /// The server refuses the command, and says why.
    Error(Box<str>),
}

/// A place in the order in which a store goes through its addresses of record; the default is before all of them. What is
/// there when a walk begins, and stays, comes up once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place(pub u64);

/// Some of all addresses of record, in the order of the store.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Page {
    /// Those that have bindings, of which some may have expired.
    pub users: Vec<(AddressOfRecord, Bindings)>,
    /// Where the next page begins; `None` when this is the last.
    pub next: Option<Place>,
}

/// Where a URI leads: what the procedures of RFC 3263 begin with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Destination {
    /// TARGET: a domain name or an IP address; IPv6 without brackets.
    pub host: String,
    /// The port, where the URI names one.
    pub port: Option<u16>,
    /// The transport, where the URI names one. That of a SIPS URI is one over TLS already.
    pub transport: Option<Transport>,
    /// Only a transport over TLS will do (a SIPS URI, RFC 3261 section 26.2.2).
    pub is_secure: bool,
    /// The request is too large for UDP where there is a choice (RFC 3261 section 18.1.1).
    pub is_large: bool,
    /// What the choice among equals follows from, where it has to be the same every time a request
    /// is seen (a stateless proxy, RFC 3263 section 4.4); else it is made at random.
    pub choice: Option<u64>,
    /// Further addresses of the same host, where it is an address and is reached over SCTP: they have its port. Of a
    /// name the DNS knows them.
    pub addresses: Vec<IpAddr>,
}

impl Destination {
    /// The transport that is used where neither the URI nor DNS says more: the one it names, else
    /// UDP for a SIP URI and TLS for a SIPS URI (RFC 3263 section 4.1).
    pub fn transport_or_default(&self) -> Transport {
        self.transport.unwrap_or(if self.is_secure {
            Transport::Tls
        } else {
            Transport::Udp
        })
    }

    /// The port that is used where neither the URI nor DNS says more.
    pub fn port_or_default(&self) -> u16 {
        self.port
            .unwrap_or(self.transport_or_default().default_port())
    }
}

/// The answer to a question.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// The bindings; those that have expired may be among them.
    Bindings(Bindings),
    /// There is no such address of record.
    Unknown,
    /// The change breaks a rule, and nothing has changed.
    Refused(UpdateError),
    /// The store has no room: it holds as many addresses of record, or as many octets, as it may.
    Full,
    /// The addresses of a next hop.
    NextHops(Vec<NextHop>),
    /// What is stored of a user's password; `None` where there is no such user in this realm.
    Credentials(Option<Arc<Credentials>>),
    /// Some of all addresses of record.
    Page(Page),
    /// The response to a request over HTTP.
    Http(HttpResponse),
    /// The reply of a Redis server.
    Redis(RedisReply),
    /// There is no answer: the store or resolver failed.
    Failed,
}

/// One address of a next hop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NextHop {
    /// Over which transport.
    pub transport: Transport,
    /// Where to send.
    pub remote: SocketAddr,
    /// Our own address that the peer can reach: what goes into Via and Record-Route.
    pub local: SocketAddr,
    /// Who is expected there, where more is known than the address.
    pub peer: Option<Arc<Peer>>,
}

/// How many updates of one address of record wait for the one that is asked. A user agent has one REGISTER under way at
/// a time (RFC 3261 section 10.2), and a user has a few of them; whoever sends more than the store takes must not use
/// up the places of all the others.
pub const MAXIMUM_HELD_UPDATES: usize = 16;

/// The bounds on waiting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueryLimits {
    /// How long an answer may take.
    pub timeout: Duration,
    /// How many questions may wait for the store.
    pub maximum_parked: usize,
    /// How many may wait for addresses of next hops. Their number is not that of the others: names whose servers
    /// are silent must not keep users from registering.
    pub maximum_resolving: usize,
}

impl Default for QueryLimits {
    fn default() -> QueryLimits {
        QueryLimits {
            timeout: Duration::from_secs(10),
            maximum_parked: 10_000,
            maximum_resolving: 10_000,
        }
    }
}

/// What is asked, and what waits for it.
#[derive(Debug)]
pub(crate) struct Questions<W> {
    limits: QueryLimits,
    next_id: u64,
    /// In the order of asking, which is that of the deadlines too: all have the same time. The first is parked, the
    /// places of some others are empty.
    parked: VecDeque<(QueryId, Option<Parked<W>>)>,
    /// How many of these places are not empty.
    waiting: usize,
    /// The updates of an address of record: the first is asked, the others wait for it.
    updates: HashMap<AddressOfRecord, Queue, RandomState>,
    outgoing: VecDeque<(QueryId, Query)>,
    /// How many of those that are parked ask for next hops.
    resolving: usize,
}

/// Updates of one address of record. Nearly always there is one.
#[derive(Debug)]
struct Queue {
    /// The one that is asked.
    first: QueryId,
    others: VecDeque<QueryId>,
}

#[derive(Debug)]
struct Parked<W> {
    deadline: Instant,
    waiting: W,
    is_resolving: bool,
    update_of: Option<AddressOfRecord>,
    /// An update whose turn has not come.
    held: Option<Box<Query>>,
}

impl<W> Questions<W> {
    pub(crate) fn new(limits: QueryLimits, rng: &mut ChaCha12Rng) -> Questions<W> {
        let seeds = RandomState::with_seeds(
            rng.next_u64(),
            rng.next_u64(),
            rng.next_u64(),
            rng.next_u64(),
        );
        Questions {
            limits,
            next_id: 0,
            parked: VecDeque::new(),
            waiting: 0,
            updates: HashMap::with_hasher(seeds),
            outgoing: VecDeque::new(),
            resolving: 0,
        }
    }

    /// Asks, and parks `waiting` until there is an answer or the time is over. Gives it back where
    /// there is no room for another question, or for another update of its address of record.
    pub(crate) fn ask(&mut self, now: Instant, query: Query, waiting: W) -> Result<QueryId, W> {
        let is_resolving = matches!(query, Query::Resolve(_));
        let is_full = if is_resolving {
            self.resolving >= self.limits.maximum_resolving
        } else {
            self.waiting - self.resolving >= self.limits.maximum_parked
        };
        if is_full {
            return Err(waiting);
        }
        let id = QueryId(self.next_id);
        let deadline = now + self.limits.timeout;
        let mut update_of = None;
        let mut held = None;
        let mut query = Some(query);
        if let Some(Query::Update(address, _)) = &query {
            update_of = Some(address.clone());
            match self.updates.entry(address.clone()) {
                Entry::Occupied(queue) if queue.get().others.len() >= MAXIMUM_HELD_UPDATES => {
                    return Err(waiting);
                }
                Entry::Occupied(mut queue) => {
                    queue.get_mut().others.push_back(id);
                    held = query.take().map(Box::new);
                }
                Entry::Vacant(place) => {
                    let others = VecDeque::new();
                    place.insert(Queue { first: id, others });
                }
            }
        }
        self.next_id += 1;
        self.resolving += usize::from(is_resolving);
        self.outgoing.extend(query.map(|query| (id, query)));
        let parked = Parked {
            deadline,
            waiting,
            is_resolving,
            update_of,
            held,
        };
        self.parked.push_back((id, Some(parked)));
        self.waiting += 1;
        Ok(id)
    }

    /// The next question to the driver.
    pub(crate) fn poll(&mut self) -> Option<(QueryId, Query)> {
        loop {
            let (id, query) = self.outgoing.pop_front()?;
            // One that nobody waits for any more is not asked.
            if self.get_mut(id).is_some() {
                return Some((id, query));
            }
        }
    }

    /// What waited for a question that is answered or given up; `None` where it is not known.
    pub(crate) fn take(&mut self, id: QueryId) -> Option<W> {
        let place = self.place(id)?;
        let parked = self.parked.get_mut(place)?.1.take()?;
        self.waiting -= 1;
        self.resolving -= usize::from(parked.is_resolving);
        self.tidy();
        if let Some(address) = parked.update_of {
            self.ask_next_update(address, id);
        }
        Some(parked.waiting)
    }

    /// What waited for the next question whose time is over.
    pub(crate) fn take_expired(&mut self, now: Instant) -> Option<W> {
        if self.next_timeout()? > now {
            return None;
        }
        self.take(self.parked.front()?.0)
    }

    /// When the next question's time is over.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        let (_, first) = self.parked.front()?;
        Some(first.as_ref()?.deadline)
    }

    /// How many questions wait.
    pub(crate) fn len(&self) -> usize {
        self.waiting
    }

    /// Whether so many wait for the store that those who do not have to ask it had better not.
    pub(crate) fn is_half_full(&self) -> bool {
        self.waiting - self.resolving >= self.limits.maximum_parked.div_ceil(2)
    }

    fn get_mut(&mut self, id: QueryId) -> Option<&mut Parked<W>> {
        let place = self.place(id)?;
        self.parked.get_mut(place)?.1.as_mut()
    }

    /// Where the place of a question is, be it empty.
    fn place(&self, id: QueryId) -> Option<usize> {
        let (first, _) = self.parked.front()?;
        let distance = id.0.checked_sub(first.0)?;
        let distance = usize::try_from(distance).ok()?;
        // Numbers follow each other, but where places between them have been given up.
        match self.parked.get(distance) {
            Some((there, _)) if *there == id => Some(distance),
            _ => self.parked.binary_search_by_key(&id, |(id, _)| *id).ok(),
        }
    }

    /// Has the first place be that of a question that is parked, and keeps empty places in proportion to the others.
    fn tidy(&mut self) {
        /// Empty places that are not worth a sweep.
        const FEW: usize = 1024;
        while let Some((_, None)) = self.parked.front() {
            self.parked.pop_front();
        }
        if self.parked.len() > 2 * self.waiting + FEW {
            self.parked.retain(|(_, parked)| parked.is_some());
        }
    }

    /// Takes an update off its queue and asks the one behind it.
    fn ask_next_update(&mut self, address: AddressOfRecord, ended: QueryId) {
        let Entry::Occupied(mut place) = self.updates.entry(address) else {
            return;
        };
        let queue = place.get_mut();
        if queue.first != ended {
            // It is not to be asked later.
            queue.others.retain(|id| *id != ended);
            return;
        }
        let Some(next) = queue.others.pop_front() else {
            place.remove();
            return;
        };
        queue.first = next;
        let held = self.get_mut(next).and_then(|parked| parked.held.take());
        self.outgoing.extend(held.map(|query| (next, *query)));
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use sip::Uri;

    use super::super::update::Change;
    use super::*;

    fn questions(maximum_parked: usize) -> Questions<&'static str> {
        let limits = QueryLimits {
            maximum_parked,
            maximum_resolving: maximum_parked,
            timeout: Duration::from_secs(10),
        };
        Questions::new(limits, &mut ChaCha12Rng::seed_from_u64(1))
    }

    fn address(user: &str) -> AddressOfRecord {
        let text = format!("sip:{user}@example.com");
        let domain = "example.com".parse().expect("a host");
        match Uri::parse(&text) {
            Ok(Uri::Sip(uri)) => AddressOfRecord::new(&uri, &domain).expect("an address of record"),
            _ => panic!("no SIP URI"),
        }
    }

    fn update(user: &str, now: Instant) -> Query {
        let update = Update {
            change: Change::RemoveAll {
                call_id: "1".into(),
                cseq: 1,
            },
            received: now,
            maximum_bindings: 1,
            new_gruus: 0,
        };
        Query::Update(address(user), update)
    }

    #[test]
    fn names_that_nobody_answers_for_leave_room_for_users() {
        let now = Instant::now();
        let mut questions = questions(2);
        let resolve = || {
            Query::Resolve(Destination {
                host: "silent.example".to_owned(),
                port: None,
                transport: None,
                is_secure: false,
                is_large: false,
                choice: None,
                addresses: Vec::new(),
            })
        };
        let first = questions.ask(now, resolve(), "a").expect("there is room");
        assert!(questions.ask(now, resolve(), "b").is_ok());
        assert_eq!(questions.ask(now, resolve(), "c"), Err("c"));
        assert!(questions.ask(now, update("u", now), "d").is_ok());
        assert!(questions.ask(now, update("v", now), "e").is_ok());
        assert_eq!(questions.ask(now, update("w", now), "f"), Err("f"));
        assert_eq!(questions.take(first), Some("a"));
        assert_eq!(questions.ask(now, update("w", now), "f"), Err("f"));
        assert!(questions.ask(now, resolve(), "c").is_ok());
    }

    fn asked(questions: &mut Questions<&'static str>) -> Vec<QueryId> {
        std::iter::from_fn(|| questions.poll())
            .map(|(id, _)| id)
            .collect()
    }

    #[test]
    fn updates_of_one_address_of_record_are_asked_one_after_the_other() {
        let now = Instant::now();
        let mut questions = questions(10);
        let first = questions
            .ask(now, update("bob", now), "first")
            .expect("room");
        let second = questions
            .ask(now, update("bob", now), "second")
            .expect("room");
        let third = questions
            .ask(now, update("bob", now), "third")
            .expect("room");
        let other = questions
            .ask(now, update("alice", now), "other")
            .expect("room");
        let lookup = questions
            .ask(now, Query::Lookup(address("bob")), "lookup")
            .expect("room");
        assert_eq!(asked(&mut questions), [first, other, lookup]);

        assert_eq!(questions.take(first), Some("first"));
        assert_eq!(asked(&mut questions), [second]);
        assert_eq!(questions.take(first), None);
        assert_eq!(asked(&mut questions), []);
        assert_eq!(questions.take(second), Some("second"));
        assert_eq!(asked(&mut questions), [third]);
        assert_eq!(questions.take(third), Some("third"));
        assert!(questions.updates.len() == 1 && questions.len() == 2);
    }

    #[test]
    fn a_question_without_an_answer_is_given_up_and_the_next_update_asked() {
        let now = Instant::now();
        let later = now + Duration::from_secs(3);
        let mut questions = questions(10);
        questions
            .ask(now, update("bob", now), "first")
            .expect("room");
        let second = questions
            .ask(later, update("bob", now), "second")
            .expect("room");
        assert_eq!(
            questions.poll().map(|(_, query)| query),
            Some(update("bob", now))
        );

        let over = now + Duration::from_secs(10);
        assert_eq!(questions.next_timeout(), Some(over));
        assert_eq!(
            questions.take_expired(over - Duration::from_millis(1)),
            None
        );
        assert_eq!(questions.take_expired(over), Some("first"));
        assert_eq!(questions.take_expired(over), None);
        assert_eq!(asked(&mut questions), [second]);
        assert_eq!(
            questions.next_timeout(),
            Some(later + Duration::from_secs(10))
        );
    }

    #[test]
    fn an_update_given_up_before_its_turn_is_never_asked() {
        let now = Instant::now();
        let mut questions = questions(10);
        let first = questions
            .ask(now, update("bob", now), "first")
            .expect("room");
        let second = questions
            .ask(now, update("bob", now), "second")
            .expect("room");
        assert_eq!(questions.take(second), Some("second"));
        assert_eq!(questions.take(first), Some("first"));
        assert_eq!(asked(&mut questions), []);
        assert!(questions.updates.is_empty());
    }

    #[test]
    fn updates_of_one_address_of_record_leave_room_for_others() {
        let now = Instant::now();
        let mut questions = questions(100);
        let mut taken = Vec::new();
        for _ in 0..1000 {
            taken.extend(questions.ask(now, update("mallory", now), "mallory"));
        }
        assert_eq!(taken.len(), 1 + MAXIMUM_HELD_UPDATES);
        assert_eq!(questions.len(), taken.len());
        for user in ["alice", "bob"] {
            assert!(questions.ask(now, update(user, now), user).is_ok());
        }
        let lookup = Query::Lookup(address("mallory"));
        assert!(questions.ask(now, lookup, "lookup").is_ok());

        // With each answer there is room for one more.
        assert_eq!(questions.take(taken[0]), Some("mallory"));
        assert!(questions.ask(now, update("mallory", now), "more").is_ok());
        assert_eq!(
            questions.ask(now, update("mallory", now), "too many"),
            Err("too many")
        );
        // One that is given up before its turn leaves room too.
        assert_eq!(questions.take(taken[5]), Some("mallory"));
        assert!(questions.ask(now, update("mallory", now), "more").is_ok());
    }

    #[test]
    fn what_is_answered_behind_one_that_waits_is_forgotten() {
        let start = Instant::now();
        let mut questions = questions(10);
        let oldest = questions.ask(start, Query::Lookup(address("bob")), "oldest");
        assert!(oldest.is_ok());
        for number in 1..=5000 {
            let now = start + Duration::from_micros(number);
            let id = questions.ask(now, Query::Lookup(address("bob")), "next");
            assert_eq!(questions.take(id.expect("room")), Some("next"));
            assert_eq!(
                questions.next_timeout(),
                Some(start + Duration::from_secs(10))
            );
            assert!(questions.parked.len() < 1100);
        }
        let last = start + Duration::from_secs(1);
        questions
            .ask(last, Query::Lookup(address("bob")), "last")
            .expect("room");
        let end = start + Duration::from_secs(10);
        assert_eq!(questions.take_expired(end), Some("oldest"));
        assert_eq!(questions.take_expired(end), None);
        assert_eq!(
            questions.next_timeout(),
            Some(last + Duration::from_secs(10))
        );
        assert_eq!(
            questions.take_expired(last + Duration::from_secs(10)),
            Some("last")
        );
        assert_eq!(
            (questions.next_timeout(), questions.parked.len()),
            (None, 0)
        );
    }

    #[test]
    fn there_is_room_for_so_many_and_no_more() {
        let now = Instant::now();
        let mut questions = questions(2);
        let first = questions
            .ask(now, Query::Lookup(address("bob")), "first")
            .expect("room");
        questions
            .ask(now, Query::Lookup(address("bob")), "second")
            .expect("room");
        assert_eq!(
            questions.ask(now, Query::Lookup(address("bob")), "third"),
            Err("third")
        );
        questions.take(first);
        assert!(
            questions
                .ask(now, Query::Lookup(address("bob")), "third")
                .is_ok()
        );
    }
}
