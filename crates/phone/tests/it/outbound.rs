//! Phones that register with our proxy along several flows (RFC 5626), and are called by their GRUUs (RFC 5627).

use std::net::Ipv4Addr;

use phone::{Command, PhoneEvent};
use proxy::{ProxyConfig, Server};
use sip::Transport;
use sip_net::{Listen, SipNetConfig};
use ua::AccountConfig;

use crate::calls::block_on;
use crate::phones::Running;

const DOMAIN: &str = "example.org";

/// Our proxy on loopback, reached by each of these transports; the URIs by which it is.
pub(crate) async fn proxy(
    transports: &[Transport],
    change: impl FnOnce(&mut ProxyConfig),
) -> (Server, Vec<String>) {
    let listeners = transports.iter().map(|transport| Listen {
        transport: *transport,
        address: (Ipv4Addr::LOCALHOST, 0).into(),
    });
    let mut config = ProxyConfig {
        transports: SipNetConfig {
            listeners: listeners.collect(),
            encapsulation_port: 0,
            ..SipNetConfig::default()
        },
        domains: vec![DOMAIN.parse().expect("a host")],
        ..ProxyConfig::default()
    };
    change(&mut config);
    let server = Server::start(config).await.expect("the proxy starts");
    let uris = server.listening().into_iter().map(|listen| {
        let transport = listen.transport.uri_parameter();
        format!("sip:{};transport={transport};lr", listen.address)
    });
    let uris = uris.collect();
    (server, uris)
}

/// The account of a user of our proxy.
pub(crate) fn account(user: &str, proxies: &[String]) -> AccountConfig {
    let mut account = AccountConfig::new(format!("sip:{user}@{DOMAIN}"));
    account.outbound_proxies = proxies.to_vec();
    account
}

/// Waits until the account is registered along so many flows.
async fn registered(phone: &mut Running, wanted: usize) {
    phone
        .wait_for(|event| match event {
            PhoneEvent::Registered { flows, .. } => (*flows == wanted).then_some(()),
            _ => None,
        })
        .await;
}

#[test]
fn a_phone_registers_along_two_flows_and_is_called_when_one_is_gone() {
    block_on(async {
        let (server, uris) = proxy(&[Transport::Tcp, Transport::Udp], |_| {}).await;
        let mut alice = Running::start("alice", Transport::Udp, |config| {
            config.accounts = vec![account("alice", &uris)];
            config.ua.instance = Some(phone::new_instance());
            config.answers = true;
        });
        let mut bob = Running::start("bob", Transport::Udp, |config| {
            config.accounts = vec![account("bob", &uris[1..])];
            config.ua.instance = Some(phone::new_instance());
        });
        for phone in [&alice, &bob] {
            phone.command(Command::Register { account: 0 }).await;
        }
        registered(&mut alice, 2).await;
        registered(&mut bob, 1).await;
        alice.command(Command::Bindings { account: 0 }).await;
        let contacts = alice
            .wait_for(|event| match event {
                PhoneEvent::Bindings { contacts, .. } => Some(contacts.clone()),
                _ => None,
            })
            .await;
        assert_eq!(contacts.len(), 2, "{contacts:?}");
        bob.dial("sip:alice@example.org").await;
        bob.answered().await;
        alice.answered().await;
        // A BYE to the GRUU in her Contact finds her through the proxy.
        bob.command(Command::Hangup { call: None }).await;
        alice.ended().await;
        // Without the proxy both flows fail: that over TCP at once.
        server.shutdown().await;
        let flow = alice.wait_for(|event| match event {
            PhoneEvent::FlowFailed { flow, .. } => Some(*flow),
            _ => None,
        });
        assert_eq!(flow.await, 0);
    });
}

#[test]
fn keep_alives_are_answered_by_the_proxy_and_the_flows_stay() {
    block_on(async {
        let transports = [Transport::Tcp, Transport::Udp, Transport::Ws];
        let (server, uris) = proxy(&transports, |config| {
            config.registrar.flow_timer = Some(std::time::Duration::from_secs(5));
        })
        .await;
        let mut alice = Running::start("alice", Transport::Udp, |config| {
            config.accounts = vec![account("alice", &uris)];
            config.ua.instance = Some(phone::new_instance());
        });
        alice.command(Command::Register { account: 0 }).await;
        registered(&mut alice, 3).await;
        // A ping leaves each flow after 4 to 5 s.
        tokio::time::sleep(std::time::Duration::from_millis(5_500)).await;
        let seen = server.statistics().await.wire;
        assert!(seen.keep_alives >= 3, "{seen:?}");
        alice
            .command(Command::Unregister {
                account: 0,
                all: false,
            })
            .await;
        let failed = alice.wait_for(|event| match event {
            PhoneEvent::FlowFailed { .. } => Some(true),
            PhoneEvent::Unregistered { .. } => Some(false),
            _ => None,
        });
        assert!(!failed.await, "all flows stayed");
    });
}
