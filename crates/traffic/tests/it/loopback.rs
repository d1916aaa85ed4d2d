//! Sender and receiver over real sockets on loopback. Nothing here depends on how fast the machine is, but
//! for waiting.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use perf::{CarrierConfig, Listen, Over, Protocol, Target};
use socket2::SockRef;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use traffic::{
    DEFAULT_PORT, Encryption, Limit, Pattern, Payload, Rate, Receiver, ReceiverConfig, RunPlan,
    RunResult, Sender, SenderConfig,
};

async fn send(config: &SenderConfig, stop: Arc<AtomicBool>) -> anyhow::Result<Vec<RunResult>> {
    Sender::connect(config).await?.send(stop, |_| {}).await
}

fn carrier(peer_port: u16) -> CarrierConfig {
    CarrierConfig {
        over: Over::Udp,
        encapsulation_port: 0,
        peer_encapsulation_port: peer_port,
        kernel_kept_away: false,
        workers: 1,
        tap: None,
    }
}

async fn receiver(listen: &str) -> Receiver {
    let config = ReceiverConfig {
        listen: vec![Listen::parse(listen, DEFAULT_PORT).unwrap()],
        carrier: carrier(1),
        max_senders: 4,
    };
    Receiver::start(config).await.unwrap()
}

fn plan(encryption: Encryption, packets: u64, rate: &str) -> RunPlan {
    RunPlan {
        size: 200,
        encryption,
        pattern: Pattern::Constant,
        rate: rate.parse().unwrap(),
        limit: Limit::Packets(packets),
        echo: 2,
        payload: Payload::pattern(1),
        trial: 1,
    }
}

fn config(target: Target, encapsulation_port: u16, runs: Vec<RunPlan>) -> SenderConfig {
    SenderConfig {
        target,
        ipv6: false,
        may_test: Vec::new(),
        carrier: carrier(encapsulation_port),
        local_addresses: Vec::new(),
        experiment: 42,
        link_speed: Some(100_000_000),
        seed: 1,
        runs,
    }
}

async fn run(listen: &str, runs: Vec<RunPlan>) -> Vec<RunResult> {
    let receiver = receiver(listen).await;
    let local = &receiver.local()[0];
    let target = Target {
        protocol: local.protocol,
        hosts: vec![local.addresses[0].to_string()],
        port: local.port,
    };
    let config = config(target, receiver.encapsulation_port().unwrap_or(1), runs);
    let stop = Arc::new(AtomicBool::new(false));
    let results = send(&config, stop).await.unwrap();
    receiver.close().await;
    results
}

fn assert_complete(run: &RunResult, packets: u64) {
    assert_eq!((run.sent, run.refused), (packets, 0), "{run:?}");
    assert_eq!((run.receiver.received, run.lost), (packets, 0), "{run:?}");
    assert_eq!((run.receiver.duplicates, run.receiver.reordered), (0, 0));
    assert_eq!((run.receiver.forged, run.receiver.malformed), (0, 0));
    assert_eq!(run.receiver.bytes, packets * run.packet_bytes as u64);
    assert_eq!(run.receiver.echoed, packets / 2);
    assert_eq!((run.round_trip.count, run.echoes_lost), (packets / 2, 0));
    assert!(run.receiver.same_clock);
    assert_eq!(run.receiver.one_way.count, packets);
    assert!(run.receiver.one_way.min < run.round_trip.max);
    let is_encrypted = run.encryption != Encryption::None;
    let sealed = if is_encrypted { packets } else { 0 };
    assert_eq!(run.sealing.packets, sealed);
    assert_eq!(run.receiver.opening.packets, sealed);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_encryption_over_every_transport() {
    for listen in ["udp:127.0.0.1:0", "tcp:127.0.0.1:0", "sctp:127.0.0.1:0"] {
        let plans: Vec<RunPlan> = Encryption::ALL
            .into_iter()
            .map(|encryption| plan(encryption, 300, "3k"))
            .collect();
        let runs = run(listen, plans).await;
        assert_eq!(runs.len(), 4);
        for run in &runs {
            assert_complete(run, 300);
            assert!(run.link.as_ref().unwrap().max_packets_per_second > 0.0);
        }
        assert_eq!(runs[1].packet_bytes, 216);
        assert!(runs[1].secure && !runs[3].secure);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runs_do_not_wait_for_somebody_to_hear_of_them() {
    let plans = (0..100).map(|_| plan(Encryption::None, 1, "unlimited"));
    let runs = run("udp:127.0.0.1:0", plans.collect()).await;
    assert_eq!(runs.len(), 100);
    assert!(runs.iter().all(|run| run.lost == 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ipv6_carries_as_well() {
    if std::net::UdpSocket::bind("[::1]:0").is_err() {
        println!("skipped: this host has no IPv6");
        return;
    }
    for listen in ["udp:[::1]:0", "tcp:[::1]:0", "sctp:[::1]:0"] {
        let runs = run(listen, vec![plan(Encryption::Aes256Gcm, 100, "2k")]).await;
        assert_complete(&runs[0], 100);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_lose_nothing_as_fast_as_they_go() {
    for listen in ["tcp:127.0.0.1:0", "sctp:127.0.0.1:0"] {
        let runs = run(listen, vec![plan(Encryption::None, 20_000, "unlimited")]).await;
        assert_complete(&runs[0], 20_000);
        assert!(runs[0].on_schedule, "there is none");
    }
}

/// A network between sender and receiver: of the packets of a run it loses every tenth, doubles every
/// seventh, and lets the next one pass every thirteenth.
async fn bad_network(receiver: SocketAddr) -> SocketAddr {
    let (listener, towards_sender) = loop {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        // The port may be free for TCP alone.
        if let Ok(socket) = UdpSocket::bind(address).await {
            break (listener, Arc::new(socket));
        }
    };
    let towards_receiver = Arc::new(UdpSocket::bind("127.0.0.1:0").await.unwrap());
    // As much room as the system gives, so that no packet is lost to a busy machine.
    for socket in [&towards_sender, &towards_receiver] {
        let socket = SockRef::from(&**socket);
        socket.set_recv_buffer_size(4 << 20).unwrap();
    }
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut sender, _) = listener.accept().await.unwrap();
        let mut onward = TcpStream::connect(receiver).await.unwrap();
        copy_bidirectional(&mut sender, &mut onward).await.ok();
    });
    tokio::spawn(async move {
        let mut buffer = vec![0; 2000];
        let mut back = vec![0; 2000];
        let mut held: Option<Vec<u8>> = None;
        let mut sender = None;
        let mut count = 0;
        loop {
            tokio::select! {
                Ok((length, from)) = towards_sender.recv_from(&mut buffer) => {
                    sender = Some(from);
                    count += 1;
                    let packet = &buffer[..length];
                    let copies = match count {
                        count if count % 10 == 0 => 0,
                        count if count % 7 == 0 => 2,
                        _ => 1,
                    };
                    if copies == 1 && count % 13 == 0 {
                        held = Some(packet.to_vec());
                        continue;
                    }
                    for _ in 0..copies {
                        towards_receiver.send_to(packet, receiver).await.unwrap();
                    }
                    if let Some(held) = held.take_if(|_| copies > 0) {
                        towards_receiver.send_to(&held, receiver).await.unwrap();
                    }
                }
                Ok(length) = towards_receiver.recv(&mut back) => {
                    let sender = sender.expect("it has sent");
                    towards_sender.send_to(&back[..length], sender).await.unwrap();
                }
            }
        }
    });
    address
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_network_does_is_told() {
    let receiver = receiver("udp:127.0.0.1:0").await;
    let at = SocketAddr::from(([127, 0, 0, 1], receiver.local()[0].port));
    for encryption in [Encryption::None, Encryption::ChaCha20Poly1305] {
        let network = bad_network(at).await;
        let config = config(
            Target {
                protocol: Protocol::Udp,
                hosts: vec!["127.0.0.1".into()],
                port: network.port(),
            },
            1,
            vec![plan(encryption, 1000, "2k")],
        );
        let stop = Arc::new(AtomicBool::new(false));
        let runs = send(&config, stop).await.unwrap();
        let (run, seen) = (&runs[0], &runs[0].receiver);
        let doubled = (1..=1000).filter(|n| n % 7 == 0 && n % 10 != 0).count() as u64;
        let held = (1..=1000)
            .filter(|n| n % 13 == 0 && n % 7 != 0 && n % 10 != 0)
            .count() as u64;
        assert_eq!((run.sent, run.lost), (1000, 100), "{run:?}");
        assert_eq!((seen.received, seen.duplicates), (900, doubled));
        assert_eq!(seen.reordered, held);
        assert_eq!(run.loss_percent, 10.0);
        assert_eq!((seen.forged, seen.malformed), (0, 0));
        assert_eq!((run.round_trip.count, run.echoes_lost), (seen.echoed, 0));
    }
    receiver.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_time_limit_ends_a_run_with_its_packets() {
    const TRIES: usize = 10;
    let mut plan = plan(Encryption::None, 1, "1k");
    plan.limit = Limit::Seconds(Duration::from_millis(250));
    plan.pattern = "on-off:50ms,50ms".parse().unwrap();
    for _ in 0..TRIES {
        let runs = run("udp:127.0.0.1:0", vec![plan.clone()]).await;
        assert_eq!(runs[0].lost, 0);
        assert!(runs[0].sent <= 150, "{}", runs[0].sent);
        // 50 of each tenth of a second, unless the machine slept at the end.
        if runs[0].sent >= 100 {
            return;
        }
    }
    panic!("{TRIES} runs have ended too early");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strangers_and_refusals_are_told() {
    let receiver = receiver("tcp:127.0.0.1:0").await;
    let target = Target {
        protocol: Protocol::Udp,
        hosts: vec!["192.0.2.1".into()],
        port: receiver.local()[0].port,
    };
    let mut config = config(target, 1, vec![plan(Encryption::None, 1, "1")]);
    let stop = Arc::new(AtomicBool::new(false));
    let error = send(&config, Arc::clone(&stop)).await.unwrap_err();
    assert!(
        error.to_string().contains("--i-may-test 192.0.2.1"),
        "{error}"
    );
    // It listens for TCP alone.
    config.target.hosts = vec!["127.0.0.1".into()];
    let error = send(&config, stop).await.unwrap_err();
    assert!(
        error.to_string().contains("does not listen for udp"),
        "{error}"
    );
    assert_eq!(Rate::Unlimited.packets_per_second(1), None);
    receiver.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_finds_no_place_is_told() {
    for listen in ["tcp:127.0.0.1:0", "sctp:127.0.0.1:0"] {
        let listen = Listen::parse(listen, DEFAULT_PORT).unwrap();
        let receiver = Receiver::start(ReceiverConfig {
            listen: vec![listen.clone()],
            carrier: carrier(1),
            max_senders: 0,
        })
        .await
        .unwrap();
        let target = Target {
            protocol: listen.protocol,
            hosts: vec!["127.0.0.1".into()],
            port: receiver.local()[0].port,
        };
        let encapsulation_port = receiver.encapsulation_port().unwrap_or(1);
        let runs = vec![plan(Encryption::None, 1, "1")];
        let config = config(target, encapsulation_port, runs);
        let stop = Arc::new(AtomicBool::new(false));
        let error = send(&config, stop).await.unwrap_err();
        assert!(
            error.to_string().contains("maximum number of senders"),
            "{error}"
        );
        receiver.close().await;
    }
}
