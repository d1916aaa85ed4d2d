//! KTH 2004, test 1: the four packets that set up an association, and what they carry besides.

mod net;

use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use report::{Cell, Column, Row, Table};
use sctp::EndpointConfig;
use sctp::packet::Packet as SctpPacket;
use serde_json::{Value, json};
use sim_transport::{Load, Packet, TcpConfig};

use crate::checks::Checks;
use crate::context::Context;
use crate::experiment::{About, Experiment, On};
use crate::outcome::Outcome;
use crate::pair::{MTU, NetworkConfig, PORT, Pair};

/// The experiment.
pub(super) struct Handshake;

/// A REGISTER, perhaps: what the client has to say at once.
const MESSAGE: usize = 500;

/// A packet as it came to one of the hosts.
#[derive(Clone, Debug, PartialEq)]
struct Arrived {
    at: Duration,
    from: &'static str,
    chunks: Vec<String>,
}

/// A row of the trace in KTH 2004.
struct Traced {
    seconds: f64,
    from: String,
    chunk: String,
}

/// What was observed at one delay.
#[derive(Clone)]
struct Observation {
    delay: Duration,
    packets: Vec<Arrived>,
    /// In how many of several handshakes there were others than there should be, and which.
    astray: Option<String>,
    /// Associations that the server had when the third packet was on its way, at most.
    held_before_cookie: usize,
    /// When the message came to the server's user.
    sctp_message: Duration,
    tcp_message: Duration,
    /// Which packet, counted in both directions, brought data first.
    tcp_data_packet: usize,
}

impl Experiment for Handshake {
    fn name(&self) -> &'static str {
        "handshake"
    }

    fn source(&self) -> &'static str {
        "KTH 2004, test 1"
    }

    fn title(&self) -> &'static str {
        "The four-way handshake, with data on its third packet"
    }

    fn about(&self) -> About {
        About {
            topology: "Two hosts on links that do nothing but delay, by a millisecond, 50 and 250 ms in each \
                       direction.",
            runs: "The client opens an association and has a message of 500 bytes to send at once; a TCP \
                   connection the same, beside it. On net our engine sits on a UDP socket (RFC 6951), TCP is the \
                   kernel's, and both do so several times, ahead of all else that the machine does where that is \
                   allowed, and on a link without delay, too.",
            measures: "Each packet with the time of its arrival and its chunks, the associations that the \
                       server holds before the cookie comes back, and when the message comes out. On net packets and \
                       times are those of either host's kernel, and of several times the earliest counts; the packets \
                       must be those of the law each time, and nothing may be held. Handshakes do not count during \
                       which the machine stood still until somebody may have repeated a packet.",
            law: "INIT, INIT ACK, COOKIE ECHO, COOKIE ACK (RFC 9260 section 5.1), each sent as soon as the \
                  one before has come; the server keeps nothing before the cookie comes back (5.1.3); DATA \
                  may go with the COOKIE ECHO, and its SACK with the COOKIE ACK (5.1). So the message is \
                  there after three times the delay.",
            check: "Order, direction, and times of the four packets, to a microsecond; on net to what the same \
                    takes at most without delay, and how late the machine woke a thread that slept: of all handshakes \
                    the one in the middle. KTH 2004's \
                    trace has the same packets in the same order. Its times are those of its machines.",
        }
    }

    fn on(&self) -> &'static [On] {
        &[On::Sim, On::Net]
    }

    fn run(&self, on: On, context: &Context) -> anyhow::Result<Outcome> {
        let delays = [1, 50, 250].map(Duration::from_millis);
        let (runs, overhead) = match on {
            On::Sim => {
                context.steps(delays.len() as u64);
                let runs = (0..).zip(delays).map(|(number, delay)| {
                    context.begin(format!("{} ms", delay.as_millis()));
                    let run = measure(context, number, delay);
                    context.done();
                    run
                });
                let runs = runs.collect::<anyhow::Result<Vec<Observation>>>()?;
                (runs, None)
            }
            On::Net => {
                context.steps(delays.len() as u64 + 1);
                let measured = net::measure(context, &delays, context.either(5, 20))?;
                let Some((runs, overhead)) = measured else {
                    return Ok(Outcome::skipped(
                        "the machine is too busy: it stood still for RTO.Initial during each handshake",
                    ));
                };
                (runs, Some(overhead))
            }
        };
        let traced = traced();
        let mut outcome = Outcome::judged(check(&runs, overhead.as_ref(), &traced))
            .ours(runs.iter().map(values).collect())
            .published(published(&traced));
        for run in &runs {
            outcome = outcome.table(table(run));
        }
        if let Some(overhead) = overhead {
            let fourth = milliseconds(overhead.packets[3]);
            outcome = outcome.note(format!(
                "Without delay the fourth packet came after {fourth:.2} ms at the latest, what a thread was woken too \
                 late included."
            ));
        }
        Ok(outcome.note(
            "KTH 2004 says that TCP's first data goes in its fourth packet. Both transports have the \
             message at the server after three times the delay: TCP's third packet is followed at once by \
             its fourth.",
        ))
    }
}

impl Observation {
    /// Whether the first four packets are those that they should be.
    fn is_as_expected(&self) -> bool {
        let expected: [(&str, &[&str]); 4] = [
            ("client", &["INIT"]),
            ("server", &["INIT ACK"]),
            ("client", &["COOKIE ECHO", "DATA"]),
            ("server", &["COOKIE ACK", "SACK"]),
        ];
        let mut both = self.packets.iter().zip(expected);
        self.packets.len() >= expected.len()
            && both.all(|(packet, (sender, expected))| {
                packet.from == sender && packet.chunks.iter().eq(expected)
            })
    }
}

fn measure(context: &Context, number: u64, delay: Duration) -> anyhow::Result<Observation> {
    let network = NetworkConfig {
        delay,
        ..NetworkConfig::default()
    };
    let config = EndpointConfig::default().mtu(MTU).path_mtu_discovery(false);
    let load = Load::Transfer {
        message: MESSAGE,
        remaining: 1,
        streams: 1,
        unordered: false,
    };
    let pair = |number| {
        let mut pair = Pair::new(context, number, &[network], &config, TcpConfig::default());
        for host in [pair.client, pair.server] {
            pair.simulation.host_mut(host).record_arrivals();
        }
        pair
    };

    let mut sctp = pair(2 * number);
    sctp.open_sctp(load)?;
    // The second packet is at the client, the third on its way.
    sctp.run_until(delay * 5 / 2)?;
    let held_before_cookie = sctp
        .server()
        .endpoint(PORT)
        .map_or(0, |endpoint| endpoint.association_count());
    let sctp_message = sctp.run_until_received(1, TIMEOUT)?;
    sctp.run_until(sctp_message + 2 * delay)?;
    let packets = arrivals(&mut sctp, |packet| match packet {
        Packet::Sctp(bytes) => chunks(bytes),
        Packet::Tcp(_) => Vec::new(),
    });

    let mut tcp = pair(2 * number + 1);
    tcp.open_tcp(load);
    let tcp_message = tcp.run_until_received(1, TIMEOUT)?;
    let segments = arrivals(&mut tcp, |packet| match packet {
        // Headers and options of a segment without data are smaller than the message.
        Packet::Tcp(bytes) if bytes.len() > MESSAGE => vec!["data".to_owned()],
        _ => Vec::new(),
    });
    let data = segments
        .iter()
        .position(|segment| !segment.chunks.is_empty());
    Ok(Observation {
        delay,
        packets,
        astray: None,
        held_before_cookie,
        sctp_message,
        tcp_message,
        tcp_data_packet: data.map_or(0, |index| index + 1),
    })
}

/// Many times what a handshake takes.
const TIMEOUT: Duration = Duration::from_secs(60);

/// What has come to both hosts, in order.
fn arrivals(pair: &mut Pair, chunks: impl Fn(&Packet) -> Vec<String>) -> Vec<Arrived> {
    let start: Instant = pair.start;
    let of = |packets: &[(Instant, Packet)], from: &'static str| -> Vec<Arrived> {
        let arrived = |(at, packet): &(Instant, Packet)| Arrived {
            at: *at - start,
            from,
            chunks: chunks(packet),
        };
        packets.iter().map(arrived).collect()
    };
    let mut all = of(pair.server().arrivals(), "client");
    all.extend(of(pair.client().arrivals(), "server"));
    all.sort_by_key(|arrived| arrived.at);
    all
}

fn chunks(packet: &[u8]) -> Vec<String> {
    let Ok(packet) = SctpPacket::read(packet) else {
        return Vec::new();
    };
    let chunks = packet.chunks().filter_map(Result::ok);
    chunks.map(|chunk| chunk.chunk_type().to_string()).collect()
}

fn traced() -> Vec<Traced> {
    include_str!("../../../published/handshake_trace.csv")
        .lines()
        .skip(1)
        .filter_map(|line| {
            let mut fields = line.split(',');
            let seconds = fields.next()?.parse().ok()?;
            let from = fields.next()?.to_owned();
            let chunk = fields.nth(1)?.trim().replace('_', " ");
            Some(Traced {
                seconds,
                from,
                chunk,
            })
        })
        .collect()
}

fn check(runs: &[Observation], overhead: Option<&net::Overhead>, traced: &[Traced]) -> Checks {
    let mut checks = Checks::new();
    for run in runs {
        let delay = run.delay.as_millis();
        checks.law_holds(
            format!("the four packets at {delay} ms"),
            run.is_as_expected() && run.astray.is_none(),
            run.astray.clone().unwrap_or_else(|| describe(&run.packets)),
        );
        for (index, packet) in run.packets.iter().take(4).enumerate() {
            let slack = overhead.and_then(|overhead| overhead.packets.get(index));
            let law = milliseconds(run.delay) * (index + 1) as f64;
            checks.law(
                format!("packet {} comes, at {delay} ms", index + 1),
                milliseconds(packet.at),
                allowed(law, slack),
                "ms",
            );
        }
        checks.law(
            format!("associations at the server before the cookie comes, at {delay} ms"),
            run.held_before_cookie as f64,
            0.0..=0.0,
            "associations",
        );
        let law = milliseconds(run.delay) * 3.0;
        checks.law(
            format!("the message is at the server, at {delay} ms"),
            milliseconds(run.sctp_message),
            allowed(law, overhead.map(|overhead| &overhead.sctp_message)),
            "ms",
        );
        if let Some(overhead) = overhead {
            checks.law(
                format!("the message is at the server over TCP, at {delay} ms"),
                milliseconds(run.tcp_message),
                allowed(law, Some(&overhead.tcp_message)),
                "ms",
            );
        }
    }
    let same = runs.iter().all(|run| {
        run.packets.len() >= traced.len()
            && run.packets.iter().zip(traced).all(|(packet, traced)| {
                packet.from == traced.from && packet.chunks.first() == Some(&traced.chunk)
            })
    });
    checks.found(
        "the four packets of the trace, in their order",
        same,
        "others came",
    );
    let behind = runs.iter().all(|run| run.tcp_data_packet == 4);
    let packets: Vec<String> = runs
        .iter()
        .map(|run| run.tcp_data_packet.to_string())
        .collect();
    checks.found(
        "TCP's first data goes in its fourth packet",
        behind,
        format!("it went in packet {}", packets.join(", ")),
    );
    checks
}

/// From a time in milliseconds on, for as long as the machine may take; on the virtual clock a microsecond. A real
/// clock that is being set right runs up to 500 parts in a million too slow (adjtimex(2)).
fn allowed(law: f64, slack: Option<&Duration>) -> RangeInclusive<f64> {
    match slack {
        None => law..=law + 0.001,
        Some(slack) => law * (1.0 - 500e-6)..=law * (1.0 + 500e-6) + milliseconds(*slack),
    }
}

fn describe(packets: &[Arrived]) -> String {
    let describe =
        |packet: &Arrived| format!("{} from the {}", packet.chunks.join(" + "), packet.from);
    packets
        .iter()
        .take(4)
        .map(describe)
        .collect::<Vec<_>>()
        .join(", ")
}

fn values(run: &Observation) -> Value {
    let packets = run.packets.iter().map(|packet| {
        json!({
            "ms": milliseconds(packet.at),
            "from": packet.from,
            "chunks": packet.chunks,
        })
    });
    json!({
        "delay_ms": milliseconds(run.delay),
        "packets": packets.collect::<Vec<_>>(),
        "associations_before_cookie": run.held_before_cookie,
        "sctp_message_ms": milliseconds(run.sctp_message),
        "tcp_message_ms": milliseconds(run.tcp_message),
        "tcp_first_data_packet": run.tcp_data_packet,
    })
}

fn published(traced: &[Traced]) -> Value {
    let row = |traced: &Traced| json!({ "ms": traced.seconds * 1e3, "from": traced.from, "chunk": traced.chunk });
    json!({ "packets": traced.iter().map(row).collect::<Vec<_>>() })
}

fn table(run: &Observation) -> Table {
    let title = format!("Packets at {} ms in each direction", run.delay.as_millis());
    let mut table = Table::new(title)
        .column(Column::number("Arrives").unit("ms").key())
        .column(Column::text("From"))
        .column(Column::text("Chunks"));
    for packet in &run.packets {
        table.push(Row::new([
            Cell::number(milliseconds(packet.at), 3),
            Cell::from(packet.from),
            Cell::from(packet.chunks.join(" + ")),
        ]));
    }
    table
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_trace_of_the_document_is_read() {
        let chunks: Vec<String> = traced().into_iter().map(|traced| traced.chunk).collect();
        assert_eq!(chunks, ["INIT", "INIT ACK", "COOKIE ECHO", "COOKIE ACK"]);
    }
}
