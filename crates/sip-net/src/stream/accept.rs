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
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use super::handshake::receive;
use super::link::{Link, end};
use super::octets::Octets;
use super::{FAREWELL, serve};
use crate::connections::{Connection, Outgoing};
use crate::incoming::SendError;
use crate::listen::Listen;
use crate::shared::Shared;

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
        // The first is bound alone, so that a port of somebody else is not taken for ours.
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

/// Accepts connections until everything stops.
pub(crate) async fn accept(shared: Arc<Shared>, listener: StreamListener) {
    let StreamListener { socket, listen } = listener;
    let mut stopped = pin!(shared.tasks.stopped());
    loop {
        let accepted = tokio::select! {
            accepted = socket.accept() => accepted,
            () = &mut stopped => return,
        };
        let counters = shared.counters(listen.transport);
        match accepted {
            Ok((stream, remote)) => {
                if let Err(error) = admit(&shared, listen, stream, remote) {
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
    shared: &Arc<Shared>,
    listen: Listen,
    stream: TcpStream,
    remote: SocketAddr,
) -> Result<(), SendError> {
    let transport = listen.transport;
    let is_proved = transport == Transport::Tcp;
    // It fails only on a connection that has ended already, which reading will tell.
    let _ = stream.set_nodelay(true);
    let socket = Arc::new(stream);
    let connections = &shared.connections;
    let opening = match is_proved {
        true => connections.accepted(transport, remote)?,
        false => connections.accepted_unproved(transport, remote)?,
    };
    opening.0.counted_by(socket.clone());
    shared.counters(transport).connections_accepted.increment();
    if is_proved {
        let link = Link::stream(Octets::plain(socket));
        let (connection, queue) = opening;
        shared
            .tasks
            .spawn(serve(shared.clone(), connection, queue, link));
    } else {
        let task = prove(shared.clone(), listen, opening, socket);
        shared.tasks.spawn(task);
    }
    Ok(())
}

/// Makes the handshakes of TLS and WebSocket, then serves the connection.
async fn prove(
    shared: Arc<Shared>,
    listen: Listen,
    (connection, queue): (Arc<Connection>, mpsc::Receiver<Outgoing>),
    socket: Arc<TcpStream>,
) {
    let limit = shared.config.limits.handshake_timeout;
    let proved = tokio::select! {
        proved = timeout(limit, receive(&shared, listen, socket.clone())) => match proved {
            Ok(proved) => proved.map_err(|error| error.to_string()),
            Err(_) => Err("not finished in time".to_owned()),
        },
        () = shared.tasks.stopped() => Err("stopped".to_owned()),
        reason = connection.close_requested() => {
            shared.counters(listen.transport).connections_displaced.increment();
            tracing::debug!(%listen, remote = %connection.remote, %reason, "handshake given up");
            shared.connections.remove(&connection);
            return;
        }
    };
    match proved {
        Ok((link, names)) => {
            shared.connections.proved(&connection);
            if !names.is_empty() {
                shared.identified(&connection, names).await;
            }
            serve(shared, connection, queue, link).await;
        }
        Err(error) => {
            shared.connections.disproved(&connection);
            shared
                .counters(listen.transport)
                .handshakes_failed
                .increment();
            tracing::debug!(%listen, remote = %connection.remote, %error, "handshake failed");
            let _ = timeout(FAREWELL, end(&socket)).await;
            shared.connections.remove(&connection);
        }
    }
}

/// How many connections the kernel completes for us in advance.
const BACKLOG: i32 = 1024;

/// How long accepting rests after an error.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);
