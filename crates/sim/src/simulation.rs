//! Hosts on a network, driven by a virtual clock.

use crate::network::Arrival;
use crate::schedule::Schedule;
use crate::{Datagram, Fate, LinkId, Network};
use link::{Alteration, Link};
use rand_chacha::ChaCha12Rng;
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

    /// A datagram that the host sent was too big for a link of that MTU, in bytes, and the link
    /// says so. Nobody has to listen.
    fn handle_too_big(&mut self, now: Instant, datagram: Datagram<Self::Payload>, mtu: usize) {
        let _ = (now, datagram, mtu);
    }

    /// Flips bits of a payload that the link has spoiled; false when it has none to flip: then it
    /// vanishes, as if a checksum below had found it out.
    fn alter(payload: &mut Self::Payload, alteration: &Alteration) -> bool {
        let _ = (payload, alteration);
        false
    }

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
    schedule: Schedule,
    /// By time, and at one time by the order in which they were planned.
    plans: BTreeMap<(Instant, u64), Plan<H>>,
    next_plan: u64,
    trace: Option<Vec<Sent<H::Payload>>>,
    steps_since_clock_moved: u32,
}

/// Something that is to be done to a simulation.
type Plan<H> = Box<dyn FnOnce(&mut Simulation<H>)>;

/// One datagram that a host sent, and what became of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sent<P> {
    /// When it was sent.
    pub at: Instant,
    /// What was sent.
    pub datagram: Datagram<P>,
    /// What the network did to it.
    pub fate: Fate,
}

/// Why a simulation stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stop {
    /// What was waited for has happened.
    Done,
    /// Nothing is on its way or planned, and no host waits for any time.
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
            schedule: Schedule::default(),
            plans: BTreeMap::new(),
            next_plan: 0,
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
    pub fn connect(&mut self, from: IpAddr, to: IpAddr, link: Link) -> LinkId {
        self.network.connect(from, to, link)
    }

    /// Plans something that is to be done at a time, before anything else that happens then: a link
    /// cut, a host restarted, a user who begins to speak. What is planned for a time that has
    /// passed is done next.
    pub fn at(&mut self, time: Instant, plan: impl FnOnce(&mut Simulation<H>) + 'static) {
        self.plans.insert((time, self.next_plan), Box::new(plan));
        self.next_plan += 1;
    }

    /// From now on chance decides which host has its turn, of those that have something to do at
    /// one time. Otherwise what arrives comes before who waits, and hosts take turns as they were
    /// added.
    pub fn shuffle(&mut self, rng: ChaCha12Rng) {
        self.schedule = Schedule::random(rng);
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

    /// The network, to be changed.
    pub fn network_mut(&mut self) -> &mut Network<H::Payload> {
        &mut self.network
    }

    /// A host.
    pub fn host(&self, id: HostId) -> &H {
        &self.hosts[id.0]
    }

    /// All hosts, in the order in which they were added.
    pub fn hosts(&self) -> impl Iterator<Item = &H> {
        self.hosts.iter()
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
                let fate = self.network.send(self.now, &datagram);
                if let Some(trace) = &mut self.trace {
                    trace.push(Sent {
                        at: self.now,
                        datagram,
                        fate,
                    });
                }
            }
        }
        Ok(())
    }

    fn next_event(&self) -> Option<Instant> {
        let timeouts = self.hosts.iter().filter_map(Host::next_timeout);
        let planned = self.plans.keys().next().map(|&(time, _)| time);
        timeouts
            .chain(self.network.next_arrival())
            .chain(planned)
            .min()
    }

    /// Does one thing whose time has come: what is planned before all else.
    fn step(&mut self) {
        if let Some(planned) = self.plans.first_entry()
            && planned.key().0 <= self.now
        {
            planned.remove()(self);
            return;
        }
        let next_arrival = self.network.next_arrival();
        let arrivals = usize::from(next_arrival.is_some_and(|time| time <= self.now));
        let due = self.due().count();
        if arrivals + due == 0 {
            return;
        }
        let choice = self.schedule.choose(arrivals + due);
        let Some(number) = choice.checked_sub(arrivals) else {
            self.deliver();
            return;
        };
        let index = self.due().nth(number);
        if let Some(host) = index.and_then(|index| self.hosts.get_mut(index)) {
            host.handle_timeout(self.now);
        }
    }

    /// The hosts whose time has come.
    fn due(&self) -> impl Iterator<Item = usize> {
        let is_due = |host: &H| host.next_timeout().is_some_and(|time| time <= self.now);
        let hosts = self.hosts.iter().enumerate();
        hosts.filter_map(move |(index, host)| is_due(host).then_some(index))
    }

    fn deliver(&mut self) {
        let Some(arrival) = self.network.receive(self.now) else {
            return;
        };
        let Some(id) = self.hosts_by_address.get(&arrival.address()) else {
            return;
        };
        let host = &mut self.hosts[id.0];
        match arrival {
            Arrival::Datagram(mut datagram, alteration) => {
                if let Some(alteration) = alteration
                    && !H::alter(&mut datagram.payload, &alteration)
                {
                    self.network.count_altered_lost();
                    return;
                }
                host.handle_datagram(self.now, datagram);
            }
            Arrival::TooBig(datagram, mtu) => host.handle_too_big(self.now, datagram, mtu),
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
