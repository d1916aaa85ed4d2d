//! The scenario on real sockets: each sender and each receiver in a network namespace of its own, with
//! the emulator as the line between them. SCTP is ours, right on IP where that can be; TCP is the kernel's.

use std::cell::Cell;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use bytes::Bytes;
use rand::Rng;
use sctp_net::{Endpoint, SendInfo, Stack};
use socket2::{Domain, Protocol, Socket, Type};
use testbed::{Testbed, Topology, ready_made};
use tokio::time::{sleep_until, timeout_at};

use super::{Flow, Received, SEND_BUFFER, Scenario, Transport, WINDOW, link_config, sctp_config};
use crate::context::Context;
use crate::net::{joined, runtime, sctp_stack, side_by_side};

const PORT: u16 = 5001;

/// How many scenarios run at once. Their lines carry 100 kByte a second: the processor has little to
/// do.
const AT_ONCE: usize = 6;

/// How long what was sent may take after the last sender has fallen silent.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

pub(super) fn run_scenarios(
    context: &Context,
    number: u64,
    scenarios: &[Scenario],
) -> anyhow::Result<Vec<Vec<Received>>> {
    side_by_side(AT_ONCE, scenarios.len(), |index| {
        let seed = context.rng(number + index as u64).next_u64();
        let received = one(seed, &scenarios[index]);
        context.done();
        received
    })
}

fn one(seed: u64, scenario: &Scenario) -> anyhow::Result<Vec<Received>> {
    let dumbbell = ready_made("dumbbell").context("the topology is there")?;
    let senders = u32::try_from(scenario.flows.len())?;
    let topology = Topology::parse(dumbbell.text, &[("senders", senders)])?;
    let testbed = Testbed::up(&topology, "lab", seed)?;
    testbed
        .emulator()
        .set_link("bottleneck", None, link_config(&scenario.line))?;

    // Whatever can go wrong before the threads are there goes wrong here.
    let pairs = (1..=scenario.flows.len())
        .map(|index| {
            let from = address(&testbed, &format!("sender{index}"))?;
            let to = address(&testbed, &format!("receiver{index}"))?;
            Ok((index, from, to))
        })
        .collect::<anyhow::Result<Vec<_>>>()?;

    let ready = Barrier::new(2 * scenario.flows.len() + 1);
    let outcome = thread::scope(|scope| {
        let mut receivers = Vec::new();
        let mut senders = Vec::new();
        for ((index, from, to), flow) in pairs.into_iter().zip(&scenario.flows) {
            let testbed = &testbed;
            let entry = Entry::new(&ready);
            receivers.push(scope.spawn(move || {
                let place = HostThread::of(testbed, &format!("receiver{index}"), to, entry)?;
                place.receive(flow.transport, scenario.lasts)
            }));
            let entry = Entry::new(&ready);
            senders.push(scope.spawn(move || {
                let place = HostThread::of(testbed, &format!("sender{index}"), from, entry)?;
                place.send(flow, to)
            }));
        }
        drop(Entry::new(&ready));
        for sender in senders {
            joined(sender.join())?;
        }
        receivers
            .into_iter()
            .map(|receiver| joined(receiver.join()))
            .collect()
    });
    testbed.down();
    outcome
}

fn address(testbed: &Testbed, host: &str) -> anyhow::Result<IpAddr> {
    let address = testbed.addresses(host).first().copied();
    address.with_context(|| format!("{host} has no address"))
}

/// A thread's way through the barrier, exactly once: when it is ready, or when it ends before in
/// whatever way. Nobody waits for it in vain.
struct Entry<'a> {
    ready: &'a Barrier,
    passed: Cell<bool>,
}

impl Entry<'_> {
    fn new(ready: &Barrier) -> Entry<'_> {
        Entry {
            ready,
            passed: Cell::new(false),
        }
    }

    /// Waits for all others.
    fn pass(&self) {
        if !self.passed.replace(true) {
            self.ready.wait();
        }
    }
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        self.pass();
    }
}

/// A thread on a host of the network.
struct HostThread<'a> {
    address: IpAddr,
    /// All threads wait here until the last is ready: then the scenario begins.
    entry: Entry<'a>,
}

impl HostThread<'_> {
    fn of<'a>(
        testbed: &Testbed,
        host: &str,
        address: IpAddr,
        entry: Entry<'a>,
    ) -> anyhow::Result<HostThread<'a>> {
        testbed.enter(host)?;
        Ok(HostThread { address, entry })
    }

    /// Receives for so long.
    fn receive(&self, transport: Transport, lasts: Duration) -> anyhow::Result<Received> {
        match transport {
            Transport::Tcp => {
                let listener = self.prepared(|| {
                    let listener = self.tcp_socket()?;
                    listener.bind(&SocketAddr::new(self.address, PORT).into())?;
                    listener.listen(1)?;
                    Ok(listener)
                })?;
                let start = Instant::now();
                receive_tcp(&listener, start, lasts)
            }
            Transport::Sctp { bundled } => {
                let runtime = runtime()?;
                let endpoint = self.prepared(|| self.sctp_endpoint(&runtime, bundled))?;
                let start = Instant::now();
                let received = runtime.block_on(receive_sctp(&endpoint.1, start, lasts));
                runtime.shutdown_background();
                Ok(received)
            }
        }
    }

    /// Sends as the flow has it.
    fn send(&self, flow: &Flow, to: IpAddr) -> anyhow::Result<()> {
        match flow.transport {
            Transport::Tcp => {
                let socket = self.prepared(|| {
                    let socket = self.tcp_socket()?;
                    socket.bind(&SocketAddr::new(self.address, 0).into())?;
                    Ok(socket)
                })?;
                send_tcp(socket, flow, to, Instant::now())
            }
            Transport::Sctp { bundled } => {
                let runtime = runtime()?;
                let endpoint = self.prepared(|| self.sctp_endpoint(&runtime, bundled))?;
                let start = Instant::now();
                let sent = runtime.block_on(send_sctp(&endpoint.1, flow, to, start));
                runtime.shutdown_background();
                sent
            }
        }
    }

    /// Prepares something, and waits for all others, also when it fails.
    fn prepared<T>(&self, prepare: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
        let prepared = prepare();
        self.entry.pass();
        prepared
    }

    /// A socket of the kernel's TCP as Jungmaier 2000 has it: Reno, and a window of 32 KByte.
    fn tcp_socket(&self) -> anyhow::Result<Socket> {
        let domain = Domain::for_address(SocketAddr::new(self.address, PORT));
        let socket = Socket::new(domain, Type::STREAM, Some(Protocol::TCP))?;
        socket
            .set_tcp_congestion(b"reno")
            .context("the kernel has no Reno")?;
        socket.set_send_buffer_size(SEND_BUFFER)?;
        // A buffer of fixed size: otherwise the kernel tunes it, and the window with it.
        socket.set_recv_buffer_size(4 * WINDOW)?;
        tcp_info::clamp_window(socket.as_fd(), WINDOW as u32)?;
        Ok(socket)
    }

    fn sctp_endpoint(
        &self,
        runtime: &tokio::runtime::Runtime,
        bundled: bool,
    ) -> anyhow::Result<(Stack, Endpoint)> {
        let _inside = runtime.enter();
        let stack = sctp_stack(vec![self.address], None)?;
        let endpoint = stack.endpoint(PORT, sctp_config(bundled))?;
        Ok((stack, endpoint))
    }
}

async fn receive_sctp(endpoint: &Endpoint, start: Instant, lasts: Duration) -> Received {
    let mut received = Received::default();
    let end = (start + lasts).into();
    let Ok(Some(association)) = timeout_at(end, endpoint.accept()).await else {
        return received;
    };
    while let Ok(Some(message)) = timeout_at(end, association.receive()).await {
        received
            .arrivals
            .push((start.elapsed(), message.payload.len()));
    }
    association.abort(b"the scenario is over");
    received
}

async fn send_sctp(
    endpoint: &Endpoint,
    flow: &Flow,
    to: IpAddr,
    start: Instant,
) -> anyhow::Result<()> {
    sleep_until((start + flow.begins).into()).await;
    let association = endpoint.connect(to, PORT, None).await?;
    let payload = Bytes::from(vec![0; flow.message]);
    // In the order of arrival (Jungmaier 2000, section 5.1).
    let info = SendInfo {
        unordered: true,
        ..SendInfo::default()
    };
    let end = (start + flow.ends).into();
    let mut due = Instant::now();
    loop {
        if let Some(rate) = flow.rate {
            due += Duration::from_secs_f64(flow.message as f64 / rate);
            sleep_until(due.into()).await;
        }
        match timeout_at(end, association.send(info, payload.clone())).await {
            Ok(sent) => sent?,
            Err(_) => break,
        }
        if Instant::now() >= start + flow.ends {
            break;
        }
    }
    let _ = tokio::time::timeout(LONGEST_WAIT, association.shutdown()).await;
    Ok(())
}

fn receive_tcp(listener: &Socket, start: Instant, lasts: Duration) -> anyhow::Result<Received> {
    let mut received = Received::default();
    listener.set_read_timeout(Some(lasts))?;
    let (socket, _) = match listener.accept() {
        Ok(accepted) => accepted,
        Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(received),
        Err(error) => return Err(error.into()),
    };
    let mut stream = TcpStream::from(socket);
    let mut buffer = vec![0; WINDOW];
    loop {
        let left = lasts.saturating_sub(start.elapsed());
        if left.is_zero() {
            return Ok(received);
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut buffer) {
            Ok(0) => return Ok(received),
            Ok(bytes) => {
                received.arrivals.push((start.elapsed(), bytes));
                // Linux forgets the bound when it finds out how much memory packets of this kind take.
                tcp_info::clamp_window(stream.as_fd(), WINDOW as u32)?;
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(received),
            Err(error) => return Err(error.into()),
        }
    }
}

fn send_tcp(socket: Socket, flow: &Flow, to: IpAddr, start: Instant) -> anyhow::Result<()> {
    anyhow::ensure!(flow.rate.is_none(), "a source at a rate is SCTP's alone");
    thread::sleep(flow.begins.saturating_sub(start.elapsed()));
    socket.connect(&SocketAddr::new(to, PORT).into())?;
    let mut stream = TcpStream::from(socket);
    let payload = vec![0; flow.message];
    loop {
        let left = flow.ends.saturating_sub(start.elapsed());
        if left.is_zero() {
            return Ok(());
        }
        stream.set_write_timeout(Some(left))?;
        match stream.write(&payload) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            // The receiver has gone home.
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::BrokenPipe | ErrorKind::ConnectionReset
                ) =>
            {
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_ends_early_keeps_nobody_waiting() {
        let ready = Barrier::new(4);
        thread::scope(|scope| {
            let broken = Entry::new(&ready);
            let broken = scope.spawn(move || -> anyhow::Result<()> {
                let _entry = broken;
                anyhow::bail!("broken")
            });
            let panicking = Entry::new(&ready);
            let panicking = scope.spawn(move || {
                let _entry = panicking;
                std::panic::resume_unwind(Box::new(()));
            });
            let whole = Entry::new(&ready);
            let whole = scope.spawn(move || {
                whole.pass();
                whole.pass();
            });
            drop(Entry::new(&ready));
            assert!(broken.join().expect("no panic").is_err());
            assert!(panicking.join().is_err());
            whole.join().expect("it went on");
        });
    }
}
