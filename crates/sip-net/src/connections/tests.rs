//! The table by itself.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use sip::{ConnectionId, Peer, Transport};

use super::accepted::MAXIMUM_DISPLACED;
use super::*;
use crate::budget::Budget;
use crate::config::Limits;
use crate::incoming::SendError;
use crate::outbound_message::{OutboundMessage, SendFailure};
use crate::send_queue::Sink;

fn connections(limits: Limits) -> Connections {
    let budget = Budget::new(limits.all_write_queues_bytes);
    Connections::new(3, &limits, budget)
}

fn remote(port: u16) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 1], port))
}

fn message(bytes: usize) -> OutboundMessage {
    OutboundMessage::new(Bytes::from(vec![b'x'; bytes]), remote(1))
}

type Found = Result<(Arc<Connection>, bool), SendError>;

fn new(found: Found) -> Arc<Connection> {
    let (connection, is_new) = found.expect("a connection");
    assert!(is_new, "{connection:?} was there");
    connection
}

fn existing(found: Found) -> ConnectionId {
    let (connection, is_new) = found.expect("a connection");
    assert!(!is_new, "nothing was there");
    connection.id
}

#[test]
fn an_address_leads_to_the_connection_opened_last() {
    let table = connections(Limits::default());
    let first = new(table.find_or_open(Transport::Tcp, remote(1), None));
    assert_eq!(
        existing(table.find_or_open(Transport::Tcp, remote(1), None)),
        first.id
    );
    let second = table.accept(Transport::Tcp, remote(1)).expect("room");
    assert_eq!(
        existing(table.find_or_open(Transport::Tcp, remote(1), None)),
        second.id
    );
    // The end of the older one leaves the newer one in its place.
    table.remove(&first);
    assert_eq!(
        existing(table.find_or_open(Transport::Tcp, remote(1), None)),
        second.id
    );
    table.retire(&second);
    assert!(table.get(second.id).is_some());
    let third = new(table.find_or_open(Transport::Tcp, remote(1), None));
    assert_ne!(third.id, second.id);
}

#[test]
fn transports_and_private_connections_are_apart() {
    let table = connections(Limits::default());
    let private = table
        .open_private(Transport::Tcp, remote(1), None)
        .expect("room");
    let tcp = new(table.find_or_open(Transport::Tcp, remote(1), None));
    let sctp = new(table.find_or_open(Transport::Sctp, remote(1), None));
    assert!(private.id != tcp.id && tcp.id != sctp.id);
    assert_eq!(table.count(Transport::Tcp), 2);
    assert_eq!(table.count(Transport::Sctp), 1);
    assert_eq!(
        table.get(private.id).map(|found| found.id),
        Some(private.id)
    );
    table.remove(&private);
    assert!(table.get(private.id).is_none());
}

#[test]
fn the_table_is_bounded() {
    let table = connections(Limits {
        max_connections: 1,
        ..Limits::default()
    });
    let only = table.accept(Transport::Tcp, remote(1)).expect("room");
    let refused = table.find_or_open(Transport::Tcp, remote(2), None).err();
    assert_eq!(refused, Some(SendError::TooManyConnections));
    table.remove(&only);
    assert!(table.find_or_open(Transport::Tcp, remote(2), None).is_ok());
}

#[test]
fn one_source_does_not_take_all_the_room() {
    let table = connections(Limits {
        max_accepted_per_source: 2,
        ..Limits::default()
    });
    let accepted = |address: &str| {
        let remote = address.parse().expect("an address");
        table.accept(Transport::Tcp, remote)
    };
    let first = accepted("192.0.2.1:1").expect("room");
    let _second = accepted("192.0.2.1:2").expect("room");
    let refused = accepted("192.0.2.1:3").err();
    assert_eq!(refused, Some(SendError::TooManyConnections));
    assert!(accepted("192.0.2.2:1").is_ok());
    // What we open ourselves does not count.
    assert!(table.find_or_open(Transport::Tcp, remote(4), None).is_ok());
    // Nor what has ended, once or told twice.
    table.remove(&first);
    table.remove(&first);
    assert!(accepted("192.0.2.1:4").is_ok());
    assert!(accepted("192.0.2.1:5").is_err());

    let _ipv6 = accepted("[2001:db8:0:1::1]:1").expect("room");
    let _ipv6 = accepted("[2001:db8:0:1::2]:1").expect("room");
    assert!(accepted("[2001:db8:0:1:ffff::3]:1").is_err());
    assert!(accepted("[2001:db8:0:2::1]:1").is_ok());
}

fn from(table: &Connections, host: u8, port: u16) -> Result<Arc<Connection>, SendError> {
    table.accept(Transport::Tcp, SocketAddr::from(([192, 0, 2, host], port)))
}

#[test]
fn whoever_has_most_connections_makes_room_for_others() {
    let table = connections(Limits {
        max_connections: 16,
        ..Limits::default()
    });
    let accepted = |host, port| from(&table, host, port).expect("room");
    let honest = accepted(1, 1);
    let registered = accepted(2, 1);
    table.set_known(registered.id);
    let mut idle: Vec<_> = (0..11).map(|port| accepted(3, port)).collect();
    assert!(idle.iter().all(|connection| !connection.is_displaced()));
    // Twelve are not known: the oldest one of the third source gives way to each other one, even of its own.
    let newcomer = accepted(4, 1);
    assert!(idle[0].is_displaced() && !idle[1].is_displaced());
    idle.push(accepted(3, 100));
    assert!(idle[1].is_displaced() && !idle[2].is_displaced());
    // They are on their way out. Those that are known, and those that we open, have the rest.
    for port in 2..4 {
        table.set_known(accepted(2, port).id);
    }
    assert!(table.find_or_open(Transport::Tcp, remote(7), None).is_ok());
    for connection in [&honest, &registered, &newcomer] {
        assert!(!connection.is_displaced());
    }
    // Where only those are left that are known, nobody gives way.
    for connection in [&honest, &newcomer].into_iter().chain(&idle) {
        table.set_known(connection.id);
    }
    while let Ok(connection) = from(&table, 5, 1) {
        table.set_known(connection.id);
    }
    for connection in idle.iter().chain([&honest, &registered, &newcomer]) {
        table.remove(connection);
    }
    let state = table.read();
    let accepted = &state.accepted;
    assert_eq!((accepted.displaced, accepted.unknown), (0, 0));
    assert!(accepted.sources_by_unknown.is_empty());
}

#[test]
fn no_more_give_way_than_end() {
    let table = connections(Limits {
        max_connections: 4,
        max_accepted_per_source: 2 * MAXIMUM_DISPLACED,
        ..Limits::default()
    });
    let mut all = Vec::new();
    while let Ok(connection) = from(&table, 1, 1) {
        all.push(connection);
    }
    assert_eq!(all.len(), 3 + MAXIMUM_DISPLACED);
    table.remove(&all[0]);
    assert!(from(&table, 1, 1).is_ok());
}

#[test]
fn a_queue_is_bounded_in_messages_and_bytes() {
    let limits = Limits {
        write_queue_messages: 2,
        write_queue_bytes: 100,
        ..Limits::default()
    };
    let table = connections(limits);
    let connection = new(table.find_or_open(Transport::Tcp, remote(1), None));
    let refusal = |bytes| {
        connection
            .push(message(bytes))
            .err()
            .map(|failure| failure.error)
    };

    assert_eq!(refusal(101), Some(SendError::QueueFull));
    assert_eq!(refusal(60), None);
    assert_eq!(refusal(60), Some(SendError::QueueFull));
    assert_eq!(refusal(20), None);
    assert_eq!(refusal(1), Some(SendError::QueueFull));
    let first = connection.queue.pop_first().expect("the first message");
    // Whoever has taken it has not sent it yet.
    assert_eq!(refusal(1), Some(SendError::QueueFull));
    drop(first);
    assert_eq!(refusal(60), None);
    connection.queue.close();
    assert_eq!(refusal(1), Some(SendError::Gone));
}

#[test]
fn all_queues_together_are_bounded_in_bytes() {
    let table = connections(Limits {
        write_queue_bytes: 100,
        all_write_queues_bytes: 150,
        ..Limits::default()
    });
    let first = new(table.find_or_open(Transport::Tcp, remote(1), None));
    let second = new(table.find_or_open(Transport::Sctp, remote(1), None));
    first.push(message(100)).expect("room");
    second.push(message(50)).expect("room");
    let SendFailure {
        message: refused,
        error,
    } = second.push(message(10)).expect_err("no room");
    assert_eq!(error, SendError::QueueFull);
    // A queue that is thrown away makes room, and so does a message that goes elsewhere.
    drop(first.queue.take_all());
    second.push(*refused).expect("room");
    let moved = second.queue.pop_first().expect("the first message");
    let third = new(table.find_or_open(Transport::Tcp, remote(3), None));
    third.push(moved).expect("room");
    second.push(message(90)).expect("room");
    assert!(third.push(message(1)).is_err());
    drop(third.queue.pop_first().expect("the message"));
    third.push(message(50)).expect("room");
}

#[tokio::test]
async fn whoever_waits_for_a_connection_hears_how_it_went() {
    let table = connections(Limits::default());
    let connection = new(table.find_or_open(Transport::Tcp, remote(1), None));
    let waiting = tokio::spawn({
        let connection = connection.clone();
        async move { connection.flow().await }
    });
    tokio::task::yield_now().await;
    connection.failed(SendError::ConnectTimeout);
    assert_eq!(
        waiting.await.expect("no panic"),
        Err(SendError::ConnectTimeout)
    );
}

#[test]
fn a_name_leads_to_who_has_shown_it() {
    let table = connections(Limits::default());
    let peer = |name: &str| {
        Some(Arc::new(Peer {
            name: Some(name.into()),
            ..Peer::default()
        }))
    };
    let find = |transport, name| table.find_or_open(transport, remote(1), name);
    let first = new(find(Transport::Tls, peer("a.example")));
    let second = new(find(Transport::Tls, peer("b.example")));
    let bare = new(find(Transport::Tls, None));
    assert_eq!(existing(find(Transport::Tls, peer("A.Example"))), first.id);
    assert_eq!(existing(find(Transport::Tls, peer("b.example"))), second.id);
    assert_eq!(existing(find(Transport::Tls, None)), bare.id);
    table.remove(&first);
    let again = new(find(Transport::Tls, peer("a.example")));
    assert_ne!(again.id, first.id);
    // In the clear nobody shows a name.
    let tcp = new(find(Transport::Tcp, peer("a.example")));
    assert_eq!(existing(find(Transport::Tcp, None)), tcp.id);
}

#[test]
fn a_connection_is_used_once_its_peer_has_made_the_handshake() {
    let table = connections(Limits::default());
    let accepted = table.accept_with_handshake(Transport::Ws, remote(1));
    let accepted = accepted.expect("room");
    let ours = new(table.find_or_open(Transport::Ws, remote(1), None));
    assert_ne!(ours.id, accepted.id);
    table.handshake_done(&accepted);
    let found = table.find_or_open(Transport::Ws, remote(1), None);
    assert_eq!(existing(found), accepted.id);
}

#[test]
fn who_has_opened_a_connection_with_tls_is_not_taken_for_its_address() {
    for transport in [Transport::Tls, Transport::TlsSctp, Transport::Wss] {
        let table = connections(Limits::default());
        let accepted = table.accept_with_handshake(transport, remote(1));
        let accepted = accepted.expect("room");
        table.handshake_done(&accepted);
        let ours = new(table.find_or_open(transport, remote(1), None));
        assert_ne!(ours.id, accepted.id);
        table.remove(&accepted);
        let found = table.find_or_open(transport, remote(1), None);
        assert_eq!(existing(found), ours.id);
    }
}

#[test]
fn handshakes_under_way_are_bounded_in_all_and_for_each_source() {
    let table = connections(Limits {
        max_handshakes: 3,
        max_handshakes_per_source: 2,
        ..Limits::default()
    });
    let begun = |address: &str| {
        let remote = address.parse().expect("an address");
        table.accept_with_handshake(Transport::Tls, remote)
    };
    let first = begun("192.0.2.1:1").expect("room");
    let second = begun("192.0.2.1:2").expect("room");
    let refused = begun("192.0.2.1:3").err();
    assert_eq!(refused, Some(SendError::TooManyConnections));
    // Another one gets through, and what takes no handshake does, too.
    let other = begun("192.0.2.2:1").expect("room");
    assert!(begun("192.0.2.3:1").is_err());
    assert!(table.accept(Transport::Tcp, remote(4)).is_ok());
    // A handshake that is over, however it went, makes room, once.
    table.handshake_done(&first);
    table.handshake_done(&first);
    let third = begun("192.0.2.1:3").expect("room");
    assert!(begun("192.0.2.1:4").is_err());
    table.handshake_failed(&second);
    table.remove(&second);
    let fourth = begun("192.0.2.1:4").expect("room");
    assert!(begun("192.0.2.1:5").is_err());
    for connection in [&third, &fourth, &other, &first] {
        table.remove(connection);
    }
    assert!(table.read().accepted.handshakes.is_empty());
    assert_eq!(table.read().accepted.sources.len(), 1);
}

/// RFC 5923 section 8.2.
#[test]
fn a_peer_is_found_by_the_names_that_it_has_proved_where_it_wants_to_be() {
    let table = connections(Limits::default());
    let names = |names: &[&str]| names.iter().map(|&name| name.into()).collect();
    let peer = |name: &str| {
        Some(Arc::new(Peer {
            name: Some(name.into()),
            ..Peer::default()
        }))
    };
    let find = |port, name| table.find_or_open(Transport::Tls, remote(port), peer(name));
    let open = |client: u16, proved: &[&str]| {
        let accepted = table.accept_with_handshake(Transport::Tls, remote(client));
        let connection = accepted.expect("room");
        table.handshake_done(&connection);
        connection.set_names(names(proved));
        table.add_alias(&connection, remote(5061));
        connection
    };
    let nobody = open(40_000, &[]);
    let first = open(40_001, &["Example.com", "p1.example.com"]);
    assert_eq!(existing(find(5061, "example.COM")), first.id);
    assert_eq!(existing(find(5061, "p1.example.com")), first.id);
    // Another domain of the same server (section 9.3), another port of it, and nobody in particular.
    let other = new(find(5061, "example.net"));
    let another = new(find(5062, "example.com"));
    let bare = new(table.find_or_open(Transport::Tls, remote(5061), None));
    for connection in [&other, &another, &bare] {
        assert!(connection.id != first.id && connection.id != nobody.id);
    }
    // One connection has one such address.
    table.add_alias(&first, remote(5070));
    let elsewhere = new(find(5070, "example.com"));
    assert_ne!(elsewhere.id, first.id);
    // Gone, it is not found, nor is it found again.
    table.retire(&first);
    table.add_alias(&first, remote(5061));
    let newer = new(find(5061, "example.com"));
    assert_ne!(newer.id, first.id);
    table.remove(&first);
    assert_eq!(existing(find(5061, "example.com")), newer.id);
    assert!(table.read().addresses.aliases.is_empty());
}

/// A peer that has begun anew is found by its new connection, before the end of the old one is noticed.
#[test]
fn the_place_of_an_alias_is_taken_by_a_newer_one_of_the_same_name() {
    let table = connections(Limits::default());
    let peer = |name: &str| {
        Some(Arc::new(Peer {
            name: Some(name.into()),
            ..Peer::default()
        }))
    };
    let find = |name| table.find_or_open(Transport::Tls, remote(5061), peer(name));
    let open = |client: u16, proved: &[&str]| {
        let accepted = table.accept_with_handshake(Transport::Tls, remote(client));
        let connection = accepted.expect("room");
        table.handshake_done(&connection);
        connection.set_names(proved.iter().map(|&name| name.into()).collect());
        connection
    };
    let old = open(40_000, &["example.com", "p1.example.com"]);
    let new_one = open(40_001, &["example.com"]);
    table.add_alias(&old, remote(5061));
    assert_eq!(existing(find("example.com")), old.id);
    table.add_alias(&new_one, remote(5061));
    assert_eq!(existing(find("example.com")), new_one.id);
    // What it has not proved stays with who has, and the old one does not come back.
    assert_eq!(existing(find("p1.example.com")), old.id);
    table.add_alias(&old, remote(5061));
    assert_eq!(existing(find("example.com")), new_one.id);
    // The end of the old one leaves the new one in its place.
    table.remove(&old);
    assert_eq!(existing(find("example.com")), new_one.id);
    // One that is older takes nothing.
    let older = open(40_002, &["example.com"]);
    let newest = open(40_003, &["example.com"]);
    table.add_alias(&newest, remote(5061));
    table.add_alias(&older, remote(5061));
    assert_eq!(existing(find("example.com")), newest.id);
    // It is tried again.
    table.remove(&newest);
    table.add_alias(&older, remote(5061));
    assert_eq!(existing(find("example.com")), older.id);
}

/// Requests by an older connection show that it is alive, when the newer one is gone that had its place.
#[test]
fn the_place_of_an_alias_goes_back_to_the_older_one() {
    let table = connections(Limits::default());
    let at = |port, name: &str| {
        let far_end = (Transport::Tls, remote(port), Some(name.into()));
        table.read().addresses.by_far_end.get(&far_end).copied()
    };
    let open = |client: u16, proved: &[&str]| {
        let accepted = table.accept_with_handshake(Transport::Tls, remote(client));
        let connection = accepted.expect("room");
        table.handshake_done(&connection);
        connection.set_names(proved.iter().map(|&name| name.into()).collect());
        connection
    };
    let old = open(40_000, &["example.com", "p1.example.com"]);
    table.add_alias(&old, remote(5061));
    for client in 40_001..40_004 {
        let newer = open(client, &["example.com"]);
        table.add_alias(&newer, remote(5061));
        table.add_alias(&old, remote(5061));
        assert_eq!(at(5061, "example.com"), Some(newer.id));
        assert_eq!(at(5061, "p1.example.com"), Some(old.id));
        table.remove(&newer);
        assert_eq!(at(5061, "example.com"), None);
        // It still has one address.
        table.add_alias(&old, remote(5062));
        assert_eq!(at(5062, "example.com"), None);
        table.add_alias(&old, remote(5061));
        assert_eq!(at(5061, "example.com"), Some(old.id));
        assert_eq!(table.read().addresses.aliases[&old.id].len(), 2);
    }
    // One that has nothing left gets all of it back, once.
    let both = open(40_004, &["example.com", "p1.example.com"]);
    table.add_alias(&both, remote(5061));
    assert!(!table.read().addresses.aliases.contains_key(&old.id));
    table.remove(&both);
    table.add_alias(&old, remote(5061));
    table.add_alias(&old, remote(5061));
    assert_eq!(at(5061, "p1.example.com"), Some(old.id));
    assert_eq!(table.read().addresses.aliases[&old.id].len(), 2);
    table.remove(&old);
    assert!(
        table.read().addresses.aliases.is_empty() && table.read().addresses.by_far_end.is_empty()
    );
}

#[test]
fn an_alias_waits_for_the_end_of_a_connection_that_we_have_opened() {
    let table = connections(Limits::default());
    let peer = Some(Arc::new(Peer {
        name: Some("example.com".into()),
        ..Peer::default()
    }));
    let find = || table.find_or_open(Transport::Tls, remote(5061), peer.clone());
    let ours = new(find());
    let accepted = table.accept_with_handshake(Transport::Tls, remote(40_000));
    let theirs = accepted.expect("room");
    table.handshake_done(&theirs);
    theirs.set_names(["example.com".into()].into());
    table.add_alias(&theirs, remote(5061));
    assert_eq!(existing(find()), ours.id);
    assert!(table.read().addresses.aliases.is_empty());
    table.remove(&ours);
    table.add_alias(&theirs, remote(5061));
    assert_eq!(existing(find()), theirs.id);
    table.remove(&theirs);
    new(find());
}
