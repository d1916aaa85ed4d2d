//! Signals that ask for an end.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Those that mean `q`: SIPp ends softly on SIGUSR1, too.
pub(super) fn ending_signals() -> io::Result<[Signal; 3]> {
    Ok([
        signal(SignalKind::interrupt())?,
        signal(SignalKind::terminate())?,
        signal(SignalKind::user_defined1())?,
    ])
}

/// Waits for one of them; `false` where none can come any more.
pub(super) async fn next_signal(signals: &mut [Signal; 3]) -> bool {
    let [interrupt, terminate, user] = signals;
    let received = tokio::select! {
        received = interrupt.recv() => received,
        received = terminate.recv() => received,
        received = user.recv() => received,
    };
    received.is_some()
}
