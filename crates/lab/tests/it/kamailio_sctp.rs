//! Kamailio on the Linux kernel's SCTP, in a virtual machine (`tests/kernel-peer`), and our user-space SCTP right on
//! IP: as its users, as the registrar behind it, and as the proxy in front of it.

use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::common::{CALLS, LIMIT, register_and_call, register_and_call_over};
use load::driver::Connections;
use proxy::core::{Policy, RegistrarConfig, Relay, Route, RouteTarget};
use proxy::{HostPort, ProxyConfig, Server};
use sip::{Method, Transport};
use sip_net::{Listen, SctpOver, SipNetConfig, StreamPolicy};
use test_support::{KernelPeer, Peer};

const OURS: [&str; 2] = ["10.91.1.1", "10.91.2.1"];
const KAMAILIO: &str = "10.91.1.2";
/// It is proxy and registrar there, at one address.
const ALONE: u16 = 5060;
/// It stands in front of our server there, at two addresses.
const IN_FRONT: u16 = 5070;

/// Runs a test where Kamailio can be reached; nowhere, if there is no guest or no Kamailio.
fn with_kamailio<F: Future<Output = ()>>(test: impl FnOnce() -> F) {
    let Some(kernel) = KernelPeer::get() else {
        return;
    };
    static ONE_AT_A_TIME: Mutex<bool> = Mutex::new(false);
    let mut is_there = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    if !*is_there {
        if !kernel.add(&["kamailio", "kamailio-sctp-modules"]) {
            return;
        }
        let config =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/kernel-peer/kamailio.cfg");
        kernel.put_as(&config, "/etc/kamailio.cfg");
        *is_there = true;
    }
    kernel.enter();
    // One of an earlier test that failed may still be there.
    kernel.run("killall -q -9 kamailio; timeout 60 sh -c \"while grep -qE ' (5060|5070) ' /proc/net/sctp/eps; do sleep 0.2; done\"");
    let command = "rm -rf /tmp/kamailio; mkdir -p /tmp/kamailio; exec kamailio -DD -E -f /etc/kamailio.cfg \
                   -m 32 -M 4 -Y /tmp/kamailio -w /tmp/kamailio";
    let mut kamailio = Peer::spawn(&mut kernel.command(command));
    kernel.run(
        "timeout 60 sh -c \"until [ \\$(grep -cE ' (5060|5070) ' /proc/net/sctp/eps) -ge 2 ]; do sleep 0.2; done\"",
    );
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let test = test();
    runtime.block_on(async {
        tokio::time::timeout(LIMIT, test).await.expect("in time");
    });
    kernel.run("killall -q kamailio || true");
    kamailio.wait(Duration::from_secs(30));
}

/// SCTP right on IP, at both addresses or the first.
fn over_ip(addresses: &[&str], stream_policy: StreamPolicy) -> SipNetConfig {
    SipNetConfig {
        sctp_over: SctpOver::Ip,
        sctp_addresses: vec![addresses.iter().map(|ip| ip.parse().unwrap()).collect()],
        stream_policy,
        ..SipNetConfig::default()
    }
}

/// Registers users with Kamailio and has them call each other through it.
async fn call_through_kamailio(port: u16, connections: Connections, transports: SipNetConfig) {
    let proxy = SocketAddr::new(KAMAILIO.parse().unwrap(), port);
    let mut load = register_and_call(proxy, connections, transports).await;
    let wire = load.wire_statistics().await.unwrap();
    assert!(
        wire.packets_sent > CALLS && wire.packets_received > CALLS,
        "{wire:?}"
    );
    load.shutdown().await;
}

#[test]
fn users_register_with_kamailio_and_call_through_it() {
    with_kamailio(async || {
        let transports = over_ip(&OURS[..1], StreamPolicy::Unordered);
        call_through_kamailio(ALONE, Connections::Shared, transports).await;
    });
}

#[test]
fn users_with_two_addresses_and_associations_of_their_own_do_so_in_order() {
    with_kamailio(async || {
        let transports = over_ip(&OURS, StreamPolicy::PerTransaction);
        call_through_kamailio(ALONE, Connections::PerUser, transports).await;
    });
}

#[test]
fn kamailio_passes_registrations_and_calls_on_to_our_server_and_gets_them_back() {
    with_kamailio(async || {
        let listen = Listen {
            transport: Transport::Sctp,
            address: SocketAddr::new(OURS[0].parse().unwrap(), 5060),
        };
        let domain =
            |ip: &str| HostPort::from(SocketAddr::new(ip.parse::<IpAddr>().unwrap(), IN_FRONT));
        let server = Server::start(ProxyConfig {
            transports: SipNetConfig {
                listeners: vec![listen],
                ..over_ip(&OURS, StreamPolicy::Unordered)
            },
            domains: vec![domain(KAMAILIO)],
            registrar: RegistrarConfig {
                // Kamailio adds its Path whether or not a user agent says that it knows of it.
                path_without_support: true,
                ..RegistrarConfig::default()
            },
            workers: 1,
            ..ProxyConfig::default()
        })
        .await
        .unwrap();
        let transports = over_ip(&OURS[..1], StreamPolicy::Unordered);
        call_through_kamailio(IN_FRONT, Connections::Shared, transports).await;

        // Everything went over one association, which Kamailio had begun.
        let wire = server.statistics().await.wire;
        assert_eq!((wire.connections_accepted, wire.connections_opened), (1, 0));
        assert!(
            wire.messages_received > CALLS && wire.messages_sent > CALLS,
            "{wire:?}"
        );
        server.shutdown().await;
    });
}

#[test]
fn our_server_passes_registrations_and_calls_on_to_kamailio() {
    with_kamailio(async || {
        let at = |address: &str, port| SocketAddr::new(address.parse().unwrap(), port);
        let kamailio = at(KAMAILIO, ALONE);
        let listen = |transport| Listen {
            transport,
            address: at(OURS[0], 5060),
        };
        let next_hop = format!("sip:{kamailio};transport=sctp");
        let route = || Route::to(RouteTarget::Uri(next_hop.clone()));
        let mut policy = Policy::default();
        policy.forwarding.relay = Relay::Anybody;
        policy.routing.routes = vec![
            Route {
                method: Some(Method::Register),
                ..route()
            },
            route(),
        ];
        let server = Server::start(ProxyConfig {
            transports: SipNetConfig {
                listeners: vec![listen(Transport::Sctp), listen(Transport::Udp)],
                ..over_ip(&OURS, StreamPolicy::Unordered)
            },
            policy: Arc::new(policy),
            workers: 1,
            ..ProxyConfig::default()
        })
        .await
        .unwrap();
        let load = register_and_call_over(
            Transport::Udp,
            at(OURS[0], 5060),
            kamailio,
            Connections::Shared,
            SipNetConfig::default(),
        )
        .await;

        // What the callers say goes over one association, which our server has opened. Kamailio speaks to the callees
        // by itself.
        let statistics = server.statistics().await;
        let wire = statistics.wire;
        assert_eq!((wire.connections_accepted, wire.connections_opened), (0, 1));
        assert_eq!(statistics.proxy.calls_answered, CALLS);
        load.shutdown().await;
        server.shutdown().await;
    });
}
