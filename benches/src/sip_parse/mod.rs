//! `sip-parse`: an INVITE of a kilobyte is read, edited as a proxy does that forwards it, and written,
//! by our message and by the published crates; these leave header values as text, or also parse what a proxy has to
//! check.

mod ezk;
mod ours;
mod rsip;
mod rsipstack;

use std::hint::black_box;
use std::time::{Duration, Instant};

use anyhow::ensure;
use bytes::Bytes;

use crate::cpu;
use crate::output::{Output, Row};
use crate::rounds::{Better, Rounds};

/// How many times faster ours is to be.
const GOAL: f64 = 5.0;

/// The request as it comes: a kilobyte, of which a third is the body.
const INVITE: &str = "INVITE sip:bob@biloxi.example.com SIP/2.0\r\n\
    Via: SIP/2.0/UDP bigbox3.site3.atlanta.example.com:5060;branch=z9hG4bK77ef4c2312983.1;rport\r\n\
    Via: SIP/2.0/UDP pc33.atlanta.example.com:5066;branch=z9hG4bKnashds8;received=192.0.2.1;rport=5066\r\n\
    Max-Forwards: 69\r\n\
    Route: <sip:192.0.2.7:5060;lr>\r\n\
    Record-Route: <sip:bigbox3.site3.atlanta.example.com;lr>\r\n\
    From: \"Alice Liddell\" <sip:alice@atlanta.example.com>;tag=1928301774\r\n\
    To: \"Bob\" <sip:bob@biloxi.example.com>\r\n\
    Call-ID: a84b4c76e66710-3848276298220188511@pc33.atlanta.example.com\r\n\
    CSeq: 314159 INVITE\r\n\
    Contact: <sip:alice@pc33.atlanta.example.com:5066>\r\n\
    Allow: INVITE, ACK, CANCEL, BYE, OPTIONS, UPDATE\r\n\
    Supported: replaces, timer\r\n\
    User-Agent: Example Phone 7.3\r\n\
    Content-Type: application/sdp\r\n\
    Content-Length: 267\r\n\
    \r\n\
    v=0\r\n\
    o=alice 2890844526 2890844526 IN IP4 pc33.atlanta.example.com\r\n\
    s=-\r\n\
    c=IN IP4 192.0.2.101\r\n\
    t=0 0\r\n\
    m=audio 49172 RTP/AVP 0 8 97 101\r\n\
    a=rtpmap:0 PCMU/8000\r\n\
    a=rtpmap:8 PCMA/8000\r\n\
    a=rtpmap:97 iLBC/8000\r\n\
    a=rtpmap:101 telephone-event/8000\r\n\
    a=fmtp:101 0-15\r\n\
    a=sendrecv\r\n";

/// What forwarding writes (RFC 3261 section 16.6): another Request-URI, one hop less, our
/// Record-Route and our Via in front; and the Route that led here is taken off (section 16.4).
const REQUEST_URI: &str = "sip:bob@192.0.2.4:5062";
const RECORD_ROUTE: &str = "<sip:192.0.2.7:5060;lr>";
const VIA: &str = "SIP/2.0/UDP 192.0.2.7:5060;branch=z9hG4bK2d4790.5f1c9a01";

/// Reads, edits and writes the request.
type Forward = fn(&Bytes) -> anyhow::Result<Vec<u8>>;

/// The same work done by all.
struct Group {
    name: &'static str,
    ours: Forward,
    peers: [(&'static str, Forward); 3],
}

/// What is measured, in this order.
const GROUPS: [Group; 2] = [FORWARD, CHECK_AND_FORWARD];

/// All leave the header values as text until they are asked for.
const FORWARD: Group = Group {
    name: "parse-and-forward-1kB",
    ours: ours::forward,
    peers: [
        ("rsip", rsip::forward),
        ("rsipstack", rsipstack::forward),
        ("ezk-sip-types", ezk::forward),
    ],
};

/// Before it is forwarded, the request is checked for reasonable syntax (RFC 3261 section 16.3). A peer does this by
/// parsing every Via, From, To, Contact, Route, Record-Route and CSeq into its typed header.
const CHECK_AND_FORWARD: Group = Group {
    name: "parse-check-and-forward-1kB",
    ours: ours::check_and_forward,
    peers: [
        ("rsip", rsip::check_and_forward),
        ("rsipstack", rsipstack::check_and_forward),
        ("ezk-sip-types", ezk::check_and_forward),
    ],
};

pub(crate) fn run(rounds: &Rounds, output: &mut dyn Output) -> anyhow::Result<()> {
    let invite = Bytes::from_static(INVITE.as_bytes());
    let cases = GROUPS
        .iter()
        .flat_map(|group| group.peers.map(|peer| (group, peer)));
    let count = cases.clone().count();
    for (index, (group, (name, peer))) in cases.enumerate() {
        check(group.ours, &invite)?;
        check(peer, &invite)?;
        let time = rounds.time_for_one(count - index) / 4;
        let [(ours, peer)] = rounds.alternate(
            || Ok([nanoseconds(group.ours, &invite, time)?]),
            || Ok([nanoseconds(peer, &invite, time)?]),
        )?;
        output.row(Row {
            case: format!("{} {name}", group.name),
            metric: "cpu_ns_per_message",
            better: Better::Lower,
            ours,
            peer,
            goal: GOAL,
        })?;
    }
    Ok(())
}

/// CPU time of the thread for each message, over some time.
fn nanoseconds(forward: Forward, invite: &Bytes, time: Duration) -> anyhow::Result<f64> {
    const BATCH: u32 = 200;
    let begun = Instant::now();
    let before = cpu::of_thread()?;
    let mut messages = 0.0;
    while begun.elapsed() < time {
        for _ in 0..BATCH {
            black_box(forward(black_box(invite))?);
        }
        messages += f64::from(BATCH);
    }
    let used = cpu::of_thread()?.saturating_sub(before);
    Ok(used.as_secs_f64() * 1e9 / messages)
}

/// Whether a typed header was parsed. What it was parsed into counts as used, so that all of it is made.
fn seen<T, E>(parsed: Result<T, E>) -> Result<(), E> {
    parsed.map(|header| {
        black_box(&header);
    })
}

/// What comes out is a message with all edits made and the rest there, whatever its order.
fn check(forward: Forward, invite: &Bytes) -> anyhow::Result<()> {
    let forwarded = String::from_utf8(forward(invite)?)?;
    let mut lines = forwarded.split("\r\n");
    ensure!(
        lines.next() == Some(&format!("INVITE {REQUEST_URI} SIP/2.0")),
        "{forwarded}"
    );
    let vias = forwarded.find(&format!("Via: {VIA}"));
    ensure!(
        vias.is_some() && vias < forwarded.find("bigbox3"),
        "{forwarded}"
    );
    let expected = [
        "Max-Forwards: 68",
        &format!("Record-Route: {RECORD_ROUTE}"),
        "tag=1928301774",
        "a84b4c76e66710-3848276298220188511@pc33",
        "314159 INVITE",
        "Example Phone 7.3",
        "a=sendrecv\r\n",
    ];
    for text in expected {
        ensure!(forwarded.contains(text), "no {text:?} in {forwarded}");
    }
    ensure!(!forwarded.contains("\r\nRoute:"), "{forwarded}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Group {
        /// Ours and the peers, by name.
        fn all(&self) -> impl Iterator<Item = (&'static str, Forward)> {
            self.peers.into_iter().chain([("ours", self.ours)])
        }
    }

    #[test]
    fn all_forward_the_same_request() {
        let invite = Bytes::from_static(INVITE.as_bytes());
        for group in GROUPS {
            for (name, forward) in group.all() {
                check(forward, &invite)
                    .unwrap_or_else(|error| panic!("{} {name}: {error}", group.name));
            }
        }
    }

    /// Each field that is to be checked, with a value that every crate can tell from a good one.
    #[test]
    fn a_malformed_value_is_refused_where_all_check() {
        for (good, malformed) in [
            ("Via: SIP/2.0/UDP bigbox3", "Via: SIP/2.0 bigbox3"),
            ("Via: SIP/2.0/UDP pc33", "Via: SIP/2.0 pc33"),
            ("Route: <sip:192.0.2.7:5060", "Route: <sip:192.0.2.7:65536"),
            (
                "Record-Route: <sip:bigbox3.site3.atlanta.example.com",
                "Record-Route: <sip:",
            ),
            ("<sip:alice@atlanta.example.com>", "<sip:alice@>"),
            ("<sip:bob@biloxi.example.com>", "<sip:bob@>"),
            ("314159 INVITE", "many INVITE"),
            (
                "pc33.atlanta.example.com:5066>",
                "pc33.atlanta.example.com:65536>",
            ),
        ] {
            let invite = INVITE.replacen(good, malformed, 1);
            assert_ne!(invite, INVITE);
            let invite = Bytes::from(invite);
            for (name, forward) in FORWARD.all() {
                assert!(forward(&invite).is_ok(), "{name} refuses {malformed}");
            }
            for (name, forward) in CHECK_AND_FORWARD.all() {
                assert!(forward(&invite).is_err(), "{name} lets {malformed} pass");
            }
        }
    }
}
