//! Connections that we open.

use std::sync::Arc;

use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::handshake::{Negotiated, begin};
use super::serve;
use crate::connections::{Connection, Outgoing};
use crate::incoming::SendError;
use crate::shared::Shared;

/// Opens a connection and serves it until it ends.
pub(crate) async fn open(
    shared: Arc<Shared>,
    connection: Arc<Connection>,
    queue: mpsc::Receiver<Outgoing>,
) {
    let limit = shared.config.limits.connect_timeout;
    let connected = tokio::select! {
        connected = timeout(limit, connect(&shared, &connection)) => {
            connected.unwrap_or(Err(SendError::ConnectTimeout))
        }
        () = shared.tasks.stopped() => Err(SendError::ShutDown),
        () = connection.close_requested() => Err(SendError::Gone),
    };
    match connected {
        Ok((link, names)) => {
            shared
                .counters(connection.transport)
                .connections_opened
                .increment();
            if !names.is_empty() {
                shared.identified(&connection, names).await;
            }
            serve(shared, connection, queue, link).await;
        }
        Err(error) => shared.connect_failed(&connection, queue, error).await,
    }
}

async fn connect(shared: &Shared, connection: &Connection) -> Result<Negotiated, SendError> {
    let stream = TcpStream::connect(connection.remote).await?;
    // It fails only on a connection that has ended already, which reading will tell.
    let _ = stream.set_nodelay(true);
    let socket = Arc::new(stream);
    connection.counted_by(socket.clone());
    begin(shared, connection, socket).await
}
