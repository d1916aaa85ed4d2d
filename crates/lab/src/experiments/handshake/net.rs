//! The same on real sockets: two hosts, and the emulator, which delays. Our engine speaks through a UDP socket
//! (RFC 6951) on each, and the kernel's TCP beside it; all packets come from what the kernel of either host saw on
//! its interface.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use anyhow::Context as _;
use link::LinkConfig;
use packet_socket::{HEADER_LENGTH, PacketSocket};
use rand::{Rng, RngExt};
use rand_chacha::ChaCha12Rng;
use sctp::{Connect, Endpoint, EndpointConfig, Event, PathAddress, SendInfo};
use socket2::{Domain, Protocol, Socket, Type};
use testbed::{Testbed, Topology, ready_made};

use super::{Arrived, MESSAGE, Observation, TIMEOUT, chunks, describe};
use crate::context::Context;
use crate::net::{SaysItIsOver, Watch, ahead_of_others, joined};
use crate::pair::{MTU, PORT};

/// SCTP's UDP port (RFC 6951 section 4.1).
const ENCAPSULATION_PORT: u16 = 9899;

/// How long a socket is waited on before somebody looks whether all is over.
const LOOK: Duration = Duration::from_millis(20);

/// How long the kernel may take to begin to stamp packets.
const STAMPING: Duration = Duration::from_millis(200);

/// How long it takes the machine at most to do what the law counts for nothing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Overhead {
    /// When each of the four packets came over a link without delay, at the latest.
    pub(super) packets: [Duration; 4],
    pub(super) sctp_message: Duration,
    pub(super) tcp_message: Duration,
}

/// The earliest of several handshakes for each delay, and how long the same took without any. None when the machine
/// stood still during each of them.
pub(super) fn measure(
    context: &Context,
    delays: &[Duration],
    trials: usize,
) -> anyhow::Result<Option<(Vec<Observation>, Overhead)>> {
    let topology = ready_made("two-hosts").context("the topology is there")?;
    let topology = Topology::parse(topology.text, &[])?;
    let testbed = Testbed::up(&topology, "lab-handshake", context.rng(0).next_u64())?;
    let measured = ahead_of_others(context, || handshakes(context, &testbed, delays, trials));
    testbed.down();
    measured
}

fn handshakes(
    context: &Context,
    testbed: &Testbed,
    delays: &[Duration],
    trials: usize,
) -> anyhow::Result<Option<(Vec<Observation>, Overhead)>> {
    let mut number = 0;
    let mut late = Vec::new();
    let mut all = |delay: Duration| -> anyhow::Result<Vec<Observation>> {
        context.begin(format!("{} ms", delay.as_millis()));
        let link = LinkConfig {
            delay,
            ..LinkConfig::default()
        };
        testbed.emulator().set_link("link", None, link)?;
        let mut runs = Vec::new();
        for _ in 0..trials {
            number += 1;
            let watch = Watch::begin()?;
            let run = one(context, testbed, number, delay)?;
            let longest = watch.end().longest;
            if !may_repeat(longest, delay) {
                late.push(longest);
                runs.push(run);
            }
        }
        context.done();
        Ok(runs)
    };
    // The kernel begins to stamp packets a while after the first socket has asked for it, and stops with the last.
    let _stamped = PacketSocket::open(packet_socket::ANY)?;
    thread::sleep(STAMPING);
    let without = all(Duration::ZERO)?;
    let runs = delays.iter().map(|delay| Ok(earliest(all(*delay)?)));
    let runs: Option<Vec<Observation>> = runs.collect::<anyhow::Result<_>>()?;
    let runs = runs.filter(|_| !without.is_empty());
    Ok(runs.map(|runs| (runs, Overhead::of(&without, median(late)))))
}

/// The times held against the law are those of the best of several handshakes: how late the machine was during the worst
/// is no excuse for them.
fn median(mut late: Vec<Duration>) -> Duration {
    late.sort_unstable();
    late.get(late.len() / 2).copied().unwrap_or_default()
}

/// Whether somebody who was so late may have repeated a packet whose answer was there or on its way: that is done
/// after RTO.Initial (RFC 9260 section 5.1).
fn may_repeat(late: Duration, delay: Duration) -> bool {
    late + 2 * delay >= EndpointConfig::default().association.path.rto_initial
}

impl Overhead {
    fn of(runs: &[Observation], late: Duration) -> Overhead {
        // Where packets are delayed the emulator is woken once for each of them.
        let latest = |packets: u32, time: &dyn Fn(&Observation) -> Option<Duration>| {
            runs.iter().filter_map(time).max().unwrap_or_default() + packets * late
        };
        let at = |index: usize| move |run: &Observation| Some(run.packets.get(index)?.at);
        Overhead {
            packets: [(1, 0), (2, 1), (3, 2), (4, 3)]
                .map(|(packets, index)| latest(packets, &at(index))),
            sctp_message: latest(3, &|run| Some(run.sctp_message)),
            tcp_message: latest(3, &|run| Some(run.tcp_message)),
        }
    }
}

/// Of several runs the one with the earliest time of each thing: what a machine does beside that makes them later,
/// and nothing earlier. Runs whose packets are others than they should be are told of, and their times do not count where
/// there are other runs; what was held is the most of all.
fn earliest(runs: Vec<Observation>) -> Option<Observation> {
    let all = runs.len();
    let held = runs.iter().map(|run| run.held_before_cookie).max();
    let (expected, others): (Vec<Observation>, Vec<Observation>) =
        runs.into_iter().partition(Observation::is_as_expected);
    let astray = others.first().map(|other| {
        let count = others.len();
        format!(
            "in {count} of {all} handshakes, such as {}",
            describe(&other.packets)
        )
    });
    let counted = match expected.is_empty() {
        true => others,
        false => expected,
    };
    let join = |mut one: Observation, other: Observation| {
        one.tcp_data_packet = one.tcp_data_packet.max(other.tcp_data_packet);
        for (packet, other) in one.packets.iter_mut().zip(&other.packets) {
            packet.at = packet.at.min(other.at);
        }
        one.sctp_message = one.sctp_message.min(other.sctp_message);
        one.tcp_message = one.tcp_message.min(other.tcp_message);
        one
    };
    let mut joined = counted.into_iter().reduce(join)?;
    joined.held_before_cookie = held?;
    joined.astray = astray;
    Some(joined)
}

/// A handshake of SCTP, and one of TCP.
fn one(
    context: &Context,
    testbed: &Testbed,
    number: u64,
    delay: Duration,
) -> anyhow::Result<Observation> {
    let address = |host: &str| -> anyhow::Result<IpAddr> {
        let addresses = testbed.addresses(host);
        addresses
            .first()
            .copied()
            .context("the host has an address")
    };
    let (client, server) = (address("client")?, address("server")?);
    let rng = |side: u64| context.rng((number << 8) + side);
    let (sctp, (held_before_cookie, sctp_message)) =
        received_packets(testbed, UDP, |start, is_over| {
            thread::scope(|scope| {
                let (ready, is_ready) = std::sync::mpsc::channel();
                let serving = scope.spawn(move || {
                    testbed.enter("server")?;
                    let mut speaker = Speaker::open(server, rng(1))?;
                    // The client may be gone.
                    let _ = ready.send(());
                    serve(&mut speaker, start, is_over)
                });
                let calling = scope.spawn(move || {
                    // Whoever serves need not wait for a client that has broken down.
                    let _over = SaysItIsOver(is_over);
                    testbed.enter("client")?;
                    let speaker = Speaker::open(client, rng(2))?;
                    is_ready.recv().context("the server does not begin")?;
                    call(speaker, server, is_over)
                });
                let served = joined(serving.join());
                is_over.store(true, Ordering::Relaxed);
                joined(calling.join())?;
                served
            })
        })?;
    let (tcp, tcp_message) = received_packets(testbed, TCP, |_, _| tcp(testbed, server))?;
    let data = tcp.iter().position(|segment| segment.data > 0);
    let begin = |packets: &[ReceivedPacket]| packets.first().map(|packet| packet.sent);
    let (begin, tcp_begin) = (begin(&sctp), begin(&tcp));
    let (begin, tcp_begin) = begin.zip(tcp_begin).context("no packets were heard")?;
    Ok(Observation {
        delay,
        packets: sctp
            .into_iter()
            .map(|packet| Arrived {
                at: since(begin, packet.at),
                from: packet.from,
                chunks: packet.chunks,
            })
            .collect(),
        astray: None,
        held_before_cookie,
        sctp_message: since(begin, sctp_message),
        tcp_message: since(tcp_begin, tcp_message),
        tcp_data_packet: data.map_or(0, |index| index + 1),
    })
}

fn since(begin: SystemTime, at: SystemTime) -> Duration {
    at.duration_since(begin).unwrap_or_default()
}

/// A packet that one of the hosts received.
#[derive(Clone, Debug, PartialEq)]
struct ReceivedPacket {
    /// When the first packet of all was sent: the same for all of them.
    sent: SystemTime,
    at: SystemTime,
    from: &'static str,
    chunks: Vec<String>,
    /// Bytes of user data, of a segment of TCP.
    data: usize,
}

/// The numbers of UDP and TCP.
const UDP: u8 = 17;
const TCP: u8 = 6;

/// Does something while both hosts are listened to; gives the packets of a protocol that came to them, in order of
/// time. (Connections that were closed before may still say so.)
fn received_packets<T>(
    testbed: &Testbed,
    protocol: u8,
    work: impl FnOnce(Instant, &AtomicBool) -> anyhow::Result<T>,
) -> anyhow::Result<(Vec<ReceivedPacket>, T)> {
    let open = |host: &str| -> anyhow::Result<PacketSocket> {
        Ok(testbed.run(host, || PacketSocket::open(packet_socket::ANY))??)
    };
    let mut sockets = [open("client")?, open("server")?];
    let is_over = AtomicBool::new(false);
    let done = work(Instant::now(), &is_over)?;
    let over = SystemTime::now();
    let mut sent = None;
    let mut packets = Vec::new();
    for (socket, from) in sockets.iter_mut().zip(["server", "client"]) {
        // The kernel has kept what came meanwhile.
        while let Some(packet) = socket.receive(LOOK)? {
            let read = read(packet.octets).filter(|read| read.protocol == protocol);
            let Some(read) = read else {
                continue;
            };
            if packet.time > over {
                // It came afterwards, or bears the time of its reading.
                continue;
            }
            if read.is_outgoing {
                let first: &mut SystemTime = sent.get_or_insert(packet.time);
                *first = packet.time.min(*first);
            } else {
                packets.push((packet.time, from, read));
            }
        }
    }
    packets.sort_by_key(|(at, ..)| *at);
    let sent = sent.context("nothing was sent")?;
    let packets = packets.into_iter().map(|(at, from, read)| ReceivedPacket {
        sent,
        at,
        from,
        chunks: read.chunks,
        data: read.data,
    });
    Ok((packets.collect(), done))
}

/// What stands in a packet.
#[derive(Debug, PartialEq)]
struct Contents {
    is_outgoing: bool,
    protocol: u8,
    chunks: Vec<String>,
    data: usize,
}

/// Reads a packet of SCTP in UDP, or of TCP, over IPv4 (RFC 791 section 3.1) behind a header of Linux cooked
/// capture v2, whose eleventh octet says whether the host has sent it.
fn read(octets: &[u8]) -> Option<Contents> {
    const OUTGOING: u8 = 4;
    let is_outgoing = *octets.get(10)? == OUTGOING;
    let ip = octets.get(HEADER_LENGTH..)?;
    let first = *ip.first()?;
    if first >> 4 != 4 {
        return None;
    }
    let total = usize::from(u16::from_be_bytes(*ip.get(2..)?.first_chunk()?));
    let payload = ip.get(4 * usize::from(first & 0x0f)..total)?;
    let protocol = *ip.get(9)?;
    let (chunks, data) = match protocol {
        UDP => (chunks(payload.get(8..)?), 0),
        TCP => {
            let header = 4 * usize::from(payload.get(12)? >> 4);
            (Vec::new(), payload.len().saturating_sub(header))
        }
        _ => return None,
    };
    Some(Contents {
        is_outgoing,
        protocol,
        chunks,
        data,
    })
}

/// Our engine on a socket.
struct Speaker {
    endpoint: Endpoint,
    socket: UdpSocket,
    local: IpAddr,
    buffer: Vec<u8>,
}

impl Speaker {
    fn open(local: IpAddr, mut rng: ChaCha12Rng) -> anyhow::Result<Speaker> {
        let config = EndpointConfig::default().mtu(MTU).path_mtu_discovery(false);
        Ok(Speaker {
            endpoint: Endpoint::new(PORT, config, rng.random()),
            socket: UdpSocket::bind((local, ENCAPSULATION_PORT))?,
            local,
            buffer: vec![0; 65_535],
        })
    }

    fn path(&self, remote: IpAddr) -> PathAddress {
        PathAddress {
            local: Some(self.local),
            remote,
            encapsulation_port: Some(ENCAPSULATION_PORT),
        }
    }

    /// Sends what is due, and waits for a packet, or for a timer, for a while. `before` sees the engine before it
    /// takes the packet in.
    fn turn(&mut self, before: impl FnOnce(&Endpoint, &[u8])) -> anyhow::Result<()> {
        let now = Instant::now();
        while let Some(transmit) = self.endpoint.poll_transmit(now) {
            let to = SocketAddr::new(transmit.path.remote, ENCAPSULATION_PORT);
            self.socket.send_to(&transmit.packet, to)?;
        }
        let due = self.endpoint.next_timeout();
        let wait = due.map_or(LOOK, |due| due.saturating_duration_since(now).min(LOOK));
        let wait = wait.max(Duration::from_micros(1));
        self.socket.set_read_timeout(Some(wait))?;
        match self.socket.recv_from(&mut self.buffer) {
            Ok((length, from)) => {
                let packet = &self.buffer[..length];
                before(&self.endpoint, packet);
                let (path, packet) = (self.path(from.ip()), packet.to_vec());
                self.endpoint
                    .handle_packet(Instant::now(), path, packet.into());
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(error) => return Err(error.into()),
        }
        self.endpoint.handle_timeout(Instant::now());
        Ok(())
    }
}

/// Waits for the message; says how many associations there were at most before the cookie came, and when the
/// message did.
fn serve(
    speaker: &mut Speaker,
    start: Instant,
    is_over: &AtomicBool,
) -> anyhow::Result<(usize, SystemTime)> {
    let mut held = 0;
    while start.elapsed() < TIMEOUT {
        speaker.turn(|endpoint, packet| {
            if chunks(packet)
                .first()
                .is_some_and(|chunk| chunk == "COOKIE ECHO")
            {
                held = held.max(endpoint.association_count());
            }
        })?;
        let now = Instant::now();
        while let Some(event) = speaker.endpoint.poll_event() {
            if let Event::Readable { id } = event
                && speaker.endpoint.receive(now, id).is_some()
            {
                let at = SystemTime::now();
                // Its acknowledgement goes with the COOKIE ACK.
                speaker.turn(|_, _| {})?;
                return Ok((held, at));
            }
        }
        anyhow::ensure!(!is_over.load(Ordering::Relaxed), "the client has ended");
    }
    anyhow::bail!("no message came within {TIMEOUT:?}")
}

/// Opens an association with a message to send at once, and goes on until all is over.
fn call(mut speaker: Speaker, server: IpAddr, is_over: &AtomicBool) -> anyhow::Result<()> {
    let connect = Connect {
        peer: vec![speaker.path(server)],
        port: PORT,
        config: None,
    };
    let now = Instant::now();
    let id = speaker.endpoint.connect_with(now, connect)?;
    let message = vec![0; MESSAGE].into();
    speaker
        .endpoint
        .send(now, id, SendInfo::default(), message)?;
    let mut is_up = false;
    // The fourth packet is waited for, too.
    while !(is_over.load(Ordering::Relaxed) && is_up) {
        speaker.turn(|_, _| {})?;
        while let Some(event) = speaker.endpoint.poll_event() {
            is_up |= matches!(event, Event::CommunicationUp { .. });
        }
        anyhow::ensure!(now.elapsed() < TIMEOUT, "the association does not come up");
    }
    Ok(())
}

/// A connection with a message to send at once; says when the message came.
fn tcp(testbed: &Testbed, server: IpAddr) -> anyhow::Result<SystemTime> {
    let address = SocketAddr::new(server, PORT);
    let listener = testbed.run("server", || listen(address))??;
    thread::scope(|scope| {
        let calling = scope.spawn(move || {
            testbed.enter("client")?;
            let mut stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
            stream.set_nodelay(true)?;
            stream.write_all(&[0; MESSAGE])?;
            // Until the server has it.
            stream.set_read_timeout(Some(TIMEOUT))?;
            let _ = stream.read(&mut [0]);
            anyhow::Ok(())
        });
        let read = || {
            let mut stream = TcpStream::from(listener.accept()?.0);
            stream.set_read_timeout(Some(TIMEOUT))?;
            stream.read_exact(&mut [0; MESSAGE])?;
            anyhow::Ok(SystemTime::now())
        };
        let read = read();
        joined(calling.join())?;
        read.context("the message does not come over TCP")
    })
}

/// A listener that waits for nobody for ever.
fn listen(address: SocketAddr) -> anyhow::Result<Socket> {
    let listener = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    // Connections that were closed before do not stand in its way.
    listener.set_reuse_address(true)?;
    listener.bind(&address.into())?;
    listener.listen(1)?;
    listener.set_read_timeout(Some(TIMEOUT))?;
    Ok(listener)
}

#[cfg(test)]
mod tests {
    use super::super::{check, traced};
    use super::*;
    use crate::verdict::Verdict;
    use proptest::prelude::*;

    fn run(times: [u64; 4], chunk: &str) -> Observation {
        let packets: [(&str, &[&str]); 4] = [
            ("client", &[chunk]),
            ("server", &["INIT ACK"]),
            ("client", &["COOKIE ECHO", "DATA"]),
            ("server", &["COOKIE ACK", "SACK"]),
        ];
        let packets = times
            .into_iter()
            .zip(packets)
            .map(|(at, (from, chunks))| Arrived {
                at: Duration::from_millis(at),
                from,
                chunks: chunks.iter().map(|chunk| (*chunk).to_owned()).collect(),
            });
        Observation {
            delay: Duration::ZERO,
            packets: packets.collect(),
            astray: None,
            held_before_cookie: 0,
            sctp_message: Duration::from_millis(times[2]),
            tcp_message: Duration::from_millis(times[2] + 1),
            tcp_data_packet: 4,
        }
    }

    #[test]
    fn of_several_runs_the_earliest_times_count() {
        let all = earliest(vec![run([2, 4, 6, 8], "INIT"), run([3, 3, 7, 7], "INIT")]);
        let all = all.expect("there are two");
        let times: Vec<u128> = all.packets.iter().map(|one| one.at.as_millis()).collect();
        assert_eq!(times, [2, 3, 6, 7]);
        assert_eq!(all.sctp_message, Duration::from_millis(6));
        let overhead = Overhead::of(&[run([1, 2, 3, 4], "INIT"), all], Duration::from_millis(1));
        let latest = overhead.packets.map(|time| time.as_millis());
        assert_eq!(latest, [3, 5, 9, 11]);
        assert_eq!(overhead.tcp_message, Duration::from_millis(10));
        assert!(earliest(Vec::new()).is_none());
    }

    #[test]
    fn one_run_with_other_packets_is_told_of() {
        let (good, bad) = (run([2, 4, 6, 8], "INIT"), run([1, 1, 1, 1], "ABORT"));
        let of = |runs: &[&Observation]| {
            let all = earliest(runs.iter().map(|run| (*run).clone()).collect());
            all.expect("there are some")
        };
        assert_eq!(of(&[&good, &good]).astray, None);
        for (runs, count) in [
            (&[&good, &good, &bad][..], "in 1 of 3 "),
            (&[&bad, &good, &bad], "in 2 of 3 "),
        ] {
            let all = of(runs);
            // What should have been is timed.
            assert!(all.is_as_expected());
            assert_eq!(all.packets[0].at, Duration::from_millis(2));
            let astray = all.astray.clone().expect("one is another");
            assert!(
                astray.starts_with(count) && astray.contains("ABORT"),
                "{astray}"
            );
            let overhead = Overhead::of(std::slice::from_ref(&good), Duration::ZERO);
            let (verdict, why) = check(&[all], Some(&overhead), &traced()).verdict();
            assert_eq!(verdict, Verdict::Fails);
            assert!(why.starts_with("the four packets at 0 ms: in "), "{why}");
        }
        assert!(!of(&[&bad, &bad]).is_as_expected());
    }

    #[test]
    fn what_was_held_is_the_most_of_all_runs() {
        let good = run([2, 4, 6, 8], "INIT");
        let held = |run: &Observation, held_before_cookie| Observation {
            held_before_cookie,
            ..run.clone()
        };
        let bad = run([1, 1, 1, 1], "ABORT");
        let of = |runs: Vec<Observation>| earliest(runs).expect("some").held_before_cookie;
        assert_eq!(of(vec![good.clone(), held(&good, 1), good.clone()]), 1);
        assert_eq!(of(vec![good.clone(), held(&bad, 2), good]), 2);
    }

    #[test]
    fn the_lateness_of_one_handshake_excuses_nothing() {
        let milliseconds = Duration::from_millis;
        let late = [1, 300, 2, 1, 2].map(milliseconds);
        assert_eq!(median(late.to_vec()), milliseconds(2));
        assert_eq!(median(Vec::new()), Duration::ZERO);
    }

    #[test]
    fn who_stood_still_for_the_rest_of_rto_initial_may_have_repeated() {
        let milliseconds = Duration::from_millis;
        assert!(!may_repeat(milliseconds(400), milliseconds(250)));
        assert!(may_repeat(milliseconds(500), milliseconds(250)));
        assert!(may_repeat(milliseconds(1000), Duration::ZERO));
    }

    #[test]
    fn a_segment_has_the_data_behind_its_header() {
        let mut octets = vec![0; HEADER_LENGTH];
        octets[10] = 4;
        octets.extend([
            0x45, 0, 0, 47, 0, 0, 0, 0, 64, 6, 0, 0, 10, 1, 0, 1, 10, 1, 0, 2,
        ]);
        let mut segment = [0; 27];
        segment[12] = 6 << 4;
        octets.extend(segment);
        let read = read(&octets).expect("a segment");
        assert!(read.is_outgoing);
        assert_eq!((read.protocol, read.data), (TCP, 3));
    }

    proptest! {
        #[test]
        fn any_octets_are_a_packet_or_none(octets: Vec<u8>) {
            let _ = read(&octets);
        }
    }
}
