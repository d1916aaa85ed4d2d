//! Two engines and the packets between them, on a virtual clock.

use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use bytes::Bytes;
use sctp::packet::{Chunk, ChunkType, Packet};
use sctp::{Event, Extensions};

use crate::engine::{Client, How, Message, Peer, PeerEvent, Route};
use crate::ours::{Ours, config};

/// How long a packet travels.
const DELAY: Duration = Duration::from_millis(10);

/// How long anything may take, on the virtual clock.
const LIMIT: Duration = Duration::from_secs(120);

/// Outbound streams of either side.
pub(crate) const STREAMS: u16 = 10;

/// Who has sent a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sender {
    Ours,
    Peer,
}

impl Sender {
    pub(crate) const BOTH: [Sender; 2] = [Sender::Ours, Sender::Peer];
}

/// Decides whether a packet is lost.
type Losses = Box<dyn FnMut(Sender, &[u8]) -> bool>;

pub(crate) struct Link<P> {
    pub(crate) now: Duration,
    pub(crate) ours: Ours,
    pub(crate) peer: P,
    /// What the peer has received.
    pub(crate) peer_received: Vec<Message>,
    pub(crate) peer_events: Vec<PeerEvent>,
    /// All packets that were sent, lost ones included.
    pub(crate) packets: Vec<(Sender, Bytes)>,
    /// Where they went.
    pub(crate) routes: Vec<Route>,
    /// What goes to these addresses, or comes from them, is lost.
    pub(crate) lost_addresses: BTreeSet<IpAddr>,
    under_way: VecDeque<(Duration, Sender, Route, Bytes)>,
    losses: Losses,
}

/// An association of which all extensions are agreed on that are asked for; `None` where the peer cannot be had.
pub(crate) fn associate<P: Peer>(extensions: Extensions, client: Client) -> Option<Link<P>> {
    let peer = P::start(extensions, STREAMS)?;
    let mut link = Link::up(peer, Ours::new(config(extensions, STREAMS)), client);
    assert_eq!(link.ours.status().extensions, extensions, "{client:?}");
    assert!(link.peer.has_agreed_on(extensions), "{client:?}");
    Some(link)
}

impl<P: Peer> Link<P> {
    /// Starts both sides, and waits until their association is up.
    pub(crate) fn up(mut peer: P, mut ours: Ours, client: Client) -> Link<P> {
        peer.open(client);
        if client == Client::Ours {
            ours.connect(Duration::ZERO);
        }
        let mut link = Link {
            now: Duration::ZERO,
            ours,
            peer,
            peer_received: Vec::new(),
            peer_events: Vec::new(),
            packets: Vec::new(),
            routes: Vec::new(),
            lost_addresses: BTreeSet::new(),
            under_way: VecDeque::new(),
            losses: Box::new(|_, _| false),
        };
        link.run_until("the association is up", |link| {
            link.ours.is_up() && link.peer.is_up()
        });
        link
    }

    /// Has one side send a message.
    pub(crate) fn send(&mut self, sender: Sender, stream: u16, payload: &[u8], how: How) {
        let message = Message {
            stream,
            payload: payload.to_vec(),
        };
        match sender {
            Sender::Ours => self.ours.send(self.now, &message, how),
            Sender::Peer => self.peer.send(&message, how),
        }
    }

    /// What has come of the messages of one side.
    pub(crate) fn received_from(&self, sender: Sender) -> &[Message] {
        match sender {
            Sender::Ours => &self.peer_received,
            Sender::Peer => &self.ours.received,
        }
    }

    /// From now on packets are lost where this says so.
    pub(crate) fn lose(&mut self, losses: impl FnMut(Sender, &[u8]) -> bool + 'static) {
        self.losses = Box::new(losses);
    }

    /// From now on no packet is lost.
    pub(crate) fn lose_nothing(&mut self) {
        self.lose(|_, _| false);
    }

    pub(crate) fn run_for(&mut self, duration: Duration) {
        let end = self.now + duration;
        while self.step(end) {}
    }

    pub(crate) fn run_until(&mut self, what: &str, is_so: impl Fn(&mut Link<P>) -> bool) {
        let end = self.now + LIMIT;
        while !is_so(self) {
            let goes_on = self.step(end);
            assert!(goes_on, "{what}: not within {LIMIT:?}\n{}", self.story());
        }
    }

    /// Waits for something that our user is told, and takes it.
    pub(crate) fn wait_for_event(&mut self, what: &str, is_it: impl Fn(&Event) -> bool) -> Event {
        self.run_until(what, |link| link.ours.events.iter().any(&is_it));
        let position = self.ours.events.iter().position(is_it);
        self.ours.events.remove(position.expect("it has come"))
    }

    /// Waits for something that the peer's user is told, and takes it.
    pub(crate) fn wait_for_peer_event(&mut self, event: &PeerEvent) {
        self.run_until(&format!("{event:?}"), |link| {
            link.peer_events.contains(event)
        });
        let position = self.peer_events.iter().position(|it| it == event);
        self.peer_events.remove(position.expect("it has come"));
    }

    /// Sends a message and waits until it has arrived, after all others.
    pub(crate) fn deliver(&mut self, sender: Sender, stream: u16, payload: &[u8]) {
        self.send(sender, stream, payload, How::default());
        let what = format!(
            "{:?} on {stream} arrives",
            payload.escape_ascii().to_string()
        );
        self.run_until(&what, |link| {
            let last = link.received_from(sender).last();
            last.is_some_and(|last| last.stream == stream && last.payload == payload)
        });
    }

    /// Sends of one side, chunk by chunk.
    pub(crate) fn chunks(&self, sender: Sender) -> impl Iterator<Item = Chunk<'_>> {
        let of_sender = self.packets.iter().filter(move |(from, _)| *from == sender);
        of_sender.flat_map(|(_, packet)| {
            let packet = Packet::read(packet).expect("it has a header");
            packet.chunks().filter_map(Result::ok)
        })
    }

    /// How many packets of one side had a chunk of this type.
    pub(crate) fn count(&self, sender: Sender, chunk_type: ChunkType) -> usize {
        let of_sender = self.packets.iter().filter(|(from, _)| *from == sender);
        of_sender
            .filter(|(_, packet)| has_chunk(packet, chunk_type))
            .count()
    }

    /// What has happened last.
    fn story(&self) -> String {
        let from = self.packets.len().saturating_sub(12);
        let packets = self.packets[from..].iter().zip(&self.routes[from..]);
        let chunks: Vec<_> = packets
            .map(|((sender, packet), route)| {
                let packet = Packet::read(packet).expect("it has a header");
                (*sender, route, packet.chunks().collect::<Vec<_>>())
            })
            .collect();
        format!(
            "packets:\n{}we are told:\n{}the peer is told:\n{}we received:\n{}the peer received:\n{}",
            last(&chunks),
            last(&self.ours.events),
            last(&self.peer_events),
            last(&self.ours.received),
            last(&self.peer_received),
        )
    }

    /// The next packets and timers, up to a time. `false` once that is reached.
    fn step(&mut self, end: Duration) -> bool {
        self.collect();
        let arrival = self.under_way.front().map(|(arrival, ..)| *arrival);
        let timeouts = [self.ours.next_timeout(), self.peer.next_timeout()];
        let next = timeouts.into_iter().chain([arrival]).flatten().min();
        self.now = next.map_or(end, |next| next.clamp(self.now, end));
        while let Some((arrival, ..)) = self.under_way.front()
            && *arrival <= self.now
        {
            match self.under_way.pop_front() {
                Some((_, Sender::Ours, route, packet)) => {
                    self.peer.handle_packet(self.now, route, &packet);
                }
                Some((_, Sender::Peer, route, packet)) => {
                    self.ours.handle_packet(self.now, route, packet);
                }
                None => {}
            }
        }
        if self.ours.next_timeout().is_some_and(|at| at <= self.now) {
            self.ours.handle_timeout(self.now);
        }
        if self.peer.next_timeout().is_some_and(|at| at <= self.now) {
            self.peer.handle_timeout(self.now);
        }
        self.collect();
        self.now < end
    }

    /// Takes what the engines have to send, and what the peer tells its user.
    fn collect(&mut self) {
        while let Some((route, packet)) = self.ours.poll_transmit(self.now) {
            self.put(Sender::Ours, route, packet);
        }
        while let Some((route, packet)) = self.peer.poll_transmit(self.now) {
            self.put(Sender::Peer, route, packet.into());
        }
        self.peer_received
            .extend(std::iter::from_fn(|| self.peer.receive()));
        self.peer_events
            .extend(std::iter::from_fn(|| self.peer.poll_event()));
    }

    fn put(&mut self, sender: Sender, route: Route, packet: Bytes) {
        let is_cut = route.is_some_and(|(from, to)| {
            self.lost_addresses.contains(&from) || self.lost_addresses.contains(&to)
        });
        if !is_cut && !(self.losses)(sender, &packet) {
            let arrival = self.now + DELAY;
            self.under_way
                .push_back((arrival, sender, route, packet.clone()));
        }
        self.packets.push((sender, packet));
        self.routes.push(route);
    }
}

/// Runs a test on associations that either side began.
pub(crate) fn with_either_client<P: Peer>(extensions: Extensions, test: impl Fn(&mut Link<P>)) {
    for client in Client::BOTH {
        if let Some(mut link) = associate(extensions, client) {
            test(&mut link);
        }
    }
}

/// The same, with either side as the sender.
pub(crate) fn in_all_directions<P: Peer>(
    extensions: Extensions,
    test: impl Fn(&mut Link<P>, Sender),
) {
    for sender in Sender::BOTH {
        with_either_client(extensions, |link| test(link, sender));
    }
}

/// Whether a packet has a chunk of this type.
pub(crate) fn has_chunk(packet: &[u8], chunk_type: ChunkType) -> bool {
    let packet = Packet::read(packet).expect("it has a header");
    packet
        .chunks()
        .any(|chunk| chunk.is_ok_and(|chunk| chunk.chunk_type() == chunk_type))
}

/// Whether a packet has user data.
pub(crate) fn has_data(packet: &[u8]) -> bool {
    has_chunk(packet, ChunkType::DATA) || has_chunk(packet, ChunkType::I_DATA)
}

/// The last ones of a list, a line each, shortened.
fn last<T: fmt::Debug>(items: &[T]) -> String {
    let from = items.len().saturating_sub(12);
    items[from..].iter().fold(String::new(), |text, item| {
        let line: String = format!("{item:?}").chars().take(200).collect();
        text + "  " + &line + "\n"
    })
}
