//! Runs a network between devices, in a thread of its own.

mod device;
mod kernel;
mod worker;

pub use device::{Device, switch_off_offloads};
pub use kernel::go_first;

use std::io;
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Sender, channel, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use link::LinkConfig;
use rustix::event::{EventfdFlags, eventfd};

use crate::change_error::ChangeError;
use crate::network::{Direction, InterfaceId, Network};
use crate::rule::{Rule, RuleId};
use crate::statistics::Snapshot;
use worker::Worker;

/// How the thread of an [`Emulator`] works.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct DriverConfig {
    /// How long before something is due the thread stops to sleep, and watches the clock instead: it is then
    /// on time even where the kernel wakes it late. It costs a core as long as it watches.
    pub spin: Duration,
    /// The core that the thread stays on; `None` for any.
    pub core: Option<usize>,
    /// Whether the thread goes before all others of the machine that are not in real time (SCHED_FIFO): it is
    /// then on time even where others keep all cores busy. That is for root; where it is refused nothing
    /// changes.
    pub real_time: bool,
}

/// A network that runs: packets go between its devices as it says, and it can be changed meanwhile. It stops when
/// this is dropped.
///
/// All methods may be called from any thread; each change is in force when the method returns.
#[derive(Debug)]
pub struct Emulator {
    commands: Sender<Command>,
    waker: OwnedFd,
    thread: Option<JoinHandle<()>>,
    failure: Failure,
}

/// Why the thread has ended, if not because it was told to.
type Failure = Arc<OnceLock<String>>;

/// What the thread is to do between two packets.
type Command = Box<dyn FnOnce(&mut Worker) + Send>;

impl Emulator {
    /// Begins. An interface without a device receives nothing and sends nothing.
    ///
    /// # Errors
    ///
    /// When a device is for an interface that the network has not, or whose packets begin otherwise, or the
    /// kernel has no room for what the thread needs, or cannot wait as exactly as it has to (Linux before 5.11).
    pub fn spawn(
        network: Network,
        devices: Vec<(InterfaceId, Device)>,
        config: DriverConfig,
    ) -> io::Result<Emulator> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let waker = eventfd(0, flags)?;
        let (commands, received) = channel();
        let worker = Worker::new(network, devices, waker.try_clone()?, received, config)?;
        let failure = Failure::default();
        let told = Arc::clone(&failure);
        let thread = std::thread::Builder::new()
            .name("emulator".to_owned())
            .spawn(move || worker.run(&told))?;
        Ok(Emulator {
            commands,
            waker,
            thread: Some(thread),
            failure,
        })
    }

    /// [`Network::set_link`].
    ///
    /// # Errors
    ///
    /// When there is no such link, or the emulator has ended.
    pub fn set_link(
        &self,
        link: &str,
        direction: Option<Direction>,
        config: LinkConfig,
    ) -> Result<(), ChangeError> {
        let link = link.to_owned();
        self.change(move |network| network.set_link(&link, direction, config))
    }

    /// [`Network::cut`].
    ///
    /// # Errors
    ///
    /// When there is no such link, or the emulator has ended.
    pub fn cut(&self, link: &str) -> Result<(), ChangeError> {
        let link = link.to_owned();
        self.change(move |network| network.cut(&link))
    }

    /// [`Network::heal`].
    ///
    /// # Errors
    ///
    /// When there is no such link, or the emulator has ended.
    pub fn heal(&self, link: &str) -> Result<(), ChangeError> {
        let link = link.to_owned();
        self.change(move |network| network.heal(&link))
    }

    /// [`Network::add_rule`].
    ///
    /// # Errors
    ///
    /// When the rule cannot be, there are too many, or the emulator has ended.
    pub fn add_rule(&self, rule: Rule) -> Result<RuleId, ChangeError> {
        self.change(move |network| network.add_rule(rule))
    }

    /// [`Network::insert_rule`].
    ///
    /// # Errors
    ///
    /// When the rule cannot be, there are too many, or the emulator has ended.
    pub fn insert_rule(&self, index: usize, rule: Rule) -> Result<RuleId, ChangeError> {
        self.change(move |network| network.insert_rule(index, rule))
    }

    /// [`Network::change_rule`].
    ///
    /// # Errors
    ///
    /// When there is no such rule, the new one cannot be, or the emulator has ended.
    pub fn change_rule(&self, id: RuleId, rule: Rule) -> Result<(), ChangeError> {
        self.change(move |network| network.change_rule(id, rule))
    }

    /// [`Network::delete_rule`].
    ///
    /// # Errors
    ///
    /// When there is no such rule, or the emulator has ended.
    pub fn delete_rule(&self, id: RuleId) -> Result<(), ChangeError> {
        self.change(move |network| network.delete_rule(id))
    }

    /// All rules, in their order.
    ///
    /// # Errors
    ///
    /// When the emulator has ended.
    pub fn rules(&self) -> Result<Vec<(RuleId, Rule)>, ChangeError> {
        self.change(|network| Ok(network.rules()))
    }

    /// What has been done until now.
    ///
    /// # Errors
    ///
    /// When the emulator has ended.
    pub fn snapshot(&self) -> Result<Snapshot, ChangeError> {
        self.call(|worker| worker.snapshot())
    }

    /// Why it has ended by itself; `None` as long as it has not.
    pub fn failure(&self) -> Option<ChangeError> {
        self.failure.get().cloned().map(ChangeError::Failed)
    }

    /// The processor time that the thread has used.
    ///
    /// # Errors
    ///
    /// When the emulator has ended.
    pub fn processor_time(&self) -> Result<Duration, ChangeError> {
        self.call(|_| worker::processor_time())
    }

    /// Ends it; says what was done.
    ///
    /// # Errors
    ///
    /// When it had ended before.
    pub fn stop(mut self) -> Result<Snapshot, ChangeError> {
        let snapshot = self.snapshot();
        self.end();
        snapshot
    }

    fn change<T: Send + 'static>(
        &self,
        change: impl FnOnce(&mut Network) -> Result<T, ChangeError> + Send + 'static,
    ) -> Result<T, ChangeError> {
        self.call(move |worker| {
            worker.network.handle_timeout(Instant::now());
            change(&mut worker.network)
        })?
    }

    /// Lets the thread do something, and waits until it has.
    fn call<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Worker) -> T + Send + 'static,
    ) -> Result<T, ChangeError> {
        let (answer, answered) = sync_channel(1);
        let command = Box::new(move |worker: &mut Worker| {
            answer.send(work(worker)).ok();
        });
        self.commands.send(command).map_err(|_| self.stopped())?;
        self.wake();
        answered.recv().map_err(|_| self.stopped())
    }

    fn stopped(&self) -> ChangeError {
        self.failure().unwrap_or(ChangeError::Stopped)
    }

    fn wake(&self) {
        // It fails when the thread has been woken 2⁶⁴ times without noticing.
        rustix::io::write(&self.waker, &1_u64.to_ne_bytes()).ok();
    }

    fn end(&mut self) {
        let Some(thread) = self.thread.take() else {
            return;
        };
        self.commands
            .send(Box::new(|worker: &mut Worker| worker.stop()))
            .ok();
        self.wake();
        thread.join().ok();
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        self.end();
    }
}
