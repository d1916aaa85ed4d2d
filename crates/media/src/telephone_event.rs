//! Keys that are pressed in a call, as events in RTP (RFC 4733).

use bytes::Buf;

/// The encoding's name in `a=rtpmap` (RFC 4733 section 7.1.1).
pub const ENCODING: &str = "telephone-event";

/// How often the last packet of an event is sent (RFC 4733 section 2.5.1.4).
const ENDS: u8 = 3;
/// The volume of events, in decibels below the loudest (RFC 4733 section 2.3.3).
const VOLUME: u8 = 10;

/// One of the sixteen keys (RFC 4733 table 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key(u8);

impl Key {
    const SIGNS: &[u8; 16] = b"0123456789*#ABCD";

    /// The key with this sign: a digit, `*`, `#`, or a letter from A to D.
    pub fn of(sign: char) -> Option<Key> {
        let sign = sign.to_ascii_uppercase();
        let place = Key::SIGNS
            .iter()
            .position(|other| char::from(*other) == sign)?;
        u8::try_from(place).ok().map(Key)
    }

    /// Its sign.
    pub fn sign(self) -> char {
        Key::SIGNS
            .get(usize::from(self.0))
            .map_or('?', |sign| char::from(*sign))
    }
}

/// The payload of a packet (RFC 4733 section 2.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TelephoneEvent {
    /// The event: a key up to 15, something else above.
    pub event: u8,
    /// Whether it is over.
    pub end: bool,
    /// Decibels below the loudest, up to 63.
    pub volume: u8,
    /// How long it has lasted, in ticks.
    pub duration: u16,
}

impl TelephoneEvent {
    /// Reads the first event of a payload; `None` when it is too short.
    pub fn read(mut payload: &[u8]) -> Option<TelephoneEvent> {
        let event = payload.try_get_u8().ok()?;
        let flags = payload.try_get_u8().ok()?;
        let duration = payload.try_get_u16().ok()?;
        Some(TelephoneEvent {
            event,
            end: flags & 0x80 != 0,
            volume: flags & 0x3f,
            duration,
        })
    }

    /// Appends the payload.
    pub fn write(&self, payload: &mut Vec<u8>) {
        let end = u8::from(self.end) << 7;
        payload.extend([self.event, end | self.volume.min(63)]);
        payload.extend(self.duration.to_be_bytes());
    }
}

/// A key that is being sent, a packet each packet time.
#[derive(Clone, Debug)]
pub struct KeySender {
    key: Key,
    /// The timestamp of its beginning, which all its packets have.
    timestamp: u32,
    /// How long it will last, in ticks.
    length: u16,
    duration: u16,
    ends: u8,
}

impl KeySender {
    /// A key that is pressed now and held for so many ticks.
    pub fn new(key: Key, timestamp: u32, length: u16) -> KeySender {
        KeySender {
            key,
            timestamp,
            length,
            duration: 0,
            ends: 0,
        }
    }

    /// The timestamp of its packets.
    pub fn timestamp(&self) -> u32 {
        self.timestamp
    }

    /// The payload of the next packet, `ticks` after the one before, and whether it is the first one, which has the marker
    /// (RFC 4733 section 2.2). `None` when it has been sent.
    pub fn next(&mut self, ticks: u16) -> Option<(TelephoneEvent, bool)> {
        if self.ends >= ENDS {
            return None;
        }
        let is_first = self.duration == 0;
        self.duration = self.duration.saturating_add(ticks).min(self.length.max(1));
        let end = self.duration >= self.length;
        self.ends += u8::from(end);
        let event = TelephoneEvent {
            event: self.key.0,
            end,
            volume: VOLUME,
            duration: self.duration,
        };
        Some((event, is_first))
    }
}

/// The keys of a stream as they come, each told once however many packets it has.
#[derive(Clone, Debug, Default)]
pub struct KeyReceiver {
    /// The timestamp of the event that was told last.
    last: Option<u32>,
}

impl KeyReceiver {
    /// A packet came; the key that it tells of for the first time.
    pub fn received(&mut self, timestamp: u32, payload: &[u8]) -> Option<Key> {
        let event = TelephoneEvent::read(payload)?;
        let is_earlier = |last: u32| timestamp.wrapping_sub(last) as i32 <= 0;
        if event.event > 15 || self.last.is_some_and(is_earlier) {
            return None;
        }
        self.last = Some(timestamp);
        Some(Key(event.event))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_key_is_sent_until_its_end_three_times() {
        let mut sender = KeySender::new(Key::of('#').unwrap(), 1_000, 480);
        let mut sent = Vec::new();
        while let Some((event, marker)) = sender.next(160) {
            sent.push((event.duration, event.end, marker));
        }
        let expected = [(160, false, true), (320, false, false), (480, true, false)];
        assert_eq!(sent[..3], expected);
        assert_eq!(sent[3..], [(480, true, false); 2]);
        assert_eq!(sender.timestamp(), 1_000);
    }

    #[test]
    fn a_key_is_heard_once_although_packets_are_lost_or_come_late() {
        let mut receiver = KeyReceiver::default();
        let packets = |sign: char, timestamp: u32| {
            let mut sender = KeySender::new(Key::of(sign).unwrap(), timestamp, 800);
            std::iter::from_fn(move || sender.next(160))
                .map(|(event, _)| {
                    let mut payload = Vec::new();
                    event.write(&mut payload);
                    (timestamp, payload)
                })
                .collect::<Vec<_>>()
        };
        let first = packets('5', 100);
        let second = packets('5', 2_000);
        let heard: Vec<Option<Key>> = first[2..]
            .iter()
            .chain(&second)
            .chain(&first[..1])
            .map(|(timestamp, payload)| receiver.received(*timestamp, payload))
            .collect();
        let keys: String = heard.iter().flatten().map(|key| key.sign()).collect();
        assert_eq!(keys, "55");
        assert!(heard[0].is_some(), "its first packets were lost");
    }

    #[test]
    fn every_key_has_its_sign() {
        for sign in "0123456789*#ABCD".chars() {
            assert_eq!(Key::of(sign).unwrap().sign(), sign);
        }
        assert_eq!(Key::of('a'), Key::of('A'));
        assert_eq!(Key::of('E'), None);
        let flash = [16, 0x80, 0, 1];
        assert_eq!(KeyReceiver::default().received(1, &flash), None);
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(
            event: u8, end: bool, volume in 0_u8..64, duration: u16, more: Vec<u8>,
        ) {
            let event = TelephoneEvent { event, end, volume, duration };
            let mut payload = Vec::new();
            event.write(&mut payload);
            payload.extend(more);
            prop_assert_eq!(TelephoneEvent::read(&payload), Some(event));
            prop_assert_eq!(TelephoneEvent::read(&payload[..3]), None);
        }
    }
}
