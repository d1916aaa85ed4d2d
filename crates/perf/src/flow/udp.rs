//! UDP: a socket and a token are a flow, a message is a datagram.
//!
//! Each datagram begins with 24 bytes in network order: the token, its number from 1 on, and when it was
//! sent in nanoseconds after the sender's start. Number 0 is a greeting, which the client repeats until the
//! server sends it back: so the server learns where the client's datagrams come from.

use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::time::{sleep, sleep_until};

use super::{Counter, SendPlan, StopSignal, Turn, is_stopped, stopped};
use crate::control::Token;
use crate::sequence::{Reception, SequenceTracker};

pub(crate) use super::udp_port::{Buffers, Peer, UdpPort};

/// What is written into each datagram.
pub(crate) const HEADER_BYTES: usize = 24;

/// The most that the kernel takes as one train of datagrams: a UDP payload's bytes over IPv4.
const TRAIN_BYTES: usize = 65_507;

/// When nothing has come for so long after the sender's end, nothing more will.
const QUIET_TIME: Duration = Duration::from_millis(250);
/// When so long has passed after the sender's end, the rest is late.
const STRAGGLER_TIME: Duration = Duration::from_secs(5);

/// The first bytes of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) token: Token,
    pub(crate) number: u64,
    pub(crate) sent_nanoseconds: u64,
}

impl Header {
    /// Reads it; `None` when the datagram is too short.
    pub(crate) fn read(datagram: &[u8]) -> Option<Header> {
        let word = |at: usize| {
            let bytes = datagram.get(at..at + 8)?.first_chunk::<8>()?;
            Some(u64::from_be_bytes(*bytes))
        };
        Some(Header {
            token: Token(word(0)?),
            number: word(8)?,
            sent_nanoseconds: word(16)?,
        })
    }

    pub(crate) fn to_bytes(self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(&self.token.0.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.number.to_be_bytes());
        bytes[16..].copy_from_slice(&self.sent_nanoseconds.to_be_bytes());
        bytes
    }
}

/// A UDP flow on one side.
#[derive(Debug)]
pub(crate) struct UdpFlow {
    pub(crate) token: Token,
    pub(crate) port: Arc<UdpPort>,
    pub(crate) counter: Arc<Counter>,
    /// The host whose datagrams count.
    from: IpAddr,
    tracker: Mutex<SequenceTracker>,
    /// Where the other side's greeting came from.
    peer: watch::Sender<Option<Peer>>,
}

impl UdpFlow {
    pub(crate) fn new(token: Token, port: Arc<UdpPort>, from: IpAddr) -> UdpFlow {
        UdpFlow {
            token,
            port,
            counter: Arc::new(Counter::new(Instant::now())),
            from: from.to_canonical(),
            tracker: Mutex::default(),
            peer: watch::Sender::new(None),
        }
    }

    /// Takes a datagram that shows this flow's token; returns whether it is a greeting.
    pub(crate) fn deliver(&self, peer: Peer, header: Header, bytes: usize, now: Instant) -> bool {
        if peer.address.ip().to_canonical() != self.from {
            return false;
        }
        if header.number == 0 {
            self.peer.send_replace(Some(peer));
            return true;
        }
        let sent = Duration::from_nanos(header.sent_nanoseconds);
        let received = now.saturating_duration_since(self.counter.start());
        let mut tracker = self.tracker.lock().unwrap_or_else(PoisonError::into_inner);
        if tracker.arrived(header.number, sent, received) {
            self.counter.add(1, bytes);
            self.counter.arrived(now);
        }
        false
    }

    /// Waits until the other side has greeted; whence it did.
    pub(crate) async fn greeted(&self) -> Option<Peer> {
        let mut peer = self.peer.subscribe();
        peer.wait_for(Option::is_some)
            .await
            .ok()
            .and_then(|peer| *peer)
    }

    pub(crate) fn peer(&self) -> Option<Peer> {
        *self.peer.borrow()
    }

    pub(crate) fn reception(&self) -> Reception {
        let tracker = self.tracker.lock().unwrap_or_else(PoisonError::into_inner);
        tracker.reception()
    }

    /// Waits, once the other side has sent its last datagram, until what is still under way has come.
    pub(crate) async fn settle(&self, sent: u64) {
        const LOOK: Duration = Duration::from_millis(10);
        let begin = Instant::now();
        let mut seen = self.reception().received;
        let mut quiet_since = begin;
        while seen < sent && quiet_since.elapsed() < QUIET_TIME && begin.elapsed() < STRAGGLER_TIME
        {
            sleep(LOOK).await;
            let now = self.reception().received;
            if now > seen {
                seen = now;
                quiet_since = Instant::now();
            }
        }
    }

    pub(crate) fn greeting(&self) -> [u8; HEADER_BYTES] {
        let header = Header {
            token: self.token,
            number: 0,
            sent_nanoseconds: 0,
        };
        header.to_bytes()
    }
}

/// Sends as planned.
pub(crate) async fn send(
    port: &UdpPort,
    peer: Peer,
    token: Token,
    plan: &SendPlan,
    counter: &Counter,
    stop: &mut StopSignal,
) -> io::Result<()> {
    let mut train = Train::new(&plan.payload, port.max_datagrams_a_train());
    let mut sent = 0_u64;
    loop {
        tokio::task::coop::consume_budget().await;
        if is_stopped(stop) {
            return Ok(());
        }
        let now = Instant::now();
        match plan.turn(sent, now) {
            Turn::Done => return Ok(()),
            Turn::Until(due) => {
                tokio::select! {
                    () = sleep_until(due.into()) => {}
                    () = stopped(stop) => return Ok(()),
                }
            }
            Turn::Send(messages) => {
                let mut left = messages;
                while left > 0 {
                    let datagrams = left.min(train.capacity as u64);
                    let sent_nanoseconds = u64::try_from((now - plan.start).as_nanos());
                    let bytes = train.number(datagrams, |index| Header {
                        token,
                        number: sent + 1 + index,
                        sent_nanoseconds: sent_nanoseconds.unwrap_or(u64::MAX),
                    });
                    match port.send_train(peer, bytes, plan.payload.len()).await {
                        Ok(()) => {}
                        // Some devices take trains only of datagrams that need no fragments.
                        Err(_) if datagrams > 1 => {
                            train.capacity = 1;
                            continue;
                        }
                        // What the network refused a moment ago is a lost datagram, not the end.
                        Err(error) if is_passing(&error) => {}
                        Err(error) => return Err(error),
                    }
                    sent += datagrams;
                    left -= datagrams;
                    counter.add(datagrams, bytes.len());
                }
            }
        }
    }
}

fn is_passing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused
            | io::ErrorKind::NetworkUnreachable
            | io::ErrorKind::HostUnreachable
    ) || error.raw_os_error() == Some(libc::ENOBUFS)
}

/// Datagrams that lie one behind the other, all with the same contents but for their headers.
#[derive(Debug)]
struct Train {
    bytes: Vec<u8>,
    size: usize,
    capacity: usize,
}

impl Train {
    fn new(payload: &[u8], max_segments: usize) -> Train {
        let size = payload.len().max(HEADER_BYTES);
        let capacity = (TRAIN_BYTES / size).clamp(1, max_segments.max(1));
        Train {
            bytes: payload.repeat(capacity),
            size,
            capacity,
        }
    }

    /// Writes the headers of the first `datagrams`, which are then ready to be sent.
    fn number(&mut self, datagrams: u64, header: impl Fn(u64) -> Header) -> &[u8] {
        let count = usize::try_from(datagrams).unwrap_or(usize::MAX);
        for (index, datagram) in self
            .bytes
            .chunks_exact_mut(self.size)
            .take(count)
            .enumerate()
        {
            if let Some(head) = datagram.first_chunk_mut::<HEADER_BYTES>() {
                *head = header(index as u64).to_bytes();
            }
        }
        let end = count.saturating_mul(self.size).min(self.bytes.len());
        &self.bytes[..end]
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;

    #[test]
    fn headers_are_read_as_they_were_written() {
        let header = Header {
            token: Token(7),
            number: u64::MAX,
            sent_nanoseconds: 9,
        };
        let bytes = header.to_bytes();
        assert_eq!(Header::read(&bytes), Some(header));
        assert_eq!(Header::read(&bytes[..23]), None);
        assert_eq!(Header::read(b""), None);
    }

    #[test]
    fn a_train_has_a_header_in_each_datagram() {
        let mut train = Train::new(&[9; 100], 64);
        let bytes = train.number(3, |index| Header {
            token: Token(1),
            number: index + 1,
            sent_nanoseconds: 0,
        });
        assert_eq!(bytes.len(), 300);
        let numbers: Vec<u64> = bytes
            .chunks(100)
            .filter_map(Header::read)
            .map(|header| header.number)
            .collect();
        assert_eq!(numbers, [1, 2, 3]);
        assert_eq!(Train::new(&[0; 65_507], 64).capacity, 1);
        assert_eq!(Train::new(&[0; 24], 64).capacity, 64);
    }

    #[tokio::test]
    async fn trains_arrive_as_datagrams() {
        let loopback: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let sender = UdpPort::bind(loopback, None).unwrap();
        let receiver = UdpPort::bind(loopback, None).unwrap();
        let peer = Peer {
            address: receiver.local_addr().unwrap(),
            local: None,
        };
        let mut test = crate::TestParameters::new(crate::Protocol::Udp);
        test.size = 100;
        test.limit = crate::Limit::Count(40);
        test.bitrate = None;
        let start = Instant::now();
        let plan = SendPlan::new(&test, 0, start);
        let counter = Counter::new(start);
        let (_keep, mut stop) = tokio::sync::watch::channel(false);
        send(&sender, peer, Token(5), &plan, &counter, &mut stop)
            .await
            .unwrap();
        assert_eq!(counter.total().messages, 40);

        let mut buffers = Buffers::new();
        let mut numbers = Vec::new();
        while numbers.len() < 40 {
            let take = |from: Peer, datagram: &[u8]| {
                assert_eq!(from.address, sender.local_addr().unwrap());
                assert_eq!(datagram.len(), 100);
                numbers.push(Header::read(datagram).unwrap().number);
            };
            receiver.receive(&mut buffers, take).await.unwrap();
        }
        assert_eq!(numbers, (1..=40).collect::<Vec<u64>>());
    }
}
