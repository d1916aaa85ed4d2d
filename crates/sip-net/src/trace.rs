//! The message trace: every message at debug level, octets that are none at trace level; and the
//! capture of messages.

use std::time::SystemTime;

use sip::{Flow, Target, Transmit, Transport};
use tap::{Direction, PortKind, SipRecord, SipTap};

use crate::incoming::MalformedReason;

/// Whether messages are shown.
pub(crate) fn is_on() -> bool {
    tracing::enabled!(tracing::Level::DEBUG)
}

/// A message that came in.
pub(crate) fn received(flow: &Flow, message: &[u8]) {
    tracing::debug!(
        transport = %flow.transport,
        from = %flow.remote,
        to = %flow.local,
        connection = flow.connection.0,
        stream = flow.stream,
        "received {} bytes\n{}",
        message.len(),
        String::from_utf8_lossy(&masked(message)),
    );
}

/// A message that is to go out.
pub(crate) fn sending(transmit: &Transmit) {
    let message = &transmit.payload;
    match transmit.target {
        Target::Flow(flow) | Target::FlowOrAddress(flow, _) => tracing::debug!(
            transport = %flow.transport,
            from = %flow.local,
            to = %flow.remote,
            connection = flow.connection.0,
            stream = flow.stream,
            "sending {} bytes\n{}",
            message.len(),
            String::from_utf8_lossy(&masked(message)),
        ),
        Target::Address(transport, remote) => tracing::debug!(
            %transport,
            to = %remote,
            "sending {} bytes\n{}",
            message.len(),
            String::from_utf8_lossy(&masked(message)),
        ),
    }
}

/// Octets that are no message.
pub(crate) fn malformed(flow: &Flow, bytes: &[u8], reason: MalformedReason) {
    tracing::debug!(
        transport = %flow.transport,
        from = %flow.remote,
        to = %flow.local,
        connection = flow.connection.0,
        bytes = bytes.len(),
        %reason,
        "malformed",
    );
    tracing::trace!("{}", masked(bytes).escape_ascii());
}

/// The fields with proofs of a password, from which it can be guessed.
const PROOFS: [&str; 4] = [
    "authorization",
    "proxy-authorization",
    "authentication-info",
    "proxy-authentication-info",
];

/// The parameters in which they are (RFC 7616 sections 3.4 and 3.5).
const PROVING: [&[u8]; 2] = [b"response", b"rspauth"];

/// What stands in the place of a proof.
const MASK: &[u8] = b"***";

/// A message without the proofs of passwords in it: logs are read by more people than may know these.
fn masked(message: &[u8]) -> Vec<u8> {
    let mut shown = Vec::with_capacity(message.len());
    let mut is_proof = false;
    let mut lines = message.split_inclusive(|octet| *octet == b'\n');
    for line in lines.by_ref() {
        // What begins with white space goes on with the field before.
        if !matches!(line.first(), Some(b' ' | b'\t')) {
            let name = line
                .split(|octet| *octet == b':')
                .next()
                .unwrap_or_default();
            let name = name.trim_ascii();
            is_proof = PROOFS
                .iter()
                .any(|proof| name.eq_ignore_ascii_case(proof.as_bytes()));
        }
        match is_proof {
            true => mask(line, &mut shown),
            false => shown.extend_from_slice(line),
        }
        if line.trim_ascii().is_empty() && !shown.trim_ascii().is_empty() {
            break;
        }
    }
    lines.for_each(|line| shown.extend_from_slice(line));
    shown
}

/// Writes a line of such a field. Of schemes other than Digest all is a secret.
fn mask(line: &[u8], shown: &mut Vec<u8>) {
    let end = line.trim_ascii_end().len();
    let (mut rest, line_end) = line.split_at(end);
    let starts = |text: &[u8], word: &[u8]| {
        let start = text.get(..word.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(word))
    };
    let colon = rest.iter().position(|octet| *octet == b':');
    if let Some(colon) = colon
        && !matches!(rest.first(), Some(b' ' | b'\t'))
    {
        let (name, value) = rest.split_at(colon + 1);
        shown.extend_from_slice(name);
        rest = value;
        let value = value.trim_ascii_start();
        let scheme = value.iter().position(u8::is_ascii_whitespace);
        let has_other_scheme = !starts(value, b"Digest ")
            && scheme.is_some_and(|end| value.get(..end).is_some_and(|word| !word.contains(&b'=')));
        if has_other_scheme {
            shown.push(b' ');
            shown.extend_from_slice(value.get(..scheme.unwrap_or(0) + 1).unwrap_or_default());
            shown.extend_from_slice(MASK);
            shown.extend_from_slice(line_end);
            return;
        }
    }
    let mut is_quoted = false;
    let mut is_at_start = true;
    while let Some((&octet, behind)) = rest.split_first() {
        let proving = PROVING
            .iter()
            .find(|name| !is_quoted && is_at_start && starts(rest, name));
        let value = proving.and_then(|name| {
            let value = rest
                .get(name.len()..)?
                .trim_ascii_start()
                .strip_prefix(b"=")?;
            Some(value.trim_ascii_start())
        });
        if let Some(value) = value {
            shown.extend_from_slice(rest.get(..rest.len() - value.len()).unwrap_or_default());
            shown.extend_from_slice(MASK);
            let end = match value.strip_prefix(b"\"") {
                Some(inside) => {
                    1 + inside
                        .iter()
                        .position(|octet| *octet == b'"')
                        .map_or(inside.len(), |end| end + 1)
                }
                None => value
                    .iter()
                    .position(|octet| *octet == b',')
                    .unwrap_or(value.len()),
            };
            rest = value.get(end..).unwrap_or_default();
            is_at_start = false;
            continue;
        }
        is_quoted ^= octet == b'"';
        is_at_start = matches!(octet, b',' | b' ' | b'\t');
        shown.push(octet);
        rest = behind;
    }
    shown.extend_from_slice(line_end);
}

/// Records a message.
pub(crate) fn capture(tap: &SipTap, flow: &Flow, direction: Direction, message: &[u8]) {
    let (source, destination) = match direction {
        Direction::Inbound => (flow.remote, flow.local),
        Direction::Outbound => (flow.local, flow.remote),
    };
    let ports = match flow.transport {
        Transport::Udp => PortKind::Udp,
        Transport::Tcp | Transport::Tls | Transport::Ws | Transport::Wss => PortKind::Tcp,
        Transport::Sctp | Transport::TlsSctp => PortKind::Sctp,
    };
    tap.record(&SipRecord {
        time: SystemTime::now(),
        direction,
        ports,
        transport: flow.transport.via_name(),
        source,
        destination,
        message,
    });
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shown(fields: &str) -> String {
        let message = format!(
            "REGISTER sip:a SIP/2.0\r\n{fields}\r\nVia: x\r\n\r\nAuthorization: Digest response=\"body\""
        );
        let shown = String::from_utf8(masked(message.as_bytes())).expect("text");
        let head = shown
            .strip_prefix("REGISTER sip:a SIP/2.0\r\n")
            .expect("the start line");
        let tail = "\r\nVia: x\r\n\r\nAuthorization: Digest response=\"body\"";
        head.strip_suffix(tail).expect("the rest").to_owned()
    }

    #[test]
    fn proofs_of_passwords_are_not_shown() {
        for (field, expected) in [
            (
                "Authorization: Digest username=\"a\", response=\"0123\", uri=\"sip:a\"",
                "Authorization: Digest username=\"a\", response=***, uri=\"sip:a\"",
            ),
            (
                "PROXY-AUTHORIZATION : Digest realm=\"x, response=y\",Response = 0123,qop=auth",
                "PROXY-AUTHORIZATION : Digest realm=\"x, response=y\",Response = ***,qop=auth",
            ),
            (
                "Authorization: Digest a=b,\r\n response=\"0123\",\r\n\tc=d",
                "Authorization: Digest a=b,\r\n response=***,\r\n\tc=d",
            ),
            ("Authorization: Basic YTpi", "Authorization: Basic ***"),
            (
                "Authentication-Info: rspauth=\"0123\", nc=00000001",
                "Authentication-Info: rspauth=***, nc=00000001",
            ),
            ("Subject: response=\"0123\"", "Subject: response=\"0123\""),
            (
                "Authorization: Digest response=\"open",
                "Authorization: Digest response=***",
            ),
        ] {
            assert_eq!(shown(field), expected);
        }
    }

    proptest! {
        #[test]
        fn whatever_comes_breaks_nothing(octets in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = masked(&octets);
            let line = [b"Authorization:", &octets[..]].concat();
            let _ = masked(&line);
        }

        #[test]
        fn a_response_is_never_shown(before in "[a-z=\", ]{0,20}", spaces in "[ ]{0,2}") {
            let quotes = before.matches('"').count() % 2;
            prop_assume!(quotes == 0);
            let field = format!("Authorization: Digest {before},{spaces}response={spaces}\"SECRET\"");
            prop_assert!(!shown(&field).contains("SECRET"), "{field}");
        }
    }
}
