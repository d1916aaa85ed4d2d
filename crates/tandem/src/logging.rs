//! Where log lines go and which.

use std::fmt;

use crate::output_style::{has_colors, is_quiet};
use crate::terminal::complain;
use ::proxy::config::{LOG_LEVELS, LogFormat, LogSettings, is_log_level};
use tracing_appender::non_blocking::{ErrorCounter, NonBlocking, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::EnvFilter;

/// How many lines may wait for a standard error that takes none.
const MAXIMUM_WAITING: usize = 16_384;

/// Logs to standard error at this level (`warn`, `info`, `debug`, …), unless `TANDEM_LOG` says
/// otherwise in the syntax of `RUST_LOG` (`TANDEM_LOG=sip_net=debug`).
pub(crate) fn start(level: &'static str) {
    let settings = LogSettings::default();
    tracing_subscriber::fmt()
        .with_env_filter(filter(None, level, &settings))
        .with_writer(std::io::stderr)
        .with_target(false)
        .with_ansi(has_colors())
        .init();
    complain_about_variable();
}

/// Logs as the settings say, which `TANDEM_LOG` wins over, and a level that was given as an option over both.
///
/// A thread of its own writes, so that whoever reads the log slowly holds up nothing else: lines that find too many
/// waiting are dropped and counted. What waits is written when the guard is dropped.
pub(crate) fn start_in_background(
    option: Option<&'static str>,
    settings: &LogSettings,
) -> (LogHandle, LogGuard) {
    let (writer, worker): (NonBlocking, WorkerGuard) = NonBlockingBuilder::default()
        .lossy(true)
        .buffered_lines_limit(MAXIMUM_WAITING)
        .thread_name("log")
        .finish(std::io::stderr());
    let guard = LogGuard {
        dropped: writer.error_counter(),
        worker: Some(worker),
    };
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter(option, DEFAULT, settings))
        .with_writer(writer)
        .with_target(false);
    // The handles are of different types, and do the same.
    let handle = match settings.format {
        LogFormat::Text => {
            let builder = builder.with_ansi(has_colors()).with_filter_reloading();
            let handle = builder.reload_handle();
            builder.init();
            LogHandle::new(option, move |filter| handle.reload(filter).is_ok())
        }
        LogFormat::Json => {
            let builder = builder.json().with_filter_reloading();
            let handle = builder.reload_handle();
            builder.init();
            LogHandle::new(option, move |filter| handle.reload(filter).is_ok())
        }
    };
    complain_about_variable();
    (handle, guard)
}

/// Keeps the thread that writes the log. At its end what waits is written, and what was dropped is told.
pub(crate) struct LogGuard {
    dropped: ErrorCounter,
    worker: Option<WorkerGuard>,
}

impl Drop for LogGuard {
    fn drop(&mut self) {
        drop(self.worker.take());
        let dropped = self.dropped.dropped_lines();
        if dropped > 0 {
            complain!("tandem: {dropped} lines of the log were dropped: their reader was too slow");
        }
    }
}

impl fmt::Debug for LogGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogGuard")
            .field("dropped", &self.dropped.dropped_lines())
            .finish()
    }
}

/// Changes what is logged.
pub(crate) struct LogHandle {
    option: Option<&'static str>,
    exchange: Box<dyn Fn(EnvFilter) -> bool + Send + Sync>,
}

impl LogHandle {
    fn new(
        option: Option<&'static str>,
        exchange: impl Fn(EnvFilter) -> bool + Send + Sync + 'static,
    ) -> LogHandle {
        LogHandle {
            option,
            exchange: Box::new(exchange),
        }
    }

    /// Logs what the settings say from now on.
    pub(crate) fn set(&self, settings: &LogSettings) {
        if !(self.exchange)(filter(self.option, DEFAULT, settings)) {
            tracing::warn!("the log stays as it was");
        }
    }
}

impl fmt::Debug for LogHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogHandle")
            .field("option", &self.option)
            .finish()
    }
}

const VARIABLE: &str = "TANDEM_LOG";

/// What a server logs of which nothing else is said: a line for each registration and call.
const DEFAULT: &str = "info";

fn filter(option: Option<&str>, level: &str, settings: &LogSettings) -> EnvFilter {
    let variable = std::env::var(VARIABLE).ok();
    let level = if is_quiet() { "error" } else { level };
    let wanted = choose(option, variable.as_deref(), settings).unwrap_or(level);
    EnvFilter::try_new(wanted).unwrap_or_else(|_| EnvFilter::new(level))
}

/// Options win over the environment, and both over the file.
fn choose<'a>(
    option: Option<&'a str>,
    variable: Option<&'a str>,
    settings: &'a LogSettings,
) -> Option<&'a str> {
    option
        .or(variable.filter(|text| is_log_level(text)))
        .or(settings.level.as_deref())
}

/// A variable that makes no sense is left aside, not left unsaid.
fn complain_about_variable() {
    if let Some(value) = std::env::var_os(VARIABLE)
        && !value.to_str().is_some_and(is_log_level)
    {
        complain!(
            "tandem: {VARIABLE} is ignored: {value:?} is not a level; levels are {LOG_LEVELS}"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_win_over_the_environment_and_both_over_the_file() {
        let mut settings = LogSettings::default();
        assert_eq!(choose(None, None, &settings), None);
        settings.level = Some("warn".to_owned());
        assert_eq!(choose(None, None, &settings), Some("warn"));
        let variable = Some("sip_net=debug");
        assert_eq!(choose(None, variable, &settings), variable);
        assert_eq!(choose(None, Some("no=such=level"), &settings), Some("warn"));
        assert_eq!(choose(Some("debug"), variable, &settings), Some("debug"));
    }
}
