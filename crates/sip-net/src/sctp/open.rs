//! How associations come up: accepted, or begun for a message that is to go out.

use std::pin::pin;
use std::sync::Arc;

use sctp_net::{Association, ConnectError, ConnectTo, Endpoint};
use sip::Transport;
use tokio::time::timeout;

use crate::connections::Connection;
use crate::incoming::{CloseReason, SendError};
use crate::outbound::Outbound;
use crate::tls::{TlsError, server_name};

use super::secure::Role;
use super::stacks::{CommonEndpoint, SctpListener};
use super::transport::SctpTransport;

impl SctpTransport {
    /// Accepts associations until everything stops.
    pub(crate) async fn accept(self: Arc<Self>, outbound: Arc<Outbound>, listener: SctpListener) {
        let mut stopped = pin!(self.tasks.stopped());
        loop {
            let accepted = tokio::select! {
                accepted = listener.endpoint.accept() => accepted,
                () = &mut stopped => return,
            };
            let Some(association) = accepted else {
                if !self.tasks.is_stopping() {
                    let reason = CloseReason::Failed("the SCTP port is closed".to_owned());
                    outbound.listener_failed(listener.listen(), &reason);
                }
                return;
            };
            self.admit(&outbound, &listener, association);
        }
    }

    /// Begins to serve an association, or refuses it.
    fn admit(
        self: &Arc<Self>,
        outbound: &Arc<Outbound>,
        listener: &SctpListener,
        association: Association,
    ) {
        let remote = association.peer();
        let counters = self.log.counters(listener.transport);
        let role = match self.role_of_server(listener) {
            Ok(role) => role,
            Err(error) => {
                counters.connections_refused.increment();
                tracing::debug!(%remote, %error, "association refused");
                association.abort(b"no certificate here");
                return;
            }
        };
        let connections = &self.connections;
        let accepted = match role {
            Some(_) => connections.accept_with_handshake(listener.transport, remote),
            None => connections.accept(listener.transport, remote),
        };
        match accepted {
            Ok(connection) => {
                counters.connections_accepted.increment();
                let (sctp, outbound) = (self.clone(), outbound.clone());
                self.tasks.spawn(async move {
                    sctp.serve(outbound, connection, association, role).await;
                });
            }
            Err(error) => {
                counters.connections_refused.increment();
                tracing::debug!(%remote, %error, "association refused");
                association.abort(b"too many associations");
            }
        }
    }

    /// Begins an association and serves it until it ends.
    pub(crate) async fn open(
        self: Arc<Self>,
        outbound: Arc<Outbound>,
        connection: Arc<Connection>,
    ) {
        let role = match self.role_of_client(&connection).await {
            Ok(role) => role,
            Err(error) => {
                let error = SendError::Tls(error.to_string());
                return outbound.connect_failed(&connection, &error);
            }
        };
        match self.begin(&outbound, &connection).await {
            Ok((association, own_endpoint)) => {
                self.serve(outbound, connection, association, role).await;
                if let Some(endpoint) = own_endpoint {
                    endpoint.close().await;
                }
            }
            Err(error) => outbound.connect_failed(&connection, &error),
        }
    }

    /// Begins an association; from an SCTP port of its own, which comes with it, where it is private or
    /// the port for all has one with the peer already: to another name that shares the address, or by
    /// another address of the peer, told of at the same time.
    async fn begin(
        self: &Arc<Self>,
        outbound: &Arc<Outbound>,
        connection: &Connection,
    ) -> Result<(Association, Option<Endpoint>), SendError> {
        if !connection.is_private {
            let endpoint = self.common_endpoint(outbound, connection)?;
            match self.connect(&endpoint, connection).await {
                Ok(association) => return Ok((association, None)),
                Err(Failed::AlreadyAssociated) => {}
                Err(Failed::Otherwise(error)) => return Err(error),
            }
        }
        let (transport, remote) = (connection.transport, connection.remote);
        let endpoint = self
            .stacks
            .private_endpoint(&self.routes, transport, remote)?;
        match self.connect(&endpoint, connection).await {
            Ok(association) => Ok((association, Some(endpoint))),
            Err(failed) => {
                endpoint.close().await;
                Err(match failed {
                    Failed::Otherwise(error) => error,
                    Failed::AlreadyAssociated => {
                        SendError::Sctp("associated with the peer already".into())
                    }
                })
            }
        }
    }

    /// The SCTP port from which associations with a peer are begun.
    fn common_endpoint(
        self: &Arc<Self>,
        outbound: &Arc<Outbound>,
        connection: &Connection,
    ) -> Result<Endpoint, SendError> {
        let (transport, remote) = (connection.transport, connection.remote);
        let found = self
            .stacks
            .common_endpoint(&self.routes, transport, remote)?;
        Ok(match found {
            CommonEndpoint::Open(endpoint) => endpoint,
            // The peer may open an association of its own for a response (RFC 3261 section 18.1.1).
            CommonEndpoint::New(listener) => {
                let endpoint = listener.endpoint.clone();
                let accept = self.clone().accept(outbound.clone(), listener);
                self.tasks.spawn(accept);
                endpoint
            }
        })
    }

    async fn connect(
        &self,
        endpoint: &Endpoint,
        connection: &Connection,
    ) -> Result<Association, Failed> {
        let limit = self.limits.connect_timeout;
        let error = tokio::select! {
            connected = timeout(limit, endpoint.connect_to(target_of(connection))) => match connected {
                Ok(Ok(association)) => return Ok(association),
                Ok(Err(ConnectError::Refused {
                    error: sctp::ConnectError::AlreadyAssociated,
                    ..
                })) => return Err(Failed::AlreadyAssociated),
                Ok(Err(error)) => SendError::Sctp(error.to_string()),
                Err(_) => SendError::ConnectTimeout,
            },
            () = self.tasks.stopped() => SendError::ShutDown,
            _ = connection.close_requested() => SendError::Gone,
        };
        Err(Failed::Otherwise(error))
    }

    /// What we are in the TLS of an association that a peer began; nothing where there is no TLS.
    fn role_of_server(&self, listener: &SctpListener) -> Result<Option<Role>, TlsError> {
        if listener.transport != Transport::TlsSctp {
            return Ok(None);
        }
        let config = self.tls.server_config(listener.listen())?;
        Ok(Some(Role::Server(config)))
    }

    /// What we are in the TLS of an association that we begin; nothing where there is no TLS.
    async fn role_of_client(&self, connection: &Connection) -> Result<Option<Role>, TlsError> {
        if connection.transport != Transport::TlsSctp {
            return Ok(None);
        }
        let config = self.tls.client_config(connection.transport).await?;
        let name = server_name(connection.peer.as_deref(), connection.remote);
        Ok(Some(Role::Client(config, name)))
    }
}

/// Why there is no association.
enum Failed {
    /// The SCTP port has one with the peer.
    AlreadyAssociated,
    Otherwise(SendError),
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
