//! Connections that we open.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::TcpSocket;
use tokio::time::timeout;

use super::handshake::{Negotiated, begin};
use super::transport::{StreamTransport, prepare};
use crate::connections::Connection;
use crate::incoming::SendError;
use crate::outbound::Outbound;

impl StreamTransport {
    /// Opens a connection and serves it until it ends.
    pub(crate) async fn open(
        self: Arc<Self>,
        outbound: Arc<Outbound>,
        connection: Arc<Connection>,
    ) {
        let limit = self.limits.connect_timeout;
        let connected = tokio::select! {
            connected = timeout(limit, self.connect(&connection)) => {
                connected.unwrap_or(Err(SendError::ConnectTimeout))
            }
            () = self.tasks.stopped() => Err(SendError::ShutDown),
            _ = connection.close_requested() => Err(SendError::Gone),
        };
        match connected {
            Ok((link, names)) => {
                let counters = self.log.counters(connection.transport);
                counters.connections_opened.increment();
                if !names.is_empty() && self.tls.verifies_servers() {
                    outbound.report_names(&connection, names).await;
                }
                self.serve(outbound, connection, link).await;
            }
            Err(error) => outbound.connect_failed(&connection, &error),
        }
    }

    async fn connect(&self, connection: &Connection) -> Result<Negotiated, SendError> {
        let socket = self.socket_toward(connection)?;
        let stream = socket.connect(connection.remote).await?;
        prepare(&stream);
        let socket = Arc::new(stream);
        connection.counted_by(socket.clone());
        begin(self, connection, socket).await
    }

    /// A socket with the address of the listener that suits the peer best, where that is a specific one:
    /// what the peer is told of us (Via, Record-Route) and what it sees are the same, and so do firewalls.
    fn socket_toward(&self, connection: &Connection) -> io::Result<TcpSocket> {
        let remote = connection.remote;
        let socket = match remote {
            SocketAddr::V4(_) => TcpSocket::new_v4()?,
            SocketAddr::V6(_) => TcpSocket::new_v6()?,
        };
        let listeners = self.listeners.iter();
        let listeners = listeners
            .filter(|listen| listen.transport == connection.transport)
            .map(|listen| (listen.address, listen));
        if let Some((mut local, _)) = self.routes.choose(remote, listeners)
            && !local.ip().is_unspecified()
            // From one the other cannot be reached.
            && local.ip().is_loopback() == remote.ip().is_loopback()
        {
            local.set_port(0);
            socket.bind(local)?;
        }
        Ok(socket)
    }
}
