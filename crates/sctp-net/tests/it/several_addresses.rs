//! SCTP in UDP over several local addresses.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use crate::common::network::{Host, join, shown};
use crate::common::{carrier, on_stream, pair_over, pattern, quick, within};
use sctp_net::{
    Association, ConnectTo, Notification, PathChange, PathState, Stack, Tap, UdpCarrierConfig,
};

fn on(addresses: &[&str]) -> UdpCarrierConfig {
    let addresses = addresses
        .iter()
        .map(|address| SocketAddr::new(address.parse().unwrap(), 9899))
        .collect();
    UdpCarrierConfig {
        addresses,
        ..UdpCarrierConfig::new(SocketAddr::from(([127, 0, 0, 1], 0)))
    }
}

async fn send(association: &Association, numbers: std::ops::Range<usize>) {
    for number in numbers {
        let payload = pattern(number, 4000);
        association.send(on_stream(0), payload).await.unwrap();
    }
}

#[test]
fn the_transfer_goes_on_over_the_other_path_and_comes_back() {
    let (Some(left), Some(right)) = (Host::new(), Host::new()) else {
        return;
    };
    left.link(&right, "wire0", &["10.1.0.1/24"], &["10.1.0.2/24"]);
    left.link(&right, "wire1", &["fd00:2::1/64"], &["fd00:2::2/64"]);
    let (ready, is_ready) = std::sync::mpsc::channel();
    let server = right.run(move || async move {
        let stack = Stack::udp(on(&["10.1.0.2", "fd00:2::2"])).unwrap();
        let endpoint = stack.endpoint(5060, quick()).unwrap();
        ready.send(()).unwrap();
        let association = within(endpoint.accept()).await.unwrap();
        for number in 0..150 {
            let message = within(association.receive()).await.unwrap();
            assert_eq!(message.payload, pattern(number, 4000), "message {number}");
        }
        within(association.closed()).await;
        stack.close().await;
    });
    is_ready.recv().unwrap();
    let cutter = left.clone();
    let client = left.run(move || async move {
        let stack = Stack::udp(on(&["10.1.0.1", "fd00:2::1"])).unwrap();
        let endpoint = stack.endpoint(0, quick()).unwrap();
        let cut: IpAddr = "10.1.0.2".parse().unwrap();
        let to = ConnectTo {
            addresses: vec![cut],
            port: 5060,
            ..ConnectTo::default()
        };
        let association = within(endpoint.connect_to(to)).await.unwrap();
        let notifications = association.notifications();
        let both_active = || async {
            let status = association.status().await.unwrap();
            let paths = status.paths.iter();
            let active = paths.filter(|path| path.state == PathState::Active).count();
            (active == 2).then_some(status)
        };
        let status = within(async {
            loop {
                if let Some(status) = both_active().await {
                    return status;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        })
        .await;
        assert_eq!(status.primary, cut);
        send(&association, 0..50).await;
        cutter.namespace.ip("link set wire0 down");
        send(&association, 50..100).await;
        within(async {
            loop {
                if let Some(Notification::PathChanged { path, change, .. }) =
                    notifications.next().await
                    && (path.remote, change) == (cut, PathChange::Unreachable)
                {
                    return;
                }
            }
        })
        .await;
        cutter.namespace.ip("link set wire0 up");
        within(async {
            while both_active().await.is_none() {
                association.request_heartbeat(cut).await.unwrap();
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        })
        .await;
        association.set_primary(cut).await.unwrap();
        send(&association, 100..150).await;
        within(association.shutdown()).await;
        stack.close().await;
    });
    join(client);
    join(server);
}

#[tokio::test]
async fn all_addresses_have_one_port() {
    let carrier = UdpCarrierConfig {
        addresses: ["127.0.0.1:0", "127.0.0.2:0", "[::1]:0", "127.0.0.2:0"]
            .map(|address| address.parse().unwrap())
            .into(),
        ..UdpCarrierConfig::new(SocketAddr::from(([127, 0, 0, 1], 0)))
    };
    let stack = Stack::udp(carrier).unwrap();
    let port = stack.local_addr().port();
    assert_ne!(port, 0);
    let addresses: Vec<String> = stack
        .local_addresses()
        .iter()
        .map(IpAddr::to_string)
        .collect();
    assert_eq!(addresses, ["127.0.0.1", "127.0.0.2", "::1"]);
    for address in stack.local_addresses() {
        let taken = std::net::UdpSocket::bind(SocketAddr::new(*address, port)).unwrap_err();
        assert_eq!(taken.kind(), std::io::ErrorKind::AddrInUse, "{address}");
    }
    let differing = UdpCarrierConfig {
        addresses: vec![
            SocketAddr::from(([127, 0, 0, 1], 1)),
            SocketAddr::from(([127, 0, 0, 1], 2)),
        ],
        ..UdpCarrierConfig::new(SocketAddr::from(([127, 0, 0, 1], 0)))
    };
    let error = Stack::udp(differing).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
}

#[tokio::test]
async fn captures_show_what_went_over_the_wire() {
    const MESSAGES: usize = 40;
    let directory = tempfile::tempdir().unwrap();
    let capture = directory.path().join("udp.pcapng");
    let tapped = UdpCarrierConfig {
        tap: Some(Tap::create(&capture, "udp").unwrap()),
        ..UdpCarrierConfig::new(SocketAddr::from(([0, 0, 0, 0], 0)))
    };
    let pair = pair_over(tapped, carrier("127.0.0.1"), quick()).await;
    for number in 0..MESSAGES {
        let payload = pattern(number, 3000);
        pair.client
            .send(on_stream(0), payload.clone())
            .await
            .unwrap();
        assert_eq!(
            within(pair.server.receive()).await.unwrap().payload,
            payload
        );
    }
    within(pair.client.shutdown()).await;
    within(pair.client_stack.close()).await;
    let ports = [&pair.client_stack, &pair.server_stack].map(|stack| stack.local_addr().port());
    drop(pair);
    let filters = [
        "sctp && ip.src == 127.0.0.1 && ip.dst == 127.0.0.1",
        "!sctp || _ws.malformed || sctp.checksum.status != 1 || udp.checksum.status == 0",
    ];
    let [Some(sound), Some(unsound)] = filters.map(|filter| shown(&capture, filter, &ports)) else {
        return;
    };
    assert!(sound > 2 * MESSAGES, "{sound}");
    assert_eq!(unsound, 0);
}

/// Both hosts have 172.17.0.1, as hosts with Docker do, and the peer lists it. A HEARTBEAT to it would come
/// back to us.
#[test]
fn an_address_that_both_hosts_have_is_not_the_peers() {
    let (Some(left), Some(right)) = (Host::new(), Host::new()) else {
        return;
    };
    left.link(&right, "wire0", &["10.1.0.1/24"], &["10.1.0.2/24"]);
    for host in [&left, &right] {
        host.namespace.ip("link set lo up");
        host.namespace.ip("address add 172.17.0.1/32 dev lo");
    }
    let (ready, is_ready) = std::sync::mpsc::channel();
    let server = right.run(move || async move {
        let stack = Stack::udp(on(&["10.1.0.2", "172.17.0.1"])).unwrap();
        let endpoint = stack.endpoint(5060, quick()).unwrap();
        ready.send(()).unwrap();
        let association = within(endpoint.accept()).await.unwrap();
        within(association.closed()).await;
        stack.close().await;
    });
    is_ready.recv().unwrap();
    let client = left.run(move || async move {
        // A wildcard address lists nothing.
        let stack = Stack::udp(on(&["0.0.0.0"])).unwrap();
        let endpoint = stack.endpoint(0, quick()).unwrap();
        let peer: IpAddr = "10.1.0.2".parse().unwrap();
        let association = within(endpoint.connect(peer, 5060, None)).await.unwrap();
        let status = association.status().await.unwrap();
        let remotes: Vec<IpAddr> = status
            .paths
            .iter()
            .map(|path| path.address.remote)
            .collect();
        assert_eq!(remotes, [peer]);
        stack.close().await;
    });
    join(client);
    join(server);
}
