//! What a test measured, both sides put together: what JSON documents hold.

use serde::Serialize;

use crate::control::{FlowTotal, PathReport, SideResult, Snapshot, printable};
use crate::sequence::Reception;
use crate::test_side::sum;
use crate::usage::CpuTime;
use crate::{Over, Protocol, TestParameters};

/// A test's result.
#[derive(Clone, Debug, Serialize)]
pub struct TestResult {
    /// The server, as it was named.
    pub target: String,
    /// Over what.
    pub protocol: Protocol,
    /// What carried SCTP.
    pub over: Option<Over>,
    /// Message size, bytes.
    pub size_bytes: usize,
    /// Whether the server sent.
    pub reverse: bool,
    /// Whether someone ended the test before its time.
    pub interrupted: bool,
    /// How long it took: the longer of what the sender needed to hand everything over and what lay between
    /// the receiver's first and last message.
    pub seconds: f64,
    /// User data received a second, bits.
    pub goodput_bits_per_second: Option<f64>,
    /// Messages received a second.
    pub messages_per_second: Option<f64>,
    /// What the sender handed over.
    pub sent: Traffic,
    /// What the receiver got.
    pub received: Traffic,
    /// Processor time of both programs; a side that did not tell is absent.
    pub cpu: Cpu,
    /// What the sender's transport repeated: TCP segments, SCTP DATA chunks.
    pub retransmissions: Option<u64>,
    /// What became of datagrams.
    pub udp: Option<Datagrams>,
    /// The sender's paths at the end.
    pub paths: Vec<PathReport>,
    /// How it went, second by second.
    pub intervals: Vec<Interval>,
    /// When, in the time of the intervals, what is left out ended; 0 where nothing is.
    #[serde(skip)]
    pub(crate) omitted_seconds: f64,
    /// What went wrong.
    pub errors: Vec<String>,
}

/// What went in or came out.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Traffic {
    /// Messages.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Sending: until the last message was handed over. Receiving: from the first to the last message.
    pub seconds: f64,
    /// Each socket, connection or association.
    pub flows: Vec<FlowTotal>,
}

/// Processor time.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Cpu {
    /// The sender's program during the test.
    pub sender: Option<CpuTime>,
    /// The receiver's.
    pub receiver: Option<CpuTime>,
    /// The sender's seconds for each GByte (10⁹ bytes) received.
    pub sender_seconds_per_gbyte: Option<f64>,
    /// The receiver's.
    pub receiver_seconds_per_gbyte: Option<f64>,
    /// Both.
    pub seconds_per_gbyte: Option<f64>,
    /// Whether the server served other tests at the same time: then its processor time is theirs, too.
    pub shared_with_other_tests: bool,
}

/// What became of datagrams.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Datagrams {
    /// Sent but not received.
    pub lost: u64,
    /// Of those sent, in percent.
    pub loss_percent: f64,
    /// Came after one that was sent later.
    pub reordered: u64,
    /// Came twice, or too late to tell.
    pub duplicates: u64,
    /// Interarrival jitter (RFC 3550 section 6.4.1), milliseconds.
    pub jitter_ms: f64,
}

/// A part of a test, about a second.
#[derive(Clone, Debug, Serialize)]
pub struct Interval {
    /// When it began, seconds after the receiver's start.
    pub from_seconds: f64,
    /// When it ended.
    pub to_seconds: f64,
    /// Messages received in it.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// User data received a second, bits.
    pub goodput_bits_per_second: Option<f64>,
    /// Messages received a second.
    pub messages_per_second: Option<f64>,
    /// What was repeated in it.
    pub retransmissions: Option<u64>,
    /// Datagrams that are missing in it so far.
    pub lost: Option<u64>,
    /// Jitter at its end, milliseconds.
    pub jitter_ms: Option<f64>,
    /// The sender's paths at its end, of the first flows.
    pub paths: Vec<PathReport>,
    /// Whether it is what was left at the end.
    #[serde(skip)]
    pub(crate) is_partial: bool,
}

/// Both sides' results, as far as they are known.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sides {
    sender: Option<SideResult>,
    receiver: Option<SideResult>,
    /// What is known of the other side when it did not tell its result.
    last_heard: Snapshot,
}

impl Sides {
    pub(crate) fn both(sender: SideResult, receiver: SideResult) -> Sides {
        Sides {
            sender: Some(sender),
            receiver: Some(receiver),
            last_heard: Snapshot::default(),
        }
    }

    pub(crate) fn sender_alone(sender: SideResult, receiver: Option<&Snapshot>) -> Sides {
        Sides {
            sender: Some(sender),
            receiver: None,
            last_heard: receiver.cloned().unwrap_or_default(),
        }
    }

    pub(crate) fn receiver_alone(receiver: SideResult, sender: Option<&Snapshot>) -> Sides {
        Sides {
            sender: None,
            receiver: Some(receiver),
            last_heard: sender.cloned().unwrap_or_default(),
        }
    }
}

impl TestResult {
    /// Puts two sides together.
    pub(crate) fn new(test: &TestParameters, sides: Sides) -> TestResult {
        let Sides {
            sender,
            receiver,
            last_heard,
        } = sides;
        let traffic = |side: &Option<SideResult>| match side {
            Some(side) => Traffic::new(side.flows.clone(), side.elapsed_us),
            None => {
                let total = FlowTotal {
                    messages: last_heard.messages,
                    bytes: last_heard.bytes,
                };
                Traffic::new(vec![total], last_heard.elapsed_us)
            }
        };
        let (sent, received) = (traffic(&sender), traffic(&receiver));
        let seconds = sent.seconds.max(received.seconds);
        let per_second = |amount: f64| (seconds > 0.0).then(|| amount / seconds);
        let reception = match &receiver {
            Some(receiver) => receiver.reception,
            None => last_heard.reception,
        };
        let errors = sender.iter().chain(&receiver).flat_map(|side| &side.errors);
        TestResult {
            target: String::new(),
            protocol: test.protocol,
            over: None,
            size_bytes: test.size,
            reverse: test.reverse,
            interrupted: false,
            seconds,
            goodput_bits_per_second: per_second(received.bytes as f64 * 8.0),
            messages_per_second: per_second(received.messages as f64),
            cpu: Cpu::new(sender.as_ref(), receiver.as_ref(), received.bytes),
            retransmissions: match &sender {
                Some(sender) => sender.retransmissions,
                None => last_heard.retransmissions,
            },
            udp: reception.map(|reception| Datagrams::new(&reception, sent.messages)),
            paths: match sender {
                Some(ref sender) => sender.paths.clone(),
                None => last_heard.paths,
            },
            intervals: Vec::new(),
            omitted_seconds: 0.0,
            errors: errors.map(|error| printable(error)).collect(),
            sent,
            received,
        }
    }
}

impl TestResult {
    /// Leaves out what had been done until then. Processor times are those of the whole test, and so are the flows where
    /// there are several.
    pub(crate) fn omit(&mut self, receiver: &Snapshot, sender: Option<&Snapshot>) {
        self.omitted_seconds = receiver.elapsed_us as f64 / 1e6;
        self.received.omit(receiver);
        if let Some(sender) = sender {
            self.sent.omit(sender);
            let before = sender.retransmissions.unwrap_or_default();
            self.retransmissions = self
                .retransmissions
                .map(|count| count.saturating_sub(before));
        }
        self.seconds = self.sent.seconds.max(self.received.seconds);
        let seconds = self.seconds;
        let per_second = |amount: f64| (seconds > 0.0).then(|| amount / seconds);
        self.goodput_bits_per_second = per_second(self.received.bytes as f64 * 8.0);
        self.messages_per_second = per_second(self.received.messages as f64);
        if let (Some(udp), Some(before)) = (&mut self.udp, receiver.reception) {
            let lost_before = before.expected.saturating_sub(before.received);
            udp.lost = udp.lost.saturating_sub(lost_before);
            udp.reordered = udp.reordered.saturating_sub(before.reordered);
            udp.duplicates = udp.duplicates.saturating_sub(before.duplicates);
            let sent = self.sent.messages.max(1) as f64;
            udp.loss_percent = udp.lost as f64 / sent * 100.0;
        }
    }
}

impl Traffic {
    fn omit(&mut self, before: &Snapshot) {
        self.messages = self.messages.saturating_sub(before.messages);
        self.bytes = self.bytes.saturating_sub(before.bytes);
        self.seconds = (self.seconds - before.elapsed_us as f64 / 1e6).max(0.0);
        if let [flow] = self.flows.as_mut_slice() {
            flow.messages = self.messages;
            flow.bytes = self.bytes;
        }
    }

    fn new(flows: Vec<FlowTotal>, elapsed_us: u64) -> Traffic {
        let total = sum(&flows);
        Traffic {
            messages: total.messages,
            bytes: total.bytes,
            seconds: elapsed_us as f64 / 1e6,
            flows,
        }
    }
}

impl Cpu {
    fn new(sender: Option<&SideResult>, receiver: Option<&SideResult>, bytes: u64) -> Cpu {
        let gbytes = bytes as f64 / 1e9;
        let per_gbyte = |side: Option<&SideResult>| {
            side.filter(|_| bytes > 0)
                .map(|side| side.cpu.total_seconds() / gbytes)
        };
        let (of_sender, of_receiver) = (per_gbyte(sender), per_gbyte(receiver));
        let mut sides = sender.into_iter().chain(receiver);
        Cpu {
            sender: sender.map(|side| side.cpu),
            receiver: receiver.map(|side| side.cpu),
            sender_seconds_per_gbyte: of_sender,
            receiver_seconds_per_gbyte: of_receiver,
            seconds_per_gbyte: of_sender.zip(of_receiver).map(|(one, other)| one + other),
            shared_with_other_tests: sides.any(|side| side.other_tests),
        }
    }
}

impl Datagrams {
    fn new(reception: &Reception, sent: u64) -> Datagrams {
        let sent = sent.max(reception.expected).max(reception.received);
        let lost = sent - reception.received;
        Datagrams {
            lost,
            loss_percent: if sent == 0 {
                0.0
            } else {
                lost as f64 / sent as f64 * 100.0
            },
            reordered: reception.reordered,
            duplicates: reception.duplicates,
            jitter_ms: reception.jitter_ms,
        }
    }
}

/// Makes intervals of what the sides tell.
#[derive(Clone, Debug)]
pub(crate) struct Meter {
    size: usize,
    receiver: Snapshot,
    retransmissions: u64,
}

impl Meter {
    pub(crate) fn new(size: usize) -> Meter {
        Meter {
            size,
            receiver: Snapshot::default(),
            retransmissions: 0,
        }
    }

    /// What happened since the last time.
    pub(crate) fn interval(&mut self, receiver: &Snapshot, sender: Option<&Snapshot>) -> Interval {
        let before = std::mem::replace(&mut self.receiver, receiver.clone());
        let missing = |snapshot: &Snapshot| {
            let reception = snapshot.reception?;
            Some(reception.expected.saturating_sub(reception.received))
        };
        let retransmissions = sender.and_then(|sender| sender.retransmissions);
        let interval = Interval {
            retransmissions: retransmissions.map(|sum| sum.saturating_sub(self.retransmissions)),
            lost: missing(receiver).map(|lost| lost.saturating_sub(missing(&before).unwrap_or(0))),
            jitter_ms: receiver.reception.map(|reception| reception.jitter_ms),
            paths: sender.map_or_else(Vec::new, |sender| sender.paths.clone()),
            ..Interval::new(
                (
                    before.elapsed_us as f64 / 1e6,
                    receiver.elapsed_us as f64 / 1e6,
                ),
                receiver.messages.saturating_sub(before.messages),
                receiver.bytes.saturating_sub(before.bytes),
            )
        };
        self.retransmissions = retransmissions.unwrap_or(self.retransmissions);
        interval
    }

    /// What came after the last time, until the end.
    pub(crate) fn rest(&self, total: FlowTotal, seconds: f64) -> Option<Interval> {
        let bytes = total.bytes.saturating_sub(self.receiver.bytes);
        if bytes == 0 {
            return None;
        }
        // What a byte stream has left of a message is none.
        let messages = total
            .messages
            .saturating_sub(self.receiver.messages)
            .min(bytes.div_ceil(self.size.max(1) as u64));
        let from = self.receiver.elapsed_us as f64 / 1e6;
        Some(Interval {
            is_partial: true,
            ..Interval::new((from, seconds.max(from)), messages, bytes)
        })
    }
}

impl Interval {
    /// Whether it is the rest of a test, and long enough to say something.
    pub(crate) fn is_worth_a_line(&self) -> bool {
        self.is_partial && self.to_seconds - self.from_seconds > 0.01
    }

    fn new((from_seconds, to_seconds): (f64, f64), messages: u64, bytes: u64) -> Interval {
        // Less than a millisecond says nothing about a second.
        let seconds = Some(to_seconds - from_seconds).filter(|seconds| *seconds > 1e-3);
        Interval {
            from_seconds,
            to_seconds,
            messages,
            bytes,
            goodput_bits_per_second: seconds.map(|seconds| bytes as f64 * 8.0 / seconds),
            messages_per_second: seconds.map(|seconds| messages as f64 / seconds),
            retransmissions: None,
            lost: None,
            jitter_ms: None,
            paths: Vec::new(),
            is_partial: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side(messages: u64, bytes: u64, elapsed_us: u64, cpu_seconds: f64) -> SideResult {
        SideResult {
            flows: vec![FlowTotal { messages, bytes }],
            elapsed_us,
            cpu: CpuTime {
                user_seconds: cpu_seconds,
                system_seconds: 0.0,
            },
            ..SideResult::default()
        }
    }

    #[test]
    fn goodput_is_what_arrived_in_the_longer_time() {
        let test = TestParameters::new(Protocol::Tcp);
        let sides = Sides::both(
            side(1000, 1_000_000, 1_000_000, 0.001),
            side(1000, 1_000_000, 2_000_000, 0.002),
        );
        let run = TestResult::new(&test, sides);
        assert_eq!(run.seconds, 2.0);
        assert_eq!(run.goodput_bits_per_second, Some(4_000_000.0));
        assert_eq!(run.messages_per_second, Some(500.0));
        let per_gbyte = run.cpu.seconds_per_gbyte.unwrap();
        assert!((per_gbyte - 3.0).abs() < 1e-9, "{per_gbyte}");
    }

    #[test]
    fn what_was_sent_and_did_not_come_is_lost() {
        let mut receiver = side(90, 9000, 1_000_000, 0.0);
        receiver.reception = Some(Reception {
            received: 90,
            expected: 95,
            ..Reception::default()
        });
        let sides = Sides::both(side(100, 10_000, 1_000_000, 0.0), receiver);
        let run = TestResult::new(&TestParameters::new(Protocol::Udp), sides);
        let udp = run.udp.unwrap();
        assert_eq!(udp.lost, 10);
        assert_eq!(udp.loss_percent, 10.0);
    }

    #[test]
    fn nothing_at_all_is_no_rate() {
        let run = TestResult::new(&TestParameters::new(Protocol::Tcp), Sides::default());
        assert_eq!(run.goodput_bits_per_second, None);
        assert_eq!(run.cpu.seconds_per_gbyte, None);
    }

    #[test]
    fn numbers_of_a_stranger_do_not_overflow() {
        let mut receiver = side(u64::MAX, u64::MAX, u64::MAX, f64::MAX);
        receiver.flows.push(receiver.flows[0]);
        receiver.reception = Some(Reception {
            received: u64::MAX,
            expected: 1,
            ..Reception::default()
        });
        let sides = Sides::both(side(1, 1, 1, 0.0), receiver);
        let run = TestResult::new(&TestParameters::new(Protocol::Udp), sides);
        assert_eq!(run.udp.unwrap().lost, 0);
        let mut meter = Meter::new(0);
        let wild = Snapshot {
            messages: u64::MAX,
            bytes: u64::MAX,
            ..Snapshot::default()
        };
        meter.interval(&wild, Some(&wild));
        assert_eq!(meter.interval(&Snapshot::default(), None).bytes, 0);
    }

    #[test]
    fn intervals_add_up_to_the_whole() {
        let mut meter = Meter::new(100);
        let snapshot = |elapsed_us, messages: u64| Snapshot {
            elapsed_us,
            messages,
            bytes: messages * 100,
            ..Snapshot::default()
        };
        let one = meter.interval(&snapshot(1_000_000, 10), None);
        let two = meter.interval(&snapshot(2_000_000, 25), None);
        let total = FlowTotal {
            messages: 30,
            bytes: 3000,
        };
        let rest = meter.rest(total, 2.5).unwrap();
        assert_eq!([one.messages, two.messages, rest.messages], [10, 15, 5]);
        assert_eq!(rest.goodput_bits_per_second, Some(8000.0));
        assert_eq!(two.goodput_bits_per_second, Some(12_000.0));
    }
}
