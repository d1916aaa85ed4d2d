//! Tail loss probes (RFC 8985 section 7).

use sctp::packet::ChunkType;

use super::*;
use crate::multihoming::network::SERVER;

/// A message that is lost and followed by nothing goes again after two round trips and the delay of a SACK,
/// not after RTO.Min.
#[test]
fn a_lost_tail_is_probed() {
    let config = rack_tlp().sack_delay(20 * MILLISECOND);
    let mut network = established(1, config);
    let begin = network.now;
    send_losing(&mut network, 0..1, &[0]);
    network.run_for(900 * MILLISECOND);
    let times = network.sent_with(CLIENT, ChunkType::DATA, begin);
    assert_eq!(times.len(), 2, "{times:?}");
    let (time, _) = times[1];
    assert!((60..120).contains(&time), "{times:?}");
    let statistics = network.hosts[CLIENT].endpoint.statistics();
    assert_eq!(statistics.tail_loss_probes, 1);
    assert_eq!(statistics.t3_expiries, 0);
    assert_eq!(
        network.hosts[SERVER]
            .endpoint
            .statistics()
            .duplicates_received,
        0
    );
}

/// A probe carries as much of the tail as a packet holds.
#[test]
fn a_probe_repairs_all_that_fits_into_it() {
    let config = rack_tlp().sack_delay(20 * MILLISECOND);
    let mut network = established(1, config);
    send_losing(&mut network, 0..5, &[0, 1, 2, 3, 4]);
    network.run_for(200 * MILLISECOND);
    let statistics = network.hosts[CLIENT].endpoint.statistics();
    assert_eq!(statistics.tail_loss_probes, 5);
    assert_eq!(network.status(CLIENT).unacknowledged_chunks, 0);
}

/// A second probe needs a measurement of the round-trip time first; the HEARTBEAT beside the first one gives
/// it.
#[test]
fn one_lost_message_after_another_is_probed() {
    let config = rack_tlp().sack_delay(20 * MILLISECOND);
    let mut network = established(1, config);
    for number in 1..=5 {
        send_losing(&mut network, 0..1, &[0]);
        network.run_for(300 * MILLISECOND);
        let statistics = network.hosts[CLIENT].endpoint.statistics();
        assert_eq!(statistics.tail_loss_probes, number);
        assert_eq!(statistics.t3_expiries, 0);
    }
}

/// When the probe is lost, T3-rtx is next, an RTO after the probe.
#[test]
fn t3_rtx_comes_after_a_lost_probe() {
    let config = rack_tlp().sack_delay(20 * MILLISECOND);
    let mut network = established(1, config);
    network.loss = 1.0;
    let begin = network.now;
    network.send(CLIENT, crate::common::ordered(0), "lost".into());
    network.run_for(2000 * MILLISECOND);
    let times = network.sent_with(CLIENT, ChunkType::DATA, begin);
    assert_eq!(times.len(), 3, "{times:?}");
    assert_eq!(
        times[2].0 - times[1].0,
        1000,
        "RTO.Min after the probe: {times:?}"
    );
}

/// Messages that may not be sent again are not, as long as nobody knows that they were lost.
#[test]
fn a_message_without_retransmissions_is_not_probed() {
    let mut extensions = sctp::Extensions::NONE;
    extensions.partial_reliability = true;
    let mut network = established(1, rack_tlp().extensions(extensions));
    let info = sctp::SendInfo {
        pr_policy: Some(sctp::PrPolicy::LimitedRetransmissions(0)),
        ..crate::common::ordered(0)
    };
    network.send(CLIENT, info, "once".into());
    network.run_for(5 * MILLISECOND);
    network.run_for(3000 * MILLISECOND);
    assert_eq!(
        network.hosts[CLIENT].endpoint.statistics().tail_loss_probes,
        0
    );
}

/// DATA that goes with a COOKIE ECHO waits for the answer to that, and is not probed.
#[test]
fn data_with_a_cookie_echo_is_not_probed() {
    let mut pair = crate::common::Pair::with(
        plain().profile(sctp::Profile::Signalling),
        EndpointConfig::default(),
    );
    let id = pair.connect();
    let sent = pair
        .client
        .endpoint
        .send(pair.now, id, crate::common::ordered(0), "early".into());
    sent.unwrap();
    let init = pair.to_server.pop_front().expect("an INIT");
    pair.give_server(init);
    let init_ack = pair.to_client.pop_front().expect("an INIT ACK");
    pair.give_client(init_ack);
    pair.lose_all();
    for _ in 0..5 {
        assert!(pair.advance());
        pair.lose_all();
    }
    let waited = pair.now - pair.start;
    assert!(waited >= 5000 * MILLISECOND, "{waited:?}");
    assert_eq!(pair.client.endpoint.statistics().tail_loss_probes, 0);
}
