//! A real client that tries to get in meanwhile.

use crate::Over;
use anyhow::Context;
use sctp_net::{ConnectTo, EndpointConfig, RawCarrierConfig, Stack, UdpCarrierConfig};
use serde::Serialize;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, timeout};

/// A client in a thread of its own, which opens an association, or a connection, and ends it, again and
/// again until it is stopped, or dropped.
pub struct Probe {
    stopped: Arc<AtomicBool>,
    thread: Option<JoinHandle<anyhow::Result<ProbeResult>>>,
}

/// How often the client tries. An attempt begins in its time, whether or not those before it have come to an
/// end: who waited for a slow one would count the others as quick.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProbeConfig {
    /// From one attempt to the next.
    pub interval: Duration,
    /// How long an attempt may take.
    pub timeout: Duration,
}

/// How the client fared.
#[derive(Clone, PartialEq, Default, Debug, Serialize)]
pub struct ProbeResult {
    /// How often it tried.
    pub attempts: u64,
    /// How often it got in.
    pub successes: u64,
    /// How long the set-ups took that succeeded, in milliseconds, in the order in which they did.
    pub setup_ms: Vec<f64>,
}

impl Probe {
    /// Starts it against the listener on an SCTP port. It runs in the network namespace of the
    /// calling thread.
    ///
    /// # Errors
    ///
    /// When there can be no further thread.
    pub fn start(
        target: SocketAddr,
        over: Over,
        probe_config: ProbeConfig,
    ) -> anyhow::Result<Probe> {
        Probe::spawn(async move |stop| {
            let stack = open(target.ip(), over)?;
            let attempt = move || associate(stack.clone(), target);
            Ok(try_again_and_again(probe_config, &stop, attempt).await)
        })
    }

    /// The same against a TCP listener, which has to say something, however little, to who got in: without
    /// that a client of a listener that keeps nothing of it (SYN cookies, RFC 4987 section 3.6) may believe
    /// that it is connected when it is not.
    ///
    /// # Errors
    ///
    /// When there can be no further thread.
    pub fn start_tcp(target: SocketAddr, probe_config: ProbeConfig) -> anyhow::Result<Probe> {
        Probe::spawn(async move |stop| {
            let attempt = move || connect(target);
            Ok(try_again_and_again(probe_config, &stop, attempt).await)
        })
    }

    fn spawn(
        work: impl AsyncFnOnce(Arc<AtomicBool>) -> anyhow::Result<ProbeResult> + Send + 'static,
    ) -> anyhow::Result<Probe> {
        let stopped = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&stopped);
        let thread = std::thread::Builder::new()
            .name("probe".to_owned())
            .spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()?;
                runtime.block_on(work(stop))
            })
            .context("a thread for the client")?;
        let thread = Some(thread);
        Ok(Probe { stopped, thread })
    }

    /// Lets no further attempt begin, and waits for those that are under way.
    ///
    /// # Errors
    ///
    /// When the client could not be run.
    pub fn stop(mut self) -> anyhow::Result<ProbeResult> {
        self.stopped.store(true, Ordering::Relaxed);
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(result)) => result,
            _ => anyhow::bail!("the client broke down"),
        }
    }
}

/// Lets no further attempt begin, and waits for none.
impl Drop for Probe {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Relaxed);
    }
}

impl Default for ProbeConfig {
    /// An attempt each 50 ms, which may take 4 s: a third INIT goes out after 3 s.
    fn default() -> ProbeConfig {
        ProbeConfig {
            interval: Duration::from_millis(50),
            timeout: Duration::from_secs(4),
        }
    }
}

impl ProbeResult {
    /// Part of the attempts that succeeded; `None` without attempts.
    pub fn success_rate(&self) -> Option<f64> {
        (self.attempts > 0).then(|| self.successes as f64 / self.attempts as f64)
    }

    /// The set-up delay that half of those that got in did not exceed, in milliseconds.
    pub fn median_ms(&self) -> Option<f64> {
        self.quantile_ms(0.5)
    }

    /// The set-up delay that a part of those that got in did not exceed, in milliseconds.
    pub fn quantile_ms(&self, part: f64) -> Option<f64> {
        let mut sorted = self.setup_ms.clone();
        sorted.sort_by(f64::total_cmp);
        let rank = (part.clamp(0.0, 1.0) * sorted.len() as f64).ceil() as usize;
        sorted.get(rank.max(1) - 1).copied()
    }
}

/// Makes attempts at their interval. Each tells how long it took to get in, or nothing.
async fn try_again_and_again<F>(
    probe_config: ProbeConfig,
    stop: &AtomicBool,
    attempt: impl Fn() -> F,
) -> ProbeResult
where
    F: Future<Output = Option<Duration>> + Send + 'static,
{
    let mut result = ProbeResult::default();
    let mut under_way = JoinSet::new();
    let mut ticks = interval(probe_config.interval.max(SHORTEST));
    // After a pause of the machine they do not all begin at once.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let note = |result: &mut ProbeResult, setup: Option<Duration>| {
        if let Some(setup) = setup {
            result.successes += 1;
            result.setup_ms.push(setup.as_secs_f64() * 1e3);
        }
    };
    loop {
        tokio::select! {
            _ = ticks.tick() => {
                result.attempts += 1;
                let attempt = attempt();
                under_way.spawn(async move { timeout(probe_config.timeout, attempt).await.ok().flatten() });
            }
            Some(ended) = under_way.join_next() => note(&mut result, ended.unwrap_or_default()),
        }
        if stop.load(Ordering::Relaxed) {
            break;
        }
    }
    while let Some(ended) = under_way.join_next().await {
        note(&mut result, ended.unwrap_or_default());
    }
    result
}

async fn associate(stack: Stack, target: SocketAddr) -> Option<Duration> {
    let endpoint = stack.endpoint(0, EndpointConfig::default()).ok()?;
    let begin = Instant::now();
    let to = ConnectTo {
        addresses: vec![target.ip()],
        port: target.port(),
        ..ConnectTo::default()
    };
    let association = endpoint.connect_to(to).await.ok()?;
    let setup = begin.elapsed();
    association.abort(b"that was all");
    Some(setup)
}

async fn connect(target: SocketAddr) -> Option<Duration> {
    let begin = Instant::now();
    let mut stream = TcpStream::connect(target).await.ok()?;
    let setup = begin.elapsed();
    let mut said = [0];
    stream.read_exact(&mut said).await.ok()?;
    Some(setup)
}

fn open(target: IpAddr, over: Over) -> anyhow::Result<Stack> {
    Ok(match over {
        Over::Udp { port } => {
            let local: IpAddr = match target {
                IpAddr::V4(target) if target.is_loopback() => Ipv4Addr::LOCALHOST.into(),
                IpAddr::V6(target) if target.is_loopback() => Ipv6Addr::LOCALHOST.into(),
                IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
                IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
            };
            Stack::udp(UdpCarrierConfig {
                peer_encapsulation_port: port,
                ..UdpCarrierConfig::new(SocketAddr::new(local, 0))
            })?
        }
        Over::Ip => Stack::raw(RawCarrierConfig::default())?,
    })
}

/// A client is no flood.
const SHORTEST: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    #[test]
    fn who_is_dropped_makes_no_further_attempt() {
        let probe = Probe::spawn(async move |stop| {
            let probe_config = ProbeConfig {
                interval: Duration::from_millis(1),
                ..ProbeConfig::default()
            };
            Ok(try_again_and_again(probe_config, &stop, async || None).await)
        });
        let mut probe = probe.expect("a thread");
        let thread = probe.thread.take().expect("it runs");
        drop(probe);
        // It would not end otherwise.
        assert!(thread.join().expect("it has not panicked").is_ok());
    }

    #[test]
    fn slow_attempts_keep_no_other_from_beginning() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .expect("a runtime");
        let stop = AtomicBool::new(false);
        let begun = AtomicU64::new(0);
        let attempt = || {
            let number = begun.fetch_add(1, Ordering::Relaxed);
            stop.store(number == 29, Ordering::Relaxed);
            async move {
                if number % 2 == 1 {
                    std::future::pending::<()>().await;
                }
                Some(Duration::from_millis(number))
            }
        };
        // Longer than all attempts take that come to an end: those that do not are given up in the end.
        let probe_config = ProbeConfig {
            interval: Duration::from_millis(1),
            timeout: Duration::from_millis(300),
        };
        let result = runtime.block_on(try_again_and_again(probe_config, &stop, attempt));
        assert_eq!((result.attempts, result.successes), (30, 15));
        assert_eq!(result.success_rate(), Some(0.5));
        assert_eq!(result.median_ms(), Some(14.0));
        assert_eq!(result.quantile_ms(1.0), Some(28.0));
        assert_eq!(ProbeResult::default().success_rate(), None);
    }
}
