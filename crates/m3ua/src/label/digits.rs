//! Address signals: digits of four bits, the lower half of an octet first.

/// The digits in these octets; with an odd number of them, the last half is filling.
pub(super) fn digits(octets: &[u8], is_odd: bool) -> String {
    let halves = octets.iter().flat_map(|octet| [octet & 0xf, octet >> 4]);
    let count = (octets.len() * 2).saturating_sub(usize::from(is_odd));
    let letters = halves.take(count).map(|half| match half {
        0..=9 => char::from(b'0' + half),
        10..=14 => char::from(b'a' + half - 10),
        // ST: the end of the number.
        _ => '#',
    });
    letters.collect()
}
