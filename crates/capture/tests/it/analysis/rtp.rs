//! RTP streams of calls.

use std::time::Duration;

use capture::{Analysis, Event, EventKind, Options, Reader, Results, RtpStream, Session, Time};

use crate::reading::build::{RAW, pcap_header, udp};

const CALLER: &str = "192.0.2.1:5060";
const CALLEE: &str = "192.0.2.2:5060";

/// A capture whose packets have times.
struct Script {
    file: Vec<u8>,
}

impl Script {
    fn new() -> Script {
        Script {
            file: pcap_header(RAW),
        }
    }

    /// A datagram at so many microseconds.
    fn see(&mut self, microseconds: u32, from: &str, to: &str, payload: &[u8]) {
        let packet = udp(from, to, payload);
        let seconds = 1_700_000_000 + microseconds / 1_000_000;
        for word in [
            seconds,
            microseconds % 1_000_000,
            packet.len() as u32,
            packet.len() as u32,
        ] {
            self.file.extend(word.to_le_bytes());
        }
        self.file.extend(packet);
    }

    /// A message of a call.
    fn sip(&mut self, microseconds: u32, from_caller: bool, start: &str, cseq: &str, body: &str) {
        let to_tag = if start.starts_with("SIP") {
            ";tag=2"
        } else {
            ""
        };
        let content_type = match body {
            "" => "",
            _ => "Content-Type: application/sdp\r\n",
        };
        let branch = cseq.replace(' ', "");
        let text = format!(
            "{start}\r\nVia: SIP/2.0/UDP 192.0.2.1;branch=z9hG4bK{branch}\r\nFrom: <sip:a@x>;tag=1\r\n\
             To: <sip:b@x>{to_tag}\r\nCall-ID: one\r\nCSeq: {cseq}\r\n{content_type}\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let (from, to) = match from_caller {
            true => (CALLER, CALLEE),
            false => (CALLEE, CALLER),
        };
        self.see(microseconds, from, to, text.as_bytes());
    }

    /// An RTP packet of 20 ms of PCMA.
    fn rtp(&mut self, microseconds: u32, from: &str, to: &str, sequence: u16, ssrc: u32) {
        let timestamp = u32::from(sequence.wrapping_sub(65_530)) * 160;
        let mut octets = vec![0x80, 8];
        octets.extend(sequence.to_be_bytes());
        octets.extend(timestamp.to_be_bytes());
        octets.extend(ssrc.to_be_bytes());
        octets.extend([0xd5; 160]);
        self.see(microseconds, from, to, &octets);
    }

    fn analyze(&self) -> (Vec<Session>, Results) {
        self.analyze_copies(1)
    }

    /// As if so many hosts had captured the same.
    fn analyze_copies(&self, copies: usize) -> (Vec<Session>, Results) {
        let mut analysis = Analysis::new(&Options::default());
        let mut sessions = Vec::new();
        let mut each = |session: &Session| sessions.push(session.clone());
        for file in 0..copies {
            let mut reader = Reader::open(&self.file[..], file).expect("a capture");
            while reader
                .step(&mut |event| analysis.observe(&event, &mut each))
                .expect("it reads")
            {}
        }
        let results = analysis.finish(&mut each);
        (sessions, results)
    }
}

fn description(address: &str, port: u16, media: &str) -> String {
    format!(
        "v=0\r\no=- 1 1 IN IP4 {address}\r\ns=-\r\nc=IN IP4 {address}\r\nt=0 0\r\n\
         m=audio {port} RTP/AVP {media}\r\n"
    )
}

/// A call whose media goes from port 4000 of the caller to 6000 of the callee and back.
fn call() -> Script {
    let mut script = Script::new();
    let offer = description(
        "192.0.2.1",
        4000,
        "8 101\r\na=rtpmap:101 telephone-event/8000",
    );
    script.sip(0, true, "INVITE sip:b@x SIP/2.0", "1 INVITE", &offer);
    let answer = description("192.0.2.2", 6000, "8");
    script.sip(100_000, false, "SIP/2.0 200 OK", "1 INVITE", &answer);
    script
}

fn streams(sessions: &[Session]) -> &[RtpStream] {
    let [session] = sessions else {
        panic!("{sessions:?}");
    };
    &session.rtp
}

/// Files of the caller's host and of the callee's have the same packets.
#[test]
fn a_stream_is_followed_in_one_file() {
    let mut script = call();
    for number in 0..10_u16 {
        let time = 200_000 + u32::from(number) * 20_000;
        script.rtp(time, "192.0.2.1:4000", "192.0.2.2:6000", number, 7);
    }
    let (sessions, _) = script.analyze_copies(2);
    let all = sessions.iter().flat_map(|session| &session.rtp);
    let counts: Vec<_> = all.map(|it| (it.packets, it.duplicates)).collect();
    assert_eq!(counts, [(10, 0)]);
}

#[test]
fn streams_have_losses_and_jitter() {
    let mut script = call();
    // Every 20 ms, of which the third comes 16 ms late; the fifth is lost, the seventh comes twice, the ninth after the tenth.
    let (from, to) = ("192.0.2.1:4000", "192.0.2.2:6000");
    for (time, number) in [
        (0, 1),
        (20, 2),
        (56, 3),
        (60, 4),
        (100, 6),
        (120, 7),
        (120, 7),
        (140, 8),
        (180, 10),
        (181, 9),
    ] {
        let sequence = 65_530_u16.wrapping_add(number);
        script.rtp(200_000 + time * 1000, from, to, sequence, 7);
    }
    // Back: all is well.
    for number in 0..100_u16 {
        let time = 200_000 + u32::from(number) * 20_000;
        script.rtp(time, to, from, number, 8);
    }
    // To nobody's port, and RTCP.
    script.rtp(300_000, from, "192.0.2.2:7000", 1, 9);
    script.sip(3_000_000, true, "BYE sip:b@x SIP/2.0", "2 BYE", "");
    script.sip(3_010_000, false, "SIP/2.0 200 OK", "2 BYE", "");

    let (sessions, results) = script.analyze();
    let [there, back, strange] = streams(&sessions) else {
        panic!("{sessions:?}");
    };
    assert_eq!(
        (
            there.source.to_string().as_str(),
            there.destination.to_string().as_str()
        ),
        (from, to)
    );
    assert_eq!((there.ssrc, &*there.codec), (7, "PCMA"));
    assert_eq!((there.packets, there.expected, there.lost()), (9, 10, 1));
    assert_eq!((there.duplicates, there.reordered), (1, 1));
    assert_eq!(there.lost_percent(), 10.0);
    assert_eq!(there.longest_gap, Duration::from_millis(40));
    assert_eq!((back.packets, back.lost()), (100, 0));
    assert_eq!(back.jitter, Some((Duration::ZERO, Duration::ZERO)));
    // What comes from a port that was named is of the call, wherever it goes.
    assert_eq!((strange.ssrc, strange.packets), (9, 1));
    // RFC 3550 appendix A.8, in ticks of 125 µs: J += (|D| - J) / 16.
    let (mut jitter, mut total, mut largest) = (0.0_f64, 0.0, 0.0_f64);
    for difference in [0.0, 128.0, 128.0, 0.0, 0.0, 0.0, 0.0, 0.0, 168.0] {
        jitter += (difference - jitter) / 16.0;
        total += jitter;
        largest = largest.max(jitter);
    }
    let (mean, max) = there.jitter.expect("the clock is known");
    let is_near = |ours: Duration, ticks: f64| (ours.as_secs_f64() * 8000.0 - ticks).abs() < 0.001;
    assert!(is_near(max, largest), "{max:?} {largest}");
    assert!(is_near(mean, total / 10.0), "{mean:?} {total}");
    let totals = &results.rtp;
    assert_eq!((totals.streams, totals.packets, totals.lost), (3, 110, 1));
}

/// Another clock has written the time of one packet.
#[test]
fn a_packet_of_another_time_is_no_jitter_and_no_gap() {
    let mut script = call();
    for number in 0..20_u16 {
        let time = match number {
            10 => 4_200_000_000,
            _ => 200_000 + u32::from(number) * 20_000,
        };
        let sequence = 65_530_u16.wrapping_add(number);
        script.rtp(time, "192.0.2.1:4000", "192.0.2.2:6000", sequence, 7);
    }
    script.sip(3_000_000, true, "BYE sip:b@x SIP/2.0", "2 BYE", "");
    script.sip(3_010_000, false, "SIP/2.0 200 OK", "2 BYE", "");
    let (sessions, _) = script.analyze();
    let [stream] = streams(&sessions) else {
        panic!("{sessions:?}");
    };
    assert_eq!((stream.packets, stream.lost()), (20, 0));
    assert_eq!(stream.jitter, Some((Duration::ZERO, Duration::ZERO)));
    assert_eq!(stream.longest_gap, Duration::from_millis(40));
}

#[test]
fn packets_before_any_description_are_of_no_call() {
    let mut script = Script::new();
    script.rtp(0, "192.0.2.1:4000", "192.0.2.2:6000", 1, 7);
    let (sessions, results) = script.analyze();
    assert_eq!((sessions.len(), results.rtp.streams), (0, 0));
    assert_eq!(results.first, None);
}

/// Programs that make many calls have one port for all of them: a stream stays with its call.
#[test]
fn calls_that_share_ports_have_their_own_streams() {
    let mut script = call();
    let (from, to) = ("192.0.2.1:4000", "192.0.2.2:6000");
    script.rtp(200_000, from, to, 1, 7);
    let mut other = call();
    let text = String::from_utf8_lossy(&other.file[24..]).into_owned();
    assert!(text.contains("Call-ID: one"));
    // The same messages with another Call-ID of the same length.
    let at: Vec<usize> = other
        .file
        .windows(12)
        .enumerate()
        .filter(|(_, octets)| octets == b"Call-ID: one")
        .map(|(at, _)| at + 9)
        .collect();
    for at in at {
        other.file[at..at + 3].copy_from_slice(b"two");
    }
    script.file.extend_from_slice(&other.file[24..]);
    script.rtp(220_000, from, to, 2, 7);
    script.rtp(220_000, from, to, 1, 8);
    let (sessions, _) = script.analyze();
    let packets: Vec<Vec<(u32, u64)>> = sessions
        .iter()
        .map(|session| {
            session
                .rtp
                .iter()
                .map(|one| (one.ssrc, one.packets))
                .collect()
        })
        .collect();
    assert_eq!(packets, [vec![(7, 2)], vec![(8, 1)]]);
}

/// Descriptions and packets that nobody sends in earnest.
#[test]
fn what_is_kept_of_media_is_bounded() {
    let mut script = call();
    for number in 0..200_u32 {
        let answer = description("192.0.2.2", 7000 + number as u16, "8");
        let status = format!("SIP/2.0 183 {number}");
        script.sip(110_000 + number, false, &status, "1 INVITE", &answer);
        script.rtp(
            200_000 + number,
            "192.0.2.1:4000",
            "192.0.2.2:6000",
            1,
            number,
        );
    }
    for description in ["v=0", "v=0\r\nm=audio 99999 RTP/AVP 0", "\u{0}", "m=audio"] {
        script.sip(300_000, true, "INFO sip:b@x SIP/2.0", "3 INFO", description);
    }
    let (sessions, results) = script.analyze();
    assert_eq!(streams(&sessions).len(), 32);
    let remark = results.remarks.iter().find(|remark| remark.contains("RTP"));
    assert_eq!(
        remark.map(String::as_str),
        Some("168 RTP packets of further streams of calls that have too many")
    );
}

/// An event that no file gives: times may go back.
#[test]
fn times_that_go_back_are_borne() {
    let script = call();
    let mut reader = Reader::open(&script.file[..], 0).expect("a capture");
    let mut analysis = Analysis::new(&Options::default());
    while reader
        .step(&mut |event| analysis.observe(&event, &mut |_| {}))
        .expect("it reads")
    {}
    for (number, time) in [i64::MAX, 0, i64::MIN, 5].into_iter().enumerate() {
        let packet = media::rtp::RtpPacket {
            marker: false,
            payload_type: 8,
            sequence: number as u16,
            timestamp: 0,
            ssrc: 1,
            payload: &[],
        };
        let end = |text: &str| {
            let end: std::net::SocketAddr = text.parse().expect("an address");
            capture::Endpoint {
                address: end.ip(),
                port: end.port(),
            }
        };
        let event = Event {
            time: Time(time),
            file: 0,
            packet: 1,
            source: end("192.0.2.1:4000"),
            destination: end("192.0.2.2:6000"),
            kind: EventKind::Rtp(packet),
        };
        analysis.observe(&event, &mut |_| {});
    }
    let mut sessions = Vec::new();
    analysis.finish(&mut |session: &Session| sessions.push(session.clone()));
    assert_eq!(streams(&sessions)[0].packets, 4);
}
