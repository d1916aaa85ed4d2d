//! Packets from the one host to the other.

use std::io::IoSliceMut;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use nix::cmsg_space;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg, setsockopt, sockopt};
use nix::sys::time::TimeSpec;

use super::PACKET_BYTES;
use super::carrier::Carrier;
use super::hosts::ADDRESSES;

/// What a flood came to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Carried {
    /// Packets that arrived, a second on the clock.
    pub(super) per_second: f64,
    /// The same, a second of the CPU time of the thread that carried them.
    pub(super) per_cpu_second: f64,
}

/// The length of the packets that rates are measured with: few enough a second that a busy machine keeps up.
pub(super) const RATE_PACKET_BYTES: usize = 1000;

/// The headers of IPv4 and UDP.
const HEADERS: usize = 28;

/// What is under way when the sender stops has arrived after so long.
const REST: Duration = Duration::from_millis(100);

/// Sends packets for so long: so many a second, or as fast as they go. Nobody reads what arrives: that the
/// interface of the receiver counts it is enough.
pub(super) fn flood(
    carrier: &dyn Carrier,
    time: Duration,
    per_second: Option<u64>,
) -> anyhow::Result<Carried> {
    let (sender, _receiver) = sockets(carrier)?;
    let cpu = carrier.cpu()?;
    let before = arrived(carrier)?;
    let took = send(&sender, PACKET_BYTES, time, per_second);
    std::thread::sleep(REST);
    let count = (arrived(carrier)? - before) as f64;
    let used = carrier.cpu()?.saturating_sub(cpu);
    Ok(Carried {
        per_second: count / took.as_secs_f64(),
        per_cpu_second: count / used.as_secs_f64(),
    })
}

fn send(sender: &UdpSocket, bytes: usize, time: Duration, per_second: Option<u64>) -> Duration {
    let payload = vec![0; bytes - HEADERS];
    let interval = per_second.map(|packets| Duration::from_nanos(1_000_000_000 / packets));
    let start = Instant::now();
    let mut due = start;
    loop {
        let now = Instant::now();
        if now - start >= time {
            return now - start;
        }
        match interval {
            Some(_) if due > now => continue,
            Some(interval) => due += interval,
            None => {}
        }
        // A full queue is no error here: there the flood ends.
        sender.send(&payload).ok();
    }
}

/// Bits a second that arrive when so many packets a second are offered, from the first that arrives to the last,
/// by the times at which the kernel had them.
pub(super) fn rate(carrier: &dyn Carrier, time: Duration, per_second: u64) -> anyhow::Result<f64> {
    let (sender, receiver) = sockets(carrier)?;
    receiver.set_read_timeout(Some(Duration::from_millis(500)))?;
    std::thread::scope(|scope| {
        let receiving = scope.spawn(|| -> anyhow::Result<Vec<SystemTime>> {
            let mut times = Vec::new();
            while let Some((at, _)) = receive(&receiver)? {
                times.push(at);
            }
            Ok(times)
        });
        send(&sender, RATE_PACKET_BYTES, time, Some(per_second));
        let times = receiving.join().expect("the receiver ends")?;
        let [first, .., last] = times.as_slice() else {
            anyhow::bail!("nothing arrived");
        };
        // While the sender was at it: then the queue was never empty.
        let took = last.duration_since(*first)?;
        let bits = (times.len() - 1) * RATE_PACKET_BYTES * 8;
        Ok(bits as f64 / took.as_secs_f64())
    })
}

/// How much longer than `expected` packets take that are sent one by one: microseconds, the median and the 99th
/// percentile. From right before they are sent until the kernel of the receiver has them.
pub(super) fn probe(
    carrier: &dyn Carrier,
    time: Duration,
    expected: Duration,
) -> anyhow::Result<[f64; 2]> {
    /// Odd, so that ticks of a clock do not hide.
    const INTERVAL: Duration = Duration::from_micros(1_037);

    let (sender, receiver) = sockets(carrier)?;
    receiver.set_read_timeout(Some(Duration::from_millis(500)))?;
    let mut added = std::thread::scope(|scope| {
        let receiving = scope.spawn(|| -> anyhow::Result<Vec<f64>> {
            let mut added = Vec::new();
            while let Some((at, sent)) = receive(&receiver)? {
                let took = at.duration_since(sent).unwrap_or_default();
                added.push((took.as_secs_f64() - expected.as_secs_f64()) * 1e6);
            }
            Ok(added)
        });
        let start = Instant::now();
        while start.elapsed() < time {
            let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
            sender.send(&now.as_nanos().to_be_bytes())?;
            std::thread::sleep(INTERVAL);
        }
        receiving.join().expect("the receiver ends")
    })?;
    anyhow::ensure!(added.len() > 100, "only {} packets arrived", added.len());
    added.sort_by(f64::total_cmp);
    let at = |share: f64| added[(added.len() as f64 * share) as usize];
    Ok([at(0.5), at(0.99)])
}

/// When a packet arrived, and when it was sent if it says so; `None` when there is none any more.
fn receive(receiver: &UdpSocket) -> anyhow::Result<Option<(SystemTime, SystemTime)>> {
    let mut buffer = [0; RATE_PACKET_BYTES];
    let mut control = cmsg_space!(TimeSpec);
    let mut parts = [IoSliceMut::new(&mut buffer)];
    let received = recvmsg::<()>(
        receiver.as_raw_fd(),
        &mut parts,
        Some(&mut control),
        MsgFlags::empty(),
    );
    let received = match received {
        Ok(received) => received,
        Err(nix::errno::Errno::EAGAIN) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let at = received.cmsgs()?.find_map(|message| match message {
        ControlMessageOwned::ScmTimestampns(at) => Some(UNIX_EPOCH + Duration::from(at)),
        _ => None,
    });
    let at = at.context("the kernel does not tell when a packet arrived")?;
    let mut sent = [0; 16];
    sent.copy_from_slice(&buffer[..16]);
    let sent = u64::try_from(u128::from_be_bytes(sent)).unwrap_or(0);
    Ok(Some((at, UNIX_EPOCH + Duration::from_nanos(sent))))
}

/// A socket of the first host that is connected to one of the second.
fn sockets(carrier: &dyn Carrier) -> anyhow::Result<(UdpSocket, UdpSocket)> {
    let [left, right] = carrier.hosts();
    let receiver = right.run(|| UdpSocket::bind((ADDRESSES[1], 0)))??;
    let sender = left.run(|| UdpSocket::bind((ADDRESSES[0], 0)))??;
    setsockopt(&receiver, sockopt::ReceiveTimestampns, &true)?;
    sender.connect(receiver.local_addr()?)?;
    Ok((sender, receiver))
}

/// Packets that the interface of the second host has received.
fn arrived(carrier: &dyn Carrier) -> anyhow::Result<u64> {
    let [_, right] = carrier.hosts();
    let table = right.run(|| std::fs::read_to_string("/proc/thread-self/net/dev"))??;
    let line = table
        .lines()
        .find_map(|line| line.trim().strip_prefix("eth0:"));
    // Bytes, then packets.
    let packets = line.and_then(|line| line.split_whitespace().nth(1));
    Ok(packets.context("eth0 is not there")?.parse()?)
}
