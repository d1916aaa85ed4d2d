//! The listeners of a receiver.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use perf::{Listen, Over, Protocol};
use sctp_net::{Endpoint, EndpointConfig};
use socket2::{SockRef, TcpKeepalive};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::sleep;
use udp_net::PlainSocket;

use super::channel::Channel;
use super::datagrams::DatagramThread;
use super::session::{self, Offer};
use super::{Receiver, ReceiverConfig, Registry};

/// Octets of a UDP socket's buffers to ask for.
const BUFFER: usize = 8 << 20;

/// How long accepting pauses when the system has no room for another connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How often another free port is tried that both TCP and UDP have.
const PORT_TRIES: usize = 32;

/// A sender that is gone without a word is given up after about this and a few tries more.
const KEEP_ALIVE: Duration = Duration::from_secs(30);

/// The settings of SCTP endpoints on either side: packets leave at once.
pub(crate) fn endpoint_config() -> EndpointConfig {
    EndpointConfig::default().nodelay(true)
}

/// Opens the configured listeners.
pub(super) async fn open_all(
    config: &ReceiverConfig,
    registry: &Arc<Registry>,
    receiver: &mut Receiver,
) -> anyhow::Result<()> {
    // UDP and TCP on one port share the listener of the conversation.
    let mut shared: Vec<(&Listen, Option<&Listen>)> = Vec::new();
    for listen in &config.listen {
        let beside = shared.iter_mut().find(|(first, second)| {
            let protocols = [first.protocol, listen.protocol];
            let are_different = first.protocol != listen.protocol;
            second.is_none()
                && are_different
                && !protocols.contains(&Protocol::Sctp)
                && first.addresses == listen.addresses
                && first.port == listen.port
                && listen.port != 0
        });
        match beside {
            Some((_, second)) => *second = Some(listen),
            None => shared.push((listen, None)),
        }
    }
    for (first, second) in shared {
        let opened = match first.protocol {
            Protocol::Sctp => open_sctp(first, config, registry, receiver),
            Protocol::Udp | Protocol::Tcp => open_port(first, second, registry, receiver).await,
        };
        opened.with_context(|| format!("cannot listen on {first}"))?;
    }
    Ok(())
}

fn open_sctp(
    listen: &Listen,
    config: &ReceiverConfig,
    registry: &Arc<Registry>,
    receiver: &mut Receiver,
) -> anyhow::Result<()> {
    let stack = config.carrier.open(&listen.addresses)?;
    let endpoint = stack.endpoint(listen.port, endpoint_config())?;
    let local = Listen {
        port: endpoint.port(),
        ..listen.clone()
    };
    receiver.listening.push(match config.carrier.over {
        Over::Udp => format!("{local} (in UDP, port {})", stack.local_addr().port()),
        Over::Ip => format!("{local} (over IP)"),
        Over::Kernel => format!("{local} (the kernel's)"),
    });
    receiver.local.push(local);
    receiver.stacks.push(stack);
    let registry = Arc::clone(registry);
    receiver.work.spawn(accept_associations(endpoint, registry));
    Ok(())
}

/// A port of UDP, of TCP, or of both.
async fn open_port(
    first: &Listen,
    second: Option<&Listen>,
    registry: &Arc<Registry>,
    receiver: &mut Receiver,
) -> anyhow::Result<()> {
    let ip = *first.addresses.first().context("no address was given")?;
    let both = [Some(first), second];
    let serves = |protocol| both.iter().flatten().any(|one| one.protocol == protocol);
    let address = SocketAddr::new(ip, first.port);
    let (listener, udp) = bind(address, serves(Protocol::Udp)).await?;
    let port = listener.local_addr()?.port();
    for listen in both.into_iter().flatten() {
        let local = Listen {
            port,
            ..listen.clone()
        };
        receiver.listening.push(local.to_string());
        receiver.local.push(local);
    }
    if let Some(socket) = &udp {
        let thread = DatagramThread::start(Arc::clone(socket), Arc::clone(registry))?;
        receiver._datagrams.push(thread);
    }
    let offer = Offer {
        stream: serves(Protocol::Tcp).then_some(Protocol::Tcp),
        udp,
    };
    let registry = Arc::clone(registry);
    receiver
        .work
        .spawn(accept_connections(listener, offer, registry));
    Ok(())
}

/// A TCP port, and the UDP port of the same number if that is asked for.
async fn bind(
    address: SocketAddr,
    is_udp: bool,
) -> io::Result<(TcpListener, Option<Arc<PlainSocket>>)> {
    let mut tries = 0;
    loop {
        tries += 1;
        let listener = TcpListener::bind(address).await?;
        if !is_udp {
            return Ok((listener, None));
        }
        match PlainSocket::bind(listener.local_addr()?, false, BUFFER) {
            Ok(socket) => return Ok((listener, Some(Arc::new(socket)))),
            // The system chose a port that is free for TCP alone.
            Err(error)
                if error.kind() == io::ErrorKind::AddrInUse
                    && address.port() == 0
                    && tries < PORT_TRIES => {}
            Err(error) => return Err(error),
        }
    }
}

async fn accept_connections(
    listener: TcpListener,
    offer: Offer,
    registry: Arc<Registry>,
) -> anyhow::Result<()> {
    let mut sessions = JoinSet::new();
    loop {
        let (stream, address) = tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::debug!(%error, "no connection was accepted");
                    sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            },
            Some(_) = sessions.join_next() => continue,
        };
        let Ok(place) = Arc::clone(&registry.places).try_acquire_owned() else {
            tracing::debug!(%address, "there is no room for another sender");
            if let Ok(waits) = Arc::clone(&registry.turned_away).try_acquire_owned() {
                let registry = Arc::clone(&registry);
                sessions.spawn(async move {
                    // It may have gone.
                    session::turn_away(Channel::tcp(stream), &registry)
                        .await
                        .ok();
                    drop(waits);
                });
            }
            continue;
        };
        stream.set_nodelay(true).ok();
        let keep_alive = TcpKeepalive::new().with_time(KEEP_ALIVE);
        SockRef::from(&stream).set_tcp_keepalive(&keep_alive).ok();
        let (registry, offer) = (Arc::clone(&registry), offer.clone());
        sessions.spawn(async move {
            let channel = Channel::tcp(stream);
            if let Err(error) = session::serve(channel, address, &offer, &registry).await {
                tracing::debug!(%address, %error, "a sender was given up");
            }
            drop(place);
        });
    }
}

async fn accept_associations(endpoint: Endpoint, registry: Arc<Registry>) -> anyhow::Result<()> {
    let mut sessions = JoinSet::new();
    let offer = Arc::new(Offer {
        stream: Some(Protocol::Sctp),
        udp: None,
    });
    loop {
        let association = tokio::select! {
            accepted = endpoint.accept() => accepted.context("the listener has ended")?,
            Some(_) = sessions.join_next() => continue,
        };
        let Ok(place) = Arc::clone(&registry.places).try_acquire_owned() else {
            let Ok(waits) = Arc::clone(&registry.turned_away).try_acquire_owned() else {
                association.abort(b"too many senders");
                continue;
            };
            let registry = Arc::clone(&registry);
            sessions.spawn(async move {
                // It may have gone.
                session::turn_away(Channel::sctp(association), &registry)
                    .await
                    .ok();
                drop(waits);
            });
            continue;
        };
        let (registry, offer) = (Arc::clone(&registry), Arc::clone(&offer));
        sessions.spawn(async move {
            let address = association.peer();
            let channel = Channel::sctp(association);
            if let Err(error) = session::serve(channel, address, &offer, &registry).await {
                tracing::debug!(%address, %error, "a sender was given up");
            }
            drop(place);
        });
    }
}
