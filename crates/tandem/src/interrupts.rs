//! Ctrl-C and SIGTERM: they end a measurement early, and what was measured until then is shown and written.

use std::io;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use tokio::signal::unix::{SignalKind, signal};

/// As shells have it for programs that Ctrl-C ends.
const STATUS: u8 = 130;

/// The exit status of a command that was interrupted.
pub(crate) fn exit_code() -> ExitCode {
    ExitCode::from(STATUS)
}

/// Waits for the first of the signals.
pub(crate) async fn first() -> io::Result<()> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    Ok(())
}

/// A flag that the first signal sets, for work that is not asynchronous. The second one ends the program at once.
pub(crate) fn flag() -> Arc<AtomicBool> {
    let interrupted = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&interrupted);
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let ended = runtime.block_on(async {
            first().await?;
            flag.store(true, Ordering::Relaxed);
            first().await
        });
        if ended.is_ok() {
            std::process::exit(STATUS.into());
        }
        ended
    });
    interrupted
}
