//! Messages written by hand, at times that the test chooses.

use std::net::{IpAddr, Ipv4Addr};

use capture::{Analysis, Carrier, Endpoint, Event, EventKind, Options, Results, Session, Time};

/// Nanoseconds of a millisecond.
pub(crate) const MS: i64 = 1_000_000;

/// An analysis that is told messages one by one.
pub(crate) struct Script {
    analysis: Analysis,
    pub(crate) sessions: Vec<Session>,
    packet: u64,
    /// The number of the file in which messages are seen.
    pub(crate) file: usize,
}

impl Script {
    pub(crate) fn new() -> Script {
        Script::with(&Options::default())
    }

    pub(crate) fn with(options: &Options) -> Script {
        Script {
            analysis: Analysis::new(options),
            sessions: Vec::new(),
            packet: 0,
            file: 0,
        }
    }

    /// A message at so many milliseconds from one host (its last octet) to another.
    pub(crate) fn see(&mut self, milliseconds: i64, from: u8, to: u8, text: &str) {
        self.see_at(milliseconds * MS, from, to, text);
    }

    /// A message at so many nanoseconds.
    pub(crate) fn see_at(&mut self, time: i64, from: u8, to: u8, text: &str) {
        self.packet += 1;
        let event = Event {
            time: Time(1_000_000_000_000 + time),
            file: self.file,
            packet: self.packet,
            source: endpoint(from),
            destination: endpoint(to),
            kind: EventKind::Sip {
                carrier: Carrier::Udp,
                octets: text.as_bytes(),
                cut: false,
            },
        };
        let sessions = &mut self.sessions;
        self.analysis
            .observe(&event, &mut |session| sessions.push(session.clone()));
    }

    pub(crate) fn finish(mut self) -> (Vec<Session>, Results) {
        let sessions = &mut self.sessions;
        let results = self
            .analysis
            .finish(&mut |session| sessions.push(session.clone()));
        (self.sessions, results)
    }
}

pub(crate) fn endpoint(host: u8) -> Endpoint {
    Endpoint {
        address: IpAddr::V4(Ipv4Addr::new(10, 0, 0, host)),
        port: 5060,
    }
}

/// A call, or a registration, whose messages can be written.
#[derive(Clone, Copy)]
pub(crate) struct Dialog<'d> {
    pub(crate) call_id: &'d str,
    pub(crate) from: &'d str,
    pub(crate) to: &'d str,
}

impl Dialog<'_> {
    /// A request; `vias` are branches, topmost first, `tag` is the To tag of a dialog.
    pub(crate) fn request(&self, method: &str, cseq: u32, vias: &[&str], tag: &str) -> String {
        let uri = format!("sip:{}@example.org", self.to);
        self.message(&format!("{method} {uri} SIP/2.0"), method, cseq, vias, tag)
    }

    /// A response.
    pub(crate) fn response(&self, status: u16, method: &str, cseq: u32, vias: &[&str]) -> String {
        self.message(&format!("SIP/2.0 {status} X"), method, cseq, vias, "callee")
    }

    fn message(&self, start: &str, method: &str, cseq: u32, vias: &[&str], tag: &str) -> String {
        let mut text = format!("{start}\r\n");
        for via in vias {
            text.push_str(&format!("Via: SIP/2.0/UDP host;branch=z9hG4bK{via}\r\n"));
        }
        let tag = match tag {
            "" => String::new(),
            tag => format!(";tag={tag}"),
        };
        text.push_str(&format!(
            "From: <sip:{}@example.org>;tag=caller\r\nTo: <sip:{}@example.org>{tag}\r\n\
             Call-ID: {}\r\nCSeq: {cseq} {method}\r\nContent-Length: 0\r\n\r\n",
            self.from, self.to, self.call_id
        ));
        text
    }
}

pub(crate) const CALL: Dialog<'static> = Dialog {
    call_id: "call",
    from: "alice",
    to: "bob",
};

/// Alice (1) calls Bob (3) through a proxy (2) from this millisecond on, and hangs up a second after he has
/// answered.
pub(crate) fn call_through_proxy(script: &mut Script, call: Dialog<'_>, start: i64) {
    let at = |milliseconds: i64| start + milliseconds;
    let (one, two) = (&["a1"][..], &["p1", "a1"][..]);
    script.see(at(0), 1, 2, &call.request("INVITE", 1, one, ""));
    script.see(at(1), 2, 1, &call.response(100, "INVITE", 1, one));
    script.see(at(3), 2, 3, &call.request("INVITE", 1, two, ""));
    script.see(at(10), 3, 2, &call.response(180, "INVITE", 1, two));
    script.see(at(12), 2, 1, &call.response(180, "INVITE", 1, one));
    script.see(at(100), 3, 2, &call.response(200, "INVITE", 1, two));
    script.see(at(101), 2, 1, &call.response(200, "INVITE", 1, one));
    script.see(at(105), 1, 2, &call.request("ACK", 1, &["a2"], "callee"));
    script.see(
        at(106),
        2,
        3,
        &call.request("ACK", 1, &["p2", "a2"], "callee"),
    );
    script.see(at(1101), 1, 2, &call.request("BYE", 2, &["a3"], "callee"));
    script.see(
        at(1102),
        2,
        3,
        &call.request("BYE", 2, &["p3", "a3"], "callee"),
    );
    script.see(at(1104), 3, 2, &call.response(200, "BYE", 2, &["p3", "a3"]));
    script.see(at(1108), 2, 1, &call.response(200, "BYE", 2, &["a3"]));
}

/// A registration of a user (host 1) at 2, challenged; the registrar takes 1 ms each time.
pub(crate) fn register(script: &mut Script, user: &str, host: u8, start: i64) {
    let call_id = format!("register-{user}");
    let dialog = Dialog {
        call_id: &call_id,
        from: user,
        to: user,
    };
    script.see(start, host, 2, &dialog.request("REGISTER", 1, &["r1"], ""));
    script.see(
        start + 1,
        2,
        host,
        &dialog.response(401, "REGISTER", 1, &["r1"]),
    );
    script.see(
        start + 5,
        host,
        2,
        &dialog.request("REGISTER", 2, &["r2"], ""),
    );
    script.see(
        start + 6,
        2,
        host,
        &dialog.response(200, "REGISTER", 2, &["r2"]),
    );
}
