//! A client and a server in network namespaces, with the emulator as the link between them: the stage of
//! experiments on real sockets that look at one association or a few connections. TCP is the kernel's; SCTP is ours, in
//! UDP.

use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::thread;
use std::time::Duration;

use anyhow::Context as _;
use link::{LinkConfig, LinkStatistics};
use sctp::EndpointConfig;
use sctp_net::{DEFAULT_ENCAPSULATION_PORT, Endpoint, Stack, UdpCarrierConfig};
use socket2::{Domain, Protocol, Socket, Type};
use testbed::{Testbed, Topology, ready_made};
use tokio::sync::oneshot;

use crate::congestion::Congestion;
use crate::net::joined;

/// Where the server listens.
pub(crate) const PORT: u16 = 5001;

/// How long nothing may come before a run counts as broken down: several timeouts in a row, each twice as long
/// as the one before.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(100);

const CLIENT: &str = "client";
const SERVER: &str = "server";

/// The two of them.
pub(crate) struct TwoHosts {
    testbed: Testbed,
    /// The address of the client.
    pub(crate) client: IpAddr,
    /// The address of the server.
    pub(crate) server: IpAddr,
}

/// With which the server says that it listens.
pub(crate) type Ready = oneshot::Sender<()>;

/// Resolves when the server is done.
pub(crate) type Over = oneshot::Receiver<()>;

impl TwoHosts {
    /// Hosts whose TCP has buffers for a window of so many bytes, on a link that is the same in both directions.
    pub(crate) fn up(seed: u64, link: LinkConfig, window: usize) -> anyhow::Result<TwoHosts> {
        let topology = ready_made("two-hosts").context("the topology is there")?;
        let topology = Topology::parse(topology.text, &[])?;
        let testbed = Testbed::up(&topology, "lab", seed)?;
        testbed.emulator().set_link("link", None, link)?;
        let address = |host: &str| {
            let address = testbed.addresses(host).first().copied();
            address.with_context(|| format!("{host} has no address"))
        };
        let (client, server) = (address(CLIENT)?, address(SERVER)?);
        for host in [CLIENT, SERVER] {
            testbed
                .run(host, || set_buffers(window))?
                .context("the kernel's buffers cannot be set")?;
        }
        Ok(TwoHosts {
            testbed,
            client,
            server,
        })
    }

    /// Runs something on each host, on the client as soon as the server is ready.
    pub(crate) fn run<S: Send, C: Send>(
        &self,
        server: impl FnOnce(Ready) -> anyhow::Result<S> + Send,
        client: impl FnOnce(Over) -> anyhow::Result<C> + Send,
    ) -> anyhow::Result<(S, C)> {
        // Either end of these tells the other when it is gone.
        let (ready, is_ready) = oneshot::channel();
        let (over, is_over) = oneshot::channel();
        thread::scope(|scope| {
            let server = scope.spawn(|| {
                let _over = over;
                self.testbed.enter(SERVER)?;
                server(ready)
            });
            let client = scope.spawn(|| {
                self.testbed.enter(CLIENT)?;
                is_ready
                    .blocking_recv()
                    .context("the server does not start")?;
                client(is_over)
            });
            let client = joined(client.join());
            let server = joined(server.join());
            Ok((server?, client?))
        })
    }

    /// Does something on the server while the caller waits.
    pub(crate) fn on_server<T: Send>(&self, work: impl FnOnce() -> T + Send) -> io::Result<T> {
        self.testbed.run(SERVER, work)
    }

    /// What the link has done so far to what the client sent, and to what the server sent.
    pub(crate) fn link(&self) -> anyhow::Result<[LinkStatistics; 2]> {
        let snapshot = self.testbed.emulator().snapshot()?;
        let link = snapshot.links.first().context("the link has gone")?;
        Ok([link.forward.link, link.backward.link])
    }

    pub(crate) fn down(self) {
        self.testbed.down();
    }
}

/// Finds out whether these hosts can be had, with the settings of the kernel that experiments change: where /proc/sys
/// is read-only they cannot.
pub(crate) fn try_hosts(seed: u64) -> anyhow::Result<()> {
    TwoHosts::up(seed, LinkConfig::default(), 1 << 16)?.down();
    Ok(())
}

/// Sets how large the buffers of the kernel's TCP are on the host that the calling thread is on. Of a receiver's
/// buffer a part is for what packets take beside their data, and the window is bounded apart from it.
fn set_buffers(window: usize) -> io::Result<()> {
    let write = |name: &str, bytes: usize| {
        let value = format!("4096 {bytes} {bytes}");
        fs::write(format!("/proc/sys/net/ipv4/{name}"), value)
    };
    write("tcp_rmem", 4 * window)?;
    write("tcp_wmem", 2 * window)
}

/// A socket of the kernel's TCP with a bounded window, and without Nagle's algorithm.
pub(crate) fn tcp_socket(
    address: IpAddr,
    window: usize,
    congestion: Congestion,
) -> anyhow::Result<Socket> {
    let domain = Domain::for_address(SocketAddr::new(address, PORT));
    let socket = Socket::new(domain, Type::STREAM, Some(Protocol::TCP))?;
    socket
        .set_tcp_congestion(congestion.of_tcp().as_bytes())
        .with_context(|| format!("the kernel's TCP has no {}", congestion.of_tcp()))?;
    socket.set_tcp_nodelay(true)?;
    tcp_info::clamp_window(socket.as_fd(), window as u32)?;
    Ok(socket)
}

/// Our SCTP in UDP on the host that the calling thread is on, within a runtime.
pub(crate) fn sctp_endpoint(
    address: IpAddr,
    config: EndpointConfig,
) -> anyhow::Result<(Stack, Endpoint)> {
    let stack = Stack::udp(UdpCarrierConfig {
        // Each packet by itself, as TCP's are on these interfaces.
        segmentation_offload: false,
        ..UdpCarrierConfig::new(SocketAddr::new(address, DEFAULT_ENCAPSULATION_PORT))
    })?;
    let endpoint = stack.endpoint(PORT, config)?;
    Ok((stack, endpoint))
}
