use std::thread;
use std::time::Duration;

use super::*;

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
        let slices: Vec<DatagramSlice> = [(0, 5), (5, 0), (17, 8983), (0, 9000)]
            .into_iter()
            .cycle()
            .take(100)
            .map(|(start, length)| DatagramSlice {
                start,
                length,
                destination: other.local_addr(),
            })
            .collect();
        let mut sent = 0;
        while sent < slices.len() {
            let now = one.send(&buffer, &slices[sent..]).unwrap();
            assert!((1..=PLAIN_BATCH).contains(&now), "{now}");
            sent += now;
        }
        let expected: Vec<_> = slices
            .iter()
            .map(|slice| &buffer[slice.start..slice.start + slice.length])
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
    let slice = DatagramSlice {
        start: 0,
        length: 3,
        destination: other.local_addr(),
    };
    let wait = Duration::from_millis(100);
    // The kernel begins to stamp some time after it was asked, and takes the time of reading until then.
    for _ in 0..50 {
        let before = Instant::now();
        assert!(other.receive(&mut batch).is_err());
        assert_eq!(one.send(b"abc", &[slice]).unwrap(), 1);
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

#[test]
fn what_found_no_room_is_counted() {
    let here = SocketAddr::from(([127, 0, 0, 1], 0));
    let sender = PlainSocket::bind(here, false, 1 << 20).unwrap();
    let receiver = PlainSocket::bind(here, false, 1).unwrap();
    let slice = DatagramSlice {
        start: 0,
        length: 1000,
        destination: receiver.local_addr(),
    };
    for _ in 0..50 {
        sender.send(&[7; 1000], &[slice; PLAIN_BATCH]).unwrap();
    }
    let dropped = receiver.dropped().unwrap() as usize;
    assert!((1..=50 * PLAIN_BATCH).contains(&dropped), "{dropped}");
}
