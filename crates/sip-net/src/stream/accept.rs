//! Connections that peers open to us.

use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use sip::Transport;
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio::time::{sleep, timeout};

use super::handshake::receive;
use super::link::{Link, end};
use super::octets::Octets;
use super::serve::FAREWELL;
use super::transport::{StreamTransport, prepare};
use crate::connections::Connection;
use crate::incoming::SendError;
use crate::listen::Listen;
use crate::outbound::Outbound;

/// A listening socket and the listener of the settings that it is for.
#[derive(Debug)]
pub(crate) struct StreamListener {
    socket: TcpListener,
    listen: Listen,
}

/// Opens listening sockets, one for each worker on its runtime, all with one address.
pub(crate) fn bind_workers(
    listen: Listen,
    workers: &[Handle],
) -> io::Result<(Vec<StreamListener>, SocketAddr)> {
    let mut bound = listen.address;
    let mut sockets: Vec<StreamListener> = Vec::with_capacity(workers.len());
    for worker in workers {
        let _runtime = worker.enter();
        let socket = bind(bound, !sockets.is_empty())?;
        // The first is bound alone, so that another program's port is not taken for ours.
        if sockets.is_empty() {
            bound = socket.local_addr()?;
            SockRef::from(&socket).set_reuse_port(workers.len() > 1)?;
        }
        sockets.push(StreamListener { socket, listen });
    }
    Ok((sockets, bound))
}

/// Opens a listening socket, be it with an address that another one of ours shares.
fn bind(address: SocketAddr, shares: bool) -> io::Result<TcpListener> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    if address.is_ipv6() {
        // So that [::] and 0.0.0.0 can be listened on side by side, and no peer appears under an
        // IPv4-mapped address.
        socket.set_only_v6(true)?;
    }
    // Connections of an earlier run that linger (TIME-WAIT) do not keep the port from us.
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(shares)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

impl StreamTransport {
    /// Accepts connections until everything stops.
    pub(crate) async fn accept(self: Arc<Self>, outbound: Arc<Outbound>, listener: StreamListener) {
        let StreamListener { socket, listen } = listener;
        let mut stopped = pin!(self.tasks.stopped());
        loop {
            let accepted = tokio::select! {
                accepted = socket.accept() => accepted,
                () = &mut stopped => return,
            };
            let counters = self.log.counters(listen.transport);
            match accepted {
                Ok((stream, remote)) => {
                    if let Err(error) = self.admit(&outbound, listen, stream, remote) {
                        counters.connections_refused.increment();
                        tracing::debug!(%listen, %remote, %error, "connection refused");
                    }
                }
                Err(error) => {
                    counters.accept_errors.increment();
                    tracing::warn!(%error, "cannot accept connections");
                    // Out of descriptors, say: the connection stays in the backlog, and trying again
                    // at once would spin.
                    sleep(ACCEPT_RETRY).await;
                }
            }
        }
    }

    /// Begins to serve a connection; where there is no room for it, dropping it closes it.
    fn admit(
        self: &Arc<Self>,
        outbound: &Arc<Outbound>,
        listen: Listen,
        stream: TcpStream,
        remote: SocketAddr,
    ) -> Result<(), SendError> {
        let transport = listen.transport;
        let has_handshake = transport != Transport::Tcp;
        prepare(&stream);
        let socket = Arc::new(stream);
        let connection = match has_handshake {
            true => self.connections.accept_with_handshake(transport, remote)?,
            false => self.connections.accept(transport, remote)?,
        };
        connection.counted_by(socket.clone());
        let counters = self.log.counters(transport);
        counters.connections_accepted.increment();
        let (streams, outbound) = (self.clone(), outbound.clone());
        self.tasks.spawn(async move {
            if has_handshake {
                let task = streams.shake_hands(outbound, listen, connection, socket);
                task.await;
            } else {
                let link = Link::stream(Octets::plain(socket));
                streams.serve(outbound, connection, link).await;
            }
        });
        Ok(())
    }

    /// Makes the handshakes of TLS and WebSocket, then serves the connection.
    async fn shake_hands(
        &self,
        outbound: Arc<Outbound>,
        listen: Listen,
        connection: Arc<Connection>,
        socket: Arc<TcpStream>,
    ) {
        let limit = self.limits.handshake_timeout;
        let counters = self.log.counters(listen.transport);
        let remote = connection.remote;
        let negotiated = tokio::select! {
            negotiated = timeout(limit, receive(self, listen, socket.clone())) => match negotiated {
                Ok(negotiated) => negotiated.map_err(|error| error.to_string()),
                Err(_) => Err("not finished in time".to_owned()),
            },
            () = self.tasks.stopped() => Err("stopped".to_owned()),
            reason = connection.close_requested() => {
                counters.connections_displaced.increment();
                tracing::debug!(%listen, %remote, %reason, "handshake given up");
                self.connections.remove(&connection);
                return;
            }
        };
        match negotiated {
            Ok((link, names)) => {
                self.connections.handshake_done(&connection);
                if !names.is_empty() {
                    outbound.report_names(&connection, names).await;
                }
                self.serve(outbound, connection, link).await;
            }
            Err(error) => {
                self.connections.handshake_failed(&connection);
                counters.handshakes_failed.increment();
                tracing::debug!(%listen, %remote, %error, "handshake failed");
                let _ = timeout(FAREWELL, end(&socket)).await;
                self.connections.remove(&connection);
            }
        }
    }
}

/// How many connections the kernel completes for us in advance.
const BACKLOG: i32 = 1024;

/// How long accepting rests after an error.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);
