//! Floods over sockets, against a listener of ours on loopback.

use flood::{Config, Kind, Limits, Over, Report, run};
use sctp_net::{EndpointConfig, Stack, UdpCarrierConfig};
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

const PORT: u16 = 5060;

fn flooded(kind: Kind) -> Report {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime");
    let (stack, endpoint) = runtime.block_on(async {
        let local = SocketAddr::from(([127, 0, 0, 1], 0));
        let stack = Stack::udp(UdpCarrierConfig::new(local)).expect("a stack");
        let endpoint = stack
            .endpoint(PORT, EndpointConfig::default())
            .expect("a listener");
        (stack, endpoint)
    });
    let port = stack.local_addr().port();
    let accepting = runtime.spawn(async move {
        let mut held = Vec::new();
        while let Some(association) = endpoint.accept().await {
            held.push(association);
        }
    });
    let config = Config {
        kind,
        target: SocketAddr::from(([127, 0, 0, 1], PORT)),
        over: Over::Udp { port },
        limits: Limits::new(1500, 3000).expect("it is within the bounds"),
        seed: 1,
        probe: true,
    };
    let mut told = 0;
    let report = run(&config, |sent| {
        told = sent;
        true
    })
    .expect("it runs");
    accepting.abort();
    assert_eq!(told, report.sent);
    // Answers are among them.
    let counts = &report.counts;
    let made = counts.inits + counts.cookies + counts.endings;
    let made = made + counts.replayed + counts.altered + counts.moved;
    assert_eq!(report.sent + report.refused, made, "{report:?}");
    assert!(made <= 1500, "{report:?}");
    report
}

/// A flood that shows something. A busy machine may be late; one where it never comes is another matter.
fn flooded_until(kind: Kind, shows: impl Fn(&Report) -> bool) -> Report {
    let gets_in = |report: &Report| report.client.as_ref().expect("there was one").successes > 0;
    let mut report = flooded(kind);
    for _ in 0..5 {
        if gets_in(&report) && shows(&report) {
            return report;
        }
        report = flooded(kind);
    }
    panic!("{report:?}");
}

#[test]
fn a_client_gets_in_under_a_flood_of_inits() {
    let report = flooded_until(Kind::Init, |_| true);
    assert_eq!((report.counts.inits, report.counts.cookies), (1500, 0));
}

#[test]
fn a_client_gets_in_under_a_flood_of_cookies() {
    flooded_until(Kind::Cookie, |report| {
        report.counts.cookies > 0 && report.counts.cookie_acks > 0
    });
}

#[test]
fn replayed_and_altered_cookies_open_nothing() {
    let report = flooded_until(Kind::Replay, |report| report.counts.altered > 100);
    assert_eq!(report.counts.accepted, 0, "{report:?}");
}

/// A flood of a target that answers for ever, and so does somebody else.
fn flooded_beside_a_stranger() -> Report {
    let stranger = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let target = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let port = target.local_addr().expect("bound").port();
    let ended = AtomicBool::new(false);
    let report = thread::scope(|scope| {
        scope.spawn(|| {
            let mut buffer = [0; 2000];
            let wait = Some(Duration::from_millis(20));
            target.set_read_timeout(wait).expect("a time");
            let mut peers = Vec::new();
            while !ended.load(Ordering::Relaxed) {
                peers.extend(target.recv_from(&mut buffer).map(|(_, from)| from));
                for peer in peers.iter().take(5) {
                    let _ = target.send_to(b"heartbeat", peer);
                    let _ = stranger.send_to(b"strange", peer);
                }
            }
        });
        let config = Config {
            kind: Kind::Cookie,
            target: SocketAddr::from(([127, 0, 0, 1], PORT)),
            over: Over::Udp { port },
            limits: Limits::new(10, 1000).expect("it is within the bounds"),
            seed: 1,
            probe: false,
        };
        let report = run(&config, |_| true);
        ended.store(true, Ordering::Relaxed);
        report.expect("it runs")
    });
    assert_eq!(report.sent + report.refused, 10);
    report
}

#[test]
fn strangers_do_not_keep_a_flood_going() {
    // On a busy machine the target may answer too late.
    let mut reports = Vec::new();
    let is_heard = std::iter::repeat_with(flooded_beside_a_stranger).take(5);
    let is_heard = is_heard
        .inspect(|report| reports.push(report.clone()))
        .any(|report| report.counts.other > 0);
    assert!(is_heard, "{reports:?}");
}

#[test]
fn what_is_not_on_loopback_is_refused_before_anything_is_sent() {
    let config = Config {
        kind: Kind::Init,
        target: SocketAddr::from(([192, 0, 2, 1], PORT)),
        over: Over::Udp { port: 9899 },
        limits: Limits::default(),
        seed: 1,
        probe: false,
    };
    let error = run(&config, |_| panic!("something was sent")).unwrap_err();
    assert!(error.to_string().contains("192.0.2.1"), "{error}");
}
