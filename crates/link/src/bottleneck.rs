//! How much a link carries a second, and how much waits for it: what is configured.

use crate::codel::CoDel;
use crate::drd::Drd;
use crate::queue_length::{Length, Unit};
use crate::red::Red;
use crate::trace::Trace;
use crate::words::{
    Files, Words, WordsError, bytes, rate, show_bytes, show_rate, show_signed_bytes, signed_bytes,
};
use std::fmt::Write;

/// A link that carries no more than its rate: packets leave one after the other, and what comes
/// faster waits in a queue with room for so many packets and so many bytes. What finds no room is
/// dropped.
///
/// In words it has two parts. Bandwidth: `100kB/s`, `1Mbit/s overhead 28B burst 15kB`, `trace FILE`.
/// Queue: `100p`, `32kB`, `100p 32kB`, and how it is managed: `100p red 5p 15p ecn`, `codel`.
#[derive(Clone, PartialEq, Debug)]
pub struct Bottleneck {
    /// How much leaves.
    pub rate: Rate,
    /// Bytes that leave at once after a time without packets: what the link does not use of its rate
    /// it saves up to this, and it begins with that much saved. The rate of a trace cannot be saved.
    pub burst_bytes: u64,
    /// Bytes that each packet takes on this link besides its own, such as headers of lower layers;
    /// negative when it takes fewer. They count for the rate, not for the queue.
    pub overhead_bytes: i32,
    /// Packets that wait, the one that is leaving included; at most [`MAX_QUEUE_PACKETS`].
    pub queue_packets: usize,
    /// Bytes of the packets that wait, the one that is leaving included. A packet that finds
    /// nobody waiting is taken however large it is.
    pub queue_bytes: usize,
    /// Which packets are dropped before the queue is full.
    pub management: Management,
    /// Whether packets whose senders know explicit congestion notification (RFC 3168) are marked
    /// where the management would drop them.
    pub ecn: bool,
}

/// No queue holds more packets.
pub const MAX_QUEUE_PACKETS: usize = 1 << 20;

/// How much a link carries.
#[derive(Clone, PartialEq, Debug)]
pub enum Rate {
    /// So many bits a second; 0 counts as 1.
    Constant(u64),
    /// As much as a recorded link did. The trace begins when the link does: with the first packet, or
    /// when its schedule does.
    Trace(Trace),
}

/// Which packets are dropped or marked before the queue is full.
#[derive(Clone, PartialEq, Default, Debug)]
pub enum Management {
    /// None: those that come to a full queue are dropped.
    #[default]
    DropTail,
    /// Random early detection.
    Red(Red),
    /// Derivative random drop.
    Drd(Drd),
    /// Controlled delay.
    CoDel(CoDel),
}

impl Bottleneck {
    /// A link of so many bits a second with a queue of 1,000 packets, as a network card has it, and as
    /// many bytes as these may have.
    pub fn new(bits_per_second: u64) -> Bottleneck {
        Bottleneck::with_rate(Rate::Constant(bits_per_second))
    }

    /// A link of that rate with the same queue.
    pub fn with_rate(rate: Rate) -> Bottleneck {
        Bottleneck {
            rate,
            burst_bytes: 0,
            overhead_bytes: 0,
            queue_packets: 1000,
            queue_bytes: usize::MAX,
            management: Management::DropTail,
            ecn: false,
        }
    }

    /// Reads a bandwidth; the text of a trace comes from `files`.
    ///
    /// # Errors
    ///
    /// When the words say no bandwidth, or the trace none.
    pub fn read_bandwidth(text: &str, files: &mut Files<'_>) -> Result<Bottleneck, WordsError> {
        Bottleneck::read_bandwidth_with(text, files, None)
    }

    /// The same; what `files` do not have may be the trace that is known.
    pub(crate) fn read_bandwidth_with(
        text: &str,
        files: &mut Files<'_>,
        known: Option<&Trace>,
    ) -> Result<Bottleneck, WordsError> {
        let mut words = Words::new(text);
        let mut bottleneck = if words.next_if("trace") {
            let name = words.value("the file of a trace", |word| Ok(word.to_owned()))?;
            let trace = match (files(&name), known) {
                (Ok(text), _) => Trace::parse(&name, &text)?,
                (Err(_), Some(known)) if known.name() == name => known.clone(),
                (Err(why), _) => return Err(WordsError::new(why)),
            };
            Bottleneck::with_rate(Rate::Trace(trace))
        } else {
            Bottleneck::new(words.value("a rate such as 100kB/s or 1Mbit/s", rate)?)
        };
        if words.next_if("overhead") {
            bottleneck.overhead_bytes = words.value("bytes a packet", signed_bytes)?;
        }
        if words.next_if("burst") {
            bottleneck.burst_bytes = words.value("bytes such as 15kB", bytes)?;
        }
        words.end()?;
        Ok(bottleneck)
    }

    /// Reads what a queue shall be, with the rate left as it is.
    ///
    /// # Errors
    ///
    /// When the words say no queue.
    pub fn read_queue(&mut self, text: &str) -> Result<(), WordsError> {
        let mut words = Words::new(text);
        let default = Bottleneck::new(0);
        self.queue_packets = default.queue_packets;
        self.queue_bytes = default.queue_bytes;
        let (mut packets, mut bytes) = (None, None);
        while let Some(length) = words.next_if_ok(Length::parse) {
            let bound = match length.unit {
                Unit::Packets => &mut packets,
                Unit::Bytes => &mut bytes,
            };
            if bound.replace(length.value).is_some() {
                return Err(WordsError::new("the queue has two bounds of one unit"));
            }
        }
        let bound = |value: u64| usize::try_from(value).unwrap_or(usize::MAX);
        if let Some(bytes) = bytes {
            self.queue_bytes = bound(bytes);
            // Whoever bounds bytes alone means these.
            self.queue_packets = MAX_QUEUE_PACKETS;
        }
        if let Some(packets) = packets {
            self.queue_packets = bound(packets).min(MAX_QUEUE_PACKETS);
        }
        self.management = if words.next_if("red") {
            Management::Red(Red::read(&mut words)?)
        } else if words.next_if("drd") {
            Management::Drd(Drd::read(&mut words)?)
        } else if words.next_if("codel") {
            Management::CoDel(CoDel::read(&mut words)?)
        } else if words.next_if("drop-tail") || packets.is_some() || bytes.is_some() {
            Management::DropTail
        } else {
            return Err(words.unexpected("a bound such as 50p or 32kB, or codel, red, drd"));
        };
        self.ecn = words.next_if("ecn");
        words.end()
    }

    /// The bandwidth in words.
    pub fn show_bandwidth(&self) -> String {
        let mut text = match &self.rate {
            Rate::Constant(bits_per_second) => show_rate(*bits_per_second),
            Rate::Trace(trace) => format!("trace {}", trace.name()),
        };
        if self.overhead_bytes != 0 {
            text += " overhead ";
            text += &show_signed_bytes(self.overhead_bytes);
        }
        if self.burst_bytes != 0 {
            text += " burst ";
            text += &show_bytes(self.burst_bytes);
        }
        text
    }

    /// The queue in words.
    pub fn show_queue(&self) -> String {
        let mut bounds = Vec::new();
        // Words that bound bytes alone leave as many packets as there may be.
        let is_bounded = self.queue_bytes != usize::MAX;
        if self.queue_packets != MAX_QUEUE_PACKETS || !is_bounded {
            bounds.push(format!("{}p", self.queue_packets));
        }
        if is_bounded {
            bounds.push(show_bytes(self.queue_bytes as u64));
        }
        let mut text = bounds.join(" ");
        // Writing to a string does not fail.
        let _ = match &self.management {
            Management::DropTail => Ok(()),
            Management::Red(red) => write!(text, " {red}"),
            Management::Drd(drd) => write!(text, " {drd}"),
            Management::CoDel(codel) => write!(text, " {codel}"),
        };
        if self.ecn {
            text += " ecn";
        }
        text
    }
}
