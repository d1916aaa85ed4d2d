//! Re-configuration of streams (RFC 6525).

use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha12Rng;
use sctp::packet::{Chunk, Ssn};
use sctp::{Event, Extensions, ReConfigurationOutcome, StreamDirection, StreamReset};

use crate::engine::{How, Message, Peer, PeerEvent};
use crate::link::{Link, STREAMS, Sender, in_all_directions, with_either_client};
use crate::peers::Usrsctp;

tests_with!(
    usrsctp,
    Usrsctp: our_streams_begin_anew,
    our_streams_begin_anew_right_after_data,
    the_peers_streams_begin_anew,
    both_directions_of_a_stream_begin_anew,
    messages_are_in_order_over_resets_and_losses,
);

tests_with!(
    dcsctp,
    Dcsctp: our_streams_begin_anew,
    our_streams_begin_anew_right_after_data,
    the_peers_streams_begin_anew,
    both_directions_of_a_stream_begin_anew,
    messages_are_in_order_over_resets_and_losses,
);

tests_with!(
    sctp_proto,
    SctpProto: our_streams_begin_anew,
    our_streams_begin_anew_right_after_data,
    both_directions_of_a_stream_begin_anew,
);

fn extension() -> Extensions {
    let mut extensions = Extensions::NONE;
    extensions.re_configuration = true;
    extensions
}

const DONE: ReConfigurationOutcome = ReConfigurationOutcome::Performed;

/// The stream sequence number of the last DATA chunk on a stream.
fn last_ssn<P: Peer>(link: &Link<P>, sender: Sender, on: u16) -> Option<Ssn> {
    let ssns = link.chunks(sender).filter_map(|chunk| match chunk {
        Chunk::Data(data) if data.stream == on => Some(data.ssn),
        _ => None,
    });
    ssns.last()
}

fn reset_outgoing<P: Peer>(link: &mut Link<P>, streams: &[u16]) {
    let (now, id) = (link.ours.at(link.now), link.ours.id());
    let reset = StreamReset {
        outgoing: Some(streams.to_vec()),
        ..StreamReset::default()
    };
    link.ours.endpoint.reset_streams(now, id, reset).unwrap();
}

/// What our user is told of a reset, once it is.
fn take_reset<P: Peer>(
    link: &mut Link<P>,
    which: StreamDirection,
    which_streams: &[u16],
) -> Option<Event> {
    let position = link.ours.events.iter().position(|event| {
        matches!(event, Event::StreamReset { direction, streams, outcome: DONE, .. }
            if *direction == which && streams == which_streams)
    })?;
    Some(link.ours.events.remove(position))
}

fn wait_for_reset<P: Peer>(link: &mut Link<P>, direction: StreamDirection, streams: &[u16]) {
    link.run_until("a reset", |link| {
        take_reset(link, direction, streams).is_some()
    });
}

/// Two messages on each of two streams.
fn begin<P: Peer>(link: &mut Link<P>, sender: Sender) {
    for stream in [1, 2] {
        for number in 0..2 {
            link.deliver(sender, stream, format!("{number}").as_bytes());
        }
        assert_eq!(last_ssn(link, sender, stream), Some(Ssn(1)));
    }
    // Until all is acknowledged.
    link.run_for(Duration::from_secs(1));
}

/// A message on either stream, of which the first begins anew.
fn go_on<P: Peer>(link: &mut Link<P>, sender: Sender) {
    for (stream, ssn) in [(1, Ssn(0)), (2, Ssn(2))] {
        link.deliver(sender, stream, b"after");
        assert_eq!(last_ssn(link, sender, stream), Some(ssn));
    }
}

fn our_streams_begin_anew<P: Peer>() {
    with_either_client::<P>(extension(), |link| {
        begin(link, Sender::Ours);
        reset_outgoing(link, &[1]);
        wait_for_reset(link, StreamDirection::Outgoing, &[1]);
        link.wait_for_peer_event(&PeerEvent::IncomingReset(vec![1]));
        go_on(link, Sender::Ours);
    });
}

fn our_streams_begin_anew_right_after_data<P: Peer>() {
    with_either_client::<P>(extension(), |link| {
        for number in 0..5 {
            let payload = format!("{number}");
            link.send(Sender::Ours, 1, payload.as_bytes(), How::default());
        }
        // They have left, no more.
        link.run_for(Duration::from_millis(1));
        reset_outgoing(link, &[1]);
        wait_for_reset(link, StreamDirection::Outgoing, &[1]);
        assert_eq!(link.peer_received.len(), 5);
        link.deliver(Sender::Ours, 1, b"after");
        assert_eq!(last_ssn(link, Sender::Ours, 1), Some(Ssn(0)));
    });
}

fn the_peers_streams_begin_anew<P: Peer>() {
    with_either_client::<P>(extension(), |link| {
        begin(link, Sender::Peer);
        link.peer.reset_outgoing(&[1]);
        wait_for_reset(link, StreamDirection::Incoming, &[1]);
        link.wait_for_peer_event(&PeerEvent::OutgoingReset(vec![1]));
        go_on(link, Sender::Peer);
    });
}

/// As WebRTC closes a data channel (RFC 8831 section 6.7): the side that is told of the reset resets its own stream.
fn both_directions_of_a_stream_begin_anew<P: Peer>() {
    with_either_client::<P>(extension(), |link| {
        for sender in Sender::BOTH {
            begin(link, sender);
        }
        link.peer.reset_outgoing(&[1]);
        wait_for_reset(link, StreamDirection::Incoming, &[1]);
        reset_outgoing(link, &[1]);
        wait_for_reset(link, StreamDirection::Outgoing, &[1]);
        link.wait_for_peer_event(&PeerEvent::IncomingReset(vec![1]));
        link.wait_for_peer_event(&PeerEvent::OutgoingReset(vec![1]));
        for sender in Sender::BOTH {
            go_on(link, sender);
        }
    });
}

fn messages_are_in_order_over_resets_and_losses<P: Peer>() {
    in_all_directions::<P>(extension(), |link, sender| {
        let mut rng = ChaCha12Rng::seed_from_u64(6525);
        link.lose(move |_, _| rng.random_bool(0.2));
        let received = |link: &Link<P>| -> Vec<Message> {
            let of_both = link.received_from(sender).iter();
            of_both.filter(|it| it.stream == 3).cloned().collect()
        };
        let mut expected = Vec::new();
        for number in 0..60 {
            let payload = vec![number; 10 + usize::from(number) * 50];
            link.send(sender, 3, &payload, How::default());
            expected.push(Message { stream: 3, payload });
            if number % 20 == 10 {
                let direction = match sender {
                    Sender::Ours => {
                        reset_outgoing(link, &[3]);
                        StreamDirection::Outgoing
                    }
                    Sender::Peer => {
                        // dcSCTP throws away what is queued.
                        let sent = expected.len();
                        link.run_until("all arrive", |link| received(link).len() >= sent);
                        link.peer.reset_outgoing(&[3]);
                        StreamDirection::Incoming
                    }
                };
                wait_for_reset(link, direction, &[3]);
                if sender == Sender::Peer {
                    link.wait_for_peer_event(&PeerEvent::OutgoingReset(vec![3]));
                }
            }
        }
        let all = expected.len();
        link.run_until("all arrive", |link| received(link).len() >= all);
        assert_eq!(received(link), expected, "{sender:?}");
    });
}

mod all_requests {
    use super::*;

    fn with_usrsctp(test: impl Fn(&mut Link<Usrsctp>)) {
        with_either_client(extension(), test);
    }

    fn peer_event(text: &str) -> PeerEvent {
        PeerEvent::Other(text.to_owned())
    }

    #[test]
    fn all_of_our_streams_begin_anew() {
        with_usrsctp(|link| {
            begin(link, Sender::Ours);
            reset_outgoing(link, &[]);
            wait_for_reset(link, StreamDirection::Outgoing, &[]);
            link.wait_for_peer_event(&PeerEvent::IncomingReset(Vec::new()));
            for stream in [1, 2] {
                link.deliver(Sender::Ours, stream, b"after");
                assert_eq!(last_ssn(link, Sender::Ours, stream), Some(Ssn(0)));
            }
        });
    }

    #[test]
    fn several_streams_of_the_peer_begin_anew() {
        with_usrsctp(|link| {
            begin(link, Sender::Peer);
            link.peer.reset_outgoing(&[1, 2]);
            wait_for_reset(link, StreamDirection::Incoming, &[1, 2]);
            link.wait_for_peer_event(&PeerEvent::OutgoingReset(vec![1, 2]));
            for stream in [1, 2] {
                link.deliver(Sender::Peer, stream, b"after");
                assert_eq!(last_ssn(link, Sender::Peer, stream), Some(Ssn(0)));
            }
        });
    }

    #[test]
    fn we_ask_for_the_peers_streams() {
        with_usrsctp(|link| {
            begin(link, Sender::Peer);
            let (now, id) = (link.ours.at(link.now), link.ours.id());
            let reset = StreamReset {
                incoming: Some(vec![1]),
                ..StreamReset::default()
            };
            link.ours.endpoint.reset_streams(now, id, reset).unwrap();
            wait_for_reset(link, StreamDirection::Incoming, &[1]);
            link.wait_for_peer_event(&PeerEvent::OutgoingReset(vec![1]));
            go_on(link, Sender::Peer);
        });
    }

    #[test]
    fn the_peer_asks_for_our_streams() {
        with_usrsctp(|link| {
            begin(link, Sender::Ours);
            link.peer.command("reset 1 1").unwrap();
            wait_for_reset(link, StreamDirection::Outgoing, &[1]);
            link.wait_for_peer_event(&PeerEvent::IncomingReset(vec![1]));
            go_on(link, Sender::Ours);
        });
    }

    /// Both sides have heard that the association was reset; all goes on from the first numbers.
    fn after_reset_of_association(link: &mut Link<Usrsctp>) {
        link.wait_for_event("the association is reset", |event| {
            matches!(event, Event::AssociationReset { outcome: DONE, .. })
        });
        link.wait_for_peer_event(&peer_event("association-reset performed"));
        for sender in Sender::BOTH {
            for stream in [1, 2] {
                link.deliver(sender, stream, b"after");
                assert_eq!(last_ssn(link, sender, stream), Some(Ssn(0)));
            }
        }
    }

    #[test]
    fn we_reset_the_association() {
        with_usrsctp(|link| {
            for sender in Sender::BOTH {
                begin(link, sender);
            }
            let (now, id) = (link.ours.at(link.now), link.ours.id());
            link.ours.endpoint.reset_association(now, id).unwrap();
            after_reset_of_association(link);
        });
    }

    /// The peer's data is there, and its acknowledgement delayed.
    #[test]
    fn we_reset_the_association_right_after_the_peers_data() {
        with_usrsctp(|link| {
            for sender in Sender::BOTH {
                begin(link, sender);
            }
            link.deliver(Sender::Peer, 1, b"right before");
            let (now, id) = (link.ours.at(link.now), link.ours.id());
            link.ours.endpoint.reset_association(now, id).unwrap();
            after_reset_of_association(link);
        });
    }

    #[test]
    fn the_peer_resets_the_association() {
        with_usrsctp(|link| {
            for sender in Sender::BOTH {
                begin(link, sender);
            }
            link.peer.command("reset-association").unwrap();
            after_reset_of_association(link);
        });
    }

    /// Both sides send on the last of their new streams.
    fn after_streams_were_added(link: &mut Link<Usrsctp>, ours: u16, peers: u16) {
        link.run_until("both know of them", |link| {
            let status = link.ours.status();
            (status.outbound_streams, status.inbound_streams) == (ours, peers)
        });
        link.wait_for_peer_event(&peer_event(&format!("streams performed {peers} {ours}")));
        link.deliver(Sender::Ours, ours - 1, b"ours");
        link.deliver(Sender::Peer, peers - 1, b"the peer's");
    }

    #[test]
    fn we_add_streams() {
        with_usrsctp(|link| {
            for (outgoing, incoming) in [(3, 0), (0, 2), (5, 4)] {
                let before = link.ours.status();
                let (now, id) = (link.ours.at(link.now), link.ours.id());
                let added = link.ours.endpoint.add_streams(now, id, outgoing, incoming);
                added.unwrap();
                after_streams_were_added(
                    link,
                    before.outbound_streams + outgoing,
                    before.inbound_streams + incoming,
                );
            }
            assert_eq!(link.ours.status().outbound_streams, STREAMS + 8);
        });
    }

    #[test]
    fn the_peer_adds_streams() {
        with_usrsctp(|link| {
            for (outgoing, incoming) in [(3, 0), (0, 2), (5, 4)] {
                let before = link.ours.status();
                link.peer
                    .command(&format!("add {outgoing} {incoming}"))
                    .unwrap();
                after_streams_were_added(
                    link,
                    before.outbound_streams + incoming,
                    before.inbound_streams + outgoing,
                );
            }
            assert_eq!(link.ours.status().inbound_streams, STREAMS + 8);
        });
    }
}
