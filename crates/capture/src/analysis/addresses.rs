//! Who calls whom: the addresses in From and To.

use sip::{NameAddr, Uri};

/// The longest address that is kept.
const LONGEST: usize = 256;

/// `user@host` of the URI in a From or To field.
pub(super) fn address_of_record(value: &[u8]) -> Option<Box<str>> {
    if let Some(plain) = plain_address(value) {
        return Some(plain.into());
    }
    let address = NameAddr::parse(value).ok()?;
    let text = match Uri::parse(address.uri()) {
        Ok(uri) => match uri.as_sip() {
            Some(sip) => match sip.user() {
                Some(user) => format!("{user}@{}", sip.host()),
                None => sip.host().to_string(),
            },
            None => address.uri().to_owned(),
        },
        Err(_) => return None,
    };
    (text.len() <= LONGEST).then(|| text.into_boxed_str())
}

/// `user@host`, where it stands in a SIP URI in angle brackets and nothing about it is unusual: no escapes, nothing
/// that is written in two ways.
pub(super) fn plain_address(value: &[u8]) -> Option<&str> {
    // A name in quotation marks may have a bracket in it.
    let uri = match value.strip_prefix(b"\"") {
        Some(name) => name[run(NAME, name)..].strip_prefix(b"\" <sip:")?,
        None => value[run(NAME, value)..].strip_prefix(b"<sip:")?,
    };
    let user = run(USER, uri);
    let host_and_more = uri[user..].strip_prefix(b"@")?;
    let (host, behind) = host_and_more.split_at(run(HOST, host_and_more));
    let behind = match behind.strip_prefix(b":") {
        Some(port) => match port.iter().position(|octet| !octet.is_ascii_digit())? {
            digits @ 1..=4 => &port[digits..],
            _ => return None,
        },
        None => behind,
    };
    // Parameters follow, or nothing.
    let parameters = behind.strip_prefix(b">")?;
    let is_end = parameters.is_empty()
        || parameters[0] == b';' && run(PARAMETER, parameters) == parameters.len();
    // A label of letters makes it a name; what ends with digits may be an address that is none.
    let is_host = host.last().is_some_and(u8::is_ascii_lowercase)
        && host.first().is_some_and(u8::is_ascii_alphanumeric)
        && !has_empty_label(host);
    let length = user + 1 + host.len();
    let is_all = user > 0 && is_end && is_host && length <= LONGEST;
    if !is_all {
        return None;
    }
    std::str::from_utf8(&uri[..length]).ok()
}

/// Whether dots or hyphens stand side by side.
fn has_empty_label(host: &[u8]) -> bool {
    let is_mark = |octet: u8| matches!(octet, b'.' | b'-');
    let pairs = host.iter().zip(host.iter().skip(1));
    pairs.fold(false, |has, (one, next)| {
        has | is_mark(*one) & is_mark(*next)
    })
}

/// Where an octet may stand in an address about which nothing is unusual.
const NAME: u8 = 1;
const PARAMETER: u8 = 2;
const USER: u8 = 4;
const HOST: u8 = 8;

static PLACES: [u8; 256] = {
    let mut places = [0; 256];
    let mut octet = 0;
    while octet < 0x80 {
        places[octet] = match octet as u8 {
            b'a'..=b'z' | b'0'..=b'9' => NAME | PARAMETER | USER | HOST,
            b'A'..=b'Z' => NAME | PARAMETER,
            b' ' => NAME,
            b'.' | b'-' => PARAMETER | USER | HOST,
            b'_' => PARAMETER | USER,
            b';' | b'=' => PARAMETER,
            _ => 0,
        };
        octet += 1;
    }
    places
};

/// How many octets may stand at such a place before the first that may not.
fn run(place: u8, octets: &[u8]) -> usize {
    let may_not = |octet: &u8| PLACES[usize::from(*octet)] & place == 0;
    octets.iter().position(may_not).unwrap_or(octets.len())
}

/// The user of a SIP URI, as written.
pub(super) fn user_of(uri: &str) -> Option<&str> {
    let (_, rest) = uri.split_once(':')?;
    match rest.split_once('@') {
        Some((user, _)) => Some(user),
        None => Some(rest.split([';', '?', '>']).next().unwrap_or(rest)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn thoroughly(value: &[u8]) -> Option<String> {
        let address = NameAddr::parse(value).ok()?;
        let uri = Uri::parse(address.uri()).ok()?;
        let sip = uri.as_sip()?;
        Some(format!("{}@{}", sip.user()?, sip.host()))
    }

    #[test]
    fn plain_addresses_are_told_quickly() {
        for (value, plain) in [
            (
                "\"User 7\" <sip:user7@example.org>;tag=a",
                Some("user7@example.org"),
            ),
            ("<sip:a_b@x:5070>", Some("a_b@x")),
            ("Bob <sip:b@x.org>", Some("b@x.org")),
            ("<sip:b@x.org;transport=tcp>", None),
            ("<sip:b%41@x.org>", None),
            ("<sips:b@x.org>", None),
            ("\"<sip:a@x>\" <sip:b@x>", None),
            ("sip:b@x.org", None),
            ("<sip:a@a><sip:", None),
            ("<sip:a@a>;tag=1,", None),
            ("<sip:b@10.0.0.1>", None),
            ("<sip:b@a..x>", None),
            ("<sip:b@x:>", None),
            ("<sip:b@x:5>", Some("b@x")),
            ("\"Bob\"<sip:b@x>", None),
            ("", None),
        ] {
            assert_eq!(plain_address(value.as_bytes()), plain, "{value}");
        }
    }

    proptest! {
        /// What is told quickly is what the reader of addresses says.
        #[test]
        fn plain_addresses_are_right(parts in prop::collection::vec(
            prop::sample::select(vec![
                "<sip:", "<", "sip:", ">", "@", "a", "b7", "x", "org", ".", "-", "_", ":", "5060", "\"", " ", ";tag=1", "%41",
                "A", "[::1]", ",", ";", "=",
            ]),
            0..12,
        )) {
            let value = format!("<sip:{}", parts.concat());
            for value in [value.clone(), parts.concat(), format!("\"a b\" {value}")] {
                if let Some(plain) = plain_address(value.as_bytes()) {
                    prop_assert_eq!(Some(plain.to_owned()), thoroughly(value.as_bytes()), "{}", value);
                }
            }
        }
    }
}
