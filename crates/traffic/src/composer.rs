//! The sender's side of a run: packets as they leave, and those that come back.

use std::time::Duration;

use measures::Delays;

use crate::cipher::{Cipher, Key};
use crate::clock::Timestamp;
use crate::encryption::Encryption;
use crate::header::{HEADER_OCTETS, Header, Kind};
use crate::payload::Payload;
use crate::work::Work;

/// Which run of which experiment, and how its packets look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packets {
    /// Which experiment.
    pub experiment: u64,
    /// Which run of it.
    pub run: u32,
    /// Octets of a packet with its header, before encryption adds some.
    pub size: usize,
    /// How they are encrypted.
    pub encryption: Encryption,
    /// With what.
    pub key: Key,
}

impl Packets {
    /// Octets of a packet as it leaves.
    pub fn wire_size(&self) -> usize {
        self.size.max(HEADER_OCTETS) + self.encryption.overhead()
    }
}

/// Makes packets.
#[derive(Debug)]
pub struct Composer {
    packets: Packets,
    cipher: Cipher,
    payload: Payload,
    number: u64,
    sealing: Work,
}

impl Composer {
    /// Packets that carry a payload.
    pub fn new(packets: Packets, payload: Payload) -> Composer {
        Composer {
            cipher: Cipher::new(packets.encryption, &packets.key),
            packets,
            payload,
            number: 0,
            sealing: Work::default(),
        }
    }

    /// Appends the next packet, made now by `clock`: its timestamp is from before encryption, so that what
    /// that takes is in all times that are measured by it.
    pub fn write(&mut self, clock: impl Fn() -> Timestamp, into: &mut Vec<u8>) {
        let start = into.len();
        self.number += 1;
        let now = clock();
        let header = Header {
            length: u32::try_from(self.packets.wire_size()).unwrap_or(u32::MAX),
            kind: Kind::Data,
            encryption: self.packets.encryption,
            run: self.packets.run,
            experiment: self.packets.experiment,
            number: self.number,
            timestamp: now,
        };
        into.extend(header.to_octets());
        let text = self.packets.size.saturating_sub(HEADER_OCTETS);
        self.payload.fill(text, into);
        if self.packets.encryption == Encryption::None {
            return;
        }
        into.resize(start + self.packets.wire_size(), 0);
        let before = clock();
        if let Some(packet) = into.get_mut(start..) {
            self.cipher.seal(packet);
        }
        self.sealing.add(text, clock().since(before));
    }

    /// Packets made until now.
    pub fn count(&self) -> u64 {
        self.number
    }

    /// What encryption took.
    pub fn sealing(&self) -> Work {
        self.sealing
    }
}

/// Takes packets that come back.
#[derive(Debug)]
pub struct Echoes {
    packets: Packets,
    cipher: Cipher,
    round_trips: Delays,
    /// Came back, but not as ours.
    strange: u64,
}

impl Echoes {
    /// Nothing has come back yet.
    pub fn new(packets: Packets) -> Echoes {
        Echoes {
            cipher: Cipher::new(packets.encryption, &packets.key),
            packets,
            round_trips: Delays::new(),
            strange: 0,
        }
    }

    /// Something came back. The round trip ends when it is decrypted.
    pub fn handle(&mut self, clock: impl Fn() -> Timestamp, packet: &mut [u8]) {
        let round_trip = self.round_trip(clock, packet);
        match round_trip {
            Some(round_trip) => self.round_trips.record(round_trip),
            None => self.strange += 1,
        }
    }

    /// Round trips.
    pub fn round_trips(&self) -> &Delays {
        &self.round_trips
    }

    /// What came back and was not ours.
    pub fn strange(&self) -> u64 {
        self.strange
    }

    fn round_trip(&self, clock: impl Fn() -> Timestamp, packet: &mut [u8]) -> Option<Duration> {
        let header = Header::read(packet)?;
        let is_ours = header.kind == Kind::Echo
            && header.experiment == self.packets.experiment
            && header.run == self.packets.run
            && header.encryption == self.packets.encryption
            && header.length as usize == packet.len();
        if !is_ours {
            return None;
        }
        self.cipher.open(packet).ok()?;
        clock().since(header.timestamp)
    }
}
