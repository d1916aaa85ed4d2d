//! The experiments, a file each, and the list of them.

mod bandwidth_share;
mod calls_during_path_failure;
mod calls_through_two_proxies;
mod calls_under_loss;
mod failover;
mod fairness;
mod flood;
mod handshake;
mod head_of_line;
mod heartbeat;
mod losses_by_region;
mod multipath;
mod server_under_load;
mod signalling_gateway;
mod single_session;
mod streams_or_associations;
mod throughput_by_delay;
mod throughput_by_round_trip;
mod throughput_by_size;
mod transfers;
mod wireless;

use crate::experiment::Experiment;

/// All experiments, in the order in which they are listed and run.
pub fn all() -> &'static [&'static dyn Experiment] {
    ALL
}

/// The experiment of that name.
pub fn by_name(name: &str) -> Option<&'static dyn Experiment> {
    ALL.iter()
        .copied()
        .find(|experiment| experiment.name() == name)
}

static ALL: &[&dyn Experiment] = &[
    &throughput_by_size::ThroughputBySize,
    &throughput_by_delay::ThroughputByDelay,
    &fairness::Fairness,
    &bandwidth_share::BandwidthShare,
    &failover::Failover,
    &heartbeat::Heartbeat,
    &head_of_line::HeadOfLine,
    &handshake::Handshake,
    &transfers::Transfers,
    &streams_or_associations::StreamsOrAssociations,
    &flood::Flood,
    &calls_through_two_proxies::CallsThroughTwoProxies,
    &calls_during_path_failure::CallsDuringPathFailure,
    &wireless::Wireless,
    &single_session::SingleSession,
    &calls_under_loss::CallsUnderLoss,
    &losses_by_region::LossesByRegion,
    &multipath::Multipath,
    &throughput_by_round_trip::ThroughputByRoundTrip,
    &server_under_load::ServerUnderLoad,
    &signalling_gateway::SignallingGateway,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_words_of_the_command_line_and_found() {
        for (index, experiment) in all().iter().enumerate() {
            let name = experiment.name();
            assert!(
                name.chars()
                    .all(|character| character.is_ascii_lowercase() || character == '-'),
                "{name}"
            );
            assert!(by_name(name).is_some());
            assert!(
                all()[..index].iter().all(|other| other.name() != name),
                "{name} is there twice"
            );
            assert!(!experiment.on().is_empty(), "{name} runs nowhere");
        }
        assert!(by_name("no-such-experiment").is_none());
    }
}
