//! SIP URIs with what they say of the way of a request.

use std::ops::Deref;

use sip::SipUri;

/// The parameter of our Record-Route URIs that has the mark.
pub(crate) const CALL: &str = "call";

/// A SIP URI, and those of its parameters by which it is decided where a request goes, found in one pass.
///
/// Values are as written, "" where a parameter has none, and those of the first parameter of a name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadUri<'a> {
    uri: SipUri<'a>,
    pub(crate) transport: Option<&'a str>,
    pub(crate) maddr: Option<&'a str>,
    /// The mark of a dialog, where the URI is one of ours.
    pub(crate) call: Option<&'a str>,
    /// `lr`: of a loose router (RFC 3261 section 19.1.1).
    pub(crate) is_loose: bool,
    /// `gr`: it names one user agent of a user (RFC 5627 section 3.1).
    pub(crate) is_gruu: bool,
    /// `ob`: it stands for a flow that is to be kept (RFC 5626 section 5.1).
    pub(crate) is_outbound: bool,
    /// `method`: it may not stand in a request line (RFC 3261 section 19.1.1, table 1).
    pub(crate) has_method: bool,
}

impl<'a> From<SipUri<'a>> for ReadUri<'a> {
    #[inline]
    fn from(uri: SipUri<'a>) -> ReadUri<'a> {
        let mut read = ReadUri::bare(uri);
        let text = uri.parameters().as_str();
        let octets = text.as_bytes();
        let mut at = 0;
        while at < octets.len() {
            let start = at + 1;
            let mut end = start;
            while let Some(octet) = octets.get(end)
                && !matches!(octet, b';' | b'=')
            {
                if *octet == b'%' {
                    return ReadUri::with_escapes(uri);
                }
                end += 1;
            }
            let value_start = end + usize::from(octets.get(end) == Some(&b'='));
            at = value_start;
            while let Some(octet) = octets.get(at)
                && *octet != b';'
            {
                at += 1;
            }
            let value = || text.get(value_start..at);
            match &octets[start..end] {
                name @ ([_, _] | [_, _, _, _, _, _]) => read.take_flag(name),
                name if is(name, CALL) => read.call = read.call.or_else(value),
                name if is(name, MADDR) => read.maddr = read.maddr.or_else(value),
                name if is(name, TRANSPORT) => read.transport = read.transport.or_else(value),
                _ => {}
            }
        }
        read
    }
}

impl<'a> ReadUri<'a> {
    #[inline(always)]
    fn bare(uri: SipUri<'a>) -> ReadUri<'a> {
        ReadUri {
            uri,
            transport: None,
            maddr: None,
            call: None,
            is_loose: false,
            is_gruu: false,
            is_outbound: false,
            has_method: false,
        }
    }

    /// Takes notice of a parameter whose value says nothing.
    fn take_flag(&mut self, name: &[u8]) {
        self.is_loose |= is(name, LOOSE);
        self.is_gruu |= is(name, GRUU);
        self.is_outbound |= is(name, OUTBOUND);
        self.has_method |= is(name, METHOD);
    }

    /// Reads a URI whose parameters may be named with escapes.
    #[cold]
    fn with_escapes(uri: SipUri<'a>) -> ReadUri<'a> {
        ReadUri {
            uri,
            transport: uri.parameter(TRANSPORT),
            maddr: uri.parameter(MADDR),
            call: uri.parameter(CALL),
            is_loose: uri.parameters().contains(LOOSE),
            is_gruu: uri.parameters().contains(GRUU),
            is_outbound: uri.parameters().contains(OUTBOUND),
            has_method: uri.parameters().contains(METHOD),
        }
    }
}

impl<'a> Deref for ReadUri<'a> {
    type Target = SipUri<'a>;

    #[inline(always)]
    fn deref(&self) -> &SipUri<'a> {
        &self.uri
    }
}

/// Whether a name is this one, which is of small letters.
#[inline(always)]
fn is(name: &[u8], known: &str) -> bool {
    const CASE: u8 = 0x20;
    // Of a length that the compiler knows.
    name.len() == known.len()
        && name
            .iter()
            .zip(known.as_bytes())
            .fold(0, |difference, (one, other)| {
                difference | (one | CASE) ^ other
            })
            == 0
}

const TRANSPORT: &str = "transport";
const MADDR: &str = "maddr";
const LOOSE: &str = "lr";
const GRUU: &str = "gr";
const OUTBOUND: &str = "ob";
const METHOD: &str = "method";

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use sip::Uri;

    use super::*;

    /// What is said of a URI, to be compared.
    fn said<'a>(uri: &ReadUri<'a>) -> ([Option<&'a str>; 3], [bool; 4]) {
        let flags = [uri.is_loose, uri.is_gruu, uri.is_outbound, uri.has_method];
        ([uri.transport, uri.maddr, uri.call], flags)
    }

    fn assert_read_as_looked_up(text: &str) {
        let Ok(Uri::Sip(uri)) = Uri::parse(text) else {
            return;
        };
        let read = ReadUri::from(uri);
        let looked_up = ReadUri::with_escapes(uri);
        assert_eq!(said(&read), said(&looked_up), "{text}");
        assert_eq!(read.as_str(), text);
    }

    #[test]
    fn the_first_of_a_name_counts_whatever_its_case_and_its_escapes() {
        let uri = |text| match Uri::parse(text) {
            Ok(Uri::Sip(uri)) => ReadUri::from(uri),
            other => panic!("{text}: {other:?}"),
        };
        let read = uri("sip:a@b;Transport=tcp;transport=udp;LR;call=1;x=lr");
        assert_eq!(
            said(&read),
            ([Some("tcp"), None, Some("1")], [true, false, false, false])
        );
        let escaped = uri("sip:a@b;lr;%6daddr=c;maddr=d;g%72;ob");
        assert_eq!(
            said(&escaped),
            ([None, Some("c"), None], [true, true, true, false])
        );
        assert_eq!(said(&uri("sip:lr;gra=1;lrx")), ([None; 3], [false; 4]));
    }

    proptest! {
        #[test]
        fn one_pass_finds_what_is_found_one_by_one(
            parameters in prop::collection::vec(
                prop::sample::select(vec![
                    "lr", "LR", "%6cr", "lr=on", "gr", "gr=x", "g%72", "ob", "oB=1", "maddr=192.0.2.1", "MADDR=x",
                    "m%61ddr=y", "maddr", "transport=tcp", "Transport=UDP", "tr%61nsport=ws", "transport", "call=12",
                    "CALL=34", "c%61ll=56", "method=BYE", "METHOD", "meth%6fd=1", "user=phone", "x", "x=%41", "lrx",
                ]),
                0..6,
            ),
        ) {
            let mut text = String::from("sip:bob@example.com");
            for parameter in parameters {
                text.push(';');
                text.push_str(parameter);
            }
            assert_read_as_looked_up(&text);
        }

        #[test]
        fn so_it_does_in_any_uri(text in "sip:(a@)?[ab.]{1,4}(;[a-zA-Z%67]{1,9}(=[a-z%41]{0,3})?){0,4}") {
            assert_read_as_looked_up(&text);
        }
    }
}
