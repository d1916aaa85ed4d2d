//! How associations come up: accepted, or begun for a message that is to go out.

use std::pin::pin;
use std::sync::Arc;

use sctp_net::{Association, ConnectError, ConnectTo, Endpoint};
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
    let role = match role_of_client(&shared, &connection).await {
        Ok(role) => role,
        Err(error) => {
            let error = SendError::Tls(error.to_string());
            return shared.connect_failed(&connection, queue, error).await;
        }
    };
    match begin(&shared, &connection, private).await {
        Ok((association, own_endpoint)) => {
            serve(shared, connection, queue, association, role).await;
            if let Some(endpoint) = own_endpoint {
                endpoint.close().await;
            }
        }
        Err(error) => shared.connect_failed(&connection, queue, error).await,
    }
}

/// Begins an association; from an SCTP port of its own, which comes with it, where it is private or
/// the port for all has one with the peer already: to another name that shares the address, or by
/// another address of the peer, told of at the same time.
async fn begin(
    shared: &Arc<Shared>,
    connection: &Connection,
    private: bool,
) -> Result<(Association, Option<Endpoint>), SendError> {
    if !private {
        match connect(shared, connection, false).await {
            Ok((association, _)) => return Ok((association, None)),
            Err(Failed::AlreadyAssociated) => {}
            Err(Failed::Otherwise(error)) => return Err(error),
        }
    }
    match connect(shared, connection, true).await {
        Ok((association, endpoint)) => Ok((association, Some(endpoint))),
        Err(Failed::Otherwise(error)) => Err(error),
        Err(Failed::AlreadyAssociated) => {
            Err(SendError::Sctp("associated with the peer already".into()))
        }
    }
}

/// Why there is no association.
enum Failed {
    /// The SCTP port has one with the peer.
    AlreadyAssociated,
    Otherwise(SendError),
}

async fn connect(
    shared: &Arc<Shared>,
    connection: &Connection,
    private: bool,
) -> Result<(Association, Endpoint), Failed> {
    let endpoint = shared
        .sctp
        .endpoint_toward(shared, connection.transport, connection.remote, private)
        .map_err(|error| Failed::Otherwise(error.into()))?;
    let limit = shared.config.limits.connect_timeout;
    let error = tokio::select! {
        connected = timeout(limit, endpoint.connect_to(target_of(connection))) => match connected {
            Ok(Ok(association)) => return Ok((association, endpoint)),
            Ok(Err(ConnectError::Refused {
                error: sctp::ConnectError::AlreadyAssociated,
                ..
            })) => return Err(Failed::AlreadyAssociated),
            Ok(Err(error)) => SendError::Sctp(error.to_string()),
            Err(_) => SendError::ConnectTimeout,
        },
        () = shared.tasks.stopped() => SendError::ShutDown,
        _ = connection.close_requested() => SendError::Gone,
    };
    if private {
        endpoint.close().await;
    }
    Err(Failed::Otherwise(error))
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
    Ok(Some(Role::Server(config)))
}

/// What we are in the TLS of an association that we begin; nothing where there is no TLS.
async fn role_of_client(
    shared: &Shared,
    connection: &Connection,
) -> Result<Option<Role>, TlsError> {
    if connection.transport != Transport::TlsSctp {
        return Ok(None);
    }
    let config = shared.tls.client_config(connection.transport).await?;
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
