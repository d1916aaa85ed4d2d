use proptest::prelude::*;

use super::*;
use crate::rtp::RtpPacket;

fn key(suite: Suite) -> MasterKey {
    let octets: Vec<u8> = (0..suite.key_and_salt_octets() as u8).collect();
    MasterKey::new(suite, &octets).unwrap()
}

fn packet(sequence: u16) -> Vec<u8> {
    let mut octets = Vec::new();
    RtpPacket {
        marker: false,
        payload_type: 0,
        sequence,
        timestamp: u32::from(sequence) * 160,
        ssrc: 7,
        payload: b"what nobody else hears",
    }
    .write(&mut octets);
    octets
}

/// A receiver report without blocks, and a farewell.
fn report() -> Vec<u8> {
    [
        &[0x80, 201, 0, 1, 0, 0, 0, 7][..],
        &[0x81, 203, 0, 1, 0, 0, 0, 7],
    ]
    .concat()
}

fn protected(protector: &mut Protector, packet: &[u8]) -> Vec<u8> {
    let mut octets = packet.to_vec();
    protector.protect_rtp(&mut octets).unwrap();
    octets
}

#[test]
fn what_was_protected_is_read_by_the_same_key_alone() {
    for suite in Suite::ALL {
        let mut protector = Protector::new(&key(suite));
        let mut unprotector = Unprotector::new(&key(suite));
        let mut octets = protected(&mut protector, &packet(1));
        assert_eq!(octets[..12], packet(1)[..12], "the header is not encrypted");
        assert!(
            !octets.windows(6).any(|some| some == b"nobody"),
            "{suite:?}"
        );
        let other: Vec<u8> = vec![1; suite.key_and_salt_octets()];
        let mut other = Unprotector::new(&MasterKey::new(suite, &other).unwrap());
        assert_eq!(
            other.unprotect_rtp(&mut octets.clone()),
            Err(SrtpError::NotAuthentic)
        );
        unprotector.unprotect_rtp(&mut octets).unwrap();
        assert_eq!(octets, packet(1));

        let mut octets = report();
        protector.protect_rtcp(&mut octets).unwrap();
        assert_eq!(octets[..8], report()[..8]);
        assert_ne!(octets[8..16], report()[8..16]);
        assert_eq!(
            other.unprotect_rtcp(&mut octets.clone()),
            Err(SrtpError::NotAuthentic)
        );
        unprotector.unprotect_rtcp(&mut octets).unwrap();
        assert_eq!(octets, report());
    }
}

#[test]
fn packets_are_as_long_as_the_suite_says() {
    for (suite, rtp, rtcp) in [
        (Suite::AesCm128HmacSha1_80, 10, 14),
        // Reports have the long tag all the same (RFC 4568 section 6.2.2).
        (Suite::AesCm128HmacSha1_32, 4, 14),
        (Suite::AeadAes128Gcm, 16, 20),
        (Suite::AeadAes256Gcm, 16, 20),
    ] {
        let mut protector = Protector::new(&key(suite));
        let octets = protected(&mut protector, &packet(1));
        assert_eq!(octets.len() - packet(1).len(), rtp, "{suite:?}");
        let mut octets = report();
        protector.protect_rtcp(&mut octets).unwrap();
        assert_eq!(octets.len() - report().len(), rtcp, "{suite:?}");
    }
}

#[test]
fn a_packet_is_taken_once_and_only_as_it_was() {
    for suite in Suite::ALL {
        let mut protector = Protector::new(&key(suite));
        let mut unprotector = Unprotector::new(&key(suite));
        let octets = protected(&mut protector, &packet(5));
        for at in 0..octets.len() {
            let mut changed = octets.clone();
            changed[at] ^= 1;
            assert!(
                unprotector.unprotect_rtp(&mut changed).is_err(),
                "{suite:?} {at}"
            );
        }
        unprotector.unprotect_rtp(&mut octets.clone()).unwrap();
        assert_eq!(
            unprotector.unprotect_rtp(&mut octets.clone()),
            Err(SrtpError::Replayed)
        );
        let mut sealed = report();
        protector.protect_rtcp(&mut sealed).unwrap();
        for at in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[at] ^= 1;
            assert!(
                unprotector.unprotect_rtcp(&mut changed).is_err(),
                "{suite:?} {at}"
            );
        }
        unprotector.unprotect_rtcp(&mut sealed.clone()).unwrap();
        assert_eq!(
            unprotector.unprotect_rtcp(&mut sealed),
            Err(SrtpError::Replayed)
        );
    }
}

#[test]
fn a_report_that_says_it_is_not_encrypted_is_dropped() {
    let mut unprotector = Unprotector::new(&key(Suite::AesCm128HmacSha1_80));
    let mut octets = report();
    octets.extend([0, 0, 0, 1]);
    octets.extend([0; 10]);
    assert_eq!(
        unprotector.unprotect_rtcp(&mut octets),
        Err(SrtpError::Malformed)
    );
}

#[test]
fn numbers_begin_again_and_packets_are_still_read() {
    for suite in Suite::ALL {
        let mut protector = Protector::new(&key(suite));
        let mut unprotector = Unprotector::new(&key(suite));
        let mut before_the_rollover = None;
        for number in 65_000_u32..140_000 {
            let mut octets = protected(&mut protector, &packet(number as u16));
            if number == 65_530 {
                before_the_rollover = Some(octets);
            } else if number % 7 != 0 {
                unprotector.unprotect_rtp(&mut octets).unwrap();
                assert_eq!(octets, packet(number as u16));
            }
            // Late, from before the rollover.
            if number == 65_550 {
                let mut late = before_the_rollover.take().unwrap();
                unprotector.unprotect_rtp(&mut late).unwrap();
            }
        }
    }
}

#[test]
fn strangers_leave_no_state_behind() {
    let mut unprotector = Unprotector::new(&key(Suite::AesCm128HmacSha1_80));
    for ssrc in 0..1_000_u32 {
        let mut octets = packet(1);
        octets[8..12].copy_from_slice(&ssrc.to_be_bytes());
        octets.extend([0; 10]);
        assert!(unprotector.unprotect_rtp(&mut octets).is_err());
    }
    assert!(unprotector.sources.is_empty());
    let mut protector = Protector::new(&key(Suite::AesCm128HmacSha1_80));
    for ssrc in 0..2 * MAX_SOURCES as u32 {
        let mut octets = packet(1);
        octets[8..12].copy_from_slice(&ssrc.to_be_bytes());
        let kept = protector.protect_rtp(&mut octets).is_ok();
        assert_eq!(kept, ssrc < MAX_SOURCES as u32);
    }
}

#[test]
fn keys_are_named_and_wear_out() {
    for suite in Suite::ALL {
        let named = key(suite).with_mki(vec![0, 9]).unwrap().with_lifetime(2);
        let mut protector = Protector::new(&named);
        let mut unprotector = Unprotector::new(&named);
        let mut unnamed = Unprotector::new(&key(suite));
        for number in 1..=2 {
            let mut octets = protected(&mut protector, &packet(number));
            assert!(unnamed.unprotect_rtp(&mut octets.clone()).is_err());
            unprotector.unprotect_rtp(&mut octets).unwrap();
            assert_eq!(octets, packet(number));
            let mut octets = report();
            protector.protect_rtcp(&mut octets).unwrap();
            unprotector.unprotect_rtcp(&mut octets).unwrap();
            assert_eq!(octets, report());
        }
        let expired = Err(SrtpError::KeyExpired);
        assert_eq!(protector.protect_rtp(&mut packet(3)), expired);
        assert_eq!(protector.protect_rtcp(&mut report()), expired);
        assert_eq!(unprotector.unprotect_rtp(&mut packet(3)), expired);
        assert_eq!(unprotector.unprotect_rtcp(&mut report()), expired);
    }
}

#[test]
fn keys_have_the_length_of_their_suite() {
    assert!(MasterKey::new(Suite::AeadAes128Gcm, &[0; 30]).is_none());
    assert!(MasterKey::new(Suite::AesCm128HmacSha1_80, &[0; 28]).is_none());
    let text = format!("{:?}", key(Suite::AesCm128HmacSha1_80));
    assert!(!text.contains('['), "{text}");
}

proptest! {
    #[test]
    fn anything_may_come(octets in prop::collection::vec(any::<u8>(), 0..100), suite in 0_usize..4, named in any::<bool>()) {
        let mut master = key(Suite::ALL[suite]);
        if named {
            master = master.with_mki(vec![1]).unwrap();
        }
        let mut unprotector = Unprotector::new(&master);
        prop_assert!(unprotector.unprotect_rtp(&mut octets.clone()).is_err());
        prop_assert!(unprotector.unprotect_rtcp(&mut octets.clone()).is_err());
        let mut protector = Protector::new(&master);
        // What can be protected is read again.
        let mut sealed = octets.clone();
        if protector.protect_rtp(&mut sealed).is_ok() {
            unprotector.unprotect_rtp(&mut sealed).unwrap();
            prop_assert_eq!(&sealed, &octets);
        }
        let mut sealed = octets.clone();
        if protector.protect_rtcp(&mut sealed).is_ok() {
            unprotector.unprotect_rtcp(&mut sealed).unwrap();
            prop_assert_eq!(&sealed, &octets);
        }
    }
}
