//! A session as a line of JSON. There may be as many as a capture has calls, so it is written field by field: exact,
//! and several times faster than by way of floating-point numbers and a description of its fields.

use report::FixedPoint;

use super::session_table;
use crate::{Event, Session, Time};

/// Appends a session as an object. `origin` is when the capture began.
pub(super) fn push(session: &Session, origin: Time, out: &mut Vec<u8>) {
    const MILLISECONDS: usize = 6;
    const SECONDS: usize = 9;
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
    object.name(b",\"timestamps_s\":{");
    for (event, name) in Event::ALL.into_iter().zip(TIMESTAMPS) {
        object.name(name);
        let time = session.timestamps.get(event);
        object.fixed(time.map(|time| time - origin), SECONDS);
    }
    object.out.push(b'}');
    for (name, delay) in [
        (
            &b",\"register_delay_1_ms\":"[..],
            session.register_delay_1(),
        ),
        (b",\"register_delay_2_ms\":", session.register_delay_2()),
        (b",\"invite_delay_ms\":", session.invite_delay()),
        (b",\"call_setup_delay_ms\":", session.call_setup_delay()),
        (
            b",\"session_request_delay_ms\":",
            session.session_request_delay,
        ),
        (
            b",\"session_disconnect_delay_ms\":",
            session.session_disconnect_delay,
        ),
    ] {
        object.name(name).fixed(delay, MILLISECONDS);
    }
    object
        .name(b",\"session_duration_s\":")
        .fixed(session.session_duration, SECONDS);
    object.name(b",\"messages\":").count(session.messages);
    object
        .name(b",\"retransmissions\":")
        .count(session.retransmissions);
    object.out.push(b'}');
}

/// What stands before each time, in the order of [`Event::ALL`].
const TIMESTAMPS: [&[u8]; 10] = [
    b"\"REGISTER1\":",
    b",\"200OK1\":",
    b",\"INVITE1\":",
    b",\"RINGING\":",
    b",\"SDP_OK2\":",
    b",\"ACK\":",
    b",\"REGISTER2\":",
    b",\"200OK2\":",
    b",\"INVITE2\":",
    b",\"SDP_OK1\":",
];

struct Object<'o> {
    out: &'o mut Vec<u8>,
}

impl Object<'_> {
    /// What stands before a value, as it is.
    fn name(&mut self, name: &[u8]) -> &mut Self {
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
        if text.bytes().all(|octet| IS_PLAIN[usize::from(octet)]) {
            self.plain(text);
        } else if serde_json::to_writer(&mut *self.out, text).is_err() {
            // Writing to memory does not fail.
            self.out.extend_from_slice(b"\"\"");
        }
    }

    /// A number of which the last so many digits are decimals, without those that say nothing.
    fn fixed(&mut self, number: Option<i64>, decimals: usize) {
        match number {
            Some(number) => {
                let number = FixedPoint::new(number, decimals, b'.');
                self.out.extend_from_slice(number.shortest());
            }
            None => self.nothing(),
        }
    }
}

/// What stands in a text as it is: printable ASCII but quotation marks and backslashes.
static IS_PLAIN: [bool; 256] = {
    let mut is_plain = [false; 256];
    let mut octet = 0x20;
    while octet < 0x7f {
        is_plain[octet] = octet != b'"' as usize && octet != b'\\' as usize;
        octet += 1;
    }
    is_plain
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Outcome, Timestamps};

    fn number(number: Option<i64>, decimals: usize) -> String {
        let mut out = Vec::new();
        Object { out: &mut out }.fixed(number, decimals);
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
        timestamps.set(Event::Invite1, Some(Time(1_500_000_000)));
        timestamps.set(Event::Ack, Some(Time(1_502_500_001)));
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
        };
        let mut out = Vec::new();
        push(&session, Time(1_000_000_000), &mut out);
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
        });
        assert_eq!(written, expected);
    }
}
