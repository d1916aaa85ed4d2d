//! Where log lines go and which.

use std::fmt;
use std::io::IsTerminal;

use ::proxy::config::{LogFormat, LogSettings};
use tracing_subscriber::EnvFilter;

/// Logs to standard error at this level (`warn`, `info`, `debug`, …), unless `TANDEM_LOG` says
/// otherwise in the syntax of `RUST_LOG` (`TANDEM_LOG=sip_net=debug`).
pub(crate) fn start(level: &'static str) {
    start_as(level, &LogSettings::default());
}

/// Logs as the settings say, which `TANDEM_LOG` wins over; `level` is for those that say nothing.
pub(crate) fn start_as(level: &'static str, settings: &LogSettings) -> LogHandle {
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter(level, settings))
        .with_writer(std::io::stderr)
        .with_target(false);
    // The handles are of different types, and do the same.
    match settings.format {
        LogFormat::Text => {
            let is_terminal = std::io::stderr().is_terminal();
            let builder = builder.with_ansi(is_terminal).with_filter_reloading();
            let handle = builder.reload_handle();
            builder.init();
            LogHandle::new(level, move |filter| handle.reload(filter).is_ok())
        }
        LogFormat::Json => {
            let builder = builder.json().with_filter_reloading();
            let handle = builder.reload_handle();
            builder.init();
            LogHandle::new(level, move |filter| handle.reload(filter).is_ok())
        }
    }
}

/// Changes what is logged.
pub(crate) struct LogHandle {
    level: &'static str,
    exchange: Box<dyn Fn(EnvFilter) -> bool + Send + Sync>,
}

impl LogHandle {
    fn new(
        level: &'static str,
        exchange: impl Fn(EnvFilter) -> bool + Send + Sync + 'static,
    ) -> LogHandle {
        LogHandle {
            level,
            exchange: Box::new(exchange),
        }
    }

    /// Logs what the settings say from now on.
    pub(crate) fn set(&self, settings: &LogSettings) {
        if !(self.exchange)(filter(self.level, settings)) {
            tracing::warn!("the log stays as it was");
        }
    }
}

impl fmt::Debug for LogHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogHandle")
            .field("level", &self.level)
            .finish()
    }
}

fn filter(level: &str, settings: &LogSettings) -> EnvFilter {
    EnvFilter::try_from_env("TANDEM_LOG")
        .or_else(|_| EnvFilter::try_new(settings.level.as_deref().unwrap_or(level)))
        .unwrap_or_else(|_| EnvFilter::new(level))
}
