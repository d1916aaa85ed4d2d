//! Pang 2003, figure 5.2: what UDP, TCP and SCTP carry, by the size of messages.

use std::net::IpAddr;
use std::thread;
use std::time::Duration;

use anyhow::Context as _;
use link::{Bottleneck, LinkConfig, MAX_QUEUE_PACKETS};
use perf::{
    Bitrate, CarrierConfig, ClientConfig, DEFAULT_PORT, Limit, Listen, Over, Protocol, Server,
    ServerConfig, Target, TestParameters, TestResult,
};
use rand::Rng;
use report::{Axis, Cell, Colour, Column, Plot, Row, Series, Table};
use sctp_net::{DEFAULT_ENCAPSULATION_PORT, EndpointConfig};
use serde_json::{Value, json};
use testbed::{Testbed, Topology, ready_made};
use tokio::sync::{oneshot, watch};

use crate::checks::Checks;
use crate::context::Context;
use crate::experiment::{About, Experiment, On};
use crate::laws::Wire;
use crate::net::{Watch, joined, runtime};
use crate::outcome::Outcome;
use crate::published::stated;

/// The experiment.
pub(super) struct ThroughputBySize;

/// Bits a second of IP packets: a switched Ethernet of that time. Pang 2003 does not state it.
const RATE: f64 = 100e6;
const MTU: usize = 1500;
/// Buffers of each flow. The kernel doubles what it is asked for.
const WINDOW: usize = 256 * 1024;
/// The part of the link's rate from which a sender counts as one that fills it: what the ends of a short measurement
/// may hide.
const FULL_LINK: f64 = 0.95;
/// The largest message that fills one packet over SCTP.
const FULL: usize = 1452;

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Transport {
    Udp,
    Tcp,
    /// Ours.
    Sctp(Over),
    KernelSctp,
}

struct Point {
    transport: Transport,
    size: usize,
    run: TestResult,
    /// Packets that did not come out of the emulator, whatever the cause.
    lost: u64,
    /// How late the machine was at most.
    late: Duration,
}

impl Experiment for ThroughputBySize {
    fn name(&self) -> &'static str {
        "throughput-by-size"
    }

    fn source(&self) -> &'static str {
        "Pang 2003, figure 5.2"
    }

    fn title(&self) -> &'static str {
        "Throughput by the size of messages"
    }

    fn about(&self) -> About {
        About {
            topology: "Two hosts on a link of 100 Mbit/s without delay, whose queue loses nothing.",
            runs: "Messages of one size as fast as they go, without Nagle's algorithm, over UDP (at the rate \
                   that the link carries), the kernel's TCP, our SCTP, and the kernel's SCTP where there is \
                   one.",
            measures: "User data that arrives a second (the meter of tandem perf).",
            law: "Nothing exceeds the rate of the link after headers. All that is sent over TCP and \
                  SCTP arrives, and no more than was sent over UDP. Without loss, SCTP retransmits nothing \
                  (RFC 9260 sections 6.3.3 and 7.2.4). Pang 2003 found UDP ahead of TCP, and TCP ahead of SCTP, at \
                  every size up \
                  to 1024 bytes.",
            check: "The bytes that arrive against the bytes sent, and chunks that our SCTP repeated against the \
                    packets \
                    that were lost, where the machine never stood still for RTO.Min; each rate against the link's \
                    after headers, \
                    and what a receiver's buffer holds when the clock starts. Pang 2003's order, at each \
                    size up to its largest.",
        }
    }

    fn on(&self) -> &'static [On] {
        &[On::Net]
    }

    fn why_not(&self, _: On) -> &'static str {
        "a comparison of throughput is meaningless on the virtual clock, where computation takes no time"
    }

    fn run(&self, _: On, context: &Context) -> anyhow::Result<Outcome> {
        let sizes = context.either(
            &[64, 256, 1024][..],
            &[64, 128, 256, 512, 1024, 2048, 4096, 8192, 16_384],
        );
        let seconds = context.either(0.5, 3.0);
        let has_kernel_sctp = sctp_net::kernel_has_sctp();
        let ours = if has_kernel_sctp { Over::Udp } else { Over::Ip };
        let mut transports = vec![Transport::Udp, Transport::Tcp, Transport::Sctp(ours)];
        if has_kernel_sctp {
            transports.push(Transport::KernelSctp);
        }
        context.steps((sizes.len() * transports.len()) as u64);
        let points = measure(context, sizes, &transports, seconds)?;
        let kernel = if has_kernel_sctp {
            "Tandem's SCTP runs in UDP, so that the kernel's SCTP does not receive its packets."
        } else {
            "This kernel has no SCTP: only Tandem's is measured, directly over IP."
        };
        Ok(Outcome::judged(check(&points))
            .ours(values(&points))
            .published(json!({
                "order": ["UDP", "TCP", "SCTP (sctplib, user space)", "SCTP (lksctp, kernel)"],
                "largest_size_bytes": stated("throughput-by-size", "largest message"),
            }))
            .table(table(&points))
            .plot(plot(&points, &transports))
            .note(kernel)
            .note("The text of Pang 2003 has no numbers for this figure, so only the order is compared."))
    }
}

impl Transport {
    fn name(self) -> &'static str {
        match self {
            Transport::Udp => "UDP",
            Transport::Tcp => "TCP",
            Transport::Sctp(_) => "our SCTP",
            Transport::KernelSctp => "kernel SCTP",
        }
    }

    fn protocol(self) -> Protocol {
        match self {
            Transport::Udp => Protocol::Udp,
            Transport::Tcp => Protocol::Tcp,
            Transport::Sctp(_) | Transport::KernelSctp => Protocol::Sctp,
        }
    }

    fn over(self) -> Over {
        match self {
            Transport::Sctp(over) => over,
            Transport::Udp | Transport::Tcp => Over::Ip,
            Transport::KernelSctp => Over::Kernel,
        }
    }

    /// The most user data a second that the link carries, in bits. A message that does not fit is cut
    /// into packets that are full at best.
    fn most(self, size: usize) -> f64 {
        match self {
            Transport::Udp => RATE * size as f64 / datagram(size) as f64,
            Transport::Tcp => Wire::tcp(MTU, 0, size, 0).goodput(RATE),
            Transport::Sctp(_) | Transport::KernelSctp => {
                Wire::sctp(size.min(FULL), MTU, true).goodput(RATE)
            }
        }
    }
}

/// Bytes of IP packets that a datagram of so much user data takes: a UDP header of 8 bytes
/// (RFC 768), and an IP header in each fragment, whose length is a multiple of 8 (RFC 791
/// section 3.2).
fn datagram(size: usize) -> usize {
    let payload = 8 + size;
    payload + 20 * payload.div_ceil(MTU - 20)
}

fn carrier(over: Over) -> CarrierConfig {
    CarrierConfig {
        over,
        encapsulation_port: DEFAULT_ENCAPSULATION_PORT,
        peer_encapsulation_port: DEFAULT_ENCAPSULATION_PORT,
        kernel_kept_away: false,
        workers: 1,
        tap: None,
    }
}

fn measure(
    context: &Context,
    sizes: &[usize],
    transports: &[Transport],
    seconds: f64,
) -> anyhow::Result<Vec<Point>> {
    let topology = ready_made("two-hosts").context("the topology is there")?;
    let topology = Topology::parse(topology.text, &[])?;
    let testbed = Testbed::up(&topology, "lab", context.rng(0).next_u64())?;
    let link = LinkConfig {
        bottleneck: Some(Bottleneck {
            queue_packets: MAX_QUEUE_PACKETS,
            queue_bytes: usize::MAX,
            ..Bottleneck::new(RATE as u64)
        }),
        ..LinkConfig::default()
    };
    testbed.emulator().set_link("link", None, link)?;
    let address = testbed.addresses("server").first().copied();
    let address = address.context("the server has no address")?;
    let mut points = Vec::new();
    for &transport in transports {
        for &size in sizes {
            context.begin(format!("{}, {size} bytes", transport.name()));
            let before = lost(&testbed)?;
            let watch = Watch::begin()?;
            let run = one(&testbed, address, transport, size, seconds)?;
            points.push(Point {
                transport,
                size,
                run,
                lost: lost(&testbed)? - before,
                late: watch.end().longest,
            });
            context.done();
        }
    }
    testbed.down();
    Ok(points)
}

/// Packets that the emulator has dropped so far, or the kernel did not take from it.
fn lost(testbed: &Testbed) -> anyhow::Result<u64> {
    let snapshot = testbed.emulator().snapshot()?;
    let lines = snapshot
        .links
        .iter()
        .flat_map(|link| [&link.forward, &link.backward]);
    let dropped: u64 = lines.map(|line| line.link.dropped_packets()).sum();
    Ok(dropped + snapshot.refused_packets + snapshot.undelivered_packets)
}

/// One test: a server on its host, and a client on its own. Threads that either of them starts are
/// on the same host.
fn one(
    testbed: &Testbed,
    address: IpAddr,
    transport: Transport,
    size: usize,
    seconds: f64,
) -> anyhow::Result<TestResult> {
    let protocol = transport.protocol();
    let listen = Listen {
        protocol,
        addresses: vec![address],
        port: DEFAULT_PORT,
    };
    let client = ClientConfig {
        target: Target {
            protocol,
            hosts: vec![address.to_string()],
            port: DEFAULT_PORT,
        },
        test: TestParameters {
            size,
            limit: Limit::Seconds(seconds),
            // UDP itself never slows down.
            bitrate: (transport == Transport::Udp)
                .then(|| Bitrate::new(transport.most(size) as u64))
                .flatten(),
            nodelay: transport != Transport::Udp,
            window: Some(WINDOW),
            ..TestParameters::new(protocol)
        },
        carrier: carrier(transport.over()),
        local_addresses: Vec::new(),
        may_test: vec![address.to_string()],
    };
    // Either end of these tells the other when it is gone.
    let (ready, is_ready) = oneshot::channel::<()>();
    let (over, is_over) = oneshot::channel::<()>();
    thread::scope(|scope| {
        let server = scope.spawn(move || {
            testbed.enter("server")?;
            let runtime = runtime()?;
            let served = runtime.block_on(async {
                let config = ServerConfig::new(vec![listen], vec![carrier(transport.over())]);
                let mut server = Server::start(config).await?;
                let _ = ready.send(());
                tokio::pin!(is_over);
                loop {
                    tokio::select! {
                        event = server.next() => event.map(drop)?,
                        _ = &mut is_over => break,
                    }
                }
                server.close().await;
                anyhow::Ok(())
            });
            runtime.shutdown_timeout(Duration::from_secs(1));
            served
        });
        let client = scope.spawn(move || {
            let _over = over;
            testbed.enter("client")?;
            let runtime = runtime()?;
            let ran = runtime.block_on(async {
                is_ready.await.context("the server does not start")?;
                let (_interrupt, interrupts) = watch::channel(0);
                perf::run(&client, interrupts, |_| {}).await
            });
            runtime.shutdown_timeout(Duration::from_secs(1));
            ran
        });
        let ran = joined(client.join());
        joined(server.join())?;
        ran
    })
}

fn goodput(point: &Point) -> f64 {
    point.run.goodput_bits_per_second.unwrap_or(f64::NAN)
}

fn check(points: &[Point]) -> Checks {
    let mut checks = Checks::new();
    for point in points {
        let Point {
            transport,
            size,
            run,
            ..
        } = point;
        let what = format!("{}, {size} bytes", transport.name());
        checks.law_holds(
            format!("{what}: the test goes through"),
            run.errors.is_empty(),
            run.errors.join(", "),
        );
        let sent = run.sent.bytes as f64;
        let least = if *transport == Transport::Udp {
            1.0
        } else {
            sent
        };
        checks.law(
            format!("{what}: bytes that arrive"),
            run.received.bytes as f64,
            least..=sent,
            "bytes",
        );
        // An acknowledgement that was read too late, having been delayed before, is as good as lost.
        let config = EndpointConfig::default();
        if let (Transport::Sctp(_), Some(repeated)) = (transport, run.retransmissions)
            && point.late + config.association.sack_delay < config.association.path.rto_min
        {
            checks.law(
                format!("{what}: chunks sent again"),
                repeated as f64,
                0.0..=point.lost as f64,
                "chunks",
            );
        }
        // A receiver whose clock starts late has its buffer full already.
        let early = (2 * WINDOW + size) as f64 * 8.0 / run.seconds;
        checks.law(
            format!("{what}: rate"),
            goodput(point) / 1e6,
            f64::MIN_POSITIVE..=(transport.most(*size) + early) / 1e6,
            "Mbit/s",
        );
    }
    let largest = stated("throughput-by-size", "largest message") as usize;
    let sctp = |point: &&Point| matches!(point.transport, Transport::Sctp(_));
    let udp = |point: &&Point| point.transport == Transport::Udp;
    let tcp = |point: &&Point| point.transport == Transport::Tcp;
    let behind = |first: &dyn Fn(&&Point) -> bool, second: &dyn Fn(&&Point) -> bool| {
        let sizes = points.iter().filter(first).filter(|point| {
            let other = points.iter().filter(second);
            let mut other = other.filter(|other| other.size == point.size);
            let ahead = other.any(|other| goodput(other) >= goodput(point));
            ahead && point.size <= largest
        });
        sizes.map(|point| point.size).collect::<Vec<usize>>()
    };
    let slower = behind(&udp, &tcp);
    // By arithmetic, or because this machine sends datagrams more slowly than the link carries them.
    let (small, others): (Vec<usize>, Vec<usize>) = slower
        .iter()
        .partition(|size| Transport::Udp.most(**size) < Transport::Tcp.most(**size));
    let mut reasons = Vec::new();
    if !small.is_empty() {
        reasons.push(format!(
            "not with {} bytes: a stream puts many small writes into one segment, where each datagram has headers \
             of its own",
            listed(&small)
        ));
    }
    if !others.is_empty() {
        reasons.push(format!(
            "not with {} bytes: the sender of datagrams did not reach the rate of the link",
            listed(&others)
        ));
    }
    checks.found(
        "UDP is ahead of TCP at every size",
        slower.is_empty(),
        reasons.join("; "),
    );
    // TCP takes one system call a message, which puts many small messages below the rate of the link.
    let full = |size: &usize| {
        let mut all = points.iter().filter(tcp);
        all.any(|point| {
            point.size == *size && goodput(point) >= FULL_LINK * Transport::Tcp.most(*size)
        })
    };
    let (full, others): (Vec<usize>, Vec<usize>) =
        behind(&tcp, &sctp).iter().partition(|size| full(size));
    let mut reasons = Vec::new();
    if !full.is_empty() {
        reasons.push(format!(
            "Tandem is not behind with {} bytes: both fill the link",
            listed(&full)
        ));
    }
    if !others.is_empty() {
        reasons.push(format!(
            "Tandem is not behind with {} bytes: the sender of TCP, which takes a system call for each message, \
             did not reach the rate of the link",
            listed(&others)
        ));
    }
    checks.found(
        "TCP is ahead of SCTP at every size",
        reasons.is_empty(),
        reasons.join("; "),
    );
    let kernel = |point: &&Point| point.transport == Transport::KernelSctp;
    if points.iter().any(|point| kernel(&point)) {
        let slower = behind(&sctp, &kernel);
        checks.found(
            "SCTP in user space is ahead of the kernel's at every size",
            slower.is_empty(),
            format!(
                "Tandem is not ahead with {} bytes: Pang 2003 (section 5.2) attributes its order to the immature \
                 SCTP of its kernel, and today's is mature",
                listed(&slower)
            ),
        );
    }
    checks
}

fn listed(sizes: &[usize]) -> String {
    let sizes: Vec<String> = sizes.iter().map(usize::to_string).collect();
    sizes.join(", ")
}

fn values(points: &[Point]) -> Value {
    points
        .iter()
        .map(|point| {
            json!({
                "transport": point.transport.name(),
                "size_bytes": point.size,
                "mbit_per_s": goodput(point) / 1e6,
                "link_mbit_per_s": point.transport.most(point.size) / 1e6,
                "retransmissions": point.run.retransmissions,
                "lost_packets": point.lost,
                "longest_lateness_ms": point.late.as_secs_f64() * 1e3,
                "sent_bytes": point.run.sent.bytes,
                "received_bytes": point.run.received.bytes,
            })
        })
        .collect()
}

fn table(points: &[Point]) -> Table {
    let mut table = Table::new("User data that arrives")
        .column(Column::text("Transport").key())
        .column(Column::number("Message").unit("byte").key())
        .column(Column::number("ours").unit("Mbit/s"))
        .column(Column::number("the link's after headers").unit("Mbit/s"));
    for point in points {
        table.push(Row::new([
            Cell::from(point.transport.name()),
            Cell::number(point.size as f64, 0),
            Cell::number(goodput(point) / 1e6, 2),
            Cell::number(point.transport.most(point.size) / 1e6, 2),
        ]));
    }
    table
}

fn plot(points: &[Point], transports: &[Transport]) -> Plot {
    let mut plot = Plot::new(
        "Throughput by the size of messages",
        Axis::new("Message", "byte").logarithmic(),
        Axis::new("User data that arrives", "Mbit/s"),
    );
    let colours = [Colour::Blue, Colour::Green, Colour::Orange, Colour::Purple];
    for (transport, colour) in transports.iter().zip(colours) {
        let of = points.iter().filter(|point| point.transport == *transport);
        let of: Vec<(f64, f64)> = of
            .map(|point| (point.size as f64, goodput(point) / 1e6))
            .collect();
        plot = plot.series(Series::new(transport.name(), colour).points(of));
    }
    plot
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_have_headers_in_each_fragment() {
        assert_eq!(datagram(64), 92);
        assert_eq!(datagram(1472), 1500);
        assert_eq!(datagram(1473), 1473 + 8 + 40);
    }
}
