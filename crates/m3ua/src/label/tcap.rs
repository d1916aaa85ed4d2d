//! TCAP: the kind of a transaction's message and its transaction ids.

use super::Label;

/// ITU: application tags 1 to 7; ANSI: private tags, all constructed.
const NAMES: [(u8, &str); 12] = [
    (0x61, "Unidirectional"),
    (0x62, "Begin"),
    (0x64, "End"),
    (0x65, "Continue"),
    (0x67, "Abort"),
    (0xe1, "Unidirectional"),
    (0xe2, "QueryWithPermission"),
    (0xe3, "QueryWithoutPermission"),
    (0xe4, "Response"),
    (0xe5, "ConversationWithPermission"),
    (0xe6, "ConversationWithoutPermission"),
    (0xf6, "Abort"),
];

pub(super) fn read(data: &[u8], label: &mut Label) {
    let Some((tag, content, _)) = element(data) else {
        return;
    };
    let Some((_, name)) = NAMES.iter().find(|(known, _)| *known == tag) else {
        return;
    };
    label.transaction = Some(name);
    let mut rest = content;
    while let Some((tag, value, after)) = element(rest) {
        match tag {
            0x48 => label.originating_transaction = Some(hexadecimal(value)),
            0x49 => label.destination_transaction = Some(hexadecimal(value)),
            // ANSI has both in one element, the originating one first, of four octets each.
            0xc7 if value.len() == 8 => {
                let (originating, responding) = value.split_at(4);
                label.originating_transaction = Some(hexadecimal(originating));
                label.destination_transaction = Some(hexadecimal(responding));
            }
            0xc7 => label.originating_transaction = Some(hexadecimal(value)),
            // Dialogue and components, and what comes after the ids.
            _ => return,
        }
        rest = after;
    }
}

/// The tag, content and what follows an element of the basic encoding rules, with a tag of one octet.
fn element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let [tag, length, rest @ ..] = bytes else {
        return None;
    };
    let (length, rest) = match length {
        0..=0x7f => (usize::from(*length), rest),
        0x81 => {
            let (length, rest) = rest.split_first()?;
            (usize::from(*length), rest)
        }
        0x82 => {
            let (length, rest) = rest.split_first_chunk::<2>()?;
            (usize::from(u16::from_be_bytes(*length)), rest)
        }
        // Indefinite: to the end, with the end mark in it.
        0x80 => (rest.len(), rest),
        _ => return None,
    };
    let (content, after) = rest.split_at_checked(length)?;
    Some((*tag, content, after))
}

/// The first octets of an id, which has one to four.
fn hexadecimal(octets: &[u8]) -> String {
    octets
        .iter()
        .take(4)
        .map(|octet| format!("{octet:02x}"))
        .collect()
}
