//! All extensions of a peer at once.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha12Rng;
use sctp::PrPolicy;

use crate::engine::{How, Message, Peer};
use crate::link::in_all_directions;

tests_with!(usrsctp, Usrsctp: all_extensions_go_together);
tests_with!(dcsctp, Dcsctp: all_extensions_go_together);
tests_with!(sctp_proto, SctpProto: all_extensions_go_together);

fn all_extensions_go_together<P: Peer>() {
    in_all_directions::<P>(P::EXTENSIONS, |link, sender| {
        let mut rng = ChaCha12Rng::seed_from_u64(1);
        link.lose(move |_, _| rng.random_bool(0.1));
        let reliable = |message: &Message| message.stream < 3;
        let mut expected = Vec::new();
        for number in 0..100 {
            let message = Message {
                stream: number % 4,
                payload: vec![number as u8; 20 + usize::from(number) * 9],
            };
            let policy = if reliable(&message) {
                PrPolicy::Reliable
            } else {
                PrPolicy::LimitedRetransmissions(0)
            };
            let how = How {
                policy,
                ..How::default()
            };
            link.send(sender, message.stream, &message.payload, how);
            if reliable(&message) {
                expected.push(message);
            }
        }
        // Of each stream in order.
        expected.sort_by_key(|message| message.stream);
        let arrived = |received: &[Message]| -> Vec<Message> {
            let mut arrived: Vec<Message> =
                received.iter().filter(|it| reliable(it)).cloned().collect();
            arrived.sort_by_key(|message| message.stream);
            arrived
        };
        link.run_until("all arrive", |link| {
            arrived(link.received_from(sender)).len() >= expected.len()
        });
        assert_eq!(arrived(link.received_from(sender)), expected, "{sender:?}");
    });
}
