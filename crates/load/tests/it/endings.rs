//! How calls, connections and registrations end, and where callees say that they are.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use load::driver::{
    Connections, GeneratorConfig, LoadGenerator, LoadModel, LoadPlan, MediaPlan, Role, TaskKind,
};
use load::media::{Clip, Mode};
use load::record::Failure;
use load::script::{Pause, ScriptId, builtin};
use proxy::core::{OverloadPolicy, Policy};
use proxy::{ProxyConfig, Server};
use sip::Transport;
use sip_net::{Listen, SipNetConfig};
use test_support::say_skipped;

/// How long anything may take on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

const CALL: TaskKind = TaskKind::Script(ScriptId(0));

/// Users who call and are called, and hold calls for so long.
fn users(transport: Transport, hold: Duration) -> GeneratorConfig {
    let call = builtin::CallPlan {
        hold: Pause::Fixed(hold),
        ..builtin::CallPlan::default()
    };
    GeneratorConfig {
        transport,
        users: 10,
        workers: 2,
        scripts: vec![
            Arc::new(builtin::call(&call).expect("a script")),
            Arc::new(builtin::answer(&builtin::AnswerPlan::default()).expect("a script")),
            Arc::new(builtin::register().expect("a script")),
        ],
        interval: Duration::from_millis(20),
        seed: 7,
        ..GeneratorConfig::default()
    }
}

/// A server that takes what comes and hangs up is no server that the generator could blame on itself.
#[tokio::test]
async fn a_server_that_closes_connections_fails_calls() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let target = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        use std::io::Read;
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            // The first octets of a message are enough.
            std::thread::spawn(move || stream.read(&mut [0; 64]).ok());
        }
    });
    for connections in [Connections::Shared, Connections::PerUser] {
        let config = GeneratorConfig {
            target,
            role: Role::Callers,
            connections,
            ..users(Transport::Tcp, Duration::ZERO)
        };
        let mut load = LoadGenerator::start(config).await.expect("it starts");
        let plan = LoadPlan::at_rate(CALL, 500.0, 300);
        let outcome = tokio::time::timeout(TIMEOUT, load.run(plan))
            .await
            .expect("in time")
            .expect("it runs");
        let statistics = &outcome.statistics;
        assert_eq!(statistics.calls.failed, 300, "{:?}", statistics.failures);
        let reasons = statistics.failures.reasons();
        assert_eq!(reasons, [(Failure::ConnectionLost, 300)]);
        assert_eq!(statistics.arrivals.not_started, 0);
        // How late the generator was is another matter, and the machine's.
        let objections = outcome.validity.to_string();
        assert!(!objections.contains("no connection"), "{objections}");
        load.shutdown().await;
    }
}

/// Callees at all addresses of a host say by which one they are reached, and see who calls.
#[tokio::test]
async fn callees_at_all_addresses_say_which() {
    for family in [
        IpAddr::from(Ipv4Addr::LOCALHOST),
        Ipv6Addr::LOCALHOST.into(),
    ] {
        let Ok(caller) = UdpSocket::bind((family, 0)) else {
            say_skipped("this host has no IPv6");
            continue;
        };
        caller.set_read_timeout(Some(TIMEOUT)).expect("a socket");
        let config = GeneratorConfig {
            direct: true,
            role: Role::Callees,
            target: SocketAddr::new(family, 5060),
            workers: 1,
            ..users(Transport::Udp, Duration::ZERO)
        };
        let callees = LoadGenerator::start(config).await.expect("it starts");
        let listening = callees.listening()[0];
        assert!(listening.ip().is_unspecified());
        let invite = "INVITE sip:user11@there SIP/2.0\r\nVia: SIP/2.0/UDP nowhere.invalid;rport;branch=z9hG4bK1\r\n\
                      Max-Forwards: 70\r\nFrom: <sip:a@here>;tag=1\r\nTo: <sip:user11@there>\r\nCall-ID: 1@here\r\n\
                      CSeq: 1 INVITE\r\nContact: <sip:a@here>\r\nContent-Length: 0\r\n\r\n";
        caller
            .send_to(invite.as_bytes(), (family, listening.port()))
            .expect("it is sent");
        let mut room = [0; 2000];
        let answer = loop {
            let length = caller.recv(&mut room).expect("an answer");
            let message = String::from_utf8_lossy(&room[..length]).into_owned();
            if message.starts_with("SIP/2.0 200") {
                break message;
            }
        };
        let own = SocketAddr::new(family, listening.port());
        assert!(
            answer.contains(&format!("Contact: <sip:user11@{own};")),
            "{answer}"
        );
        assert!(answer.contains(&format!(" {family}\r\n")), "{answer}");
        let port = caller.local_addr().expect("an address").port();
        let seen = format!("nowhere.invalid;rport={port};branch=z9hG4bK1;received={family}\r\n");
        assert!(answer.contains(&seen), "{answer}");
        callees.shutdown().await;
    }
}

/// Whoever ends a run at once leaves no call standing.
#[tokio::test]
async fn calls_that_are_ended_at_once_are_hung_up() {
    for transport in [Transport::Udp, Transport::Tcp, Transport::Sctp] {
        let own = SipNetConfig {
            encapsulation_port: 0,
            ..SipNetConfig::default()
        };
        let callees = GeneratorConfig {
            direct: true,
            role: Role::Callees,
            local_ip: Some(Ipv4Addr::LOCALHOST.into()),
            transports: own.clone(),
            ..users(transport, TIMEOUT)
        };
        let mut callees = LoadGenerator::start(callees).await.expect("callees");
        let callers = GeneratorConfig {
            direct: true,
            role: Role::Callers,
            target: callees.listening()[0],
            transports: SipNetConfig {
                peer_encapsulation_port: callees.encapsulation().map_or(0, |at| at.port()),
                ..own
            },
            ..users(transport, TIMEOUT)
        };
        let mut callers = LoadGenerator::start(callers).await.expect("callers");
        let (quit, mut live) = (callers.control(), callers.live());
        let (stop, mut heard) = (callees.control(), callees.live());
        let serving = tokio::spawn(async move {
            let plan = LoadPlan::new(
                CALL,
                LoadModel::Serve {
                    count: None,
                    time: None,
                },
            );
            let outcome = callees.run(plan).await.expect("it serves");
            callees.shutdown().await;
            outcome
        });
        let calling = tokio::spawn(async move {
            let plan = LoadPlan::at_rate(CALL, 500.0, 100);
            let outcome = callers.run(plan).await.expect("it runs");
            callers.shutdown().await;
            outcome
        });
        let all_stand = live.wait_for(|now| now.statistics.metrics.established == 100);
        let all_stand = tokio::time::timeout(TIMEOUT, all_stand).await;
        drop(all_stand.expect("in time").expect("it runs"));
        quit.quit();
        let outcome = tokio::time::timeout(TIMEOUT, calling).await;
        let outcome = outcome.expect("in time").expect("no panic");
        assert_eq!(outcome.statistics.calls.unfinished, 100, "{transport}");
        let all_ended = heard.wait_for(|now| now.statistics.served.completed == 100);
        let all_ended = tokio::time::timeout(TIMEOUT, all_ended).await;
        drop(
            all_ended
                .unwrap_or_else(|_| panic!("{transport}: BYEs"))
                .expect("it runs"),
        );
        stop.stop();
        tokio::time::timeout(TIMEOUT, serving)
            .await
            .expect("in time")
            .expect("no panic");
    }
}

#[tokio::test]
async fn users_leave_the_registrar() {
    let listen = Listen {
        transport: Transport::Udp,
        address: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
    };
    let proxy = Server::start(ProxyConfig {
        transports: SipNetConfig {
            listeners: vec![listen],
            ..SipNetConfig::default()
        },
        // What waits on a busy machine is not refused.
        policy: Arc::new(Policy {
            overload: OverloadPolicy {
                queue_delay_target: TIMEOUT,
                ..OverloadPolicy::default()
            },
            ..Policy::default()
        }),
        ..ProxyConfig::default()
    })
    .await
    .expect("the proxy starts");
    let config = GeneratorConfig {
        target: proxy.listening()[0].address,
        users: 500,
        ..users(Transport::Udp, Duration::ZERO)
    };
    let mut load = LoadGenerator::start(config).await.expect("it starts");
    let registered = load.register(None, TIMEOUT).await.expect("it runs");
    assert_eq!(registered.registered, 1000);
    let left = load.unregister(TIMEOUT).await.expect("it runs");
    assert_eq!(left.registered, 0);
    assert_eq!(left.statistics.registrations.completed, 1000);
    // Nobody is left to be called, and nobody to be removed.
    let plan = LoadPlan::at_rate(CALL, 1000.0, 20);
    let outcome = load.run(plan).await.expect("it runs");
    assert_eq!(outcome.statistics.calls.failed, 20);
    let again = load.unregister(TIMEOUT).await.expect("it runs");
    assert_eq!(again.statistics.registrations.decided(), 0);
    load.shutdown().await;
    proxy.shutdown().await;
}

#[tokio::test]
async fn calls_with_media_go_over_ipv6() {
    if UdpSocket::bind((Ipv6Addr::LOCALHOST, 0)).is_err() {
        say_skipped("this host has no IPv6");
        return;
    }
    for transport in [Transport::Udp, Transport::Tcp] {
        let config = GeneratorConfig {
            direct: true,
            target: SocketAddr::from((Ipv6Addr::LOCALHOST, 5060)),
            media: Some(MediaPlan {
                clip: Clip::tone(440),
                callers: Mode::Talk,
                callees: Mode::Echo,
                agreed: Vec::new(),
            }),
            ..users(transport, Duration::from_millis(300))
        };
        let mut load = LoadGenerator::start(config).await.expect("it starts");
        assert!(load.listening().iter().all(SocketAddr::is_ipv6));
        let plan = LoadPlan::at_rate(CALL, 100.0, 20);
        let outcome = tokio::time::timeout(TIMEOUT, load.run(plan))
            .await
            .expect("in time")
            .expect("it runs");
        assert_eq!(outcome.statistics.calls.completed, 20, "{transport}");
        let media = outcome.media.expect("calls have media");
        assert_eq!(
            (media.refused, media.undescribed, media.without_room),
            (0, 0, 0)
        );
        load.shutdown().await;
    }
}
