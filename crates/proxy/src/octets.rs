//! Values in few octets, one after the other: what flows and bindings are written down with.

use bytes::Buf;

/// Appends a number, seven bits an octet, the lowest first: most are small.
pub(crate) fn push_number(octets: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        octets.push(number as u8 | 0x80);
        number >>= 7;
    }
    octets.push(number as u8);
}

/// How many octets [`push_number`] appends.
pub(crate) fn number_length(number: u64) -> usize {
    let bits = u64::BITS - (number | 1).leading_zeros();
    bits.div_ceil(7) as usize
}

/// Takes a number off the front that [`push_number`] has written.
pub(crate) fn take_number(octets: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..u64::BITS).step_by(7) {
        let octet = octets.try_get_u8().ok()?;
        number |= u64::from(octet & 0x7f) << shift;
        if octet & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn numbers_are_read_back_and_cut_ones_are_not(number: u64, shift in 0..64) {
            let number = number >> shift;
            let mut octets = Vec::new();
            push_number(&mut octets, number);
            prop_assert_eq!(octets.len(), number_length(number));
            let last = octets.len() - 1;
            prop_assert_eq!(take_number(&mut &octets[..last]), None);
            octets.push(7);
            let mut rest = &octets[..];
            prop_assert_eq!(take_number(&mut rest), Some(number));
            prop_assert_eq!(rest, [7]);
        }
    }
}
