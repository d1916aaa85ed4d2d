use std::net::Ipv4Addr;

use media::codec::Codec;
use media::receiver::StreamFormat;
use sip::sdp::Direction;

use super::*;
use crate::ice::{Candidate, IceCredentials};

const LOOPBACK: &str = "127.0.0.1";

fn at(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn open(certificate: Option<&Arc<Certificate>>) -> MediaPath {
    MediaPath::new(PortPair::open(at(LOOPBACK)).unwrap(), certificate.cloned())
}

/// What is agreed on with the other side at an address.
fn agreed(rtp: SocketAddr, security: Security) -> Negotiated {
    let format = StreamFormat {
        codec: Codec::Pcmu,
        payload_type: 0,
        key_payload_type: None,
    };
    Negotiated {
        send: format,
        receive: format,
        rtp,
        rtcp: rtp,
        direction: Direction::SendReceive,
        security,
        ice: None,
        sends_voip_metrics: false,
    }
}

fn dtls(certificate: &Certificate, is_client: bool) -> Security {
    Security::Dtls {
        fingerprints: vec![certificate.fingerprint()],
        is_client,
    }
}

/// A data packet, or a receiver report.
fn packet(is_rtcp: bool) -> Vec<u8> {
    match is_rtcp {
        true => vec![0x80, 201, 0, 1, 0, 0, 0, 9],
        false => vec![0x80, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0xff, 0xff],
    }
}

/// Lets both sides work until it is done; how many packets the second one took.
fn work(
    paths: [&mut MediaPath; 2],
    mut is_done: impl FnMut(&[&mut MediaPath; 2], u32) -> bool,
) -> u32 {
    let (mut paths, mut count) = (paths, 0);
    let end = Instant::now() + Duration::from_secs(20);
    while !is_done(&paths, count) {
        assert!(Instant::now() < end, "it takes too long");
        for (place, path) in paths.iter_mut().enumerate() {
            path.receive(Instant::now() + Duration::from_millis(5), |_, _| {
                count += u32::from(place == 1);
            });
            path.handle_timeout(Instant::now());
        }
    }
    count
}

#[test]
fn another_host_is_heard_until_the_described_one_is() {
    let (described, one, other) = (at("192.0.2.1"), at("192.0.2.2"), at("192.0.2.3"));
    let mut path = open(None);
    let now = Instant::now();
    assert!(!path.is_heard(now, one), "nothing is agreed on");
    path.remote = Some(((described, 4_000).into(), (described, 4_001).into()));
    assert!(path.is_heard(now, one) && !path.is_heard(now, other));
    let later = now + 2 * STRANGER_SILENCE;
    assert!(path.is_heard(later, other) && !path.is_heard(later, one));
    assert!(path.is_heard(later, described) && !path.is_heard(later, other));
    assert!(!path.is_heard(later + 2 * STRANGER_SILENCE, other));
}

#[test]
fn packets_are_taken_from_the_ports_before_and_those_that_are_offered() {
    let (mut ours, mut theirs) = (open(None), open(None));
    let (before, there) = (ours.local(), theirs.local());
    let now = Instant::now();
    ours.agree(now, &agreed(there, Security::None));
    theirs.agree(now, &agreed(before, Security::None));
    let ports = PortPair::open(at(LOOPBACK)).unwrap();
    let after = ports.local;
    ours.offer_ports(ports);
    theirs.send_rtp(&packet(false));
    assert_eq!(work([&mut theirs, &mut ours], |_, count| count > 0), 1);
    // The other side has heard of the new ports before we hear of its answer.
    theirs.agree(now, &agreed(after, Security::None));
    theirs.send_rtp(&packet(false));
    work([&mut theirs, &mut ours], |_, count| count > 0);
    ours.ports_accepted();
    assert_eq!(ours.local(), after);
    theirs.agree(now, &agreed(before, Security::None));
    theirs.send_rtp(&packet(false));
    work([&mut theirs, &mut ours], |_, count| count > 0);
    // Once something comes to the new ones, the old ones are closed.
    theirs.agree(now, &agreed(after, Security::None));
    theirs.send_rtp(&packet(false));
    work([&mut theirs, &mut ours], |_, count| count > 0);
    assert!(std::net::UdpSocket::bind(before).is_ok());
    // Ports that are refused are closed, too.
    let ports = PortPair::open(at(LOOPBACK)).unwrap();
    let refused = ports.local;
    ours.offer_ports(ports);
    ours.ports_refused();
    assert!(std::net::UdpSocket::bind(refused).is_ok());
    ours.ports_accepted();
    assert_eq!(ours.local(), after, "nothing was offered");
}

#[test]
fn a_handshake_begins_anew_at_other_ports() {
    let certificates = [(); 2].map(|()| Arc::new(Certificate::generate().unwrap()));
    let [mut ours, mut theirs] = [0, 1].map(|side| open(Some(&certificates[side])));
    let now = Instant::now();
    ours.agree(now, &agreed(theirs.local(), dtls(&certificates[1], false)));
    theirs.agree(now, &agreed(ours.local(), dtls(&certificates[0], true)));
    let has_keys = |paths: &[&mut MediaPath; 2], _| paths.iter().all(|path| path.suite().is_some());
    work([&mut ours, &mut theirs], has_keys);
    let before = ours.send_key().cloned();
    let ports = PortPair::open(at(LOOPBACK)).unwrap();
    let after = ports.local;
    ours.offer_ports(ports);
    // The other side begins at once.
    theirs.agree(now, &agreed(after, dtls(&certificates[0], true)));
    assert_eq!(theirs.suite(), None);
    work([&mut theirs, &mut ours], |_, _| true);
    ours.ports_accepted();
    ours.agree(now, &agreed(theirs.local(), dtls(&certificates[1], false)));
    work([&mut ours, &mut theirs], has_keys);
    assert_ne!(ours.send_key().cloned(), before);
    ours.send_rtp(&packet(false));
    work([&mut ours, &mut theirs], |_, count| count > 0);
    assert_eq!((ours.has_failed(), theirs.has_failed()), (false, false));
}

#[test]
fn a_fork_that_cannot_be_protected_gives_way_to_another() {
    let certificates = [(); 3].map(|()| Arc::new(Certificate::generate().unwrap()));
    let [mut ours, mut one, mut other] = [0, 1, 2].map(|side| open(Some(&certificates[side])));
    let now = Instant::now();
    // It shows another certificate than its description has.
    ours.agree(now, &agreed(one.local(), dtls(&certificates[2], true)));
    one.agree(now, &agreed(ours.local(), dtls(&certificates[0], false)));
    work([&mut ours, &mut one], |paths, _| paths[0].has_failed());
    ours.agree(now, &agreed(other.local(), dtls(&certificates[2], true)));
    other.agree(now, &agreed(ours.local(), dtls(&certificates[0], false)));
    work([&mut ours, &mut other], |paths, _| {
        paths.iter().all(|path| path.suite().is_some())
    });
    assert!(!ours.has_failed());
}

#[test]
fn nothing_is_sent_to_a_call_that_is_held_as_before_there_were_directions() {
    let certificates = [(); 2].map(|()| Arc::new(Certificate::generate().unwrap()));
    let mut path = open(Some(&certificates[0]));
    let now = Instant::now();
    let held = (Ipv4Addr::UNSPECIFIED, 4_000).into();
    path.agree(now, &agreed(held, dtls(&certificates[1], true)));
    assert!(path.destination().is_none() && path.dtls.is_none());
    let there = (at(LOOPBACK), 4_000).into();
    path.agree(now, &agreed(there, dtls(&certificates[1], true)));
    assert!(path.dtls.is_some(), "it begins when there is a way");
    path.agree(now, &agreed(held, dtls(&certificates[1], true)));
    assert!(path.destination().is_none() && path.dtls.is_some());
    path.agree(now, &agreed(there, dtls(&certificates[1], true)));
    assert_eq!(path.dtls_with, Some(there), "a hold changes no address");
}

#[test]
fn reports_have_a_path_of_their_own_where_they_have_a_port_of_their_own() {
    let (mut ours, mut theirs) = (open(None), open(None));
    let ends = [1_u8, 2].map(|octet| IceCredentials::new([octet; 32]));
    let now = Instant::now();
    let rtcp = |path: &MediaPath| path.ports.current.local_rtcp();
    let session = |path: &MediaPath, ours: usize| IceSession {
        local: ends[ours].clone(),
        remote: ends[1 - ours].clone(),
        candidates: vec![Candidate::host(path.local()).unwrap()],
        rtcp_candidates: Some(vec![Candidate::host(rtcp(path)).unwrap()]),
        is_controlling: ours == 0,
    };
    let with_ice = |path: &MediaPath, side: usize| Negotiated {
        rtcp: rtcp(path),
        ice: Some(session(path, side)),
        ..agreed(path.local(), Security::None)
    };
    let (for_us, for_them) = (with_ice(&theirs, 0), with_ice(&ours, 1));
    ours.agree(now, &for_us);
    theirs.agree(now, &for_them);
    ours.send_rtcp(&packet(true));
    let selected = |path: &MediaPath| {
        let checks = [&path.ice, &path.rtcp_ice];
        checks.map(|ice| ice.as_ref().and_then(Ice::selected))
    };
    let count = work([&mut ours, &mut theirs], |paths, _| {
        let all = paths.iter().flat_map(|path| selected(path));
        all.into_iter().all(|selected| selected.is_some())
    });
    assert_eq!(count, 0, "nothing is sent before");
    assert_eq!(selected(&ours), [Some(theirs.local()), Some(rtcp(&theirs))]);
    ours.send_rtcp(&packet(true));
    work([&mut ours, &mut theirs], |_, count| count > 0);
}

#[test]
fn how_a_nat_maps_the_ports_is_kept_until_media_arrive() {
    let server = std::net::UdpSocket::bind((at(LOOPBACK), 0)).unwrap();
    server.set_nonblocking(true).unwrap();
    let requests = || {
        let mut buffer = [0; 64];
        std::iter::from_fn(|| server.recv(&mut buffer).ok()).count()
    };
    let now = Instant::now();
    let after = |seconds| now + Duration::from_secs(seconds);
    let mut pairs = [(); 2].map(|()| PortPair::open(at(LOOPBACK)).unwrap());
    for pair in &mut pairs {
        pair.mapped_by(server.local_addr().unwrap(), now);
    }
    let [current, next] = pairs;
    let (mut ours, mut theirs) = (MediaPath::new(current, None), open(None));
    ours.handle_timeout(after(14));
    assert_eq!(requests(), 0);
    ours.handle_timeout(after(15));
    assert_eq!(requests(), 2, "one from either port");
    ours.offer_ports(next);
    ours.handle_timeout(after(30));
    assert_eq!(requests(), 4);
    ours.agree(now, &agreed(theirs.local(), Security::None));
    theirs.agree(now, &agreed(ours.local(), Security::None));
    theirs.send_rtp(&packet(false));
    work([&mut theirs, &mut ours], |_, count| count > 0);
    ours.handle_timeout(after(45));
    assert_eq!(requests(), 2, "those that are offered");
}
