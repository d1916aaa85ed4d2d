//! Two engines in memory, no sockets, on a virtual clock: what both sides of an engine comparison
//! have in common.

pub(crate) mod dcsctp;
pub(crate) mod sctp_proto;
pub(crate) mod tandem;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha12Rng;

use crate::cpu;
use crate::output::{Output, Row};
use crate::rounds::{Better, Rounds};

/// The largest SCTP packet: what a path MTU of 1500 leaves under IPv4 and UDP.
pub(crate) const PACKET_BYTES: usize = 1472;

/// The receive window, and how many bytes of messages may be on their way.
pub(crate) const BUFFER_BYTES: usize = 256 * 1024;

/// The send buffer: with room for what has arrived and is not acknowledged yet, which is much while
/// a lost retransmission waits for its timer.
pub(crate) const SEND_BUFFER_BYTES: usize = 8 * BUFFER_BYTES;

/// Streams that can be used.
pub(crate) const STREAMS: u16 = 128;

/// How long a packet travels, on the virtual clock.
const ONE_WAY: Duration = Duration::from_micros(50);

/// What is sent, and over what.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Transfer {
    pub(crate) message_bytes: usize,
    pub(crate) unordered: bool,
    pub(crate) streams: u16,
    /// Each so many packets, in either direction, one is lost on average; 0 loses none.
    pub(crate) lost_one_in: u32,
    /// What both ends offer.
    pub(crate) extension: Option<Extension>,
}

/// An extension of SCTP whose cost is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extension {
    /// I-DATA (RFC 8260).
    Interleaving,
    /// User data is authenticated, by HMAC-SHA-256 (RFC 4895).
    Authentication,
}

impl Extension {
    fn name(self) -> &'static str {
        match self {
            Extension::Interleaving => "I-DATA",
            Extension::Authentication => "AUTH",
        }
    }
}

/// One end of an association as the comparison sees it.
pub(crate) trait Engine {
    type Packet;

    /// What it has of the extensions.
    const EXTENSIONS: &'static [Extension];

    /// The end that opens the association, and the other one.
    fn pair(now: Instant, transfer: &Transfer) -> anyhow::Result<(Self, Self)>
    where
        Self: Sized;

    /// Whether messages can be sent.
    fn is_up(&self) -> bool;

    /// Queues messages of `payload`, on each of `streams`, as far as there is room: how many.
    fn send(
        &mut self,
        now: Instant,
        payload: &[u8],
        unordered: bool,
        streams: impl Iterator<Item = u16>,
    ) -> anyhow::Result<u64>;

    fn handle_packet(&mut self, now: Instant, packet: Self::Packet);

    /// The next packet to send.
    fn transmit(&mut self, now: Instant) -> Option<Self::Packet>;

    /// Takes all messages that have arrived: how many, and how many bytes.
    fn receive(&mut self, now: Instant) -> (u64, u64);

    /// When `handle_timeout` wants to be called.
    fn next_timeout(&self) -> Option<Instant>;

    fn handle_timeout(&mut self, now: Instant);
}

/// Runs all cases of an engine comparison. An extension that the peer lacks is measured beside our own
/// engine without it.
pub(crate) fn compare<Peer: Engine>(
    rounds: &Rounds,
    output: &mut dyn Output,
    goal: f64,
) -> anyhow::Result<()> {
    let cases = cases();
    for (index, (name, transfer)) in cases.iter().enumerate() {
        let time = rounds.time_for_one(cases.len() - index);
        let extension = transfer.extension;
        let peer_can = extension.is_none_or(|extension| Peer::EXTENSIONS.contains(&extension));
        let without = Transfer {
            extension: None,
            ..*transfer
        };
        let [(ours, peer)] = rounds
            .alternate(
                || Ok([messages_per_cpu_second::<tandem::Engine>(transfer, time)?]),
                || {
                    Ok([if peer_can {
                        messages_per_cpu_second::<Peer>(transfer, time)?
                    } else {
                        messages_per_cpu_second::<tandem::Engine>(&without, time)?
                    }])
                },
            )
            .with_context(|| name.clone())?;
        let (case, goal) = if peer_can {
            (name.clone(), goal)
        } else {
            (format!("{name} (peer: ours without)"), 0.0)
        };
        output.row(Row {
            case,
            metric: "messages_per_cpu_second",
            better: Better::Higher,
            ours,
            peer,
            goal,
        })?;
    }
    Ok(())
}

fn cases() -> Vec<(String, Transfer)> {
    let mut cases = Vec::new();
    let mut with_extension = Vec::new();
    for (size, message_bytes) in [("64B", 64), ("1000B", 1000), ("64KiB", 65_536)] {
        for lost_one_in in [0, 100] {
            for unordered in [false, true] {
                for streams in [1, 100] {
                    let order = if unordered { "unordered" } else { "ordered" };
                    let percent = if lost_one_in == 0 { 0 } else { 1 };
                    let name = format!("{size} {order} {streams}-stream loss-{percent}%");
                    let transfer = Transfer {
                        message_bytes,
                        unordered,
                        streams,
                        lost_one_in,
                        extension: None,
                    };
                    if !unordered && streams > 1 {
                        for extension in [Extension::Interleaving, Extension::Authentication] {
                            let transfer = Transfer {
                                extension: Some(extension),
                                ..transfer
                            };
                            with_extension.push((format!("{name} {}", extension.name()), transfer));
                        }
                    }
                    cases.push((name, transfer));
                }
            }
        }
    }
    cases.append(&mut with_extension);
    cases
}

/// Runs one case of our engine alone, as one does under a profiler.
pub(crate) fn ours_alone(case: &str, time: Duration) -> anyhow::Result<()> {
    let (_, transfer) = cases()
        .into_iter()
        .find(|(name, _)| name == case)
        .with_context(|| format!("there is no case {case:?}"))?;
    let rate = messages_per_cpu_second::<tandem::Engine>(&transfer, time)?;
    println!("{rate:.0} messages per CPU second");
    Ok(())
}

/// Messages delivered in each second of CPU time of both ends together.
fn messages_per_cpu_second<E: Engine>(transfer: &Transfer, time: Duration) -> anyhow::Result<f64> {
    let begun = Instant::now();
    let mut link = Link::<E>::new(transfer)?;
    // Caches, allocator and congestion window are in their usual state then.
    while begun.elapsed() < time / 5 {
        link.turn()?;
    }
    let (delivered, cpu) = (link.delivered, cpu::of_thread()?);
    while begun.elapsed() < time || link.delivered == delivered {
        for _ in 0..8 {
            link.turn()?;
        }
    }
    let cpu = cpu::of_thread()?.saturating_sub(cpu);
    ensure!(!cpu.is_zero(), "no CPU time passed");
    Ok((link.delivered - delivered) as f64 / cpu.as_secs_f64())
}

/// Two engines and the packets between them.
struct Link<E: Engine> {
    now: Instant,
    sender: E,
    receiver: E,
    forth: VecDeque<E::Packet>,
    back: VecDeque<E::Packet>,
    transfer: Transfer,
    payload: Vec<u8>,
    next_stream: u16,
    sent_bytes: u64,
    received_bytes: u64,
    delivered: u64,
    losses: Losses,
    /// Turns without progress, one after another.
    idle_turns: u32,
}

impl<E: Engine> Link<E> {
    /// Two engines with an association between them.
    fn new(transfer: &Transfer) -> anyhow::Result<Link<E>> {
        let now = Instant::now();
        let (sender, receiver) = E::pair(now, transfer)?;
        let mut link = Link {
            now,
            sender,
            receiver,
            forth: VecDeque::new(),
            back: VecDeque::new(),
            transfer: *transfer,
            payload: (0..transfer.message_bytes).map(|byte| byte as u8).collect(),
            next_stream: 0,
            sent_bytes: 0,
            received_bytes: 0,
            delivered: 0,
            losses: Losses::new(transfer.lost_one_in),
            idle_turns: 0,
        };
        while !(link.sender.is_up() && link.receiver.is_up()) {
            link.exchange()?;
        }
        Ok(link)
    }

    /// The sender sends what there is room for, packets travel both ways, the receiver receives.
    fn turn(&mut self) -> anyhow::Result<()> {
        let on_the_way = self.sent_bytes - self.received_bytes;
        let room = (BUFFER_BYTES as u64).saturating_sub(on_the_way) / self.payload.len() as u64;
        if room > 0 {
            let (first, streams) = (self.next_stream, self.transfer.streams);
            let on_streams =
                (0..room as u32).map(|n| ((u32::from(first) + n) % u32::from(streams)) as u16);
            let taken =
                self.sender
                    .send(self.now, &self.payload, self.transfer.unordered, on_streams)?;
            self.next_stream = ((u64::from(first) + taken) % u64::from(streams)) as u16;
            self.sent_bytes += taken * self.payload.len() as u64;
        }
        self.exchange()
    }

    fn exchange(&mut self) -> anyhow::Result<()> {
        let mut moved = 0;
        while let Some(packet) = self.sender.transmit(self.now) {
            put(&mut self.forth, packet, &mut self.losses);
        }
        self.now += ONE_WAY;
        self.handle_timeouts();
        while let Some(packet) = self.forth.pop_front() {
            moved += 1;
            self.receiver.handle_packet(self.now, packet);
            while let Some(answer) = self.receiver.transmit(self.now) {
                put(&mut self.back, answer, &mut self.losses);
            }
        }
        let (messages, bytes) = self.receiver.receive(self.now);
        self.delivered += messages;
        self.received_bytes += bytes;
        while let Some(answer) = self.receiver.transmit(self.now) {
            put(&mut self.back, answer, &mut self.losses);
        }
        self.now += ONE_WAY;
        self.handle_timeouts();
        while let Some(packet) = self.back.pop_front() {
            moved += 1;
            self.sender.handle_packet(self.now, packet);
            while let Some(next) = self.sender.transmit(self.now) {
                put(&mut self.forth, next, &mut self.losses);
            }
        }
        if moved + messages > 0 || !self.forth.is_empty() {
            self.idle_turns = 0;
            return Ok(());
        }
        self.wait()
    }

    /// Nothing moves: time passes until a timer expires.
    fn wait(&mut self) -> anyhow::Result<()> {
        self.idle_turns += 1;
        ensure!(self.idle_turns < 1000, "the transfer does not go on");
        let timeouts = [self.sender.next_timeout(), self.receiver.next_timeout()];
        let Some(next) = timeouts.into_iter().flatten().min() else {
            bail!("the transfer has stopped, and no timer is running");
        };
        self.now = self.now.max(next);
        self.handle_timeouts();
        Ok(())
    }

    fn handle_timeouts(&mut self) {
        for engine in [&mut self.sender, &mut self.receiver] {
            if engine
                .next_timeout()
                .is_some_and(|timeout| timeout <= self.now)
            {
                engine.handle_timeout(self.now);
            }
        }
    }
}

/// Puts a packet on its way, unless it is lost.
fn put<P>(way: &mut VecDeque<P>, packet: P, losses: &mut Losses) {
    if !losses.next() {
        way.push_back(packet);
    }
}

/// Which packets are lost: drawn beforehand, so that drawing costs nothing while measuring.
struct Losses {
    drawn: Vec<bool>,
    next: usize,
}

impl Losses {
    fn new(one_in: u32) -> Losses {
        let mut rng = ChaCha12Rng::seed_from_u64(9260);
        let drawn = match one_in {
            0 => vec![false],
            one_in => (0..100_003).map(|_| rng.next_u32() % one_in == 0).collect(),
        };
        Losses { drawn, next: 0 }
    }

    fn next(&mut self) -> bool {
        let lost = self.drawn.get(self.next).copied().unwrap_or(false);
        self.next = if self.next + 1 >= self.drawn.len() {
            0
        } else {
            self.next + 1
        };
        lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delivers<E: Engine>() {
        for (name, transfer) in cases() {
            let extension = transfer.extension;
            if !extension.is_none_or(|extension| E::EXTENSIONS.contains(&extension)) {
                continue;
            }
            let mut link = Link::<E>::new(&transfer).unwrap();
            while link.delivered < 100 {
                link.turn()
                    .unwrap_or_else(|error| panic!("{name}: {error}"));
            }
            assert!(link.received_bytes >= 100 * transfer.message_bytes as u64);
        }
    }

    #[test]
    fn our_engine_delivers_in_all_cases() {
        delivers::<tandem::Engine>();
    }

    #[test]
    fn dcsctp_delivers_in_all_cases() {
        delivers::<dcsctp::Engine>();
    }

    #[test]
    fn sctp_proto_delivers_in_all_cases() {
        delivers::<sctp_proto::Engine>();
    }
}
