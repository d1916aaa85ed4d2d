//! Two phones on SCTP, with our proxy between them: the documents' call (Pang 2003, section 5.3), and one whose primary path
//! is cut.

use std::fs::File;
use std::io::BufReader;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use capture::{Journal, JournalBounds, Reader};
use phone::{Command, PhoneConfig, PhoneEvent};
use sip::Transport;
use sip_net::SipNetConfig;
use tap::MessageTap;
use test_support::Namespace;

use crate::calls::block_on;
use crate::outbound::{account, proxy};
use crate::phones::Running;

/// The labels of the arrows of the first dialog in a file that begins with a method.
fn ladder(path: &Path, method: &str) -> Vec<String> {
    let file = BufReader::new(File::open(path).expect("it was written"));
    let mut reader = Reader::open(file, 0).expect("a capture");
    let mut journal = Journal::new(JournalBounds::default(), 1);
    while reader
        .step(&mut |event| journal.observe(&event))
        .expect("it can be read")
    {}
    let mut dialogs = journal.dialogs();
    let call = dialogs.find(|dialog| &*dialog.method == method);
    let messages = &call.expect("there was a call").messages;
    messages
        .iter()
        .map(|message| message.label.to_string())
        .collect()
}

#[test]
fn a_call_over_sctp_through_the_proxy_has_the_ladder_of_the_documents() {
    block_on(async {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("call.pcapng");
        let tap = MessageTap::create(&path, "proxy").expect("a file");
        let (server, uris) = proxy(&[Transport::Sctp], |config| {
            config.transports.sip_tap = Some(tap.clone());
        })
        .await;
        let under = server.encapsulation_addresses()[0].port();
        let phone = |user: &str| {
            Running::start(user, Transport::Sctp, |config| {
                config.accounts = vec![account(user, &uris)];
                config.net.peer_encapsulation_port = under;
            })
        };
        let (mut alice, mut bob) = (phone("alice"), phone("bob"));
        for phone in [&mut alice, &mut bob] {
            phone.command(Command::Register { account: 0 }).await;
            phone
                .wait_for(|event| matches!(event, PhoneEvent::Registered { .. }).then_some(()))
                .await;
        }
        alice.dial("sip:bob@example.org").await;
        bob.wait_for(|event| matches!(event, PhoneEvent::Incoming { .. }).then_some(()))
            .await;
        alice
            .wait_for(|event| {
                matches!(event, PhoneEvent::Progress { status: 180, .. }).then_some(())
            })
            .await;
        bob.command(Command::Answer { call: None }).await;
        bob.answered().await;
        alice.answered().await;
        tokio::time::sleep(Duration::from_millis(300)).await;
        alice.command(Command::Hangup { call: None }).await;
        bob.ended().await;
        alice.ended().await;
        tokio::time::sleep(Duration::from_millis(300)).await;
        server.shutdown().await;
        tap.flush().expect("it is written");
        // Figure 5.5: a registration.
        assert_eq!(ladder(&path, "REGISTER"), ["REGISTER", "200 OK"]);
        let call = ladder(&path, "INVITE");
        // Figure 5.6: the session is set up through the proxy.
        let set_up = [
            "INVITE (SDP)",
            "100 Trying",
            "INVITE (SDP)",
            "180 Ringing",
            "180 Ringing",
            "200 OK (SDP)",
            "200 OK (SDP)",
            "ACK",
            "ACK",
        ];
        // Figure 5.7: it is ended.
        let end = ["BYE", "BYE", "200 OK", "200 OK"];
        assert_eq!(call, [set_up.as_slice(), &end].concat());
    });
}

const PROXY: [&str; 2] = ["10.82.1.1", "10.82.2.1"];
const PHONES: [&str; 2] = ["10.82.1.2", "10.82.2.2"];

/// The settings of a host with both links, quick to find out that a path is dead.
fn both(net: &mut SipNetConfig, addresses: [&str; 2], port: u16) {
    let ip = |text: &str| text.parse::<IpAddr>().expect("an address");
    net.sctp_addresses = vec![addresses.map(ip).to_vec()];
    net.listeners = vec![
        format!("sctp:{}:{port}", addresses[0])
            .parse()
            .expect("a listener"),
    ];
    net.sctp = (net.sctp.clone())
        .rto_initial(Duration::from_millis(200))
        .rto_min(Duration::from_millis(100))
        .rto_max(Duration::from_millis(400))
        .path_max_retrans(2);
}

#[test]
fn a_call_goes_on_when_its_primary_path_is_cut() {
    let (Some(of_proxy), Some(of_phones)) = (Namespace::new(), Namespace::new()) else {
        return;
    };
    for (link, number) in [("one", 0), ("two", 1)] {
        of_proxy.join(&of_phones, link);
        of_proxy.ip(&format!("address add {}/24 dev {link}", PROXY[number]));
        of_phones.ip(&format!("address add {}/24 dev {link}", PHONES[number]));
        of_proxy.ip(&format!("link set {link} up"));
        of_phones.ip(&format!("link set {link} up"));
    }
    of_phones.ip("link set lo up");
    of_proxy.wait_for_links();
    of_phones.wait_for_links();
    let hosts = Arc::new((of_proxy, of_phones));
    let (ready, is_ready) = std::sync::mpsc::channel();
    let (stop, is_over) = tokio::sync::oneshot::channel::<()>();
    let at_proxy = Arc::clone(&hosts);
    let server = std::thread::spawn(move || {
        at_proxy.0.enter();
        block_on(async {
            let (server, _) = proxy(&[], |config| {
                both(&mut config.transports, PROXY, 5060);
                config.transports.encapsulation_port = 9899;
                config.workers = 1;
            })
            .await;
            ready.send(()).expect("somebody waits");
            let _ = is_over.await;
            server.shutdown().await;
        });
    });
    is_ready.recv().expect("it starts");
    hosts.1.enter();
    block_on(async {
        let uris = [format!("sip:{}:5060;transport=sctp;lr", PROXY[0])];
        let phone = |user: &str, port: u16, under: u16, change: &dyn Fn(&mut PhoneConfig)| {
            Running::start(user, Transport::Sctp, |config| {
                config.accounts = vec![account(user, &uris)];
                both(&mut config.net, PHONES, port);
                config.net.encapsulation_port = under;
                config.net.peer_encapsulation_port = 9899;
                change(config);
            })
        };
        let mut alice = phone("alice", 5061, 9901, &|_| {});
        let mut bob = phone("bob", 5062, 9902, &|config| config.answers = true);
        for phone in [&mut alice, &mut bob] {
            phone.command(Command::Register { account: 0 }).await;
            phone
                .wait_for(|event| matches!(event, PhoneEvent::Registered { .. }).then_some(()))
                .await;
        }
        alice.dial("sip:bob@example.org").await;
        alice.answered().await;
        bob.answered().await;
        // The second address of the proxy is to be proved first.
        tokio::time::sleep(Duration::from_secs(2)).await;
        hosts.0.ip("link set one down");
        for phone in [&mut alice, &mut bob] {
            let address = phone.wait_for(|event| match event {
                PhoneEvent::Path {
                    address,
                    works: false,
                    ..
                } => Some(address.clone()),
                _ => None,
            });
            assert_eq!(address.await, PROXY[0]);
        }
        // Signalling goes on along the other path: the dialog is still there.
        alice.command(Command::Hold { call: None }).await;
        bob.wait_for(|event| matches!(event, PhoneEvent::Held { held: true, .. }).then_some(()))
            .await;
        alice.command(Command::Hangup { call: None }).await;
        let PhoneEvent::Ended { reason, .. } = bob.ended().await else {
            panic!("it ended");
        };
        assert_eq!(reason, "remote");
        // The path that failed goes with its association.
        drop(stop);
        let removed = alice.wait_for(|event| match event {
            PhoneEvent::PathRemoved { address, .. } => Some(address.clone()),
            _ => None,
        });
        assert_eq!(removed.await, PROXY[0]);
    });
    server.join().expect("no panic");
}
