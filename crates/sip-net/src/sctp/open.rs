//! How associations come up: accepted, or begun for a message that is to go out.

use std::pin::pin;
use std::sync::Arc;

use sctp_net::{ConnectError, ConnectTo};
use sip::Transport;
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::connections::{Connection, Outgoing};
use crate::incoming::{CloseReason, SendError};
use crate::listen::Listen;
use crate::shared::Shared;
use crate::tls::{TlsError, server_name};

use super::association::serve;
use super::secure::Role;
use super::stacks::SctpListener;

/// Accepts associations until everything stops.
pub(crate) async fn accept(shared: Arc<Shared>, listener: SctpListener) {
    let mut stopped = pin!(shared.tasks.stopped());
    loop {
        let accepted = tokio::select! {
            accepted = listener.endpoint.accept() => accepted,
            () = &mut stopped => return,
        };
        let Some(association) = accepted else {
            if !shared.tasks.is_stopping() {
                let listen = listener.configured.unwrap_or(Listen {
                    transport: listener.transport,
                    address: listener.address,
                });
                let reason = CloseReason::Failed("the SCTP port is closed".to_owned());
                shared.listener_failed(listen, &reason);
            }
            return;
        };
        let remote = association.peer();
        let counters = shared.counters(listener.transport);
        let role = match role_of_server(&shared, &listener) {
            Ok(role) => role,
            Err(error) => {
                counters.connections_refused.increment();
                tracing::debug!(%remote, %error, "association refused");
                association.abort(b"no certificate here");
                continue;
            }
        };
        let connections = &shared.connections;
        let accepted = match role {
            Some(_) => connections.accepted_unproved(listener.transport, remote),
            None => connections.accepted(listener.transport, remote),
        };
        match accepted {
            Ok((connection, queue)) => {
                counters.connections_accepted.increment();
                let task = serve(shared.clone(), connection, queue, association, role);
                shared.tasks.spawn(task);
            }
            Err(error) => {
                counters.connections_refused.increment();
                tracing::debug!(%remote, %error, "association refused");
                association.abort(b"too many associations");
            }
        }
    }
}

/// Begins an association and serves it until it ends.
pub(crate) async fn open(
    shared: Arc<Shared>,
    connection: Arc<Connection>,
    queue: mpsc::Receiver<Outgoing>,
    private: bool,
) {
    let remote = connection.remote;
    let transport = connection.transport;
    let role = match role_of_client(&shared, &connection) {
        Ok(role) => role,
        Err(error) => {
            let error = SendError::Tls(error.to_string());
            return shared.connect_failed(&connection, queue, error).await;
        }
    };
    let endpoint = shared
        .sctp
        .endpoint_toward(&shared, transport, remote, private);
    let endpoint = match endpoint {
        Ok(endpoint) => endpoint,
        Err(error) => {
            return shared
                .connect_failed(&connection, queue, error.into())
                .await;
        }
    };
    let connected = tokio::select! {
        connected = timeout(
            shared.config.limits.connect_timeout,
            endpoint.connect_to(target_of(&connection)),
        ) => connected.map_err(|_| SendError::ConnectTimeout).and_then(|up| up.map_err(connect_error)),
        () = shared.tasks.stopped() => Err(SendError::ShutDown),
        () = connection.close_requested() => Err(SendError::Gone),
    };
    match connected {
        Ok(association) => serve(shared, connection, queue, association, role).await,
        Err(error) => shared.connect_failed(&connection, queue, error).await,
    }
    if private {
        endpoint.close().await;
    }
}

/// What we are in the TLS of an association that a peer began; nothing where there is no TLS.
fn role_of_server(shared: &Shared, listener: &SctpListener) -> Result<Option<Role>, TlsError> {
    if listener.transport != Transport::TlsSctp {
        return Ok(None);
    }
    let listen = listener.configured.unwrap_or(Listen {
        transport: listener.transport,
        address: listener.address,
    });
    let config = shared.tls.server_config(listen)?;
    let handshakes = shared.sctp.handshakes.clone();
    Ok(Some(Role::Server(config, handshakes)))
}

/// What we are in the TLS of an association that we begin; nothing where there is no TLS.
fn role_of_client(shared: &Shared, connection: &Connection) -> Result<Option<Role>, TlsError> {
    if connection.transport != Transport::TlsSctp {
        return Ok(None);
    }
    let config = shared.tls.client_config(connection.transport)?;
    let name = server_name(connection.peer.as_deref(), connection.remote);
    Ok(Some(Role::Client(config, name)))
}

/// The addresses of the peer that are known beforehand, first the one that the connection is for.
fn target_of(connection: &Connection) -> ConnectTo {
    let remote = connection.remote;
    let mut addresses = vec![remote.ip()];
    for other in connection.peer_addresses() {
        // An association has one port for all its addresses.
        if other.port() == remote.port() && !addresses.contains(&other.ip()) {
            addresses.push(other.ip());
        }
    }
    addresses.truncate(MAXIMUM_ADDRESSES);
    ConnectTo {
        addresses,
        port: remote.port(),
        ..ConnectTo::default()
    }
}

/// How many addresses of a peer an association is begun with. It may tell of more.
const MAXIMUM_ADDRESSES: usize = 16;

fn connect_error(error: ConnectError) -> SendError {
    SendError::Sctp(error.to_string())
}
