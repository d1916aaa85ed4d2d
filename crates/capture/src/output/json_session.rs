//! A session as a line of JSON. There may be as many as a capture has calls, so it is written field by field: exact,
//! and several times faster than by way of floating-point numbers and a description of its fields.

use report::FixedPoint;
use serde::Serialize;

use super::rtp_tables::JsonStream;
use super::{Figures, session_table};
use crate::{Milestone, Session};

/// Appends a session as an object.
pub(super) fn push(session: &Session, figures: &Figures, out: &mut Vec<u8>) {
    let mut object = Object { out };
    object.out.extend_from_slice(b"{\"session\":");
    object.count(session.number);
    object.name(b",\"call_ids\":[");
    for (at, call_id) in session.call_ids.iter().enumerate() {
        if at > 0 {
            object.out.push(b',');
        }
        object.text(call_id);
    }
    object.name(b"],\"from\":").text(&session.from);
    object.name(b",\"to\":").text(&session.to);
    object
        .name(b",\"transport\":")
        .plain(session_table::transport(session));
    object.name(b",\"outcome\":").plain(session.outcome.text());
    object.name(b",\"status\":");
    match session.outcome.status() {
        Some(status) => object.count(status.into()),
        None => object.nothing(),
    }
    object
        .name(b",\"timestamps_s\":{\"REGISTER1\":")
        .figure(figures.timestamp(Milestone::Register1))
        .name(b",\"200OK1\":")
        .figure(figures.timestamp(Milestone::Ok1))
        .name(b",\"INVITE1\":")
        .figure(figures.timestamp(Milestone::Invite1))
        .name(b",\"RINGING\":")
        .figure(figures.timestamp(Milestone::Ringing))
        .name(b",\"SDP_OK2\":")
        .figure(figures.timestamp(Milestone::SdpOk2))
        .name(b",\"ACK\":")
        .figure(figures.timestamp(Milestone::Ack))
        .name(b",\"REGISTER2\":")
        .figure(figures.timestamp(Milestone::Register2))
        .name(b",\"200OK2\":")
        .figure(figures.timestamp(Milestone::Ok2))
        .name(b",\"INVITE2\":")
        .figure(figures.timestamp(Milestone::Invite2))
        .name(b",\"SDP_OK1\":")
        .figure(figures.timestamp(Milestone::SdpOk1))
        .name(b"},\"register_delay_1_ms\":")
        .figure(figures.register_delay_1.as_ref())
        .name(b",\"register_delay_2_ms\":")
        .figure(figures.register_delay_2.as_ref())
        .name(b",\"invite_delay_ms\":")
        .figure(figures.invite_delay.as_ref())
        .name(b",\"call_setup_delay_ms\":")
        .figure(figures.call_setup_delay.as_ref())
        .name(b",\"session_request_delay_ms\":")
        .figure(figures.session_request_delay.as_ref())
        .name(b",\"session_disconnect_delay_ms\":")
        .figure(figures.session_disconnect_delay.as_ref())
        .name(b",\"session_duration_s\":")
        .figure(figures.session_duration.as_ref())
        .name(b",\"messages\":")
        .count(session.messages);
    object
        .name(b",\"retransmissions\":")
        .count(session.retransmissions);
    object.name(b",\"rtp\":[");
    for (at, stream) in session.rtp.iter().enumerate() {
        if at > 0 {
            object.out.push(b',');
        }
        object.written(&JsonStream::of(stream));
    }
    object.name(b"]}");
}

struct Object<'o> {
    out: &'o mut Vec<u8>,
}

impl Object<'_> {
    /// What stands before a value, as it is. Its length is known where this is called, so that no other function need be.
    #[inline(always)]
    fn name<const N: usize>(&mut self, name: &[u8; N]) -> &mut Self {
        self.out.extend_from_slice(name);
        self
    }

    fn nothing(&mut self) {
        self.out.extend_from_slice(b"null");
    }

    fn count(&mut self, count: u64) {
        let mut digits = itoa::Buffer::new();
        self.out.extend_from_slice(digits.format(count).as_bytes());
    }

    /// A text that needs no escapes.
    fn plain(&mut self, text: &str) {
        self.out.push(b'"');
        self.out.extend_from_slice(text.as_bytes());
        self.out.push(b'"');
    }

    fn text(&mut self, text: &str) {
        match report::is_plain(text, [b'"', b'\\']) {
            true => self.plain(text),
            false => self.written(text),
        }
    }

    /// Anything, by way of a description of its fields.
    fn written(&mut self, value: &(impl Serialize + ?Sized)) {
        if serde_json::to_writer(&mut *self.out, value).is_err() {
            // Writing to memory does not fail.
            self.nothing();
        }
    }

    /// A number without the decimals that say nothing.
    #[inline]
    fn figure(&mut self, figure: Option<&FixedPoint>) -> &mut Self {
        match figure {
            Some(figure) => figure.push_shortest_to(self.out),
            None => self.nothing(),
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Outcome, Time, Timestamps};

    fn number(number: Option<i64>, decimals: usize) -> String {
        let mut out = Vec::new();
        let figure = number.map(|number| FixedPoint::new(number, decimals, b'.'));
        Object { out: &mut out }.figure(figure.as_ref());
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn numbers_are_exact_and_short() {
        assert_eq!(number(Some(0), 9), "0.0");
        assert_eq!(number(Some(22_100_000), 9), "0.0221");
        assert_eq!(number(Some(-1), 9), "-0.000000001");
        assert_eq!(number(Some(300_000), 6), "0.3");
        assert_eq!(number(Some(i64::MIN), 9), "-9223372036.854775808");
        assert_eq!(number(None, 9), "null");
    }

    #[test]
    fn a_session_is_an_object() {
        let mut timestamps = Timestamps::default();
        timestamps.set(Milestone::Invite1, Some(Time(1_500_000_000)));
        timestamps.set(Milestone::Ack, Some(Time(1_502_500_001)));
        let session = Session {
            number: 7,
            call_ids: vec!["a\"b\n\u{1}ä".into(), "c".into()],
            from: "a@x".into(),
            to: "".into(),
            transport: Some(sip::Transport::Udp),
            began: Time(1_500_000_000),
            outcome: Outcome::Refused(404),
            timestamps,
            session_request_delay: Some(-1_500_000),
            session_disconnect_delay: None,
            session_duration: Some(20_000_000_000),
            messages: 13,
            retransmissions: 0,
            rtp: Vec::new(),
        };
        let mut out = Vec::new();
        push(
            &session,
            &Figures::of(&session, Time(1_000_000_000)),
            &mut out,
        );
        let written: serde_json::Value = serde_json::from_slice(&out).unwrap();
        let expected = serde_json::json!({
            "session": 7,
            "call_ids": ["a\"b\n\u{1}ä", "c"],
            "from": "a@x",
            "to": "",
            "transport": "udp",
            "outcome": "refused",
            "status": 404,
            "timestamps_s": {
                "REGISTER1": null, "200OK1": null, "INVITE1": 0.5, "RINGING": null, "SDP_OK2": null,
                "ACK": 0.502500001, "REGISTER2": null, "200OK2": null, "INVITE2": null, "SDP_OK1": null,
            },
            "register_delay_1_ms": null,
            "register_delay_2_ms": null,
            "invite_delay_ms": null,
            "call_setup_delay_ms": 2.500001,
            "session_request_delay_ms": -1.5,
            "session_disconnect_delay_ms": null,
            "session_duration_s": 20.0,
            "messages": 13,
            "retransmissions": 0,
            "rtp": [],
        });
        assert_eq!(written, expected);
    }
}
