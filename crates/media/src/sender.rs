//! The sound that goes out: from samples to the packets of a stream, with keys in between (RFC 3550 section 5.1, RFC 4733
//! section 2.5).

use std::collections::VecDeque;

use crate::codec::{CodecError, Encoder};
use crate::receiver::StreamFormat;
use crate::rtp::RtpPacket;
use crate::telephone_event::{Key, KeySender};

/// How long a key is held and how long the pause after it is, in packets: 100 ms each.
const KEY_PACKETS: u32 = 5;
const PAUSE_PACKETS: u32 = 5;
/// Keys that wait to be sent.
const MAX_KEYS: usize = 128;

/// Sends a stream.
#[derive(Debug)]
pub struct Sender {
    format: StreamFormat,
    encoder: Encoder,
    ssrc: u32,
    sequence: u16,
    timestamp: u32,
    /// The next packet of sound is the first one after a pause (RFC 3551 section 4.1).
    begins: bool,
    samples: Vec<i16>,
    waiting: VecDeque<Key>,
    key: Option<KeySender>,
    /// Packets until the next key may begin.
    pause: u32,
    packets: u32,
    octets: u32,
}

/// Where a stream begins: values that nobody can guess (RFC 3550 section 5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamStart {
    /// The source.
    pub ssrc: u32,
    /// Its first sequence number.
    pub sequence: u16,
    /// Its first timestamp.
    pub timestamp: u32,
}

impl Sender {
    /// Sends a stream.
    ///
    /// # Errors
    ///
    /// There is no encoder.
    pub fn new(format: StreamFormat, start: StreamStart) -> Result<Sender, CodecError> {
        Ok(Sender {
            encoder: Encoder::new(format.codec)?,
            format,
            ssrc: start.ssrc,
            sequence: start.sequence,
            timestamp: start.timestamp,
            begins: true,
            samples: Vec::new(),
            waiting: VecDeque::new(),
            key: None,
            pause: 0,
            packets: 0,
            octets: 0,
        })
    }

    /// Presses a key: it is sent after those that were pressed before. `false` when the other side takes no keys in this way,
    /// or too many wait.
    pub fn press(&mut self, key: Key) -> bool {
        let takes = self.format.key_payload_type.is_some() && self.waiting.len() < MAX_KEYS;
        if takes {
            self.waiting.push_back(key);
        }
        takes
    }

    /// Whether keys are being sent or wait.
    pub fn is_pressing(&self) -> bool {
        self.key.is_some() || !self.waiting.is_empty()
    }

    /// Samples that were recorded; `send` hears each packet that is full.
    pub fn push(&mut self, samples: &[i16], mut send: impl FnMut(&[u8])) {
        self.samples.extend_from_slice(samples);
        let frame = self.format.codec.packet_samples();
        while self.samples.len() >= frame {
            let rest = self.samples.split_off(frame);
            let samples = std::mem::replace(&mut self.samples, rest);
            self.packet(&samples, &mut send);
        }
    }

    /// So many samples are not sent. Time goes on without them, and the next packet begins a talkspurt (RFC 3550 section 5.1,
    /// RFC 3551 section 4.1).
    pub fn skip(&mut self, samples: usize) {
        let ticks = self.format.codec.ticks(samples);
        self.timestamp = self.timestamp.wrapping_add(ticks);
        self.begins = true;
    }

    /// The source.
    pub fn ssrc(&self) -> u32 {
        self.ssrc
    }

    /// The timestamp of what is recorded now.
    pub fn timestamp(&self) -> u32 {
        self.timestamp
    }

    /// Packets sent, and octets of payload in them, for reports (RFC 3550 section 6.4.1).
    pub fn sent(&self) -> (u32, u32) {
        (self.packets, self.octets)
    }

    fn packet(&mut self, samples: &[i16], send: &mut impl FnMut(&[u8])) {
        let ticks = self.format.codec.ticks(samples.len());
        if !self.send_key(ticks, send) {
            let mut payload = Vec::new();
            self.encoder.encode(samples, &mut payload);
            let marker = std::mem::take(&mut self.begins);
            self.write(
                marker,
                self.format.payload_type,
                self.timestamp,
                &payload,
                send,
            );
        }
        self.timestamp = self.timestamp.wrapping_add(ticks);
    }

    /// Sends the next packet of a key in place of sound; `false` when none is pressed.
    fn send_key(&mut self, ticks: u32, send: &mut impl FnMut(&[u8])) -> bool {
        let Some(payload_type) = self.format.key_payload_type else {
            return false;
        };
        let ticks16 = u16::try_from(ticks).unwrap_or(u16::MAX);
        if self.key.is_none() && self.pause == 0 {
            let timestamp = self.timestamp;
            let length = ticks16.saturating_mul(KEY_PACKETS as u16);
            let key = self.waiting.pop_front();
            self.key = key.map(|key| KeySender::new(key, timestamp, length));
        }
        self.pause = self.pause.saturating_sub(1);
        let Some(key) = &mut self.key else {
            return false;
        };
        let timestamp = key.timestamp();
        let Some((event, marker)) = key.next(ticks16) else {
            self.key = None;
            self.pause = PAUSE_PACKETS;
            self.begins = true;
            return false;
        };
        let mut payload = Vec::new();
        event.write(&mut payload);
        self.write(marker, payload_type, timestamp, &payload, send);
        true
    }

    fn write(
        &mut self,
        marker: bool,
        payload_type: u8,
        timestamp: u32,
        payload: &[u8],
        send: &mut impl FnMut(&[u8]),
    ) {
        let mut octets = Vec::with_capacity(12 + payload.len());
        RtpPacket {
            marker,
            payload_type,
            sequence: self.sequence,
            timestamp,
            ssrc: self.ssrc,
            payload,
        }
        .write(&mut octets);
        self.sequence = self.sequence.wrapping_add(1);
        self.packets = self.packets.wrapping_add(1);
        self.octets = self.octets.wrapping_add(payload.len() as u32);
        send(&octets);
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::codec::Codec;
    use crate::jitter_buffer::JitterBufferConfig;
    use crate::receiver::Receiver;

    const START: StreamStart = StreamStart {
        ssrc: 7,
        sequence: u16::MAX,
        timestamp: u32::MAX,
    };

    fn format(codec: Codec) -> StreamFormat {
        StreamFormat {
            codec,
            payload_type: codec.payload_type().unwrap_or(96),
            key_payload_type: Some(101),
        }
    }

    #[test]
    fn samples_leave_in_packets_of_twenty_milliseconds() {
        let mut sender = Sender::new(format(Codec::G722), START).unwrap();
        let mut sent: Vec<Vec<u8>> = Vec::new();
        for _ in 0..4 {
            sender.push(&[0; 160], |packet| sent.push(packet.to_vec()));
        }
        let packets: Vec<RtpPacket<'_>> = sent
            .iter()
            .map(|one| RtpPacket::read(one).unwrap())
            .collect();
        assert_eq!(packets.len(), 2);
        let first = packets[0];
        assert!(first.marker && first.payload_type == 9 && first.payload.len() == 160);
        assert_eq!((first.sequence, first.timestamp), (u16::MAX, u32::MAX));
        let second = packets[1];
        assert_eq!(
            (second.marker, second.sequence, second.timestamp),
            (false, 0, 159)
        );
        assert_eq!(sender.sent(), (2, 320));
    }

    #[test]
    fn keys_are_heard_as_they_were_pressed() {
        for codec in Codec::ALL {
            let begin = Instant::now();
            let mut sender = Sender::new(format(codec), START).unwrap();
            let mut receiver =
                Receiver::new(format(codec), JitterBufferConfig::default(), begin).unwrap();
            let keys = "12##*0A";
            assert!(
                keys.chars()
                    .all(|sign| sender.press(Key::of(sign).unwrap()))
            );
            let mut heard = String::new();
            for turn in 0..200 {
                let now = begin + turn * Duration::from_millis(20);
                sender.push(&vec![0; codec.packet_samples()], |packet| {
                    let packet = RtpPacket::read(packet).unwrap();
                    heard.extend(receiver.handle_packet(now, &packet).map(Key::sign));
                });
                receiver.play(now, codec.packet_samples(), &mut Vec::new());
            }
            assert_eq!(heard, keys, "{codec}");
            assert_eq!(receiver.concealed(), 0, "{codec}: keys are no losses");
            assert!(!sender.is_pressing());
        }
    }

    #[test]
    fn time_goes_on_while_nothing_is_sent() {
        let mut sender = Sender::new(format(Codec::Pcmu), START).unwrap();
        let mut sent: Vec<(bool, u16, u32)> = Vec::new();
        for _ in 0..2 {
            sender.push(&[0; 160], |packet| {
                let packet = RtpPacket::read(packet).unwrap();
                sent.push((packet.marker, packet.sequence, packet.timestamp));
            });
            sender.skip(8_000);
        }
        assert_eq!(sent, [(true, u16::MAX, u32::MAX), (true, 0, 8_159)]);
    }

    #[test]
    fn keys_need_a_payload_type() {
        let without = StreamFormat {
            key_payload_type: None,
            ..format(Codec::Pcmu)
        };
        let mut sender = Sender::new(without, START).unwrap();
        assert!(!sender.press(Key::of('1').unwrap()));
    }
}
