//! What experiments on real sockets share: work side by side, our SCTP in a network namespace, and how late
//! the machine is.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime};

use sctp_net::{
    Association, ConnectTo, DEFAULT_ENCAPSULATION_PORT, Endpoint, RawCarrierConfig, Stack, Tap,
    UdpCarrierConfig,
};

use crate::context::Context;

/// Does so many things, some of them at a time, and gives what came of each in order.
pub(crate) fn side_by_side<T: Send>(
    at_once: usize,
    count: usize,
    one: impl Fn(usize) -> anyhow::Result<T> + Sync,
) -> anyhow::Result<Vec<T>> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= count {
                return done;
            }
            done.push((index, one(index)));
        }
    };
    let mut all: Vec<(usize, anyhow::Result<T>)> = thread::scope(|scope| {
        let workers: Vec<_> = (0..at_once.min(count)).map(|_| scope.spawn(work)).collect();
        let results = workers.into_iter().map(|worker| worker.join());
        results.flatten().flatten().collect()
    });
    anyhow::ensure!(all.len() == count, "a thread panicked");
    all.sort_by_key(|(index, _)| *index);
    all.into_iter().map(|(_, outcome)| outcome).collect()
}

/// What came of a thread; a panic is an error.
pub(crate) fn joined<T>(outcome: thread::Result<anyhow::Result<T>>) -> anyhow::Result<T> {
    outcome.map_err(|_| anyhow::anyhow!("a thread panicked"))?
}

/// Does something on a thread that goes before all others of the machine that are not in real time, as do the
/// threads that it starts: they are on time even where others keep all cores busy. It is for what leaves the
/// processor idle. Where that is refused (it is for root) it is done all the same, and the outcome says so.
pub(crate) fn ahead_of_others<T: Send>(
    context: &Context,
    work: impl FnOnce() -> anyhow::Result<T> + Send,
) -> anyhow::Result<T> {
    thread::scope(|scope| {
        let ahead = scope.spawn(|| {
            if let Err(error) = emulator::go_first() {
                context.note(format!(
                    "Measurements had no real-time priority (SCHED_FIFO): {error}."
                ));
            }
            work()
        });
        joined(ahead.join())
    })
}

/// A runtime on the calling thread, and so on its host.
pub(crate) fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    Ok(runtime?)
}

/// Whether our SCTP has to go in UDP (RFC 6951): a kernel with an SCTP of its own would answer with ABORT
/// what it hears right on IP, in every namespace.
pub(crate) fn sctp_goes_in_udp() -> bool {
    sctp_net::kernel_has_sctp()
}

/// Our SCTP at these addresses of the host that the calling thread is on: right on IP where that can be.
pub(crate) fn sctp_stack(addresses: Vec<IpAddr>, tap: Option<Tap>) -> io::Result<Stack> {
    if !sctp_goes_in_udp() {
        return Stack::raw(RawCarrierConfig {
            addresses,
            tap,
            ..RawCarrierConfig::default()
        });
    }
    let sockets: Vec<SocketAddr> = addresses
        .into_iter()
        .map(|address| SocketAddr::new(address, DEFAULT_ENCAPSULATION_PORT))
        .collect();
    let first = sockets
        .first()
        .copied()
        .ok_or_else(|| io::Error::other("the host has no address"))?;
    Stack::udp(UdpCarrierConfig {
        addresses: sockets,
        tap,
        // Each packet by itself: the emulator and captures see what goes over the wire.
        segmentation_offload: false,
        ..UdpCarrierConfig::new(first)
    })
}

/// How long a receiver that does not answer is asked again.
const UNTIL_REACHED: Duration = Duration::from_secs(10);

/// An association with a receiver that may not be there yet: it is asked again.
pub(crate) async fn connected(
    endpoint: &Endpoint,
    to: IpAddr,
    port: u16,
) -> anyhow::Result<Association> {
    let give_up = Instant::now() + UNTIL_REACHED;
    loop {
        let to = ConnectTo {
            addresses: vec![to],
            port,
            encapsulation_port: None,
            config: None,
        };
        match endpoint.connect_to(to).await {
            Ok(association) => return Ok(association),
            Err(error) if Instant::now() > give_up => return Err(error.into()),
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

/// Says that something is over when it is dropped, and so also when who does it breaks down.
pub(crate) struct SaysItIsOver<'a>(pub(crate) &'a AtomicBool);

impl Drop for SaysItIsOver<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// How late this machine wakes who sleeps: so much is what is timed on it off, each time that somebody has to be
/// woken.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Lateness {
    /// 99 of 100 times it was no later.
    pub(crate) usual: Duration,
    /// The latest.
    pub(crate) longest: Duration,
    /// All together that were later than [`STALL`].
    pub(crate) stalled: Duration,
}

/// Who is so late has waited for others to leave the processor.
pub(crate) const STALL: Duration = Duration::from_millis(1);

/// A time during which somebody who was to be woken was not, for longer than [`STALL`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Stall {
    pub(crate) until: SystemTime,
    pub(crate) lasted: Duration,
}

/// Finds that out, beside whatever else goes on: it sleeps for a millisecond, again and again, until this is
/// dropped.
pub(crate) struct Watch {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<Naps>>,
}

/// How late each of them ended, and those that ended very late.
#[derive(Default)]
struct Naps {
    late: Vec<Duration>,
    stalls: Vec<Stall>,
}

impl Watch {
    pub(crate) fn begin() -> io::Result<Watch> {
        const NAP: Duration = Duration::from_millis(1);
        let is_over = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&is_over);
        let watch = move || {
            let mut naps = Naps::default();
            // Once at least: who is told before it runs for the first time has been late, too.
            loop {
                let began = Instant::now();
                thread::sleep(NAP);
                let late = began.elapsed().saturating_sub(NAP);
                naps.late.push(late);
                if late > STALL {
                    naps.stalls.push(Stall {
                        until: SystemTime::now(),
                        lasted: late,
                    });
                }
                if told.load(Ordering::Relaxed) {
                    break;
                }
            }
            naps
        };
        let thread = thread::Builder::new()
            .name("watch".to_owned())
            .spawn(watch)?;
        let thread = Some(thread);
        Ok(Watch { is_over, thread })
    }

    pub(crate) fn end(self) -> Lateness {
        self.end_with_stalls().0
    }

    /// Says besides when somebody was woken very late.
    pub(crate) fn end_with_stalls(mut self) -> (Lateness, Vec<Stall>) {
        self.is_over.store(true, Ordering::Relaxed);
        let naps = self.thread.take().map(JoinHandle::join);
        let naps = naps.and_then(Result::ok).unwrap_or_default();
        (Lateness::of(naps.late), naps.stalls)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

impl Lateness {
    fn of(mut late: Vec<Duration>) -> Lateness {
        late.sort_unstable();
        Lateness {
            usual: late.get(late.len() * 99 / 100).copied().unwrap_or_default(),
            longest: late.last().copied().unwrap_or_default(),
            stalled: late.iter().filter(|late| **late > STALL).sum(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_side_by_side_comes_back_in_order() {
        let done = side_by_side(3, 10, |index| {
            thread::sleep(Duration::from_millis(if index % 3 == 0 { 3 } else { 0 }));
            Ok(index * 2)
        });
        let expected: Vec<usize> = (0..10).map(|index| index * 2).collect();
        assert_eq!(done.expect("none fails"), expected);
        let failed = side_by_side(2, 4, |index| {
            anyhow::ensure!(index != 2, "two");
            Ok(())
        });
        assert_eq!(failed.expect_err("one fails").to_string(), "two");
        let panicked = side_by_side(2, 4, |index| {
            if index == 1 {
                std::panic::resume_unwind(Box::new(()));
            }
            Ok(())
        });
        assert!(panicked.is_err());
    }

    #[test]
    fn what_is_done_ahead_of_others_comes_back() {
        let context = Context::hidden("ahead", 1, true);
        assert_eq!(ahead_of_others(&context, || Ok(5)).expect("it is done"), 5);
        let failed: anyhow::Result<()> = ahead_of_others(&context, || anyhow::bail!("no"));
        assert_eq!(failed.expect_err("it fails").to_string(), "no");
        // What is refused once is refused again, and said once.
        let is_refused = thread::spawn(|| emulator::go_first().is_err())
            .join()
            .expect("no panic");
        let notes = context.take_notes();
        assert_eq!(notes.len(), usize::from(is_refused), "{notes:?}");
        assert!(notes.iter().all(|note| note.contains("SCHED_FIFO")));
    }

    #[test]
    fn lateness_is_that_of_99_of_100_and_the_longest() {
        let milliseconds = Duration::from_millis;
        let late = (0..200).rev().map(milliseconds).collect();
        let lateness = Lateness::of(late);
        assert_eq!(lateness.usual, milliseconds(198));
        assert_eq!(lateness.longest, milliseconds(199));
        assert_eq!(lateness.stalled, milliseconds(199 * 200 / 2 - 1));
        assert_eq!(Lateness::of(Vec::new()), Lateness::default());
    }

    #[test]
    fn a_watch_sees_when_it_wakes() {
        let watch = Watch::begin().expect("a thread");
        thread::sleep(Duration::from_millis(20));
        let (lateness, stalls) = watch.end_with_stalls();
        let sum: Duration = stalls.iter().map(|stall| stall.lasted).sum();
        assert_eq!(sum, lateness.stalled);
        // No sleep is shorter than what was asked for, and clocks count nanoseconds.
        assert!(lateness.longest > Duration::ZERO);
        assert!(lateness.usual <= lateness.longest);
    }

    #[test]
    fn who_is_dropped_says_that_it_is_over() {
        let mut watch = Watch::begin().expect("a thread");
        let thread = watch.thread.take().expect("it runs");
        drop(watch);
        assert!(thread.join().is_ok());
        let is_over = AtomicBool::new(false);
        let broke = std::panic::catch_unwind(|| {
            let _over = SaysItIsOver(&is_over);
            std::panic::resume_unwind(Box::new(()));
        });
        assert!(broke.is_err() && is_over.load(Ordering::Relaxed));
    }
}
