//! Hosts on a network, driven by a virtual clock.

use crate::{Datagram, Network};
use link::{Link, Verdict};
use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::time::Instant;

/// What runs on a simulated host: cores and whatever uses them.
///
/// After each call the simulation polls for datagrams to send, until there are none.
pub trait Host {
    /// What the datagrams of the network carry.
    type Payload: Clone;

    /// A datagram has arrived at one of the host's addresses.
    fn handle_datagram(&mut self, now: Instant, datagram: Datagram<Self::Payload>);

    /// The time that [`Host::next_timeout`] named has come.
    fn handle_timeout(&mut self, now: Instant);

    /// When [`Host::handle_timeout`] is to be called; `None` when nothing is waited for.
    fn next_timeout(&self) -> Option<Instant>;

    /// The next datagram to be sent.
    fn poll_transmit(&mut self, now: Instant) -> Option<Datagram<Self::Payload>>;
}

/// Names a host of one simulation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct HostId(usize);

/// Hosts, the network between them, and the clock that all of them live by.
pub struct Simulation<H: Host> {
    now: Instant,
    hosts: Vec<H>,
    hosts_by_address: BTreeMap<IpAddr, HostId>,
    network: Network<H::Payload>,
    trace: Option<Vec<Sent<H::Payload>>>,
    steps_since_clock_moved: u32,
}

/// One datagram that a host sent, and what became of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sent<P> {
    /// When it was sent.
    pub at: Instant,
    /// What was sent.
    pub datagram: Datagram<P>,
    /// What the link did to it; `None` when there was no link.
    pub verdict: Option<Verdict>,
}

/// Why a simulation stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stop {
    /// What was waited for has happened.
    Done,
    /// Nothing is on its way, and no host waits for any time.
    Idle,
    /// The time was up.
    TimeUp,
}

/// The hosts kept doing something without ever letting the clock move.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stalled {
    /// The time at which the clock stands.
    pub at: Instant,
}

impl<H: Host> Simulation<H> {
    /// A simulation without hosts whose clock stands at `start`. Any time will do; two runs are the
    /// same to the nanosecond when they start at the same one.
    pub fn new(start: Instant) -> Simulation<H> {
        Simulation {
            now: start,
            hosts: Vec::new(),
            hosts_by_address: BTreeMap::new(),
            network: Network::new(),
            trace: None,
            steps_since_clock_moved: 0,
        }
    }

    /// Adds a host that receives what is sent to any of `addresses`.
    pub fn add_host(&mut self, host: H, addresses: &[IpAddr]) -> HostId {
        let id = HostId(self.hosts.len());
        self.hosts.push(host);
        self.hosts_by_address
            .extend(addresses.iter().map(|&address| (address, id)));
        id
    }

    /// Lays a link from one address to another, for that direction alone.
    pub fn connect(&mut self, from: IpAddr, to: IpAddr, link: Link) {
        self.network.connect(from, to, link);
    }

    /// Keeps all that is sent from now on for [`Simulation::trace`].
    pub fn record(&mut self) {
        self.trace.get_or_insert_default();
    }

    /// What was sent since [`Simulation::record`], in order.
    pub fn trace(&self) -> &[Sent<H::Payload>] {
        self.trace.as_deref().unwrap_or_default()
    }

    /// The virtual time.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// The network, for its statistics.
    pub fn network(&self) -> &Network<H::Payload> {
        &self.network
    }

    /// A host.
    pub fn host(&self, id: HostId) -> &H {
        &self.hosts[id.0]
    }

    /// A host, to be acted upon at the present time. What it wants to send goes out when the
    /// simulation runs on.
    pub fn host_mut(&mut self, id: HostId) -> &mut H {
        &mut self.hosts[id.0]
    }

    /// Runs until `done` says so, asked after each thing that happens, or nothing can happen any
    /// more, or the clock would pass `deadline`, at which it then stands.
    ///
    /// # Errors
    ///
    /// When the clock stands still although the hosts never rest.
    pub fn run(
        &mut self,
        deadline: Instant,
        mut done: impl FnMut(&Self) -> bool,
    ) -> Result<Stop, Stalled> {
        loop {
            self.transmit()?;
            if done(self) {
                return Ok(Stop::Done);
            }
            let Some(next) = self.next_event() else {
                return Ok(Stop::Idle);
            };
            if next > deadline {
                self.now = self.now.max(deadline);
                return Ok(Stop::TimeUp);
            }
            if next > self.now {
                self.now = next;
                self.steps_since_clock_moved = 0;
            }
            self.count_step()?;
            self.step();
        }
    }

    /// Puts all that the hosts want to send on the network.
    fn transmit(&mut self) -> Result<(), Stalled> {
        for id in 0..self.hosts.len() {
            while let Some(datagram) = self.hosts[id].poll_transmit(self.now) {
                self.count_step()?;
                let verdict = self.network.send(self.now, &datagram);
                if let Some(trace) = &mut self.trace {
                    trace.push(Sent {
                        at: self.now,
                        datagram,
                        verdict,
                    });
                }
            }
        }
        Ok(())
    }

    fn next_event(&self) -> Option<Instant> {
        let timeouts = self.hosts.iter().filter_map(Host::next_timeout);
        timeouts.chain(self.network.next_arrival()).min()
    }

    /// Delivers one datagram, or when none has arrived, lets the first host act whose time has
    /// come.
    fn step(&mut self) {
        if let Some(datagram) = self.network.receive(self.now) {
            if let Some(id) = self.hosts_by_address.get(&datagram.destination) {
                self.hosts[id.0].handle_datagram(self.now, datagram);
            }
            return;
        }
        let is_due = |host: &&mut H| host.next_timeout().is_some_and(|time| time <= self.now);
        if let Some(host) = self.hosts.iter_mut().find(is_due) {
            host.handle_timeout(self.now);
        }
    }

    fn count_step(&mut self) -> Result<(), Stalled> {
        self.steps_since_clock_moved += 1;
        if self.steps_since_clock_moved > MAXIMUM_STEPS_AT_ONE_TIME {
            return Err(Stalled { at: self.now });
        }
        Ok(())
    }
}

impl fmt::Display for Stalled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the hosts are busy without end at one time")
    }
}

impl std::error::Error for Stalled {}

/// More than any host has reason to do at once; a loop without end is found in seconds.
const MAXIMUM_STEPS_AT_ONE_TIME: u32 = 1_000_000;
