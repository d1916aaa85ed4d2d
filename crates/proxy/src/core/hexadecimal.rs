//! Octets as letters and digits, for what has to stand in a URI or a quoted string whatever others do
//! with its case.

/// The octets in lower case, two digits each.
pub(crate) fn write(octets: &[u8]) -> String {
    octets
        .iter()
        .flat_map(|octet| [octet >> 4, octet & 0xf])
        .filter_map(|digit| char::from_digit(digit.into(), 16))
        .collect()
}

/// The octets of a text in any case; `None` where it is anything else.
pub(crate) fn read(text: &str) -> Option<Vec<u8>> {
    let digit = |octet: u8| char::from(octet).to_digit(16);
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    pairs
        .iter()
        .map(|[high, low]| u8::try_from(digit(*high)? << 4 | digit(*low)?).ok())
        .collect()
}
