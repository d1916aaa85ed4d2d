//! The ports of a call's media, and what becomes of them when they move to another address of ours.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sip::stun::binding_request;

/// Pairs of ports that are tried.
const ATTEMPTS: usize = 64;
/// A NAT forgets how it maps a port that is silent, many a one after 30 s: after so long a packet is sent (Tr of RFC 8445
/// section 11).
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// A port of RTP, and the next one for RTCP.
#[derive(Debug)]
pub(crate) struct PortPair {
    pub(crate) rtp: UdpSocket,
    pub(crate) rtcp: UdpSocket,
    pub(crate) local: SocketAddr,
    /// The STUN server that has told how a NAT maps these ports, and when it is asked again.
    mapping: Option<(SocketAddr, Instant)>,
}

impl PortPair {
    /// Opens an even port and the next one (RFC 3550 section 11).
    ///
    /// # Errors
    ///
    /// None are free, or the address is none of ours.
    pub(crate) fn open(address: IpAddr) -> std::io::Result<PortPair> {
        let mut last = None;
        for _ in 0..ATTEMPTS {
            let rtp = UdpSocket::bind((address, 0))?;
            let local = rtp.local_addr()?;
            if !local.port().is_multiple_of(2) {
                continue;
            }
            match UdpSocket::bind((address, local.port() + 1)) {
                Ok(rtcp) => {
                    rtp.set_nonblocking(true)?;
                    rtcp.set_nonblocking(true)?;
                    return Ok(PortPair {
                        rtp,
                        rtcp,
                        local,
                        mapping: None,
                    });
                }
                Err(error) => last = Some(error),
            }
        }
        Err(last.unwrap_or_else(|| ErrorKind::AddrInUse.into()))
    }

    /// A STUN server has told how a NAT maps these ports.
    pub(crate) fn mapped_by(&mut self, server: SocketAddr, now: Instant) {
        self.mapping = Some((server, now + KEEP_ALIVE));
    }

    /// Keeps the mapping by another request to the server, if it is time (RFC 8445 section 5.1.1.4).
    fn keep_mapping(&mut self, now: Instant) {
        let Some((server, due)) = &mut self.mapping else {
            return;
        };
        if *due > now {
            return;
        }
        *due = now + KEEP_ALIVE;
        for socket in [&self.rtp, &self.rtcp] {
            let _ = socket.send_to(&binding_request(rand::random()), *server);
        }
    }

    /// Our address of RTCP.
    pub(crate) fn local_rtcp(&self) -> SocketAddr {
        SocketAddr::new(self.local.ip(), self.local.port().saturating_add(1))
    }
}

/// Which ports a packet came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Those in use.
    Current,
    /// Those that are offered.
    Next,
    /// Those that were in use before.
    Before,
}

/// The ports of a call. While they move, packets are taken from the old ones and the new ones (RFC 3264 section 8.3.1).
#[derive(Debug)]
pub(crate) struct Ports {
    pub(crate) current: PortPair,
    next: Option<PortPair>,
    before: Option<PortPair>,
}

impl Ports {
    pub(crate) fn new(current: PortPair) -> Ports {
        Ports {
            current,
            next: None,
            before: None,
        }
    }

    /// These ports are offered.
    pub(crate) fn offer(&mut self, next: PortPair) {
        self.next = Some(next);
    }

    /// The ports that were offered are in use from now on, if any were.
    pub(crate) fn accepted(&mut self) -> bool {
        let Some(next) = self.next.take() else {
            return false;
        };
        self.before = Some(std::mem::replace(&mut self.current, next));
        true
    }

    /// The ports that were offered were refused.
    pub(crate) fn refused(&mut self) {
        self.next = None;
    }

    /// Media have arrived at the ports in use: those before are not needed any more, and media keep the mapping.
    pub(crate) fn arrived(&mut self) {
        self.before = None;
        self.current.mapping = None;
    }

    /// Keeps what a NAT knows of ports at which no media have arrived.
    pub(crate) fn keep_mappings(&mut self, now: Instant) {
        self.current.keep_mapping(now);
        if let Some(next) = &mut self.next {
            next.keep_mapping(now);
        }
    }

    /// The socket of RTP or RTCP at a place.
    pub(crate) fn socket(&self, place: Place, is_rtcp: bool) -> Option<&UdpSocket> {
        let pair = match place {
            Place::Current => Some(&self.current),
            Place::Next => self.next.as_ref(),
            Place::Before => self.before.as_ref(),
        }?;
        Some(if is_rtcp { &pair.rtcp } else { &pair.rtp })
    }

    /// Waits until something came, or it is time. The clock of the kernel's timers is fine enough here; that of a socket's
    /// timeout is not: it would be late by up to two ticks, which others would hear as jitter.
    pub(crate) fn wait(&self, until: Instant) -> bool {
        let wait = until.saturating_duration_since(Instant::now());
        if wait == Duration::ZERO {
            return false;
        }
        let timeout = Timespec {
            tv_sec: i64::try_from(wait.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(wait.subsec_nanos()),
        };
        let pairs = [
            Some(&self.current),
            self.next.as_ref(),
            self.before.as_ref(),
        ];
        let sockets = pairs
            .into_iter()
            .flatten()
            .flat_map(|pair| [&pair.rtp, &pair.rtcp]);
        let mut polled: Vec<PollFd<'_>> = sockets
            .map(|socket| PollFd::new(socket, PollFlags::IN))
            .collect();
        match poll(&mut polled, Some(&timeout)) {
            Ok(ready) => ready > 0,
            // A signal: the time that is left is waited for by the next turn.
            Err(_) => false,
        }
    }
}
