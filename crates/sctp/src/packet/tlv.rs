//! The one layout that chunks, parameters, and error causes share: two bytes that say what it is, a
//! length, a value, padding (RFC 9260, sections 3.2, 3.2.1, and 3.3.10).

use super::{FormatError, FormatErrorKind};
use bytes::{BufMut, BytesMut};
use std::iter::FusedIterator;

/// Bytes of type and length before a value.
pub(super) const HEADER_LENGTH: usize = 4;

/// The largest value that a 16-bit length field, which counts its header in, can announce.
pub(super) const MAXIMUM_VALUE_LENGTH: usize = u16::MAX as usize - HEADER_LENGTH;

/// A chunk, parameter, or error cause as it lies in the packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tlv<'a> {
    type_field: u16,
    length: u16,
    bytes: &'a [u8],
    padding: &'a [u8],
}

/// Walks items that lie one after another, each padded to a multiple of four bytes.
///
/// It yields an error for an item whose length is impossible and then ends, because nothing tells
/// where a next item would begin. Every step consumes at least four bytes, so that the walk is
/// bounded by what arrived. The last item need not be padded: its container's length may or may not
/// count that padding in (section 3.2).
#[derive(Clone, Debug)]
pub struct Tlvs<'a> {
    rest: &'a [u8],
}

/// What to do with a chunk or parameter whose type is not recognized: the two highest-order bits of
/// the type say it (section 3.2, tables 2 and 3).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct UnrecognizedAction {
    /// Process nothing that comes after it in its container; otherwise skip it and go on.
    pub stop: bool,
    /// Report it to the sender.
    pub report: bool,
}

impl<'a> Tlv<'a> {
    /// The first two bytes: the type of a parameter, the code of a cause, type and flags of a chunk.
    pub fn type_field(&self) -> u16 {
        self.type_field
    }

    /// What the length field says: header and value, without padding.
    pub fn length(&self) -> u16 {
        self.length
    }

    /// The value, without padding.
    pub fn value(&self) -> &'a [u8] {
        self.bytes.get(HEADER_LENGTH..).unwrap_or_default()
    }

    /// Header and value, without padding.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The padding that follows, at most three bytes; shorter than the rule asks for when the item
    /// is the last one of its container.
    pub fn padding(&self) -> &'a [u8] {
        self.padding
    }

    /// Whether all bytes that the length field announces are there. Only an item taken from a
    /// [`FormatError`] can be incomplete.
    pub fn is_complete(&self) -> bool {
        self.bytes.len() == usize::from(self.length)
    }

    /// The item at the start of `bytes`, without padding, cut where `bytes` end.
    pub(super) fn partial(bytes: &'a [u8]) -> Option<Tlv<'a>> {
        let &[a, b, c, d] = bytes.first_chunk()?;
        let length = u16::from_be_bytes([c, d]);
        let end = usize::from(length).min(bytes.len());
        Some(Tlv {
            type_field: u16::from_be_bytes([a, b]),
            length,
            bytes: bytes.get(..end)?,
            padding: &[],
        })
    }
}

impl<'a> Tlvs<'a> {
    /// Walks the items in `bytes`.
    pub fn new(bytes: &'a [u8]) -> Tlvs<'a> {
        Tlvs { rest: bytes }
    }
}

impl<'a> Iterator for Tlvs<'a> {
    type Item = Result<Tlv<'a>, FormatError<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        let item = std::mem::take(&mut self.rest);
        if item.is_empty() {
            return None;
        }
        let fail = |kind| Some(Err(FormatError::new(kind, item)));
        let Some(&[a, b, c, d]) = item.first_chunk() else {
            return fail(FormatErrorKind::HeaderTruncated);
        };
        let length = u16::from_be_bytes([c, d]);
        if usize::from(length) < HEADER_LENGTH {
            return fail(FormatErrorKind::LengthTooShort { length });
        }
        let Some((bytes, after)) = item.split_at_checked(usize::from(length)) else {
            return fail(FormatErrorKind::LengthPastEnd { length });
        };
        let (padding, rest) = after.split_at(padding_of(bytes.len()).min(after.len()));
        self.rest = rest;
        Some(Ok(Tlv {
            type_field: u16::from_be_bytes([a, b]),
            length,
            bytes,
            padding,
        }))
    }
}

impl FusedIterator for Tlvs<'_> {}

impl UnrecognizedAction {
    /// The meaning of the two highest-order bits of a byte.
    pub(super) fn of_highest_bits(byte: u8) -> UnrecognizedAction {
        UnrecognizedAction {
            stop: byte & 0x80 == 0,
            report: byte & 0x40 != 0,
        }
    }
}

/// Bytes of padding after an item of `length` bytes.
pub(super) fn padding_of(length: usize) -> usize {
    length.wrapping_neg() % 4
}

/// Pads what is in `buffer` since `start` to a multiple of four bytes.
pub(super) fn pad(buffer: &mut BytesMut, start: usize) {
    buffer.put_bytes(0, padding_of(buffer.len() - start));
}
