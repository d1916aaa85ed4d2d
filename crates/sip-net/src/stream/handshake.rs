//! What is negotiated before messages can go over a connection: TLS, then WebSocket.

use std::io;
use std::sync::Arc;

use rustls::{ClientConnection, ServerConnection};
use sip::Transport;
use tokio::net::TcpStream;

use super::link::Link;
use super::octets::Octets;
use super::transport::StreamTransport;
use super::websocket;
use crate::connections::Connection;
use crate::incoming::SendError;
use crate::listen::Listen;
use crate::tls::{server_name, sip_domains};

/// A connection that messages can go over, and the names that the peer's certificate has shown.
pub(super) type Negotiated = (Link, Vec<Box<str>>);

/// Our part where a peer has opened the connection.
pub(super) async fn receive(
    streams: &StreamTransport,
    listen: Listen,
    socket: Arc<TcpStream>,
) -> io::Result<Negotiated> {
    let transport = listen.transport;
    let octets = match transport {
        Transport::Tls | Transport::Wss => {
            let config = streams
                .tls
                .server_config(listen)
                .map_err(io::Error::other)?;
            let session = ServerConnection::new(config).map_err(io::Error::other)?;
            Octets::negotiate(socket, session.into()).await?
        }
        _ => Octets::plain(socket),
    };
    let names = names(&octets);
    let link = match transport {
        Transport::Ws | Transport::Wss => {
            let socket = websocket::accept(octets, streams).await?;
            Link::websocket(socket)
        }
        _ => Link::stream(octets),
    };
    Ok((link, names))
}

/// Our part where we have opened the connection.
pub(super) async fn begin(
    streams: &StreamTransport,
    connection: &Connection,
    socket: Arc<TcpStream>,
) -> Result<Negotiated, SendError> {
    let (transport, remote) = (connection.transport, connection.remote);
    let name = server_name(connection.peer.as_deref(), remote);
    let octets = match transport {
        Transport::Tls | Transport::Wss => {
            let config = streams.tls.client_config(transport).await;
            let config = config.map_err(|error| SendError::Tls(error.to_string()))?;
            let session = ClientConnection::new(config, name.clone())
                .map_err(|error| SendError::Tls(error.to_string()))?;
            Octets::negotiate(socket, session.into())
                .await
                .map_err(tls_error)?
        }
        _ => Octets::plain(socket),
    };
    let names = names(&octets);
    if let Some(suite) = octets.cipher_suite() {
        streams.tls.note_cipher_suite(suite);
    }
    let link = match transport {
        Transport::Ws | Transport::Wss => {
            let host = name.to_str();
            websocket::connect(octets, &host, connection, streams)
                .await
                .map(Link::websocket)?
        }
        _ => Link::stream(octets),
    };
    Ok((link, names))
}

/// The SIP domains in the peer's certificate, if it has shown one.
fn names(octets: &Octets) -> Vec<Box<str>> {
    let certificate = octets.peer_certificates().first();
    certificate.map_or_else(Vec::new, sip_domains)
}

/// A peer that is not believed, or broke the rules, apart from a connection that failed.
fn tls_error(error: io::Error) -> SendError {
    match error.kind() {
        io::ErrorKind::InvalidData => SendError::Tls(error.to_string()),
        _ => error.into(),
    }
}
