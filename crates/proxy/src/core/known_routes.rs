//! Routes of ours, known again by how they are written.
//!
//! Nearly every request in a dialog comes with a Record-Route URI of ours as its Route, and these differ in the mark alone.
//! What is before the mark is read by the rules (in `route`) once for each of our addresses.

use std::net::SocketAddr;

use sip::Uri;

use super::dialog_mark::{CALL, MARK_LENGTH};
use super::read_uri::ReadUri;

/// How Route values begin that were found to lead to us, to name no flow, and to end with their mark.
#[derive(Debug, Default)]
pub(crate) struct KnownRoutes {
    routes: Vec<KnownRoute>,
    /// Which one gives way to the next.
    oldest: usize,
}

#[derive(Debug)]
struct KnownRoute {
    /// Up to the mark.
    beginning: Box<[u8]>,
    /// Our address that it came to, which the meaning of a URI depends on.
    local: SocketAddr,
}

/// How many are remembered: one for each way through us that most requests take.
const MAXIMUM_KNOWN: usize = 8;

impl KnownRoutes {
    /// What stands in a Route value in the mark's place. If it is a mark, the value leads to us and says nothing else. `None`
    /// where the rest is not known.
    pub(crate) fn mark_in<'a>(&self, value: &'a [u8], local: SocketAddr) -> Option<&'a [u8]> {
        let (beginning, end) = split(value)?;
        let is_it = |known: &KnownRoute| *known.beginning == *beginning && known.local == local;
        self.routes.iter().any(is_it).then_some(end)
    }

    /// Takes notice of a Route value that was found to lead to us.
    pub(crate) fn note(&mut self, value: &[u8], local: SocketAddr) {
        let Some((beginning, mark)) = split(value).filter(|_| ends_with_mark(value)) else {
            return;
        };
        if self.mark_in(value, local) == Some(mark) {
            return;
        }
        let known = KnownRoute {
            beginning: beginning.into(),
            local,
        };
        match self.routes.get_mut(self.oldest) {
            Some(place) => *place = known,
            None => self.routes.push(known),
        }
        self.oldest = (self.oldest + 1) % MAXIMUM_KNOWN;
    }
}

/// What is before the place of the mark, and what is there.
fn split(value: &[u8]) -> Option<(&[u8], &[u8])> {
    let without_bracket = value.strip_suffix(b">")?;
    without_bracket.split_at_checked(without_bracket.len().checked_sub(MARK_LENGTH)?)
}

/// Whether a Route value is a URI in brackets that ends with the only parameter for a mark, and says nothing that
/// would depend on anything but how it is written.
fn ends_with_mark(value: &[u8]) -> bool {
    let uri = value
        .strip_prefix(b"<")
        .and_then(|value| value.strip_suffix(b">"));
    let Some(Ok(text)) = uri.map(std::str::from_utf8) else {
        return false;
    };
    let Ok(Uri::Sip(uri)) = Uri::parse(text) else {
        return false;
    };
    let is_mark = |name: &str| name.eq_ignore_ascii_case(CALL);
    let marks = uri.parameters().filter(|parameter| is_mark(parameter.name));
    let uri = ReadUri::from(uri);
    !text.contains(['%', '>'])
        && uri.user().is_none()
        && uri.headers().is_none()
        && !uri.is_outbound
        && marks.count() == 1
        && uri
            .call
            .is_some_and(|mark| mark.len() == MARK_LENGTH && text.ends_with(mark))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MARK: &str = "0123456789abcdef0123";

    fn local(port: u16) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, 1], port))
    }

    #[test]
    fn what_differs_in_the_mark_alone_is_known_again() {
        let mut known = KnownRoutes::default();
        let route = |mark: &str| format!("<sip:192.0.2.1;lr;call={mark}>");
        let other = MARK.replace('0', "f");
        assert_eq!(known.mark_in(route(MARK).as_bytes(), local(1)), None);
        known.note(route(MARK).as_bytes(), local(1));
        known.note(route(&other).as_bytes(), local(1));
        assert_eq!(known.routes.len(), 1);
        for mark in [MARK, &other, "01234567;lr=6789>012"] {
            let value = route(mark);
            assert_eq!(
                known.mark_in(value.as_bytes(), local(1)),
                Some(mark.as_bytes())
            );
            assert_eq!(known.mark_in(value.as_bytes(), local(2)), None);
        }
        for unknown in [
            "",
            ">",
            &route(&MARK[1..]),
            &route(MARK).replace("lr", "LR"),
            &route(MARK).replace('>', ";x>"),
            &route(MARK).replace('<', "x <"),
        ] {
            assert_eq!(known.mark_in(unknown.as_bytes(), local(1)), None);
        }
    }

    #[test]
    fn what_says_more_is_not_remembered() {
        for text in [
            "sip:token@192.0.2.1;lr;call=MARK",
            "sip:192.0.2.1;lr;ob;call=MARK",
            "sip:192.0.2.1;lr;call=MARK;call=MARK",
            "sip:192.0.2.1;c%61ll=1;call=MARK",
            "sip:192.0.2.1;lr;call=MARK;x",
            "sip:192.0.2.1;call=0MARK",
            "sip:192.0.2.1;lr;x=MARK",
            "sip:192.0.2.1;lr;call=1?x=MARK",
            "tel:+1;call=MARK",
        ] {
            let value = format!("<{}>", text.replace("MARK", MARK));
            let mut known = KnownRoutes::default();
            known.note(value.as_bytes(), local(1));
            assert!(known.routes.is_empty(), "{value}");
        }
        let mut known = KnownRoutes::default();
        for number in 0..100 {
            let value = format!("<sip:192.0.2.1;x={number};call={MARK}>");
            known.note(value.as_bytes(), local(1));
        }
        assert_eq!(known.routes.len(), MAXIMUM_KNOWN);
    }
}
