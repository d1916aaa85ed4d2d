//! The client's ends of the flows of a test.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use bytes::Bytes;
use sctp_net::{ConnectTo, Endpoint, SendInfo};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::{ClientConfig, Connection};
use crate::control::{ClientMessage, Token, VERSION, write_frame};
use crate::flow::tcp;
use crate::flow::udp::{Buffers, Header, Peer, UdpFlow, UdpPort};
use crate::test_side::Flow;
use crate::{Protocol, carrier};

/// How often a UDP flow greets the server until that answers.
const GREETING_INTERVAL: Duration = Duration::from_millis(100);

/// The flows of a test and what they need to live.
#[derive(Debug)]
pub(crate) struct Flows {
    pub(crate) all: Vec<Flow>,
    /// Streams that the associations have in the direction from us; the fewest of all.
    pub(crate) streams: Option<u16>,
    endpoints: Vec<Endpoint>,
    _readers: JoinSet<()>,
}

impl Flows {
    /// Ends them.
    pub(crate) async fn close(self) {
        let Flows { all, endpoints, .. } = self;
        drop(all);
        for endpoint in endpoints {
            endpoint.close().await;
        }
    }
}

/// Opens a flow for each token.
pub(crate) async fn open(
    config: &ClientConfig,
    connection: &Connection,
    ports: &[u16],
    tokens: &[Token],
) -> anyhow::Result<Flows> {
    let mut flows = Flows {
        all: Vec::with_capacity(tokens.len()),
        streams: None,
        endpoints: Vec::new(),
        _readers: JoinSet::new(),
    };
    let address = *connection.peer.first().context("no host was given")?;
    let server = SocketAddr::new(address, config.target.port);
    for token in tokens {
        let flow = match config.target.protocol {
            Protocol::Tcp => open_tcp(config, server, *token).await?,
            Protocol::Udp => open_udp(config, server, *token, &mut flows._readers).await?,
            Protocol::Sctp => {
                let port = *ports.first().context("the server opened no port")?;
                open_sctp(config, connection, port, *token, &mut flows).await?
            }
        };
        flows.all.push(flow);
    }
    Ok(flows)
}

fn introduction(token: Token) -> anyhow::Result<Vec<u8>> {
    let version = VERSION;
    Ok(serde_json::to_vec(&ClientMessage::Flow { version, token })?)
}

async fn open_tcp(config: &ClientConfig, server: SocketAddr, token: Token) -> anyhow::Result<Flow> {
    let mut stream = TcpStream::connect(server).await?;
    write_frame(&mut stream, &introduction(token)?).await?;
    tcp::configure(&stream, &config.test)?;
    Ok(Flow::Tcp(Arc::new(stream), server.ip()))
}

async fn open_sctp(
    config: &ClientConfig,
    connection: &Connection,
    port: u16,
    token: Token,
    flows: &mut Flows,
) -> anyhow::Result<Flow> {
    let stack = connection.stack.as_ref().context("there is no SCTP")?;
    // Between two ports there is one association at most, so each has a port of its own here.
    let endpoint = stack.endpoint(0, carrier::association_config(&config.test))?;
    let to = ConnectTo {
        addresses: connection.peer.clone(),
        port,
        ..ConnectTo::default()
    };
    let association = endpoint.connect_to(to).await?;
    let introduction = Bytes::from(introduction(token)?);
    association.send(SendInfo::default(), introduction).await?;
    let streams = association.outbound_streams();
    flows.streams = Some(flows.streams.map_or(streams, |fewest| fewest.min(streams)));
    flows.endpoints.push(endpoint);
    Ok(Flow::Sctp(association))
}

/// Opens a socket, and greets the server until that has learnt where it is.
async fn open_udp(
    config: &ClientConfig,
    server: SocketAddr,
    token: Token,
    readers: &mut JoinSet<()>,
) -> anyhow::Result<Flow> {
    let any: IpAddr = match server.ip() {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let port = Arc::new(UdpPort::bind(SocketAddr::new(any, 0), config.test.window)?);
    if let Some(tos) = config.test.tos {
        port.set_type_of_service(tos, server.ip())?;
    }
    let flow = Arc::new(UdpFlow::new(token, Arc::clone(&port), server.ip()));
    readers.spawn(read(Arc::clone(&flow)));
    let peer = Peer {
        address: server,
        local: None,
    };
    let greeting = flow.greeting();
    let greet = async {
        loop {
            if let Err(error) = port.send(peer, &greeting).await {
                return error;
            }
            sleep(GREETING_INTERVAL).await;
        }
    };
    tokio::select! {
        error = greet => return Err(error.into()),
        peer = flow.greeted() => {
            peer.context("no datagram is answered")?;
        }
    }
    Ok(Flow::Udp(flow))
}

/// Takes what comes to a socket of ours.
async fn read(flow: Arc<UdpFlow>) {
    let mut buffers = Buffers::new();
    loop {
        tokio::task::coop::consume_budget().await;
        let mut now = None;
        let received = flow.port.receive(&mut buffers, |peer, datagram| {
            let Some(header) = Header::read(datagram) else {
                return;
            };
            if header.token == flow.token {
                let now = *now.get_or_insert_with(Instant::now);
                flow.deliver(peer, header, datagram.len(), now);
            }
        });
        if let Err(error) = received.await {
            tracing::debug!(%error, "receiving failed");
            sleep(GREETING_INTERVAL).await;
        }
    }
}
