//! A phone whose host gets another address in a call: it is registered there, and the call goes on.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use phone::{Command, MediaConfig, PhoneConfig, PhoneEvent, Srtp, SrtpKeys};
use sip::Transport;
use test_support::Namespace;

use crate::calls::block_on;
use crate::outbound::{account, proxy};
use crate::phones::Running;

const PROXY: &str = "10.83.1.1";
const BEFORE: &str = "10.83.1.2";
const AFTER: &str = "10.83.1.3";
const LINK: &str = "wire";

/// What is tried.
#[derive(Clone, Copy)]
struct Trial {
    transport: Transport,
    /// The proxy's associations take other addresses of their peers.
    proxy_follows: bool,
    /// Who ends the call. The proxy's Record-Route names the connection by which it was begun; one whose other end has gone
    /// without a word is believed to be there for long, and what the callee asks for would be late.
    callee_hangs_up: bool,
}

impl Trial {
    fn over(transport: Transport) -> Trial {
        Trial {
            transport,
            proxy_follows: true,
            callee_hangs_up: true,
        }
    }
}

/// What the host of the proxy tells.
enum Told {
    /// The proxy is on; the URI by which it is reached, and the UDP port under its SCTP.
    On(String, u16),
    /// The callee has received so many packets.
    Received(u64),
    /// All is over; connections that the proxy had accepted when the call was up, and at the end.
    Over(u64, u64),
}

/// A host with a proxy and a callee, who hangs up when it is told to, or before; the proxy is off when nothing more can be told.
async fn other_host(
    Trial {
        transport,
        proxy_follows,
        ..
    }: Trial,
    tell: impl Fn(Told),
    mut orders: tokio::sync::mpsc::Receiver<()>,
) {
    let (server, uris) = proxy(&[], |config| {
        let listener = format!("{transport}:{PROXY}:5060");
        config.transports.listeners = vec![listener.parse().expect("a listener")];
        let extensions = &mut config.transports.sctp.association.extensions;
        extensions.address_reconfiguration = proxy_follows;
        config.workers = 1;
    })
    .await;
    let under = server.encapsulation_addresses();
    let under = under.first().map_or(9_899, |address| address.port());
    let mut bob = Running::start("bob", transport, |config| {
        config.accounts = vec![account("bob", &uris)];
        config.net.listeners = vec![listener(transport, PROXY)];
        config.net.peer_encapsulation_port = under;
        config.quality_interval = Duration::from_millis(200);
        config.answers = true;
        config.media.ice = true;
    });
    bob.command(Command::Register { account: 0 }).await;
    registered(&mut bob).await;
    tell(Told::On(uris[0].clone(), under));
    bob.answered().await;
    let accepted = async || server.statistics().await.wire.connections_accepted;
    let before = accepted().await;
    let packets_or_end = |event: &PhoneEvent| match event {
        PhoneEvent::Ended { .. } => Some(None),
        other => received(other).map(Some),
    };
    loop {
        tokio::select! {
            packets = bob.wait_for(packets_or_end) => match packets {
                Some(received) => tell(Told::Received(received)),
                None => break,
            },
            _ = orders.recv() => {
                bob.command(Command::Hangup { call: None }).await;
            }
        }
    }
    while orders.recv().await.is_some() {}
    let after = accepted().await;
    server.shutdown().await;
    tell(Told::Over(before, after));
}

fn listener(transport: Transport, address: &str) -> sip_net::Listen {
    let text = format!("{transport}:{address}:0");
    text.parse().expect("a listener")
}

async fn registered(phone: &mut Running) {
    phone
        .wait_for(|event| matches!(event, PhoneEvent::Registered { .. }).then_some(()))
        .await;
}

fn received(event: &PhoneEvent) -> Option<u64> {
    match event {
        PhoneEvent::Quality { quality, .. } => Some(quality.packets_received),
        _ => None,
    }
}

/// Waits until the other side has received so many packets more.
fn wait_for_packets(told: &Receiver<Told>, more: u64) {
    let mut first = None;
    while let Ok(Told::Received(count)) = told.recv_timeout(Duration::from_secs(20)) {
        if count >= *first.get_or_insert(count) + more {
            return;
        }
    }
    panic!("the other side hears nothing");
}

/// A host with the address of the proxy, and one with the phone's.
fn hosts() -> Option<(Arc<Namespace>, Namespace)> {
    let (of_proxy, of_phone) = (Namespace::new()?, Namespace::new()?);
    of_proxy.join(&of_phone, LINK);
    for (host, address) in [(&of_proxy, PROXY), (&of_phone, BEFORE)] {
        host.ip(&format!("address add {address}/24 dev {LINK}"));
        host.ip(&format!("link set {LINK} up"));
    }
    of_proxy.wait_for_links();
    of_phone.wait_for_links();
    Some((Arc::new(of_proxy), of_phone))
}

fn move_to_other_address(host: &Namespace) {
    host.ip(&format!("address del {BEFORE}/24 dev {LINK}"));
    host.ip(&format!("address add {AFTER}/24 dev {LINK}"));
}

/// A call whose caller moves; the connections that the proxy had accepted before and afterwards.
fn call(trial: Trial, change: impl Fn(&mut PhoneConfig)) -> Option<(u64, u64)> {
    let transport = trial.transport;
    let (of_proxy, of_phone) = hosts()?;
    let (tell, told) = channel();
    let (order, orders) = tokio::sync::mpsc::channel(1);
    let host = Arc::clone(&of_proxy);
    let other = std::thread::spawn(move || {
        host.enter();
        block_on(other_host(trial, |one| drop(tell.send(one)), orders));
    });
    let Ok(Told::On(uri, under)) = told.recv() else {
        panic!("the proxy is not on");
    };
    of_phone.enter();
    let mut counts = None;
    block_on(async {
        let mut alice = Running::start("alice", transport, |config| {
            config.accounts = vec![account("alice", &[uri])];
            config.net.listeners = vec![listener(transport, "0.0.0.0")];
            config.net.peer_encapsulation_port = under;
            config.quality_interval = Duration::from_millis(200);
            change(config);
        });
        alice.command(Command::Register { account: 0 }).await;
        registered(&mut alice).await;
        alice.dial("sip:bob@example.org").await;
        alice.answered().await;
        wait_for_packets(&told, 20);
        move_to_other_address(&of_phone);
        let (mut is_registered, mut moved) = (false, None);
        while !is_registered || moved.is_none() {
            let event = alice.wait_for(|event| match event {
                PhoneEvent::Registered { .. } | PhoneEvent::Moved { .. } => Some(event.clone()),
                _ => None,
            });
            match event.await {
                PhoneEvent::Moved { address, .. } => moved = Some(address),
                _ => is_registered = true,
            }
        }
        assert_eq!(moved.as_deref(), Some(AFTER));
        // What was told before the move is passed over.
        while told.try_recv().is_ok() {}
        wait_for_packets(&told, 30);
        let before = alice.wait_for(received).await;
        while alice.wait_for(received).await < before + 30 {}
        alice.command(Command::Bindings { account: 0 }).await;
        let contacts = alice.wait_for(|event| match event {
            PhoneEvent::Bindings { contacts, .. } => Some(contacts.clone()),
            _ => None,
        });
        let contacts = contacts.await;
        assert!(
            contacts.len() == 1 && contacts[0].contains(AFTER),
            "{contacts:?}"
        );
        match trial.callee_hangs_up {
            true => order.send(()).await.expect("the callee is there"),
            false => alice.command(Command::Hangup { call: None }).await,
        }
        let PhoneEvent::Ended { reason, .. } = alice.ended().await else {
            panic!("it ended");
        };
        assert_eq!(reason == "remote", trial.callee_hangs_up);
        drop(order);
        while counts.is_none() {
            match told.recv() {
                Ok(Told::Over(before, after)) => counts = Some((before, after)),
                Ok(_) => {}
                Err(_) => panic!("the other host is gone"),
            }
        }
    });
    other.join().expect("no panic");
    counts
}

#[test]
fn a_call_over_udp_goes_on_at_another_address() {
    call(Trial::over(Transport::Udp), |_| {});
}

#[test]
fn a_call_over_tcp_goes_on_at_another_address_by_another_connection() {
    let trial = Trial {
        callee_hangs_up: false,
        ..Trial::over(Transport::Tcp)
    };
    // The callee's is the other one.
    if let Some((before, after)) = call(trial, |_| {}) {
        assert_eq!(after, before + 1);
    }
}

#[test]
fn a_call_that_nobody_has_responded_to_is_made_once_more_by_another_connection() {
    let Some((of_callee, of_phone)) = hosts() else {
        return;
    };
    let (tell, told) = channel();
    let host = Arc::clone(&of_callee);
    let callee = std::thread::spawn(move || {
        host.enter();
        let listener = TcpListener::bind((PROXY, 5_060)).expect("a port");
        tell.send(String::new()).expect("the test waits");
        let mut open = Vec::new();
        for _ in 0..2 {
            let (stream, _) = listener.accept().expect("a connection");
            let lines = BufReader::new(&stream).lines().map_while(Result::ok);
            let head: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
            tell.send(head.join("\n")).expect("the test waits");
            open.push(stream);
        }
    });
    let next = || told.recv_timeout(Duration::from_secs(20)).expect("in time");
    next();
    of_phone.enter();
    block_on(async {
        let alice = Running::start("alice", Transport::Tcp, |config| {
            config.net.listeners = vec![listener(Transport::Tcp, "0.0.0.0")];
        });
        alice.dial(&format!("sip:bob@{PROXY};transport=tcp")).await;
        for address in [BEFORE, AFTER] {
            let invite = next();
            let mut lines = invite.lines();
            let contact = lines.find(|line| line.starts_with("Contact:"));
            assert!(invite.starts_with("INVITE "), "{invite}");
            assert!(contact.is_some_and(|it| it.contains(address)), "{invite}");
            if address == BEFORE {
                move_to_other_address(&of_phone);
            }
        }
    });
    callee.join().expect("no panic");
}

#[test]
fn a_call_over_sctp_goes_on_at_another_address_by_the_same_association() {
    if let Some((before, after)) = call(Trial::over(Transport::Sctp), quick) {
        assert_eq!(after, before);
    }
}

#[test]
#[ignore = "takes seconds: nightly"]
fn a_call_over_sctp_goes_on_by_another_association_where_the_proxy_does_not_follow() {
    let trial = Trial {
        proxy_follows: false,
        callee_hangs_up: false,
        ..Trial::over(Transport::Sctp)
    };
    if let Some((before, after)) = call(trial, quick) {
        assert_eq!(after, before + 1);
    }
}

/// Losses are found out soon.
fn quick(config: &mut PhoneConfig) {
    config.net.sctp = (config.net.sctp.clone())
        .rto_initial(Duration::from_millis(200))
        .rto_min(Duration::from_millis(100));
}

#[test]
fn a_call_under_keys_of_its_descriptions_goes_on_under_others() {
    protected(SrtpKeys::Sdes, false);
}

#[test]
fn a_call_under_keys_of_a_handshake_goes_on_under_those_of_another_one() {
    protected(SrtpKeys::Dtls, false);
}

#[test]
fn a_call_whose_path_was_checked_goes_on_along_another_one() {
    protected(SrtpKeys::Dtls, true);
}

/// A protected call whose caller moves.
fn protected(srtp_keys: SrtpKeys, ice: bool) {
    call(Trial::over(Transport::Udp), |config| {
        config.media = MediaConfig {
            srtp: Srtp::Required,
            srtp_keys,
            sdes_in_clear: true,
            ice,
            ..MediaConfig::default()
        };
    });
}
