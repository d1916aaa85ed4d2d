//! ISUP: circuit, message type, and the numbers of an IAM.

use super::Label;
use super::digits::digits;

const INITIAL_ADDRESS: u8 = 0x01;

/// The optional parameter Calling Party Number.
const CALLING_PARTY_NUMBER: u8 = 0x0a;

/// Where an IAM points at its called number. ITU: after nature of connection, forward call indicators (2), category and
/// transmission medium requirement. ANSI: after the first three of them and a pointer to User Service Information.
const CALLED_POINTER: usize = 5;

const NAMES: [(u8, &str); 28] = [
    (0x01, "IAM"),
    (0x02, "SAM"),
    (0x03, "INR"),
    (0x04, "INF"),
    (0x05, "COT"),
    (0x06, "ACM"),
    (0x07, "CON"),
    (0x08, "FOT"),
    (0x09, "ANM"),
    (0x0c, "REL"),
    (0x0d, "SUS"),
    (0x0e, "RES"),
    (0x10, "RLC"),
    (0x11, "CCR"),
    (0x12, "RSC"),
    (0x13, "BLO"),
    (0x14, "UBL"),
    (0x15, "BLA"),
    (0x16, "UBA"),
    (0x17, "GRS"),
    (0x18, "CGB"),
    (0x19, "CGU"),
    (0x1a, "CGBA"),
    (0x1b, "CGUA"),
    (0x29, "GRA"),
    (0x2c, "CPG"),
    (0x2d, "USR"),
    (0x2f, "CFN"),
];

/// The circuit, which all messages begin with: the least significant octet first.
pub(super) fn circuit(message: &[u8]) -> Option<u16> {
    message.first_chunk().copied().map(u16::from_le_bytes)
}

pub(super) fn read(message: &[u8], label: &mut Label) {
    let [_, _, message_type, parameters @ ..] = message else {
        return;
    };
    label.circuit = circuit(message);
    let name = NAMES.iter().find(|(known, _)| known == message_type);
    label.message_type = name.map(|(_, name)| *name);
    if *message_type == INITIAL_ADDRESS {
        read_initial_address(parameters, label);
    }
}

/// Fixed parameters, then a pointer to each variable one, then a pointer to the optional ones. A pointer counts from itself.
fn read_initial_address(parameters: &[u8], label: &mut Label) {
    label.called = pointed_at(parameters, CALLED_POINTER).and_then(number);
    let optional = follow(parameters, CALLED_POINTER + 1);
    label.calling = optional.and_then(calling_number);
}

/// Where the pointer at this position leads; nowhere if it is 0.
fn follow(parameters: &[u8], position: usize) -> Option<&[u8]> {
    match parameters.get(position)? {
        0 => None,
        pointer => parameters.get(position + usize::from(*pointer)..),
    }
}

/// The variable parameter, without its length.
fn pointed_at(parameters: &[u8], position: usize) -> Option<&[u8]> {
    let (length, value) = follow(parameters, position)?.split_first()?;
    value.get(..usize::from(*length))
}

fn calling_number(mut optional: &[u8]) -> Option<String> {
    // A code of 0 is the end.
    while let [code, length, rest @ ..] = optional {
        if *code == 0 {
            return None;
        }
        let (value, after) = rest.split_at_checked(usize::from(*length))?;
        if *code == CALLING_PARTY_NUMBER {
            return number(value);
        }
        optional = after;
    }
    None
}

/// A number: whether it is odd and the nature of the address, the plan, and digits.
fn number(value: &[u8]) -> Option<String> {
    let [nature, _plan, signals @ ..] = value else {
        return None;
    };
    Some(digits(signals, nature & 0x80 != 0))
}
