//! Listeners: TCP ports, UDP ports with the TCP port of their control channel, SCTP ports.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use sctp_net::{Association, Endpoint, Stack};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::session::{self, Means};
use super::{Client, Registry, ServerConfig};
use crate::control::{ClientMessage, ControlChannel, MAX_REQUEST_BYTES, VERSION, read_frame};
use crate::flow::udp::{Buffers, Header, Peer, UdpFlow, UdpPort};
use crate::{Listen, Over, Protocol, carrier};

/// How long a connection may take to say what it wants.
const INTRODUCTION_TIME: Duration = Duration::from_secs(10);

/// How long accepting pauses when the system has no room for another connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How often another free port is tried that both TCP and UDP have.
const PORT_TRIES: usize = 32;

/// A port on which clients arrive.
#[derive(Debug)]
pub(crate) enum Listener {
    /// A TCP port: control channels, and the connections of TCP tests.
    Tcp(TcpPort),
    /// An SCTP port: control channels.
    Sctp(SctpPort),
}

#[derive(Debug)]
pub(crate) struct TcpPort {
    listener: TcpListener,
    address: SocketAddr,
    serves_tcp: bool,
    udp: Option<Arc<UdpPort>>,
}

#[derive(Debug)]
pub(crate) struct SctpPort {
    endpoint: Endpoint,
    stack: Stack,
    over: Over,
    listen: Listen,
}

/// Opens the configured listeners, and the stacks of the SCTP listeners.
pub(crate) async fn open(config: &ServerConfig) -> anyhow::Result<(Vec<Listener>, Vec<Stack>)> {
    let mut listeners: Vec<Listener> = Vec::new();
    let mut stacks: Vec<(Over, Vec<IpAddr>, Stack)> = Vec::new();
    for listen in &config.listen {
        match listen.protocol {
            Protocol::Sctp => {
                for carrier in &config.carriers {
                    let known = stacks.iter().find(|(over, addresses, _)| {
                        *over == carrier.over && *addresses == listen.addresses
                    });
                    let stack = match known {
                        Some((_, _, stack)) => stack.clone(),
                        None => {
                            let opened = carrier.open(&listen.addresses);
                            let stack =
                                opened.with_context(|| format!("cannot listen on {listen}"))?;
                            stacks.push((carrier.over, listen.addresses.clone(), stack.clone()));
                            stack
                        }
                    };
                    let endpoint = stack
                        .endpoint(listen.port, carrier::control_config())
                        .with_context(|| format!("cannot listen on {listen}"))?;
                    listeners.push(Listener::Sctp(SctpPort {
                        listen: Listen {
                            port: endpoint.port(),
                            ..listen.clone()
                        },
                        endpoint,
                        stack,
                        over: carrier.over,
                    }));
                }
            }
            Protocol::Tcp | Protocol::Udp => {
                open_tcp_or_udp(listen, &mut listeners)
                    .await
                    .with_context(|| format!("cannot listen on {listen}"))?;
            }
        }
    }
    Ok((
        listeners,
        stacks.into_iter().map(|(_, _, stack)| stack).collect(),
    ))
}

/// UDP and TCP on the same address and port share the listener of the control connection.
async fn open_tcp_or_udp(listen: &Listen, listeners: &mut Vec<Listener>) -> anyhow::Result<()> {
    let ip = *listen.addresses.first().context("no address was given")?;
    let address = SocketAddr::new(ip, listen.port);
    let is_udp = listen.protocol == Protocol::Udp;
    let shared = listeners.iter_mut().find_map(|listener| match listener {
        Listener::Tcp(port) if port.address == address => Some(port),
        _ => None,
    });
    if let Some(port) = shared {
        if is_udp && port.udp.is_none() {
            port.udp = Some(Arc::new(UdpPort::bind(address, None)?));
        } else if !is_udp && !port.serves_tcp {
            port.serves_tcp = true;
        } else {
            anyhow::bail!("it is given twice");
        }
        return Ok(());
    }
    let mut tries = 0;
    let (listener, udp) = loop {
        tries += 1;
        let listener = TcpListener::bind(address)
            .await
            .map_err(|error| match is_udp {
                true => io::Error::new(
                    error.kind(),
                    format!("the TCP port of its control connection: {error}"),
                ),
                false => error,
            })?;
        if !is_udp {
            break (listener, None);
        }
        match UdpPort::bind(listener.local_addr()?, None) {
            Ok(port) => break (listener, Some(Arc::new(port))),
            // The system chose a port that is free for TCP alone.
            Err(error)
                if error.kind() == io::ErrorKind::AddrInUse
                    && address.port() == 0
                    && tries < PORT_TRIES => {}
            Err(error) => return Err(error.into()),
        }
    };
    listeners.push(Listener::Tcp(TcpPort {
        address: listener.local_addr()?,
        listener,
        serves_tcp: !is_udp,
        udp,
    }));
    Ok(())
}

impl Listener {
    /// What it is called on the command line.
    pub(crate) fn names(&self) -> Vec<String> {
        match self {
            Listener::Tcp(port) => {
                let udp = port.udp.as_ref().map(|_| Protocol::Udp);
                let tcp = port.serves_tcp.then_some(Protocol::Tcp);
                let name = |protocol| Listen {
                    protocol,
                    addresses: vec![port.address.ip()],
                    port: port.address.port(),
                };
                let protocols = udp.into_iter().chain(tcp);
                protocols
                    .map(|protocol| name(protocol).to_string())
                    .collect()
            }
            Listener::Sctp(port) => vec![match port.over {
                Over::Udp => {
                    let udp_port = port.stack.local_addr().port();
                    format!("{} (in UDP, port {udp_port})", port.listen)
                }
                Over::Ip => format!("{} (over IP)", port.listen),
                Over::Kernel => format!("{} (the kernel's)", port.listen),
            }],
        }
    }

    /// Accepts clients until the task is ended.
    pub(crate) fn serve(self, registry: &Arc<Registry>, work: &mut JoinSet<anyhow::Result<()>>) {
        match self {
            Listener::Tcp(port) => {
                if let Some(udp) = &port.udp {
                    work.spawn(receive_datagrams(Arc::clone(udp), Arc::clone(registry)));
                }
                work.spawn(accept_connections(port, Arc::clone(registry)));
            }
            Listener::Sctp(port) => {
                work.spawn(accept_associations(port, Arc::clone(registry)));
            }
        }
    }
}

async fn accept_connections(port: TcpPort, registry: Arc<Registry>) -> anyhow::Result<()> {
    let mut clients = JoinSet::new();
    let means = Means::Tcp {
        serves_tcp: port.serves_tcp,
        udp: port.udp,
    };
    loop {
        let (stream, address) = tokio::select! {
            accepted = port.listener.accept() => match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::debug!(%error, "no connection was accepted");
                    sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            },
            Some(_) = clients.join_next() => continue,
        };
        // Who comes when there is no room is closed.
        if let Some(permit) = registry.admit_unknown() {
            let (registry, means) = (Arc::clone(&registry), means.clone());
            clients.spawn(async move {
                let client = Client { address };
                let first = timeout(INTRODUCTION_TIME, introduce(stream, client.ip(), &registry));
                let introduced = first
                    .await
                    .unwrap_or_else(|_| Err(anyhow::anyhow!("it says nothing")));
                drop(permit);
                match introduced {
                    Ok(None) => {}
                    Ok(Some((control, message))) => {
                        session::serve(control, message, client, means, registry).await;
                    }
                    Err(error) => tracing::debug!(%address, %error, "a connection was closed"),
                }
            });
        }
    }
}

/// Finds out what a connection is: a test's flow, which is handed over, or a control channel, which is
/// returned with its first message.
async fn introduce(
    mut stream: TcpStream,
    from: IpAddr,
    registry: &Registry,
) -> anyhow::Result<Option<(ControlChannel, ClientMessage)>> {
    // Control messages are small and waited for.
    stream.set_nodelay(true)?;
    let message: ClientMessage = read_frame(&mut stream, MAX_REQUEST_BYTES).await?;
    match message {
        ClientMessage::Flow { version, token } => {
            anyhow::ensure!(version == VERSION, "version {version}");
            let session = registry.take_tcp(token);
            let session = session.context("no test expects its token")?;
            tracing::debug!(%from, "a flow came");
            session
                .try_send((token, stream))
                .map_err(|_| anyhow::anyhow!("its test is over"))?;
            Ok(None)
        }
        message => Ok(Some((
            ControlChannel::tcp(stream, MAX_REQUEST_BYTES),
            message,
        ))),
    }
}

async fn accept_associations(port: SctpPort, registry: Arc<Registry>) -> anyhow::Result<()> {
    let mut clients = JoinSet::new();
    loop {
        let association: Association = tokio::select! {
            accepted = port.endpoint.accept() => {
                accepted.with_context(|| format!("the listener {} has ended", port.listen))?
            }
            Some(_) = clients.join_next() => continue,
        };
        match registry.admit_unknown() {
            None => association.abort(b"too many clients"),
            Some(permit) => {
                let registry = Arc::clone(&registry);
                let means = Means::Sctp(port.stack.clone());
                clients.spawn(async move {
                    let address = association.peer();
                    let client = Client { address };
                    let mut control = ControlChannel::sctp(association.clone(), MAX_REQUEST_BYTES);
                    let first = timeout(INTRODUCTION_TIME, control.receive()).await;
                    drop(permit);
                    match first {
                        Ok(Ok(message)) => {
                            session::serve(control, message, client, means, registry).await;
                        }
                        Ok(Err(error)) => {
                            tracing::debug!(%address, %error, "an association was aborted");
                            association.abort(b"no request");
                        }
                        Err(_) => association.abort(b"no request came"),
                    }
                });
            }
        }
    }
}

/// Takes the datagrams of all tests on a port. What shows no token that we gave out is dropped unanswered.
async fn receive_datagrams(port: Arc<UdpPort>, registry: Arc<Registry>) -> anyhow::Result<()> {
    let mut buffers = Buffers::new();
    let mut last: Option<Arc<UdpFlow>> = None;
    let mut greetings: Vec<(Peer, [u8; crate::flow::udp::HEADER_BYTES])> = Vec::new();
    loop {
        tokio::task::coop::consume_budget().await;
        let mut now = None;
        let received = port.receive(&mut buffers, |peer, datagram| {
            let Some(header) = Header::read(datagram) else {
                return;
            };
            if last.as_ref().is_none_or(|flow| flow.token != header.token) {
                last = registry.udp_flow(header.token);
            }
            let Some(flow) = &last else { return };
            let now = *now.get_or_insert_with(Instant::now);
            if flow.deliver(peer, header, datagram.len(), now) {
                greetings.push((peer, flow.greeting()));
            }
        });
        if let Err(error) = received.await {
            // An ICMP error of an earlier datagram of ours, at most.
            tracing::debug!(%error, "receiving failed");
            sleep(ACCEPT_PAUSE).await;
        }
        for (peer, greeting) in greetings.drain(..) {
            port.send(peer, &greeting).await.ok();
        }
    }
}
