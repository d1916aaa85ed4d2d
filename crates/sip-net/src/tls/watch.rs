//! Files that change are read again.

use std::sync::Arc;

use tokio::task::spawn_blocking;
use tokio::time::sleep;

use crate::shared::Shared;

/// Looks at the files of TLS now and then until everything stops.
pub(crate) async fn watch(shared: Arc<Shared>) {
    let interval = shared.tls.reload_interval();
    if interval.is_zero() {
        return;
    }
    loop {
        tokio::select! {
            () = sleep(interval) => {}
            () = shared.tasks.stopped() => return,
        }
        let looking = shared.clone();
        match spawn_blocking(move || looking.tls.reload_changed()).await {
            Ok(Ok(false)) => {}
            Ok(Ok(true)) => tracing::info!("certificates were read again"),
            Ok(Err(error)) => tracing::error!(%error, "the certificates in use stay"),
            // Its runtime is about to end.
            Err(_) => return,
        }
    }
}
