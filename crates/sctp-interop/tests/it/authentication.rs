//! Authenticated chunks (RFC 4895), with usrsctp, the only one of the peers in user space that has them.

use std::time::Duration;

use sctp::packet::{Chunk, ChunkType, HmacIdentifier};
use sctp::{AuthenticationIndication, Event, Extensions};

use crate::engine::{Client, How, Message, Peer, PeerEvent};
use crate::link::{Link, STREAMS, Sender, has_chunk};
use crate::ours::{Ours, config};
use crate::peers::Usrsctp;

const SHA_1: HmacIdentifier = HmacIdentifier::SHA_1;
const SHA_256: HmacIdentifier = HmacIdentifier::SHA_256;

/// What either side says before the association begins.
struct Settings {
    /// Chunk types that both sides have to authenticate.
    chunk_types: Vec<ChunkType>,
    /// The algorithms that we take. Debian's usrsctp has SHA-1 alone.
    hmacs: Vec<HmacIdentifier>,
    /// Shared keys, of which the last one is active: the number, our secret, the peer's.
    keys: Vec<(u16, &'static [u8], &'static [u8])>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            chunk_types: vec![ChunkType::DATA],
            hmacs: vec![SHA_256, SHA_1],
            keys: Vec::new(),
        }
    }
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Settings {
    /// Runs a test on associations that either side began.
    fn with_either_client(&self, test: impl Fn(&mut Link<Usrsctp>)) {
        for client in Client::BOTH {
            if let Some(mut link) = self.associate(client) {
                test(&mut link);
            }
        }
    }

    fn associate(&self, client: Client) -> Option<Link<Usrsctp>> {
        let mut extensions = Extensions::NONE;
        extensions.authentication = true;
        let mut peer = Usrsctp::start(extensions, STREAMS)?;
        let config = config(extensions, STREAMS)
            .auth_chunks(self.chunk_types.clone())
            .hmac_identifiers(self.hmacs.clone());
        let mut ours = Ours::new(config);
        for chunk_type in &self.chunk_types {
            peer.command(&format!("chunk {}", chunk_type.0)).unwrap();
        }
        peer.command("hmacs 1").unwrap();
        let now = ours.at(Duration::ZERO);
        for (number, our_secret, peers_secret) in &self.keys {
            let set = ours.endpoint.set_shared_key(now, None, *number, our_secret);
            set.unwrap();
            ours.endpoint.set_active_key(now, None, *number).unwrap();
            let secret = to_hex(peers_secret);
            peer.command(&format!("key {number} {secret}")).unwrap();
            peer.command(&format!("active-key {number}")).unwrap();
        }
        let mut link = Link::up(peer, ours, client);
        assert_eq!(link.ours.status().extensions, extensions);
        assert!(link.peer.has_agreed_on(extensions));
        Some(link)
    }
}

/// The shared keys and algorithms of the DATA chunks of one side. Each of them was authenticated.
fn used(link: &Link<Usrsctp>, sender: Sender) -> Vec<(u16, HmacIdentifier)> {
    let mut used = Vec::new();
    let mut auth = None;
    for (from, packet) in &link.packets {
        if *from != sender || !has_chunk(packet, ChunkType::DATA) {
            continue;
        }
        let packet = sctp::packet::Packet::read(packet).unwrap();
        for chunk in packet.chunks() {
            match chunk.unwrap() {
                Chunk::Auth(chunk) => {
                    auth = Some((chunk.shared_key_identifier, chunk.hmac_identifier))
                }
                Chunk::Data(_) => used.push(auth.expect("an AUTH chunk before DATA")),
                _ => {}
            }
        }
        auth = None;
    }
    used
}

#[test]
fn data_is_authenticated_with_an_algorithm_that_both_have() {
    for hmacs in [vec![SHA_1], vec![SHA_1, SHA_256], vec![SHA_256, SHA_1]] {
        let settings = Settings {
            hmacs,
            ..Settings::default()
        };
        settings.with_either_client(|link| {
            for sender in Sender::BOTH {
                link.deliver(sender, 1, &[7; 5000]);
                assert!(used(link, sender).iter().all(|it| *it == (0, SHA_1)));
            }
        });
    }
}

#[test]
fn data_is_authenticated_with_a_shared_key() {
    let settings = Settings {
        keys: vec![
            (3, b"not this one", b"not this one"),
            (7, b"secret", b"secret"),
        ],
        ..Settings::default()
    };
    settings.with_either_client(|link| {
        for sender in Sender::BOTH {
            link.deliver(sender, 1, &[7; 5000]);
            assert!(used(link, sender).iter().all(|it| *it == (7, SHA_1)));
        }
    });
}

/// As RFC 4895 section 6.1 sorts keys by their length first.
#[test]
fn keys_of_all_lengths_are_put_together_alike() {
    for secret in [&b""[..], b"\0", b"\0\0\0\0", b"a", &[255; 64], &[1; 100]] {
        let secret = secret.to_vec().leak();
        let settings = Settings {
            keys: vec![(1, secret, secret)],
            ..Settings::default()
        };
        settings.with_either_client(|link| {
            for sender in Sender::BOTH {
                link.deliver(sender, 1, b"hello");
            }
        });
    }
}

#[test]
fn a_message_of_ours_has_a_key_of_its_own() {
    let settings = Settings {
        keys: vec![(3, b"three", b"three"), (7, b"seven", b"seven")],
        ..Settings::default()
    };
    settings.with_either_client(|link| {
        // The API of usrsctp has no such thing.
        let how = How {
            key: Some(3),
            ..How::default()
        };
        link.send(Sender::Ours, 1, b"with the third key", how);
        link.deliver(Sender::Ours, 1, b"with the active key");
        let used = used(link, Sender::Ours);
        assert_eq!(used, [(3, SHA_1), (7, SHA_1)]);
    });
}

#[test]
fn every_chunk_can_be_authenticated() {
    let chunk_types = [
        ChunkType::DATA,
        ChunkType::SACK,
        ChunkType::HEARTBEAT,
        ChunkType::HEARTBEAT_ACK,
        ChunkType::ABORT,
        ChunkType::SHUTDOWN,
        ChunkType::SHUTDOWN_ACK,
        ChunkType::ERROR,
        ChunkType::COOKIE_ACK,
    ];
    for client in Client::BOTH {
        for keys in [vec![], vec![(5, &b"secret"[..], &b"secret"[..])]] {
            let mut settings = Settings {
                chunk_types: chunk_types.to_vec(),
                keys,
                ..Settings::default()
            };
            // Of all chunks, usrsctp refuses a COOKIE ECHO whose HMAC is right.
            if client == Client::Peer {
                settings.chunk_types.push(ChunkType::COOKIE_ECHO);
            }
            let Some(mut link) = settings.associate(client) else {
                return;
            };
            for sender in Sender::BOTH {
                link.deliver(sender, 1, &[7; 5000]);
            }
            let (now, id) = (link.ours.at(link.now), link.ours.id());
            link.ours.endpoint.shutdown(now, id).unwrap();
            link.wait_for_event("the end", |event| {
                matches!(event, Event::ShutdownComplete { .. })
            });
            let drops = &link.ours.endpoint.statistics().drops;
            assert_eq!((drops.not_authentic, drops.not_authenticated), (0, 0));
        }
    }
}

#[test]
fn keys_change_while_data_flows() {
    let settings = Settings {
        keys: vec![(1, b"old", b"old")],
        ..Settings::default()
    };
    settings.with_either_client(|link| {
        let messages: Vec<Vec<u8>> = (0..60).map(|number| vec![number; 1500]).collect();
        for (number, payload) in messages.iter().enumerate() {
            if number == 30 {
                let (now, id) = (link.ours.at(link.now), Some(link.ours.id()));
                let endpoint = &mut link.ours.endpoint;
                endpoint.set_shared_key(now, id, 2, b"new").unwrap();
                link.peer
                    .command(&format!("key 2 {}", to_hex(b"new")))
                    .unwrap();
                endpoint.set_active_key(now, id, 2).unwrap();
                link.peer.command("active-key 2").unwrap();
                endpoint.deactivate_key(now, id, 1).unwrap();
                link.peer.command("deactivate-key 1").unwrap();
            }
            for sender in Sender::BOTH {
                link.send(sender, 1, payload, How::default());
            }
        }
        for sender in Sender::BOTH {
            link.run_until("all arrive", |link| link.received_from(sender).len() >= 60);
            let received = link.received_from(sender).iter();
            assert!(received.map(|it| &it.payload).eq(&messages), "{sender:?}");
            let mut keys: Vec<u16> = used(link, sender).iter().map(|(key, _)| *key).collect();
            keys.dedup();
            assert_eq!(keys, [1, 2], "{sender:?}");
        }
        // Either side is told of the new key of the other one, and that its old one is not used any more.
        for expected in [
            AuthenticationIndication::NewKey { key: 2 },
            AuthenticationIndication::FreeKey { key: 1 },
        ] {
            link.wait_for_event("a word about a key", |event| {
                matches!(event, Event::Authentication { indication, .. } if *indication == expected)
            });
        }
        for expected in ["key 1 2", "key 3 1"] {
            link.wait_for_peer_event(&PeerEvent::Other(expected.to_owned()));
        }
        let (now, id) = (link.ours.at(link.now), Some(link.ours.id()));
        link.ours.endpoint.delete_key(now, id, 1).unwrap();
        link.peer.command("delete-key 1").unwrap();
        for sender in Sender::BOTH {
            link.deliver(sender, 1, b"after the old key was deleted");
        }
    });
}

#[test]
fn data_with_a_wrong_key_is_dropped() {
    let settings = Settings {
        keys: vec![(1, b"ours", b"the peer's")],
        ..Settings::default()
    };
    settings.with_either_client(|link| {
        for sender in Sender::BOTH {
            link.send(sender, 1, b"first", How::default());
        }
        link.run_for(Duration::from_secs(3));
        for sender in Sender::BOTH {
            assert_eq!(link.received_from(sender), []);
        }
        assert_ne!(link.ours.endpoint.statistics().drops.not_authentic, 0);
        // With the right one all is sent again.
        let (now, id) = (link.ours.at(link.now), Some(link.ours.id()));
        let set = link.ours.endpoint.set_shared_key(now, id, 1, b"the peer's");
        set.unwrap();
        let first = Message {
            stream: 1,
            payload: b"first".to_vec(),
        };
        link.run_until("both arrive", |link| {
            Sender::BOTH
                .iter()
                .all(|sender| link.received_from(*sender).contains(&first))
        });
    });
}
