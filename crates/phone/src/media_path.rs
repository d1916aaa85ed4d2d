//! The way of a call's packets: two ports, what protects them, and how they are found. Sound knows nothing of either.
//!
//! One port may have RTP and RTCP, STUN and DTLS; the first octet tells them apart (RFC 7983 section 7).

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use media::rtp;
use media::srtp::{MasterKey, Protector, Suite, Unprotector};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::dtls::{Certificate, Handshake};
use crate::ice::Ice;
use crate::negotiation::{Fingerprint, Negotiated, Security};

/// Packets that are taken between two turns: what is more waits in the socket.
const MAX_PACKETS_A_TURN: usize = 64;
/// The largest datagram that is read.
const MAX_DATAGRAM: usize = 2_048;
/// Pairs of ports that are tried.
const ATTEMPTS: usize = 64;
/// Datagrams of a handshake that came before the answer; the other side may begin at once (RFC 5763 section 5).
const MAX_EARLY: usize = 4;
/// Another host than the described one is taken for the other side until it is silent for so long.
const STRANGER_SILENCE: Duration = Duration::from_secs(5);
/// Keys of the other side that are tried: those agreed on last, and those before, whose packets may be on their way (RFC 4568
/// section 7.1.4).
const MAX_UNPROTECTORS: usize = 2;
/// Keys of ours that are kept.
const MAX_PROTECTORS: usize = 64;

/// The ports of a call, and the way to the other side.
#[derive(Debug)]
pub(crate) struct MediaPath {
    rtp: UdpSocket,
    rtcp: UdpSocket,
    local: SocketAddr,
    certificate: Option<Arc<Certificate>>,
    /// Where the descriptions say that the other side is: RTP and RTCP.
    remote: Option<(SocketAddr, SocketAddr)>,
    /// The host whose packets are taken as the other side's where nothing in them says so, and when the last one came.
    heard: Option<(IpAddr, Instant)>,
    security: Security,
    ice: Option<Ice>,
    dtls: Option<Handshake>,
    early: Vec<(SocketAddr, Vec<u8>)>,
    /// Of the keys of ours that were used in the call: under one key no packet index comes twice (RFC 3711 section 9.1).
    protectors: Vec<(MasterKey, Protector)>,
    unprotectors: Vec<(MasterKey, Unprotector)>,
    dropped: u64,
}

/// A packet as its sender made it.
pub(crate) enum Received<'a> {
    Rtp(&'a [u8]),
    Rtcp(&'a [u8]),
}

impl MediaPath {
    /// Opens the ports; a certificate is needed for DTLS alone.
    ///
    /// # Errors
    ///
    /// There are none.
    pub(crate) fn open(
        address: IpAddr,
        certificate: Option<Arc<Certificate>>,
    ) -> std::io::Result<MediaPath> {
        let (rtp, rtcp) = bind_pair(address)?;
        Ok(MediaPath {
            local: rtp.local_addr()?,
            rtp,
            rtcp,
            certificate,
            remote: None,
            heard: None,
            security: Security::None,
            ice: None,
            dtls: None,
            early: Vec::new(),
            protectors: Vec::new(),
            unprotectors: Vec::new(),
            dropped: 0,
        })
    }

    /// Our address of RTP.
    pub(crate) fn local(&self) -> SocketAddr {
        self.local
    }

    /// Both sides have agreed, for the first time or anew. What is agreed on as before goes on.
    pub(crate) fn agree(&mut self, now: Instant, negotiated: &Negotiated) {
        let remote = Some((negotiated.rtp, negotiated.rtcp));
        if self.remote != remote {
            self.heard = None;
        }
        self.remote = remote;
        match (&mut self.ice, negotiated.ice.clone()) {
            (Some(ice), Some(session)) => ice.agree(now, session),
            (None, Some(session)) => self.ice = Some(Ice::new(now, session, self.local)),
            (_, None) => self.ice = None,
        }
        if self.security != negotiated.security {
            self.security = negotiated.security.clone();
            self.dtls = None;
            if let Security::Sdes { send, receive } = &self.security {
                let (send, receive) = (send.clone(), receive.clone());
                self.install(send, receive);
            }
        }
        self.handle_timeout(now);
    }

    /// What protects packets now; `None`: nothing, or the keys are not there yet.
    pub(crate) fn suite(&self) -> Option<Suite> {
        self.send_key().map(MasterKey::suite)
    }

    /// Packets that were not authentic, came a second time, or could not be read.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped
    }

    /// The handshake has failed: the call must not go on (RFC 5763 section 5).
    pub(crate) fn has_failed(&self) -> bool {
        self.dtls.as_ref().is_some_and(Handshake::has_failed)
    }

    /// Sends a data packet. One that does not leave is lost, as any other may be.
    pub(crate) fn send_rtp(&mut self, packet: &[u8]) {
        let Some(to) = self.destination() else {
            return;
        };
        if let Some(octets) = self.protected(packet, Protector::protect_rtp) {
            let _ = self.rtp.send_to(&octets, to);
        }
    }

    /// Sends a compound packet.
    pub(crate) fn send_rtcp(&mut self, packet: &[u8]) {
        let Some((rtp, rtcp)) = self.remote else {
            return;
        };
        let is_on_one_port = rtp == rtcp;
        let to = match is_on_one_port {
            true => self.destination(),
            // Checks say nothing of another port, and where they are made nothing goes to one (RFC 7675 section 5.1).
            false => Some(rtcp).filter(|_| self.ice.is_none()),
        };
        // On hold, as before there were directions: no RTCP either (RFC 3264 section 8.4).
        let Some(to) = to.filter(|to| !to.ip().is_unspecified()) else {
            return;
        };
        if let Some(octets) = self.protected(packet, Protector::protect_rtcp) {
            let socket = if is_on_one_port {
                &self.rtp
            } else {
                &self.rtcp
            };
            let _ = socket.send_to(&octets, to);
        }
    }

    /// Takes what comes until a moment.
    pub(crate) fn receive(
        &mut self,
        until: Instant,
        mut handle: impl FnMut(Instant, Received<'_>),
    ) {
        let mut buffer = [0; MAX_DATAGRAM];
        let mut room = MAX_PACKETS_A_TURN;
        while room > 0 && self.wait(until) {
            for is_rtcp_port in [false, true] {
                loop {
                    let socket = if is_rtcp_port { &self.rtcp } else { &self.rtp };
                    let (length, from) = match socket.recv_from(&mut buffer) {
                        Ok(received) => received,
                        Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                        // Nothing more came, or the other side's port is closed: it may open.
                        Err(_) => break,
                    };
                    let octets = buffer.get(..length).unwrap_or_default();
                    self.take(Instant::now(), octets, from, &mut handle);
                    room = room.saturating_sub(1);
                    if room == 0 {
                        return;
                    }
                }
            }
        }
    }

    /// Does what is due: checks and handshakes.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        if let Some(ice) = &mut self.ice {
            ice.handle_timeout(now);
        }
        self.begin_handshake(now);
        if let Some(dtls) = &mut self.dtls {
            dtls.handle_timeout(now);
        }
        self.flush();
    }

    /// Waits until something came, or it is time. The clock of the kernel's timers is fine enough here; that of a socket's
    /// timeout is not: it would be late by up to two ticks, which others would hear as jitter.
    fn wait(&self, until: Instant) -> bool {
        let wait = until.saturating_duration_since(Instant::now());
        if wait == Duration::ZERO {
            return false;
        }
        let timeout = Timespec {
            tv_sec: i64::try_from(wait.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(wait.subsec_nanos()),
        };
        let mut ports = [
            PollFd::new(&self.rtp, PollFlags::IN),
            PollFd::new(&self.rtcp, PollFlags::IN),
        ];
        match poll(&mut ports, Some(&timeout)) {
            Ok(ready) => ready > 0,
            // A signal: the time that is left is waited for by the next turn.
            Err(_) => false,
        }
    }

    fn take(
        &mut self,
        now: Instant,
        octets: &[u8],
        from: SocketAddr,
        handle: &mut impl FnMut(Instant, Received<'_>),
    ) {
        match octets.first() {
            Some(0..=3) => {
                if let Some(ice) = &mut self.ice {
                    ice.handle(now, octets, from);
                    self.handle_timeout(now);
                }
            }
            Some(20..=63) => {
                self.take_handshake(now, octets, from);
                self.flush();
            }
            Some(128..=191) => self.take_packet(now, octets, from, handle),
            _ => self.dropped += 1,
        }
    }

    fn take_handshake(&mut self, now: Instant, octets: &[u8], from: SocketAddr) {
        if self.remote.is_some() && !self.is_heard(now, from.ip()) {
            self.dropped += 1;
            return;
        }
        match &mut self.dtls {
            Some(dtls) => dtls.handle(octets),
            None if self.certificate.is_some() && self.early.len() < MAX_EARLY => {
                self.early.push((from, octets.to_vec()));
            }
            None => self.dropped += 1,
        }
    }

    fn take_packet(
        &mut self,
        now: Instant,
        octets: &[u8],
        from: SocketAddr,
        handle: &mut impl FnMut(Instant, Received<'_>),
    ) {
        let is_rtcp = rtp::is_rtcp(octets);
        if self.security == Security::None {
            match (self.is_heard(now, from.ip()), is_rtcp) {
                (true, true) => handle(now, Received::Rtcp(octets)),
                (true, false) => handle(now, Received::Rtp(octets)),
                (false, _) => self.dropped += 1,
            }
            return;
        }
        // Where it comes from says nothing that its tag does not say for sure.
        for (_, unprotector) in &mut self.unprotectors {
            let mut packet = octets.to_vec();
            let taken = match is_rtcp {
                true => unprotector.unprotect_rtcp(&mut packet),
                false => unprotector.unprotect_rtp(&mut packet),
            };
            if taken.is_ok() {
                handle(
                    now,
                    match is_rtcp {
                        true => Received::Rtcp(&packet),
                        false => Received::Rtp(&packet),
                    },
                );
                return;
            }
        }
        self.dropped += 1;
    }

    /// Anybody can send to a port: the host that is described is heard, and as long as nothing comes from there, the one from
    /// which the first packet came. Behind a NAT, or where a host has several addresses, the other side's packets come
    /// from another one than it describes (RFC 7362 section 4). ICE finds that out by checks that others cannot make.
    fn is_heard(&mut self, now: Instant, host: IpAddr) -> bool {
        // What is left of another call's packets must not keep the other side's out for good.
        let gives_way = |(before, last): (IpAddr, Instant)| {
            let silence = now.saturating_duration_since(last);
            before == host || !self.is_described(before) && silence > STRANGER_SILENCE
        };
        let may_be_another = self.remote.is_some() && self.ice.is_none();
        let is_heard =
            self.is_described(host) || may_be_another && self.heard.is_none_or(gives_way);
        if is_heard {
            self.heard = Some((host, now));
        }
        is_heard
    }

    fn is_described(&self, host: IpAddr) -> bool {
        match (&self.ice, self.remote) {
            (Some(ice), _) => ice.knows(host),
            (None, Some((rtp, _))) => rtp.ip() == host,
            (None, None) => false,
        }
    }

    /// Where data packets go; `None` while that is not known, or nobody is there.
    fn destination(&self) -> Option<SocketAddr> {
        match &self.ice {
            Some(ice) => ice.selected(),
            None => self.remote.map(|(rtp, _)| rtp),
        }
    }

    fn send_key(&self) -> Option<&MasterKey> {
        match &self.security {
            Security::None => None,
            Security::Sdes { send, .. } => Some(send),
            Security::Dtls { .. } => Some(&self.dtls.as_ref()?.keys()?.send),
        }
    }

    /// The packet as it is sent; `None`: it must not be.
    fn protected(
        &mut self,
        packet: &[u8],
        protect: impl FnOnce(&mut Protector, &mut Vec<u8>) -> Result<(), media::srtp::SrtpError>,
    ) -> Option<Vec<u8>> {
        let mut octets = packet.to_vec();
        if self.security == Security::None {
            return Some(octets);
        }
        let key = self.send_key()?.clone();
        let mut protectors = self.protectors.iter_mut();
        let (_, protector) = protectors.find(|(known, _)| *known == key)?;
        protect(protector, &mut octets).ok()?;
        Some(octets)
    }

    fn install(&mut self, send: MasterKey, receive: MasterKey) {
        if self.protectors.iter().all(|(known, _)| *known != send) {
            // Those of handshakes never come again, and a peer may ask for any number of them.
            if self.protectors.len() >= MAX_PROTECTORS {
                self.protectors.remove(0);
            }
            let protector = Protector::new(&send);
            self.protectors.push((send, protector));
        }
        if self.unprotectors.iter().all(|(known, _)| *known != receive) {
            let unprotector = Unprotector::new(&receive);
            self.unprotectors.insert(0, (receive, unprotector));
            self.unprotectors.truncate(MAX_UNPROTECTORS);
        }
    }

    /// A handshake begins when there is a way for it.
    fn begin_handshake(&mut self, now: Instant) {
        let Security::Dtls {
            fingerprints,
            is_client,
        } = &self.security
        else {
            return;
        };
        if self.dtls.is_some() || self.destination().is_none() {
            return;
        }
        let (fingerprints, is_client): (Vec<Fingerprint>, bool) =
            (fingerprints.clone(), *is_client);
        let Some(certificate) = &self.certificate else {
            return;
        };
        self.dtls = Handshake::new(now, certificate, fingerprints, is_client);
        // Those of strangers, which came before it was known who is one, are not heard.
        for (from, octets) in std::mem::take(&mut self.early) {
            let is_theirs = self.is_described(from.ip());
            if let Some(dtls) = self.dtls.as_mut().filter(|_| is_theirs) {
                dtls.handle(&octets);
            }
        }
    }

    /// Sends what checks and handshakes have to say.
    fn flush(&mut self) {
        if let Some(ice) = &mut self.ice {
            while let Some((octets, to)) = ice.poll_transmit() {
                let _ = self.rtp.send_to(&octets, to);
            }
        }
        let to = self.destination();
        let Some(dtls) = &mut self.dtls else {
            return;
        };
        for octets in dtls.take_transmits() {
            if let Some(to) = to {
                let _ = self.rtp.send_to(&octets, to);
            }
        }
        if let Some(keys) = dtls.keys().cloned() {
            self.install(keys.send, keys.receive);
        }
    }
}

/// Two sockets on an even port and the next one (RFC 3550 section 11).
fn bind_pair(address: IpAddr) -> std::io::Result<(UdpSocket, UdpSocket)> {
    let mut last = None;
    for _ in 0..ATTEMPTS {
        let rtp = UdpSocket::bind((address, 0))?;
        let port = rtp.local_addr()?.port();
        if !port.is_multiple_of(2) {
            continue;
        }
        match UdpSocket::bind((address, port + 1)) {
            Ok(rtcp) => {
                rtp.set_nonblocking(true)?;
                rtcp.set_nonblocking(true)?;
                return Ok((rtp, rtcp));
            }
            Err(error) => last = Some(error),
        }
    }
    Err(last.unwrap_or_else(|| ErrorKind::AddrInUse.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_host_is_heard_until_the_described_one_is() {
        let at = |text: &str| text.parse::<IpAddr>().unwrap();
        let (described, one, other) = (at("192.0.2.1"), at("192.0.2.2"), at("192.0.2.3"));
        let mut path = MediaPath::open(at("127.0.0.1"), None).unwrap();
        let now = Instant::now();
        assert!(!path.is_heard(now, one), "nothing is agreed on");
        path.remote = Some(((described, 4_000).into(), (described, 4_001).into()));
        assert!(path.is_heard(now, one) && !path.is_heard(now, other));
        let later = now + 2 * STRANGER_SILENCE;
        assert!(path.is_heard(later, other) && !path.is_heard(later, one));
        assert!(path.is_heard(later, described) && !path.is_heard(later, other));
        assert!(!path.is_heard(later + 2 * STRANGER_SILENCE, other));
    }
}
