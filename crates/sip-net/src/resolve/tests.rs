//! The procedures of RFC 3263 on invented zones.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use proptest::prelude::*;
use sip::Transport;

use super::locate::{Hop, Located, Question, Reach, locate};
use super::records::{Found, Key, Kind, Naptr, RecordSet, Records, Srv};

/// A zone: what it does not have does not exist.
#[derive(Clone, Debug, Default)]
struct Zone(BTreeMap<Key, RecordSet>);

impl Zone {
    fn naptr(mut self, name: &str, records: &[(u16, u16, &str, &str)]) -> Zone {
        let record = |(order, preference, services, replacement): &(u16, u16, &str, &str)| Naptr {
            order: *order,
            preference: *preference,
            flags: b"s".as_slice().into(),
            services: services.as_bytes().into(),
            regexp: Box::default(),
            replacement: (*replacement).into(),
        };
        let set = RecordSet::Naptr(records.iter().map(record).collect());
        self.0.insert(Key::new(Kind::Naptr, name), set);
        self
    }

    fn srv(mut self, name: &str, records: &[(u16, u16, u16, &str)]) -> Zone {
        let record = |(priority, weight, port, target): &(u16, u16, u16, &str)| Srv {
            priority: *priority,
            weight: *weight,
            port: *port,
            target: (*target).into(),
        };
        let set = RecordSet::Srv(records.iter().map(record).collect());
        self.0.insert(Key::new(Kind::Srv, name), set);
        self
    }

    fn host(mut self, name: &str, addresses: &[&str]) -> Zone {
        let addresses: Vec<IpAddr> = addresses
            .iter()
            .map(|text| text.parse().expect("an address"))
            .collect();
        for (kind, is_ipv6) in [(Kind::A, false), (Kind::Aaaa, true)] {
            let of_kind: Vec<IpAddr> = addresses
                .iter()
                .copied()
                .filter(|address| address.is_ipv6() == is_ipv6)
                .collect();
            if !of_kind.is_empty() {
                let set = RecordSet::Addresses(of_kind);
                self.0.insert(Key::new(kind, name), set);
            }
        }
        self
    }

    /// What the procedure finds here, and how many rounds of questions it has taken.
    fn resolve(&self, question: &Question, reach: &Reach, seed: u64) -> (Vec<Hop>, usize) {
        let mut asked = Asked {
            zone: self,
            keys: Vec::new(),
        };
        for rounds in 0..10 {
            match locate(question, reach, &asked, seed) {
                Located::Hops(hops) => return (hops, rounds),
                Located::Needs(keys) => {
                    assert!(!keys.is_empty());
                    for key in keys {
                        assert!(!asked.keys.contains(&key), "{key:?} is asked for twice");
                        asked.keys.push(key);
                    }
                }
            }
        }
        panic!("it does not come to an end: {question:?}");
    }
}

/// What has been asked of a zone.
struct Asked<'a> {
    zone: &'a Zone,
    keys: Vec<Key>,
}

impl Records for Asked<'_> {
    fn find(&self, key: &Key) -> Option<Found> {
        self.keys.contains(key).then(|| match self.zone.0.get(key) {
            Some(set) => Found::Records(Arc::new(set.clone())),
            None => Found::Nothing,
        })
    }
}

const EVERYTHING: [Transport; 7] = Transport::ALL;

fn reach(transports: &[Transport]) -> Reach {
    let mut reach = Reach::default();
    for transport in transports {
        for local in ["0.0.0.0:0", "[::]:0"] {
            reach.add(*transport, local.parse().expect("an address"));
        }
    }
    reach
}

/// A question by a URI's `host[:port][;transport]`, with a "sips:" before it or not.
fn question(text: &str) -> Question {
    let is_secure = text.starts_with("sips:");
    let text = text.trim_start_matches("sips:");
    let (text, transport) = match text.split_once(';') {
        Some((text, transport)) => (text, Some(transport.parse().expect("a transport"))),
        None => (text, None),
    };
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') => (host, Some(port.parse().expect("a port"))),
        _ => (text, None),
    };
    Question {
        host: host.to_owned(),
        port,
        transport,
        is_secure,
        is_large: false,
        choice: None,
        addresses: Vec::new(),
    }
}

fn shown(hops: &[Hop]) -> Vec<String> {
    hops.iter()
        .map(|hop| format!("{} {}", hop.transport, hop.remote))
        .collect()
}

fn resolved(zone: &Zone, text: &str, transports: &[Transport]) -> Vec<String> {
    let (hops, _) = zone.resolve(&question(text), &reach(transports), 1);
    shown(&hops)
}

/// The example of RFC 3263 section 4.1.
fn example() -> Zone {
    Zone::default()
        .naptr(
            "example.com",
            &[
                (100, 50, "SIP+D2U", "_sip._udp.example.com"),
                (50, 50, "SIPS+D2T", "_sips._tcp.example.com"),
                (90, 50, "SIP+D2T", "_sip._tcp.example.com"),
            ],
        )
        .srv(
            "_sip._tcp.example.com",
            &[
                (0, 1, 5060, "server1.example.com"),
                (0, 2, 5060, "server2.example.com"),
            ],
        )
        .srv("_sips._tcp.example.com", &[(0, 0, 5061, "tls.example.com")])
        .srv("_sip._udp.example.com", &[(0, 0, 5060, "udp.example.com")])
        .host("server1.example.com", &["192.0.2.1"])
        .host("server2.example.com", &["192.0.2.2"])
        .host("tls.example.com", &["192.0.2.3"])
        .host("udp.example.com", &["192.0.2.4"])
        .host("example.com", &["192.0.2.9"])
}

#[test]
fn the_example_of_section_4_1_leads_to_tcp() {
    let zone = example();
    let reach = reach(&[Transport::Tcp, Transport::Udp]);
    let mut first = 0;
    for seed in 0..1_000 {
        let (hops, rounds) = zone.resolve(&question("Example.COM."), &reach, seed);
        assert_eq!(rounds, 3);
        let mut found = shown(&hops);
        first += u32::from(found[0] == "tcp 192.0.2.2:5060");
        found.sort();
        assert_eq!(found, ["tcp 192.0.2.1:5060", "tcp 192.0.2.2:5060"]);
        let peer = hops[0].peer.as_deref().expect("a name");
        assert_eq!(peer.name.as_deref(), Some("example.com"));
        assert!(peer.addresses.is_empty());
    }
    // Weights 1 and 2. The algorithm of RFC 2782 draws from 0 to 3, so that 0 and 1 lead to the first.
    assert!((440..560).contains(&first), "{first}");
}

#[test]
fn tls_is_taken_where_it_is_preferred_and_there() {
    let zone = example();
    assert_eq!(
        resolved(&zone, "example.com", &EVERYTHING),
        ["tls 192.0.2.3:5061"]
    );
    assert_eq!(
        resolved(&zone, "sips:example.com", &EVERYTHING),
        ["tls 192.0.2.3:5061"]
    );
    assert_eq!(
        resolved(&zone, "sips:example.com", &[Transport::Udp, Transport::Tcp]),
        Vec::<String>::new()
    );
}

#[test]
fn numbers_and_explicit_ports_go_without_naptr_and_srv() {
    let zone = example();
    for (text, expected) in [
        ("192.0.2.77", "udp 192.0.2.77:5060"),
        ("sips:192.0.2.77", "tls 192.0.2.77:5061"),
        ("192.0.2.77:5070", "udp 192.0.2.77:5070"),
        ("192.0.2.77;tcp", "tcp 192.0.2.77:5060"),
        ("2001:db8::1;sctp", "sctp [2001:db8::1]:5060"),
        ("192.0.2.77;ws", "ws 192.0.2.77:80"),
        ("sips:192.0.2.77;wss", "wss 192.0.2.77:443"),
        ("example.com:5070", "udp 192.0.2.9:5070"),
        ("sips:example.com:5070", "tls 192.0.2.9:5070"),
        ("example.com:5070;tcp", "tcp 192.0.2.9:5070"),
        // Where there is no UDP, another transport is used.
        ("example.com;udp", "udp 192.0.2.4:5060"),
    ] {
        assert_eq!(resolved(&zone, text, &EVERYTHING), [expected], "{text}");
    }
    assert_eq!(
        resolved(&zone, "192.0.2.77", &[Transport::Tcp]),
        ["tcp 192.0.2.77:5060"]
    );
    let ipv4 = {
        let mut reach = Reach::default();
        reach.add(
            Transport::Udp,
            "127.0.0.1:5060".parse().expect("an address"),
        );
        reach
    };
    let (hops, _) = zone.resolve(&question("2001:db8::1"), &ipv4, 1);
    assert_eq!(hops, []);
}

#[test]
fn an_address_on_sctp_may_have_others_beside_it() {
    let zone = Zone::default();
    let hops = |text: &str, reach: &Reach| {
        let further = ["192.0.2.2", "2001:db8::2"];
        let question = Question {
            addresses: further.map(|text| text.parse().expect("an address")).into(),
            ..question(text)
        };
        zone.resolve(&question, reach, 1).0
    };
    let addresses = |hop: &Hop| {
        let peer = hop.peer.as_deref().expect("addresses");
        assert_eq!(peer.name, None);
        let addresses = peer.addresses.iter();
        addresses.map(ToString::to_string).collect::<Vec<_>>()
    };
    let found = hops("192.0.2.1;sctp", &reach(&EVERYTHING));
    assert_eq!(shown(&found), ["sctp 192.0.2.1:5060"]);
    assert_eq!(
        addresses(&found[0]),
        ["192.0.2.1:5060", "192.0.2.2:5060", "[2001:db8::2]:5060"]
    );
    // Only those in families that we have.
    let mut ipv4 = Reach::default();
    ipv4.add(Transport::Sctp, "0.0.0.0:0".parse().expect("an address"));
    let found = hops("2001:db8::1;sctp", &ipv4);
    assert_eq!(shown(&found), ["sctp 192.0.2.2:5060"]);
    assert_eq!(found[0].peer, None);
    let found = hops("192.0.2.1;tcp", &reach(&EVERYTHING));
    assert_eq!(found[0].peer, None);
}

#[test]
fn a_named_transport_has_its_own_srv_records() {
    let zone = Zone::default()
        .srv("_sip._sctp.example.com", &[(0, 0, 5070, "s.example.com")])
        .srv("_sips._sctp.example.com", &[(0, 0, 5071, "s.example.com")])
        .host("s.example.com", &["192.0.2.5", "2001:db8::5", "192.0.2.6"])
        .host("example.com", &["192.0.2.9"]);
    // One association to all addresses.
    let (hops, _) = zone.resolve(&question("example.com;sctp"), &reach(&EVERYTHING), 1);
    assert_eq!(shown(&hops), ["sctp [2001:db8::5]:5070"]);
    let peer = hops[0].peer.as_deref().expect("addresses");
    let mut addresses: Vec<String> = peer.addresses.iter().map(ToString::to_string).collect();
    assert_eq!(addresses[0], "[2001:db8::5]:5070");
    addresses.sort();
    assert_eq!(
        addresses,
        ["192.0.2.5:5070", "192.0.2.6:5070", "[2001:db8::5]:5070"]
    );
    assert_eq!(
        resolved(&zone, "sips:example.com;tls-sctp", &EVERYTHING),
        ["tls-sctp [2001:db8::5]:5071"]
    );
    // Without SRV records the domain itself, at the default port of the transport.
    for (text, expected) in [
        ("example.com;tcp", "tcp 192.0.2.9:5060"),
        ("sips:example.com;tls", "tls 192.0.2.9:5061"),
        ("example.com;ws", "ws 192.0.2.9:80"),
    ] {
        assert_eq!(resolved(&zone, text, &EVERYTHING), [expected], "{text}");
    }
}

#[test]
fn without_naptr_each_transport_is_looked_for() {
    let zone = Zone::default()
        .srv("_sip._tcp.example.com", &[(0, 0, 5070, "t.example.com")])
        .srv("_sip._sctp.example.com", &[(0, 0, 5080, "t.example.com")])
        .host("t.example.com", &["192.0.2.5"])
        .host("example.com", &["192.0.2.9"]);
    for (text, transports, expected) in [
        ("example.com", EVERYTHING.as_slice(), "tcp 192.0.2.5:5070"),
        (
            "example.com",
            &[Transport::Sctp, Transport::Udp],
            "sctp 192.0.2.5:5080",
        ),
        ("example.com", &[Transport::Udp], "udp 192.0.2.9:5060"),
        ("sips:example.com", &EVERYTHING, "tls 192.0.2.9:5061"),
    ] {
        assert_eq!(resolved(&zone, text, transports), [expected], "{text}");
    }
    assert_eq!(
        resolved(&Zone::default(), "example.com", &EVERYTHING),
        Vec::<String>::new()
    );
}

#[test]
fn websocket_servers_are_found_by_naptr() {
    let zone = Zone::default()
        .naptr(
            "example.com",
            &[
                (10, 10, "SIPS+D2W", "_sips._ws.example.com"),
                (10, 20, "sip+d2w", "_sip._ws.example.com"),
                (10, 30, "SIP+D2S", "_sip._sctp.example.com"),
                (10, 5, "SIPS+D2S", "_sips._sctp.example.com"),
            ],
        )
        .srv("_sips._ws.example.com", &[(0, 0, 443, "h.example.com")])
        .srv("_sip._ws.example.com", &[(0, 0, 80, "h.example.com")])
        .srv("_sip._sctp.example.com", &[(0, 0, 5060, "h.example.com")])
        .srv("_sips._sctp.example.com", &[(0, 0, 5061, "h.example.com")])
        .host("h.example.com", &["192.0.2.5"]);
    // All have the same order: one after the other by preference.
    assert_eq!(
        resolved(&zone, "example.com", &EVERYTHING),
        [
            "tls-sctp 192.0.2.5:5061",
            "wss 192.0.2.5:443",
            "ws 192.0.2.5:80",
            "sctp 192.0.2.5:5060",
        ]
    );
    assert_eq!(
        resolved(&zone, "sips:example.com", &EVERYTHING),
        ["tls-sctp 192.0.2.5:5061", "wss 192.0.2.5:443"]
    );
}

#[test]
fn records_that_are_not_for_us_are_discarded() {
    let mut zone = example().naptr(
        "example.com",
        &[
            (1, 1, "E2U+sip", "_sip._udp.example.com"),
            (2, 1, "SIPS+D2U", "_sip._udp.example.com"),
            (3, 1, "SIP+D2X", "_sip._udp.example.com"),
            (4, 1, "SIP+D2U", ""),
            (5, 1, "SIP+D2T", "_sip._tcp.example.com"),
            (6, 1, "SIP+D2U", "_sip._udp.example.com"),
        ],
    );
    let key = Key::new(Kind::Naptr, "example.com");
    let Some(RecordSet::Naptr(records)) = zone.0.get_mut(&key) else {
        panic!("they are there");
    };
    // With a regular expression or another flag it is no simple replacement by an SRV name.
    records[4].regexp = b"!^.*$!sip:x@y!".as_slice().into();
    assert_eq!(
        resolved(&zone, "example.com", &EVERYTHING),
        ["udp 192.0.2.4:5060"]
    );
    let Some(RecordSet::Naptr(records)) = zone.0.get_mut(&key) else {
        panic!("they are there");
    };
    records[5].flags = b"u".as_slice().into();
    // As if there were none: our own preference counts.
    assert_eq!(
        resolved(&zone, "example.com", &EVERYTHING),
        ["udp 192.0.2.4:5060"]
    );
}

#[test]
fn naptr_may_lead_to_another_domain_or_to_nothing() {
    let zone = Zone::default()
        .naptr("example.com", &[(1, 1, "SIP+D2T", "_sip._tcp.school.edu")])
        .srv("_sip._tcp.school.edu", &[(0, 0, 5070, "t.school.edu")])
        .host("t.school.edu", &["192.0.2.5"])
        .host("example.com", &["192.0.2.9"]);
    let (hops, _) = zone.resolve(&question("example.com"), &reach(&EVERYTHING), 1);
    assert_eq!(shown(&hops), ["tcp 192.0.2.5:5070"]);
    let peer = hops[0].peer.as_deref().expect("a name");
    assert_eq!(peer.name.as_deref(), Some("example.com"));
    let empty = zone.naptr("example.com", &[(1, 1, "SIP+D2T", "_sip._tcp.example.com")]);
    assert_eq!(
        resolved(&empty, "example.com", &EVERYTHING),
        ["tcp 192.0.2.9:5060"]
    );
}

#[test]
fn a_service_that_is_decidedly_not_there_is_not_tried() {
    let zone = Zone::default()
        .srv("_sip._udp.example.com", &[(0, 0, 0, "")])
        .host("example.com", &["192.0.2.9"]);
    assert_eq!(
        resolved(&zone, "example.com;udp", &EVERYTHING),
        Vec::<String>::new()
    );
    assert_eq!(
        resolved(&zone, "example.com", &[Transport::Udp, Transport::Tcp]),
        Vec::<String>::new()
    );
    let with_tcp = zone.srv("_sip._tcp.example.com", &[(0, 0, 5060, "example.com")]);
    assert_eq!(
        resolved(&with_tcp, "example.com", &[Transport::Udp, Transport::Tcp]),
        ["tcp 192.0.2.9:5060"]
    );
}

#[test]
fn priorities_come_before_weights_and_servers_are_not_interleaved() {
    let zone = Zone::default()
        .srv(
            "_sip._udp.example.com",
            &[
                (20, 60_000, 5060, "spare.example.com"),
                (10, 0, 5060, "one.example.com"),
                (10, 0, 5060, "two.example.com"),
            ],
        )
        .host(
            "one.example.com",
            &["192.0.2.11", "192.0.2.12", "2001:db8::1"],
        )
        .host("two.example.com", &["192.0.2.21", "2001:db8::2"])
        .host("spare.example.com", &["192.0.2.31"]);
    for seed in 0..50 {
        let (hops, _) = zone.resolve(&question("example.com;udp"), &reach(&EVERYTHING), seed);
        let addresses: Vec<IpAddr> = hops.iter().map(|hop| hop.remote.ip()).collect();
        assert_eq!(addresses.len(), 6);
        let server = |address: &IpAddr| match address.to_string().as_str() {
            "192.0.2.31" => 3,
            "192.0.2.21" | "2001:db8::2" => 2,
            _ => 1,
        };
        let mut servers: Vec<u8> = addresses.iter().map(server).collect();
        servers.dedup();
        assert!(
            servers == [1, 2, 3] || servers == [2, 1, 3],
            "{addresses:?}"
        );
        // IPv6 first within each (RFC 7984 section 4).
        assert!(addresses[0].is_ipv6());
    }
}

#[test]
fn a_large_request_avoids_udp_where_it_can() {
    let large = |text: &str| Question {
        is_large: true,
        ..question(text)
    };
    let zone = Zone::default()
        .naptr(
            "example.com",
            &[
                (1, 1, "SIP+D2U", "_sip._udp.example.com"),
                (2, 1, "SIP+D2T", "_sip._tcp.example.com"),
            ],
        )
        .naptr("udp.example", &[(1, 1, "SIP+D2U", "_sip._udp.example.com")])
        .srv("_sip._udp.example.com", &[(0, 0, 5060, "h.example.com")])
        .srv("_sip._tcp.example.com", &[(0, 0, 5070, "h.example.com")])
        .host("h.example.com", &["192.0.2.5"])
        .host("bare.example", &["192.0.2.6"]);
    let hops = |question: &Question| shown(&zone.resolve(question, &reach(&EVERYTHING), 1).0);
    assert_eq!(hops(&question("example.com")), ["udp 192.0.2.5:5060"]);
    assert_eq!(hops(&large("example.com")), ["tcp 192.0.2.5:5070"]);
    assert_eq!(hops(&large("udp.example")), ["udp 192.0.2.5:5060"]);
    assert_eq!(hops(&large("example.com;udp")), ["udp 192.0.2.5:5060"]);
    // What the guidelines of SIP mandate for this request (section 4.1).
    assert_eq!(hops(&large("bare.example")), ["tcp 192.0.2.6:5060"]);
}

/// A zone of which some records cannot be had.
struct Troubled<'a> {
    zone: &'a Zone,
    lost: &'a [Key],
    trouble: Found,
}

impl Records for Troubled<'_> {
    fn find(&self, key: &Key) -> Option<Found> {
        Some(match self.zone.0.get(key) {
            _ if self.lost.contains(key) => self.trouble.clone(),
            Some(set) => Found::Records(Arc::new(set.clone())),
            None => Found::Nothing,
        })
    }
}

impl Troubled<'_> {
    fn resolved(&self, text: &str) -> Vec<String> {
        match locate(&question(text), &reach(&EVERYTHING), self, 1) {
            Located::Hops(hops) => shown(&hops),
            Located::Needs(keys) => panic!("{keys:?} are known"),
        }
    }
}

#[test]
fn what_cannot_be_known_is_not_taken_for_what_does_not_exist() {
    let zone = example();
    let none = Vec::<String>::new();
    let naptr = [Key::new(Kind::Naptr, "example.com")];
    let srv = [
        Key::new(Kind::Srv, "_sip._udp.example.com"),
        Key::new(Kind::Srv, "_sips._tcp.example.com"),
    ];
    let address = [Key::new(Kind::A, "tls.example.com")];
    for trouble in [Found::Unknown, Found::Unreachable] {
        let without = |lost| Troubled {
            zone: &zone,
            lost,
            trouble: trouble.clone(),
        };
        // The domain prefers TLS: nobody is sent there in the clear because one question has failed.
        assert_eq!(without(&srv).resolved("example.com"), none);
        assert_eq!(without(&srv).resolved("sips:example.com"), none);
        assert_eq!(without(&srv).resolved("example.com;udp"), none);
        assert_eq!(without(&address).resolved("example.com"), none);
        assert_eq!(without(&naptr).resolved("sips:example.com"), none);
        // Of one address family nothing may be known while the other is.
        let ipv6 = [Key::new(Kind::Aaaa, "tls.example.com")];
        assert_eq!(
            without(&ipv6).resolved("example.com"),
            ["tls 192.0.2.3:5061"]
        );
    }
    let refused = Troubled {
        zone: &zone,
        lost: &naptr,
        trouble: Found::Unknown,
    };
    assert_eq!(refused.resolved("example.com"), none);
    // Questions for NAPTR records vanish in some networks.
    let silent = Troubled {
        trouble: Found::Unreachable,
        ..refused
    };
    assert_eq!(silent.resolved("example.com"), ["udp 192.0.2.4:5060"]);
}

#[test]
fn one_transport_that_is_known_is_enough_where_the_domain_prefers_none() {
    let zone = Zone::default()
        .srv("_sip._tcp.example.com", &[(0, 0, 5070, "t.example.com")])
        .host("t.example.com", &["192.0.2.5"])
        .host("example.com", &["192.0.2.9"]);
    let lost = [Key::new(Kind::Srv, "_sip._udp.example.com")];
    let troubled = Troubled {
        zone: &zone,
        lost: &lost,
        trouble: Found::Unknown,
    };
    assert_eq!(troubled.resolved("example.com"), ["tcp 192.0.2.5:5070"]);
    let lost = [
        Key::new(Kind::Srv, "_sip._udp.example.com"),
        Key::new(Kind::Srv, "_sip._tcp.example.com"),
    ];
    let troubled = Troubled {
        lost: &lost,
        ..troubled
    };
    assert_eq!(troubled.resolved("example.com"), Vec::<String>::new());
}

#[test]
fn a_less_preferred_service_that_is_not_known_costs_nothing() {
    let zone = Zone::default()
        .naptr(
            "example.com",
            &[
                (1, 1, "SIPS+D2T", "_sips._tcp.example.com"),
                (1, 2, "SIP+D2T", "_sip._tcp.example.com"),
            ],
        )
        .srv("_sips._tcp.example.com", &[(0, 0, 5061, "t.example.com")])
        .host("t.example.com", &["192.0.2.5"]);
    struct Slow<'a>(Troubled<'a>);
    impl Records for Slow<'_> {
        fn find(&self, key: &Key) -> Option<Found> {
            let is_address = matches!(key.kind, Kind::A | Kind::Aaaa);
            (!is_address).then(|| self.0.find(key)).flatten()
        }
    }
    let lost = [Key::new(Kind::Srv, "_sip._tcp.example.com")];
    let troubled = Troubled {
        zone: &zone,
        lost: &lost,
        trouble: Found::Unknown,
    };
    assert_eq!(troubled.resolved("example.com"), ["tls 192.0.2.5:5061"]);
    // The addresses of the preferred one are waited for.
    let located = locate(
        &question("example.com"),
        &reach(&EVERYTHING),
        &Slow(troubled),
        1,
    );
    assert!(
        matches!(&located, Located::Needs(keys) if keys.len() == 2),
        "{located:?}"
    );
}

fn any_zone() -> impl Strategy<Value = Zone> {
    let host = prop::sample::select(vec![
        "a.example",
        "b.example",
        "c.example",
        "example.com",
        "",
    ]);
    let service = prop::sample::select(vec![
        "SIP+D2U", "SIP+D2T", "SIPS+D2T", "SIP+D2S", "SIPS+D2S", "SIP+D2W", "SIPS+D2W", "SIPS+D2U",
    ]);
    let names = [
        "_sip._udp.example.com",
        "_sip._tcp.example.com",
        "_sips._tcp.example.com",
        "_sip._sctp.example.com",
    ];
    let name = prop::sample::select(names.to_vec());
    let naptr = (0..3u16, 0..3u16, service, name.clone());
    let srv = (0..3u16, any::<u16>(), any::<u16>(), host.clone());
    let address = prop::sample::select(vec!["192.0.2.1", "192.0.2.2", "2001:db8::1"]);
    (
        prop::collection::vec(naptr, 0..5),
        prop::collection::vec((name, prop::collection::vec(srv, 1..6)), 0..4),
        prop::collection::vec((host, prop::collection::vec(address, 0..4)), 0..4),
    )
        .prop_map(|(naptr, services, hosts)| {
            let mut zone = Zone::default();
            if !naptr.is_empty() {
                zone = zone.naptr("example.com", &naptr);
            }
            for (name, records) in &services {
                zone = zone.srv(name, records);
            }
            for (name, addresses) in &hosts {
                zone = zone.host(name, addresses);
            }
            zone
        })
}

fn any_question() -> impl Strategy<Value = Question> {
    (
        prop::sample::select(vec!["example.com", "a.example", "192.0.2.9", "2001:db8::9"]),
        prop::option::of(any::<u16>()),
        prop::option::of(prop::sample::select(Transport::ALL.to_vec())),
        any::<bool>(),
        any::<bool>(),
        prop::option::of(any::<u64>()),
        prop::sample::subsequence(
            vec![
                [192, 0, 2, 10].into(),
                [192, 0, 2, 9].into(),
                "2001:db8::10".parse().expect("an address"),
            ],
            0..=3,
        ),
    )
        .prop_map(
            |(host, port, transport, is_secure, is_large, choice, addresses)| Question {
                host: host.to_owned(),
                port,
                // The transport that a SIPS URI names is one over TLS already.
                transport: transport.filter(|transport| transport.is_secure() || !is_secure),
                is_secure,
                is_large,
                choice,
                addresses,
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_a_zone_says_hops_are_few_fitting_and_repeatable(
        zone in any_zone(),
        question in any_question(),
        enabled in prop::sample::subsequence(Transport::ALL.to_vec(), 0..=7),
        seed in any::<u64>(),
    ) {
        let reach = reach(&enabled);
        let (hops, rounds) = zone.resolve(&question, &reach, seed);
        prop_assert!(rounds <= 6, "{rounds} rounds");
        prop_assert!(hops.len() <= 16);
        for hop in &hops {
            prop_assert!(enabled.contains(&hop.transport));
            prop_assert!(hop.transport.is_secure() || !question.is_secure);
            if let Some(transport) = question.transport {
                prop_assert_eq!(hop.transport, transport);
            }
            if let Some(port) = question.port {
                prop_assert_eq!(hop.remote.port(), port);
            }
        }
        prop_assert_eq!(&zone.resolve(&question, &reach, seed).0, &hops);
        // A stateless proxy finds the same, whatever is drawn, and in whatever order records come.
        if question.choice.is_some() {
            let mut turned = zone.clone();
            for set in turned.0.values_mut() {
                match set {
                    RecordSet::Naptr(records) => records.reverse(),
                    RecordSet::Srv(records) => records.reverse(),
                    RecordSet::Addresses(addresses) => addresses.reverse(),
                }
            }
            prop_assert_eq!(turned.resolve(&question, &reach, !seed).0, hops);
        }
    }
}
