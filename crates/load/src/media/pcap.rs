//! The packets of a capture that carry media: what SIPp's `play_pcap_audio` plays.

use std::time::Duration;

/// More packets than any call has.
const MOST_PACKETS: usize = 200_000;
/// Two packets further apart than this are of different clocks: no time passes between them.
const LONGEST_GAP: u64 = 3_600_000_000_000;

/// A UDP datagram of a capture.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Captured<'f> {
    /// Since the first one.
    pub(super) at: Duration,
    pub(super) payload: &'f [u8],
}

/// Reads the payloads of all UDP datagrams of a file in the format pcap: Ethernet, Linux cooked (v1), raw IP or BSD loopback, IPv4 or
/// IPv6. What is no whole datagram is passed over.
///
/// # Errors
/// What the file is that it cannot be read.
pub(super) fn datagrams(file: &[u8]) -> Result<Vec<Captured<'_>>, String> {
    let (header, mut rest) = file
        .split_at_checked(24)
        .ok_or("it is no pcap file: it is too short")?;
    let magic = [header[0], header[1], header[2], header[3]];
    let (is_big, nanoseconds) = match magic {
        [0xa1, 0xb2, 0xc3, 0xd4] => (true, 1_000),
        [0xd4, 0xc3, 0xb2, 0xa1] => (false, 1_000),
        [0xa1, 0xb2, 0x3c, 0x4d] => (true, 1),
        [0x4d, 0x3c, 0xb2, 0xa1] => (false, 1),
        [0x0a, 0x0d, 0x0d, 0x0a] => {
            return Err("it is a pcapng file: editcap -F pcap makes a pcap file of it".to_owned());
        }
        _ => return Err("it is no pcap file".to_owned()),
    };
    let number = |octets: &[u8], at: usize| {
        let four: Option<[u8; 4]> = octets.get(at..at + 4).and_then(|four| four.try_into().ok());
        four.map_or(
            0,
            if is_big {
                u32::from_be_bytes
            } else {
                u32::from_le_bytes
            },
        )
    };
    let link = number(header, 20) & 0xffff;
    if !matches!(link, 0 | 1 | 12 | 101 | 113) {
        return Err(format!("its link type, {link}, is not supported"));
    }
    let mut found: Vec<Captured<'_>> = Vec::new();
    // The latest time so far: a packet that was captured a little late belongs to it.
    let (mut latest, mut at) = (None, 0_u64);
    while let Some((record, behind)) = rest.split_at_checked(16) {
        let length = number(record, 8) as usize;
        let Some((octets, next)) = behind.split_at_checked(length) else {
            // It was cut off.
            break;
        };
        rest = next;
        let Some(payload) = udp_payload(link, octets) else {
            continue;
        };
        let time = u64::from(number(record, 0)) * 1_000_000_000
            + u64::from(number(record, 4)) * nanoseconds;
        let before = latest.unwrap_or(time);
        latest = Some(match time.abs_diff(before) {
            0..=LONGEST_GAP => {
                at += time.saturating_sub(before);
                time.max(before)
            }
            _ => time,
        });
        if found.len() >= MOST_PACKETS {
            return Err(format!("it has more than {MOST_PACKETS} packets"));
        }
        found.push(Captured {
            at: Duration::from_nanos(at),
            payload,
        });
    }
    match found.is_empty() {
        true => Err("it has no UDP datagrams".to_owned()),
        false => Ok(found),
    }
}

/// The payload of a frame, where it is a UDP datagram in one piece.
fn udp_payload(link: u32, frame: &[u8]) -> Option<&[u8]> {
    let packet = match link {
        0 => frame.get(4..)?,
        1 => {
            let mut at = 12;
            // Tags of virtual networks.
            while matches!(frame.get(at..at + 2)?, [0x81, 0x00] | [0x88, 0xa8]) {
                at += 4;
            }
            frame.get(at + 2..)?
        }
        113 => frame.get(16..)?,
        _ => frame,
    };
    let datagram = match packet.first()? >> 4 {
        4 => {
            let header = usize::from(packet.first()? & 15) * 4;
            let total = usize::from(u16::from_be_bytes([*packet.get(2)?, *packet.get(3)?]));
            let fragment = u16::from_be_bytes([*packet.get(6)?, *packet.get(7)?]) & 0x3fff;
            let is_whole = *packet.get(9)? == UDP && fragment == 0;
            packet.get(header..total).filter(|_| is_whole)?
        }
        6 => {
            let length = usize::from(u16::from_be_bytes([*packet.get(4)?, *packet.get(5)?]));
            let is_udp = *packet.get(6)? == UDP;
            packet.get(40..40 + length).filter(|_| is_udp)?
        }
        _ => return None,
    };
    let length = usize::from(u16::from_be_bytes([*datagram.get(4)?, *datagram.get(5)?]));
    datagram.get(8..length)
}

const UDP: u8 = 17;

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A file of raw IPv4 packets, each with its time in milliseconds.
    pub(crate) fn file(packets: &[(u32, &[u8])]) -> Vec<u8> {
        let mut file = vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0];
        file.extend([0; 8]);
        file.extend(65_535_u32.to_le_bytes());
        file.extend(101_u32.to_le_bytes());
        for (milliseconds, payload) in packets {
            let udp = (8 + payload.len()) as u16;
            let total = 20 + udp;
            let mut packet = vec![0x45, 0];
            packet.extend(total.to_be_bytes());
            packet.extend([
                0, 0, 0, 0, 64, 17, 0, 0, 127, 0, 0, 1, 127, 0, 0, 1, 0x10, 0, 0x10, 2,
            ]);
            packet.extend(udp.to_be_bytes());
            packet.extend([0, 0]);
            packet.extend(*payload);
            file.extend((milliseconds / 1000).to_le_bytes());
            file.extend((milliseconds % 1000 * 1000).to_le_bytes());
            file.extend((packet.len() as u32).to_le_bytes());
            file.extend((packet.len() as u32).to_le_bytes());
            file.extend(packet);
        }
        file
    }

    #[test]
    fn datagrams_are_found_with_their_times() {
        let file = file(&[
            (5_000, b"one"),
            (5_020, b"two"),
            (5_015, b"three"),
            (5_040, b"four"),
        ]);
        let found = datagrams(&file).unwrap();
        let payloads: Vec<&[u8]> = found.iter().map(|packet| packet.payload).collect();
        assert_eq!(payloads, [&b"one"[..], b"two", b"three", b"four"]);
        let times: Vec<u128> = found.iter().map(|packet| packet.at.as_millis()).collect();
        // One that was captured late delays nothing.
        assert_eq!(times, [0, 20, 20, 40]);
    }

    #[test]
    fn packets_behind_one_of_another_time_keep_their_pace() {
        const FAR: u32 = 4_000_000_000;
        let packets: [(u32, &[u8]); 5] = [
            (5_000, b"one"),
            (5_020, b"two"),
            (FAR, b"of another time"),
            (5_040, b"three"),
            (5_060, b"four"),
        ];
        let file = file(&packets);
        let found = datagrams(&file).unwrap();
        let times: Vec<u128> = found.iter().map(|packet| packet.at.as_millis()).collect();
        assert_eq!(times, [0, 20, 20, 20, 40]);
    }

    #[test]
    fn what_is_no_capture_is_told_and_what_is_cut_off_is_passed_over() {
        let whole = file(&[(0, b"one"), (20, b"two")]);
        for (octets, reason) in [
            (&b""[..], "too short"),
            (
                &[
                    0x0a, 0x0d, 0x0d, 0x0a, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
                    0, 0,
                ],
                "editcap",
            ),
            (&[7; 24], "no pcap"),
            (&whole[..24], "no UDP"),
        ] {
            let error = datagrams(octets).unwrap_err();
            assert!(error.contains(reason), "{error}");
        }
        for length in 24..whole.len() {
            let found = datagrams(&whole[..length]).map_or(0, |found| found.len());
            assert!(found < 2, "{length}");
        }
        // Lengths that say more than there is.
        for at in 24..whole.len() {
            let mut broken = whole.clone();
            broken[at] = 0xff;
            let _ = datagrams(&broken);
        }
    }
}
