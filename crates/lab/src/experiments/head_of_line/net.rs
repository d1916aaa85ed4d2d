//! On real sockets: one clock for both users and for a packet socket at the receiver.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use anyhow::Context as _;
use bytes::Bytes;
use link::LinkConfig;
use packet_socket::{ANY, HEADER_LENGTH, PacketSocket};
use rand::Rng;
use sctp_net::SendInfo;
use tokio::time::{sleep_until, timeout};

use super::reception::{
    Delivered, Reception, arrivals_over_sctp, arrivals_over_tcp, datagram, number,
};
use super::{CALLS, Carrier, DELAY, MESSAGE, RATE, WINDOW, sctp_config};
use crate::congestion::Congestion;
use crate::context::Context;
use crate::net::{Watch, joined, runtime};
use crate::two_hosts::{Over, PORT, Ready, TIMEOUT, TwoHosts, sctp_endpoint, tcp_socket};

/// Times of packets are those of the system's clock, and so are all others here.
type Stamped = Vec<(SystemTime, u64)>;

/// Says when it began, and what came of it.
pub(super) fn carry(
    context: &Context,
    number: u64,
    carrier: Carrier,
    loss: f64,
    messages: u64,
) -> anyhow::Result<(Instant, Reception)> {
    let link = LinkConfig {
        loss: loss.into(),
        delay: DELAY,
        ..LinkConfig::default()
    };
    let hosts = TwoHosts::up(context.rng(number).next_u64(), link, WINDOW)?;
    let (from, to) = (hosts.client, hosts.server);
    let watch = Watch::begin()?;
    let (start, began) = (Instant::now(), SystemTime::now());
    let is_over = AtomicBool::new(false);
    // Before anything is sent: what it has not heard counts as what never came.
    let socket = hosts.on_server(|| PacketSocket::open(ANY))??;
    let (done, packets) = thread::scope(|scope| {
        let packets = scope.spawn(|| capture(socket, &is_over));
        let done = hosts.run(
            |ready| match carrier {
                Carrier::Tcp => receive_tcp(to, ready),
                _ => receive_sctp(to, ready),
            },
            |server_is_over| match carrier {
                Carrier::Tcp => send_tcp(from, to, messages),
                _ => send_sctp(from, to, carrier, messages, server_is_over),
            },
        );
        is_over.store(true, Ordering::Relaxed);
        (done, joined(packets.join()))
    });
    let late = watch.end().usual;
    let ((received, sent), packets) = (done?, packets?);
    hosts.down();

    let instant = |at: SystemTime| start + at.duration_since(began).unwrap_or_default();
    let packets = packets
        .iter()
        .map(|(at, packet)| (instant(*at), &packet[..]));
    let arrivals = match carrier {
        Carrier::Tcp => arrivals_over_tcp(packets, messages as usize, 0),
        _ => {
            let packets = packets.filter_map(|(at, packet)| Some((at, datagram(packet)?)));
            arrivals_over_sctp(packets, messages as usize)
        }
    };
    let delivered = received.into_iter().map(|(at, number)| {
        let sent = usize::try_from(number)
            .ok()
            .and_then(|index| sent.get(index));
        let (sent, _) = sent.context("a message came that nobody has sent")?;
        Ok(Delivered {
            number,
            sent: instant(*sent),
            at: instant(at),
        })
    });
    let reception = Reception {
        delivered: delivered.collect::<anyhow::Result<_>>()?,
        arrivals,
        late,
    };
    Ok((start, reception))
}

/// The packets that come to the server, from IP on, until it is over.
fn capture(
    mut socket: PacketSocket,
    is_over: &AtomicBool,
) -> anyhow::Result<Vec<(SystemTime, Vec<u8>)>> {
    const LOOK: Duration = Duration::from_millis(20);
    /// PACKET_HOST: what came for this host.
    const TO_US: u8 = 0;
    let mut packets = Vec::new();
    while !is_over.load(Ordering::Relaxed) {
        let Some(packet) = socket.receive(LOOK)? else {
            continue;
        };
        let (header, rest) = packet
            .octets
            .split_at(HEADER_LENGTH.min(packet.octets.len()));
        if header.get(10) == Some(&TO_US) {
            packets.push((packet.time, rest.to_vec()));
        }
    }
    anyhow::ensure!(socket.dropped() == 0, "the capture has holes");
    Ok(packets)
}

/// A message with its number at the beginning.
fn message(number: u64) -> Vec<u8> {
    let mut message = vec![0; MESSAGE];
    message[..8].copy_from_slice(&number.to_be_bytes());
    message
}

/// When a message is to be sent, after the first.
fn after(number: u64) -> Duration {
    Duration::from_secs_f64(number as f64 / RATE)
}

fn send_tcp(from: IpAddr, to: IpAddr, messages: u64) -> anyhow::Result<Stamped> {
    let socket = tcp_socket(from, WINDOW, Congestion::Reno)?;
    socket.bind(&SocketAddr::new(from, 0).into())?;
    socket.connect_timeout(&SocketAddr::new(to, PORT).into(), TIMEOUT)?;
    let mut stream = TcpStream::from(socket);
    stream.set_write_timeout(Some(TIMEOUT))?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    let mut sent = Vec::new();
    let begin = Instant::now();
    for number in 0..messages {
        let message = message(number);
        thread::sleep((begin + after(number)).saturating_duration_since(Instant::now()));
        sent.push((SystemTime::now(), number));
        stream.write_all(&message)?;
    }
    stream.shutdown(std::net::Shutdown::Write)?;
    // The receiver ends it when it has read all.
    let left = stream.read(&mut [0])?;
    anyhow::ensure!(left == 0, "the receiver speaks");
    Ok(sent)
}

fn receive_tcp(address: IpAddr, ready: Ready) -> anyhow::Result<Stamped> {
    let listener = tcp_socket(address, WINDOW, Congestion::Reno)?;
    listener.bind(&SocketAddr::new(address, PORT).into())?;
    listener.listen(1)?;
    let _ = ready.send(());
    listener.set_read_timeout(Some(TIMEOUT))?;
    let mut stream = TcpStream::from(listener.accept()?.0);
    stream.set_read_timeout(Some(TIMEOUT))?;
    let mut received = Vec::new();
    let mut buffer = vec![0; WINDOW];
    let mut pending = Vec::new();
    loop {
        let bytes = match stream.read(&mut buffer) {
            Ok(0) => return Ok(received),
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error).context("no more came"),
        };
        let now = SystemTime::now();
        pending.extend_from_slice(&buffer[..bytes]);
        let mut messages = pending.chunks_exact(MESSAGE);
        received.extend(
            messages
                .by_ref()
                .filter_map(number)
                .map(|number| (now, number)),
        );
        pending = messages.remainder().to_vec();
        // Linux forgets the bound when it finds out how much memory packets of this kind take.
        tcp_info::clamp_window(stream.as_fd(), WINDOW as u32)?;
    }
}

fn send_sctp(
    from: IpAddr,
    to: IpAddr,
    carrier: Carrier,
    messages: u64,
    is_over: Over,
) -> anyhow::Result<Stamped> {
    let runtime = runtime()?;
    let sent = runtime.block_on(async {
        let (_stack, endpoint) = sctp_endpoint(from, sctp_config())?;
        let association = endpoint.connect(to, PORT, None).await?;
        let mut sent = Vec::new();
        let begin = Instant::now();
        for number in 0..messages {
            let message = Bytes::from(message(number));
            let stream = match carrier {
                Carrier::StreamACall => (number % u64::from(CALLS)) as u16,
                _ => 0,
            };
            let info = SendInfo {
                stream,
                unordered: carrier == Carrier::Unordered,
                ..SendInfo::default()
            };
            sleep_until((begin + after(number)).into()).await;
            sent.push((SystemTime::now(), number));
            association.send(info, message).await?;
        }
        timeout(TIMEOUT, association.shutdown())
            .await
            .context("the receiver does not end it")?;
        // A receiver that has not heard the last packet asks again (RFC 9260 section 9.2), and is answered.
        let _ = timeout(TIMEOUT, is_over).await;
        anyhow::Ok(sent)
    });
    runtime.shutdown_background();
    sent
}

fn receive_sctp(address: IpAddr, ready: Ready) -> anyhow::Result<Stamped> {
    let runtime = runtime()?;
    let received = runtime.block_on(async {
        let (_stack, endpoint) = sctp_endpoint(address, sctp_config())?;
        let _ = ready.send(());
        let accepted = timeout(TIMEOUT, endpoint.accept()).await;
        let association = accepted.ok().flatten().context("nobody came")?;
        let mut received = Vec::new();
        while let Some(message) = timeout(TIMEOUT, association.receive())
            .await
            .context("no more came")?
        {
            let now = SystemTime::now();
            let number = number(&message.payload).context("a message without a number came")?;
            received.push((now, number));
        }
        anyhow::Ok(received)
    });
    runtime.shutdown_background();
    received
}
