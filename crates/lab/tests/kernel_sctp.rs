//! SIP over the kernel's SCTP (`over = "kernel"`): our server and our users in the guest, which has one.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use load::{CallPlan, Connections, Load, LoadConfig, Stop};
use proxy::{ProxyConfig, Server};
use sip::Transport;
use sip_net::{Listen, SctpOver, SipNetConfig, StreamPolicy};
use test_support::KernelPeer;

/// The guest, by software emulation on a busy machine, takes its time.
const LIMIT: Duration = Duration::from_secs(150);

const USERS: u32 = 8;
const CALLS: u64 = 24;

#[test]
fn registrations_and_calls_share_an_association() {
    in_guest("registrations_and_calls_share_an_association", async || {
        register_and_call(Connections::Shared, StreamPolicy::Unordered).await;
    });
}

#[test]
fn registrations_and_calls_stay_in_order_on_associations_of_their_own() {
    let name = "registrations_and_calls_stay_in_order_on_associations_of_their_own";
    in_guest(name, async || {
        register_and_call(Connections::PerUser, StreamPolicy::PerCall).await;
    });
}

/// Runs a test of this program in the guest; nowhere, if there is none.
fn in_guest<F: Future<Output = ()>>(name: &str, test: impl FnOnce() -> F) {
    if !KernelPeer::is_in_guest() {
        if let Some(guest) = KernelPeer::get() {
            guest.run_test(name);
        }
        return;
    }
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let test = test();
    runtime.block_on(async {
        tokio::time::timeout(LIMIT, test).await.expect("in time");
    });
}

async fn register_and_call(connections: Connections, stream_policy: StreamPolicy) {
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
    let mut load = Load::start(LoadConfig {
        transport: Transport::Sctp,
        proxy: server.listening()[0].address,
        users: USERS,
        connections,
        calls: CallPlan {
            stop: Stop::Calls(CALLS),
            ..CallPlan::default()
        },
        transports,
        connect_within: Duration::from_secs(30),
        seed: 1,
    })
    .await
    .unwrap();
    load.register(Duration::from_secs(60)).await.unwrap();
    assert_eq!(load.registered_users(), 2 * USERS);
    load.call().await.unwrap();
    let calls = load.calls();
    assert_eq!(
        (calls.completed, calls.failed, calls.unfinished()),
        (CALLS, 0, 0)
    );
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
