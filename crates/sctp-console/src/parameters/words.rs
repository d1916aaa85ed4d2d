//! The values of parameters that are words: extensions, schedulers, what peers may ask for.

use sctp::{UnknownExtension, UnknownStreamScheduler};
use sctp_net::{EndpointConfig, PrPolicy, ReConfigurationPolicy};

use super::value::{Words, parse_time, show_time};

/// Extensions that are offered.
pub(super) const EXTENSIONS: Words = Words {
    unit: "names|all|none",
    set: |config, text| {
        let extensions = text.parse();
        config.association.extensions =
            extensions.map_err(|error: UnknownExtension| error.to_string())?;
        Ok(())
    },
    show: |config| config.association.extensions.to_string(),
};

/// When messages that do not say so themselves are given up.
pub(super) const DEFAULT_PR_POLICY: Words = Words {
    unit: "none|timed:TIME|rtx:N|prio:N",
    set: |config, text| {
        config.association.default_pr_policy = parse_pr_policy(text)?;
        Ok(())
    },
    show: |config| match config.association.default_pr_policy {
        PrPolicy::Reliable => "none".to_owned(),
        PrPolicy::Timed(time) => format!("timed:{}", show_time(time)),
        PrPolicy::LimitedRetransmissions(times) => format!("rtx:{times}"),
        PrPolicy::Priority(priority) => format!("prio:{priority}"),
    },
};

/// The scheduler of streams.
pub(super) const STREAM_SCHEDULER: Words = Words {
    unit: "name",
    set: |config, text| {
        let scheduler = text.parse();
        config.association.stream_scheduler =
            scheduler.map_err(|error: UnknownStreamScheduler| error.to_string())?;
        Ok(())
    },
    show: |config| config.association.stream_scheduler.to_string(),
};

/// Which requests of the peer for streams are granted.
pub(super) const RE_CONFIGURATION_POLICY: Words = Words {
    unit: "names|all|none",
    set: |config, text| {
        config.association.re_configuration_policy = parse_policy(text)?;
        Ok(())
    },
    show: show_policy,
};

fn parse_pr_policy(text: &str) -> Result<PrPolicy, String> {
    let expected = || "none, timed:200ms, rtx:2 or prio:5 is expected".to_owned();
    let number = |text: &str| text.parse().map_err(|_| expected());
    match text.split_once(':') {
        None if text == "none" => Ok(PrPolicy::Reliable),
        Some(("timed", time)) => Ok(PrPolicy::Timed(parse_time(time)?)),
        Some(("rtx", times)) => Ok(PrPolicy::LimitedRetransmissions(number(times)?)),
        Some(("prio", priority)) => Ok(PrPolicy::Priority(number(priority)?)),
        _ => Err(expected()),
    }
}

const RESET_STREAMS: &str = "reset-streams";
const RESET_ASSOCIATION: &str = "reset-association";
const ADD_STREAMS: &str = "add-streams";

fn parse_policy(text: &str) -> Result<ReConfigurationPolicy, String> {
    let mut policy = ReConfigurationPolicy::default();
    for name in text.split(',').map(str::trim) {
        match name {
            RESET_STREAMS => policy.reset_streams = true,
            RESET_ASSOCIATION => policy.reset_association = true,
            ADD_STREAMS => policy.add_streams = true,
            "all" => policy = ReConfigurationPolicy::GRANT_ALL,
            "none" => {}
            _ => {
                let names = [RESET_STREAMS, RESET_ASSOCIATION, ADD_STREAMS].join(", ");
                return Err(format!("{names}, all or none is expected"));
            }
        }
    }
    Ok(policy)
}

fn show_policy(config: &EndpointConfig) -> String {
    let policy = config.association.re_configuration_policy;
    let names: Vec<&str> = [
        (policy.reset_streams, RESET_STREAMS),
        (policy.reset_association, RESET_ASSOCIATION),
        (policy.add_streams, ADD_STREAMS),
    ]
    .into_iter()
    .filter_map(|(is_granted, name)| is_granted.then_some(name))
    .collect();
    if names.is_empty() {
        "none".to_owned()
    } else {
        names.join(",")
    }
}
