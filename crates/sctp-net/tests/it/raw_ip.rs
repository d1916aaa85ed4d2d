//! SCTP right on IP, between hosts in network namespaces.

use std::net::IpAddr;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use crate::common::network::{Host, join, shown};
use crate::common::{self, echo, on_stream, patient, pattern, quick, within};
use bytes::Bytes;
use sctp_net::{
    Association, CannotStartCause, ConnectError, ConnectTo, Endpoint, EndpointConfig, Notification,
    PathChange, PathState, RawCarrierConfig, Stack, Tap,
};
use test_support::{Peer, require_command};
use tokio::sync::{Barrier, oneshot};
use tokio::task::JoinHandle;

/// Two hosts with a link; `None` where there are no namespaces.
fn two_hosts() -> Option<(Host, Host)> {
    let (left, right) = (Host::new()?, Host::new()?);
    left.link(
        &right,
        "wire0",
        &["10.1.0.1/24", "fd00:1::1/64"],
        &["10.1.0.2/24", "fd00:1::2/64"],
    );
    Some((left, right))
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn on(addresses: &[&str]) -> RawCarrierConfig {
    RawCarrierConfig {
        addresses: addresses.iter().copied().map(ip).collect(),
        ..RawCarrierConfig::default()
    }
}

/// Echoes to all who connect.
fn echo_on(endpoint: Endpoint) -> JoinHandle<()> {
    tokio::spawn(async move {
        while let Some(association) = endpoint.accept().await {
            tokio::spawn(echo(association));
        }
    })
}

/// Echoes on port 7 until it is told to stop, and gives the stack's statistics.
struct EchoServer {
    stop: oneshot::Sender<()>,
    thread: std::thread::JoinHandle<sctp_net::StackStatistics>,
}

impl EchoServer {
    fn start(host: &Host, carrier: RawCarrierConfig, config: EndpointConfig) -> EchoServer {
        let (stop, stopped) = oneshot::channel();
        let (ready, is_ready) = std::sync::mpsc::channel();
        let thread = host.run(move || async move {
            let stack = Stack::raw(carrier).unwrap();
            let serving = echo_on(stack.endpoint(7, config).unwrap());
            ready.send(()).unwrap();
            stopped.await.ok();
            serving.abort();
            stack.close().await;
            stack.statistics().await
        });
        is_ready.recv().unwrap();
        EchoServer { stop, thread }
    }

    fn stop(self) -> sctp_net::StackStatistics {
        self.stop.send(()).ok();
        join(self.thread)
    }
}

async fn connect(stack: &Stack, addresses: &[&str], config: EndpointConfig) -> Association {
    let endpoint = stack.endpoint(0, config).unwrap();
    let to = ConnectTo {
        addresses: addresses.iter().copied().map(ip).collect(),
        port: 7,
        ..ConnectTo::default()
    };
    within(endpoint.connect_to(to)).await.unwrap()
}

/// Sends messages and expects each of them back.
async fn exchange(association: &Association, numbers: std::ops::Range<usize>, length: usize) {
    let sender = association.clone();
    let payloads = numbers.clone();
    let sending = tokio::spawn(async move {
        for number in payloads {
            let payload = pattern(number, length);
            sender.send(on_stream(0), payload).await.unwrap();
        }
    });
    for number in numbers {
        let message = within(association.receive()).await.unwrap();
        assert_eq!(message.payload, pattern(number, length), "message {number}");
    }
    sending.await.unwrap();
}

#[test]
fn messages_go_over_ipv4_and_ipv6_and_captures_are_sound() {
    let Some((left, right)) = two_hosts() else {
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let capture = directory.path().join("raw.pcapng");
    let server = EchoServer::start(&right, RawCarrierConfig::default(), patient());
    let file = capture.clone();
    let client = left.run(move || async move {
        let carrier = RawCarrierConfig {
            tap: Some(Tap::create(&file, "raw").unwrap()),
            ..RawCarrierConfig::default()
        };
        let stack = Stack::raw(carrier).unwrap();
        for address in ["10.1.0.2", "fd00:1::2"] {
            let association = connect(&stack, &[address], patient()).await;
            assert_eq!(association.peer_encapsulation_port(), None);
            exchange(&association, 0..100, 3000).await;
            let status = association.status().await.unwrap();
            let local = stack.local_addresses();
            assert_eq!(status.paths.len(), 2, "{status:?} from {local:?}");
            within(association.shutdown()).await;
        }
        let statistics = stack.statistics().await;
        stack.close().await;
        statistics
    });
    let statistics = join(client);
    assert!(statistics.carrier.packets_sent > 0 && statistics.carrier.packets_received > 0);
    assert_eq!(statistics.carrier.send_errors, 0);
    assert_eq!(statistics.sctp.drops, Default::default());
    assert_eq!(statistics.retransmissions(), 0);
    server.stop();
    if let Some(count) = shown(&capture, "sctp", &[]) {
        assert!(count > 100, "{count}");
        let unsound = "!sctp || _ws.malformed || sctp.checksum.status != 1";
        assert_eq!(shown(&capture, unsound, &[]), Some(0));
    }
}

#[test]
fn the_transfer_goes_on_when_the_primary_path_is_cut() {
    let (Some(left), Some(right)) = (Host::new(), Host::new()) else {
        return;
    };
    left.link(&right, "wire0", &["10.1.0.1/24"], &["10.1.0.2/24"]);
    left.link(&right, "wire1", &["10.2.0.1/24"], &["10.2.0.2/24"]);
    let server = EchoServer::start(&right, on(&["10.1.0.2", "10.2.0.2"]), quick());
    let cutter = left.clone();
    let client = left.run(move || async move {
        let stack = Stack::raw(on(&["10.1.0.1", "10.2.0.1"])).unwrap();
        let association = connect(&stack, &["10.1.0.2"], quick()).await;
        let notifications = association.notifications();
        confirmed(&association, 2).await;
        exchange(&association, 0..50, 5000).await;
        cutter.namespace.ip("link set wire0 down");
        exchange(&association, 50..100, 5000).await;
        let cut = ip("10.1.0.2");
        let mut changes = Vec::new();
        while !changes.contains(&(cut, PathChange::Unreachable)) {
            if let Notification::PathChanged { path, change, .. } =
                within(notifications.next()).await.unwrap()
            {
                changes.push((path.remote, change));
            }
        }
        cutter.namespace.ip("link set wire0 up");
        while !changes.contains(&(cut, PathChange::Available)) {
            association.request_heartbeat(cut).await.unwrap();
            tokio::time::sleep(Duration::from_millis(50)).await;
            let next = tokio::time::timeout(Duration::from_millis(50), notifications.next());
            if let Ok(Some(Notification::PathChanged { path, change, .. })) = next.await {
                changes.push((path.remote, change));
            }
        }
        exchange(&association, 100..150, 5000).await;
        assert_eq!(association.close_cause(), None);
        stack.close().await;
    });
    join(client);
    server.stop();
}

/// Waits until so many paths are proved to be the peer's.
async fn confirmed(association: &Association, paths: usize) {
    within(async {
        loop {
            let status = association.status().await.unwrap();
            let active = |path: &&sctp_net::PathStatus| path.state == PathState::Active;
            if status.paths.iter().filter(active).count() == paths {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}

#[test]
fn a_smaller_mtu_on_the_way_is_heard_of() {
    let (Some(left), Some(router), Some(right)) = (Host::new(), Host::new(), Host::new()) else {
        return;
    };
    left.link(
        &router,
        "wire0",
        &["10.1.0.1/24", "fd00:1::1/64"],
        &["10.1.0.9/24", "fd00:1::9/64"],
    );
    router.link(
        &right,
        "wire1",
        &["10.2.0.9/24", "fd00:2::9/64"],
        &["10.2.0.2/24", "fd00:2::2/64"],
    );
    let forward = ["-q", "-w", "net.ipv6.conf.all.forwarding=1"];
    router
        .namespace
        .command("sysctl")
        .args(forward)
        .output()
        .unwrap();
    for (host, route) in [
        (&left, "route add default via 10.1.0.9"),
        (&left, "-6 route add default via fd00:1::9"),
        (&right, "route add default via 10.2.0.9"),
        (&right, "-6 route add default via fd00:2::9"),
    ] {
        host.namespace.ip(route);
    }
    router.namespace.ip("link set wire1 mtu 1300");
    right.namespace.ip("link set wire1 mtu 1300");
    let server = EchoServer::start(&right, RawCarrierConfig::default(), quick());
    let client = left.run(move || async move {
        let stack = Stack::raw(RawCarrierConfig::default()).unwrap();
        for (address, largest) in [("10.2.0.2", 1280), ("fd00:2::2", 1260)] {
            let association = connect(&stack, &[address], quick()).await;
            exchange(&association, 0..20, 20_000).await;
            let status = association.status().await.unwrap();
            let path = |path: &&sctp_net::PathStatus| path.address.remote == ip(address);
            let mtu = status.paths.iter().find(path).unwrap().mtu;
            assert!(mtu <= largest && mtu >= 1200, "{address}: {mtu}");
            within(association.shutdown()).await;
        }
        let statistics = stack.statistics().await;
        stack.close().await;
        statistics
    });
    let statistics = join(client);
    assert!(statistics.carrier.receive_errors > 0, "{statistics:?}");
    server.stop();
}

#[test]
fn programs_leave_each_others_ports_alone() {
    let Some((left, right)) = two_hosts() else {
        return;
    };
    // Either stack hears the packets of the other one, and may be late to read them. They are the other one's only as
    // long as that has its port: neither gives its port back before both have counted.
    let counted = Arc::new(Barrier::new(2));
    let serve = |port| {
        let (stop, stopped) = oneshot::channel::<()>();
        let (ready, is_ready) = std::sync::mpsc::channel();
        let counted = Arc::clone(&counted);
        let thread = right.run(move || async move {
            let stack = Stack::raw(RawCarrierConfig::default()).unwrap();
            if port != 7 {
                let taken = stack.endpoint(7, patient()).unwrap_err();
                assert_eq!(taken.kind(), std::io::ErrorKind::AddrInUse);
                assert!(taken.to_string().contains("address in use"), "{taken}");
            }
            let serving = echo_on(stack.endpoint(port, patient()).unwrap());
            ready.send(()).unwrap();
            stopped.await.ok();
            let statistics = stack.statistics().await;
            counted.wait().await;
            serving.abort();
            stack.close().await;
            statistics
        });
        is_ready.recv().unwrap();
        (stop, thread)
    };
    let servers = [serve(7), serve(8)];
    let client = left.run(|| async {
        let stack = Stack::raw(RawCarrierConfig::default()).unwrap();
        let endpoint = stack.endpoint(0, patient()).unwrap();
        for port in [7, 8] {
            let connecting = endpoint.connect(ip("10.1.0.2"), port, None);
            let association = within(connecting).await.unwrap();
            exchange(&association, 0..20, 2000).await;
            within(association.shutdown()).await;
        }
        // A port that nobody has is refused, by one of them.
        let nobody = within(endpoint.connect(ip("10.1.0.2"), 9, None)).await;
        assert!(
            matches!(
                nobody.unwrap_err(),
                ConnectError::CannotStart {
                    cause: CannotStartCause::Refused { .. },
                    ..
                }
            ),
            "refused by ABORT"
        );
        stack.close().await;
    });
    join(client);
    let threads = servers.map(|(stop, thread)| {
        stop.send(()).unwrap();
        thread
    });
    let answered = threads.map(|thread| join(thread).out_of_the_blue);
    assert_eq!(answered.iter().sum::<u64>(), 1, "{answered:?}");
}

/// Not a test, but a program that holds port 7 until it is killed.
#[test]
#[ignore = "run by other tests as a program of its own"]
fn program_that_holds_a_port() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let stack = Stack::raw(RawCarrierConfig::default()).unwrap();
        let _endpoint = stack.endpoint(7, quick()).unwrap();
        eprintln!("holding port 7");
        std::future::pending::<()>().await;
    });
}

/// Not a test, but a program that says whether it may open a stack.
#[test]
#[ignore = "run by other tests as a program of its own"]
fn program_that_opens_a_stack() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    match runtime.block_on(async { Stack::raw(RawCarrierConfig::default()) }) {
        Ok(_) => eprintln!("it was opened"),
        Err(error) => eprintln!("{:?}: {error}", error.kind()),
    }
}

/// A test of this file, to be run as a program.
fn as_program(name: &str) -> [String; 5] {
    let this = std::env::current_exe().unwrap();
    let this = this.to_str().unwrap();
    let name = format!("raw_ip::{name}");
    [this, "--exact", &name, "--ignored", "--nocapture"].map(str::to_owned)
}

#[test]
fn a_program_that_dies_leaves_no_claim() {
    let Some((_left, right)) = two_hosts() else {
        return;
    };
    let [program, arguments @ ..] = as_program("program_that_holds_a_port");
    let mut holder = Peer::spawn(right.namespace.command(program).args(arguments));
    holder.wait_for_output("holding port 7", common::LIMIT);
    let open = || {
        let opened = right.run(|| async {
            let stack = Stack::raw(RawCarrierConfig::default()).unwrap();
            stack.endpoint(7, quick()).map(drop)
        });
        join(opened).map_err(|error| error.kind())
    };
    assert_eq!(open(), Err(std::io::ErrorKind::AddrInUse));
    // Killed, without a chance to tidy up.
    drop(holder);
    assert_eq!(open(), Ok(()));
}

#[test]
fn without_the_capability_the_error_says_how_to_get_it() {
    let Some(setpriv) = require_command("setpriv", "util-linux") else {
        return;
    };
    let output = Command::new(setpriv)
        .args(["--bounding-set=-net_raw", "--inh-caps=-net_raw"])
        .args(as_program("program_that_opens_a_stack"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if said.contains("setpriv:") {
        test_support::say_skipped(&format!("no capability can be given up here: {said}"));
        return;
    }
    assert!(said.contains("PermissionDenied"), "{said}");
    assert!(said.contains("setcap cap_net_raw+ep"), "{said}");
}

#[test]
fn workers_share_one_reader() {
    let Some((left, right)) = two_hosts() else {
        return;
    };
    let carrier = RawCarrierConfig {
        workers: 3,
        ..RawCarrierConfig::default()
    };
    let server = EchoServer::start(&right, carrier, patient());
    let client = left.run(|| async {
        let stack = Stack::raw(RawCarrierConfig::default()).unwrap();
        let mut associations = Vec::new();
        for _ in 0..12 {
            associations.push(connect(&stack, &["10.1.0.2"], patient()).await);
        }
        for association in &associations {
            association
                .send(on_stream(0), Bytes::from_static(b"to whom?"))
                .await
                .unwrap();
        }
        for association in &associations {
            let message = within(association.receive()).await.unwrap();
            assert_eq!(message.payload, "to whom?");
        }
        stack.close().await;
    });
    join(client);
    let statistics = server.stop();
    // Of twelve associations some belong to workers that do not read.
    assert!(statistics.handed_over > 0);
    assert_eq!(statistics.hand_over_overflows, 0);
    assert_eq!(statistics.out_of_the_blue, 0);
}

#[test]
fn packets_to_other_programs_are_no_work_for_the_workers() {
    let Some((left, right)) = two_hosts() else {
        return;
    };
    let server = EchoServer::start(&right, RawCarrierConfig::default(), quick());
    let (stop, stopped) = oneshot::channel();
    let (ready, is_ready) = std::sync::mpsc::channel();
    let beside = right.run(move || async move {
        let carrier = RawCarrierConfig {
            workers: 3,
            ..RawCarrierConfig::default()
        };
        let stack = Stack::raw(carrier).unwrap();
        let _endpoint = stack.endpoint(8, quick()).unwrap();
        ready.send(()).unwrap();
        stopped.await.ok();
        stack.statistics().await
    });
    is_ready.recv().unwrap();
    let client = left.run(|| async {
        let stack = Stack::raw(RawCarrierConfig::default()).unwrap();
        let mut associations = Vec::new();
        for _ in 0..6 {
            associations.push(connect(&stack, &["10.1.0.2"], quick()).await);
        }
        for association in &associations {
            exchange(association, 0..2, 100).await;
        }
        stack.close().await;
    });
    join(client);
    // What it has not read yet is the server's as long as that is there.
    stop.send(()).ok();
    let statistics = join(beside);
    server.stop();
    assert_eq!(statistics.handed_over, 0);
    assert_eq!(statistics.out_of_the_blue, 0);
}

#[test]
fn a_stack_counts_and_captures_only_what_is_its_own() {
    let Some(host) = Host::new() else {
        return;
    };
    host.namespace.ip("link set lo up");
    let directory = tempfile::tempdir().unwrap();
    let capture = directory.path().join("own.pcapng");
    let tap = Tap::create(&capture, "raw").unwrap();
    // Each of the two hears everything, what it sends included.
    let server = EchoServer::start(&host, on(&["127.0.0.1"]), quick());
    let carrier = RawCarrierConfig {
        tap: Some(tap.clone()),
        ..on(&["127.0.0.1"])
    };
    let client = host.run(move || async move {
        let stack = Stack::raw(carrier).unwrap();
        let association = connect(&stack, &["127.0.0.1"], quick()).await;
        exchange(&association, 0..20, 2000).await;
        within(association.shutdown()).await;
        stack.close().await;
        stack.statistics().await.carrier
    });
    let client = join(client);
    let server = server.stop().carrier;
    // A packet sent again at the end may come too late to be counted.
    assert!(client.packets_received > 0 && client.packets_received <= server.packets_sent);
    assert!(client.bytes_received <= server.bytes_sent);
    assert_eq!(
        tap.statistics().recorded,
        client.packets_sent + client.packets_received
    );
}
