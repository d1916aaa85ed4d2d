//! The message trace: every message at debug level, octets that are none at trace level; and the
//! capture of messages.

use std::time::SystemTime;

use sip::{Flow, Target, Transmit, Transport};
use tap::{Direction, MessageProtocol, MessageRecord, MessageTap, PortKind};

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
const PROOFS: [&[u8]; 4] = [
    b"authorization",
    b"proxy-authorization",
    b"authentication-info",
    b"proxy-authentication-info",
];

/// The parameters in which they are (RFC 7616 sections 3.4 and 3.5).
const PROVING: [&[u8]; 2] = [b"response", b"rspauth"];

/// What stands in the place of a proof.
const MASK: &[u8] = b"***";

/// A message without the proofs of passwords in it: logs are read by more people than may know these.
fn masked(message: &[u8]) -> Vec<u8> {
    let mut shown = Vec::with_capacity(message.len());
    let mut rest = message;
    while !rest.trim_ascii_start().is_empty() {
        let (field, behind) = rest.split_at(field_length(rest));
        let name = field.split(|octet| *octet == b':').next();
        let name = name.unwrap_or_default().trim_ascii();
        match PROOFS.iter().any(|proof| name.eq_ignore_ascii_case(proof)) {
            true => mask(field, &mut shown),
            false => shown.extend_from_slice(field),
        }
        rest = behind;
        // The body.
        if field.trim_ascii().is_empty() && !shown.trim_ascii().is_empty() {
            break;
        }
    }
    shown.extend_from_slice(rest);
    shown
}

/// The length of the first line, with those that begin with white space and so go on with it.
fn field_length(text: &[u8]) -> usize {
    let ends = text
        .iter()
        .enumerate()
        .filter(|(_, octet)| **octet == b'\n');
    let mut ends = ends.map(|(at, _)| at + 1);
    let end = ends.find(|end| !matches!(text.get(*end), Some(b' ' | b'\t')));
    end.unwrap_or(text.len())
}

/// Writes a field that has proofs. Of schemes other than Digest all is a secret. A parameter is found by its name alone,
/// even within a quoted string: too much may be masked, never too little.
fn mask(field: &[u8], shown: &mut Vec<u8>) {
    let (text, line_end) = field.split_at(field.trim_ascii_end().len());
    let colon = text.iter().position(|octet| *octet == b':');
    let (name, mut rest) = text.split_at(colon.map_or(text.len(), |colon| colon + 1));
    shown.extend_from_slice(name);
    let value = rest.trim_ascii_start();
    let scheme = value.iter().position(u8::is_ascii_whitespace);
    let scheme = scheme.and_then(|end| value.get(..end));
    // Authentication-Info has none.
    let has_scheme = name.to_ascii_lowercase().starts_with(b"authorization")
        || name
            .to_ascii_lowercase()
            .starts_with(b"proxy-authorization");
    if has_scheme && !scheme.is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"Digest")) {
        for part in [b" ", scheme.unwrap_or_default(), b" ", MASK] {
            shown.extend_from_slice(part);
        }
        rest = b"";
    }
    while let Some((&octet, behind)) = rest.split_first() {
        let value = PROVING.iter().find_map(|name| value_of(rest, name));
        if let Some(value) = value {
            shown.extend_from_slice(rest.get(..rest.len() - value.len()).unwrap_or_default());
            shown.extend_from_slice(MASK);
            rest = value.get(value_length(value)..).unwrap_or_default();
        } else {
            shown.push(octet);
            rest = behind;
        }
    }
    shown.extend_from_slice(line_end);
}

/// The length of a parameter's value: a quoted string, or all until the comma.
fn value_length(text: &[u8]) -> usize {
    let is_quoted = text.first() == Some(&b'"');
    let mut is_escaped = false;
    let end = text.iter().skip(1).position(|octet| match is_quoted {
        true => {
            let is_end = *octet == b'"' && !is_escaped;
            is_escaped = *octet == b'\\' && !is_escaped;
            is_end
        }
        false => *octet == b',',
    });
    end.map_or(text.len(), |end| end + 1 + usize::from(is_quoted))
}

/// The text behind the name of a parameter and its equals sign.
fn value_of<'a>(text: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let (start, rest) = text.split_at_checked(name.len())?;
    let value = rest.trim_ascii_start().strip_prefix(b"=")?;
    start
        .eq_ignore_ascii_case(name)
        .then_some(value.trim_ascii_start())
}

/// Records a message.
pub(crate) fn capture(tap: &MessageTap, flow: &Flow, direction: Direction, message: &[u8]) {
    let (source, destination) = match direction {
        Direction::Inbound => (flow.remote, flow.local),
        Direction::Outbound => (flow.local, flow.remote),
    };
    let ports = match flow.transport {
        Transport::Udp => PortKind::Udp,
        Transport::Tcp | Transport::Tls | Transport::Ws | Transport::Wss => PortKind::Tcp,
        Transport::Sctp | Transport::TlsSctp => PortKind::Sctp,
    };
    tap.record(&MessageRecord {
        protocol: MessageProtocol::Sip,
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
                "PROXY-AUTHORIZATION : Digest realm=\"x, response=***,Response = ***,qop=auth",
            ),
            (
                "Authorization: Digest a=b,\r\n response=\"0123\",\r\n\tc=d",
                "Authorization: Digest a=b,\r\n response=***,\r\n\tc=d",
            ),
            ("Authorization: Basic YTpi", "Authorization: Basic ***"),
            ("Authorization: Basic\r\n YTpi", "Authorization: Basic ***"),
            ("Authorization:\r\n Basic YTpi", "Authorization: Basic ***"),
            ("Authorization: YTpi==", "Authorization:  ***"),
            (
                "Authorization: Digest response\r\n =\r\n \"0123\"",
                "Authorization: Digest response\r\n =\r\n ***",
            ),
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
