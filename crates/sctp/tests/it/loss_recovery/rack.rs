//! RACK (RFC 8985 section 6): losses are detected by time.

use sctp::packet::ChunkType;

use super::*;
use crate::multihoming::network::SERVER;

/// When DATA left the client, in milliseconds since `begin`.
fn data_times(network: &Network, begin: std::time::Instant) -> Vec<u128> {
    let sent = network.sent_with(CLIENT, ChunkType::DATA, begin);
    sent.into_iter().map(|(time, _)| time).collect()
}

/// One SACK is enough: a quarter of the round trip after it would have come in order, what was overtaken is
/// sent again.
#[test]
fn one_later_message_reveals_a_loss() {
    let mut network = established(1, rack_tlp());
    let begin = network.now;
    send_losing(&mut network, 0..2, &[0]);
    network.run_for(100 * MILLISECOND);
    // SACK 21 ms after the first message left, and the window of 5 ms.
    assert_eq!(data_times(&network, begin), [0, 1, 25]);
    let statistics = network.hosts[CLIENT].endpoint.statistics();
    assert_eq!(statistics.t3_expiries, 0);
    assert_eq!(
        network.hosts[SERVER]
            .endpoint
            .statistics()
            .duplicates_received,
        0
    );
}

/// The loss of a retransmission is detected as that of anything else.
#[test]
fn a_retransmission_that_is_lost_again_is_sent_once_more() {
    let mut network = established(1, rack_tlp());
    let begin = network.now;
    send_losing(&mut network, 0..2, &[0]);
    network.run_for(20 * MILLISECOND);
    network.loss = 1.0;
    network.run_for(6 * MILLISECOND);
    network.loss = 0.0;
    assert_eq!(data_times(&network, begin).len(), 3, "sent again and lost");
    send_losing(&mut network, 2..3, &[]);
    network.run_for(60 * MILLISECOND);
    let times = data_times(&network, begin);
    assert_eq!(times.len(), 5, "{times:?}");
    assert!(times[4] < 60, "{times:?}");
    assert_eq!(network.hosts[CLIENT].endpoint.statistics().t3_expiries, 0);
}

/// The third SACK beyond a gap ends the waiting, as long as no reordering was seen.
#[test]
fn three_sacks_reveal_a_loss_at_once() {
    let mut network = established(1, rack_tlp());
    let begin = network.now;
    send_losing(&mut network, 0..4, &[0]);
    network.run_for(100 * MILLISECOND);
    assert_eq!(data_times(&network, begin), [0, 1, 2, 3, 23]);
}

/// Nothing is sent again on a link that loses nothing, however much waits to be sent.
#[test]
fn nothing_is_sent_again_on_a_clean_link() {
    for bytes in [200, 1200] {
        let mut network = established(1, rack_tlp());
        network.transfer(2000, bytes, 2000, |_| {});
        let statistics = network.hosts[CLIENT].endpoint.statistics();
        assert_eq!(statistics.retransmitted_fast, 0);
        assert_eq!(statistics.t3_expiries, 0);
    }
}

/// Reordering that is less than a quarter of the round trip makes nothing be sent again, once it was seen.
#[test]
fn reordering_within_the_window_makes_nothing_be_sent_again() {
    let mut network = established(1, rack_tlp());
    network.jitter = 2 * MILLISECOND;
    network.transfer(200, 1200, 200, |_| {});
    network.run_for(1000 * MILLISECOND);
    let before = network.hosts[CLIENT]
        .endpoint
        .statistics()
        .retransmitted_fast;
    network.transfer(2000, 1200, 2000, |_| {});
    let after = network.hosts[CLIENT].endpoint.statistics();
    assert_eq!(after.retransmitted_fast, before);
    assert_eq!(after.t3_expiries, 0);
}

/// Where reordering is worse than the window, the window grows by what the peer has twice.
#[test]
fn the_window_grows_with_the_reordering() {
    let mut network = established(1, rack_tlp());
    network.jitter = 15 * MILLISECOND;
    let spurious = |network: &mut Network| {
        let before = network.hosts[CLIENT]
            .endpoint
            .statistics()
            .retransmitted_fast;
        network.transfer(1000, 1200, 1000, |_| {});
        network.hosts[CLIENT]
            .endpoint
            .statistics()
            .retransmitted_fast
            - before
    };
    let first = spurious(&mut network);
    let second = spurious(&mut network);
    assert!(second * 2 < first, "{first} and then {second}");
}
