//! What stands in a message: which one it is and when it was sent, so that the receiver needs
//! nobody to tell him. Over TCP the length goes before it.

use bytes::{Buf, Bytes};
use std::time::Duration;

/// Bytes of the number and the time of sending: the smallest message.
pub const HEADER: usize = 16;

/// Bytes of the length before a message in a stream of bytes.
const LENGTH: usize = 4;

/// No message is larger; a length above it means that the stream holds no messages.
const MOST: usize = 1 << 24;

/// What a message says of itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Stamp {
    /// Its number on its flow, from 0.
    pub(crate) number: u64,
    /// When its user sent it, since the beginning of the simulation.
    pub(crate) sent: Duration,
}

/// A message of this many bytes, or of the smallest size.
pub(crate) fn write(stamp: Stamp, bytes: usize) -> Bytes {
    let mut message = vec![0; bytes.clamp(HEADER, MOST)];
    message[..8].copy_from_slice(&stamp.number.to_be_bytes());
    // Five hundred years fit.
    let nanoseconds = u64::try_from(stamp.sent.as_nanos()).unwrap_or(u64::MAX);
    message[8..HEADER].copy_from_slice(&nanoseconds.to_be_bytes());
    message.into()
}

/// What stands in a message; `None` when it is too small to be one.
pub(crate) fn read(mut message: &[u8]) -> Option<Stamp> {
    Some(Stamp {
        number: message.try_get_u64().ok()?,
        sent: Duration::from_nanos(message.try_get_u64().ok()?),
    })
}

/// A message with its length before it.
pub(crate) fn framed(message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
    [&length.to_be_bytes(), message].concat()
}

/// Finds the messages in a stream of bytes.
#[derive(Clone, Default, Debug)]
pub(crate) struct Framing {
    bytes: Vec<u8>,
    is_broken: bool,
}

impl Framing {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        if !self.is_broken {
            self.bytes.extend_from_slice(bytes);
        }
    }

    /// The next whole message: its size and what it says.
    pub(crate) fn next(&mut self) -> Option<(usize, Stamp)> {
        let length = self.bytes.first_chunk::<LENGTH>()?;
        let length = u32::from_be_bytes(*length) as usize;
        if !(HEADER..=MOST).contains(&length) {
            self.is_broken = true;
            self.bytes = Vec::new();
            return None;
        }
        let message = self.bytes.get(LENGTH..LENGTH + length)?;
        let stamp = read(message)?;
        self.bytes.drain(..LENGTH + length);
        Some((length, stamp))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn stamp(number: u64) -> Stamp {
        Stamp {
            number,
            sent: Duration::from_nanos(number * 7),
        }
    }

    proptest! {
        #[test]
        fn messages_are_found_however_the_stream_is_cut(
            sizes in prop::collection::vec(0_usize..300, 0..20),
            cuts in prop::collection::vec(1_usize..100, 1..200),
        ) {
            let stream: Vec<u8> = (0..)
                .zip(&sizes)
                .flat_map(|(number, &size)| framed(&write(stamp(number), size)))
                .collect();
            let mut framing = Framing::default();
            let mut found = Vec::new();
            let mut rest = stream.as_slice();
            let mut cuts = cuts.iter().cycle();
            while !rest.is_empty() {
                let cut = rest.len().min(*cuts.next().unwrap_or(&1));
                framing.push(&rest[..cut]);
                rest = &rest[cut..];
                found.extend(std::iter::from_fn(|| framing.next()));
            }
            let expected: Vec<_> = (0..)
                .zip(&sizes)
                .map(|(number, &size)| (size.max(HEADER), stamp(number)))
                .collect();
            prop_assert_eq!(found, expected);
        }

        #[test]
        fn any_bytes_are_read_without_growth(bytes: Vec<u8>) {
            let mut framing = Framing::default();
            framing.push(&bytes);
            while framing.next().is_some() {}
            prop_assert!(framing.bytes.len() <= bytes.len());
            let _ = read(&bytes);
        }
    }
}
