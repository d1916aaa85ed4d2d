//! Via values as nearly all are written, read in one pass.

use std::net::IpAddr;
use std::ops::Range;

use crate::syntax::{ASCII_VALUE, TOKEN, run_end};
use crate::uri::PlainHost;

/// The first value of a list, where it has the usual form: `SIP/2.0/transport host:port;parameters`
/// with one space, and with nothing in quotation marks, brackets or octets beyond ASCII. Such a one is
/// well-formed. All places are counted from the list's beginning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PlainVia {
    pub(super) transport: Range<usize>,
    /// Where the host stands, and the address that it is, if it is one.
    pub(super) host: (Range<usize>, Option<IpAddr>),
    pub(super) port: Option<u16>,
    /// From the first semicolon on.
    pub(super) parameters: Range<usize>,
    pub(super) branch: Option<Range<usize>>,
    pub(super) has_rport: bool,
    pub(super) has_received: bool,
    pub(super) has_maddr: bool,
}

impl PlainVia {
    /// Reads the first value of a list. `None` where that takes more than a glance.
    pub(super) fn read(list: &[u8]) -> Option<PlainVia> {
        const PROTOCOL: &[u8] = b"SIP/2.0/";
        if !list.starts_with(PROTOCOL) {
            return None;
        }
        let transport = PROTOCOL.len()..run_end(list, PROTOCOL.len(), TOKEN);
        if transport.is_empty() || list.get(transport.end) != Some(&b' ') {
            return None;
        }
        let host = PlainHost::read(list, transport.end + 1)?;
        let mut at = host.port_end;
        let mut via = PlainVia {
            transport,
            host: (host.start..host.end, host.address.map(IpAddr::from)),
            port: host.port,
            parameters: at..at,
            branch: None,
            has_rport: false,
            has_received: false,
            has_maddr: false,
        };
        while list.get(at) == Some(&b';') {
            at = via.read_parameter(list, at + 1)?;
        }
        via.parameters.end = at;
        matches!(list.get(at), None | Some(b',')).then_some(via)
    }

    /// Whether a list has one value, which has the usual form.
    pub(super) fn is_all_of(list: &[u8]) -> bool {
        PlainVia::read(list).is_some_and(|via| via.parameters.end == list.len())
    }

    /// Reads the parameter that begins at a place. Returns its end.
    #[inline]
    fn read_parameter(&mut self, list: &[u8], start: usize) -> Option<usize> {
        let name_end = run_end(list, start, TOKEN);
        let mut value = name_end..name_end;
        if list.get(name_end) == Some(&b'=') {
            // Those beyond ASCII may not be UTF-8.
            value = name_end + 1..run_end(list, name_end + 1, ASCII_VALUE);
            if value.is_empty() {
                return None;
            }
        }
        let end = value.end;
        let name = &list[start..name_end];
        let is = |known: &[u8]| name.eq_ignore_ascii_case(known);
        match name.len() {
            0 => return None,
            6 if name == b"branch" || is(b"branch") => {
                self.branch.get_or_insert(value);
            }
            5 if is(b"rport") => self.has_rport = true,
            5 if is(b"maddr") => self.has_maddr = true,
            8 if is(b"received") => self.has_received = true,
            _ => {}
        }
        Some(end)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::values::first_value;
    use super::*;
    use crate::{Host, Via};

    /// What is read at a glance is what the parser reads.
    fn compare(list: &[u8]) -> bool {
        let Some(plain) = PlainVia::read(list) else {
            return false;
        };
        let first = first_value(list).expect("a value");
        assert_eq!(first.value, 0..plain.parameters.end);
        let via = Via::parse(&list[first.value]).expect("a Via");
        let text = |range: &Range<usize>| std::str::from_utf8(&list[range.clone()]).expect("text");
        assert!(via.parameters().are_well_formed());
        assert_eq!(via.transport_name(), text(&plain.transport));
        let host = match plain.host.1 {
            Some(address) => Host::Address(address),
            None => Host::Name(text(&plain.host.0)),
        };
        assert_eq!((via.host(), via.port()), (host, plain.port));
        assert_eq!(via.parameters().text(), &list[plain.parameters.clone()]);
        assert_eq!(via.branch(), plain.branch.as_ref().map(text));
        assert_eq!(via.has_rport(), plain.has_rport);
        assert_eq!(via.has_received(), plain.has_received);
        assert_eq!(
            via.maddr().is_some(),
            via.parameter("maddr")
                .is_some_and(|maddr| Host::parse(maddr).is_some())
        );
        assert_eq!(via.parameter("maddr").is_some(), plain.has_maddr);
        true
    }

    #[test]
    fn the_usual_is_read_and_the_rest_is_left_to_the_parser() {
        for text in [
            "SIP/2.0/UDP 192.0.2.4:5060;branch=z9hG4bK1-2.a",
            "SIP/2.0/UDP host.example.com",
            "SIP/2.0/TLS-SCTP host.example.;rport;branch=1;branch=2;x=y,SIP/2.0/UDP a",
            "SIP/2.0/TCP a:1;Received=1.2.3.4;RPORT=7;maddr=x;ttl=1",
        ] {
            assert!(compare(text.as_bytes()), "{text}");
        }
        for text in [
            "",
            "SIP/2.0/UDP",
            "SIP/2.0/UDP  a",
            "SIP / 2.0 / UDP a",
            "SIP/2.0/UDP [::1]",
            "SIP/2.0/UDP a:",
            "SIP/2.0/UDP a:99999",
            "SIP/2.0/UDP 1.2.3",
            "SIP/2.0/UDP a..b",
            "SIP/2.0/UDP a ;x",
            "SIP/2.0/UDP a;x=\"y\"",
            "SIP/2.0/UDP a;",
            "SIP/2.0/UDP a;x=",
            "SIP/2.0/UDP a;x=\u{e4}",
            "SIP/2.0/UDP a,b ",
        ] {
            assert_eq!(compare(text.as_bytes()), text.ends_with("b "), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_octets_are_read_as_by_the_parser(parts in prop::collection::vec(
            prop::sample::select(vec![
                &b"SIP/2.0/UDP "[..], b"SIP/2.0/", b"TCP", b" ", b"a.b", b"1.2.3.4", b":", b"5060", b";", b"branch",
                b"=", b"rport", b"received", b"maddr", b",", b"\"", b"<", b"\xff", b"z9hG4bK1", b".", b"[::1]", b"\t",
            ]),
            0..16,
        )) {
            compare(&parts.concat());
            compare(&[b"SIP/2.0/UDP a", &parts.concat()[..]].concat());
        }
    }
}
