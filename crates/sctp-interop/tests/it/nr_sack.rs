//! Non-renegable acknowledgements (draft-natarajan-tsvwg-sctp-nrsack).

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha12Rng;
use sctp::Extensions;
use sctp::packet::ChunkType;

use crate::engine::{How, Peer};
use crate::link::{Sender, in_all_directions};

tests_with!(usrsctp, Usrsctp: what_is_received_is_acknowledged_by_nr_sacks);

fn what_is_received_is_acknowledged_by_nr_sacks<P: Peer>() {
    let mut extensions = Extensions::NONE;
    extensions.nr_sack = true;
    in_all_directions::<P>(extensions, |link, sender| {
        let mut rng = ChaCha12Rng::seed_from_u64(1);
        link.lose(move |_, _| rng.random_bool(0.1));
        let expected: Vec<Vec<u8>> = (0..100).map(|it| vec![it; 700]).collect();
        for payload in &expected {
            link.send(sender, 1, payload, How::default());
        }
        link.run_until("all arrive", |link| link.received_from(sender).len() >= 100);
        let received = link.received_from(sender).iter();
        assert!(received.map(|it| &it.payload).eq(&expected), "{sender:?}");
        let receiver = match sender {
            Sender::Ours => Sender::Peer,
            Sender::Peer => Sender::Ours,
        };
        assert_ne!(link.count(receiver, ChunkType::NR_SACK), 0);
        assert_eq!(link.count(receiver, ChunkType::SACK), 0);
    });
}
