//! Section 3 and section 4.3: which stream sends next, and what the user says about it.

use sctp::{AssociationId, EndpointConfig, StreamError, StreamScheduler};

use super::ALL;
use crate::common::{Pair, message, ordered};

fn with(stream_scheduler: StreamScheduler) -> Pair {
    let config = EndpointConfig::default().stream_scheduler(stream_scheduler);
    Pair::with(config, EndpointConfig::default())
}

/// Queues a message of each of these streams, in this order, and gives the streams in the order in which
/// the server receives them.
fn order(pair: &mut Pair, id: AssociationId, streams: &[u16]) -> Vec<u16> {
    for (number, stream) in streams.iter().enumerate() {
        let sent = pair
            .client
            .endpoint
            .send(pair.now, id, ordered(*stream), message(number, 1000));
        assert_eq!(sent, Ok(()));
    }
    pair.run();
    let server = pair.server.association();
    let received = pair.server.receive_all(pair.now, server);
    received.iter().map(|message| message.stream).collect()
}

#[test]
fn messages_leave_in_the_order_in_which_they_came_unless_another_scheduler_is_chosen() {
    let mut pair = Pair::new();
    let (id, _) = pair.establish();
    let first = pair.client.endpoint.stream_scheduler(id);
    assert_eq!(first, Some(StreamScheduler::FirstComeFirstServed));
    assert_eq!(order(&mut pair, id, &[3, 3, 1, 2]), [3, 3, 1, 2]);
    pair.client
        .endpoint
        .set_stream_scheduler(pair.now, id, StreamScheduler::RoundRobin)
        .unwrap();
    let second = pair.client.endpoint.stream_scheduler(id);
    assert_eq!(second, Some(StreamScheduler::RoundRobin));
    assert_eq!(order(&mut pair, id, &[3, 3, 1, 2]), [3, 1, 2, 3]);
}

#[test]
fn an_association_begins_with_the_scheduler_of_its_settings() {
    for scheduler in ALL {
        let mut pair = with(scheduler);
        let (id, _) = pair.establish();
        assert_eq!(pair.client.endpoint.stream_scheduler(id), Some(scheduler));
        let received = order(&mut pair, id, &[3, 3, 3, 1, 2]);
        let expected = match scheduler {
            StreamScheduler::FirstComeFirstServed | StreamScheduler::Priority => [3, 3, 3, 1, 2],
            StreamScheduler::RoundRobin | StreamScheduler::RoundRobinPerPacket => [3, 1, 2, 3, 3],
            _ => [1, 2, 3, 3, 3],
        };
        assert_eq!(received, expected, "{scheduler:?}");
    }
}

#[test]
fn streams_have_priorities_and_weights() {
    let mut pair = with(StreamScheduler::Priority);
    let (id, _) = pair.establish();
    let endpoint = &mut pair.client.endpoint;
    assert_eq!(endpoint.stream_value(id, 3), Some(0));
    for (stream, value) in [(3, 5), (1, 2)] {
        endpoint
            .set_stream_value(pair.now, id, stream, value)
            .unwrap();
    }
    assert_eq!(endpoint.stream_value(id, 3), Some(5));
    assert_eq!(order(&mut pair, id, &[3, 3, 1, 2]), [2, 1, 3, 3]);

    let mut pair = with(StreamScheduler::WeightedFairQueueing);
    let (id, _) = pair.establish();
    let endpoint = &mut pair.client.endpoint;
    endpoint.set_stream_value(pair.now, id, 3, 3).unwrap();
    let streams: Vec<u16> = [[3, 1]; 20].concat();
    let received = order(&mut pair, id, &streams);
    let of_first = received[..24].iter().filter(|stream| **stream == 3).count();
    assert!((17..=19).contains(&of_first), "{received:?}");
}

#[test]
fn there_is_nothing_to_set_for_streams_and_associations_that_there_are_not() {
    let mut pair = Pair::new();
    let (id, _) = pair.establish();
    let endpoint = &mut pair.client.endpoint;
    assert_eq!(endpoint.stream_value(id, 10), None);
    let set = endpoint.set_stream_value(pair.now, id, 10, 1);
    assert_eq!(set, Err(StreamError::InvalidStream));
    let unknown = AssociationId::from_number(77);
    assert_eq!(endpoint.stream_scheduler(unknown), None);
    assert_eq!(endpoint.stream_value(unknown, 0), None);
    assert_eq!(
        endpoint.set_stream_value(pair.now, unknown, 0, 1),
        Err(StreamError::UnknownAssociation)
    );
    assert_eq!(
        endpoint.set_stream_scheduler(pair.now, unknown, StreamScheduler::RoundRobin),
        Err(StreamError::UnknownAssociation)
    );
}
