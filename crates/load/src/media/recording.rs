//! What a call plays once or a few times: packets of a capture, a sound, keys.

use std::time::Duration;

use media::g711::{CLOCK_RATE, Law};
use media::wav;

use super::pcap;

/// Packets of RTP with their times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recording {
    packets: Vec<RecordedPacket>,
    /// How long it lasts, after which it may begin again.
    length: Duration,
    /// How much timestamps grow in that time.
    ticks: u32,
    /// How often it is played; without, until the call ends.
    times: Option<u32>,
    /// Whether source, sequence numbers and timestamps are the call's own. Those of a capture stay as they are, as with SIPp.
    is_renumbered: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct RecordedPacket {
    at: Duration,
    octets: Box<[u8]>,
}

/// A packet that is due: where its octets are, and what is the call's own in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Due<'r> {
    pub(super) at: Duration,
    pub(super) octets: &'r [u8],
    /// What is added to the timestamp, where it is the call's own, as the source and the sequence number are then.
    pub(super) renumbered: Option<u32>,
}

/// A payload of a sound that is not decoded.
#[derive(Clone, Copy, Debug)]
struct Payload {
    octets: usize,
    time: Duration,
    ticks: u32,
}

/// The longest sound, in packets.
const MOST_PACKETS: usize = 200_000;
/// The payload type of keys where nothing else is said, as SIPp has it.
const KEYS: u8 = 101;

impl Recording {
    /// The datagrams of a capture in the format pcap.
    ///
    /// # Errors
    /// What is wrong with the file.
    pub fn pcap(file: &[u8]) -> Result<Recording, String> {
        let packets: Vec<RecordedPacket> = pcap::datagrams(file)?
            .into_iter()
            .map(|captured| RecordedPacket {
                at: captured.at,
                octets: captured.payload.into(),
            })
            .collect();
        Ok(Recording {
            length: packets.last().map(|last| last.at).unwrap_or_default(),
            packets,
            ticks: 0,
            times: Some(1),
            is_renumbered: false,
        })
    }

    /// A sound as packets with this payload type: a WAV file for G.711, or coded octets for it, for G.722 (9), G.729 (18) and iLBC (98,
    /// 97). It is played `times` times, or until the call ends.
    ///
    /// # Errors
    /// What is wrong with the file or the payload type.
    pub fn sound(file: &[u8], payload_type: u8, times: Option<u32>) -> Result<Recording, String> {
        let law = Law::of_payload_type(payload_type);
        let coded: Vec<u8> = match law {
            Some(law) if file.starts_with(b"RIFF") => {
                let sound = wav::read(file).map_err(|error| error.to_string())?;
                let samples = sound.at_rate(CLOCK_RATE);
                samples
                    .into_iter()
                    .map(|sample| law.encode(sample))
                    .collect()
            }
            _ => file.to_vec(),
        };
        let payload = match payload_type {
            0 | 8 | 9 => Payload {
                octets: 160,
                time: Duration::from_millis(20),
                ticks: 160,
            },
            18 => Payload {
                octets: 20,
                time: Duration::from_millis(20),
                ticks: 160,
            },
            97 | 98 => Payload {
                octets: 50,
                time: Duration::from_millis(30),
                ticks: 240,
            },
            other => {
                return Err(format!(
                    "payload type {other} is not supported: 0, 8, 9, 18, 97 and 98 are"
                ));
            }
        };
        let chunks = coded.chunks_exact(payload.octets);
        if chunks.len() == 0 || chunks.len() > MOST_PACKETS {
            return Err(format!(
                "it has no packet of sound, or more than {MOST_PACKETS}"
            ));
        }
        let packets: Vec<RecordedPacket> = (0_u32..)
            .zip(chunks)
            .map(|(number, chunk)| {
                let octets = packet(
                    payload_type,
                    false,
                    (number as u16, number.wrapping_mul(payload.ticks)),
                    chunk,
                );
                RecordedPacket {
                    at: payload.time * number,
                    octets,
                }
            })
            .collect();
        let count = packets.len() as u32;
        Ok(Recording {
            packets,
            length: payload.time * count,
            ticks: payload.ticks.wrapping_mul(count),
            times,
            is_renumbered: true,
        })
    }

    /// Keys as events of RFC 4733: each is pressed for 100 ms, and the next follows 100 ms later.
    ///
    /// # Errors
    /// When one of them is no key.
    pub fn keys(keys: &str) -> Result<Recording, String> {
        const PRESSED: u32 = 5;
        const STEP: u32 = 20;
        const TICKS: u32 = 160;
        let mut packets = Vec::new();
        for (key, name) in (0_u32..).zip(keys.chars()) {
            let event = "0123456789*#ABCD".find(name.to_ascii_uppercase());
            let event =
                event.ok_or_else(|| format!("{name:?} is no key: 0 to 9, *, #, A to D are"))?;
            let begin = key * 2 * PRESSED;
            // The last one is sent three times (section 2.5.1.4).
            for number in 0..PRESSED + 2 {
                let is_end = number + 1 >= PRESSED;
                let duration = (number + 1).min(PRESSED) * TICKS;
                let volume = 10 | if is_end { 0x80 } else { 0 };
                let [high, low] = (duration as u16).to_be_bytes();
                let sequence = key * (PRESSED + 2) + number;
                packets.push(RecordedPacket {
                    at: Duration::from_millis(((begin + number.min(PRESSED)) * STEP).into()),
                    octets: packet(
                        KEYS,
                        number == 0,
                        (sequence as u16, begin * TICKS),
                        &[event as u8, volume, high, low],
                    ),
                });
            }
        }
        if packets.is_empty() || packets.len() > MOST_PACKETS {
            return Err("there are no keys, or too many".to_owned());
        }
        Ok(Recording {
            length: packets.last().map(|last| last.at).unwrap_or_default(),
            packets,
            ticks: 0,
            times: Some(1),
            is_renumbered: true,
        })
    }

    /// A packet by its number, counted on from one time to the next; nothing behind the last one.
    pub(super) fn packet(&self, number: u64) -> Option<Due<'_>> {
        let count = self.packets.len() as u64;
        let time = u32::try_from(number.checked_div(count)?).ok()?;
        if self.times.is_some_and(|times| time >= times) {
            return None;
        }
        let index = usize::try_from(number % count).ok()?;
        let packet = self.packets.get(index)?;
        let renumbered = time.wrapping_mul(self.ticks);
        Some(Due {
            at: packet.at.saturating_add(self.length.saturating_mul(time)),
            octets: &packet.octets,
            renumbered: self.is_renumbered.then_some(renumbered),
        })
    }
}

/// A packet from source 0.
fn packet(
    payload_type: u8,
    marker: bool,
    (sequence, timestamp): (u16, u32),
    payload: &[u8],
) -> Box<[u8]> {
    let mut octets = Vec::with_capacity(12 + payload.len());
    let packet = media::rtp::RtpPacket {
        marker,
        payload_type,
        sequence,
        timestamp,
        ssrc: 0,
        payload,
    };
    packet.write(&mut octets);
    octets.into()
}

#[cfg(test)]
mod tests {
    use media::rtp::RtpPacket;

    use super::*;

    #[test]
    fn a_sound_is_cut_into_packets_and_begins_again() {
        let file: Vec<u8> = (0..=255).chain(0..=255).collect();
        let recording = Recording::sound(&file, 8, Some(2)).unwrap();
        let times: Vec<u128> = (0..)
            .map_while(|number| Some(recording.packet(number)?.at.as_millis()))
            .collect();
        // What is no whole packet at the end is not played.
        assert_eq!(times, [0, 20, 40, 60, 80, 100]);
        let fourth = recording.packet(3).unwrap();
        assert_eq!(fourth.renumbered, Some(480));
        let packet = RtpPacket::read(fourth.octets).unwrap();
        assert_eq!(
            (packet.payload_type, packet.sequence, packet.payload),
            (8, 0, &file[..160])
        );
        let endless = Recording::sound(&file, 18, None).unwrap();
        assert!(endless.packet(1_000_000).is_some());
        assert!(Recording::sound(&file, 3, None).is_err());
        assert!(Recording::sound(b"short", 0, None).is_err());
    }

    #[test]
    fn keys_are_events_with_three_ends() {
        let recording = Recording::keys("1#").unwrap();
        let packets: Vec<_> = (0..).map_while(|number| recording.packet(number)).collect();
        assert_eq!(packets.len(), 14);
        let events: Vec<_> = packets
            .iter()
            .map(|due| RtpPacket::read(due.octets).unwrap())
            .collect();
        assert!(events[0].marker && !events[1].marker && events[7].marker);
        assert_eq!(events[6].payload, [1, 0x8a, 3, 32]);
        assert_eq!(events[7].payload[0], 11);
        assert_eq!((events[0].timestamp, events[7].timestamp), (0, 1600));
        assert!(events.iter().all(|event| event.payload_type == 101));
        assert!(Recording::keys("1x").is_err() && Recording::keys("").is_err());
    }
}
