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

use super::association::serve;
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
                let listen = Listen {
                    transport: listener.transport,
                    address: listener.address,
                };
                let reason = CloseReason::Failed("the SCTP port is closed".to_owned());
                shared.listener_failed(listen, &reason);
            }
            return;
        };
        let remote = association.peer();
        let counters = shared.counters(listener.transport);
        match shared.connections.accepted(listener.transport, remote) {
            Ok((connection, queue)) => {
                counters.connections_accepted.increment();
                let task = serve(shared.clone(), connection, queue, association);
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
    if transport != Transport::Sctp {
        let error = SendError::NotBuilt(transport);
        return shared.connect_failed(&connection, queue, error).await;
    }
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
        Ok(association) => {
            shared.counters(transport).connections_opened.increment();
            serve(shared, connection, queue, association).await;
        }
        Err(error) => shared.connect_failed(&connection, queue, error).await,
    }
    if private {
        endpoint.close().await;
    }
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
