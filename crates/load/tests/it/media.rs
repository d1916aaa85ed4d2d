//! Media over real sockets on loopback. Nothing here depends on how fast the machine is, but for waiting.

use std::net::UdpSocket;
use std::process::Command;
use std::time::{Duration, Instant};

use load::media::{Law, MediaConfig, MediaPort, MediaReport, Mode, Remote};
use test_support::{Peer, free_udp_port, require_command};

fn open() -> MediaPort {
    MediaPort::open(MediaConfig::new("127.0.0.1".parse().unwrap())).unwrap()
}

/// Two ports with a call between them that lasts until both have received so many packets.
fn call(modes: [Mode; 2], packets: u64) -> [MediaReport; 2] {
    let ports = [open(), open()];
    let calls = [0, 1].map(|side: usize| ports[side].reserve().unwrap());
    let offer = ports[0].describe(calls[0]);
    let offered = Remote::read(offer.as_bytes(), true).unwrap();
    let answer = ports[1].describe_answer(calls[1], &offered);
    let answered = Remote::read(answer.as_bytes(), true).unwrap();
    ports[1].start(calls[1], modes[1], offered, None);
    ports[0].start(calls[0], modes[0], answered, None);
    let deadline = Instant::now() + Duration::from_secs(20);
    while ports.iter().any(|port| port.counters().received < packets) && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(5));
    }
    let reports = [0, 1].map(|side: usize| ports[side].stop(calls[side]));
    for port in &ports {
        assert_eq!(port.counters().open, 0);
        assert_eq!(port.counters().strays.malformed, 0);
    }
    reports
}

#[test]
fn two_sides_hear_each_other() {
    for report in call([Mode::Talk, Mode::Talk], 20) {
        assert!(report.sent >= 20, "{report:?}");
        assert!(report.received >= 20, "{report:?}");
        assert_eq!((report.duplicates, report.reordered), (0, 0));
        assert_eq!(report.expected, report.received, "loopback loses nothing");
    }
}

#[test]
fn an_echo_brings_packets_back() {
    let [caller, callee] = call([Mode::Talk, Mode::Echo], 10);
    assert!(callee.echoed >= 10, "{callee:?}");
    assert!(caller.echo.count >= 10, "{caller:?}");
    assert!(caller.echo.max > Duration::ZERO);
    assert_eq!(callee.sent, 0);
}

/// RTCP that shares the port of RTP leaves by that (RFC 5761 section 5.1.1), the last of it, too.
#[test]
fn goodbyes_are_said_although_the_port_is_closed() {
    const BYE: u8 = 203;
    let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
    peer.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let address = peer.local_addr().unwrap();
    for _ in 0..5 {
        let port = open();
        let call = port.reserve().unwrap();
        let remote = Remote {
            rtp: address,
            rtcp: address,
            codec: Law::Pcma,
            ssrc: None,
            listens: true,
            needs_keys: false,
        };
        port.start(call, Mode::Sink, remote, None);
        port.stop(call);
        drop(port);
        let mut octets = [0; 1500];
        let length = peer.recv(&mut octets).unwrap();
        let mut rest = &octets[..length];
        let mut types = Vec::new();
        while let [_, packet_type, high, low, ..] = *rest {
            types.push(packet_type);
            let words = usize::from(u16::from_be_bytes([high, low]));
            rest = rest.get(4 * (words + 1)..).unwrap_or_default();
        }
        assert!(types.contains(&BYE), "{types:?}");
    }
}

#[test]
fn ports_come_in_pairs_and_once() {
    let port = open();
    assert_eq!(port.address().port() % 2, 0);
    let mut config = MediaConfig::new("127.0.0.1".parse().unwrap());
    config.port = port.address().port();
    let error = MediaPort::open(config.clone()).unwrap_err();
    assert!(
        error.to_string().contains(&config.port.to_string()),
        "{error}"
    );
    config.port += 1;
    assert!(MediaPort::open(config).is_err());
}

/// SIPp echoes what comes to its media port; it knows nothing of calls there.
#[test]
fn sipps_echo_is_measured() {
    let Some(sipp) = require_command("sipp", "sip-tester") else {
        return;
    };
    let (signalling, media) = (free_udp_port(), free_udp_port());
    let mut peer = Peer::spawn(
        Command::new(sipp)
            .args([
                "-sn",
                "uas",
                "-i",
                "127.0.0.1",
                "-mi",
                "127.0.0.1",
                "-rtp_echo",
            ])
            .args([
                "-nostdin",
                "-p",
                &signalling.to_string(),
                "-mp",
                &media.to_string(),
            ]),
    );
    let port = open();
    let call = port.reserve().unwrap();
    let remote = Remote {
        rtp: ([127, 0, 0, 1], media).into(),
        rtcp: ([127, 0, 0, 1], media + 1).into(),
        codec: Law::Pcma,
        ssrc: None,
        listens: true,
        needs_keys: false,
    };
    // What is sent before SIPp listens is lost.
    port.start(call, Mode::Talk, remote, None);
    let deadline = Instant::now() + Duration::from_secs(20);
    while port.counters().received < 20 && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(5));
    }
    let report = port.stop(call);
    assert!(report.echo.count >= 20, "{report:?}\n{}", peer.output());
    assert_eq!(report.received, report.echo.count);
    assert_eq!(
        (report.lost(), report.duplicates),
        (0, 0),
        "from the first one that came"
    );
    peer.close_input();
}
