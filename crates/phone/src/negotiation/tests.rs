use media::srtp::Suite;
use proptest::prelude::*;

use super::*;
use crate::dtls::Certificate;

fn local(codecs: &[Codec]) -> LocalMedia {
    LocalMedia {
        address: "192.0.2.1".parse().unwrap(),
        port: 4_000,
        mapped: None,
        codecs: codecs.to_vec(),
        session_id: 1,
        version: 1,
        direction: Direction::SendReceive,
        refused: Vec::new(),
        place: 0,
        protection: LocalProtection::default(),
        ice: Vec::new(),
        settled: Settled::default(),
    }
}

/// A side whose keys are made of this octet.
fn protected(srtp: Srtp, offered: Option<SrtpKeys>, octet: u8) -> LocalMedia {
    let key = |suite: Suite| MasterKey::new(suite, &vec![octet; suite.key_and_salt_octets()]);
    LocalMedia {
        protection: LocalProtection {
            srtp,
            offered,
            sdes: Suite::ALL.into_iter().filter_map(key).collect(),
            fingerprint: Some(Fingerprint::of(&[octet])),
        },
        ..local(&[Codec::Pcmu])
    }
}

fn text(description: &[u8]) -> String {
    String::from_utf8(description.to_vec()).unwrap()
}

/// An offer of somebody else's, with this media line and attributes.
fn offered(media: &str, attributes: &[&str]) -> Vec<u8> {
    let attributes: String = attributes
        .iter()
        .map(|one| format!("a={one}\r\n"))
        .collect();
    format!(
        "v=0\r\no=- 1 1 IN IP4 192.0.2.9\r\ns=-\r\nc=IN IP4 192.0.2.9\r\nt=0 0\r\nm={media}\r\n{attributes}"
    )
    .into_bytes()
}

const CRYPTO: &str =
    "crypto:4 AES_CM_128_HMAC_SHA1_80 inline:WVNfX19zZW1jdGwgKCkgewkyMjA7fQp9CnVubGVz";

#[test]
fn keys_are_received_at_another_rate_than_the_codecs() {
    let theirs = ["rtpmap:96 opus/48000/2", "rtpmap:97 telephone-event/8000"];
    let offering = offered("audio 6000 RTP/AVP 96 97", &theirs);
    let (answered, callee) = answer(&mut local(&[Codec::Opus]), &offering).unwrap();
    assert!(text(&answered).contains("a=rtpmap:97 telephone-event/8000"));
    let mut caller = local(&[Codec::Opus, Codec::Pcmu]);
    offer(&mut caller);
    let keys = ["rtpmap:96 opus/48000/2", "rtpmap:101 telephone-event/8000"];
    let answered = offered("audio 6000 RTP/AVP 96 101", &keys);
    let caller = read_answer(&mut caller, &answered).unwrap();
    for (side, expected) in [(callee, 97), (caller, KEYS)] {
        assert_eq!(side.receive.key_payload_type, Some(expected));
        // Ours have the clock of the codec.
        assert_eq!(side.send.key_payload_type, None);
    }
}

#[test]
fn two_phones_agree_on_the_codec_that_the_caller_prefers() {
    let mut caller = local(&[Codec::Opus, Codec::Pcma]);
    let mut callee = local(&[Codec::Pcmu, Codec::Pcma, Codec::Opus]);
    let offered = offer(&mut caller);
    let (answered, at_callee) = answer(&mut callee, &offered).unwrap();
    let at_caller = read_answer(&mut caller, &answered).unwrap();
    assert_eq!(at_callee.send.codec, Codec::Opus);
    assert_eq!(at_caller.send, at_callee.receive);
    assert_eq!(at_caller.receive, at_callee.send);
    assert_eq!(at_caller.send.key_payload_type, Some(KEYS_OF_OPUS));
    assert_eq!(at_caller.rtcp, at_caller.rtp, "both on one port");
    assert!(at_caller.sends_voip_metrics && at_callee.sends_voip_metrics);
}

#[test]
fn a_held_call_goes_one_way() {
    let mut holding = LocalMedia {
        direction: Direction::SendOnly,
        ..local(&[Codec::Pcmu])
    };
    let (answered, held) = answer(&mut local(&[Codec::Pcmu]), &offer(&mut holding)).unwrap();
    assert_eq!(held.direction, Direction::ReceiveOnly);
    let holder = read_answer(&mut holding, &answered).unwrap();
    assert_eq!(holder.direction, Direction::SendOnly);
}

#[test]
fn nothing_is_sent_to_an_address_of_zeros() {
    let offered = "v=0\r\no=- 1 1 IN IP4 192.0.2.9\r\ns=-\r\nc=IN IP4 0.0.0.0\r\nt=0 0\r\n\
        m=audio 6000 RTP/AVP 0\r\n";
    let (_, held) = answer(&mut local(&[Codec::Pcmu]), offered.as_bytes()).unwrap();
    assert_eq!(held.direction, Direction::ReceiveOnly);
}

#[test]
fn what_is_not_taken_is_refused_in_its_place() {
    let offered = "v=0\r\no=- 1 1 IN IP4 192.0.2.9\r\ns=-\r\nc=IN IP4 192.0.2.9\r\nt=0 0\r\n\
        m=video 5000 RTP/AVP 31\r\nm=audio 6000 RTP/AVP 18 0 99\r\na=rtpmap:99 telephone-event/8000\r\na=rtcp:7001\r\n";
    let mut ours = local(&[Codec::Pcmu]);
    let (answered, negotiated) = answer(&mut ours, offered.as_bytes()).unwrap();
    let answered = text(&answered);
    assert!(
        answered.contains("m=video 0 RTP/AVP 31\r\nm=audio 4000 RTP/AVP 0 99\r\n"),
        "{answered}"
    );
    assert!(!answered.contains("rtcp-mux"), "it was not offered");
    assert!(!answered.contains("rtcp-xr"), "it was not offered");
    let again = text(&offer(&mut ours));
    assert!(
        again.contains("m=video 0 RTP/AVP 31\r\nm=audio 4000 RTP/AVP 0 "),
        "{again}"
    );
    assert_eq!(negotiated.rtp, "192.0.2.9:6000".parse().unwrap());
    assert_eq!(negotiated.rtcp.port(), 7_001);
    assert_eq!(negotiated.send.key_payload_type, Some(99));
}

#[test]
fn an_offer_without_anything_of_ours_says_so() {
    let offered = offer(&mut local(&[Codec::G722]));
    assert_eq!(
        answer(&mut local(&[Codec::Pcmu]), &offered),
        Err(NegotiationError::NoCodec)
    );
    assert!(matches!(
        answer(&mut local(&[Codec::Pcmu]), b"x"),
        Err(NegotiationError::Read(_))
    ));
}

/// RFC 4585 section 3.1: the answer has the profile of the offer.
#[test]
fn a_profile_with_feedback_is_answered_with_it() {
    let offered = offered("audio 6000 RTP/AVPF 0", &["rtcp-fb:* nack"]);
    let mut ours = local(&[Codec::Pcmu]);
    let (answered, _) = answer(&mut ours, &offered).unwrap();
    assert!(text(&answered).contains("m=audio 4000 RTP/AVPF 0\r\n"));
    assert!(text(&offer(&mut ours)).contains("m=audio 4000 RTP/AVPF 0 "));
    let mut caller = local(&[Codec::Pcmu]);
    offer(&mut caller);
    assert_eq!(
        read_answer(&mut caller, &answered),
        Err(NegotiationError::OtherProfile)
    );
}

/// RFC 3264 section 8.3.2.
#[test]
fn payload_types_mean_the_same_for_the_whole_session() {
    let theirs = [
        "rtpmap:101 opus/48000/2",
        "rtpmap:96 telephone-event/8000",
        "rtpmap:98 telephone-event/48000",
    ];
    let offered = offered("audio 6000 RTP/AVP 101 96 98", &theirs);
    let mut ours = local(&[Codec::Opus, Codec::Pcmu]);
    answer(&mut ours, &offered).unwrap();
    let again = text(&offer(&mut ours));
    assert!(
        again.contains("m=audio 4000 RTP/AVP 101 0 96 98\r\n"),
        "{again}"
    );
    for mapping in theirs {
        assert!(again.contains(mapping), "{again}");
    }
    // Ours are others where theirs have taken them.
    let offered = self::offered("audio 6000 RTP/AVP 0 96", &["rtpmap:96 speex/8000"]);
    let mut ours = local(&[Codec::Opus, Codec::Pcmu]);
    answer(&mut ours, &offered).unwrap();
    let again = text(&offer(&mut ours));
    assert!(again.contains("rtpmap:97 opus/48000/2"), "{again}");
    let (answered, at_callee) = answer(&mut local(&[Codec::Opus]), again.as_bytes()).unwrap();
    let at_caller = read_answer(&mut ours, &answered).unwrap();
    assert_eq!(at_callee.receive.payload_type, 97);
    assert_eq!(at_caller.receive.payload_type, 97);
}

#[test]
fn keys_are_agreed_on_by_the_descriptions() {
    for (caller, callee, protocol) in [
        (Srtp::Required, Srtp::Required, "RTP/SAVP"),
        (Srtp::Required, Srtp::Optional, "RTP/SAVP"),
        // RFC 8643: keys that may be left out are offered without a secure profile.
        (Srtp::Optional, Srtp::Optional, "RTP/AVP"),
        (Srtp::Optional, Srtp::Required, "RTP/AVP"),
    ] {
        let mut caller = protected(caller, Some(SrtpKeys::Sdes), 1);
        let mut callee = protected(callee, None, 2);
        let offered = offer(&mut caller);
        assert!(text(&offered).contains(&format!("m=audio 4000 {protocol} ")));
        assert!(text(&offered).contains("a=crypto:1 AEAD_AES_256_GCM inline:"));
        assert!(text(&offered).contains("a=crypto:4 AES_CM_128_HMAC_SHA1_32 inline:"));
        let (answered, at_callee) = answer(&mut callee, &offered).unwrap();
        let lines = text(&answered);
        assert!(
            lines.contains(&format!("m=audio 4000 {protocol} ")),
            "{lines}"
        );
        assert_eq!(lines.matches("a=crypto:").count(), 1, "{lines}");
        let at_caller = read_answer(&mut caller, &answered).unwrap();
        let (
            Security::Sdes { send, receive },
            Security::Sdes {
                send: sent,
                receive: received,
            },
        ) = (at_caller.security, at_callee.security)
        else {
            panic!("there are keys");
        };
        assert_eq!((&send, &receive), (&received, &sent));
        assert_ne!(send, receive);
        // The line in use and its key go on, whoever offers next (RFC 4568 section 7.1.4).
        let (callers, callees) = (
            caller.settled.security.clone(),
            callee.settled.security.clone(),
        );
        let again = offer(&mut caller);
        assert_eq!(text(&again).matches("a=crypto:").count(), 1);
        let (answered, now) = answer(&mut callee, &again).unwrap();
        assert_eq!(now.security, callees);
        let now = read_answer(&mut caller, &answered).unwrap();
        assert_eq!(now.security, callers);
        let again = offer(&mut callee);
        let (answered, now) = answer(&mut caller, &again).unwrap();
        assert_eq!(now.security, callers);
        let now = read_answer(&mut callee, &answered).unwrap();
        assert_eq!(now.security, callees);
    }
}

#[test]
fn the_first_line_that_is_supported_is_taken_with_its_tag() {
    let offered = offered(
        "audio 6000 RTP/SAVP 0",
        &[
            "crypto:2 F8_128_HMAC_SHA1_80 inline:MTIzNDU2Nzg5QUJDREUwMTIzNDU2Nzg5QUJjZGVm",
            "crypto:3 AES_CM_128_HMAC_SHA1_80 inline:short",
            CRYPTO,
        ],
    );
    let (answered, _) = answer(&mut protected(Srtp::Optional, None, 1), &offered).unwrap();
    assert!(text(&answered).contains("a=crypto:4 AES_CM_128_HMAC_SHA1_80 inline:"));
    assert!(text(&answered).contains("m=audio 4000 RTP/SAVP 0\r\n"));
}

#[test]
fn what_cannot_be_protected_as_it_must_is_refused() {
    let refused = |ours: &mut LocalMedia, offered: &[u8]| {
        assert_eq!(answer(ours, offered), Err(NegotiationError::NoKeys));
    };
    let secure = offered("audio 6000 RTP/SAVP 0", &[CRYPTO]);
    let plain = offered("audio 6000 RTP/AVP 0", &[]);
    refused(&mut protected(Srtp::Off, None, 1), &secure);
    refused(&mut protected(Srtp::Required, None, 1), &plain);
    // A secure profile without a line that we support (RFC 4568 section 5.1.2).
    let none = offered("audio 6000 RTP/SAVP 0", &[]);
    refused(&mut protected(Srtp::Optional, None, 1), &none);
    let other = offered(
        "audio 6000 RTP/SAVP 0",
        &["crypto:1 F8_128_HMAC_SHA1_80 inline:x"],
    );
    refused(&mut protected(Srtp::Optional, None, 1), &other);
    // Once there are keys, there are no offers and no answers without.
    let mut ours = protected(Srtp::Optional, Some(SrtpKeys::Sdes), 1);
    answer(&mut ours, &secure).unwrap();
    refused(&mut ours, &plain);
    // With nothing else, an offer without keys is one of the others.
    let (_, negotiated) = answer(&mut protected(Srtp::Optional, None, 1), &plain).unwrap();
    assert_eq!(negotiated.security, Security::None);
    // Lines of keys say nothing to whom does not want them (RFC 4568 section 6).
    let opportunistic = offered("audio 6000 RTP/AVP 0", &[CRYPTO]);
    let (answered, negotiated) =
        answer(&mut protected(Srtp::Off, None, 1), &opportunistic).unwrap();
    assert_eq!(negotiated.security, Security::None);
    assert!(!text(&answered).contains("crypto"));
}

#[test]
fn of_two_lines_the_one_that_will_do_is_taken() {
    let both = [
        offered("audio 6000 RTP/SAVP 0", &[CRYPTO]),
        b"m=audio 6002 RTP/AVP 0\r\n".to_vec(),
    ]
    .concat();
    let (answered, negotiated) = answer(&mut protected(Srtp::Required, None, 1), &both).unwrap();
    assert_eq!(negotiated.rtp.port(), 6_000);
    assert!(text(&answered).contains("m=audio 0 RTP/AVP 0\r\n"));
    let (answered, negotiated) = answer(&mut protected(Srtp::Off, None, 1), &both).unwrap();
    assert_eq!(negotiated.rtp.port(), 6_002);
    assert!(text(&answered).contains("m=audio 0 RTP/SAVP 0\r\nm=audio 4000 RTP/AVP 0\r\n"));
}

#[test]
fn an_answer_must_not_take_the_keys_away() {
    let answer_with = |media: &str, attributes: &[&str]| offered(media, attributes);
    for (srtp, answered, ok) in [
        (
            Srtp::Required,
            answer_with("audio 6000 RTP/SAVP 0", &[]),
            false,
        ),
        (
            Srtp::Required,
            answer_with("audio 6000 RTP/AVP 0", &[]),
            false,
        ),
        (
            Srtp::Optional,
            answer_with("audio 6000 RTP/AVP 0", &[]),
            true,
        ),
        // A tag that was not offered, another suite under it, two lines, our own key.
        (
            Srtp::Optional,
            answer_with("audio 6000 RTP/AVP 0", &[&CRYPTO.replace(":4 ", ":9 ")]),
            false,
        ),
        (
            Srtp::Optional,
            answer_with("audio 6000 RTP/AVP 0", &[CRYPTO]),
            false,
        ),
        (
            Srtp::Required,
            answer_with(
                "audio 6000 RTP/SAVP 0",
                &[&CRYPTO.replace(":4 ", ":3 "), &CRYPTO.replace(":4 ", ":3 ")],
            ),
            false,
        ),
        (
            Srtp::Required,
            answer_with(
                "audio 6000 RTP/SAVP 0",
                &[
                    "crypto:3 AES_CM_128_HMAC_SHA1_80 inline:AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEB",
                ],
            ),
            false,
        ),
        (
            Srtp::Required,
            answer_with("audio 6000 RTP/SAVP 0", &[&CRYPTO.replace(":4 ", ":3 ")]),
            true,
        ),
    ] {
        let mut caller = protected(srtp, Some(SrtpKeys::Sdes), 1);
        offer(&mut caller);
        let read = read_answer(&mut caller, &answered);
        assert_eq!(read.is_ok(), ok, "{}: {read:?}", text(&answered));
    }
}

#[test]
fn keys_that_were_not_offered_are_not_sent() {
    let plain = text(&offer(&mut protected(Srtp::Optional, None, 1)));
    assert!(
        !plain.contains("crypto") && !plain.contains("fingerprint"),
        "{plain}"
    );
    let off = text(&offer(&mut protected(Srtp::Off, None, 1)));
    assert!(!off.contains("crypto"), "{off}");
}

#[test]
fn a_handshake_is_agreed_on_by_fingerprints() {
    for (srtp, protocol) in [
        (Srtp::Required, "UDP/TLS/RTP/SAVP"),
        (Srtp::Optional, "RTP/AVP"),
    ] {
        let mut caller = protected(srtp, Some(SrtpKeys::Dtls), 1);
        let mut callee = protected(Srtp::Optional, None, 2);
        let offered = offer(&mut caller);
        assert!(text(&offered).contains(&format!("m=audio 4000 {protocol} ")));
        assert!(text(&offered).contains("a=setup:actpass\r\n"));
        let (answered, at_callee) = answer(&mut callee, &offered).unwrap();
        assert!(text(&answered).contains("a=setup:active\r\n"));
        let at_caller = read_answer(&mut caller, &answered).unwrap();
        let print = |octet: u8| vec![Fingerprint::of(&[octet])];
        let callers = Security::Dtls {
            fingerprints: print(2),
            is_client: false,
        };
        let callees = Security::Dtls {
            fingerprints: print(1),
            is_client: true,
        };
        assert_eq!(
            (&at_caller.security, &at_callee.security),
            (&callers, &callees)
        );
        // Whoever offers next, both keep their roles (RFC 5763 section 6.6).
        let again = offer(&mut callee);
        let (answered, now) = answer(&mut caller, &again).unwrap();
        assert_eq!(now.security, callers);
        assert!(text(&answered).contains("a=setup:passive\r\n"));
        assert_eq!(
            read_answer(&mut callee, &answered).unwrap().security,
            callees
        );
    }
}

#[test]
fn a_handshake_that_cannot_be_is_refused() {
    let fingerprint = format!("fingerprint:{}", Fingerprint::of(b"x").write());
    let offer_with = |attributes: &[&str]| offered("audio 6000 UDP/TLS/RTP/SAVPF 0", attributes);
    for (attributes, ok) in [
        (
            vec![fingerprint.as_str(), "setup:actpass", "rtcp-mux"],
            true,
        ),
        (vec![fingerprint.as_str(), "rtcp-mux"], true),
        (vec!["setup:actpass", "rtcp-mux"], false),
        (
            vec!["fingerprint:sha-1 00:01", "setup:actpass", "rtcp-mux"],
            false,
        ),
        // RTCP has no handshake of its own with us.
        (vec![fingerprint.as_str(), "setup:actpass"], false),
    ] {
        let answered = answer(
            &mut protected(Srtp::Optional, None, 1),
            &offer_with(&attributes),
        );
        assert_eq!(answered.is_ok(), ok, "{attributes:?}");
    }
    // The session's attributes are those of the medium that has none (RFC 8122 section 5).
    let session = "v=0\r\no=- 1 1 IN IP4 192.0.2.9\r\ns=-\r\nc=IN IP4 192.0.2.9\r\nt=0 0\r\n";
    let session = format!(
        "{session}a={fingerprint}\r\na=setup:active\r\nm=audio 6000 UDP/TLS/RTP/SAVP 0\r\na=rtcp-mux\r\n"
    );
    let (answered, _) =
        answer(&mut protected(Srtp::Optional, None, 1), session.as_bytes()).unwrap();
    assert!(text(&answered).contains("a=setup:passive\r\n"));
}

#[test]
fn fingerprints_are_those_of_certificates() {
    let certificate = Certificate::generate().unwrap();
    let written = certificate.fingerprint().write();
    assert!(written.starts_with("sha-256 "), "{written}");
    assert_eq!(Fingerprint::read(&written), Some(certificate.fingerprint()));
    assert!(!certificate.fingerprint().fits(b"another one"));
    for bad in ["sha-256 00", "md5 00:11", "sha-256", "sha-256 zz:00", ""] {
        assert_eq!(Fingerprint::read(bad), None, "{bad}");
    }
}

fn with_ice(octet: u8) -> LocalMedia {
    LocalMedia {
        address: format!("192.0.2.{octet}").parse().unwrap(),
        ice: vec![
            IceCredentials::new([octet; 32]),
            IceCredentials::new([octet + 100; 32]),
        ],
        ..local(&[Codec::Pcmu])
    }
}

#[test]
fn both_ends_of_ice_know_each_other() {
    let (mut caller, mut callee) = (with_ice(1), with_ice(2));
    let offered = offer(&mut caller);
    assert!(text(&offered).contains("a=candidate:"));
    let (answered, at_callee) = answer(&mut callee, &offered).unwrap();
    let at_caller = read_answer(&mut caller, &answered).unwrap();
    let (caller_ice, callee_ice) = (at_caller.ice.unwrap(), at_callee.ice.unwrap());
    assert!(caller_ice.is_controlling && !callee_ice.is_controlling);
    assert_eq!(caller_ice.local, callee_ice.remote);
    assert_eq!(caller_ice.remote, callee_ice.local);
    assert_eq!(
        caller_ice.candidates[0].address(),
        "192.0.2.2:4000".parse().unwrap()
    );
    // The same credentials go on; others begin anew, with other ones of ours (RFC 8445 section 9).
    let again = offer(&mut caller);
    let (_, now) = answer(&mut callee, &again).unwrap();
    assert_eq!(now.ice.unwrap().local, callee_ice.local);
    let mut restarted = with_ice(50);
    let (_, now) = answer(&mut callee, &offer(&mut restarted)).unwrap();
    assert_ne!(now.ice.unwrap().local, callee_ice.local);
    // A side without ICE is reached where it says.
    let (answered, negotiated) = answer(&mut local(&[Codec::Pcmu]), &offered).unwrap();
    assert!(negotiated.ice.is_none() && !text(&answered).contains("ice"));
    assert!(
        read_answer(&mut with_ice(1), &answered).is_err(),
        "nothing was offered"
    );
}

#[test]
fn an_answer_has_the_media_of_the_offer_in_their_order() {
    // RFC 3264 section 6.
    let mut ours = local(&[Codec::Pcmu]);
    let theirs = offered("video 6000 RTP/AVP 31\r\nm=audio 6002 RTP/AVP 0", &[]);
    answer(&mut ours, &theirs).unwrap();
    offer(&mut ours);
    let answered = |media: &str| offered(media, &[]);
    for wrong in [
        "audio 6002 RTP/AVP 0",
        "audio 6002 RTP/AVP 0\r\nm=video 0 RTP/AVP 31",
        "video 0 RTP/AVP 31\r\nm=audio 6002 RTP/AVP 0\r\nm=audio 6004 RTP/AVP 0",
        "audio 0 RTP/AVP 0\r\nm=audio 6002 RTP/AVP 0",
    ] {
        let read = read_answer(&mut ours, &answered(wrong));
        assert_eq!(read, Err(NegotiationError::OtherMedia), "{wrong}");
    }
    let right = answered("video 0 RTP/AVP 31\r\nm=audio 6002 RTP/AVP 0");
    let agreed = read_answer(&mut ours, &right).unwrap();
    assert_eq!(agreed.rtp.port(), 6_002);
    let refused = answered("video 0 RTP/AVP 31\r\nm=audio 0 RTP/AVP 0");
    let read = read_answer(&mut ours, &refused);
    assert_eq!(read, Err(NegotiationError::NoAudio));
}

#[test]
fn checks_do_not_begin_anew_for_ever() {
    let mut callee = with_ice(2);
    for octet in [1, 20] {
        answer(&mut callee, &offer(&mut with_ice(octet))).unwrap();
    }
    let once_more = answer(&mut callee, &offer(&mut with_ice(30)));
    assert_eq!(
        once_more.map(|(_, negotiated)| negotiated.ice),
        Err(NegotiationError::TooManyIceRestarts)
    );
}

#[test]
fn another_address_of_ours_has_other_keys_and_other_credentials() {
    let mut caller = LocalMedia {
        ice: with_ice(1).ice,
        ..protected(Srtp::Required, Some(SrtpKeys::Sdes), 1)
    };
    let mut callee = LocalMedia {
        ice: with_ice(2).ice,
        ..protected(Srtp::Required, None, 2)
    };
    let (answered, before) = answer(&mut callee, &offer(&mut caller)).unwrap();
    let at_caller = read_answer(&mut caller, &answered).unwrap();
    // RFC 4568 section 7.1.4, RFC 8445 section 9: it is the callee that moves.
    let to: SocketAddr = "192.0.2.77:5000".parse().unwrap();
    let keys = protected(Srtp::Required, None, 7).protection.sdes;
    callee.move_to(to, None, keys, IceCredentials::new([7; 32]));
    let moved = offer(&mut callee);
    assert!(text(&moved).contains("c=IN IP4 192.0.2.77"));
    assert!(text(&moved).contains("m=audio 5000 RTP/SAVP 0"));
    let (answered, now) = answer(&mut caller, &moved).unwrap();
    let at_callee = read_answer(&mut callee, &answered).unwrap();
    assert_eq!((now.rtp, at_callee.rtp), (to, at_caller.rtp));
    let keys = |negotiated: &Negotiated| match &negotiated.security {
        Security::Sdes { send, receive } => (send.clone(), receive.clone()),
        other => panic!("{other:?} has no keys"),
    };
    assert_eq!(keys(&at_callee).0, keys(&now).1);
    assert_ne!(keys(&at_callee).0, keys(&before).0, "ours is another one");
    assert_eq!(keys(&at_callee).1, keys(&before).1, "theirs goes on");
    let ends = [before.ice, at_caller.ice, at_callee.ice, now.ice].map(Option::unwrap);
    assert_ne!(ends[2].local, ends[0].local);
    assert_ne!(ends[2].remote, ends[0].remote);
    assert_eq!(
        (&ends[2].local, &ends[2].remote),
        (&ends[3].remote, &ends[3].local)
    );
    let roles = ends.map(|end| end.is_controlling);
    assert_eq!(
        roles,
        [false, true, false, true],
        "a restart changes no role"
    );
}

#[test]
fn what_is_proposed_anew_comes_after_what_was_agreed_on_meanwhile() {
    let (mut caller, mut callee) = (with_ice(1), with_ice(2));
    let (answered, _) = answer(&mut callee, &offer(&mut caller)).unwrap();
    read_answer(&mut caller, &answered).unwrap();
    // A hold at another address waits, and the other side offers something first.
    let mut before = callee.clone();
    before.version += 1;
    before.direction = Direction::SendOnly;
    let there: SocketAddr = "192.0.2.77:5000".parse().unwrap();
    before.move_to(there, None, Vec::new(), IceCredentials::new([7; 32]));
    callee.version += 2;
    answer(&mut callee, &offer(&mut caller)).unwrap();
    let fresh = IceCredentials::new([8; 32]);
    let mut proposed = callee.proposed_as(&before, Vec::new(), fresh.clone());
    let offered = text(&offer(&mut proposed));
    assert!(
        offered.contains(&format!("o=- 1 {} IN IP4 192.0.2.77", callee.version + 1)),
        "{offered}"
    );
    assert!(offered.contains("m=audio 5000 ") && offered.contains("a=sendonly"));
    assert!(offered.contains(&format!("a=ice-ufrag:{}\r\n", fresh.ufrag)));
    // What stays where it is keeps its credentials.
    let mut stays = callee.clone();
    stays.direction = Direction::SendOnly;
    let stays = callee.proposed_as(&stays, Vec::new(), fresh);
    assert_eq!((stays.port, &stays.ice), (callee.port, &callee.ice));
}

#[test]
fn reports_are_checked_where_they_have_a_port_of_their_own() {
    let (mut caller, mut callee) = (with_ice(1), with_ice(2));
    let offering = text(&offer(&mut caller));
    // RFC 5761 section 5.1.3: the other side may not have both on one port.
    assert!(offering.contains("a=rtcp:4001\r\n"), "{offering}");
    assert_eq!(offering.matches("a=candidate:").count(), 2);
    let (answered, both) = answer(&mut callee, offering.as_bytes()).unwrap();
    assert_eq!(text(&answered).matches("a=candidate:").count(), 1);
    assert_eq!(both.ice.unwrap().rtcp_candidates, None);
    let alone = offering.replace("a=rtcp-mux\r\n", "");
    let (answered, theirs) = answer(&mut with_ice(2), alone.as_bytes()).unwrap();
    assert_eq!(text(&answered).matches("a=candidate:").count(), 2);
    let ours = read_answer(&mut caller, &answered).unwrap();
    for (side, address) in [(theirs, "192.0.2.1:4001"), (ours, "192.0.2.2:4001")] {
        let address: SocketAddr = address.parse().unwrap();
        assert_eq!(side.rtcp, address);
        let candidates = side.ice.unwrap().rtcp_candidates.unwrap();
        let candidates: Vec<_> = candidates.iter().map(Candidate::address).collect();
        assert_eq!(candidates, [address]);
    }
}

#[test]
fn reports_go_where_the_other_side_wants_them() {
    for (attribute, expected) in [
        ("ptime:20", "192.0.2.9:6001"),
        ("rtcp:7000", "192.0.2.9:7000"),
        ("rtcp:7000 IN IP4 192.0.2.10", "192.0.2.10:7000"),
        ("rtcp:7000 IN IP4 somewhere", "192.0.2.9:7000"),
    ] {
        let offered = offered("audio 6000 RTP/AVP 0", &[attribute]);
        let (_, negotiated) = answer(&mut local(&[Codec::Pcmu]), &offered).unwrap();
        assert_eq!(negotiated.rtcp.to_string(), expected, "{attribute}");
    }
}

#[test]
fn what_others_see_is_where_who_does_not_check_sends_to() {
    let mapped = MappedAddresses {
        rtp: "198.51.100.7:14000".parse().unwrap(),
        rtcp: "198.51.100.7:14003".parse().unwrap(),
    };
    let mut caller = LocalMedia {
        mapped: Some(mapped),
        ..with_ice(1)
    };
    let offered = offer(&mut caller);
    for line in [
        "c=IN IP4 198.51.100.7",
        "m=audio 14000 ",
        "a=rtcp:14003\r\n",
    ] {
        assert!(text(&offered).contains(line), "{}", text(&offered));
    }
    assert_eq!(text(&offered).matches("typ srflx").count(), 2);
    let (_, plain) = answer(&mut local(&[Codec::Pcmu]), &offered).unwrap();
    assert_eq!(plain.rtp, mapped.rtp);
    // Its candidates are checked, and the default is one of them.
    let (_, checked) = answer(&mut with_ice(2), &offered).unwrap();
    assert_eq!(checked.ice.unwrap().candidates.len(), 2);
    let alone = text(&offered).replace("a=rtcp-mux\r\n", "");
    let (_, plain) = answer(&mut local(&[Codec::Pcmu]), alone.as_bytes()).unwrap();
    assert_eq!((plain.rtp, plain.rtcp), (mapped.rtp, mapped.rtcp));
}

#[test]
fn addresses_that_were_changed_on_the_way_are_no_candidates() {
    let offered = offered(
        "audio 6000 RTP/AVP 0",
        &[
            "ice-ufrag:abcd",
            "ice-pwd:abcdefghijklmnopqrstuvwx",
            "candidate:1 1 udp 2130706431 10.0.0.1 4000 typ host",
        ],
    );
    let (answered, negotiated) = answer(&mut with_ice(1), &offered).unwrap();
    assert!(negotiated.ice.is_none());
    assert!(text(&answered).contains("a=ice-mismatch\r\n"));
}

#[test]
fn metrics_are_sent_to_whom_wants_them() {
    for (attributes, wanted, is_told) in [
        (vec!["rtcp-xr:voip-metrics"], true, true),
        (vec!["rtcp-xr:stat-summary=loss voip-metrics"], true, true),
        (vec!["rtcp-xr:pkt-loss-rle"], false, true),
        (vec!["rtcp-xr"], false, true),
        (vec![], false, false),
    ] {
        let offered = offered("audio 6000 RTP/AVP 0", &attributes);
        let (answered, negotiated) = answer(&mut local(&[Codec::Pcmu]), &offered).unwrap();
        assert_eq!(negotiated.sends_voip_metrics, wanted, "{attributes:?}");
        assert_eq!(text(&answered).contains("a=rtcp-xr:voip-metrics"), is_told);
    }
}

proptest! {
    #[test]
    fn any_offer_is_answered_or_refused(
        lines in prop::collection::vec(prop::sample::select(&[
            "m=audio 6000 RTP/AVP 0 8 96 101", "m=audio 0 RTP/AVP 0", "m=audio 6000 RTP/SAVP 0",
            "m=audio 6000 UDP/TLS/RTP/SAVPF 0 96", "m=audio 6000 RTP/AVPF 0",
            "m=video 1 RTP/AVP 1", "a=rtpmap:96 opus/48000/2", "a=rtpmap:101 telephone-event/8000",
            "a=rtpmap:0 opus/48000", "a=rtcp:x", "a=rtcp:99999", "a=rtcp-mux", "a=sendonly", "a=inactive",
            "c=IN IP6 ::1", "c=IN IP4 host.example", "a=ptime:0",
            "a=crypto:1 AES_CM_128_HMAC_SHA1_80 inline:WVNfX19zZW1jdGwgKCkgewkyMjA7fQp9CnVubGVz", "a=crypto:",
            "a=fingerprint:sha-256 00:01:02:03:04:05:06:07:08:09:0A:0B:0C:0D:0E:0F:10:11:12:13:14:15:16:17:18:19:1A:1B:1C:1D:1E:1F",
            "a=setup:actpass", "a=setup:holdconn", "a=ice-ufrag:abcd", "a=ice-pwd:abcdefghijklmnopqrstuvwx",
            "a=candidate:1 1 udp 1 192.0.2.9 6000 typ host", "a=ice-lite", "a=rtcp-xr:voip-metrics",
        ][..]), 0..16),
        srtp in prop::sample::select(&[Srtp::Off, Srtp::Optional, Srtp::Required][..]),
    ) {
        let offered = format!(
            "v=0\r\no=- 1 1 IN IP4 192.0.2.9\r\ns=-\r\nc=IN IP4 192.0.2.9\r\nt=0 0\r\n{}\r\n",
            lines.join("\r\n"),
        );
        let mut ours = LocalMedia { ice: with_ice(1).ice, codecs: Codec::ALL.to_vec(), ..protected(srtp, None, 1) };
        if let Ok((answered, negotiated)) = answer(&mut ours, offered.as_bytes()) {
            let both = [offered.as_bytes(), &answered].map(|one| SessionDescription::read(one).unwrap());
            prop_assert_eq!(both[0].media().len(), both[1].media().len());
            prop_assert!(srtp != Srtp::Required || negotiated.security != Security::None);
            prop_assert!(srtp != Srtp::Off || negotiated.security == Security::None);
            // What was agreed on stands when it is offered again.
            let again = offer(&mut ours);
            let mut theirs = LocalMedia { codecs: Codec::ALL.to_vec(), ..protected(srtp, None, 2) };
            prop_assert!(answer(&mut theirs, &again).is_ok());
        }
    }

    /// Whatever is answered to an offer of ours, it is protected as we want it or not at all.
    #[test]
    fn any_answer_is_read_or_refused(
        lines in prop::collection::vec(prop::sample::select(&[
            "m=audio 6000 RTP/AVP 0 8 96 101", "m=audio 6000 RTP/SAVP 0", "m=audio 6000 UDP/TLS/RTP/SAVP 0",
            "a=crypto:1 AES_CM_128_HMAC_SHA1_80 inline:WVNfX19zZW1jdGwgKCkgewkyMjA7fQp9CnVubGVz",
            "a=crypto:3 AES_CM_128_HMAC_SHA1_80 inline:WVNfX19zZW1jdGwgKCkgewkyMjA7fQp9CnVubGVz",
            "a=crypto:3", "a=setup:active", "a=setup:actpass", "a=rtcp-mux",
            "a=fingerprint:sha-256 00:01:02:03:04:05:06:07:08:09:0A:0B:0C:0D:0E:0F:10:11:12:13:14:15:16:17:18:19:1A:1B:1C:1D:1E:1F",
        ][..]), 1..8),
        srtp in prop::sample::select(&[Srtp::Off, Srtp::Optional, Srtp::Required][..]),
        keys in prop::sample::select(&[SrtpKeys::Sdes, SrtpKeys::Dtls][..]),
    ) {
        let answered = format!(
            "v=0\r\no=- 1 1 IN IP4 192.0.2.9\r\ns=-\r\nc=IN IP4 192.0.2.9\r\nt=0 0\r\n{}\r\n",
            lines.join("\r\n"),
        );
        let mut ours = protected(srtp, (srtp != Srtp::Off).then_some(keys), 1);
        offer(&mut ours);
        if let Ok(negotiated) = read_answer(&mut ours, answered.as_bytes()) {
            prop_assert!(srtp != Srtp::Required || negotiated.security != Security::None);
            let is_sdes = matches!(negotiated.security, Security::Sdes { .. });
            prop_assert!(!is_sdes || keys == SrtpKeys::Sdes);
        }
    }
}
