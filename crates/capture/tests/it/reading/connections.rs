//! SIP in TCP connections, and in WebSockets in them.

use capture::{Carrier, Limits, Settings, Warning};

use crate::reading::build::*;

const SYN: Flags = Flags {
    syn: true,
    fin: false,
    rst: false,
    ack: None,
};
const DATA: Flags = Flags {
    syn: false,
    fin: false,
    rst: false,
    ack: Some(1),
};

/// The segments of a stream that Alice sends, from a sequence number on.
fn segments(stream: &[u8], first: u32, size: usize) -> Vec<Vec<u8>> {
    stream
        .chunks(size)
        .enumerate()
        .map(|(number, part)| {
            let sequence = first.wrapping_add((number * size) as u32);
            tcp(ALICE, BOB, sequence, DATA, part)
        })
        .collect()
}

fn stream(count: usize) -> (Vec<u8>, Vec<(Carrier, Vec<u8>)>) {
    let messages: Vec<_> = (0..count)
        .map(|number| request(&format!("call-{number}"), 10 * number))
        .collect();
    let stream = messages.join(&b"\r\n\r\n"[..]);
    let expected = messages.into_iter().map(|message| (Carrier::Tcp, message));
    (stream, expected.collect())
}

#[test]
fn messages_however_they_are_cut_into_segments() {
    let (stream, expected) = stream(5);
    for size in [1, 7, 100, 1460, 100_000] {
        let mut packets = vec![tcp(ALICE, BOB, 99, SYN, b"")];
        packets.extend(segments(&stream, 100, size));
        assert_eq!(messages(&read(&pcap(RAW, &packets))), expected, "{size}");
        // The beginning of the connection is not in the capture.
        packets.remove(0);
        if size > 7 {
            assert_eq!(messages(&read(&pcap(RAW, &packets))), expected, "{size}");
        }
    }
}

/// Secrets are of no use where the suite is not known; and the rest of the capture is seen.
#[test]
fn tls_of_other_suites_is_counted() {
    const TLS_RSA_WITH_AES_128_CCM: u16 = 0xc09c;
    let [high, low] = TLS_RSA_WITH_AES_128_CCM.to_be_bytes();
    let client = hello(1, &[0, 0, 2, high, low, 1, 0]);
    let server = hello(2, &[0, high, low, 0]);
    let packets = [
        tcp(ALICE, BOB, 1, DATA, &client),
        tcp(BOB, ALICE, 1, DATA, &server),
        tcp(
            ALICE,
            BOB,
            1 + client.len() as u32,
            DATA,
            &[23, 3, 3, 0, 1, 0],
        ),
        udp(ALICE, BOB, &request("call", 5)),
    ];
    let file = pcap(RAW, &packets);
    let settings = Settings {
        keys: keys(),
        ..Settings::default()
    };
    let (kept, counts) = read_with(&file, &settings);
    assert_eq!((messages(&kept).len(), warnings(&kept)), (1, vec![]));
    assert_eq!(counts.connections_of_other_suites, 1);
    assert_eq!(counts.other_suite, Some(TLS_RSA_WITH_AES_128_CCM));
    assert_eq!(counts.connections_without_secrets, 0);
    // Without secrets nobody looks at the suite.
    let (_, counts) = read_with(&file, &Settings::default());
    assert_eq!(counts.connections_of_other_suites, 0);
    assert_eq!(counts.connections_without_secrets, 1);
}

#[test]
fn segments_out_of_order_and_repeated_over_the_end_of_the_numbers() {
    let (stream, expected) = stream(8);
    let first = u32::MAX - 200;
    let mut packets = segments(&stream, first, 97);
    for pair in packets.chunks_mut(2) {
        pair.reverse();
    }
    // Repeated, cut differently.
    packets.extend(segments(&stream[..500], first, 41));
    packets.insert(0, tcp(ALICE, BOB, first.wrapping_sub(1), SYN, b""));
    let kept = read(&pcap(RAW, &packets));
    assert_eq!(messages(&kept), expected);
    assert!(warnings(&kept).is_empty());
}

#[test]
fn a_gap_is_told_and_the_next_message_found() {
    let (stream, expected) = stream(20);
    let mut packets = segments(&stream, 100, 50);
    // One from the middle of a body.
    let in_body = |part: &[u8]| part.iter().all(|&octet| octet == b'x');
    packets.remove(stream.chunks(50).position(in_body).unwrap());
    packets.insert(0, tcp(ALICE, BOB, 99, SYN, b""));
    let (kept, counts) = read_with(&pcap(RAW, &packets), &Settings::default());
    assert_eq!(warnings(&kept), [Warning::StreamGap { octets: 50 }]);
    assert_eq!(counts.warnings, 1);
    let found = messages(&kept);
    // The one with the gap in it is there up to the gap.
    let damaged = found.iter().position(|message| !expected.contains(message));
    let damaged = damaged.expect("a part of a message");
    assert!(expected[damaged].1.starts_with(&found[damaged].1));
    assert_eq!(found.len(), expected.len());
}

#[test]
fn what_the_receiver_has_is_not_waited_for() {
    let (stream, expected) = stream(60);
    let mut packets = vec![tcp(ALICE, BOB, 99, SYN, b"")];
    let end = 100 + stream.len() as u32;
    for (number, segment) in segments(&stream, 100, 500).into_iter().enumerate() {
        if number != 3 {
            packets.push(segment);
        }
        let ack = Flags {
            ack: Some(end),
            ..Flags::default()
        };
        packets.push(tcp(BOB, ALICE, 1, ack, b""));
    }
    let kept = read(&pcap(RAW, &packets));
    let gap = kept
        .iter()
        .find(|kept| matches!(kept.kind, KeptKind::Warning(_)))
        .unwrap();
    assert!(gap.packet < 60, "{}", gap.packet);
    assert_eq!((&*gap.source, &*gap.destination), (ALICE, BOB));
    let last = messages(&kept).pop();
    assert_eq!(last.as_ref(), expected.last());
}

#[test]
fn segments_that_were_captured_in_part() {
    let (stream, expected) = stream(3);
    let mut file = pcap_header(RAW);
    for (number, message) in expected.iter().enumerate() {
        let before: usize = expected[..number]
            .iter()
            .map(|(_, octets)| octets.len() + 4)
            .sum();
        let packet = tcp(ALICE, BOB, 100 + before as u32, DATA, &message.1);
        file.extend(pcap_record(number, &packet[..120], packet.len()));
    }
    let kept = read(&file);
    assert_eq!(messages(&kept).len(), 3, "{kept:?}");
    let are_cut = kept.iter().all(|kept| match &kept.kind {
        KeptKind::Sip { cut, octets, .. } => *cut && octets.len() == 80,
        KeptKind::Warning(warning) => matches!(warning, Warning::StreamGap { .. }),
        _ => false,
    });
    assert!(are_cut, "{kept:?}");
    assert!(!stream.is_empty());
}

#[test]
fn ports_are_used_again_for_another_connection() {
    let (stream, expected) = stream(2);
    let fin = Flags {
        fin: true,
        ack: Some(1),
        ..Flags::default()
    };
    let mut packets = Vec::new();
    for first in [1000_u32, 700, 4_000_000_000] {
        packets.push(tcp(ALICE, BOB, first - 1, SYN, b""));
        packets.extend(segments(&stream, first, 300));
        let end = first.wrapping_add(stream.len() as u32);
        packets.push(tcp(ALICE, BOB, end, fin, b""));
        packets.push(tcp(BOB, ALICE, 1, fin, b""));
        // A repetition after the end is none of the next connection's.
        packets.extend(segments(&stream, first, 300));
    }
    let found = messages(&read(&pcap(RAW, &packets)));
    assert_eq!(found, [&expected[..], &expected, &expected].concat());
}

#[test]
fn a_message_without_a_length_is_given_and_the_next_one_found() {
    let lost = b"OPTIONS sip:a SIP/2.0\r\nCall-ID: lost\r\n\r\n";
    let next = request("next", 3);
    let stream = [&lost[..], b"body\r\n", &next].concat();
    let kept = read(&pcap(RAW, &segments(&stream, 1, 1000)));
    let expected = [(Carrier::Tcp, lost.to_vec()), (Carrier::Tcp, next)];
    assert_eq!(messages(&kept), expected);
    assert!(matches!(warnings(&kept)[..], [Warning::StreamLost(_)]));
}

#[test]
fn both_directions_of_a_web_socket() {
    let handshake = b"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
        Sec-WebSocket-Protocol: sip\r\n\r\n";
    let agreed = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: WebSocket\r\n\r\n";
    let message = request("ws", 20);
    let frame = |mask: Option<[u8; 4]>| {
        let mut frame = vec![0x81];
        let masked = if mask.is_some() { 0x80 } else { 0 };
        frame.extend([masked | 126]);
        frame.extend((message.len() as u16).to_be_bytes());
        frame.extend(
            mask.unwrap_or_default()
                .iter()
                .take(if masked > 0 { 4 } else { 0 }),
        );
        let mask = mask.unwrap_or_default().into_iter().cycle();
        frame.extend(message.iter().zip(mask).map(|(octet, mask)| octet ^ mask));
        frame
    };
    let client = frame(Some([9, 8, 7, 6]));
    let server = frame(None);
    let expected = [
        (Carrier::Ws, message.clone()),
        (Carrier::Ws, message.clone()),
    ];
    let packets = [
        tcp(ALICE, BOB, 1, DATA, &handshake[..30]),
        tcp(ALICE, BOB, 31, DATA, &handshake[30..]),
        tcp(BOB, ALICE, 1, DATA, agreed),
        tcp(ALICE, BOB, 1 + handshake.len() as u32, DATA, &client),
        tcp(BOB, ALICE, 1 + agreed.len() as u32, DATA, &server),
    ];
    let kept = read(&pcap(RAW, &packets));
    assert_eq!(messages(&kept), expected);
    assert_eq!((kept[0].packet, kept[1].packet), (4, 5));
    // Without the handshake in the capture.
    assert_eq!(messages(&read(&pcap(RAW, &packets[3..]))), expected);
}

#[test]
fn connections_beyond_the_bounds_are_let_go() {
    let limits = Limits {
        connections: 100,
        connection_octets: 20_000,
        ..Limits::default()
    };
    let settings = Settings {
        limits,
        ..Settings::default()
    };
    let half = request("half", 500);
    let packets: Vec<_> = (1000..2000)
        .map(|port| tcp(&format!("192.0.2.1:{port}"), BOB, 1, DATA, &half[..400]))
        .collect();
    let (kept, counts) = read_with(&pcap(RAW, &packets), &settings);
    assert!(messages(&kept).is_empty());
    assert!(counts.warnings > 800, "{counts:?}");
    assert!(
        warnings(&kept)
            .iter()
            .all(|warning| matches!(warning, Warning::Dropped(_)))
    );
}

#[test]
fn what_else_goes_over_tcp_is_left_out() {
    let mut noise = Vec::new();
    for number in 0..100_u32 {
        noise.extend(number.wrapping_mul(2_654_435_761).to_le_bytes());
    }
    let page = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
    let packets = [
        tcp(ALICE, BOB, 1, DATA, &noise),
        tcp(BOB, ALICE, 1, DATA, page),
        tcp(ALICE, BOB, 401, DATA, b"220 mail.example.org ESMTP\r\n"),
    ];
    assert!(read(&pcap(RAW, &packets)).is_empty());
}
