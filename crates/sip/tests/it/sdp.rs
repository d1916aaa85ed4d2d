//! Session descriptions: properties that hold for any input.

use proptest::collection::vec;
use proptest::prelude::*;
use sip::sdp::{Connection, Direction, Media, Origin, RtpMap, Section, SessionDescription};

/// Octets that look like a description more often than not.
fn description_like() -> impl Strategy<Value = Vec<u8>> {
    let line = prop::sample::select(vec![
        "o=- 1 1 IN IP4 192.0.2.1",
        "s=",
        "i=x",
        "u=http://a",
        "e=a@b",
        "p=+1 2",
        "c=IN IP4 192.0.2.1",
        "c=IN IP6 ff15::101/3",
        "b=AS:1",
        "t=0 0",
        "r=7d 1h 0",
        "z=1 -1h",
        "k=prompt",
        "a=sendonly",
        "a=rtpmap:96 L16/44100/2",
        "a=fmtp:96 x",
        "a=ptime:20",
        "a=ptime:1e999",
        "m=audio 1/2 RTP/AVP 0 96",
        "m=x  0  udp  a",
        "m=audio 99999 RTP/AVP 0",
        "",
    ]);
    let end = prop::sample::select(vec!["\r\n", "\r\n", "\r\n", "\n", "\r", ""]);
    let line = (line, end).prop_map(|(line, end)| format!("{line}{end}").into_bytes());
    let junk = vec(any::<u8>(), 0..3);
    let lines = vec(prop_oneof![20 => line, 1 => junk], 0..12);
    lines.prop_map(|lines| {
        let head = b"v=0\r\no=- 1 1 IN IP4 192.0.2.1\r\ns=-\r\nt=0 0\r\n".to_vec();
        [vec![head], lines].concat().concat()
    })
}

proptest! {
    #[test]
    fn what_is_read_is_written_again(octets in description_like()) {
        if let Ok(description) = SessionDescription::read(&octets) {
            let written = description.to_bytes();
            let again = SessionDescription::read(&written);
            prop_assert_eq!(again.as_ref(), Ok(&description));
            for media in description.media() {
                let _ = (media.packet_time(), description.direction(media));
            }
            let has_bare_ends = octets.split(|octet| *octet == b'\n').rev().skip(1).any(|line| !line.ends_with(b"\r"));
            if !has_bare_ends && octets.ends_with(b"\r\n") {
                prop_assert_eq!(&written[..], octets);
            }
        }
    }

    #[test]
    fn an_error_names_a_line_that_is_there_or_the_one_after(octets in description_like()) {
        if let Err(error) = SessionDescription::read(&octets) {
            let lines = octets.split(|octet| *octet == b'\n').count();
            prop_assert!((1..=lines + 1).contains(&error.line), "{}", error);
        }
    }

    #[test]
    fn what_is_built_says_what_it_was_built_of(
        ip in any::<std::net::IpAddr>(),
        id in any::<u64>(),
        version in any::<u64>(),
        port in any::<u16>(),
        payload_type in any::<u8>(),
        clock_rate in any::<u32>(),
        direction in prop::sample::select(vec![
            Direction::SendReceive,
            Direction::SendOnly,
            Direction::ReceiveOnly,
            Direction::Inactive,
        ]),
    ) {
        let here = Connection::new(ip);
        let mut offer = SessionDescription::new(&Origin::new(id, version, here), here);
        let format = payload_type.to_string();
        let mut audio = Section::media(&Media::rtp_audio(port, &format));
        let map = RtpMap { payload_type, encoding: "x", clock_rate, parameters: None };
        audio.push_rtp_map(&map);
        audio.set_direction(direction);
        offer.push_media(audio);
        let read = SessionDescription::read(&offer.to_bytes()).expect("what was written");
        prop_assert_eq!(&read, &offer);
        let origin = read.origin().expect("an origin");
        prop_assert_eq!((origin.session_id, origin.session_version), (id, version));
        let audio = &read.media()[0];
        prop_assert_eq!(read.connection(audio).and_then(|there| there.ip()), Some(ip));
        prop_assert_eq!(audio.media_line().map(|line| line.port), Some(port));
        prop_assert_eq!(audio.rtp_maps().next(), Some(map));
        prop_assert_eq!(read.direction(audio), direction);
    }
}
