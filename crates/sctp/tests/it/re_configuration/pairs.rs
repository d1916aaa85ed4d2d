//! Two endpoints that re-configure their streams (RFC 6525).

use std::time::Duration;

use sctp::{
    EndpointConfig, Event, ReConfigurationError, ReConfigurationOutcome, StreamDirection,
    StreamReset,
};

use super::granting;
use crate::common::{Host, Pair, ordered};

fn pair() -> Pair {
    let config = granting().outbound_streams(100);
    Pair::with(config.clone(), config)
}

fn reset(outgoing: Option<&[u16]>, incoming: Option<&[u16]>) -> StreamReset {
    StreamReset {
        outgoing: outgoing.map(<[u16]>::to_vec),
        incoming: incoming.map(<[u16]>::to_vec),
    }
}

/// The resets that a host has told of: direction, streams and outcome.
fn resets(host: &Host) -> Vec<(StreamDirection, Vec<u16>, ReConfigurationOutcome)> {
    host.events
        .iter()
        .filter_map(|event| match event {
            Event::StreamReset {
                direction,
                streams,
                outcome,
                ..
            } => Some((*direction, streams.clone(), *outcome)),
            _ => None,
        })
        .collect()
}

#[test]
fn each_side_tells_of_a_reset() {
    let mut pair = pair();
    let (client, server) = pair.establish();
    for _ in 0..2 {
        pair.client_sends(ordered(3), "before");
    }
    let asked = reset(Some(&[3]), None);
    pair.client
        .endpoint
        .reset_streams(pair.now, client, asked)
        .unwrap();
    pair.client_sends(ordered(3), "after");
    pair.run_for(Duration::from_secs(1));
    let numbers: Vec<u16> = pair
        .server
        .receive_all(pair.now, server)
        .iter()
        .map(|message| message.ssn)
        .collect();
    assert_eq!(numbers, [0, 1, 0]);
    let performed = ReConfigurationOutcome::Performed;
    assert_eq!(
        resets(&pair.client),
        [(StreamDirection::Outgoing, vec![3], performed)]
    );
    assert_eq!(
        resets(&pair.server),
        [(StreamDirection::Incoming, vec![3], performed)]
    );
}

#[test]
fn both_sides_reset_at_once() {
    for asked in [
        reset(Some(&[]), None),
        reset(None, Some(&[])),
        reset(Some(&[1, 2]), Some(&[1, 2])),
    ] {
        let mut pair = pair();
        let (client, server) = pair.establish();
        for stream in [1, 2] {
            pair.client_sends(ordered(stream), "before");
            let sent =
                pair.server
                    .endpoint
                    .send(pair.now, server, ordered(stream), "before".into());
            sent.unwrap();
        }
        pair.run();
        pair.client
            .endpoint
            .reset_streams(pair.now, client, asked.clone())
            .unwrap();
        pair.server
            .endpoint
            .reset_streams(pair.now, server, asked.clone())
            .unwrap();
        pair.run();
        pair.run_for(Duration::from_secs(10));
        // Neither waits any more.
        for (host, id) in [(&mut pair.client, client), (&mut pair.server, server)] {
            let again = host
                .endpoint
                .reset_streams(pair.now, id, StreamReset::default());
            assert_eq!(again, Ok(()), "{asked:?}");
            assert!(!resets(host).is_empty());
        }
    }
}

#[test]
fn streams_are_added_in_both_directions() {
    let mut pair = pair();
    let (client, server) = pair.establish();
    pair.client
        .endpoint
        .add_streams(pair.now, client, 5, 7)
        .unwrap();
    pair.run();
    let streams = |host: &Host, id| {
        let status = host.endpoint.status(id).expect("it is there");
        (status.outbound_streams, status.inbound_streams)
    };
    assert_eq!(streams(&pair.client, client), (105, 107));
    assert_eq!(streams(&pair.server, server), (107, 105));
    pair.client_sends(ordered(104), "on the last one");
    pair.run();
    let received = pair.server.receive_all(pair.now, server);
    assert_eq!((received[0].stream, received[0].ssn), (104, 0));
    let changes = |host: &Host| {
        let is_change = |event: &&Event| matches!(event, Event::StreamChange { .. });
        host.events.iter().filter(is_change).count()
    };
    assert_eq!((changes(&pair.client), changes(&pair.server)), (2, 2));
}

#[test]
fn both_sides_add_streams_at_once() {
    let mut pair = pair();
    let (client, server) = pair.establish();
    pair.client
        .endpoint
        .add_streams(pair.now, client, 1, 2)
        .unwrap();
    pair.server
        .endpoint
        .add_streams(pair.now, server, 3, 4)
        .unwrap();
    pair.run();
    pair.run_for(Duration::from_secs(10));
    let status = pair.client.endpoint.status(client).expect("it is there");
    let other = pair.server.endpoint.status(server).expect("it is there");
    assert_eq!(status.outbound_streams, other.inbound_streams);
    assert_eq!(status.inbound_streams, other.outbound_streams);
    assert_eq!(
        (status.outbound_streams, status.inbound_streams),
        (105, 105)
    );
}

#[test]
fn the_association_begins_anew() {
    let mut pair = pair();
    let (client, server) = pair.establish();
    for round in 0..3 {
        for _ in 0..3 {
            pair.client_sends(ordered(1), "to the server");
            let sent =
                pair.server
                    .endpoint
                    .send(pair.now, server, ordered(1), "to the client".into());
            sent.unwrap();
        }
        pair.run();
        for (host, id) in [(&mut pair.server, server), (&mut pair.client, client)] {
            let numbers: Vec<u16> = host
                .receive_all(pair.now, id)
                .iter()
                .map(|message| message.ssn)
                .collect();
            assert_eq!(numbers, [0, 1, 2], "round {round}");
        }
        pair.run_for(Duration::from_secs(31));
        pair.client
            .endpoint
            .reset_association(pair.now, client)
            .unwrap();
        pair.run();
    }
    let tsns = |host: &Host| {
        let mut seen = host.events.iter().filter_map(|event| match event {
            Event::AssociationReset {
                local_tsn,
                remote_tsn,
                outcome: ReConfigurationOutcome::Performed,
                ..
            } => Some((*local_tsn, *remote_tsn)),
            _ => None,
        });
        let last = seen.next_back();
        (seen.count(), last)
    };
    let (count, Some((local, remote))) = tsns(&pair.client) else {
        panic!("it was reset");
    };
    assert_eq!(tsns(&pair.server), (count, Some((remote, local))));
    assert_eq!(count, 2);
}

#[test]
fn two_that_begin_anew_at_once_both_fail_and_go_on() {
    let mut pair = pair();
    let (client, server) = pair.establish();
    pair.client
        .endpoint
        .reset_association(pair.now, client)
        .unwrap();
    pair.server
        .endpoint
        .reset_association(pair.now, server)
        .unwrap();
    pair.run();
    for host in [&pair.client, &pair.server] {
        assert!(host.events.iter().any(|event| matches!(
            event,
            Event::AssociationReset {
                outcome: ReConfigurationOutcome::Failed,
                ..
            }
        )));
    }
    pair.client_sends(ordered(1), "goes on");
    pair.run();
    assert_eq!(pair.server.receive_all(pair.now, server).len(), 1);
}

#[test]
fn thousands_of_streams_are_reset() {
    let config = granting()
        .outbound_streams(u16::MAX)
        .max_inbound_streams(u16::MAX);
    let mut pair = Pair::with(config.clone(), config);
    let (client, server) = pair.establish();
    let streams: Vec<u16> = (0..20_000).step_by(2).collect();
    for stream in [0, 1, 19_998, 65_534] {
        pair.client_sends(ordered(stream), "before");
    }
    pair.run();
    let asked = reset(Some(&streams), Some(&streams));
    pair.client
        .endpoint
        .reset_streams(pair.now, client, asked)
        .unwrap();
    pair.run();
    for stream in [0, 1, 19_998, 65_534] {
        pair.client_sends(ordered(stream), "after");
    }
    pair.run();
    let mut numbers: Vec<(u16, u16)> = pair
        .server
        .receive_all(pair.now, server)
        .iter()
        .map(|message| (message.stream, message.ssn))
        .collect();
    numbers.sort_unstable();
    assert_eq!(
        numbers,
        [
            (0, 0),
            (0, 0),
            (1, 0),
            (1, 1),
            (19_998, 0),
            (19_998, 0),
            (65_534, 0),
            (65_534, 1)
        ]
    );
    let mut reset: Vec<u16> = resets(&pair.server)
        .into_iter()
        .filter(|(direction, ..)| *direction == StreamDirection::Incoming)
        .flat_map(|(_, streams, _)| streams)
        .collect();
    reset.sort_unstable();
    assert_eq!(reset, streams);
}

#[test]
fn a_peer_without_it_is_served_as_ever() {
    let mut pair = Pair::with(granting(), EndpointConfig::default());
    let (client, server) = pair.establish();
    let asked = pair.client.endpoint.reset_association(pair.now, client);
    assert_eq!(asked, Err(ReConfigurationError::NotSupported));
    pair.client_sends(ordered(1), "message");
    pair.run();
    assert_eq!(pair.server.receive_all(pair.now, server).len(), 1);
}

/// The first message after the reset overtakes the answer that tells of it.
#[test]
fn data_that_overtakes_the_answer_arrives_once() {
    let mut pair = pair();
    let (client, server) = pair.establish();
    pair.server
        .endpoint
        .send(pair.now, server, ordered(1), "before".into())
        .unwrap();
    pair.run();
    assert_eq!(pair.client.receive_all(pair.now, client).len(), 1);
    pair.client
        .endpoint
        .reset_association(pair.now, client)
        .unwrap();
    pair.collect();
    while let Some(packet) = pair.to_server.pop_front() {
        pair.give_server(packet);
    }
    pair.collect();
    let answers = std::mem::take(&mut pair.to_client);
    pair.server
        .endpoint
        .send(pair.now, server, ordered(1), "after".into())
        .unwrap();
    pair.collect();
    let data = std::mem::take(&mut pair.to_client);
    for packet in data.into_iter().chain(answers) {
        pair.give_client(packet);
    }
    pair.run_for(Duration::from_secs(10));
    let received = pair.client.receive_all(pair.now, client);
    let received: Vec<_> = received
        .iter()
        .map(|message| (message.ssn, &message.payload[..]))
        .collect();
    assert_eq!(received, [(0, &b"after"[..])]);
}
