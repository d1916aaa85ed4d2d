//! Files that change are read again.

use std::sync::Arc;

use tokio::task::spawn_blocking;
use tokio::time::sleep;

use super::Tls;
use crate::tasks::Tasks;

/// Looks at the files of TLS now and then until everything stops.
pub(crate) async fn watch(tls: Arc<Tls>, tasks: Arc<Tasks>) {
    let interval = tls.reload_interval();
    if interval.is_zero() {
        return;
    }
    loop {
        tokio::select! {
            () = sleep(interval) => {}
            () = tasks.stopped() => return,
        }
        let looking = tls.clone();
        match spawn_blocking(move || looking.reload_changed()).await {
            Ok(Ok(false)) => {}
            Ok(Ok(true)) => tracing::info!("certificates were read again"),
            Ok(Err(error)) => tracing::error!(%error, "the certificates in use stay"),
            // Its runtime is about to end.
            Err(_) => return,
        }
    }
}
