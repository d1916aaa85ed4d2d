//! What the tests of this crate share.

pub(crate) mod kernel;
pub(crate) mod network;

use std::future::Future;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use sctp_net::{
    Association, Endpoint, EndpointConfig, Impairment, LinkConfig, SendInfo, Stack,
    UdpCarrierConfig,
};

/// Long enough for what takes a moment, on a slow and busy machine too.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// A carrier on an ephemeral port of a local address.
pub(crate) fn carrier(ip: &str) -> UdpCarrierConfig {
    UdpCarrierConfig::new(SocketAddr::new(ip.parse().unwrap(), 0))
}

/// A stack on the IPv4 loopback address.
pub(crate) fn stack() -> Stack {
    Stack::udp(carrier("127.0.0.1")).unwrap()
}

/// A carrier that loses packets in both directions.
pub(crate) fn lossy_carrier(loss: f64, seed: u64) -> UdpCarrierConfig {
    let link = LinkConfig {
        loss: loss.into(),
        ..LinkConfig::default()
    };
    UdpCarrierConfig {
        impairment: Some(Impairment {
            outbound: link.clone(),
            inbound: link,
            seed,
        }),
        ..carrier("127.0.0.1")
    }
}

/// The RFC's parameters, but quicker to retransmit: fit for a loopback network. As these attempts are soon made there
/// are more of them, so that no peer is given up that a busy machine has stopped for a while.
pub(crate) fn quick() -> EndpointConfig {
    EndpointConfig::default()
        .rto_initial(Duration::from_millis(100))
        .rto_min(Duration::from_millis(50))
        .rto_max(Duration::from_millis(400))
        .sack_delay(Duration::from_millis(20))
        .association_max_retrans(200)
        .max_init_retransmits(200)
}

/// The RFC's parameters, but nothing is sent again before a test is over: where packets are counted, a machine that
/// stands still for a while must not be taken for a loss.
pub(crate) fn patient() -> EndpointConfig {
    EndpointConfig::default()
        .rto_initial(LIMIT)
        .rto_min(LIMIT)
        .rto_max(LIMIT)
}

/// Connects `client` to `server`, an endpoint of the stack `server_stack`.
pub(crate) async fn connect(
    client: &Endpoint,
    server_stack: &Stack,
    server_port: u16,
) -> Association {
    let address = server_stack.local_addr();
    within(client.connect(address.ip(), server_port, Some(address.port())))
        .await
        .unwrap()
}

/// Two associated ends, and what keeps them going.
pub(crate) struct Pair {
    pub(crate) client_stack: Stack,
    pub(crate) server_stack: Stack,
    pub(crate) client_endpoint: Endpoint,
    pub(crate) server_endpoint: Endpoint,
    pub(crate) client: Association,
    pub(crate) server: Association,
}

/// Associates two stacks.
pub(crate) async fn pair_over(
    client_carrier: UdpCarrierConfig,
    server_carrier: UdpCarrierConfig,
    config: EndpointConfig,
) -> Pair {
    let client_stack = Stack::udp(client_carrier).unwrap();
    let server_stack = Stack::udp(server_carrier).unwrap();
    let client_endpoint = client_stack.endpoint(0, config.clone()).unwrap();
    let server_endpoint = server_stack.endpoint(0, config).unwrap();
    let client = connect(&client_endpoint, &server_stack, server_endpoint.port()).await;
    let server = within(server_endpoint.accept()).await.unwrap();
    Pair {
        client_stack,
        server_stack,
        client_endpoint,
        server_endpoint,
        client,
        server,
    }
}

/// Associates two stacks on the IPv4 loopback address.
pub(crate) async fn pair(config: EndpointConfig) -> Pair {
    pair_over(carrier("127.0.0.1"), carrier("127.0.0.1"), config).await
}

/// Sends back everything on the stream that it came on, until the association ends.
pub(crate) async fn echo(association: Association) {
    while let Some(message) = association.receive().await {
        let info = SendInfo {
            stream: message.stream,
            ppid: message.ppid,
            unordered: message.unordered,
            ..SendInfo::default()
        };
        if association.send(info, message.payload).await.is_err() {
            return;
        }
    }
}

/// A message on a stream, ordered.
pub(crate) fn on_stream(stream: u16) -> SendInfo {
    SendInfo {
        stream,
        ..SendInfo::default()
    }
}

/// Bytes that differ along the message and from message to message.
pub(crate) fn pattern(number: usize, length: usize) -> Bytes {
    (0..length)
        .map(|position| (position / 251 + position * 7 + number * 31) as u8)
        .collect()
}

/// What the future gives, which must not take longer than [`LIMIT`].
pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(LIMIT, future).await.expect("in time")
}
