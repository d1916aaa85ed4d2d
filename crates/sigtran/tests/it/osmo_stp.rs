//! osmo-stp on the Linux kernel's SCTP, in a virtual machine (`tests/kernel-peer`): the gateway of our ASPs, and an ASP
//! behind our gateway.

use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use m3ua::{AsId, AsState, AspState, ManagementIndication, NetworkId, PeerId};
use sigtran::{Configuration, Event, Process, start};
use test_support::{KernelPeer, Peer, require_command, wait_until};

use crate::over_udp::{Received, count, message, run, until, until_active};

const LIMIT: Duration = Duration::from_secs(180);

/// The guest with osmo-stp in it; none, with the reason said, where one of them cannot be had.
fn guest() -> Option<&'static KernelPeer> {
    let kernel = KernelPeer::get()?;
    let program = require_command("osmo-stp", "osmo-stp")?;
    kernel.put(&program);
    Some(kernel)
}

fn block_on(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        tokio::time::timeout(LIMIT, test).await.expect("in time");
    });
}

/// What each configuration begins with.
const HEAD: &str = "log stderr
 logging filter all 1
 logging level set-all notice
line vty
 no login
cs7 instance 0
 network-indicator national
";

fn start_in_guest(kernel: &KernelPeer, configuration: &str) -> Peer {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(configuration.as_bytes()).expect("space");
    kernel.run("killall -q osmo-stp; true");
    kernel.put_as(file.path(), "/etc/osmo-stp.cfg");
    Peer::spawn(&mut kernel.command("exec osmo-stp -c /etc/osmo-stp.cfg"))
}

/// A gateway with an AS of the ASPs on ports 3001 and 3002, and an AS of the one on 3003.
fn gateway_configuration(own: &str, peers: &str) -> String {
    let asps = (1..=3).map(|number| {
        format!(
            " asp asp{number} 300{number} 2905 m3ua
  local-ip {own}
  remote-ip {peers}
  role sg
  sctp-role server
"
        )
    });
    format!(
        "{HEAD} point-code 0.1.0
{} as pair m3ua
  asp asp1
  asp asp2
  routing-key 1 0.0.1
  traffic-mode loadshare
 as other m3ua
  asp asp3
  routing-key 2 0.0.2
  traffic-mode override
 route-table system
  update route 0.0.1 7.255.7 linkset pair
  update route 0.0.2 7.255.7 linkset other
 listen m3ua 2905
  accept-asp-connections pre-configured
  local-ip {own}
",
        asps.collect::<String>()
    )
}

/// Which of our addresses an ASP has, where the gateway is, and what carries SCTP.
struct Ends {
    ours: &'static str,
    gateway: &'static str,
    over: &'static str,
}

async fn asp(ends: &Ends, port: u16, context: u32, mode: &str) -> (Process, Received) {
    run(&format!(
        r#"
        [sctp]
        over = "{}"
        addresses = ["{}"]
        port = {port}
        encapsulation_port = 0
        [[peer]]
        name = "stp"
        role = "sgp"
        address = "{}:2905"
        [[application_server]]
        name = "own"
        served_by = "us"
        peers = ["stp"]
        routing_context = {context}
        dpc = ["0-0-{context}"]
        traffic_mode = "{mode}"
        [[route]]
        via = "stp"
    "#,
        ends.over, ends.ours, ends.gateway
    ))
    .await
}

/// Two ASPs share the load of an AS behind osmo-stp, each SLS in order; one goes, and the other takes all.
async fn two_share_the_load(ends: Ends) {
    let (one, to_one) = asp(&ends, 3001, 1, "loadshare").await;
    let (two, to_two) = asp(&ends, 3002, 1, "loadshare").await;
    let (three, to_three) = asp(&ends, 3003, 2, "override").await;
    for process in [&one, &two, &three] {
        until_active(process).await;
    }
    let send = async |numbers: std::ops::Range<u32>| {
        for number in numbers {
            let message = message("0-0-2", "0-0-1", number as u8 % 16, number);
            let sent = three
                .with(|engine, _| engine.transfer(NetworkId(0), message))
                .await;
            assert_eq!(sent, Ok(Ok(())));
        }
    };
    send(0..320).await;
    until("all", async || count(&to_one) + count(&to_two) == 320).await;
    for received in [&to_one, &to_two] {
        let received = received.lock().unwrap_or_else(PoisonError::into_inner);
        for sls in 0..16 {
            let of_sls = received.iter().filter(|it| it.sls == sls);
            assert!(of_sls.is_sorted_by_key(|it| it.user_data.clone()));
        }
    }
    let back = message("0-0-1", "0-0-2", 3, 7);
    let sent = two
        .with(|engine, _| engine.transfer(NetworkId(0), back))
        .await;
    assert_eq!(sent, Ok(Ok(())));
    until("an answer", async || count(&to_three) == 1).await;
    one.stop().await;
    let before = count(&to_two);
    send(320..400).await;
    until("all go to the other", async || {
        count(&to_two) == before + 80
    })
    .await;
    for process in [two, three] {
        let refused = process.with(|engine, _| engine.statistics().refused).await;
        assert_eq!(refused, Ok(0), "osmo-stp sends nothing that is wrong");
        process.stop().await;
    }
}

#[test]
fn osmo_stp_is_the_gateway_of_our_asps() {
    let Some(kernel) = guest() else {
        return;
    };
    kernel.enter();
    let _stp = start_in_guest(kernel, &gateway_configuration("10.91.1.2", "10.91.1.1"));
    block_on(two_share_the_load(Ends {
        ours: "10.91.1.1",
        gateway: "10.91.1.2",
        over: "udp",
    }));
    kernel.run("killall -q osmo-stp; true");
}

/// Both ends on the kernel's SCTP: this program copies itself into the guest.
#[test]
fn our_asps_on_the_kernels_sctp() {
    if !KernelPeer::is_in_guest() {
        if let Some(kernel) = guest() {
            kernel.run("killall -q osmo-stp; true");
            kernel.run_test("osmo_stp::our_asps_on_the_kernels_sctp");
        }
        return;
    }
    let file = Path::new("/tmp/osmo-stp.cfg");
    std::fs::write(file, gateway_configuration("127.0.0.1", "127.0.0.1")).expect("space");
    let mut stp = Peer::spawn(Command::new("osmo-stp").arg("-c").arg(file));
    block_on(two_share_the_load(Ends {
        ours: "127.0.0.1",
        gateway: "127.0.0.1",
        over: "kernel",
    }));
    stp.ask_to_end(Duration::from_secs(30));
}

/// A cut path that is mended however the test ends.
struct Cut<'a>(&'a KernelPeer);

impl Drop for Cut<'_> {
    fn drop(&mut self) {
        self.0.ip("link set kp2 up");
    }
}

/// osmo-stp as an ASP behind our gateway, right on IP, with two paths. What we send it comes back by its only route. The
/// primary path is cut, and no state changes.
#[test]
fn osmo_stp_is_an_asp_behind_our_gateway() {
    let Some(kernel) = guest() else {
        return;
    };
    kernel.enter();
    let configuration = format!(
        "{HEAD} point-code 0.0.3
 asp gateway 2905 2906 m3ua
  local-ip 10.91.2.2
  local-ip 10.91.1.2
  remote-ip 10.91.2.1
  remote-ip 10.91.1.1
  role asp
  sctp-role client
 as behind m3ua
  asp gateway
  routing-key 7 0.0.3
  traffic-mode override
 route-table system
  update route 0.0.0 0.0.0 linkset behind
"
    );
    block_on(async {
        let configuration_of_ours = Configuration::read(
            r#"
            [sctp]
            over = "ip"
            addresses = ["10.91.2.1", "10.91.1.1"]
            [[peer]]
            name = "stp"
            role = "asp"
            address = "10.91.2.2:0"
            addresses = ["10.91.1.2"]
            [[application_server]]
            name = "behind"
            served_by = "peers"
            peers = ["stp"]
            routing_context = 7
            dpc = ["0-0-3", "0-0-1"]
            traffic_mode = "override"
        "#,
        )
        .expect("a configuration");
        let received = Received::default();
        let changes = Arc::new(Mutex::new(Vec::new()));
        let user = (Arc::clone(&received), Arc::clone(&changes));
        let gateway = start(&configuration_of_ours, move |event| match event {
            Event::Mtp(m3ua::MtpIndication::Transfer { message, .. }) => user
                .0
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(message),
            Event::Management(
                change @ (ManagementIndication::As { .. } | ManagementIndication::Asp { .. }),
            ) => user
                .1
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(change),
            _ => {}
        })
        .await
        .expect("a process");
        let _stp = start_in_guest(kernel, &configuration);
        until("the AS is active", async || {
            let state = gateway.with(|engine, _| engine.as_state(AsId(0))).await;
            state == Ok(AsState::Active)
        })
        .await;
        let send = async |numbers: std::ops::Range<u32>| {
            for number in numbers {
                let message = message("0-0-2", "0-0-1", number as u8 % 16, number);
                let sent = gateway
                    .with(|engine, _| engine.transfer(NetworkId(0), message))
                    .await;
                assert_eq!(sent, Ok(Ok(())));
            }
        };
        send(0..100).await;
        until("all come back", async || count(&received) == 100).await;
        let before = changes.lock().unwrap_or_else(PoisonError::into_inner).len();
        kernel.ip("link set kp2 down");
        let cut = Cut(kernel);
        send(100..200).await;
        until("all come back on the other path", async || {
            count(&received) == 200
        })
        .await;
        let state = gateway
            .with(|engine, _| engine.asp_state(PeerId(0), AsId(0)))
            .await;
        assert_eq!(state, Ok(AspState::Active));
        let after = changes.lock().unwrap_or_else(PoisonError::into_inner).len();
        assert_eq!(before, after, "{changes:?}");
        drop(cut);
        kernel.run("killall -q osmo-stp; true");
        let is_gone = async || {
            let state = gateway.with(|engine, _| engine.as_state(AsId(0))).await;
            state != Ok(AsState::Active)
        };
        until("its end is seen", is_gone).await;
        gateway.stop().await;
    });
    assert!(wait_until(LIMIT, || kernel
        .run("cat /proc/net/sctp/assocs")
        .lines()
        .count()
        <= 1));
}
