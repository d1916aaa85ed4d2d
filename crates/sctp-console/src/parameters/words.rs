//! The values of parameters that are words: extensions, schedulers, what peers may ask for.

use sctp::packet::{ChunkType, HmacIdentifier};
use sctp::{
    UnknownBufferSplitting, UnknownCongestionControl, UnknownExtension, UnknownLossDetection,
    UnknownPathScheduler, UnknownStreamScheduler,
};
use sctp_net::{EndpointConfig, ErrorDetectionMethod, PrPolicy, ReConfigurationPolicy};

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

/// How losses are found.
pub(super) const LOSS_DETECTION: Words = Words {
    unit: "gap-reports|rack-tlp",
    set: |config, text| {
        let detection = text.parse();
        config.association.recovery.loss_detection =
            detection.map_err(|error: UnknownLossDetection| error.to_string())?;
        Ok(())
    },
    show: |config| config.association.recovery.loss_detection.to_string(),
};

/// The congestion controller.
pub(super) const CONGESTION_CONTROL: Words = Words {
    unit: "congestion controller",
    set: |config, text| {
        let control = text.parse();
        config.association.congestion_control =
            control.map_err(|error: UnknownCongestionControl| error.to_string())?;
        Ok(())
    },
    show: |config| config.association.congestion_control.to_string(),
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

/// The scheduler of paths.
pub(super) const PATH_SCHEDULER: Words = Words {
    unit: "path scheduler",
    set: |config, text| {
        let scheduler = text.parse();
        config.association.path_scheduler =
            scheduler.map_err(|error: UnknownPathScheduler| error.to_string())?;
        Ok(())
    },
    show: |config| config.association.path_scheduler.to_string(),
};

/// The buffers that paths share.
pub(super) const BUFFER_SPLITTING: Words = Words {
    unit: "none|send|receive|both",
    set: |config, text| {
        let splitting = text.parse();
        config.association.buffer_splitting =
            splitting.map_err(|error: UnknownBufferSplitting| error.to_string())?;
        Ok(())
    },
    show: |config| config.association.buffer_splitting.to_string(),
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

/// Chunk types that the peer has to authenticate.
pub(super) const AUTH_CHUNKS: Words = Words {
    unit: "chunk types|none",
    set: |config, text| {
        config.association.auth_chunks = match text {
            "none" => Vec::new(),
            names => parse_list(names, chunk_type_of)?,
        };
        Ok(())
    },
    show: |config| match &config.association.auth_chunks[..] {
        [] => "none".to_owned(),
        chunk_types => show_list(chunk_types, |chunk_type| name_of_chunk_type(*chunk_type)),
    },
};

/// HMAC algorithms that the peer may use.
pub(super) const HMAC_IDENTIFIERS: Words = Words {
    unit: "algorithms",
    set: |config, text| {
        config.association.hmac_identifiers = parse_list(text, |name| match name {
            SHA_1 => Ok(HmacIdentifier::SHA_1),
            SHA_256 => Ok(HmacIdentifier::SHA_256),
            _ => Err(format!(
                "{SHA_1} and {SHA_256} are expected, the preferred one first"
            )),
        })?;
        Ok(())
    },
    show: |config| {
        show_list(&config.association.hmac_identifiers, |identifier| {
            identifier.to_string().to_ascii_lowercase()
        })
    },
};

/// What protects packets in place of the checksum.
pub(super) const ALTERNATE_ERROR_DETECTION: Words = Words {
    unit: "none|dtls|tests",
    set: |config, text| {
        config.association.alternate_error_detection = match text {
            "none" => None,
            "dtls" => Some(ErrorDetectionMethod::Dtls),
            "tests" => Some(ErrorDetectionMethod::Tests),
            _ => return Err("none, dtls or tests is expected".to_owned()),
        };
        Ok(())
    },
    show: |config| match config.association.alternate_error_detection {
        None => "none".to_owned(),
        Some(method) => format!("{method:?}").to_ascii_lowercase(),
    },
};

const SHA_1: &str = "sha-1";
const SHA_256: &str = "sha-256";

fn parse_list<T>(text: &str, item: impl Fn(&str) -> Result<T, String>) -> Result<Vec<T>, String> {
    text.split(',').map(str::trim).map(item).collect()
}

fn show_list<T>(items: &[T], name: impl Fn(&T) -> String) -> String {
    let names: Vec<String> = items.iter().map(name).collect();
    names.join(",")
}

/// The chunk type of a name as [`name_of_chunk_type`] gives it, or of a number.
fn chunk_type_of(name: &str) -> Result<ChunkType, String> {
    (0..=u8::MAX)
        .map(ChunkType)
        .find(|chunk_type| {
            name_of_chunk_type(*chunk_type) == name || chunk_type.0.to_string() == name
        })
        .ok_or_else(|| "chunk types are expected, such as data,i-data,130, or none".to_owned())
}

/// The name of a known chunk type in one word; the number of another one.
fn name_of_chunk_type(chunk_type: ChunkType) -> String {
    let name = chunk_type.to_string();
    match name.strip_prefix("chunk type ") {
        Some(number) => number.to_owned(),
        None => name.to_ascii_lowercase().replace(' ', "-"),
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
