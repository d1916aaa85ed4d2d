//! The conversation of sender and receiver, and how packets are cut out of a stream.
//!
//! ```text
//! sender                                    receiver
//!   Order { run, size, key, … }   ──►
//!                                 ◄──       Accepted, or Refused { reason }
//!   packets                       ══►
//!                                 ◄══       every n-th of them, sent back
//!   Sent { packets }              ──►
//!                                 ◄──       Report
//! ```
//!
//! Its words are packets of kind `Control` with JSON behind the header. Over TCP and SCTP they go the way
//! of the data, in order with it; with UDP there is a TCP connection to the same port number beside it.

use anyhow::{Context, bail};
use bytes::BytesMut;
use perf::Protocol;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::cipher::Key;
use crate::clock::Timestamp;
use crate::composer::Packets;
use crate::encryption::Encryption;
use crate::header::{HEADER_OCTETS, Header, Kind, MAX_PACKET_OCTETS};
use crate::reception::ReceiverReport;

/// The version of the conversation; two programs of different versions refuse each other.
pub(crate) const VERSION: u32 = 1;

/// A run, as the sender announces it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Order {
    pub(crate) version: u32,
    /// Which experiment.
    pub experiment: u64,
    /// Which run of it.
    pub run: u32,
    /// What carries it.
    pub transport: Protocol,
    /// Octets of a packet with its header, before encryption.
    pub size: usize,
    /// How it is encrypted.
    pub encryption: Encryption,
    pub(crate) key: Key,
    /// Every how many packets one is sent back; 0 for none.
    pub echo: u32,
    /// The name of the sender's clock.
    pub(crate) clock: String,
}

impl Order {
    pub(crate) fn packets(&self) -> Packets {
        Packets {
            experiment: self.experiment,
            run: self.run,
            size: self.size,
            encryption: self.encryption,
            key: self.key,
        }
    }

    /// Whether it can be done.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.version != VERSION {
            return Err(format!(
                "the sender speaks version {}, this receiver {VERSION}",
                self.version
            ));
        }
        let largest = max_size(self.transport);
        if !(HEADER_OCTETS..=largest).contains(&self.size) {
            return Err(format!(
                "packets of {} bytes: {} takes from {HEADER_OCTETS} to {largest}",
                self.size, self.transport
            ));
        }
        Ok(())
    }
}

/// The largest packet of a transport before encryption, which may add a tag.
pub fn max_size(transport: Protocol) -> usize {
    const TAG: usize = 16;
    match transport {
        Protocol::Udp => 65_507 - TAG,
        // An SCTP endpoint takes messages of 256 KiB.
        Protocol::Tcp | Protocol::Sctp => (1 << 18) - TAG,
    }
}

/// What a sender says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum SenderMessage {
    Order(Order),
    /// The run is over: so many packets were sent.
    Sent {
        packets: u64,
    },
}

/// What a receiver says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum ReceiverMessage {
    Accepted,
    Refused { reason: String },
    Report(Box<ReceiverReport>),
}

/// A word of the conversation as a packet.
pub(crate) fn encode<T: Serialize>(message: &T) -> anyhow::Result<Vec<u8>> {
    let json = serde_json::to_vec(message)?;
    let length = HEADER_OCTETS + json.len();
    anyhow::ensure!(length <= MAX_PACKET_OCTETS, "a word of {length} bytes");
    let header = Header {
        length: u32::try_from(length)?,
        kind: Kind::Control,
        encryption: Encryption::None,
        run: 0,
        experiment: 0,
        number: 0,
        timestamp: Timestamp(0),
    };
    let mut packet = header.to_octets().to_vec();
    packet.extend(json);
    Ok(packet)
}

/// Reads a word of the conversation.
pub(crate) fn decode<T: DeserializeOwned>(packet: &[u8]) -> anyhow::Result<T> {
    let json = packet.get(HEADER_OCTETS..).unwrap_or_default();
    serde_json::from_slice(json).context("invalid message on the control connection")
}

/// Cuts packets out of a stream of octets.
#[derive(Debug, Default)]
pub struct Frames {
    buffer: BytesMut,
}

impl Frames {
    /// More of the stream.
    pub fn push(&mut self, octets: &[u8]) {
        self.buffer.extend_from_slice(octets);
    }

    /// The next packet, if it is there in full.
    ///
    /// # Errors
    ///
    /// When the stream carries something else; it is of no use any more.
    pub fn next_packet(&mut self) -> anyhow::Result<Option<BytesMut>> {
        if self.buffer.len() < HEADER_OCTETS {
            return Ok(None);
        }
        let Some(header) = Header::read(&self.buffer) else {
            bail!("unexpected data on the connection");
        };
        let length = header.length as usize;
        if self.buffer.len() < length {
            return Ok(None);
        }
        Ok(Some(self.buffer.split_to(length)))
    }
}

/// The packets that lie one behind the other.
pub(crate) fn split(mut packets: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let length = Header::read(packets)?.length as usize;
        let (packet, rest) = packets.split_at_checked(length)?;
        packets = rest;
        Some(packet)
    })
}

/// A stranger's words, fit for a terminal: bounded, and without control characters.
pub(crate) fn printable(text: &str) -> String {
    const MAX_CHARACTERS: usize = 200;
    let shown = |character: char| match character.is_control() {
        true => '?',
        false => character,
    };
    text.chars().take(MAX_CHARACTERS).map(shown).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn order() -> Order {
        Order {
            version: VERSION,
            experiment: 1,
            run: 2,
            transport: Protocol::Udp,
            size: 172,
            encryption: Encryption::Aes256Gcm,
            key: Key([1; 32]),
            echo: 1,
            clock: "a name".into(),
        }
    }

    #[test]
    fn words_survive() {
        let packet = encode(&SenderMessage::Order(order())).unwrap();
        let read: SenderMessage = decode(&packet).unwrap();
        assert_eq!(read, SenderMessage::Order(order()));
        let report = ReceiverMessage::Report(Box::default());
        let read: ReceiverMessage = decode(&encode(&report).unwrap()).unwrap();
        assert_eq!(read, report);
        assert!(decode::<SenderMessage>(&packet[..50]).is_err());
    }

    #[test]
    fn orders_have_bounds() {
        assert_eq!(order().check(), Ok(()));
        for (version, size) in [(2, 172), (1, 39), (1, 65_500)] {
            let wrong = Order {
                version,
                size,
                ..order()
            };
            assert!(wrong.check().is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn packets_lie_one_behind_the_other() {
        let one = encode(&SenderMessage::Sent { packets: 1 }).unwrap();
        let all = [one.as_slice(), &one, b"rest"].concat();
        assert_eq!(split(&all).count(), 2);
    }

    #[test]
    fn a_strangers_words_cannot_move_the_cursor() {
        assert_eq!(printable("no\x1b[2J\nway"), "no?[2J?way");
    }

    proptest! {
        /// However a stream is cut, the same packets come out of it.
        #[test]
        fn streams_may_be_cut_anywhere(
            lengths in prop::collection::vec(0_usize..200, 1..20),
            piece in 1_usize..300,
        ) {
            let mut stream = Vec::new();
            for length in &lengths {
                let message = SenderMessage::Sent { packets: 10_u64.pow(*length as u32 % 19) };
                stream.extend(encode(&message).unwrap());
            }
            let mut frames = Frames::default();
            let mut count = 0;
            for piece in stream.chunks(piece) {
                frames.push(piece);
                while frames.next_packet().unwrap().is_some() {
                    count += 1;
                }
            }
            prop_assert_eq!(count, lengths.len());
        }

        #[test]
        fn anything_may_come(octets in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut frames = Frames::default();
            frames.push(&octets);
            while let Ok(Some(packet)) = frames.next_packet() {
                prop_assert!(packet.len() >= HEADER_OCTETS);
            }
        }
    }
}
