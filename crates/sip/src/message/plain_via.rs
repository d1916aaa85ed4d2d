//! Via values as nearly all are written, read in one pass.

use std::net::{IpAddr, Ipv4Addr};
use std::ops::Range;

use crate::runs::Runs;
use crate::syntax::{ASCII_VALUE, TOKEN};
use crate::uri::PlainHost;

/// A Via value that has the usual form: `SIP/2.0/transport host:port;parameters` with one space, and with nothing in
/// quotation marks, brackets or octets beyond ASCII. Such a one is well-formed. All places are counted from its
/// beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PlainVia {
    transport_end: u16,
    host_end: u16,
    /// The address that the host is, if it is one.
    pub(super) address: Option<Ipv4Addr>,
    pub(super) port: Option<u16>,
    parameters_start: u16,
    end: u16,
    /// Where the branch stands; nowhere at 0.
    branch_start: u16,
    branch_end: u16,
    pub(super) has_rport: bool,
    pub(super) has_received: bool,
    pub(super) has_maddr: bool,
}

const PROTOCOL: &[u8; 8] = b"SIP/2.0/";

/// Those of three letters, each with the space behind it.
const USUAL_TRANSPORTS: [u32; 3] = [
    u32::from_le_bytes(*b"UDP "),
    u32::from_le_bytes(*b"TCP "),
    u32::from_le_bytes(*b"TLS "),
];

impl PlainVia {
    /// Reads the first value of a list. `None` where that takes more than a glance.
    pub(super) fn read(list: &[u8]) -> Option<PlainVia> {
        let via = PlainVia::read_at(&mut Runs::new(list), 0)?;
        matches!(list.get(via.end()), None | Some(b',')).then_some(via)
    }

    /// Reads what begins at a place, as far as it may be a value. `None` where that takes more than a glance.
    #[inline(never)]
    pub(super) fn read_at(runs: &mut Runs<'_>, start: usize) -> Option<PlainVia> {
        // A copy, which the compiler keeps at hand.
        let mut seen = *runs;
        let text = seen.text();
        if text.get(start..)?.first_chunk() != Some(PROTOCOL) {
            return None;
        }
        let transport_start = start + PROTOCOL.len();
        let transport_end = match text.get(transport_start..)?.first_chunk() {
            Some(word) if USUAL_TRANSPORTS.contains(&u32::from_le_bytes(*word)) => {
                transport_start + 3
            }
            _ => match seen.end_and_octet(transport_start, TOKEN) {
                (end, b' ') if end > transport_start => end,
                _ => return None,
            },
        };
        let (host, mut octet) = PlainHost::read(&mut seen, transport_end + 1)?;
        let mut via = PlainVia {
            transport_end: (transport_end - start) as u16,
            host_end: (host.end - start) as u16,
            address: host.address,
            port: host.port,
            parameters_start: (host.port_end - start) as u16,
            end: 0,
            branch_start: 0,
            branch_end: 0,
            has_rport: false,
            has_received: false,
            has_maddr: false,
        };
        let mut at = host.port_end;
        while octet == b';' {
            const BRANCH: &[u8; 8] = b";branch=";
            if text.get(at..)?.first_chunk() == Some(BRANCH) {
                let value_start = at + BRANCH.len();
                (at, octet) = value_end(&mut seen, value_start)?;
                via.note_branch(start, value_start..at);
                continue;
            }
            let name_start = at + 1;
            (at, octet) = seen.end_and_octet(name_start, TOKEN);
            let name = text.get(name_start..at)?;
            let mut value = at..at;
            if octet == b'=' {
                value.start = at + 1;
                (at, octet) = value_end(&mut seen, value.start)?;
                value.end = at;
            }
            match name {
                b"rport" => via.has_rport = true,
                b"received" => via.has_received = true,
                b"" => return None,
                _ => via.note_other(name, start, value),
            }
        }
        // What is longer is left to others, and so is all that has been cut off here.
        via.end = u16::try_from(at - start).ok()?;
        *runs = seen;
        Some(via)
    }

    /// Whether a list has one value, which has the usual form.
    pub(super) fn is_all_of(list: &[u8]) -> bool {
        PlainVia::read(list).is_some_and(|via| via.end() == list.len())
    }

    pub(super) fn transport(&self) -> Range<usize> {
        PROTOCOL.len()..usize::from(self.transport_end)
    }

    pub(super) fn host(&self) -> Range<usize> {
        usize::from(self.transport_end) + 1..usize::from(self.host_end)
    }

    pub(super) fn ip(&self) -> Option<IpAddr> {
        self.address.map(IpAddr::from)
    }

    /// From the first semicolon on.
    pub(super) fn parameters(&self) -> Range<usize> {
        usize::from(self.parameters_start)..usize::from(self.end)
    }

    pub(super) fn branch(&self) -> Option<Range<usize>> {
        let branch = usize::from(self.branch_start)..usize::from(self.branch_end);
        (branch.start > 0).then_some(branch)
    }

    /// Behind all of it.
    pub(super) fn end(&self) -> usize {
        self.end.into()
    }

    /// Notes where a branch is in a text in which the Via begins at a place.
    #[inline(always)]
    fn note_branch(&mut self, start: usize, branch: Range<usize>) {
        // The first one counts.
        if self.branch_start == 0 {
            self.branch_start = (branch.start - start) as u16;
            self.branch_end = (branch.end - start) as u16;
        }
    }

    /// Notes a parameter that is seldom there, or is seldom spelled so.
    #[inline(never)]
    fn note_other(&mut self, name: &[u8], start: usize, value: Range<usize>) {
        let is = |known: &[u8]| name.eq_ignore_ascii_case(known);
        if is(b"branch") {
            self.note_branch(start, value);
        }
        self.has_rport |= is(b"rport");
        self.has_maddr |= is(b"maddr");
        self.has_received |= is(b"received");
    }
}

/// Where the value of a parameter ends that begins at a place, and the octet there. `None` where it is empty.
#[inline(always)]
fn value_end(runs: &mut Runs<'_>, start: usize) -> Option<(usize, u8)> {
    // Those beyond ASCII may not be UTF-8.
    let (end, octet) = runs.end_and_octet(start, ASCII_VALUE);
    (end > start).then_some((end, octet))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::list::first_value;
    use crate::{Host, Via};

    /// What is read at a glance is what the parser reads.
    fn compare(list: &[u8]) -> bool {
        let Some(plain) = PlainVia::read(list) else {
            return false;
        };
        let first = first_value(list).expect("a value");
        assert_eq!(first.value, 0..plain.end());
        // It is the same wherever it stands.
        let moved = [b"Via: ", list, b"\r\nVia: "].concat();
        assert_eq!(PlainVia::read_at(&mut Runs::new(&moved), 5), Some(plain));
        let via = Via::parse(&list[first.value]).expect("a Via");
        let text = |range: &Range<usize>| std::str::from_utf8(&list[range.clone()]).expect("text");
        assert!(via.parameters().are_well_formed());
        assert_eq!(via.transport_name(), text(&plain.transport()));
        let host = match plain.ip() {
            Some(address) => Host::Address(address),
            None => Host::Name(text(&plain.host())),
        };
        assert_eq!((via.host(), via.port()), (host, plain.port));
        assert_eq!(via.parameters().text(), &list[plain.parameters()]);
        assert_eq!(via.branch(), plain.branch().as_ref().map(text));
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
