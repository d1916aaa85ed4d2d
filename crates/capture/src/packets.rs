//! Packets that come one by one, from an interface and not from a file.

use crate::event_sink::EventSink;
use crate::file::{Captured, LinkType};
use crate::hep::HepPacket;
use crate::layers::Layers;
use crate::{Counts, Event, Settings, Time};

/// Reads packets as an interface hands them over: with the header of Linux cooked capture v2.
pub struct Packets {
    layers: Layers,
    last_time: Time,
    counts: Counts,
}

impl Packets {
    /// Nothing was read yet.
    pub fn new(settings: &Settings) -> Packets {
        Packets {
            layers: Layers::new(settings),
            last_time: Time::default(),
            counts: Counts::default(),
        }
    }

    /// Reads a packet and hands over its events.
    pub fn read(&mut self, time: Time, octets: &[u8], on_event: &mut dyn FnMut(Event<'_>)) {
        self.last_time = time;
        self.counts.packets += 1;
        self.counts.octets += octets.len() as u64;
        let packet = Captured {
            link: LinkType::LINUX_SLL2,
            octets,
            comment: &[],
        };
        let mut sink = EventSink {
            file: 0,
            packet: self.counts.packets,
            time,
            counts: &mut self.counts,
            on_event,
        };
        self.layers.read(packet, &mut sink);
    }

    /// Reads a datagram of HEP version 3, by which a server sends copies of its messages, and hands over its event. Its time and addresses
    /// are those that the datagram tells; `received` is when it came.
    pub fn read_hep(&mut self, received: Time, octets: &[u8], on_event: &mut dyn FnMut(Event<'_>)) {
        self.counts.packets += 1;
        self.counts.octets += octets.len() as u64;
        let Some(hep) = HepPacket::read(octets) else {
            self.counts.passed_over.malformed += 1;
            return;
        };
        let time = hep.time.unwrap_or(received);
        self.last_time = time;
        let mut sink = EventSink {
            file: 0,
            packet: self.counts.packets,
            time,
            counts: &mut self.counts,
            on_event,
        };
        self.layers.read_hep(&hep, &mut sink);
    }

    /// Adds secrets of TLS connections, as lines of a key log.
    pub fn add_keys(&mut self, lines: &[u8]) {
        self.layers.add_keys(lines);
    }

    /// Hands over what waits for packets that will not come any more.
    pub fn finish(&mut self, on_event: &mut dyn FnMut(Event<'_>)) {
        let mut sink = EventSink {
            file: 0,
            packet: self.counts.packets,
            time: self.last_time,
            counts: &mut self.counts,
            on_event,
        };
        self.layers.finish(&mut sink);
    }

    /// What was counted so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }
}
