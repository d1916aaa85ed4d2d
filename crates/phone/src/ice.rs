//! The path of the media: connectivity checks (RFC 8445) by the crate `is`, from one address of ours for each component, which
//! is told as a STUN server sees it, too. The crate knows one component: where RTCP has a port of its own, that one has an agent of its own, too.
//!
//! The pair that is chosen is checked on; without answers nothing is sent any more (RFC 7675 section 5.1).

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use is::stun::{StunMessage, StunPacket};
use is::{IceAgent, IceAgentEvent, IceConnectionState, IceCreds, Protocol};

use crate::stun::MappedAddresses;

/// Hosts that are kept from which the other side's checks came.
const MAX_SOURCES: usize = 8;

/// What a port is for (RFC 8445 section 13): RTP, or both RTP and RTCP; or RTCP alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Component {
    Rtp,
    Rtcp,
}

impl Component {
    const fn id(self) -> &'static str {
        match self {
            Component::Rtp => "1",
            Component::Rtcp => "2",
        }
    }
}

/// Where a side may be reached by UDP.
#[derive(Clone, PartialEq, Eq)]
pub struct Candidate(is::Candidate);

impl fmt::Debug for Candidate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.write(Component::Rtp))
    }
}

impl Candidate {
    /// An address of ours. `None` for one that nobody can reach.
    pub(crate) fn host(address: SocketAddr) -> Option<Candidate> {
        is::Candidate::host(address, Protocol::Udp)
            .ok()
            .map(Candidate)
    }

    /// What others see of an address of ours. `None` for what nobody can reach.
    fn server_reflexive(seen: SocketAddr, base: SocketAddr) -> Option<Candidate> {
        is::Candidate::server_reflexive(seen, base, Protocol::Udp)
            .ok()
            .map(Candidate)
    }

    /// The values of `a=candidate` for our port of RTP, and for that of RTCP after it if it is used; also as others see them.
    pub(crate) fn of_ports(
        rtp: SocketAddr,
        mapped: Option<MappedAddresses>,
        has_rtcp: bool,
    ) -> Vec<String> {
        let rtcp = SocketAddr::new(rtp.ip(), rtp.port().saturating_add(1));
        let ports = [
            (rtp, mapped.map(|mapped| mapped.rtp), Component::Rtp),
            (rtcp, mapped.map(|mapped| mapped.rtcp), Component::Rtcp),
        ];
        let mut candidates = Vec::new();
        for (address, seen, component) in ports.into_iter().take(if has_rtcp { 2 } else { 1 }) {
            let host = Candidate::host(address);
            // One and the same is told once (RFC 8445 section 5.1.3).
            let seen = seen.filter(|seen| *seen != address);
            let seen = seen.and_then(|seen| Candidate::server_reflexive(seen, address));
            candidates.extend(
                [host, seen]
                    .into_iter()
                    .flatten()
                    .map(|one| one.write(component)),
            );
        }
        candidates
    }

    /// Reads the value of `a=candidate`. `None` for what cannot be read, other transports, and the other component.
    pub(crate) fn read(value: &str, component: Component) -> Option<Candidate> {
        let words: Vec<&str> = value.split_ascii_whitespace().collect();
        let [foundation, id, others @ ..] = words.as_slice() else {
            return None;
        };
        if *id != component.id() {
            return None;
        }
        let value = format!("candidate:{foundation} 1 {}", others.join(" "));
        let candidate = is::Candidate::from_sdp_string(&value).ok()?;
        (candidate.proto() == Protocol::Udp).then_some(Candidate(candidate))
    }

    /// The value of `a=candidate`.
    fn write(&self, component: Component) -> String {
        let text = self.0.to_sdp_string();
        let text = text.strip_prefix("candidate:").unwrap_or(&text);
        let words = text.split_ascii_whitespace().enumerate();
        let words = words.map(|(place, word)| match (component, place) {
            (Component::Rtcp, 1) => component.id().to_owned(),
            // The preference ends with the component (RFC 8445 section 5.1.2.1).
            (Component::Rtcp, 3) => {
                let priority = word
                    .parse::<u32>()
                    .map_or(0, |priority| priority.saturating_sub(1));
                priority.to_string()
            }
            _ => word.to_owned(),
        });
        words.collect::<Vec<_>>().join(" ")
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.0.addr()
    }
}

/// How a path is found (RFC 8445).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IceSession {
    /// Our credentials.
    pub local: IceCredentials,
    /// The other side's credentials; checks begin anew when they change.
    pub remote: IceCredentials,
    /// Where the other side may be reached.
    pub candidates: Vec<Candidate>,
    /// Where its RTCP is, if that has a port of its own.
    pub rtcp_candidates: Option<Vec<Candidate>>,
    /// We choose the path.
    pub is_controlling: bool,
}

impl IceSession {
    /// That of RTCP, if it has a port of its own.
    pub(crate) fn of_rtcp(&self) -> Option<IceSession> {
        Some(IceSession {
            candidates: self.rtcp_candidates.clone()?,
            rtcp_candidates: None,
            ..self.clone()
        })
    }
}

/// What shows that a check is the other side's (RFC 8445 section 5.3).
#[derive(Clone, PartialEq, Eq)]
pub struct IceCredentials {
    /// The fragment of the user name.
    pub ufrag: String,
    /// The password.
    pub password: String,
}

/// The password is not told.
impl fmt::Debug for IceCredentials {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "IceCredentials({})", self.ufrag)
    }
}

impl IceCredentials {
    /// At least 24 bits of randomness in the one, and 128 bits in the other (RFC 8445 section 5.3).
    pub fn new(random: [u8; 32]) -> IceCredentials {
        const SIGNS: &[u8; 64] =
            b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        // Six bits of each octet.
        let signs = |octets: &[u8]| -> String {
            let places = octets.iter().map(|octet| usize::from(octet & 63));
            places
                .filter_map(|place| SIGNS.get(place).map(|sign| char::from(*sign)))
                .collect()
        };
        let (ufrag, password) = random.split_at_checked(8).unwrap_or_default();
        IceCredentials {
            ufrag: signs(ufrag),
            password: signs(password),
        }
    }

    /// Reads the values of two attributes: letters, digits, `+` and `/`, 4 to 256 and 22 to 256 of them (RFC 8839 section
    /// 5.4).
    pub(crate) fn read(ufrag: &str, password: &str) -> Option<IceCredentials> {
        let fits = |text: &str, least: usize| {
            let is_sign = |octet: u8| octet.is_ascii_alphanumeric() || matches!(octet, b'+' | b'/');
            (least..=256).contains(&text.len()) && text.bytes().all(is_sign)
        };
        (fits(ufrag, 4) && fits(password, 22)).then(|| IceCredentials {
            ufrag: ufrag.to_owned(),
            password: password.to_owned(),
        })
    }
}

/// Checks of one call.
pub(crate) struct Ice {
    agent: IceAgent,
    session: IceSession,
    local: SocketAddr,
    selected: Option<SocketAddr>,
    /// Hosts from which checks came that only the other side can make.
    sources: Vec<IpAddr>,
}

impl Ice {
    /// Begins to check.
    pub(crate) fn new(now: Instant, session: IceSession, local: SocketAddr) -> Ice {
        let mut agent = IceAgent::new(credentials(&session.local));
        agent.set_controlling(session.is_controlling);
        agent.set_remote_credentials(credentials(&session.remote));
        if let Some(host) = Candidate::host(local) {
            agent.add_local_candidate(host.0);
        }
        for candidate in &session.candidates {
            agent.add_remote_candidate(candidate.0.clone());
        }
        agent.handle_timeout(now);
        Ice {
            agent,
            session,
            local,
            selected: None,
            sources: Vec::new(),
        }
    }

    /// Both sides have agreed again: candidates may be more, and other credentials begin anew (RFC 8445 section 9).
    pub(crate) fn agree(&mut self, now: Instant, session: IceSession) {
        let is_same = self.session.local == session.local && self.session.remote == session.remote;
        if !is_same {
            // Until a new path is found the old one is used.
            let (selected, sources) = (self.selected, std::mem::take(&mut self.sources));
            *self = Ice::new(now, session, self.local);
            self.selected = selected;
            self.sources = sources;
            return;
        }
        for candidate in &session.candidates {
            if !self.session.candidates.contains(candidate) {
                self.agent.add_remote_candidate(candidate.0.clone());
            }
        }
        self.session.candidates = session.candidates;
    }

    /// A STUN message came.
    pub(crate) fn handle(&mut self, now: Instant, octets: &[u8], from: SocketAddr) {
        let Ok(message) = StunMessage::parse(octets) else {
            return;
        };
        if self.agent.accepts_message(&message) {
            let packet = StunPacket {
                proto: Protocol::Udp,
                source: from,
                destination: self.local,
                message,
            };
            self.agent.handle_packet(now, packet);
            self.settle();
        }
    }

    /// Time has passed.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        self.agent.handle_timeout(now);
        self.settle();
    }

    /// The next check or answer that is to be sent.
    pub(crate) fn poll_transmit(&mut self) -> Option<(Vec<u8>, SocketAddr)> {
        let transmit = self.agent.poll_transmit()?;
        Some((transmit.contents.into(), transmit.destination))
    }

    /// Where packets are to be sent, once that is known, and as long as the other side agrees.
    pub(crate) fn selected(&self) -> Option<SocketAddr> {
        self.selected
    }

    /// Whether a host may be the other side: checks came from there, the path leads there, or as long as none is chosen, it is
    /// a candidate. A host with several addresses sends from another one than it is reached at.
    pub(crate) fn knows(&self, host: IpAddr) -> bool {
        let mut candidates = self.session.candidates.iter();
        self.sources.contains(&host)
            || match self.selected {
                Some(selected) => selected.ip() == host,
                None => candidates.any(|candidate| candidate.address().ip() == host),
            }
    }

    fn settle(&mut self) {
        while let Some(event) = self.agent.poll_event() {
            match event {
                IceAgentEvent::NominatedSend { destination, .. } => {
                    self.selected = Some(destination);
                }
                IceAgentEvent::IceConnectionStateChange(IceConnectionState::Disconnected) => {
                    self.selected = None;
                }
                IceAgentEvent::DiscoveredRecv { source, .. } => {
                    let host = source.ip();
                    if !self.sources.contains(&host) && self.sources.len() < MAX_SOURCES {
                        self.sources.push(host);
                    }
                }
                IceAgentEvent::IceRestart(_) | IceAgentEvent::IceConnectionStateChange(_) => {}
            }
        }
    }
}

impl fmt::Debug for Ice {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Ice(selected {:?})", self.selected)
    }
}

fn credentials(ours: &IceCredentials) -> IceCreds {
    IceCreds {
        ufrag: ours.ufrag.clone(),
        pass: ours.password.clone(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn end(own: u8, other: u8, is_controlling: bool, remote: &str) -> IceSession {
        IceSession {
            local: IceCredentials::new([own; 32]),
            remote: IceCredentials::new([other; 32]),
            candidates: vec![Candidate::host(remote.parse().unwrap()).unwrap()],
            rtcp_candidates: None,
            is_controlling,
        }
    }

    /// Carries everything between the two for a time; `works` says when.
    fn carry(
        ends: &mut [(Ice, SocketAddr); 2],
        start: Instant,
        seconds: std::ops::Range<u64>,
        works: bool,
    ) {
        for tick in seconds.start * 50..seconds.end * 50 {
            let now = start + Duration::from_millis(20) * tick as u32;
            for (from, to) in [(0, 1), (1, 0)] {
                ends[from].0.handle_timeout(now);
                while let Some((octets, destination)) = ends[from].0.poll_transmit() {
                    assert_eq!(destination, ends[to].1);
                    let source = ends[from].1;
                    if works {
                        ends[to].0.handle(now, &octets, source);
                    }
                }
            }
        }
    }

    #[test]
    fn both_ends_find_the_path_and_stop_when_it_is_gone() {
        let (one, two) = ("192.0.2.1:4000", "192.0.2.2:5000");
        let start = Instant::now();
        let at = |text: &str| text.parse::<SocketAddr>().unwrap();
        let mut ends = [
            (Ice::new(start, end(1, 2, true, two), at(one)), at(one)),
            (Ice::new(start, end(2, 1, false, one), at(two)), at(two)),
        ];
        assert_eq!(ends[0].0.selected(), None, "nothing is sent before");
        assert!(ends[0].0.knows(at(two).ip()) && !ends[0].0.knows(at(one).ip()));
        carry(&mut ends, start, 0..5, true);
        assert_eq!(ends[0].0.selected(), Some(at(two)));
        assert_eq!(ends[1].0.selected(), Some(at(one)));
        // RFC 7675 section 5.1: without answers for 30 s nothing is sent.
        carry(&mut ends, start, 5..60, false);
        assert_eq!(ends[0].0.selected(), None);
        assert_eq!(ends[1].0.selected(), None);
    }

    #[test]
    fn others_are_not_believed() {
        let start = Instant::now();
        let (one, two) = ("192.0.2.1:4000", "192.0.2.2:5000");
        let at = |text: &str| text.parse::<SocketAddr>().unwrap();
        let mut ends = [
            (Ice::new(start, end(1, 2, true, two), at(one)), at(one)),
            (Ice::new(start, end(3, 1, false, one), at(two)), at(two)),
        ];
        carry(&mut ends, start, 0..5, true);
        assert_eq!((ends[0].0.selected(), ends[1].0.selected()), (None, None));
    }

    #[test]
    fn candidates_are_read_as_they_were_written() {
        let at = |text: &str| text.parse::<SocketAddr>().unwrap();
        let written = Candidate::of_ports(at("192.0.2.1:4000"), None, true);
        let [rtp, rtcp] = written.as_slice() else {
            panic!("two components: {written:?}");
        };
        let read = |value: &str, component| {
            Candidate::read(value, component).map(|candidate| candidate.address())
        };
        assert_eq!(read(rtp, Component::Rtp), Some(at("192.0.2.1:4000")));
        assert_eq!(read(rtcp, Component::Rtcp), Some(at("192.0.2.1:4001")));
        assert_eq!(
            (read(rtp, Component::Rtcp), read(rtcp, Component::Rtp)),
            (None, None)
        );
        let priority = |value: &str| value.split(' ').nth(3).unwrap().parse::<u32>().unwrap();
        assert_eq!(priority(rtp) - 1, priority(rtcp));
        let mapped = MappedAddresses {
            rtp: at("198.51.100.7:14000"),
            rtcp: at("198.51.100.7:14003"),
        };
        let written = Candidate::of_ports(at("192.0.2.1:4000"), Some(mapped), true);
        let kinds = written.iter().map(|value| value.split(' ').nth(7));
        assert_eq!(
            kinds.collect::<Option<Vec<_>>>().unwrap(),
            ["host", "srflx", "host", "srflx"]
        );
        assert_eq!(read(&written[1], Component::Rtp), Some(mapped.rtp));
        assert_eq!(read(&written[3], Component::Rtcp), Some(mapped.rtcp));
        assert!(priority(&written[1]) < priority(&written[0]));
        for other in [
            "1 1 tcp 2130706431 192.0.2.1 9 typ host tcptype active",
            "1 1 udp 2130706431 3c1f.local 4000 typ host",
            "1 1 udp",
            "",
        ] {
            assert_eq!(Candidate::read(other, Component::Rtp), None, "{other}");
        }
        assert_eq!(Candidate::host("0.0.0.0:4000".parse().unwrap()), None);
    }
}
