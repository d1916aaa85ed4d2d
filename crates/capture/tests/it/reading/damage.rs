//! Hostile captures: whatever is damaged, reading ends, does not panic, and holds no more than it may.

use std::io::{self, Read};

use capture::{Event, Limits, Merge, Reader, Settings};
use proptest::prelude::*;

use crate::reading::build::*;

/// Captures with something of everything in them.
fn captures() -> Vec<Vec<u8>> {
    let long = request("long", 3000);
    let mut sctp = vec![0x13, 0xc4, 0x13, 0xce, 0, 0, 0, 7, 0, 0, 0, 0];
    for (tsn, flags) in [(1_u32, 2_u8), (2, 0), (3, 1), (4, 3)] {
        let body = request("sctp", 20);
        sctp.extend([0, flags]);
        sctp.extend((16 + body.len() as u16).to_be_bytes());
        sctp.extend(tsn.to_be_bytes());
        sctp.extend([0; 8]);
        sctp.extend(&body);
        sctp.resize(sctp.len().next_multiple_of(4), 0);
    }
    let data = Flags {
        ack: Some(1),
        ..Flags::default()
    };
    let syn = Flags {
        syn: true,
        ..Flags::default()
    };
    let fin = Flags { fin: true, ..data };
    let upgrade = b"GET / HTTP/1.1\r\nUpgrade: websocket\r\n\r\n";
    let frame = [&[0x81, 126, 1, 0][..], &long[..256]].concat();
    let client_hello = hello(1, &[0, 0, 2, 0x13, 0x01, 1, 0]);
    let server_hello = hello(2, &[0, 0x13, 0x01, 0, 0, 6, 0, 43, 0, 2, 3, 4]);
    let cbc_client_hello = hello(1, &[0, 0, 2, 0, 0x2f, 1, 0]);
    let cbc_server_hello = hello(2, &[0, 0, 0x2f, 0]);
    let change = [20, 3, 3, 0, 1, 1];
    let sealed = [&[23, 3, 3, 0, 100][..], &[5; 100]].concat();
    let packets = [
        udp(ALICE, BOB, &request("call", 5)),
        packet(ALICE, BOB, 132, &sctp),
        udp(ALICE, "192.0.2.2:9899", &sctp),
        tcp(ALICE, BOB, 0, syn, b""),
        tcp(ALICE, BOB, 1, data, &long[..1000]),
        tcp(ALICE, BOB, 2001, data, &long[2000..]),
        tcp(ALICE, BOB, 1001, data, &long[1000..2000]),
        tcp(BOB, ALICE, 1, data, upgrade),
        tcp(BOB, ALICE, 1 + upgrade.len() as u32, data, &frame),
        tcp(ALICE, BOB, 9000, data, &request("after a gap", 1)),
        tcp(ALICE, BOB, 9500, fin, b""),
        tcp(CAROL, BOB, 1, data, &client_hello),
        tcp(BOB, CAROL, 1, data, &server_hello),
        tcp(CAROL, BOB, 1 + client_hello.len() as u32, data, &sealed),
        tcp(ALICE, CAROL, 1, data, &cbc_client_hello),
        tcp(
            CAROL,
            ALICE,
            1,
            data,
            &[&cbc_server_hello[..], &change, &sealed].concat(),
        ),
        udp(
            "[2001:db8::1]:5060",
            "[2001:db8::2]:5060",
            &request("six", 5),
        ),
    ];
    let pcap = pcap(RAW, &packets);
    let mut pcapng = Vec::new();
    for (kind, body) in [
        (
            0x0a0d_0d0a_u32,
            [
                &0x1a2b_3c4d_u32.to_le_bytes()[..],
                &[1, 0, 0, 0],
                &[0xff; 8],
            ]
            .concat(),
        ),
        (
            1,
            [101, 0, 0, 0, 0, 0, 0, 0, 9, 0, 1, 0, 9, 0, 0, 0].to_vec(),
        ),
    ] {
        pcapng.extend(block(kind, &body));
    }
    for packet in &packets {
        let length = (packet.len() as u32).to_le_bytes();
        pcapng.extend(block(6, &[&[0; 12][..], &length, &length, packet].concat()));
    }
    let text = b"No.     Time        Source   Destination   Protocol Info\n\
        1 0.1 10.0.0.1 10.0.0.2 SIP Status: 180 Ringing\n\
        Internet Protocol, Src: 10.0.0.1 (10.0.0.1), Dst: 10.0.0.2 (10.0.0.2)\n\
        User Datagram Protocol, Src Port: sip (5060), Dst Port: 99 (99)\n"
        .repeat(5);
    vec![pcap, pcapng, text]
}

const CAROL: &str = "192.0.2.3:5061";

fn block(kind: u32, body: &[u8]) -> Vec<u8> {
    let length = (12 + body.len().next_multiple_of(4)) as u32;
    let mut block = [&kind.to_le_bytes()[..], &length.to_le_bytes(), body].concat();
    block.resize(length as usize - 4, 0);
    block.extend(length.to_le_bytes());
    block
}

/// Reads to the end, with bounds so narrow that they are reached.
fn read_hostile(file: &[u8]) {
    let limits = Limits {
        fragmented_packets: 2,
        fragment_octets: 3000,
        connections: 2,
        connection_octets: 4000,
        associations: 2,
        user_message_octets: 500,
    };
    let settings = Settings {
        limits,
        keys: keys(),
        ..Settings::default()
    };
    let Ok(mut reader) = Reader::open_with(file, 0, &settings) else {
        return;
    };
    let mut steps = 0;
    let mut seen = Vec::new();
    while reader.step(&mut |one| seen.push(Kept::new(one))).unwrap() {
        steps += 1;
        // Each step takes something from the file.
        assert!(steps <= file.len(), "reading does not end");
    }
    assert!(reader.counts().octets <= file.len() as u64);

    // Several packets at a time are the same ones; where a clock is ahead they are read one by one.
    for clock in [0, 1000] {
        let expected = seen.clone().into_iter().map(|mut one: Kept| {
            one.time = one.time.moved(-clock);
            one
        });
        let reader_again = Reader::open_with(file, 0, &settings).unwrap();
        let mut several = Merge::new([(reader_again, clock)]);
        let mut seen_again = Vec::new();
        let mut see = |one: Event<'_>| seen_again.push(Kept::new(one));
        while several.steps(3, &mut see).unwrap() {}
        assert!(!several.steps(3, &mut see).unwrap());
        assert_eq!(seen_again, expected.collect::<Vec<Kept>>());
        assert_eq!(several.counts().next(), Some(reader.counts()));
    }
}

/// A disk that fails behind the octets that it has.
struct Failing<'o>(&'o [u8]);

impl Read for Failing<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.0.read(buffer)? {
            0 => Err(io::Error::other("the disk fails")),
            octets => Ok(octets),
        }
    }
}

#[test]
fn a_file_that_cannot_be_read_on_does_not_end_the_others() {
    let messages = |call_id: &str| {
        let packets: Vec<_> = (0..5)
            .map(|number| udp(ALICE, BOB, &request(&format!("{call_id}-{number}"), 5)))
            .collect();
        pcap(RAW, &packets)
    };
    let (one, other) = (messages("one"), messages("other"));
    let length = one.len() - 5;
    let sources: [Box<dyn Read>; 2] = [Box::new(Failing(&one[..length])), Box::new(&other[..])];
    let readers = sources.into_iter().enumerate();
    let readers = readers.map(|(file, source)| (Reader::open(source, file).unwrap(), 0));
    let mut merge = Merge::new(readers);
    let mut seen = [0; 2];
    let mut failed = Vec::new();
    loop {
        match merge.steps(2, &mut |one| seen[one.file] += 1) {
            Ok(true) => {}
            Ok(false) => break,
            Err(error) => failed.push(error.file),
        }
    }
    assert_eq!((seen, failed), ([4, 5], vec![0]));
}

#[test]
fn captures_that_are_cut_anywhere() {
    for capture in captures() {
        for length in 0..capture.len() {
            read_hostile(&capture[..length]);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8 * ProptestConfig::default().cases))]

    #[test]
    fn damage_of_any_kind(
        which in 0..3_usize,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..20),
        removed in prop::option::of((any::<prop::sample::Index>(), 1..100_usize)),
        repeated in prop::option::of((any::<prop::sample::Index>(), 1..2000_usize)),
    ) {
        let mut capture = captures().swap_remove(which);
        for (at, octet) in changes {
            let at = at.index(capture.len());
            capture[at] = octet;
        }
        if let Some((at, length)) = removed {
            let at = at.index(capture.len());
            let end = (at + length).min(capture.len());
            capture.drain(at..end);
        }
        if let Some((at, length)) = repeated {
            let at = at.index(capture.len());
            let end = (at + length).min(capture.len());
            let part = capture[at..end].to_vec();
            capture.splice(at..at, part);
        }
        read_hostile(&capture);
    }

    #[test]
    fn noise_behind_a_header(which in 0..3_usize, noise in prop::collection::vec(any::<u8>(), 0..3000)) {
        let capture = captures().swap_remove(which);
        let header = capture.len().min([24, 60, 60][which]);
        read_hostile(&[&capture[..header], &noise].concat());
    }
}
