//! Several workers on one port.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::common::{
    self, carrier, connect, echo, on_stream, patient, pattern, quick, stack, within,
};
use sctp_net::{
    Association, CloseCause, ConnectError, Endpoint, EndpointEvent, Stack, UdpCarrierConfig,
};
use test_support::free_udp_port;

fn workers(count: usize) -> UdpCarrierConfig {
    UdpCarrierConfig {
        workers: count,
        // On loopback a train of datagrams stays together, and comes to the owner of the first.
        segmentation_offload: false,
        ..carrier("127.0.0.1")
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn all_workers_carry_associations_and_packets_are_steered_to_them() {
    const ASSOCIATIONS: usize = 48;
    let server_stack = Stack::udp(workers(3)).unwrap();
    let server = server_stack.endpoint(5060, patient()).unwrap();
    let client_stack = Stack::udp(workers(2)).unwrap();
    let mut clients = Vec::new();
    let (mut servers, mut owners) = (BTreeSet::new(), [0; 3]);
    for _ in 0..ASSOCIATIONS {
        let endpoint = client_stack.endpoint(0, patient()).unwrap();
        clients.push(connect(&endpoint, &server_stack, 5060).await);
        let association = within(server.accept()).await.unwrap();
        let id = association.id();
        assert!(servers.insert(id), "{id} is given twice");
        owners[id.worker()] += 1;
        tokio::spawn(echo(association));
    }
    assert!(owners.iter().all(|&count| count > 0), "{owners:?}");
    let exchanging = clients.iter().cloned().map(|client| {
        tokio::spawn(async move {
            for number in 0..20 {
                let payload = pattern(number, 2000);
                client.send(on_stream(0), payload.clone()).await.unwrap();
                assert_eq!(client.receive().await.unwrap().payload, payload);
            }
            assert!(client.status().await.is_some());
            assert_eq!(client.shutdown().await, CloseCause::Shutdown);
        })
    });
    for exchange in exchanging.collect::<Vec<_>>() {
        within(exchange).await.unwrap();
    }
    let (server_side, client_side) = (
        server_stack.statistics().await,
        client_stack.statistics().await,
    );
    for statistics in [server_side, client_side] {
        assert!(statistics.carrier.packets_received > 20 * ASSOCIATIONS as u64);
        // What the tag names goes straight to its owner.
        assert_eq!(statistics.handed_over, 0, "{statistics:?}");
        assert_eq!(statistics.out_of_the_blue, 0, "{statistics:?}");
    }
    within(server_stack.close()).await;
    assert!(within(server.accept()).await.is_none());
}

#[tokio::test]
async fn each_workers_share_of_the_room_holds_a_message() {
    const MESSAGE: usize = 200_000;
    let config = |max_received_bytes| {
        quick()
            .max_message_size(MESSAGE)
            .max_received_bytes(max_received_bytes)
            .guaranteed_receive_bytes(0)
    };
    let server_stack = Stack::udp(workers(3)).unwrap();
    let error = server_stack
        .endpoint(5060, config(MESSAGE - 1))
        .unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
    assert!(error.to_string().contains("raise"), "{error}");
    let server = server_stack.endpoint(5060, config(MESSAGE)).unwrap();
    let endpoint = stack().endpoint(0, quick()).unwrap();
    let client = connect(&endpoint, &server_stack, 5060).await;
    let payload = pattern(1, MESSAGE);
    client.send(on_stream(0), payload.clone()).await.unwrap();
    let accepted = within(server.accept()).await.unwrap();
    assert_eq!(within(accepted.receive()).await.unwrap().payload, payload);
}

#[tokio::test]
async fn a_peer_that_starts_anew_finds_the_worker_that_knows_it() {
    const LIVES: usize = 12;
    let server_stack = Stack::udp(workers(4)).unwrap();
    let server = server_stack.one_to_many(5060, quick()).unwrap();
    // A peer that vanishes without a word, and comes back on the same ports. Nobody else gets them meanwhile.
    let mut carrier = common::carrier("127.0.0.1");
    carrier.addresses = vec![([127, 0, 0, 1], free_udp_port()).into()];
    let mut first_id = None;
    for life in 0..LIVES {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let (own, to) = (carrier.clone(), server_stack.clone());
        let living = runtime.spawn(async move {
            let stack = within(come_back(own)).await;
            let endpoint = stack.endpoint(4000, quick()).unwrap();
            let association = connect(&endpoint, &to, 5060).await;
            (association, endpoint)
        });
        let handles = within(living).await.unwrap();
        match within(server.next()).await.unwrap() {
            EndpointEvent::Accepted(association) if life == 0 => {
                first_id = Some(association.id());
            }
            EndpointEvent::Restarted(association) => {
                assert_eq!(Some(association.id()), first_id, "in life {life}");
            }
            event => panic!("in life {life}: {event:?}"),
        }
        let death = tokio::task::spawn_blocking(move || runtime.shutdown_timeout(common::LIMIT));
        death.await.unwrap();
        drop(handles);
    }
    let statistics = server_stack.statistics().await;
    assert!(statistics.handed_over > 0, "{statistics:?}");
    assert_eq!(statistics.duplicate_associations, 0);
}

/// A stack on a port that was another one's until now. A program that another test is about to execute may still have
/// that one's socket.
async fn come_back(carrier: UdpCarrierConfig) -> Stack {
    loop {
        match Stack::udp(carrier.clone()) {
            Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            result => return result.unwrap(),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_that_open_at_once_have_one_association() {
    for _ in 0..10 {
        let (left_stack, right_stack) = (
            Stack::udp(workers(3)).unwrap(),
            Stack::udp(workers(3)).unwrap(),
        );
        let left = left_stack.endpoint(4000, quick()).unwrap();
        let right = right_stack.endpoint(4000, quick()).unwrap();
        let (from_left, from_right) =
            tokio::join!(open(&left, &right_stack), open(&right, &left_stack));
        for (sender, receiver) in [(&from_left, &from_right), (&from_right, &from_left)] {
            sender.send(on_stream(0), "well met".into()).await.unwrap();
            assert_eq!(
                within(receiver.receive()).await.unwrap().payload,
                "well met"
            );
        }
        assert_eq!(within(from_left.shutdown()).await, CloseCause::Shutdown);
        assert_eq!(within(from_right.closed()).await, CloseCause::Shutdown);
    }
}

/// The association with the endpoint on port 4000 of another stack, whoever was faster to open it.
async fn open(endpoint: &Endpoint, to: &Stack) -> Association {
    let to = to.local_addr();
    match within(endpoint.connect(to.ip(), 4000, Some(to.port()))).await {
        Ok(association) => association,
        Err(ConnectError::Refused { .. }) => within(endpoint.accept()).await.unwrap(),
        Err(error) => panic!("{error}"),
    }
}

#[tokio::test]
async fn endpoints_in_one_to_many_style_hear_all_workers_to_the_end() {
    let server_stack = Stack::udp(workers(3)).unwrap();
    let server = server_stack.one_to_many(5060, quick()).unwrap();
    let client_stack = stack();
    let mut clients = Vec::new();
    for _ in 0..12 {
        let endpoint = client_stack.endpoint(0, quick()).unwrap();
        let client = connect(&endpoint, &server_stack, 5060).await;
        client.send(on_stream(0), "hello".into()).await.unwrap();
        clients.push(client);
    }
    let (mut accepted, mut messages) = (BTreeSet::new(), 0);
    while accepted.len() < 12 || messages < 12 {
        match within(server.next()).await.unwrap() {
            EndpointEvent::Accepted(association) => drop(accepted.insert(association.id())),
            EndpointEvent::Message { .. } => messages += 1,
            event => panic!("{event:?}"),
        }
    }
    let closing = tokio::spawn(async move { server_stack.close().await });
    let mut closed = BTreeSet::new();
    while let Some(event) = within(server.next()).await {
        let EndpointEvent::Closed { association, cause } = event else {
            panic!("{event:?}");
        };
        assert_eq!(cause, CloseCause::Shutdown);
        closed.insert(association.id());
    }
    assert_eq!(closed, accepted);
    within(closing).await.unwrap();
}

#[tokio::test]
async fn a_port_is_not_shared_with_another_stack() {
    let first = Stack::udp(workers(2)).unwrap();
    let same = UdpCarrierConfig {
        workers: 2,
        ..UdpCarrierConfig::new(first.local_addr())
    };
    let error = Stack::udp(same.clone()).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::AddrInUse);
    within(first.close()).await;
    // The sockets go when the tasks have ended, which is a moment later.
    let again = async {
        while Stack::udp(same.clone()).is_err() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    within(again).await;
}
