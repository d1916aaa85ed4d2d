//! The thread of an emulator.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use measures::Delays;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::prctl::set_timerslack;
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};

use super::{Command, Device, DriverConfig, Failure, kernel};
use crate::network::{InterfaceId, Network};
use crate::statistics::Snapshot;

/// A network and the devices around it.
pub(super) struct Worker {
    pub(super) network: Network,
    /// By the number of the interface.
    devices: Vec<Option<Device>>,
    epoll: OwnedFd,
    waker: OwnedFd,
    commands: Receiver<Command>,
    config: DriverConfig,
    lateness: Delays,
    undelivered_packets: u64,
    is_running: bool,
    buffer: Vec<u8>,
}

/// Stands for the waker among the numbers of interfaces.
const WAKER: u64 = u64::MAX;

/// Packets that are read of one device before the others have their turn.
const READ_AT_ONCE: usize = 64;

/// The longest packet, with whatever is before it.
const LONGEST_PACKET: usize = 1 << 17;

/// How long the thread sleeps at the most: a deadline may be far beyond what the kernel counts.
const LONGEST_SLEEP: Duration = Duration::from_secs(3600);

/// How long before something is due a thread that has slept for longer wakes for the first time, at the least. The
/// kernel takes its time with those that sleep for long: up to a thousandth more of it than was asked for, or a
/// two-hundredth with those who are nice, and what an idle core takes to wake. A short sleep after that is exact.
const NAP: Duration = Duration::from_micros(200);

impl Worker {
    pub(super) fn new(
        network: Network,
        devices: Vec<(InterfaceId, Device)>,
        waker: OwnedFd,
        commands: Receiver<Command>,
        config: DriverConfig,
    ) -> io::Result<Worker> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let wanted = epoll::EventFlags::IN;
        epoll::add(&epoll, &waker, epoll::EventData::new_u64(WAKER), wanted)?;
        let mut by_number: Vec<Option<Device>> = Vec::new();
        by_number.resize_with(network.interfaces().len(), || None);
        for (id, device) in devices {
            let interface = network.interfaces().get(id.0);
            let is_right = interface.is_some_and(|known| known.framing == device.framing());
            if !is_right {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidInput,
                    format!("the network has no interface {} for such a device", id.0),
                ));
            }
            let data = epoll::EventData::new_u64(id.0 as u64);
            epoll::add(&epoll, &device, data, wanted)?;
            by_number[id.0] = Some(device);
        }
        try_to_wait(&epoll)?;
        Ok(Worker {
            network,
            devices: by_number,
            epoll,
            waker,
            commands,
            config,
            lateness: Delays::default(),
            undelivered_packets: 0,
            is_running: true,
            buffer: vec![0; LONGEST_PACKET],
        })
    }

    /// Works until it is told to stop, or the kernel fails it.
    pub(super) fn run(mut self, failure: &Failure) {
        // Without it the kernel wakes threads up to 50 microseconds late to save power. Where it is refused,
        // packets are that late.
        set_timerslack(1).ok();
        if let Some(core) = self.config.core {
            stay_on(core).ok();
        }
        // Where neither is to be had packets are later while others keep the cores busy.
        kernel::take_short_turns().ok();
        if self.config.real_time {
            kernel::go_first().ok();
        }
        let mut events = Vec::with_capacity(self.devices.len() + 1);
        while self.is_running {
            self.network.handle_timeout(Instant::now());
            self.deliver();
            let sleep = self.sleep(Instant::now());
            match epoll::wait(&self.epoll, spare_capacity(&mut events), sleep.as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                // Nothing that waiting longer would mend.
                Err(error) => {
                    failure
                        .set(format!("it cannot wait for packets: {error}"))
                        .ok();
                    return;
                }
            }
            for event in events.drain(..) {
                match event.data.u64() {
                    WAKER => self.obey(),
                    number => self.read(number as usize),
                }
            }
        }
    }

    pub(super) fn stop(&mut self) {
        self.is_running = false;
    }

    pub(super) fn snapshot(&mut self) -> Snapshot {
        let now = Instant::now();
        self.network.handle_timeout(now);
        let mut snapshot = self.network.snapshot(now);
        snapshot.lateness = self.lateness.microseconds();
        snapshot.undelivered_packets = self.undelivered_packets;
        snapshot
    }

    /// How long to sleep; `None` when nothing is ever due.
    fn sleep(&self, now: Instant) -> Option<Timespec> {
        let left = self
            .network
            .next_timeout()?
            .saturating_duration_since(now)
            .saturating_sub(self.config.spin);
        let left = one_sleep_of(left);
        Some(Timespec {
            tv_sec: left.as_secs() as i64,
            tv_nsec: left.subsec_nanos().into(),
        })
    }

    /// Does what other threads asked for.
    fn obey(&mut self) {
        let mut count = [0; 8];
        rustix::io::read(&self.waker, &mut count).ok();
        while let Ok(command) = self.commands.try_recv() {
            command(self);
            self.deliver();
        }
    }

    /// Takes what a host sends.
    fn read(&mut self, number: usize) {
        let id = InterfaceId(number);
        for _ in 0..READ_AT_ONCE {
            let Some(device) = self.devices.get(number).and_then(Option::as_ref) else {
                return;
            };
            match device.receive(&mut self.buffer) {
                Ok(Some(length)) => {
                    let packet = &self.buffer[..length];
                    self.network.handle_packet(Instant::now(), id, packet);
                    self.deliver();
                }
                Ok(None) => return,
                // A packet socket says so once when its interface goes down.
                Err(error) if error.raw_os_error() == Some(libc::ENETDOWN) => return,
                Err(_) => {
                    // The interface is gone. Its descriptor would be readable for ever.
                    epoll::delete(&self.epoll, device).ok();
                    self.devices[number] = None;
                    return;
                }
            }
        }
    }

    /// Hands out what hosts receive.
    fn deliver(&mut self) {
        while let Some(transmit) = self.network.poll_transmit() {
            let device = self.devices[transmit.interface.0].as_ref();
            let is_sent = device.is_some_and(|device| device.send(&transmit.octets).is_ok());
            if is_sent {
                let late = Instant::now().saturating_duration_since(transmit.due);
                self.lateness.record(late);
            } else {
                self.undelivered_packets += 1;
            }
        }
    }
}

/// How long to sleep at once when nothing is due for so long.
fn one_sleep_of(left: Duration) -> Duration {
    // Twice what the kernel may add when we are nice: who is it may change at any time.
    let before = NAP.max(left / 100);
    match left.saturating_sub(before) {
        first if first > NAP => first.min(LONGEST_SLEEP),
        _ => left,
    }
}

/// Finds out whether the kernel can wait for packets until a nanosecond (epoll_pwait2(2), since Linux 5.11).
fn try_to_wait(epoll: &OwnedFd) -> io::Result<()> {
    let at_once = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let mut events = Vec::with_capacity(1);
    match epoll::wait(epoll, spare_capacity(&mut events), Some(&at_once)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(io::Error::new(
            io::Error::from(error).kind(),
            format!(
                "the kernel cannot wait for packets with epoll_pwait2, which Linux has since 5.11: {error}"
            ),
        )),
    }
}

/// The processor time of the calling thread.
pub(super) fn processor_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

fn stay_on(core: usize) -> nix::Result<()> {
    let mut cores = CpuSet::new();
    cores.set(core)?;
    sched_setaffinity(Pid::from_raw(0), &cores)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Even when the kernel adds to each as much as it may.
    #[test]
    fn sleeps_end_in_time_and_are_few() {
        // To those who are not nice, to those who are, and to those who go first.
        for share in [1000, 200, u32::MAX] {
            for exponent in 0..60 {
                let whole = Duration::from_nanos(3_u64 << exponent);
                let mut left = whole;
                let mut sleeps = 0;
                while !left.is_zero() && sleeps < 100 {
                    let sleep = one_sleep_of(left);
                    assert!(sleep <= left && sleep <= LONGEST_SLEEP);
                    let added = (sleep / share).min(Duration::from_millis(100));
                    assert!(sleep + added < left || left <= 2 * NAP, "{left:?}");
                    left = left.saturating_sub(sleep + added);
                    sleeps += 1;
                }
                let most = 6 + whole.div_duration_f64(LONGEST_SLEEP) as u32;
                assert!(sleeps <= most.min(100), "{sleeps} of {whole:?}");
            }
        }
    }
}
