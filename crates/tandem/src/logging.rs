//! Where log lines go and which.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

/// Logs to standard error at this level (`warn`, `info`, `debug`, …), unless `TANDEM_LOG` says
/// otherwise in the syntax of `RUST_LOG` (`TANDEM_LOG=sip_net=debug`).
pub(crate) fn start(level: &str) {
    let filter = EnvFilter::try_from_env("TANDEM_LOG").unwrap_or_else(|_| EnvFilter::new(level));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false)
        .init();
}
