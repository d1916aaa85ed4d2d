//! A process that runs a network until it is told to stop.

use std::io;
use std::sync::Arc;

use tokio::net::UnixListener;
use tokio::signal::unix::{SignalKind, signal};

use crate::control::{Control, Description, serve};
use crate::state::{Directory, StateError};
use crate::testbed::{Testbed, UpError};
use crate::{Topology, Unavailable, become_root};

/// A network could not be run.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// This process may not.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// The name cannot be had.
    #[error(transparent)]
    State(#[from] StateError),
    /// It cannot be brought up.
    #[error(transparent)]
    Up(#[from] UpError),
    /// It cannot be controlled.
    #[error("cannot open the control socket of the network: {0}")]
    Control(io::Error),
}

/// Leaves the terminal and the directory that this process was started from.
pub fn detach() {
    // It fails for who leads a group: one that a shell has started.
    let _ = nix::unistd::setsid();
    let _ = std::env::set_current_dir("/");
}

/// Runs a network until SIGTERM, SIGINT or [`Down`](crate::control::Request::Down); calls `ready` when it is up. The
/// calling process must have a single thread.
///
/// # Errors
///
/// It cannot be brought up; the text says what to do.
pub fn run(
    topology: &Topology,
    name: &str,
    seed: u64,
    ready: impl FnOnce(&Description),
) -> Result<(), DaemonError> {
    // The user who asked for it is who may control it, also when this process becomes root somewhere.
    let directory = Directory::of_user()?;
    let place = directory.take(name)?;
    become_root()?;
    let control_path = place.control();
    let testbed = Testbed::up_at(topology, name, seed, place)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(DaemonError::Control)?;
    runtime.block_on(async {
        let listener = UnixListener::bind(control_path).map_err(DaemonError::Control)?;
        let description = testbed.description();
        let emulator = Arc::clone(testbed.emulator());
        let control = Control::new(emulator, description.clone());
        let control = Arc::new(control);
        let mut terminate = signal(SignalKind::terminate()).map_err(DaemonError::Control)?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(DaemonError::Control)?;
        ready(&description);
        tokio::select! {
            () = serve(listener, Arc::clone(&control)) => {}
            () = control.down_requested() => {}
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        Ok::<(), DaemonError>(())
    })?;
    testbed.down();
    Ok(())
}
