//! SCCP: message type, and the addresses of messages that have some.

use super::digits::digits;
use super::{Label, tcap};
use crate::{PointCode, Variant};

const NAMES: [(u8, &str); 20] = [
    (0x01, "CR"),
    (0x02, "CC"),
    (0x03, "CREF"),
    (0x04, "RLSD"),
    (0x05, "RLC"),
    (0x06, "DT1"),
    (0x07, "DT2"),
    (0x08, "AK"),
    (0x09, "UDT"),
    (0x0a, "UDTS"),
    (0x0b, "ED"),
    (0x0c, "EA"),
    (0x0d, "RSR"),
    (0x0e, "RSC"),
    (0x0f, "ERR"),
    (0x10, "IT"),
    (0x11, "XUDT"),
    (0x12, "XUDTS"),
    (0x13, "LUDT"),
    (0x14, "LUDTS"),
];

pub(super) fn read(message: &[u8], variant: Variant, label: &mut Label) {
    let Some((message_type, rest)) = message.split_first() else {
        return;
    };
    let name = NAMES.iter().find(|(known, _)| known == message_type);
    label.message_type = name.map(|(_, name)| *name);
    // Where the pointer to the called address is; the calling one's follows, then that of the data.
    let position = match message_type {
        // Protocol class, or return cause.
        0x09 | 0x0a => 1,
        // And a hop counter.
        0x11 | 0x12 => 2,
        // Connection request: source reference and class. It has no other mandatory address.
        0x01 => {
            let called = pointed_at(rest, 4);
            label.called = called.and_then(|value| address(value, variant));
            return;
        }
        _ => return,
    };
    let called = pointed_at(rest, position);
    label.called = called.and_then(|value| address(value, variant));
    let calling = pointed_at(rest, position + 1);
    label.calling = calling.and_then(|value| address(value, variant));
    if let Some(data) = pointed_at(rest, position + 2) {
        tcap::read(data, label);
    }
}

/// The parameter that the pointer at this position leads to, without its length. A pointer counts from itself.
fn pointed_at(message: &[u8], position: usize) -> Option<&[u8]> {
    let pointer = message.get(position)?;
    let target = message.get(position + usize::from(*pointer)..)?;
    let (length, value) = target.split_first()?;
    value.get(..usize::from(*length))
}

/// Which parts an address has, where they are, and how long point codes are, differs between networks.
fn address(value: &[u8], variant: Variant) -> Option<String> {
    let (indicator, mut rest) = value.split_first()?;
    let is_ansi = variant == Variant::Ansi;
    let (has_point_code, has_subsystem) = match is_ansi {
        true => (indicator & 2 != 0, indicator & 1 != 0),
        false => (indicator & 1 != 0, indicator & 2 != 0),
    };
    let mut subsystem = None;
    let mut point_code = None;
    for is_point_code in [!is_ansi, is_ansi] {
        if is_point_code && has_point_code {
            let (octets, after) = rest.split_at_checked(variant.bits().div_ceil(8) as usize)?;
            // The least significant octet first.
            let value = octets
                .iter()
                .rev()
                .fold(0, |sum, it| sum << 8 | u32::from(*it));
            point_code = PointCode::new(value & ((1 << variant.bits()) - 1));
            rest = after;
        }
        if !is_point_code && has_subsystem {
            let (octet, after) = rest.split_first()?;
            subsystem = Some(*octet);
            rest = after;
        }
    }
    let title = global_title(indicator >> 2 & 0xf, is_ansi, rest);
    let mut parts: Vec<String> = title.into_iter().collect();
    if let (true, Some(point_code)) = (parts.is_empty(), point_code) {
        parts.push(variant.write(point_code).to_string());
    }
    parts.extend(subsystem.map(|it| format!("ssn={it}")));
    (!parts.is_empty()).then(|| parts.join(":"))
}

/// The digits of a global title, after what its indicator says comes before them.
fn global_title(indicator: u8, is_ansi: bool, title: &[u8]) -> Option<String> {
    match (indicator, is_ansi, title) {
        // Nature of address, whose first bit says whether the number is odd.
        (1, false, [nature, signals @ ..]) => Some(digits(signals, nature & 0x80 != 0)),
        // Translation type alone.
        (2, _, [_, signals @ ..]) => Some(digits(signals, false)),
        // Translation type, numbering plan and encoding scheme (1: an odd number of digits).
        (1, true, [_, scheme, signals @ ..]) | (3, false, [_, scheme, signals @ ..]) => {
            Some(digits(signals, scheme & 0xf == 1))
        }
        // And the nature of address.
        (4, false, [_, scheme, _, signals @ ..]) => Some(digits(signals, scheme & 0xf == 1)),
        _ => None,
    }
}
