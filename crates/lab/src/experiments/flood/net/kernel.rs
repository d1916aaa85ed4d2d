//! The kernel's TCP listener under a flood of SYNs.

use std::fs;
use std::io::{ErrorKind, Write};
use std::net::{IpAddr, SocketAddr, SocketAddrV4};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use flood::{Limits, Probe, ProbeResult, SynConfig, SynReport, run_syns};
use rand::Rng;
use socket2::{Domain, Protocol, Socket, Type};
use testbed::Testbed;

use super::{CALM, Effort, LOOK, NOBODY, per_packet, up};
use crate::context::Context;
use crate::net::{SaysItIsOver, joined};

const PORT: u16 = 9000;

/// Connections that may wait until they are whole, or are accepted: what servers of today ask for.
const BACKLOG: i32 = 1024;

/// The setting that says whether the kernel sends SYN cookies (ip-sysctl of the kernel's documentation): 0
/// never, 1 when the queue is full.
const SYN_COOKIES: &str = "/proc/sys/net/ipv4/tcp_syncookies";

/// What came of a flood of SYNs.
pub(super) struct FloodResult {
    pub(super) has_cookies: bool,
    pub(super) report: SynReport,
    /// The client before the flood.
    pub(super) calm: ProbeResult,
    /// The client under the flood.
    pub(super) client: ProbeResult,
    /// Connections that wait for the third packet, over time.
    pub(super) half_open: Vec<(Duration, usize)>,
    /// Bytes that one of them takes in the kernel; `None` where it does not tell.
    pub(super) each_bytes: Option<u64>,
    /// Seconds of the processor for a packet, beyond those that one takes that is nobody's.
    pub(super) seconds_per_packet: f64,
}

impl FloodResult {
    pub(super) fn most_half_open(&self) -> usize {
        let counts = self.half_open.iter().map(|(_, count)| *count);
        counts.max().unwrap_or_default()
    }
}

/// Whether a kernel has SYN cookies at all.
pub(super) fn has_syn_cookies() -> bool {
    fs::exists(SYN_COOKIES).unwrap_or(false)
}

/// Floods a listener of the kernel's in a network of its own.
pub(super) fn flooded(
    context: &Context,
    number: u64,
    has_cookies: bool,
    effort: &Effort,
) -> anyhow::Result<FloodResult> {
    let testbed = up(context, number)?;
    let setting = if has_cookies { "1" } else { "0" };
    testbed
        .run("listener", || fs::write(SYN_COOKIES, setting))?
        .context("SYN cookies cannot be switched")?;
    let (target, nobody) = targets(&testbed)?;
    let seed = context.rng(number).next_u64();
    let syns = |target, limits| SynConfig {
        target,
        limits,
        seed,
    };
    let rate = effort.limits.rate();
    // For a second.
    let to_nobody = syns(nobody, Limits::new(rate, rate)?);
    let is_over = AtomicBool::new(false);
    let outcome = thread::scope(|scope| {
        let listening = scope.spawn(|| {
            testbed.enter("listener")?;
            accept(target.into(), &is_over)
        });
        // Who accepts is waited for at the end of this scope, whatever becomes of the rest.
        let over = SaysItIsOver(&is_over);
        let ran = (|| {
            let probe_config = effort.probe_config;
            let start = || Probe::start_tcp(target.into(), probe_config);
            let calm = testbed.run("client", start)??;
            thread::sleep(CALM);
            let calm = calm.stop()?;

            let flood = || run_syns(&to_nobody, |_| {});
            let (report, seconds) = measured(&testbed, || testbed.run("attacker", flood)?)?;
            let each_to_nobody = per_packet(seconds, report.sent);

            let sent = AtomicU64::new(0);
            let probe = AtomicBool::new(false);
            let begin = Instant::now();
            let mut half_open = Vec::new();
            let (config, testbed) = (syns(target, effort.limits), &testbed);
            let ((report, client), seconds) = measured(testbed, || {
                thread::scope(|scope| {
                    let attacker = scope.spawn(|| {
                        testbed.enter("attacker")?;
                        run_syns(&config, |now| sent.store(now, Ordering::Relaxed))
                    });
                    let mut client = None;
                    while !attacker.is_finished() {
                        // Once the queue has had the time to fill.
                        if sent.load(Ordering::Relaxed) >= 2 * BACKLOG as u64
                            && !probe.swap(true, Ordering::Relaxed)
                        {
                            client = Some(testbed.run("client", start)??);
                        }
                        half_open.push((begin.elapsed(), testbed.run("listener", count)?));
                        thread::sleep(LOOK);
                    }
                    let report = joined(attacker.join())?;
                    let client = client.context("the flood was over before it was one")?;
                    anyhow::Ok((report, client.stop()?))
                })
            })?;
            anyhow::Ok(FloodResult {
                has_cookies,
                report,
                calm,
                client,
                half_open,
                each_bytes: request_bytes(),
                seconds_per_packet: per_packet(seconds, report.sent) - each_to_nobody,
            })
        })();
        drop(over);
        joined(listening.join())?;
        ran
    });
    testbed.down();
    outcome
}

/// Does something, and says how many seconds of the processor the emulator took meanwhile. What the kernel
/// does with packets that the emulator hands over is done in its time.
fn measured<T>(
    testbed: &Testbed,
    work: impl FnOnce() -> anyhow::Result<T>,
) -> anyhow::Result<(T, f64)> {
    let before = testbed.emulator().processor_time()?;
    let done = work()?;
    let after = testbed.emulator().processor_time()?;
    Ok((done, after.saturating_sub(before).as_secs_f64()))
}

/// The listener, and an address of its host that is nobody's.
fn targets(testbed: &Testbed) -> anyhow::Result<(SocketAddrV4, SocketAddrV4)> {
    match testbed.addresses("listener").first() {
        Some(IpAddr::V4(address)) => Ok((
            SocketAddrV4::new(*address, PORT),
            SocketAddrV4::new(NOBODY, PORT),
        )),
        _ => anyhow::bail!("the listener has no address of IPv4"),
    }
}

/// Accepts connections, says something, and ends them.
fn accept(address: SocketAddr, is_over: &AtomicBool) -> anyhow::Result<()> {
    let listener = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
    listener.bind(&address.into())?;
    listener.listen(BACKLOG)?;
    listener.set_read_timeout(Some(LOOK))?;
    while !is_over.load(Ordering::Relaxed) {
        match listener.accept() {
            Ok((mut connection, _)) => {
                // The client may have gone home.
                let _ = connection.write_all(b"!");
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Connections to the listener that wait for the third packet, in the network namespace of this thread.
fn count() -> usize {
    half_open(&fs::read_to_string("/proc/thread-self/net/tcp").unwrap_or_default())
}

/// Those of a table as proc_net_tcp of the kernel's documentation has it: number, addresses, state.
fn half_open(table: &str) -> usize {
    const SYN_RECEIVED: &str = "03";
    let states = table
        .lines()
        .skip(1)
        .map(|line| line.split_whitespace().nth(3));
    states.filter(|state| *state == Some(SYN_RECEIVED)).count()
}

/// Bytes of what the kernel keeps of a SYN over IPv4 (slabinfo(5)).
fn request_bytes() -> Option<u64> {
    size_of(
        "request_sock_TCP",
        &fs::read_to_string("/proc/slabinfo").ok()?,
    )
}

fn size_of(name: &str, table: &str) -> Option<u64> {
    table.lines().find_map(|line| {
        let mut fields = line.split_whitespace();
        (fields.next() == Some(name)).then(|| fields.nth(2)?.parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_tables_are_read() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt\n   \
                     0: 0200030A:2328 00000000:0000 0A 00000000:00000000 00:00000000 00000000\n   \
                     1: 0200030A:2328 010012C6:1388 03 00000000:00000000 01:00000063 00000000\n   \
                     2: 0200030A:2328 020012C6:1389 03 00000000:00000000 01:00000063 00000000\n";
        assert_eq!(half_open(table), 2);
        assert_eq!(half_open(""), 0);
        let slabs = "slabinfo - version: 2.1\n# name <active_objs> <num_objs> <objsize>\n\
                     request_sock_TCPv6     24     24    328   12    1 : tunables\n\
                     request_sock_TCP       60    120    320   12    1 : tunables\n";
        assert_eq!(size_of("request_sock_TCP", slabs), Some(320));
        assert_eq!(size_of("nothing", slabs), None);
    }
}
