//! Packets without a checksum, where something else protects them (RFC 9653).

use sctp::Extensions;
use sctp::packet::{ChunkType, Packet};

use crate::engine::{Client, Peer};
use crate::link::{Link, STREAMS, Sender, has_chunk, with_either_client};
use crate::ours::{Ours, config};
use crate::peers::Dcsctp;

tests_with!(usrsctp, Usrsctp: a_peer_without_it_gets_checksums);
tests_with!(dcsctp, Dcsctp: a_peer_without_it_gets_checksums);
tests_with!(sctp_proto, SctpProto: a_peer_without_it_gets_checksums);

fn extension() -> Extensions {
    let mut extensions = Extensions::NONE;
    extensions.zero_checksum = true;
    extensions
}

fn a_peer_without_it_gets_checksums<P: Peer>() {
    for client in Client::BOTH {
        let Some(peer) = P::start(Extensions::NONE, STREAMS) else {
            return;
        };
        let ours = Ours::new(config(extension(), STREAMS));
        let mut link = Link::up(peer, ours, client);
        assert!(!link.ours.status().extensions.zero_checksum);
        for sender in Sender::BOTH {
            link.deliver(sender, 1, b"hello");
        }
        for (sender, packet) in &link.packets {
            let packet = Packet::read(packet).unwrap();
            assert!(packet.has_valid_checksum(), "{sender:?} {packet:?}");
        }
    }
}

#[test]
fn dcsctp_leaves_checksums_out_as_we_do() {
    with_either_client::<Dcsctp>(extension(), |link| {
        for sender in Sender::BOTH {
            link.deliver(sender, 1, b"hello");
        }
        for (sender, bytes) in &link.packets {
            let packet = Packet::read(bytes).unwrap();
            let [init, cookie_echo, data] =
                [ChunkType::INIT, ChunkType::COOKIE_ECHO, ChunkType::DATA]
                    .map(|chunk_type| has_chunk(bytes, chunk_type));
            if init || cookie_echo {
                // Sections 5.2 and 5.3: the receiver may not have agreed yet.
                assert!(packet.has_valid_checksum(), "{sender:?} {packet:?}");
            } else if data {
                assert_eq!(packet.header().checksum, 0, "{sender:?} {packet:?}");
            }
        }
    });
}
