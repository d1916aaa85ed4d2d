//! How an operator watches and ends the server: `[metrics]`, `[records]`, `[log]`, `[shutdown]`.

use std::net::SocketAddr;
use std::time::Duration;

use super::reader::Section;
use crate::records::RecordsSettings;

/// Where the counters can be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MetricsSettings {
    /// The address of the HTTP listener; `None` opens none.
    pub listen: Option<SocketAddr>,
    /// The names by which it may be asked (`Host`), beside addresses and `localhost`.
    pub hosts: Vec<String>,
}

/// What is logged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogSettings {
    /// How much, as `TANDEM_LOG` has it: `warn`, `info`, `debug`, `sip_net=debug`, ...; `None` leaves it
    /// to the command line.
    pub level: Option<String>,
    /// How a line is written.
    pub format: LogFormat,
}

/// How a line of the log is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// A JSON object a line.
    Json,
}

/// How the server ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShutdownSettings {
    /// How long transactions may take to end after SIGTERM.
    pub drain: Duration,
    /// How long connections and associations may take to close after that.
    pub close: Duration,
}

impl Default for ShutdownSettings {
    fn default() -> ShutdownSettings {
        ShutdownSettings {
            // An INVITE transaction that has its answer lingers for 32 s (64*T1, RFC 3261 section
            // 17.2.1 and RFC 6026 section 7.1).
            drain: Duration::from_secs(40),
            close: Duration::from_secs(5),
        }
    }
}

pub(super) fn metrics(file: &Section<'_, '_>) -> MetricsSettings {
    file.section("metrics", |section| MetricsSettings {
        listen: section.optional("listen"),
        hosts: section.get("hosts", Vec::new()),
    })
}

pub(super) fn records(file: &Section<'_, '_>) -> RecordsSettings {
    let default = RecordsSettings::default();
    file.section("records", |section| RecordsSettings {
        file: section.optional("file"),
        maximum_octets: section.within(
            "maximum_octets",
            default.maximum_octets,
            4096..,
            "4096 or more",
        ),
        kept_files: section.get("kept_files", default.kept_files),
        queue: section.within("queue", default.queue, 1.., "1 or more"),
        maximum_calls: section.get("maximum_calls", default.maximum_calls),
        maximum_duration: section.get("maximum_duration", default.maximum_duration),
    })
}

/// What a level of the log may be.
pub const LOG_LEVELS: &str = "off, error, warn, info, debug or trace, or TARGET=LEVEL such as sip_net=debug; several by commas";

/// Whether a text is a level of the log. A filter takes any other word for a target of which everything is
/// logged, and nothing of all else.
pub fn is_log_level(text: &str) -> bool {
    let is_level =
        |word: &str| ["off", "error", "warn", "info", "debug", "trace"].contains(&word.trim());
    text.split(',').all(|part| match part.split_once('=') {
        Some((target, level)) => {
            let mut target = target.trim().chars();
            target.all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | ':'))
                && !part.starts_with('=')
                && is_level(level)
        }
        None => is_level(part),
    })
}

pub(super) fn log(file: &Section<'_, '_>) -> LogSettings {
    file.section("log", |section| LogSettings {
        level: section.live(|| {
            let level = section.optional("level");
            level.filter(|level: &String| {
                let is_level = is_log_level(level);
                if !is_level {
                    section.refuse("level", LOG_LEVELS);
                }
                is_level
            })
        }),
        format: section.one_of(
            "format",
            LogFormat::Text,
            &[("text", LogFormat::Text), ("json", LogFormat::Json)],
        ),
    })
}

pub(super) fn shutdown(file: &Section<'_, '_>) -> ShutdownSettings {
    let default = ShutdownSettings::default();
    file.section("shutdown", |section| ShutdownSettings {
        drain: section.get("drain", default.drain),
        close: section.get("close", default.close),
    })
}
