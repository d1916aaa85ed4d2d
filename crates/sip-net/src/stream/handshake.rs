//! What is negotiated before messages can go over a connection: TLS, then WebSocket.

use std::io;
use std::sync::Arc;

use rustls::{ClientConnection, ServerConnection};
use sip::Transport;
use tokio::net::TcpStream;

use super::link::Link;
use super::octets::Octets;
use super::websocket;
use crate::connections::Connection;
use crate::incoming::SendError;
use crate::listen::Listen;
use crate::shared::Shared;
use crate::tls::{server_name, sip_domains};

/// Our part where a peer has opened the connection.
pub(super) async fn receive(
    shared: &Shared,
    listen: Listen,
    socket: Arc<TcpStream>,
) -> io::Result<Link> {
    let transport = listen.transport;
    let octets = match transport {
        Transport::Tls | Transport::Wss => {
            let config = shared.tls.server_config(listen).map_err(io::Error::other)?;
            let session = ServerConnection::new(config).map_err(io::Error::other)?;
            let octets = Octets::negotiate(socket, session.into()).await?;
            // What a policy could go by (RFC 5922 section 7.4).
            if let Some(certificate) = octets.peer_certificates().first() {
                let domains = sip_domains(certificate);
                tracing::debug!(%listen, ?domains, "client certificate");
            }
            octets
        }
        _ => Octets::plain(socket),
    };
    match transport {
        Transport::Ws | Transport::Wss => {
            let socket = websocket::accept(octets, &shared.config).await?;
            Ok(Link::websocket(socket))
        }
        _ => Ok(Link::stream(octets)),
    }
}

/// Our part where we have opened the connection.
pub(super) async fn begin(
    shared: &Shared,
    connection: &Connection,
    socket: Arc<TcpStream>,
) -> Result<Link, SendError> {
    let (transport, remote) = (connection.transport, connection.remote);
    let name = server_name(connection.peer.as_deref(), remote);
    let octets = match transport {
        Transport::Tls | Transport::Wss => {
            let config = shared.tls.client_config(transport);
            let config = config.map_err(|error| SendError::Tls(error.to_string()))?;
            let session = ClientConnection::new(config, name.clone())
                .map_err(|error| SendError::Tls(error.to_string()))?;
            Octets::negotiate(socket, session.into())
                .await
                .map_err(tls_error)?
        }
        _ => Octets::plain(socket),
    };
    match transport {
        Transport::Ws | Transport::Wss => {
            let host = name.to_str();
            websocket::connect(octets, &host, connection, &shared.config)
                .await
                .map(Link::websocket)
        }
        _ => Ok(Link::stream(octets)),
    }
}

/// A peer that is not believed, or broke the rules, apart from a connection that failed.
fn tls_error(error: io::Error) -> SendError {
    match error.kind() {
        io::ErrorKind::InvalidData => SendError::Tls(error.to_string()),
        _ => error.into(),
    }
}
