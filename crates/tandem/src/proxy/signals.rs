//! The signals that an operator, or a service manager, sends.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// What the server is asked for by a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// SIGTERM: take nothing new, and end when what is under way is done.
    Drain,
    /// SIGINT: end.
    End,
    /// SIGHUP: read the files anew.
    Reload,
}

/// The handlers of the signals.
#[derive(Debug)]
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

impl Signals {
    pub(super) fn new() -> io::Result<Signals> {
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    /// The next one.
    pub(super) async fn next(&mut self) -> Asked {
        tokio::select! {
            _ = self.terminate.recv() => Asked::Drain,
            _ = self.interrupt.recv() => Asked::End,
            _ = self.hang_up.recv() => Asked::Reload,
        }
    }

    /// The next one by which an operator who has asked for an end asks again.
    pub(super) async fn next_end(&mut self) {
        while self.next().await == Asked::Reload {}
    }
}
