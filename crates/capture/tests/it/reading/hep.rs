//! Messages in HEP version 3.

use capture::{Carrier, EventKind, Packets, Settings, Time};

const MESSAGE: &str = "OPTIONS sip:a@x SIP/2.0\r\nVia: SIP/2.0/UDP a;branch=z9hG4bK1\r\nFrom: <sip:b@x>;tag=1\r\n\
                       To: <sip:a@x>\r\nCall-ID: hep-1\r\nCSeq: 1 OPTIONS\r\nContent-Length: 0\r\n\r\n";

/// A datagram as Kamailio's siptrace writes it: the generic chunks, an agent's number, the payload.
fn datagram(protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut octets = b"HEP3\0\0".to_vec();
    let chunks: [(u16, &[u8]); 11] = [
        (1, &[2]),
        (2, &[protocol]),
        (3, &[10, 0, 0, 1]),
        (4, &[10, 0, 0, 2]),
        (7, &5060_u16.to_be_bytes()),
        (8, &5070_u16.to_be_bytes()),
        (9, &1_700_000_000_u32.to_be_bytes()),
        (10, &250_000_u32.to_be_bytes()),
        (11, &[1]),
        (12, &1_u32.to_be_bytes()),
        (15, payload),
    ];
    for (kind, value) in chunks {
        octets.extend(0_u16.to_be_bytes());
        octets.extend(kind.to_be_bytes());
        octets.extend((value.len() as u16 + 6).to_be_bytes());
        octets.extend(value);
    }
    let length = octets.len() as u16;
    octets[4..6].copy_from_slice(&length.to_be_bytes());
    octets
}

#[test]
fn messages_have_the_time_and_the_addresses_that_the_sender_tells() {
    let mut packets = Packets::new(&Settings::default());
    for (protocol, carrier) in [
        (17, Carrier::Udp),
        (6, Carrier::Tcp),
        (132, Carrier::Sctp(None)),
        (22, Carrier::Tls),
    ] {
        let mut seen = 0;
        packets.read_hep(
            Time(1),
            &datagram(protocol, MESSAGE.as_bytes()),
            &mut |event| {
                seen += 1;
                assert_eq!(event.time, Time(1_700_000_000_250_000_000));
                assert_eq!(event.source.to_string(), "10.0.0.1:5060");
                assert_eq!(event.destination.to_string(), "10.0.0.2:5070");
                let EventKind::Sip {
                    carrier: by,
                    octets,
                    cut,
                } = event.kind
                else {
                    panic!("{event:?}");
                };
                assert_eq!((by, octets, cut), (carrier, MESSAGE.as_bytes(), false));
            },
        );
        assert_eq!(seen, 1, "{protocol}");
    }
}

#[test]
fn damaged_datagrams_are_counted_and_other_contents_passed_over() {
    let mut packets = Packets::new(&Settings::default());
    let whole = datagram(17, MESSAGE.as_bytes());
    let mut cuts = 0;
    for length in 0..whole.len() {
        packets.read_hep(Time(1), &whole[..length], &mut |event| panic!("{event:?}"));
        cuts += 1;
    }
    assert_eq!(packets.counts().passed_over.malformed, cuts);
    packets.read_hep(Time(1), &datagram(17, b"no SIP"), &mut |event| {
        panic!("{event:?}")
    });
    assert_eq!(packets.counts().passed_over.malformed, cuts);
    // What a filter leaves out.
    let filter = Some("port 5061".parse().unwrap());
    let mut filtered = Packets::new(&Settings {
        filter,
        ..Settings::default()
    });
    filtered.read_hep(Time(1), &whole, &mut |event| panic!("{event:?}"));
    assert_eq!(filtered.counts().packets, 1);
}
