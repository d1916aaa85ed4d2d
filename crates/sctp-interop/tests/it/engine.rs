//! An engine of another project, as the tests use all of them.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use sctp::{Extensions, PrPolicy};

/// The SCTP port of either side.
pub(crate) const PORT: u16 = 5000;

/// From where to where a packet goes, where hosts have addresses.
pub(crate) type Route = Option<(IpAddr, IpAddr)>;

/// A user message.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) stream: u16,
    pub(crate) payload: Vec<u8>,
}

/// Its stream, its length and how it begins.
impl fmt::Debug for Message {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let beginning = &self.payload[..self.payload.len().min(20)];
        let (stream, length) = (self.stream, self.payload.len());
        write!(
            formatter,
            "{stream}: {length} {:?}",
            beginning.escape_ascii().to_string()
        )
    }
}

/// How a message is sent.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct How {
    pub(crate) unordered: bool,
    pub(crate) policy: PrPolicy,
    /// The shared key that authenticates it, in place of the active one; of our messages alone.
    pub(crate) key: Option<u16>,
}

/// Which side begins the association.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Client {
    Ours,
    Peer,
}

impl Client {
    pub(crate) const BOTH: [Client; 2] = [Client::Ours, Client::Peer];
}

/// Something that the peer tells its user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PeerEvent {
    /// Our streams were reset; all of them if none is listed.
    IncomingReset(Vec<u16>),
    /// Its own streams were reset; all of them if none is listed.
    OutgoingReset(Vec<u16>),
    /// Something else, in words of its own.
    Other(String),
}

/// An engine of another project, on the virtual clock: `now` is the time since it was started.
pub(crate) trait Peer: Sized {
    /// The extensions that it has here.
    const EXTENSIONS: Extensions;

    /// An endpoint with these extensions that asks for so many outbound streams; `None` where it cannot be had.
    fn start(extensions: Extensions, streams: u16) -> Option<Self>;

    /// Begins an association, or waits for one.
    fn open(&mut self, client: Client);

    fn handle_packet(&mut self, now: Duration, route: Route, packet: &[u8]);

    fn poll_transmit(&mut self, now: Duration) -> Option<(Route, Vec<u8>)>;

    fn next_timeout(&self) -> Option<Duration>;

    fn handle_timeout(&mut self, now: Duration);

    fn is_up(&self) -> bool;

    /// Whether it says that these extensions are agreed on and no others, as far as it tells.
    fn has_agreed_on(&mut self, extensions: Extensions) -> bool;

    /// Sends a message, which it must take.
    fn send(&mut self, message: &Message, how: How);

    /// The next message that has arrived.
    fn receive(&mut self) -> Option<Message>;

    /// Resets streams that it sends on.
    fn reset_outgoing(&mut self, streams: &[u16]);

    fn poll_event(&mut self) -> Option<PeerEvent>;
}
