//! The way of a call's packets: two ports, what protects them, and how they are found. Sound knows nothing of either.
//!
//! One port may have RTP and RTCP, STUN and DTLS; the first octet tells them apart (RFC 7983 section 7).

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use media::rtp;
use media::srtp::{MasterKey, Protector, Suite, Unprotector};

use crate::dtls::{Certificate, Handshake};
use crate::ice::{Ice, IceSession};
use crate::negotiation::{Fingerprint, Negotiated, Security};
use crate::ports::{Place, PortPair, Ports};

/// Packets that are taken between two turns: what is more waits in the socket.
const MAX_PACKETS_A_TURN: usize = 64;
/// The largest datagram that is read.
const MAX_DATAGRAM: usize = 2_048;
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
    ports: Ports,
    certificate: Option<Arc<Certificate>>,
    /// Where the descriptions say that the other side is: RTP and RTCP.
    remote: Option<(SocketAddr, SocketAddr)>,
    /// The host whose packets are taken as the other side's where nothing in them says so, and when the last one came.
    heard: Option<(IpAddr, Instant)>,
    security: Security,
    ice: Option<Ice>,
    /// Of RTCP, if that has a port of its own.
    rtcp_ice: Option<Ice>,
    dtls: Option<Handshake>,
    /// Where the handshake was begun with.
    dtls_with: Option<SocketAddr>,
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
    /// Begins with these ports; a certificate is needed for DTLS alone.
    pub(crate) fn new(ports: PortPair, certificate: Option<Arc<Certificate>>) -> MediaPath {
        MediaPath {
            ports: Ports::new(ports),
            certificate,
            remote: None,
            heard: None,
            security: Security::None,
            ice: None,
            rtcp_ice: None,
            dtls: None,
            dtls_with: None,
            early: Vec::new(),
            protectors: Vec::new(),
            unprotectors: Vec::new(),
            dropped: 0,
        }
    }

    /// Our address of RTP.
    pub(crate) fn local(&self) -> SocketAddr {
        self.ports.current.local
    }

    /// These ports of ours are offered to the other side.
    pub(crate) fn offer_ports(&mut self, ports: PortPair) {
        self.ports.offer(ports);
    }

    /// The other side has accepted the ports that were offered; what was agreed on comes next.
    pub(crate) fn ports_accepted(&mut self) {
        if self.ports.accepted() {
            // Both begin anew from another address: checks (RFC 8445 section 9) and, without these, the handshake, since the
            // association is one between two addresses (RFC 5763 section 6.6).
            if self.ice.is_none() {
                self.dtls = None;
            }
            (self.ice, self.rtcp_ice) = (None, None);
        }
    }

    /// The other side has refused the ports that were offered.
    pub(crate) fn ports_refused(&mut self) {
        self.ports.refused();
    }

    /// Both sides have agreed, for the first time or anew. What is agreed on as before goes on.
    pub(crate) fn agree(&mut self, now: Instant, negotiated: &Negotiated) {
        let remote = Some((negotiated.rtp, negotiated.rtcp));
        if self.remote != remote {
            self.heard = None;
        }
        self.remote = remote;
        let ports = &self.ports.current;
        let rtcp = negotiated.ice.as_ref().and_then(IceSession::of_rtcp);
        agree_on_checks(&mut self.ice, now, negotiated.ice.clone(), ports.local);
        agree_on_checks(&mut self.rtcp_ice, now, rtcp, ports.local_rtcp());
        // Another address of the other side is the end of another association (RFC 5763 section 6.6); none is a hold.
        let is_elsewhere = |with: SocketAddr| {
            with != negotiated.rtp && !negotiated.rtp.ip().is_unspecified() && self.ice.is_none()
        };
        if self.dtls_with.is_some_and(is_elsewhere) {
            self.dtls = None;
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
            let _ = self.ports.current.rtp.send_to(&octets, to);
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
            // Where checks are made, nothing goes to a port that was not checked (RFC 7675 section 5.1).
            false => match (&self.ice, &self.rtcp_ice) {
                (None, _) => Some(rtcp),
                (Some(_), checked) => checked.as_ref().and_then(Ice::selected),
            },
        };
        // No RTCP either (RFC 3264 section 8.4).
        let Some(to) = to.filter(|to| !to.ip().is_unspecified()) else {
            return;
        };
        if let Some(octets) = self.protected(packet, Protector::protect_rtcp) {
            let ports = &self.ports.current;
            let socket = if is_on_one_port {
                &ports.rtp
            } else {
                &ports.rtcp
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
        while room > 0 && self.ports.wait(until) {
            let places = [Place::Current, Place::Next, Place::Before];
            let sockets = places.map(|place| [(place, false), (place, true)]);
            for to in sockets.into_iter().flatten() {
                while let Some(socket) = self.ports.socket(to.0, to.1) {
                    let (length, from) = match socket.recv_from(&mut buffer) {
                        Ok(received) => received,
                        Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                        // Nothing more came, or the other side's port is closed: it may open.
                        Err(_) => break,
                    };
                    let octets = buffer.get(..length).unwrap_or_default();
                    self.take(Instant::now(), octets, from, to, &mut handle);
                    room = room.saturating_sub(1);
                    if room == 0 {
                        return;
                    }
                }
            }
        }
    }

    /// Does what is due: checks, handshakes, and requests that keep ports open.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        self.ports.keep_mappings(now);
        for ice in [&mut self.ice, &mut self.rtcp_ice].into_iter().flatten() {
            ice.handle_timeout(now);
        }
        self.begin_handshake(now);
        if let Some(dtls) = &mut self.dtls {
            dtls.handle_timeout(now);
        }
        self.flush();
    }

    fn take(
        &mut self,
        now: Instant,
        octets: &[u8],
        from: SocketAddr,
        (place, is_rtcp_port): (Place, bool),
        handle: &mut impl FnMut(Instant, Received<'_>),
    ) {
        match octets.first() {
            Some(0..=3) => {
                let checks = match is_rtcp_port {
                    true => &mut self.rtcp_ice,
                    false => &mut self.ice,
                };
                if let Some(ice) = checks.as_mut().filter(|_| place == Place::Current) {
                    ice.handle(now, octets, from);
                    self.handle_timeout(now);
                }
            }
            Some(20..=63) => {
                self.take_handshake(now, octets, from, place);
                self.flush();
            }
            Some(128..=191) => {
                if place == Place::Current {
                    self.ports.arrived();
                }
                self.take_packet(now, octets, from, handle);
            }
            _ => self.dropped += 1,
        }
    }

    fn take_handshake(&mut self, now: Instant, octets: &[u8], from: SocketAddr, place: Place) {
        if self.remote.is_some() && !self.is_heard(now, from.ip()) {
            self.dropped += 1;
            return;
        }
        match &mut self.dtls {
            Some(dtls) if place != Place::Next => dtls.handle(octets),
            // It is for the association that begins when the answer is there.
            _ if self.certificate.is_some() && self.early.len() < MAX_EARLY => {
                self.early.push((from, octets.to_vec()));
            }
            _ => self.dropped += 1,
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
        let described = self.remote.map(|(rtp, _)| rtp);
        match &self.ice {
            Some(ice) => ice.selected(),
            // As calls were held before there were directions (RFC 3264 section 8.4).
            None => described.filter(|rtp| !rtp.ip().is_unspecified()),
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
        self.dtls_with = self.remote.map(|(rtp, _)| rtp);
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
        let ports = &self.ports.current;
        let checks = [
            (&mut self.ice, &ports.rtp),
            (&mut self.rtcp_ice, &ports.rtcp),
        ];
        for (ice, socket) in checks {
            while let Some((octets, to)) = ice.as_mut().and_then(Ice::poll_transmit) {
                let _ = socket.send_to(&octets, to);
            }
        }
        let to = self.destination();
        let Some(dtls) = &mut self.dtls else {
            return;
        };
        for octets in dtls.take_transmits() {
            if let Some(to) = to {
                let _ = self.ports.current.rtp.send_to(&octets, to);
            }
        }
        if let Some(keys) = dtls.keys().cloned() {
            self.install(keys.send, keys.receive);
        }
    }
}

/// Checks begin, go on or end, as both sides have agreed.
fn agree_on_checks(
    ice: &mut Option<Ice>,
    now: Instant,
    session: Option<IceSession>,
    local: SocketAddr,
) {
    match (ice.as_mut(), session) {
        (Some(running), Some(session)) => running.agree(now, session),
        (None, Some(session)) => *ice = Some(Ice::new(now, session, local)),
        (_, None) => *ice = None,
    }
}

#[cfg(test)]
mod tests;
