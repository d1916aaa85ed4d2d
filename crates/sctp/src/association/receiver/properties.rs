//! The receiving half against a naive model: whatever the order in which chunks arrive, are
//! repeated, and are taken back, each message is delivered once, whole, and in the order of its
//! stream.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use proptest::prelude::*;

use super::Receiver;
use crate::association::path_id::PathId;
use crate::association::received_data::ReceivedData;
use crate::packet::{Chunk, Data, Fragment, IData, Mid, Packet, PacketWriter, Ssn, Tsn};
use crate::{AssociationConfig, ReceivedMessage};

const STREAMS: u16 = 3;

/// A message, as it is to be sent.
#[derive(Debug, Clone)]
struct Message {
    stream: u16,
    unordered: bool,
    /// Bytes of each of its chunks.
    chunks: Vec<usize>,
}

/// Something that happens to the receiver.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// The chunk arrives.
    Arrives(usize),
    /// What can be taken back is.
    Renege,
    /// The user takes so many messages.
    Receive(usize),
}

fn messages() -> impl Strategy<Value = Vec<Message>> {
    let chunks = prop::collection::vec(1_usize..200, 1..6);
    let message =
        (0..STREAMS, any::<bool>(), chunks).prop_map(|(stream, unordered, chunks)| Message {
            stream,
            unordered,
            chunks,
        });
    prop::collection::vec(message, 1..20)
}

/// Chunks arrive about where they should, some twice, with other things between them.
fn steps(chunks: usize) -> impl Strategy<Value = Vec<Step>> {
    let arrival = (0..chunks, 0_usize..12).prop_map(|(chunk, late)| (chunk + late, chunk));
    let in_turn: Vec<_> = (0..chunks).collect();
    let once = in_turn
        .into_iter()
        .map(|chunk| (0_usize..12).prop_map(move |late| (chunk + late, chunk)))
        .collect::<Vec<_>>();
    let others = prop_oneof![
        1 => Just(Step::Renege),
        4 => (1_usize..5).prop_map(Step::Receive),
    ];
    let others = prop::collection::vec((0..chunks + 12, others), 0..20);
    let repeated = prop::collection::vec(arrival, 0..20);
    (once, repeated, others).prop_map(|(once, repeated, others)| {
        let arrivals = once.into_iter().chain(repeated);
        let mut steps: Vec<(usize, Step)> = arrivals
            .map(|(time, chunk)| (time, Step::Arrives(chunk)))
            .chain(others)
            .collect();
        steps.sort_by_key(|(time, _)| *time);
        steps.into_iter().map(|(_, step)| step).collect()
    })
}

fn scenario() -> impl Strategy<Value = (Vec<Message>, Vec<Step>)> {
    messages().prop_flat_map(|messages| {
        let chunks = messages.iter().map(|message| message.chunks.len()).sum();
        (Just(messages), steps(chunks))
    })
}

/// The chunks of the messages, each in a packet.
fn packets(messages: &[Message], initial: Tsn, interleaved: bool) -> Vec<Bytes> {
    let tsns = tsns(messages, initial, interleaved);
    let mut next = BTreeMap::new();
    let mut packets = Vec::new();
    for (number, message) in messages.iter().enumerate() {
        let Message {
            stream, unordered, ..
        } = *message;
        let next: &mut Mid = next.entry((stream, unordered)).or_default();
        let mid = *next;
        *next = mid.next();
        for (index, size) in message.chunks.iter().enumerate() {
            let user_data = &payload_of(number, index, *size);
            let (ppid, fsn) = (number as u32, index as u32);
            let ending = index + 1 == message.chunks.len();
            let tsn = tsns[packets.len()];
            let mut buffer = BytesMut::new();
            let mut writer = PacketWriter::new(&mut buffer, 1, 2, 3, 1000);
            let written = if interleaved {
                writer.i_data(&IData {
                    immediate: false,
                    unordered,
                    ending,
                    tsn,
                    stream,
                    mid,
                    fragment: match fsn {
                        0 => Fragment::First { ppid },
                        fsn => Fragment::Later { fsn },
                    },
                    user_data,
                })
            } else {
                writer.data(&Data {
                    immediate: false,
                    unordered,
                    beginning: index == 0,
                    ending,
                    tsn,
                    stream,
                    ssn: Ssn(mid.0 as u16),
                    ppid,
                    user_data,
                })
            };
            written.expect("it fits");
            packets.push(writer.finish());
        }
    }
    packets
}

/// The TSN of each chunk. Where messages are interleaved, the streams take turns.
fn tsns(messages: &[Message], initial: Tsn, interleaved: bool) -> Vec<Tsn> {
    let streams = messages
        .iter()
        .flat_map(|message| message.chunks.iter().map(|_| message.stream));
    let mut before = BTreeMap::new();
    let mut turns: Vec<(usize, usize)> = streams
        .enumerate()
        .map(|(chunk, stream)| {
            let turn: &mut usize = before.entry(stream).or_default();
            *turn += usize::from(interleaved);
            (*turn, chunk)
        })
        .collect();
    turns.sort_unstable();
    let mut tsns = vec![initial; turns.len()];
    for (offset, (_, chunk)) in (0..).zip(turns) {
        tsns[chunk] = initial + offset;
    }
    tsns
}

fn payload_of(number: usize, index: usize, size: usize) -> Vec<u8> {
    (0..size)
        .map(|position| (number * 89 + index * 31 + position) as u8)
        .collect()
}

fn whole(number: usize, message: &Message) -> Vec<u8> {
    let chunks = message.chunks.iter().enumerate();
    chunks
        .flat_map(|(index, size)| payload_of(number, index, *size))
        .collect()
}

/// A receiver, and what came out of it.
struct Run {
    config: AssociationConfig,
    receiver: Receiver,
    /// The numbers of the messages delivered.
    delivered: Vec<usize>,
    interleaved: bool,
    /// The messages of which parts were delivered, and these, by stream.
    partial: BTreeMap<u16, (usize, Vec<u8>)>,
}

impl Run {
    fn new(initial: Tsn, interleaved: bool, config: AssociationConfig) -> Run {
        Run {
            receiver: Receiver::new(initial, STREAMS, interleaved, &config),
            config,
            delivered: Vec::new(),
            interleaved,
            partial: BTreeMap::new(),
        }
    }

    fn arrives(&mut self, packet: &Bytes) {
        let parsed = Packet::read(packet).expect("a packet");
        let data: ReceivedData<'_> = match &parsed.chunks().next() {
            Some(Ok(Chunk::Data(data))) => data.into(),
            Some(Ok(Chunk::IData(data))) => data.into(),
            _ => panic!("it holds user data"),
        };
        self.receiver
            .handle_data(&data, packet, PathId::FIRST, usize::MAX, &self.config)
            .expect("it is sound");
        self.receiver.end_packet(Instant::now(), &self.config);
    }

    fn receive(&mut self, messages: &[Message]) -> bool {
        let Some(received) = self.receiver.receive(usize::MAX, &self.config) else {
            return false;
        };
        let number = received.ppid as usize;
        let message = &messages[number];
        assert_eq!(received.stream, message.stream);
        assert_eq!(received.unordered, message.unordered);
        self.check_place(&received, number);
        let begun = self.partial.remove(&received.stream);
        let mut payload = begun.map_or_else(Vec::new, |(_, begun)| begun);
        payload.extend_from_slice(&received.payload);
        if received.end_of_record {
            assert_eq!(payload, whole(number, message), "message {number}");
            self.delivered.push(number);
        } else {
            assert!(!received.payload.is_empty());
            self.partial.insert(received.stream, (number, payload));
        }
        true
    }

    /// Between the parts of a message comes nothing of its stream, and nothing at all unless that
    /// is allowed.
    fn check_place(&self, received: &ReceivedMessage, number: usize) {
        for (stream, (begun, _)) in &self.partial {
            if *begun != number {
                assert!(self.config.fragment_interleave || self.interleaved);
                assert_ne!(received.stream, *stream);
            }
        }
    }
}

/// What can be delivered when these chunks have arrived, by the numbers of the messages.
fn deliverable(messages: &[Message], received: &BTreeSet<usize>) -> BTreeSet<usize> {
    let mut blocked = BTreeSet::new();
    let mut deliverable = BTreeSet::new();
    let mut first = 0;
    for (number, message) in messages.iter().enumerate() {
        let chunks = first..first + message.chunks.len();
        first = chunks.end;
        let is_whole = chunks.clone().all(|chunk| received.contains(&chunk));
        if is_whole && (message.unordered || !blocked.contains(&message.stream)) {
            deliverable.insert(number);
        } else if !message.unordered {
            blocked.insert(message.stream);
        }
    }
    deliverable
}

/// Ordered messages of a stream come in their order.
fn assert_ordered(messages: &[Message], delivered: &[usize]) {
    for stream in 0..STREAMS {
        let mut numbers = delivered
            .iter()
            .filter(|number| messages[**number].stream == stream)
            .filter(|number| !messages[**number].unordered);
        assert!(numbers.by_ref().is_sorted());
    }
}

proptest! {
    #[test]
    fn delivers_what_the_model_does(
        (messages, steps) in scenario(),
        initial in prop_oneof![any::<u32>(), u32::MAX - 30..=u32::MAX],
        interleaved: bool,
    ) {
        let packets = packets(&messages, Tsn(initial), interleaved);
        let mut run = Run::new(Tsn(initial), interleaved, AssociationConfig::default());
        let mut received = BTreeSet::new();
        for step in steps {
            match step {
                Step::Arrives(chunk) => {
                    run.arrives(&packets[chunk]);
                    received.insert(chunk);
                }
                Step::Receive(_) | Step::Renege => {}
            }
            while run.receive(&messages) {}
            let delivered: BTreeSet<_> = run.delivered.iter().copied().collect();
            prop_assert_eq!(delivered.len(), run.delivered.len(), "each once");
            prop_assert_eq!(delivered, deliverable(&messages, &received));
        }
        prop_assert_eq!(run.delivered.len(), messages.len());
        assert_ordered(&messages, &run.delivered);
        prop_assert_eq!(run.receiver.buffered(), 0);
    }

    #[test]
    fn delivers_all_whatever_is_taken_back_and_in_parts_too(
        (messages, steps) in scenario(),
        initial in prop_oneof![any::<u32>(), u32::MAX - 30..=u32::MAX],
        interleaved: bool,
        a_rwnd in 1500_u32..4000,
        partial_delivery_point in prop_oneof![Just(usize::MAX), 0_usize..1500],
        fragment_interleave: bool,
        max_received_messages in prop_oneof![Just(1_usize << 15), 1_usize..6],
    ) {
        let packets = packets(&messages, Tsn(initial), interleaved);
        // Of interleaved messages, each stream may have one that is begun, and losses more.
        let max_received = if interleaved { 1 << 15 } else { max_received_messages };
        let config = AssociationConfig::default().a_rwnd(a_rwnd).partial_delivery_point(partial_delivery_point).fragment_interleave(fragment_interleave).max_received_messages(max_received).mtu(576)
        .bounded(usize::MAX);
        let mut run = Run::new(Tsn(initial), interleaved, config);
        for step in steps {
            match step {
                Step::Arrives(chunk) => run.arrives(&packets[chunk]),
                Step::Renege => {
                    run.receiver.renege();
                }
                Step::Receive(count) => {
                    for _ in 0..count {
                        run.receive(&messages);
                    }
                }
            }
            prop_assert!(run.receiver.buffered() <= 2 * a_rwnd as usize + 200);
        }
        // What was dropped and taken back is sent again.
        for _ in 0..packets.len() {
            for packet in &packets {
                run.arrives(packet);
                while run.receive(&messages) {}
            }
        }
        let delivered: BTreeSet<_> = run.delivered.iter().copied().collect();
        prop_assert_eq!(delivered.len(), run.delivered.len(), "each once");
        prop_assert_eq!(delivered.len(), messages.len());
        assert_ordered(&messages, &run.delivered);
        prop_assert_eq!(run.receiver.buffered(), 0);
        prop_assert!(run.partial.is_empty());
    }
}
