//! SIP over the kernel's SCTP (`over = "kernel"`): our server and our users in the guest, which has one.

use std::net::{Ipv4Addr, SocketAddr};

use crate::common::{LIMIT, USERS, register_and_call};
use load::driver::Connections;
use proxy::{ProxyConfig, Server};
use sip::Transport;
use sip_net::{Listen, SctpOver, SipNetConfig, StreamPolicy};
use test_support::KernelPeer;

#[test]
fn registrations_and_calls_share_an_association() {
    in_guest("registrations_and_calls_share_an_association", async || {
        serve_users(Connections::Shared, StreamPolicy::Unordered).await;
    });
}

#[test]
fn registrations_and_calls_stay_in_order_on_associations_of_their_own() {
    let name = "registrations_and_calls_stay_in_order_on_associations_of_their_own";
    in_guest(name, async || {
        serve_users(Connections::PerUser, StreamPolicy::PerCall).await;
    });
}

/// Runs a test of this program in the guest; nowhere, if there is none.
fn in_guest<F: Future<Output = ()>>(name: &str, test: impl FnOnce() -> F) {
    if !KernelPeer::is_in_guest() {
        if let Some(guest) = KernelPeer::get() {
            guest.run_test(&format!("kernel_sctp::{name}"));
        }
        return;
    }
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let test = test();
    runtime.block_on(async {
        tokio::time::timeout(LIMIT, test).await.expect("in time");
    });
}

async fn serve_users(connections: Connections, stream_policy: StreamPolicy) {
    let transports = SipNetConfig {
        sctp_over: SctpOver::Kernel,
        stream_policy,
        ..SipNetConfig::default()
    };
    let server = Server::start(ProxyConfig {
        transports: SipNetConfig {
            listeners: vec![Listen {
                transport: Transport::Sctp,
                address: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            }],
            ..transports.clone()
        },
        workers: 2,
        ..ProxyConfig::default()
    })
    .await
    .unwrap();
    let proxy = server.listening()[0].address;
    let load = register_and_call(proxy, connections, transports).await;
    let wire = server.statistics().await.wire;
    let associations = match connections {
        Connections::Shared => 2,
        Connections::PerUser => 2 * u64::from(USERS),
    };
    assert_eq!(
        (wire.connections_accepted, wire.connections_opened),
        (associations, 0)
    );
    load.shutdown().await;
    server.shutdown().await;
}
