use std::thread;
use std::time::Duration;

use super::*;
use crate::trains::{LONGEST_IN_TRAIN, train};

fn received(socket: &PlainSocket, count: usize) -> Vec<(SocketAddr, Vec<u8>)> {
    let mut batch = PlainBatch::new();
    let mut all = Vec::new();
    let deadline = Instant::now() + Duration::from_secs(60);
    while all.len() < count && Instant::now() < deadline {
        match socket.receive(&mut batch) {
            Ok(_) => {
                let datagrams = batch.datagrams();
                all.extend(datagrams.map(|(from, octets)| (from, octets.to_vec())));
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                thread::sleep(Duration::from_millis(1));
            }
            Err(error) => panic!("{error}"),
        }
    }
    all
}

#[test]
fn pieces_arrive_as_they_were_sent_with_their_senders_address() {
    for here in ["127.0.0.1:0", "[::1]:0"] {
        let here: SocketAddr = here.parse().unwrap();
        let (Ok(one), Ok(other)) = (
            PlainSocket::bind(here, false, 1 << 20),
            PlainSocket::bind(here, false, 1 << 20),
        ) else {
            println!("skipped: no {here} on this host");
            continue;
        };
        let buffer: Vec<u8> = (0..=255)
            .cycle()
            .take(9000)
            .map(|octet: u8| octet)
            .collect();
        let pieces: Vec<Piece> = [(0, 5), (5, 0), (17, 8983), (0, 9000)]
            .into_iter()
            .cycle()
            .take(100)
            .map(|(start, length)| Piece {
                start,
                length,
                destination: other.local_addr(),
            })
            .collect();
        let mut sent = 0;
        while sent < pieces.len() {
            let now = one.send(&buffer, &pieces[sent..]).unwrap();
            assert!((1..=PLAIN_BATCH).contains(&now), "{now}");
            sent += now;
        }
        let expected: Vec<_> = pieces
            .iter()
            .map(|piece| &buffer[piece.start..piece.start + piece.length])
            .map(|octets| (one.local_addr(), octets.to_vec()))
            .collect();
        assert_eq!(received(&other, expected.len()), expected);
        assert_eq!(other.dropped().unwrap(), 0);
    }
}

#[test]
fn datagrams_have_come_when_the_kernel_got_them() {
    let here = SocketAddr::from(([127, 0, 0, 1], 0));
    let bind = || PlainSocket::bind(here, false, 1 << 20).unwrap();
    let (one, other) = (bind(), bind());
    if !other.is_stamped() {
        println!("skipped: the kernel stamps nothing");
        return;
    }
    let mut batch = PlainBatch::new();
    let piece = Piece {
        start: 0,
        length: 3,
        destination: other.local_addr(),
    };
    let wait = Duration::from_millis(100);
    // The kernel begins to stamp some time after it was asked, and takes the time of reading until then.
    for _ in 0..50 {
        let before = Instant::now();
        assert!(other.receive(&mut batch).is_err());
        assert_eq!(one.send(b"abc", &[piece]).unwrap(), 1);
        thread::sleep(wait);
        assert_eq!(other.receive(&mut batch).unwrap(), 1);
        let received = batch.arrivals().next().unwrap().received;
        assert!(received >= before);
        if received.elapsed() >= wait {
            return;
        }
    }
    panic!("none was stamped when it came");
}

/// Trains are an affair of the kernel's: what arrives is what was sent, in its order, with the time at which it did.
#[test]
fn datagrams_come_out_of_trains_as_they_went_in() {
    for here in ["127.0.0.1:0", "[::1]:0"] {
        let here: SocketAddr = here.parse().unwrap();
        let before = Instant::now();
        let bind = || PlainSocket::bind(here, false, 4 << 20).map(PlainSocket::with_trains);
        let (Ok(one), Ok(other)) = (bind(), bind()) else {
            println!("skipped: no {here} on this host");
            continue;
        };
        let buffer: Vec<u8> = (0..60_000_usize).map(|place| place as u8).collect();
        let lengths = [
            300, 300, 300, 200, 300, 0, 1452, 1452, 9, 9, 9, 2000, 2000, 40_000,
        ];
        let pieces: Vec<Piece> = (lengths.into_iter().cycle().take(14 * 30))
            .enumerate()
            .map(|(start, length)| Piece {
                start,
                length,
                destination: other.local_addr(),
            })
            .collect();
        let mut batch = PlainBatch::new();
        let mut arrived = Vec::new();
        let mut read = || {
            while other.receive(&mut batch).is_ok() {
                for datagram in batch.arrivals() {
                    assert!(datagram.received >= before);
                    assert!(datagram.received <= Instant::now());
                    arrived.push((datagram.source, datagram.octets.to_vec()));
                }
            }
            arrived.len()
        };
        let mut rest = &pieces[..];
        while !rest.is_empty() {
            rest = &rest[one.send_in_trains(&buffer, rest).unwrap()..];
            read();
        }
        let deadline = Instant::now() + Duration::from_secs(60);
        while read() < pieces.len() && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(1));
        }
        let expected: Vec<_> = pieces
            .iter()
            .map(|piece| buffer[piece.start..piece.start + piece.length].to_vec())
            .map(|octets| (one.local_addr(), octets))
            .collect();
        assert!(arrived == expected, "{} datagrams", arrived.len());
    }
}

#[test]
fn what_a_path_does_not_take_in_a_train_goes_alone() {
    let Some(namespace) = test_support::Namespace::new() else {
        return;
    };
    namespace.ip("link set lo mtu 1000");
    let here = SocketAddr::from(([127, 0, 0, 1], 0));
    // In a thread of its own, which stays in the namespace.
    let carry = move || {
        namespace.enter();
        let bind = || {
            PlainSocket::bind(here, false, 1 << 20)
                .unwrap()
                .with_trains()
        };
        let (one, other) = (bind(), bind());
        let pieces = |length| {
            [Piece {
                start: 0,
                length,
                destination: other.local_addr(),
            }; 3]
        };
        let buffer = vec![7; 1_200];
        assert_eq!(one.send_in_trains(&buffer, &pieces(1_200)).unwrap(), 3);
        assert_eq!(one.longest_in_train.get(), 1_199);
        assert_eq!(one.send_in_trains(&buffer, &pieces(900)).unwrap(), 3);
        assert_eq!(one.longest_in_train.get(), 1_199);
        let lengths: Vec<usize> = received(&other, 6)
            .iter()
            .map(|(_, octets)| octets.len())
            .collect();
        assert_eq!(lengths, [1_200, 1_200, 1_200, 900, 900, 900]);
    };
    thread::spawn(carry).join().unwrap();
}

#[test]
fn trains_are_as_long_as_the_kernel_takes_them() {
    let piece = |length| Piece {
        start: 0,
        length,
        destination: SocketAddr::from(([127, 0, 0, 1], 1)),
    };
    assert_eq!(train(&[piece(1_400); 100], 1_452), 45);
    assert_eq!(train(&[piece(10); 100], 1_452), 64);
    assert_eq!(train(&[piece(10); 100], 9), 1);
    assert_eq!(train(&[piece(10), piece(9), piece(9)], 1_452), 2);
    assert_eq!(train(&[piece(10), piece(11)], 1_452), 1);
    assert_eq!(train(&[piece(10), piece(0)], 1_452), 1);
    assert_eq!(train(&[piece(0), piece(0)], 1_452), 1);
    let abroad = Piece {
        destination: SocketAddr::from(([192, 0, 2, 1], 1)),
        ..piece(10)
    };
    assert_eq!(train(&[abroad, abroad], 1_452), 1);
}

/// What is read in trains would be formed into some where it comes from a network device.
#[test]
fn trains_are_for_loopback_addresses() {
    for (address, longest) in [("127.0.0.1:0", LONGEST_IN_TRAIN), ("0.0.0.0:0", 0)] {
        let socket = PlainSocket::bind(address.parse().unwrap(), false, 1 << 20).unwrap();
        let socket = socket.with_trains();
        assert_eq!(socket.longest_in_train.get(), longest);
    }
}

#[test]
fn what_found_no_room_is_counted() {
    let here = SocketAddr::from(([127, 0, 0, 1], 0));
    let sender = PlainSocket::bind(here, false, 1 << 20).unwrap();
    let receiver = PlainSocket::bind(here, false, 1).unwrap();
    let piece = Piece {
        start: 0,
        length: 1000,
        destination: receiver.local_addr(),
    };
    for _ in 0..50 {
        sender.send(&[7; 1000], &[piece; PLAIN_BATCH]).unwrap();
    }
    let dropped = receiver.dropped().unwrap() as usize;
    assert!((1..=50 * PLAIN_BATCH).contains(&dropped), "{dropped}");
}
