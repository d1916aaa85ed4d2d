//! Every message arrives once and in order, whatever the network does, with everything on.

use proptest::prelude::*;
use rand::SeedableRng;
use rand_chacha::ChaCha12Rng;

use super::*;

#[derive(Debug, Clone)]
struct Faults {
    seed: u64,
    loss: f64,
    duplicates: f64,
    jitter: u32,
    networks: u8,
    /// The first network fails when so many messages have arrived.
    cut_at: Option<usize>,
    bytes: usize,
}

fn faults() -> impl Strategy<Value = Faults> {
    (
        any::<u64>(),
        0.0..0.3,
        0.0..0.2,
        0u32..40,
        1u8..3,
        proptest::option::of(0usize..60),
        prop::sample::select(vec![60usize, 500, 1400, 4000]),
    )
        .prop_map(
            |(seed, loss, duplicates, jitter, networks, cut_at, bytes)| Faults {
                seed,
                loss,
                duplicates,
                jitter,
                networks,
                cut_at: cut_at.filter(|_| networks > 1),
                bytes,
            },
        )
}

fn run(faults: &Faults, config: EndpointConfig) {
    let config = config.association_max_retrans(1000).path_max_retrans(1000);
    let mut network = established(faults.networks, config);
    network.rng = ChaCha12Rng::seed_from_u64(faults.seed);
    network.loss = faults.loss;
    network.duplicates = faults.duplicates;
    network.jitter = faults.jitter * MILLISECOND;
    let cut_at = faults.cut_at;
    network.transfer(80, faults.bytes, cut_at.unwrap_or(usize::MAX), |network| {
        network.cut(0);
    });
    network.loss = 0.0;
    network.run_for(200_000 * MILLISECOND);
    let status = network.status(CLIENT);
    assert_eq!(status.unacknowledged_chunks, 0);
    assert_eq!(status.outstanding_bytes, 0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn every_message_arrives_once_and_in_order(faults in faults()) {
        run(&faults, plain().profile(sctp::Profile::Signalling));
    }

    #[test]
    fn and_with_gap_reports_and_all_else(faults in faults()) {
        let config = plain()
            .early_retransmit(true)
            .f_rto(true)
            .rto_restart(true)
            .thin_linear_timeouts(true)
            .thin_alternate_path(true);
        run(&faults, config);
    }
}
