//! Routes of ours, known again by how they are written.
//!
//! Nearly every request in a dialog comes with a Record-Route URI of ours as its Route, and these differ in the mark and in
//! the token of a flow alone. What is before the mark is read by the rules (in `route`) once for each of our addresses, and
//! twice for each flow.

use std::hash::Hasher;
use std::net::SocketAddr;

use sip::{Flow, Uri};
use siphasher::sip::SipHasher13;

use super::dialog_mark::MARK_LENGTH;
use super::flow_token::FlowTokens;
use super::read_uri::{CALL, ReadUri};

/// How Route values begin that were found to lead to us and to end with their mark.
#[derive(Debug, Default)]
pub(crate) struct RouteCache {
    /// Those that name no flow.
    plain: Vec<KnownRoute>,
    /// Which one gives way to the next.
    oldest: usize,
    /// Those that name one. There may be as many as there are user agents: each has one place, by a hash.
    along_flows: Vec<Place>,
}

#[derive(Debug)]
struct KnownRoute {
    /// Up to the mark.
    beginning: Box<[u8]>,
    /// Our address that it came to, which the meaning of a URI depends on.
    local: SocketAddr,
    flow: Option<Flow>,
}

/// Where a route is that names a flow.
#[derive(Debug, Default)]
struct Place {
    /// That of the one that was seen here last: it has to come twice, or all would take turns.
    hash: u64,
    route: Option<KnownRoute>,
}

/// What a Route value that is known says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CachedRoute<'a> {
    /// What stands in the mark's place. If it is a mark, the value leads to us.
    pub(crate) mark: &'a [u8],
    /// The flow that it names.
    pub(crate) flow: Option<Flow>,
}

/// How many are remembered that name no flow: one for each way through us that most requests take.
const MAXIMUM_PLAIN: usize = 8;

/// How many places there are for those that name one.
const PLACES: usize = 256;

/// How long a value may be that is remembered. Ours are shorter, but who sends one back can add to it.
const LONGEST: usize = 256;

impl RouteCache {
    /// What a Route value says. `None` where that is not known.
    pub(crate) fn find<'a>(&self, value: &'a [u8], local: SocketAddr) -> Option<CachedRoute<'a>> {
        let (beginning, mark) = split(value)?;
        let is_it = |known: &&KnownRoute| *known.beginning == *beginning && known.local == local;
        let known = self.plain.iter().find(is_it).or_else(|| {
            let place = self.along_flows.get(place_of(hash(beginning, local)))?;
            place.route.as_ref().filter(is_it)
        })?;
        Some(CachedRoute {
            mark,
            flow: known.flow,
        })
    }

    /// Takes notice of a Route value that was found to lead to us.
    pub(crate) fn note(&mut self, value: &[u8], local: SocketAddr, tokens: &FlowTokens) {
        if self.find(value, local).is_some() {
            return;
        }
        let Some((beginning, _)) = split(value).filter(|_| value.len() <= LONGEST) else {
            return;
        };
        // Before anything is read: it may be the only one of its kind.
        if beginning.contains(&b'@') && !self.has_come_before(hash(beginning, local)) {
            return;
        }
        let Some(flow) = flow_before_mark(value, tokens) else {
            return;
        };
        let known = KnownRoute {
            beginning: beginning.into(),
            local,
            flow,
        };
        if flow.is_some() {
            self.along_flows[place_of(hash(beginning, local))].route = Some(known);
            return;
        }
        match self.plain.get_mut(self.oldest) {
            Some(place) => *place = known,
            None => self.plain.push(known),
        }
        self.oldest = (self.oldest + 1) % MAXIMUM_PLAIN;
    }

    /// Whether the last value for its place had this hash, too.
    fn has_come_before(&mut self, hash: u64) -> bool {
        if self.along_flows.is_empty() {
            self.along_flows.resize_with(PLACES, Place::default);
        }
        let place = &mut self.along_flows[place_of(hash)];
        std::mem::replace(&mut place.hash, hash) == hash
    }
}

/// Nothing is gained by finding two that have one place: both are then read each time.
fn hash(beginning: &[u8], local: SocketAddr) -> u64 {
    let mut hasher = SipHasher13::new();
    hasher.write(beginning);
    hasher.write_u16(local.port());
    hasher.finish()
}

fn place_of(hash: u64) -> usize {
    hash as usize % PLACES
}

/// What is before the place of the mark, and what is there.
fn split(value: &[u8]) -> Option<(&[u8], &[u8])> {
    let without_bracket = value.strip_suffix(b">")?;
    without_bracket.split_at_checked(without_bracket.len().checked_sub(MARK_LENGTH)?)
}

/// The flow that a Route value names, if any, where it is a URI in brackets that ends with the only parameter for a mark, and
/// says nothing that would depend on anything but how it is written. `None` of any other.
fn flow_before_mark(value: &[u8], tokens: &FlowTokens) -> Option<Option<Flow>> {
    let text = value.strip_prefix(b"<")?.strip_suffix(b">")?;
    let text = std::str::from_utf8(text).ok()?;
    let Ok(Uri::Sip(uri)) = Uri::parse(text) else {
        return None;
    };
    let is_mark = |name: &str| name.eq_ignore_ascii_case(CALL);
    let marks = uri.parameters().filter(|parameter| is_mark(parameter.name));
    let uri = ReadUri::from(uri);
    let is_plain = !text.contains(['%', '>'])
        && uri.headers().is_none()
        && !uri.is_outbound
        && marks.count() == 1
        && uri
            .call
            .is_some_and(|mark| mark.len() == MARK_LENGTH && text.ends_with(mark));
    if !is_plain {
        return None;
    }
    match uri.user() {
        // That no token of ours is, is for others to find out again each time.
        Some(user) => tokens.decode(user).map(Some),
        None => Some(None),
    }
}

#[cfg(test)]
mod tests {
    use sip::{ConnectionId, Transport};

    use super::super::keys::Keys;
    use super::*;

    const MARK: &str = "0123456789abcdef0123456789abcdef";

    fn local(port: u16) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, 1], port))
    }

    fn tokens() -> FlowTokens {
        FlowTokens::new(&Keys::from_bytes([1; 32]), 7)
    }

    fn flow(connection: u64) -> Flow {
        Flow {
            transport: Transport::Sctp,
            local: local(5060),
            remote: local(5061),
            connection: ConnectionId(connection),
            stream: 0,
        }
    }

    #[test]
    fn what_names_a_flow_is_known_when_it_has_come_twice() {
        let mut known = RouteCache::default();
        let tokens = tokens();
        let route = |connection| {
            let mut token = String::new();
            tokens.push_to(&mut token, &flow(connection));
            format!("<sip:{token}@192.0.2.1;lr;call={MARK}>")
        };
        for (times, connection) in [(1, 1), (2, 2), (2, 3)] {
            for _ in 0..times {
                known.note(route(connection).as_bytes(), local(1), &tokens);
            }
        }
        for (connection, is_known) in [(1, false), (2, true), (3, true)] {
            let route = route(connection);
            let expected = is_known.then_some(CachedRoute {
                mark: MARK.as_bytes(),
                flow: Some(flow(connection)),
            });
            assert_eq!(known.find(route.as_bytes(), local(1)), expected);
            assert_eq!(known.find(route.as_bytes(), local(2)), None);
        }
        for connection in 0..2_000 {
            known.note(route(connection).as_bytes(), local(1), &tokens);
            known.note(route(connection).as_bytes(), local(1), &tokens);
        }
        assert_eq!(known.along_flows.len(), PLACES);
        assert!(known.plain.is_empty());
    }

    #[test]
    fn what_differs_in_the_mark_alone_is_known_again() {
        let mut known = RouteCache::default();
        let route = |mark: &str| format!("<sip:192.0.2.1;lr;call={mark}>");
        let other = MARK.replace('0', "f");
        assert_eq!(known.find(route(MARK).as_bytes(), local(1)), None);
        known.note(route(MARK).as_bytes(), local(1), &tokens());
        known.note(route(&other).as_bytes(), local(1), &tokens());
        assert_eq!(known.plain.len(), 1);
        for mark in [MARK, &other, "01234567;lr=6789>0123456789abcde"] {
            let value = route(mark);
            let expected = CachedRoute {
                mark: mark.as_bytes(),
                flow: None,
            };
            assert_eq!(known.find(value.as_bytes(), local(1)), Some(expected));
            assert_eq!(known.find(value.as_bytes(), local(2)), None);
        }
        for unknown in [
            "",
            ">",
            &route(&MARK[1..]),
            &route(MARK).replace("lr", "LR"),
            &route(MARK).replace('>', ";x>"),
            &route(MARK).replace('<', "x <"),
        ] {
            assert_eq!(known.find(unknown.as_bytes(), local(1)), None);
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
            &format!("sip:192.0.2.1;lr;x={};call=MARK", "x".repeat(LONGEST)),
        ] {
            let value = format!("<{}>", text.replace("MARK", MARK));
            let mut known = RouteCache::default();
            for _ in 0..3 {
                known.note(value.as_bytes(), local(1), &tokens());
            }
            assert_eq!(known.find(value.as_bytes(), local(1)), None, "{value}");
        }
        let mut known = RouteCache::default();
        for number in 0..100 {
            let value = format!("<sip:192.0.2.1;x={number};call={MARK}>");
            known.note(value.as_bytes(), local(1), &tokens());
        }
        assert_eq!(known.plain.len(), MAXIMUM_PLAIN);
    }
}
