//! T3-rtx of thin associations: RTO Restart (RFC 7765), linear timeouts, Early Retransmit (RFC 5827).

use sctp::packet::ChunkType;

use super::*;

fn times(network: &Network, begin: std::time::Instant) -> Vec<u128> {
    let sent = network.sent_with(CLIENT, ChunkType::DATA, begin);
    sent.into_iter().map(|(time, _)| time).collect()
}

/// With two chunks outstanding, one SACK beyond the first is all that can come.
#[test]
fn early_retransmit_does_with_fewer_gap_reports() {
    for (is_early, expected) in [(true, vec![0, 1, 21]), (false, vec![0, 1, 1000])] {
        let mut network = established(1, plain().early_retransmit(is_early));
        let begin = network.now;
        send_losing(&mut network, 0..2, &[0]);
        network.run_for(1005 * MILLISECOND);
        let times = times(&network, begin);
        assert_eq!(times.len(), expected.len(), "{times:?}");
        assert!(times[2].abs_diff(expected[2]) <= 22, "{times:?}");
    }
}

/// The second message is lost 100 ms after the first one left, and the SACK of the first comes late: T3-rtx
/// expires an RTO after the second left, not an RTO after the SACK.
#[test]
fn rto_restart_counts_from_the_earliest_chunk() {
    for (restarts, expected) in [(true, 1010), (false, 1220)] {
        let config = plain().rto_restart(restarts).sack_delay(200 * MILLISECOND);
        let mut network = established(1, config);
        let begin = network.now;
        send_losing(&mut network, 0..1, &[]);
        network.run_for(9 * MILLISECOND);
        network.loss = 1.0;
        network.send(CLIENT, crate::common::ordered(1), "lost".into());
        network.loss = 0.0;
        network.run_for(1500 * MILLISECOND);
        let times = times(&network, begin);
        assert_eq!(times, [0, 10, expected]);
    }
}

/// Six timeouts of the same length, and then the back-off of RFC 9260.
#[test]
fn timeouts_are_linear_while_little_is_in_flight() {
    let config = plain()
        .thin_linear_timeouts(true)
        .path_max_retrans(20)
        .association_max_retrans(20);
    let mut network = established(1, config);
    network.loss = 1.0;
    let begin = network.now;
    network.send(CLIENT, crate::common::ordered(0), "lost".into());
    network.run_for(14_500 * MILLISECOND);
    assert_eq!(
        times(&network, begin),
        [0, 1000, 2000, 3000, 4000, 5000, 6000, 7000, 9000, 13_000]
    );
    network.loss = 0.0;
    network.run_for(10_000 * MILLISECOND);
    assert_eq!(network.status(CLIENT).unacknowledged_chunks, 0);
    // An acknowledgement begins the count anew.
    network.loss = 1.0;
    let begin = network.now;
    network.send(CLIENT, crate::common::ordered(0), "lost".into());
    network.run_for(3500 * MILLISECOND);
    assert_eq!(times(&network, begin), [0, 1000, 2000, 3000]);
}
