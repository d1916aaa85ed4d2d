//! What must be refused although it can be read.

use crate::packet::{packet_of_raw_chunks, packet_with};
use sctp::packet::{
    ChunkType, FormatErrorKind, Init, InitFault, Packet, PacketFault, Parameters, Tsn, checksum,
};

const COOKIE_ACK: &[u8] = b"\x0b\x00\x00\x04";
const INIT: &[u8] =
    b"\x01\x00\x00\x14\x01\x02\x03\x04\x00\x01\x00\x00\x00\x0a\x08\x00\xff\xfe\xfd\xfc";

#[test]
fn sound_packets() {
    assert_eq!(fault(&packet_of_raw_chunks(COOKIE_ACK)), None);
    assert_eq!(fault(&with_tag(&packet_of_raw_chunks(INIT), 0)), None);
}

#[test]
fn wrong_checksum() {
    let good = packet_of_raw_chunks(COOKIE_ACK);
    for position in 0..good.len() {
        for bit in 0..8 {
            let mut bad = good.clone();
            bad[position] ^= 1 << bit;
            assert_eq!(fault(&bad), Some(PacketFault::Checksum));
        }
    }
}

#[test]
fn port_zero() {
    for field in [0..2, 2..4] {
        let mut packet = packet_of_raw_chunks(COOKIE_ACK);
        packet[field].fill(0);
        checksum::fill(&mut packet);
        assert_eq!(fault(&packet), Some(PacketFault::ZeroPort));
    }
}

#[test]
fn no_chunk() {
    assert_eq!(fault(&packet_with(|_| {})), Some(PacketFault::NoChunk));
}

#[test]
fn chunk_of_length_0_after_a_sound_one() {
    let packet = packet_of_raw_chunks(&[COOKIE_ACK, &[0xc0, 0, 0, 0]].concat());
    let kind = FormatErrorKind::LengthTooShort { length: 0 };
    assert_eq!(fault(&packet), Some(PacketFault::Framing(kind)));
}

#[test]
fn bundled_though_it_must_be_alone() {
    let shutdown_complete: &[u8] = b"\x0e\x00\x00\x04";
    let init_ack: Vec<u8> = [&[2], &INIT[1..]].concat();
    for (chunk, chunk_type) in [
        (INIT, ChunkType::INIT),
        (&init_ack, ChunkType::INIT_ACK),
        (shutdown_complete, ChunkType::SHUTDOWN_COMPLETE),
    ] {
        for list in [[chunk, COOKIE_ACK], [COOKIE_ACK, chunk], [chunk, chunk]] {
            let packet = with_tag(&packet_of_raw_chunks(&list.concat()), 0);
            assert_eq!(fault(&packet), Some(PacketFault::Bundled(chunk_type)));
        }
    }
}

#[test]
fn init_with_a_tag() {
    let packet = with_tag(&packet_of_raw_chunks(INIT), 1);
    assert_eq!(fault(&packet), Some(PacketFault::InitWithTag));
}

#[test]
fn fixed_fields_of_init() {
    let good = Init {
        initiate_tag: 1,
        a_rwnd: 1500,
        outbound_streams: 1,
        inbound_streams: 1,
        initial_tsn: Tsn(0),
        parameters: Parameters::default(),
    };
    assert_eq!(good.check(), Ok(()));
    for (bad, fault) in [
        (
            Init {
                initiate_tag: 0,
                ..good
            },
            InitFault::ZeroInitiateTag,
        ),
        (
            Init {
                a_rwnd: 1499,
                ..good
            },
            InitFault::SmallWindow,
        ),
        (
            Init {
                outbound_streams: 0,
                ..good
            },
            InitFault::NoOutboundStreams,
        ),
        (
            Init {
                inbound_streams: 0,
                ..good
            },
            InitFault::NoInboundStreams,
        ),
    ] {
        assert_eq!(bad.check(), Err(fault));
    }
}

fn fault(packet: &[u8]) -> Option<PacketFault> {
    Packet::read(packet).unwrap().check().err()
}

fn with_tag(packet: &[u8], verification_tag: u32) -> Vec<u8> {
    let mut packet = packet.to_vec();
    packet[4..8].copy_from_slice(&verification_tag.to_be_bytes());
    checksum::fill(&mut packet);
    packet
}
