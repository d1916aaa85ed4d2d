//! What it takes to read a request of a kilobyte, to edit it as a proxy does that forwards it, and to write it, all on
//! one thread and without sockets.
//!
//! `cargo bench -p sip --bench forward -- [CASE [COUNT]]` prints the nanoseconds of each.
//! Instructions are told by `valgrind --tool=callgrind --toggle-collect='forward::work' PROGRAM forward 3000`.
#![allow(missing_docs)]

use std::hint::black_box;
use std::time::Instant;

use bytes::Bytes;
use sip::{Message, Name, Uri};

/// The allocator of the `tandem` program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The same as `sip-parse` has.
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

/// What is done to a request.
type Case = fn(&Bytes);

const CASES: [(&str, Case); 3] = [("read", read), ("forward", forward), ("check", check)];

fn main() {
    // What `cargo bench` adds is not ours.
    let mut words = std::env::args()
        .skip(1)
        .filter(|word| !word.starts_with('-'));
    let case = words.next();
    let count = words
        .next()
        .map_or(1_000_000, |word| word.parse().expect("a count"))
        .max(1);
    let invite = Bytes::from_static(INVITE.as_bytes());
    for (name, case_of_name) in CASES {
        if case.as_deref().is_none_or(|case| case == name) {
            let begun = Instant::now();
            work(case_of_name, &invite, count);
            println!(
                "{name:8} {:6} ns",
                begun.elapsed().as_nanos() / u128::from(count)
            );
        }
    }
}

#[inline(never)]
fn work(case: Case, invite: &Bytes, count: u32) {
    for _ in 0..count {
        case(black_box(invite));
    }
}

fn read(invite: &Bytes) {
    black_box(Message::read(invite.clone()).expect("a message"));
}

fn forward(invite: &Bytes) {
    edit(Message::read(invite.clone()).expect("a message"));
}

/// RFC 3261 section 16.3, then as [`forward`].
fn check(invite: &Bytes) {
    let message = Message::read(invite.clone()).expect("a message");
    message.validate().expect("a message that keeps the rules");
    edit(message);
}

/// RFC 3261 sections 16.4 and 16.6.
fn edit(mut message: Message) {
    message.parse_request_uri().expect("a Request-URI");
    let max_forwards = message.max_forwards().expect("Max-Forwards");
    const REQUEST_URI: &str = "sip:bob@192.0.2.4:5062";
    black_box(Uri::parse(REQUEST_URI).expect("a URI"));
    message.set_request_uri(REQUEST_URI);
    message.set_max_forwards(max_forwards - 1);
    message.remove_first_value(Name::Route);
    message.push_front(Name::RecordRoute, "<sip:192.0.2.7:5060;lr>");
    message.push_front(
        Name::Via,
        "SIP/2.0/UDP 192.0.2.7:5060;branch=z9hG4bK2d4790.5f1c9a01",
    );
    black_box(Vec::from(message.to_bytes()));
}
