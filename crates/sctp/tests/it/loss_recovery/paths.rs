//! What a loss on one path means for the others.

use sctp::packet::ChunkType;

use super::*;

/// What was lost while little is in flight goes again on another path.
#[test]
fn a_thin_association_retransmits_on_another_path() {
    for (is_moved, expected) in [(true, 1), (false, 0)] {
        let mut network = established(2, rack_tlp().thin_alternate_path(is_moved));
        let begin = network.now;
        send_losing(&mut network, 0..2, &[0]);
        network.run_for(100 * MILLISECOND);
        let sent = network.sent_with(CLIENT, ChunkType::DATA, begin);
        let networks: Vec<u8> = sent.iter().map(|(_, network)| *network).collect();
        assert_eq!(networks, [0, 0, expected]);
        assert_eq!(network.status(CLIENT).unacknowledged_chunks, 0);
    }
}

/// A path that has failed is left, and what is new goes on over the other one at once.
#[test]
fn a_dead_path_costs_one_timeout() {
    let config = plain().profile(sctp::Profile::Signalling);
    let mut network = established(2, config);
    network.cut(0);
    let begin = network.now;
    let (client, server) = (
        network.id(CLIENT),
        network.id(crate::multihoming::network::SERVER),
    );
    let mut received = 0;
    for number in 0..50u16 {
        let info = crate::common::ordered(number % 8);
        let now = network.now;
        let endpoint = &mut network.hosts[CLIENT].endpoint;
        endpoint
            .send(now, client, info, crate::common::message(0, 400))
            .unwrap();
        network.run_for(20 * MILLISECOND);
        let now = network.now;
        let endpoint = &mut network.hosts[crate::multihoming::network::SERVER].endpoint;
        received += std::iter::from_fn(|| endpoint.receive(now, server)).count();
    }
    assert!(received >= 45, "{received} of 50 within a second");
    let first_elsewhere = network
        .sent_with(CLIENT, ChunkType::DATA, begin)
        .into_iter()
        .find(|(_, network)| *network == 1);
    let (time, _) = first_elsewhere.expect("data goes over the other path");
    assert!(time <= 400, "{time} ms");
}
