//! One capture file, read packet by packet.

use std::io::{self, Read};

use crate::event_sink::EventSink;
use crate::file::{Captured, File, Item};
use crate::input::Input;
use crate::layers::Layers;
use crate::{Carrier, Event, EventKind, Settings, Time};

/// Why a file cannot be read at all.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file could not be read.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// There is nothing in it.
    #[error("the file is empty")]
    Empty,
    /// It is compressed, which is for others to undo.
    #[error("the file is compressed by {0}: uncompress it first")]
    Compressed(&'static str),
    /// It is of no format that is known.
    #[error("neither pcap, pcapng, nor a text summary of Wireshark")]
    UnknownFormat,
}

/// What was counted while a file was read.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Counts {
    /// Packets in the file.
    pub packets: u64,
    /// Octets of the file that have been read.
    pub octets: u64,
    /// SIP messages.
    pub sip_messages: u64,
    /// SCTP packets.
    pub sctp_packets: u64,
    /// M3UA messages.
    pub m3ua_messages: u64,
    /// TLS connections of which nothing is seen, because no key log has their secrets.
    pub connections_without_secrets: u64,
    /// TLS connections of which nothing is seen although the key log has their secrets, because their cipher suite
    /// or version is not known here.
    pub connections_of_other_suites: u64,
    /// The number of the cipher suite of the last of these, as IANA has it.
    pub other_suite: Option<u16>,
    /// Packets that were not looked into.
    pub passed_over: PassedOver,
    /// What could not be read, or is missing: each one a [`Warning`](crate::Warning).
    pub warnings: u64,
}

/// Packets that were not looked into, since they have neither UDP, TCP nor SCTP that is known here.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, serde::Serialize)]
pub struct PassedOver {
    /// Not IP, such as ARP, or behind a link layer that is not known.
    pub not_ip: u64,
    /// IP packets with another protocol than UDP, TCP and SCTP.
    pub other_protocols: u64,
    /// The number of the protocol of the last of these.
    pub last_protocol: Option<u8>,
    /// Tunnels with something else than IP in them, or nested too deep.
    pub tunnels: u64,
    /// Headers of IP, UDP, TCP or SCTP that cannot be read.
    pub malformed: u64,
}

/// Reads one capture file. Its memory is bounded by what waits for its other parts (fragments,
/// segments, unfinished messages), not by the length of the file.
pub struct Reader<R> {
    file: usize,
    input: Input<R>,
    format: File,
    layers: Layers,
    /// What was read to know its time, and has not been handed over.
    ahead: Option<Item>,
    last_time: Time,
    counts: Counts,
    finished: bool,
}

impl<R: Read> Reader<R> {
    /// Looks at the beginning of a file to see what it is, to read it with the ordinary settings. `file` is
    /// the number that [`Event::file`] will have.
    ///
    /// # Errors
    ///
    /// When it cannot be read, or is nothing that is known.
    pub fn open(input: R, file: usize) -> Result<Reader<R>, OpenError> {
        Reader::open_with(input, file, &Settings::default())
    }

    /// Looks at the beginning of a file to see what it is.
    ///
    /// # Errors
    ///
    /// When it cannot be read, or is nothing that is known.
    pub fn open_with(input: R, file: usize, settings: &Settings) -> Result<Reader<R>, OpenError> {
        let mut input = Input::new(input);
        let Some(format) = File::recognise(&mut input)? else {
            return Err(match input.ready() {
                [] => OpenError::Empty,
                [0x1f, 0x8b, ..] => OpenError::Compressed("gzip"),
                [0x28, 0xb5, 0x2f, 0xfd, ..] => OpenError::Compressed("zstd"),
                [0x04, 0x22, 0x4d, 0x18, ..] => OpenError::Compressed("lz4"),
                [0xfd, b'7', b'z', ..] => OpenError::Compressed("xz"),
                _ => OpenError::UnknownFormat,
            });
        };
        Ok(Reader {
            file,
            input,
            format,
            layers: Layers::new(settings),
            ahead: None,
            last_time: Time::default(),
            counts: Counts::default(),
            finished: false,
        })
    }

    /// When the next packet was captured, so that several files can be merged by time. `None` at the end;
    /// [`step`](Reader::step) may still have something to tell then.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn next_time(&mut self) -> io::Result<Option<Time>> {
        if self.ahead.is_none() {
            self.ahead = self.format.next(&mut self.input)?;
        }
        Ok(self.ahead.as_ref().map(|item| match item {
            Item::Packet(packet) => packet.time,
            Item::Summary(summary) => summary.time,
            Item::Secrets(_) | Item::Warning(_) => self.last_time,
        }))
    }

    /// Reads the next packet and hands over its events, if it has any. False at the end of the file.
    ///
    /// # Errors
    ///
    /// When the file cannot be read. A damaged file is no error: it leads to a
    /// [`Warning`](crate::Warning).
    pub fn step(&mut self, on_event: &mut dyn FnMut(Event<'_>)) -> io::Result<bool> {
        let mut on_event = on_event;
        if self.step_ready(&mut on_event) {
            return Ok(true);
        }
        self.step_any(on_event)
    }

    /// The same for so many packets, one after the other. False at the end of the file.
    ///
    /// # Errors
    ///
    /// As [`step`](Reader::step).
    pub fn steps(&mut self, most: usize, on_event: &mut impl FnMut(Event<'_>)) -> io::Result<bool> {
        for _ in 0..most {
            if !self.step_ready(on_event) && !self.step_any(on_event)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Hands over the events of the next packet if that is in the buffer already, as nearly all packets of a file are, so that
    /// it is not copied. False where it has to be read first, or is no packet.
    #[inline(always)]
    fn step_ready(&mut self, on_event: &mut impl FnMut(Event<'_>)) -> bool {
        if self.ahead.is_some() {
            return false;
        }
        let Some((time, packet)) = self.format.next_ready(&mut self.input) else {
            return false;
        };
        self.last_time = time;
        self.counts.packets += 1;
        let number = self.counts.packets;
        if let Some(udp) = self.layers.usual_message(&packet) {
            let (source, destination) = udp.ends();
            self.counts.sip_messages += 1;
            on_event(Event {
                time,
                file: self.file,
                packet: number,
                source,
                destination,
                kind: EventKind::Sip {
                    carrier: Carrier::Udp,
                    octets: udp.payload,
                    cut: false,
                },
            });
        } else {
            let mut sink = EventSink {
                file: self.file,
                packet: number,
                time,
                counts: &mut self.counts,
                on_event,
            };
            self.layers.read(packet, &mut sink);
        }
        self.counts.octets = self.input.offset();
        true
    }

    /// The same for whatever comes next.
    #[inline(never)]
    fn step_any(&mut self, on_event: &mut dyn FnMut(Event<'_>)) -> io::Result<bool> {
        let item = match self.ahead.take() {
            Some(item) => Some(item),
            None => self.format.next(&mut self.input)?,
        };
        self.counts.octets = self.input.offset();
        let mut number = self.counts.packets;
        match &item {
            Some(Item::Packet(packet)) => {
                self.last_time = packet.time;
                number += 1;
                self.counts.packets += 1;
            }
            Some(Item::Summary(summary)) => {
                self.last_time = summary.time;
                number = summary.number;
                self.counts.packets += 1;
            }
            _ => {}
        }
        let mut sink = EventSink {
            file: self.file,
            packet: number,
            time: self.last_time,
            counts: &mut self.counts,
            on_event,
        };
        match item {
            Some(Item::Packet(packet)) => {
                let packet = Captured {
                    link: packet.link,
                    octets: self.input.octets(packet.octets),
                    comment: &packet.comment,
                };
                self.layers.read(packet, &mut sink);
            }
            Some(Item::Summary(summary)) => summary.emit(&mut sink),
            Some(Item::Secrets(lines)) => self.layers.add_keys(&lines),
            Some(Item::Warning(warning)) => sink.warn(warning),
            None => {
                if !self.finished {
                    self.finished = true;
                    self.layers.finish(&mut sink);
                }
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// What was counted so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }
}
