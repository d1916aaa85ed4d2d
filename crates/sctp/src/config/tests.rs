use super::*;

#[test]
fn defaults_are_those_of_section_16_and_within_bounds() {
    let config = EndpointConfig::default();
    assert_eq!(config.clone().bounded(), config);
}

#[test]
fn room_for_less_than_a_message_is_refused() {
    let config = EndpointConfig::default().max_received_bytes(100_000);
    let error = config.check().unwrap_err().to_string();
    assert!(error.starts_with(
        "max_received_bytes=100000 has no room for a message of max_message_size=262144: "
    ));
    assert_eq!(
        config.clone().bounded().association.max_message_size,
        100_000
    );
    assert_eq!(config.clone().bounded().check(), Ok(()));
    for enough in [
        EndpointConfig::default(),
        config.clone().max_message_size(100_000),
        config.clone().a_rwnd(100_000),
        config.clone().guaranteed_receive_bytes(1 << 18),
        config.partial_delivery_point(1 << 16),
    ] {
        assert_eq!(enough.check(), Ok(()));
    }
}

#[test]
fn settings_are_moved_into_bounds() {
    let config = EndpointConfig::default()
        .sack_delay(Duration::from_secs(1))
        .a_rwnd(0)
        .outbound_streams(0)
        .mtu(0)
        .hb_interval(Duration::MAX)
        .rto_initial(Duration::ZERO)
        .rto_min(Duration::ZERO)
        .rto_max(Duration::ZERO)
        .rto_alpha(f64::NAN)
        .rto_beta(f64::INFINITY)
        .max_pending_heartbeat_acks(0)
        .max_received_messages(0)
        .bounded();
    assert_eq!(config.association.sack_delay, Duration::from_millis(500));
    assert_eq!(config.association.a_rwnd, 1500);
    assert_eq!(config.association.max_message_size, 1500);
    assert_eq!(config.association.outbound_streams, 1);
    assert_eq!(config.association.max_pending_heartbeat_acks, 1);
    assert_eq!(config.association.max_received_messages, 1);
    assert_eq!(config.association.path.mtu, LEAST_MTU);
    assert!(config.association.path.hb_interval < Duration::MAX);
    for timeout in [
        config.association.path.rto_initial,
        config.association.path.rto_min,
        config.association.path.rto_max,
    ] {
        assert_eq!(timeout, LEAST_RTO);
    }
    assert_eq!(config.association.path.rto_alpha, 1.0 / 8.0);
    assert_eq!(config.association.path.rto_beta, 1.0);
}

#[test]
fn a_setting_is_made_on_any_struct_that_contains_it() {
    let rto_min = Duration::from_millis(200);
    let path = PathConfig::default().rto_min(rto_min);
    let association = AssociationConfig::default().rto_min(rto_min).a_rwnd(5000);
    assert_eq!(
        association,
        AssociationConfig::default().path(path).a_rwnd(5000)
    );
    assert_eq!(association.path.rto_min, rto_min);
    let endpoint = EndpointConfig::default().rto_min(rto_min).a_rwnd(5000);
    assert_eq!(endpoint, EndpointConfig::default().association(association));
}
