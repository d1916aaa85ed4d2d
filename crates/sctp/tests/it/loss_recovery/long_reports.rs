//! More gaps than a SACK has room for.

use std::time::Duration;

use sctp::{EndpointConfig, LossDetection};

use crate::multihoming::network::CLIENT;
use crate::multipath::links::{LinkSpec, Links};

/// Slow start fills the queue of a long path, and goes on for a round trip: of each two packets one is dropped, so that
/// there are thousands of gaps. A SACK reports some hundreds of them (RFC 9260 section 3.3.4). What lies beyond has
/// mostly arrived, though retransmissions that left later are acknowledged before it.
#[test]
fn what_a_sack_had_no_room_for_is_not_lost() {
    let long = LinkSpec {
        queue: Duration::from_millis(300),
        ..LinkSpec::new(100.0, 150.0)
    };
    let config = EndpointConfig::default()
        .path_mtu_discovery(false)
        .a_rwnd(16 << 20)
        .send_buffer(16 << 20)
        .loss_detection(LossDetection::RackTlp)
        .prr(true);
    let mut links = Links::new(&[long], config, 1);
    let seconds = Duration::from_secs;
    let rate = links.goodput(1400, false, seconds(1), seconds(15));
    let counted = links.hosts[CLIENT].statistics();
    let repeated = counted.retransmitted_fast - counted.tail_loss_probes;
    println!(
        "{} dropped, {repeated} repeated, {} by time-outs, {rate:.1} Mbit/s",
        links.dropped, counted.retransmitted_by_timeout
    );
    assert!(
        links.dropped > 1000,
        "{} packets were dropped",
        links.dropped
    );
    assert!(
        repeated <= links.dropped,
        "{repeated} chunks were sent again for {} lost packets",
        links.dropped
    );
    assert_eq!(counted.t3_expiries, 0);
    assert!(rate > 50.0, "{rate} Mbit/s");
}
