//! Where our ports are seen from outside: server-reflexive candidates (RFC 8445 section 5.1.1.2), by STUN (RFC 8489).
//!
//! No call waits for a server. A pair of ports is kept ready for the next call, with the addresses that a server has seen; it is
//! replaced by another one before a NAT forgets it (RFC 4787 section 4.3: after two minutes at the earliest).

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use sip::stun::{binding_request, read_binding_response};
use tokio::net::UdpSocket;
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::ports::PortPair;
use crate::routes::source_towards;

/// A pair of ports is ready for so long.
const READY_FOR: Duration = Duration::from_secs(20);
/// How long each of the requests is waited for (RFC 8489 section 6.2.1: the first ones of its series).
const WAITS: [Duration; 3] = [
    Duration::from_millis(500),
    Duration::from_millis(1_000),
    Duration::from_millis(2_000),
];
/// The port of STUN servers (RFC 8489 section 8).
const PORT: u16 = 3_478;

/// Where others see our ports of RTP and RTCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MappedAddresses {
    /// That of RTP.
    pub rtp: SocketAddr,
    /// That of RTCP.
    pub rtcp: SocketAddr,
}

/// Ports, and where others see them.
#[derive(Debug)]
pub(crate) struct Gathered {
    pub(crate) ports: PortPair,
    pub(crate) mapped: MappedAddresses,
}

/// Keeps a pair of ports ready.
#[derive(Debug)]
pub(crate) struct Gatherer {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    ready: Mutex<Option<Gathered>>,
    taken: Notify,
}

impl Gatherer {
    /// Asks this server, a name or address with or without a port, from now on. It needs a runtime of tokio.
    pub(crate) fn start(server: &str) -> Gatherer {
        let shared = Arc::new(Shared::default());
        let keeper = Arc::downgrade(&shared);
        let server = match server.parse::<IpAddr>() {
            Ok(ip) => SocketAddr::new(ip, PORT).to_string(),
            Err(_)
                if server
                    .rsplit(':')
                    .next()
                    .is_some_and(|port| port.parse::<u16>().is_ok()) =>
            {
                server.to_owned()
            }
            Err(_) => format!("{server}:{PORT}"),
        };
        tokio::spawn(async move {
            loop {
                let gathered = gather(&server).await;
                // The phone is off.
                let Some(shared) = keeper.upgrade() else {
                    return;
                };
                *lock(&shared.ready) = gathered;
                let _ = timeout(READY_FOR, shared.taken.notified()).await;
            }
        });
        Gatherer { shared }
    }

    /// The pair that is ready at this address of ours, if there is one.
    pub(crate) fn take(&self, address: IpAddr) -> Option<Gathered> {
        let mut ready = lock(&self.shared.ready);
        let taken = ready.take_if(|gathered| gathered.ports.local.ip() == address);
        if taken.is_some() {
            self.shared.taken.notify_one();
        }
        taken
    }

    /// Makes another pair ready, since this host has another address.
    pub(crate) fn renew(&self) {
        self.shared.taken.notify_one();
    }
}

impl Drop for Gatherer {
    fn drop(&mut self) {
        self.shared.taken.notify_one();
    }
}

fn lock(ready: &Mutex<Option<Gathered>>) -> std::sync::MutexGuard<'_, Option<Gathered>> {
    ready.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Opens ports and asks where they are seen. `None` when the server does not say so.
async fn gather(server: &str) -> Option<Gathered> {
    let servers = tokio::net::lookup_host(server).await.ok()?;
    let reached = servers.filter_map(|server| Some((server, source_towards(server.ip())?)));
    // It is IPv4 that is translated: of a name with addresses of both families, those of IPv6 tell nothing new.
    let (server, source) = reached.min_by_key(|(server, _)| server.is_ipv6())?;
    let mut ports = PortPair::open(source).ok()?;
    let asked = [&ports.rtp, &ports.rtcp].map(|socket| socket.try_clone());
    let [rtp, rtcp] = asked.map(|socket| UdpSocket::from_std(socket.ok()?).ok());
    let (rtp, rtcp) = (rtp?, rtcp?);
    let (rtp, rtcp) = tokio::join!(ask(&rtp, server), ask(&rtcp, server));
    let mapped = MappedAddresses {
        rtp: rtp?,
        rtcp: rtcp?,
    };
    ports.mapped_by(server, Instant::now());
    Some(Gathered { ports, mapped })
}

/// Where a server sees a socket.
async fn ask(socket: &UdpSocket, server: SocketAddr) -> Option<SocketAddr> {
    let transaction: [u8; 12] = rand::random();
    let request = binding_request(transaction);
    for wait in WAITS {
        socket.send_to(&request, server).await.ok()?;
        let answer = async {
            let mut buffer = [0; 1_024];
            loop {
                let Ok((length, from)) = socket.recv_from(&mut buffer).await else {
                    continue;
                };
                let response = buffer.get(..length).and_then(read_binding_response);
                if let Some(response) = response
                    && from == server
                    && response.transaction == transaction
                {
                    return response.mapped_address;
                }
            }
        };
        if let Ok(mapped) = timeout(wait, answer).await {
            return mapped;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use sip::stun::answer_binding;

    use super::*;

    /// Where the server sees a port.
    fn seen(port: u16) -> SocketAddr {
        ([198, 51, 100, 7], port.wrapping_add(10_000) | 1).into()
    }

    /// A server behind which all is seen at another address; it does not answer each first request.
    async fn serve(socket: UdpSocket) {
        let mut buffer = [0; 1_024];
        for count in 0.. {
            let (length, from) = socket.recv_from(&mut buffer).await.unwrap();
            let answer = answer_binding(&buffer[..length], seen(from.port())).unwrap();
            if count > 1 {
                socket.send_to(&answer, from).await.unwrap();
            }
        }
    }

    #[tokio::test]
    async fn a_pair_of_ports_is_ready_with_the_addresses_that_the_server_has_seen() {
        let server = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = server.local_addr().unwrap().to_string();
        tokio::spawn(serve(server));
        let gatherer = Gatherer::start(&address);
        let loopback = Ipv4Addr::LOCALHOST.into();
        // The second one follows the first one at once.
        for _ in 0..2 {
            let is_ready = async {
                loop {
                    assert!(gatherer.take(Ipv4Addr::UNSPECIFIED.into()).is_none());
                    if let Some(gathered) = gatherer.take(loopback) {
                        return gathered;
                    }
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            };
            let gathered = timeout(READY_FOR / 2, is_ready).await.unwrap();
            let (rtp, rtcp) = (gathered.ports.local, gathered.ports.local_rtcp());
            assert_eq!(rtp.ip(), loopback);
            let mapped = MappedAddresses {
                rtp: seen(rtp.port()),
                rtcp: seen(rtcp.port()),
            };
            assert_eq!(gathered.mapped, mapped);
        }
    }

    #[tokio::test]
    async fn a_server_with_addresses_of_both_families_is_asked_by_ipv4() {
        let server = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = server.local_addr().unwrap().port();
        tokio::spawn(serve(server));
        // Most hosts have it as ::1, too, and that first.
        let gathered = gather(&format!("localhost:{port}")).await;
        assert!(gathered.unwrap().ports.local.is_ipv4());
    }

    #[tokio::test]
    async fn a_pair_is_renewed_at_once_when_it_is_asked_for() {
        let server = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let gatherer = Gatherer::start(&server.local_addr().unwrap().to_string());
        tokio::spawn(serve(server));
        let ready = async |before: Option<SocketAddr>| {
            let is_there = async {
                loop {
                    let local = lock(&gatherer.shared.ready)
                        .as_ref()
                        .map(|gathered| gathered.ports.local);
                    if let Some(local) = local.filter(|local| Some(*local) != before) {
                        return local;
                    }
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            };
            timeout(READY_FOR / 2, is_there).await.unwrap()
        };
        let first = ready(None).await;
        gatherer.renew();
        ready(Some(first)).await;
    }
}
