//! Connections that we open.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::TcpSocket;
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
        _ = connection.close_requested() => Err(SendError::Gone),
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
    let stream = socket_toward(shared, connection)?
        .connect(connection.remote)
        .await?;
    // It fails only on a connection that has ended already, which reading will tell.
    let _ = stream.set_nodelay(true);
    let socket = Arc::new(stream);
    connection.counted_by(socket.clone());
    begin(shared, connection, socket).await
}

/// A socket with the address of the listener that suits the peer best, where that is a specific one:
/// what the peer is told of us (Via, Record-Route) and what it sees are the same, and so do firewalls.
fn socket_toward(shared: &Shared, connection: &Connection) -> io::Result<TcpSocket> {
    let remote = connection.remote;
    let socket = match remote {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    let listeners = shared.config.listeners.iter();
    let listeners = listeners
        .filter(|listen| listen.transport == connection.transport)
        .map(|listen| (listen.address, listen));
    if let Some((mut local, _)) = shared.routes.choose(remote, listeners)
        && !local.ip().is_unspecified()
        // From one the other cannot be reached.
        && local.ip().is_loopback() == remote.ip().is_loopback()
    {
        local.set_port(0);
        socket.bind(local)?;
    }
    Ok(socket)
}
