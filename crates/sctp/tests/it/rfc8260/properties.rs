//! Whatever the scheduler, the messages, their sizes and what is lost: everything arrives once, whole, and
//! in order within each stream.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha12Rng;
use sctp::{EndpointConfig, Event, SendError, SendInfo, StreamScheduler};

use super::{ALL, interleaving};
use crate::common::Pair;

const STREAMS: u16 = 4;

#[derive(Debug, Clone)]
struct Message {
    stream: u16,
    unordered: bool,
    bytes: usize,
}

fn messages() -> impl Strategy<Value = Vec<Message>> {
    let bytes = prop_oneof![4 => 4_usize..300, 1 => 300_usize..9000];
    let message =
        (0..STREAMS, any::<bool>(), bytes).prop_map(|(stream, unordered, bytes)| Message {
            stream,
            unordered,
            bytes,
        });
    prop::collection::vec(message, 1..60)
}

fn scheduler() -> impl Strategy<Value = StreamScheduler> {
    (0..ALL.len()).prop_map(|index| ALL[index])
}

fn payload(number: usize, bytes: usize) -> Bytes {
    let filler = (4..bytes).map(|index| (number * 31 + index * 7) as u8);
    (number as u32)
        .to_be_bytes()
        .into_iter()
        .chain(filler)
        .collect()
}

/// What the server has received, by the numbers of the messages; parts are put together.
#[derive(Default)]
struct Inbox {
    begun: BTreeMap<u16, (bool, Vec<u8>)>,
    received: Vec<usize>,
}

impl Inbox {
    fn drain(&mut self, pair: &mut Pair, messages: &[Message]) {
        let server = pair.server.association();
        for part in pair.server.receive_all(pair.now, server) {
            let (unordered, begun) = self.begun.entry(part.stream).or_default();
            // One message of a stream is delivered at a time.
            assert!(begun.is_empty() || *unordered == part.unordered);
            *unordered = part.unordered;
            begun.extend_from_slice(&part.payload);
            if part.end_of_record {
                let whole = std::mem::take(begun);
                let number = u32::from_be_bytes(*whole.first_chunk().unwrap()) as usize;
                assert_eq!(whole, payload(number, messages[number].bytes));
                assert_eq!(part.stream, messages[number].stream);
                self.received.push(number);
            }
        }
    }
}

/// Delivers what is on its way, in some order, and loses some of it.
fn exchange(pair: &mut Pair, rng: &mut ChaCha12Rng, loss: f64) {
    for _ in 0..rng.random_range(1..10) {
        pair.collect();
        let to_server = rng.random_bool(0.5);
        let queue = if to_server {
            &mut pair.to_server
        } else {
            &mut pair.to_client
        };
        let place = if queue.len() < 2 || rng.random_bool(0.8) {
            0
        } else {
            rng.random_range(0..queue.len())
        };
        match queue.remove(place) {
            Some(packet) if !rng.random_bool(loss) => {
                if to_server {
                    pair.give_server(packet);
                } else {
                    pair.give_client(packet);
                }
            }
            _ => {}
        }
    }
    if pair.to_server.is_empty() && pair.to_client.is_empty() {
        pair.advance();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn everything_arrives_once_whole_and_in_order(
        messages in messages(),
        scheduler in scheduler(),
        later in scheduler(),
        interleaved: bool,
        values in prop::collection::vec(0_u16..6, STREAMS as usize),
        loss in 0.0..0.25_f64,
        a_rwnd in 4000_u32..60_000,
        partial_delivery_point in prop_oneof![Just(usize::MAX), Just(2000_usize)],
        seed: u64,
    ) {
        let mut rng = ChaCha12Rng::seed_from_u64(seed);
        let config = if interleaved { interleaving() } else { EndpointConfig::default() };
        let config = config
            .stream_scheduler(scheduler)
            .association_max_retrans(1000)
            .path_max_retrans(1000)
            .rto_max(Duration::from_secs(1))
            .outbound_streams(STREAMS)
            .send_buffer(30_000)
            .a_rwnd(a_rwnd)
            .max_message_size(9000)
            .partial_delivery_point(partial_delivery_point)
            .fragment_interleave(true);
        let receiver = config.clone().max_message_size(9000.min(a_rwnd as usize));
        let messages: Vec<Message> = messages
            .into_iter()
            .map(|message| Message { bytes: message.bytes.min(a_rwnd as usize), ..message })
            .collect();
        let mut pair = Pair::seeded(config, receiver, 3);
        let (client, _) = pair.establish();
        for (stream, value) in (0..).zip(values) {
            pair.client.endpoint.set_stream_value(pair.now, client, stream, value).unwrap();
        }
        let mut inbox = Inbox::default();
        let mut next = 0;
        for _ in 0..100_000 {
            if let Some(message) = messages.get(next) {
                let info = SendInfo {
                    stream: message.stream,
                    unordered: message.unordered,
                    ..SendInfo::default()
                };
                let payload = payload(next, message.bytes);
                match pair.client.endpoint.send(pair.now, client, info, payload) {
                    Ok(()) => next += 1,
                    Err(SendError::BufferFull) => {}
                    Err(error) => panic!("{error}"),
                }
                if next == messages.len() / 2 {
                    pair.client.endpoint.set_stream_scheduler(pair.now, client, later).unwrap();
                }
            }
            exchange(&mut pair, &mut rng, loss);
            inbox.drain(&mut pair, &messages);
            if inbox.received.len() == messages.len() {
                break;
            }
        }
        let lost = |event: &Event| matches!(event, Event::CommunicationLost { .. });
        prop_assert!(!pair.client.events.iter().any(lost));
        let mut sorted = inbox.received.clone();
        sorted.sort_unstable();
        prop_assert_eq!(sorted, (0..messages.len()).collect::<Vec<_>>(), "each once");
        for stream in 0..STREAMS {
            let mut ordered = inbox
                .received
                .iter()
                .filter(|number| messages[**number].stream == stream)
                .filter(|number| !messages[**number].unordered);
            prop_assert!(ordered.by_ref().is_sorted());
        }
        pair.run_for(Duration::from_secs(5));
        let status = pair.client.endpoint.status(client).unwrap();
        prop_assert_eq!(status.send_buffer_bytes, 0);
        let server = pair.server.association();
        let status = pair.server.endpoint.status(server).unwrap();
        prop_assert_eq!((status.receive_buffer_bytes, status.pending_receipt), (0, 0));
    }
}
