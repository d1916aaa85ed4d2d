//! The copy of a request that a proxy sends on, written from one end to the other (RFC 3261 section 16.6).
//!
//! A clone and its edits say the same of any request, and can be edited further. Of most requests that are sent on the
//! copy is only ever sent: nothing is indexed for it, and nothing written twice.

use std::ops::Range;

use bytes::Bytes;

use crate::syntax::find_control;
use crate::{Message, Name};

use super::lines::Decimal;
use super::{Edits, Field, Span, Start};

/// What the copy of a request says that the request does not.
#[derive(Clone, Copy, Debug)]
pub struct Onward<'a> {
    /// Its Request-URI.
    pub request_uri: &'a str,
    /// Its Max-Forwards.
    pub max_forwards: u8,
    /// Its Max-Breadth (RFC 5393 section 5.3.3), if it is to have one.
    pub max_breadth: Option<u32>,
    /// Whole lines, each with its line end, that come before all Record-Routes, or before all fields.
    pub record_routes: &'a str,
    /// The line of our Via, which comes before the others.
    pub via: &'a str,
}

/// Octets that the numbers and their names take.
const NUMBERS: usize = 48;

impl Message {
    /// Writes the copy of a request that goes on. `None` where that takes more than to copy and to insert: of a message that
    /// is no request, that has lines which do not end as they should, no Via, not one Max-Forwards, or has a
    /// Max-Breadth already.
    ///
    /// It is what these edits of a clone make, in this order: the Request-URI set unless it is the same, Max-Forwards
    /// set, Max-Breadth replaced, each Record-Route pushed to the front, the last line first, and the Via.
    pub fn write_onward(&self, onward: &Onward<'_>) -> Option<Bytes> {
        let Start::Request { method, uri, .. } = &self.0.start else {
            return None;
        };
        let fields = &self.0.fields;
        let via = fields.position(Name::Via.code())?;
        let max_forwards = fields.position(Name::MaxForwards.code())?;
        let is_repeated = |field: &Field| field.name == Name::MaxForwards.code();
        let may_be_repeated = self.may_be_repeated(Name::MaxForwards.code());
        if self.0.flaws.line_ends
            || self.0.flaws.unterminated
            || fields.may_have(Name::MaxBreadth.code())
            || may_be_repeated && fields[max_forwards + 1..].iter().any(is_repeated)
            || find_control(onward.request_uri.as_bytes()).is_some()
        {
            return None;
        }
        let record_route = fields.position(Name::RecordRoute.code()).unwrap_or(0);
        // Behind all but a Content-Length at the end.
        let max_breadth = match fields.last() {
            Some(last) if last.name == Name::ContentLength.code() => fields.len() - 1,
            _ => fields.len(),
        };

        let is_same = self.text(*uri) == onward.request_uri.as_bytes();
        let line = [method.as_str(), " ", onward.request_uri, " SIP/2.0\r\n"];
        let line = if is_same { [""; 4] } else { line };
        let cut = match self.0.edits {
            Edits::None => Some(0..0),
            Edits::Cut { start, end } => Some(start as usize..end as usize),
            Edits::Any => None,
        };
        if let Some(cut) = cut {
            let (hops, breadth) = (Decimal::of(onward.max_forwards.into()), onward.max_breadth);
            let breadth = breadth.map(|breadth| Decimal::of(breadth as usize));
            let end = self.0.body_start - 2;
            let place = |at: usize| fields.get(at).map_or(end, |field| field.start) as usize;
            let hops_line = &fields[max_forwards];
            let hops_name_end = hops_line.start as usize + usize::from(hops_line.name_length);
            // Who stands at one place comes in this order.
            let mut inserts = [
                (place(record_route), Insert::Text(onward.record_routes)),
                (place(via), Insert::Text(onward.via)),
                (place(max_breadth), Insert::MaxBreadth),
                (hops_name_end, Insert::MaxForwards),
            ];
            inserts.sort_by_key(|(place, _)| *place);
            let at = if is_same {
                0
            } else {
                self.0.start_line.end as usize
            };
            let old_hops = hops_line.end as usize - hops_name_end;
            let gone = at + cut.len() + old_hops;
            let breadth_length = breadth
                .as_ref()
                .map_or(0, |breadth| MAX_BREADTH.len() + rest_length(breadth));
            let line_length: usize = line.iter().map(|part| part.len()).sum();
            let new = line_length
                + onward.record_routes.len()
                + onward.via.len()
                + breadth_length
                + rest_length(&hops);
            let length = self.0.received.len() - gone + new;
            // Exactly, or there would be a second allocation to remember the capacity.
            let mut copy = LongCopy {
                received: &self.0.received,
                cut,
                octets: Vec::with_capacity(length),
                at,
            };
            for part in line {
                copy.octets.extend_from_slice(part.as_bytes());
            }
            for (place, insert) in inserts {
                if copy.at < place {
                    copy.go_on(place);
                }
                match insert {
                    Insert::Text(text) => copy.octets.extend_from_slice(text.as_bytes()),
                    Insert::MaxBreadth => {
                        if let Some(breadth) = &breadth {
                            copy.octets.extend_from_slice(MAX_BREADTH);
                            copy.insert_rest(breadth);
                        }
                    }
                    Insert::MaxForwards => {
                        copy.insert_rest(&hops);
                        copy.at = hops_line.end as usize;
                    }
                }
            }
            copy.go_on(self.0.received.len());
            debug_assert_eq!(copy.octets.len(), length);
            return Some(copy.octets.into());
        }
        let body = self.body();
        let ours = onward.request_uri.len() + onward.record_routes.len() + onward.via.len();
        let theirs = self.0.body_start as usize + self.0.written.len() + body.len();
        let mut octets = Vec::with_capacity(theirs + ours + NUMBERS);
        for part in line {
            octets.extend_from_slice(part.as_bytes());
        }
        let mut copy = Copy {
            message: self,
            octets,
            run: self.0.start_line,
        };
        if !is_same {
            copy.run.start = copy.run.end;
        }
        for (at, field) in fields.iter().enumerate() {
            if at == record_route {
                copy.insert(onward.record_routes);
            }
            if at == via {
                copy.insert(onward.via);
            }
            if at == max_breadth {
                copy.insert_max_breadth(onward.max_breadth);
            }
            if at == max_forwards {
                copy.insert_number(self.name_of(field), onward.max_forwards.into());
            } else {
                copy.go_on(field.line());
            }
        }
        if max_breadth == fields.len() {
            copy.insert_max_breadth(onward.max_breadth);
        }
        copy.insert("\r\n");
        copy.octets.extend_from_slice(body);
        Some(copy.octets.into())
    }
}

/// What the copy has that what was received has not.
#[derive(Clone, Copy)]
enum Insert<'a> {
    Text(&'a str),
    MaxBreadth,
    /// In the place of what stands behind its name.
    MaxForwards,
}

const MAX_BREADTH: &[u8] = Name::MaxBreadth.as_str().as_bytes();

/// A copy, being written, of a message that is as it was received but for some lines that are gone.
struct LongCopy<'a> {
    received: &'a [u8],
    /// These lines.
    cut: Range<usize>,
    octets: Vec<u8>,
    /// What is to be copied next.
    at: usize,
}

impl LongCopy<'_> {
    /// Copies what stands before a place.
    #[inline(never)]
    fn go_on(&mut self, end: usize) {
        if self.cut.start < end && self.at <= self.cut.start {
            let before = &self.received[self.at..self.cut.start];
            self.octets.extend_from_slice(before);
            self.at = self.cut.end;
        }
        self.octets.extend_from_slice(&self.received[self.at..end]);
        self.at = end;
    }

    /// What stands behind the name of a number's line.
    fn insert_rest(&mut self, number: &Decimal) {
        self.octets.extend_from_slice(b": ");
        self.octets.extend_from_slice(number.digits());
        self.octets.extend_from_slice(b"\r\n");
    }
}

/// The length of what stands behind the name of a number's line.
fn rest_length(number: &Decimal) -> usize {
    b": \r\n".len() + number.digits().len()
}

/// A copy of any message that is being written.
struct Copy<'a> {
    message: &'a Message,
    octets: Vec<u8>,
    /// What is to be copied next.
    run: Span,
}

impl Copy<'_> {
    /// Copies a line, together with those before it where it lies behind them.
    #[inline]
    fn go_on(&mut self, line: Span) {
        if line.source != self.run.source || line.start != self.run.end {
            self.flush();
            self.run.start = line.start;
            self.run.source = line.source;
        }
        self.run.end = line.end;
    }

    #[inline(never)]
    fn flush(&mut self) {
        let run = self.message.text(self.run);
        self.octets.extend_from_slice(run);
        self.run.start = self.run.end;
    }

    fn insert(&mut self, text: &str) {
        self.flush();
        self.octets.extend_from_slice(text.as_bytes());
    }

    fn insert_number(&mut self, name: &[u8], number: usize) {
        self.flush();
        for part in [name, b": ", Decimal::of(number).digits(), b"\r\n"] {
            self.octets.extend_from_slice(part);
        }
    }

    fn insert_max_breadth(&mut self, max_breadth: Option<u32>) {
        if let Some(number) = max_breadth {
            self.insert_number(MAX_BREADTH, number as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ONWARD: Onward<'_> = Onward {
        request_uri: "sip:bob@192.0.2.4:5070",
        max_forwards: 69,
        max_breadth: Some(60),
        record_routes: "Record-Route: <sip:a;lr>\r\nRecord-Route: <sip:b;lr>\r\n",
        via: "Via: SIP/2.0/UDP 192.0.2.1;branch=z9hG4bK1\r\n",
    };

    /// What the edits make that [`Message::write_onward`] names.
    fn edited(request: &Message, onward: &Onward<'_>) -> Bytes {
        let mut copy = request.clone();
        if copy.request_uri() != Some(onward.request_uri) {
            copy.set_request_uri(onward.request_uri);
        }
        copy.set_max_forwards(onward.max_forwards);
        if let Some(number) = onward.max_breadth {
            copy.replace(Name::MaxBreadth, number.to_string());
        }
        let value = |line: &str| line.split_once(": ").expect("a field").1.to_owned();
        for line in onward.record_routes.lines().rev() {
            copy.push_front(Name::RecordRoute, value(line));
        }
        copy.push_front(Name::Via, value(onward.via));
        copy.to_bytes()
    }

    /// Returns whether the request was one whose copy can be written.
    fn compare(request: &Message, onward: &Onward<'_>) -> bool {
        let written = request.write_onward(onward);
        if let Some(written) = &written {
            assert_eq!(*written, edited(request, onward));
        }
        written.is_some()
    }

    #[test]
    fn a_copy_is_what_the_edits_make() {
        const REQUEST: &str = "INVITE sip:bob@example.com SIP/2.0\r\n\
            Via: SIP/2.0/UDP 192.0.2.9;branch=z9hG4bK2\r\n\
            Max-Forwards: 70\r\nX-Other: a,\r\n b\r\nContent-Length: 4\r\n\r\nbody";
        let read = |text: String| Message::read(Bytes::from(text)).expect("a message");
        let changed = |from: &str, to: &str| read(REQUEST.replace(from, to));
        let mut route_taken = changed("X-Other: a", "Route: <sip:c;lr>\r\nRoute: <sip:d>, <sip:e>");
        assert!(route_taken.remove_first_value(Name::Route));
        assert!(route_taken.remove_first_value(Name::Route));
        let same = Onward {
            request_uri: "sip:bob@example.com",
            ..ONWARD
        };
        let bare = Onward {
            max_breadth: None,
            record_routes: "",
            ..ONWARD
        };
        for request in [
            changed("", ""),
            changed("Max-Forwards: 70", "max-forwards :  0"),
            changed("X-Other: a", "record-route: <sip:z;lr>"),
            changed("Via:", "Record-Route: <sip:z;lr>\r\nv:"),
            changed("Content-Length: 4", "X: y"),
            route_taken,
        ] {
            for onward in [&ONWARD, &same, &bare] {
                assert!(compare(&request, onward), "{request}");
            }
        }
        for (from, to) in [
            ("Via", "Trail"),
            ("Max-Forwards: 70", "X: y"),
            ("X-Other: a,\r\n b", "Max-Forwards: 7"),
            ("X-Other: a", "Max-Breadth: 7"),
            ("X-Other: a,\r\n b", "X-Other: a\n"),
            ("INVITE sip:bob@example.com SIP/2.0", "SIP/2.0 200 OK"),
        ] {
            assert!(!compare(&changed(from, to), &ONWARD), "{to}");
        }
        let folded = Onward {
            request_uri: "sip:a\r\nb",
            ..ONWARD
        };
        assert!(!compare(&changed("", ""), &folded));
    }

    proptest! {
        #[test]
        fn whatever_is_written_is_what_the_edits_make(
            parts in prop::collection::vec(
                prop::sample::select(vec![
                    "Via: SIP/2.0/UDP a;branch=z9hG4bK1\r\n", "v: b, c\r\n", "Max-Forwards: 70\r\n",
                    "Max-Forwards:\t7 \r\n", "Record-Route: <sip:a;lr>\r\n", "Route: <sip:a>, <sip:b>\r\n",
                    "X: y\r\n z\r\n", "no field\r\n", "Content-Length: 2\r\n", "l: 0\r\n", "X: \u{fc}\r\n", "Max-Breadth: 1\r\n",
                    "X: y\n",
                ]),
                0..12,
            ),
            end in prop::sample::select(vec!["\r\n", "\r\nbody", ""]),
            is_same in any::<bool>(),
            routes in 0..4,
            is_noted in any::<bool>(),
        ) {
            let text = format!("BYE sip:c@d SIP/2.0\r\n{}{end}", parts.concat());
            let mut request = Message::read(Bytes::from(text)).expect("a message");
            for _ in 0..routes {
                request.remove_first_value(Name::Route);
            }
            if is_noted {
                request.set_top_via_parameter("received", Some("192.0.2.7"));
            }
            let read = Message::read(request.to_bytes()).expect("a message");
            prop_assert_eq!(read.fields().collect::<Vec<_>>(), request.fields().collect::<Vec<_>>());
            prop_assert_eq!(read.body(), request.body());
            prop_assert_eq!(request.wire_length(), request.to_bytes().len());
            let mut gathered = bytes::BytesMut::new();
            request.write_to(&mut gathered);
            prop_assert_eq!(gathered.freeze(), request.to_bytes());
            let request_uri = if is_same { "sip:c@d" } else { ONWARD.request_uri };
            compare(&request, &Onward { request_uri, ..ONWARD });
        }
    }
}
