//! A worker of a stack owns the sending end of the carrier, and the engines of all endpoints with the
//! associations that are its own. Its task runs it, and so does a handle that has something to send: one at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sctp::packet::Packet;
use sctp::{IcmpError, IcmpKind, PathAddress};
use udp_net::Report;

use super::WorkerContext;
use super::deadlines::Deadlines;
use super::port::Port;
use crate::carrier::{Arrived, Blocked, Reported, Writer};
use crate::claims::OutOfTheBlueDuty;
use crate::keys::EndpointKey;
use crate::mailbox::Command;
use crate::service_queue::ServiceRequests;
use crate::statistics::StackStatistics;
use crate::worker_group::{HandedOver, WorkerGroup};

/// How many packets are collected before they are sent.
const SEND_BATCH: usize = 128;

/// How often requests that come while the worker runs are served in the same run.
const LATE_ROUNDS: usize = 4;

pub(super) struct Worker {
    writer: Writer,
    duty: Option<Arc<Mutex<OutOfTheBlueDuty>>>,
    ports: BTreeMap<u16, Port>,
    /// Ports whose engines may have packets or events.
    dirty: BTreeSet<u16>,
    deadlines: Deadlines,
    context: WorkerContext,
    /// When the task looks at the deadlines next.
    wake_at: Option<Instant>,
    is_closing: bool,
    /// What the endpoints counted that are no more, and what belongs to none.
    counted: StackStatistics,
}

/// A worker, for as long as its task lives.
#[derive(Clone)]
pub(crate) struct SharedWorker(Arc<Mutex<Option<Worker>>>);

/// What the task waits for.
pub(super) struct Wait {
    /// When it is to be woken.
    pub(super) wake_at: Option<Instant>,
    /// Where there was no room for packets.
    pub(super) blocked: Option<Blocked>,
}

impl SharedWorker {
    pub(super) fn new(worker: Worker) -> SharedWorker {
        SharedWorker(Arc::new(Mutex::new(Some(worker))))
    }

    /// Serves the requests of handles in place of the task, which saves a change of threads. False when another thread
    /// runs the worker, or the task has ended.
    pub(crate) fn service(&self) -> bool {
        let Ok(mut worker) = self.0.try_lock() else {
            return false;
        };
        let Some(worker) = worker.as_mut() else {
            return false;
        };
        worker.service_for_handle(Instant::now());
        true
    }

    /// `None` when a thread has panicked that ran the worker.
    pub(super) fn lock(&self) -> Option<MutexGuard<'_, Option<Worker>>> {
        self.0.lock().ok()
    }

    /// What the task waits for now; `set` is when it is woken already. `None` as for [`lock`](Self::lock).
    pub(super) fn next_wait(&self, set: Option<Instant>) -> Option<Wait> {
        let mut worker = self.lock()?;
        Some(worker.as_mut()?.next_wait(set))
    }

    /// Waits until nothing that was sent is held back any more, but not longer than `limit`: a network that takes too long
    /// for the last packets may lose them, as any may.
    pub(super) async fn drain(&self, limit: Duration) {
        let sockets = match self.lock().as_deref() {
            Some(Some(worker)) => worker.writer.delayed(),
            _ => return,
        };
        let drained = async {
            for socket in sockets {
                socket.drained().await;
            }
        };
        tokio::time::timeout(limit, drained).await.ok();
    }

    /// The task ends: the worker does not run any more.
    pub(super) fn take(&self) -> Option<Worker> {
        let mut worker = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        worker.take()
    }
}

impl fmt::Debug for SharedWorker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SharedWorker").finish_non_exhaustive()
    }
}

impl Worker {
    pub(super) fn new(
        writer: Writer,
        duty: Option<Arc<Mutex<OutOfTheBlueDuty>>>,
        context: WorkerContext,
    ) -> Worker {
        Worker {
            writer,
            duty,
            ports: BTreeMap::new(),
            dirty: BTreeSet::new(),
            deadlines: Deadlines::default(),
            context,
            wake_at: None,
            is_closing: false,
            counted: StackStatistics::default(),
        }
    }

    fn service_for_handle(&mut self, now: Instant) {
        self.service_again(now);
        let next = self.deadlines.next();
        let is_early = next.is_some_and(|next| self.wake_at.is_none_or(|wake_at| next < wake_at));
        let is_left = self.writer.len() > 0 || !self.dirty.is_empty();
        // What the task waits for has changed.
        if is_early || is_left || self.is_closing || !self.context.mailbox.is_empty() {
            self.context.mailbox.service().wake();
        }
    }

    /// Serves the requests that have come meanwhile, so that they need not wait for the task.
    pub(super) fn service_again(&mut self, now: Instant) {
        for _ in 0..LATE_ROUNDS {
            if self.context.mailbox.is_empty() {
                return;
            }
            self.service(now);
            self.flush(now);
        }
    }

    /// What the task waits for. Deadlines that have moved to later are looked at too early, once: they move with every
    /// packet.
    fn next_wait(&mut self, set: Option<Instant>) -> Wait {
        self.wake_at = set.into_iter().chain(self.deadlines.next()).min();
        Wait {
            wake_at: self.wake_at,
            blocked: self.writer.blocked(),
        }
    }

    /// Whether no endpoint is left.
    pub(super) fn has_no_ports(&self) -> bool {
        self.ports.is_empty()
    }

    pub(super) fn handle_packet(&mut self, now: Instant, arrived: Arrived, group: &WorkerGroup) {
        let from = arrived.from;
        let is_unicast = is_unicast(from.remote) && from.local.is_none_or(is_unicast);
        let packet = match Packet::read(&arrived.packet) {
            Ok(packet) if is_unicast => packet,
            _ => {
                self.counted.not_for_us += 1;
                return;
            }
        };
        let port = packet.header().destination_port;
        // A packet for another program, or for no port at all, is not handed over.
        let owner = match self.has_port(port) {
            true => group.owner_of(from, &packet),
            false => self.context.worker,
        };
        if owner == self.context.worker {
            self.handle_own_packet(now, port, arrived);
        } else {
            self.hand_over(owner, HandedOver::Packet(arrived), group);
        }
    }

    /// Whether some worker of the stack serves the port: this one may have given it up before the
    /// others.
    fn has_port(&self, number: u16) -> bool {
        self.ports.contains_key(&number) || self.context.ports.holds(number)
    }

    fn handle_own_packet(&mut self, now: Instant, number: u16, arrived: Arrived) {
        if let Some(port) = self.ports.get_mut(&number) {
            self.writer.note_arrival(&arrived);
            let Arrived { from, packet } = arrived;
            port.handle_packet(now, from, packet);
            self.dirty.insert(number);
            self.answer_at_once(now, number);
        } else if self.is_out_of_the_blue(now, arrived.from, number) {
            self.writer.note_arrival(&arrived);
            self.counted.out_of_the_blue += 1;
            self.answer_out_of_the_blue(arrived.from, &arrived.packet);
        }
    }

    /// Collects what a packet lets out before the next one is handled. Each SACK is an opportunity
    /// to send of its own, with a Max.Burst of its own (RFC 9260 section 6.1 D), and every second
    /// packet gets its SACK (section 6.2), however many arrive in one batch, unless that is what
    /// [`joint_acknowledgement`](crate::UdpCarrierConfig::joint_acknowledgement) asks for and nothing else waits to be sent.
    fn answer_at_once(&mut self, now: Instant, number: u16) {
        let Some(port) = self.ports.get_mut(&number) else {
            return;
        };
        if self.context.joint_acknowledgement && !port.has_more_than_sacks() {
            return;
        }
        while self.writer.len() < SEND_BATCH || self.writer.flush() {
            match port.poll_transmit(now) {
                Some(transmit) => self.writer.push(transmit),
                None => return,
            }
        }
    }

    /// Whether a packet to a port that we don't have is ours to answer: not when another program
    /// has the port, or the duty.
    fn is_out_of_the_blue(&self, now: Instant, from: PathAddress, port: u16) -> bool {
        let Some(duty) = &self.duty else {
            return true;
        };
        // No panic can happen while the lock is held that would leave the tables in disorder.
        let mut duty = duty.lock().unwrap_or_else(PoisonError::into_inner);
        from.local
            .is_some_and(|local| duty.includes(now, local, port))
    }

    /// A packet to a port without endpoint (RFC 9260 section 8.4). Its sender may have to wait for
    /// an answer when there is much else to send.
    fn answer_out_of_the_blue(&mut self, from: PathAddress, packet: &[u8]) {
        let writer = &mut self.writer;
        if writer.len() >= SEND_BATCH {
            return;
        }
        if let Some(answer) = sctp::answer_out_of_the_blue(from, packet) {
            writer.push(answer);
        }
    }

    pub(super) fn handle_error(&mut self, now: Instant, reported: Reported, group: &WorkerGroup) {
        let owner = group.owner_of_error(&reported);
        if owner == self.context.worker {
            self.handle_own_error(now, reported);
        } else {
            self.hand_over(owner, HandedOver::Error(reported), group);
        }
    }

    fn handle_own_error(&mut self, now: Instant, reported: Reported) {
        let Some((number, error)) = icmp_error(reported) else {
            return;
        };
        if let Some(port) = self.ports.get_mut(&number) {
            port.handle_icmp(now, error);
            self.dirty.insert(number);
        }
    }

    fn hand_over(&mut self, worker: usize, item: HandedOver, group: &WorkerGroup) {
        if group.hand_over(worker, item) {
            self.counted.handed_over += 1;
        } else {
            self.counted.hand_over_overflows += 1;
        }
    }

    pub(super) fn handle_handed_over(&mut self, now: Instant, item: HandedOver) {
        match item {
            HandedOver::Packet(arrived) => {
                if let Ok(packet) = Packet::read(&arrived.packet) {
                    let port = packet.header().destination_port;
                    self.handle_own_packet(now, port, arrived);
                }
            }
            HandedOver::Error(reported) => self.handle_own_error(now, reported),
        }
    }

    /// Serves a command. The caller may have given up meanwhile: errors of replies are ignored.
    pub(super) fn handle_command(&mut self, now: Instant, command: Command) {
        match command {
            Command::Connect {
                endpoint,
                mut to,
                reply,
            } => {
                for path in &mut to.peer {
                    path.local = self.writer.source_toward(path.remote);
                }
                if let Some(port) = self.mark_dirty(endpoint) {
                    port.connect(now, *to, reply);
                }
            }
            Command::Control {
                key,
                control,
                reply,
            } => {
                if let Some(port) = self.mark_dirty(key.endpoint) {
                    reply.send(port.control(now, key.id, control)).ok();
                }
            }
            Command::Call { key, call } => {
                if let Some(port) = self.mark_dirty(key.endpoint) {
                    port.call(now, key.id, call);
                }
            }
            Command::Status { key, reply } => {
                let port = self.port(key.endpoint);
                reply.send(port.and_then(|port| port.status(key.id))).ok();
            }
            Command::AssociationStatistics { key, reply } => {
                let port = self.port(key.endpoint);
                let statistics = port.and_then(|port| port.association_statistics(key.id));
                reply.send(statistics).ok();
            }
            Command::CloseEndpoint { endpoint, reply } => {
                let deadline = now + self.context.close_timeout;
                match self.mark_dirty(endpoint) {
                    Some(port) => port.close(now, deadline, Some(reply)),
                    None => drop(reply.send(())),
                }
            }
            // The task answers these by itself.
            Command::Statistics { .. } | Command::CloseStack { .. } => {}
        }
    }

    /// Looks at everything that handles have put on the list.
    pub(super) fn service(&mut self, now: Instant) {
        let (new_endpoints, requests) = self.context.mailbox.take();
        let ServiceRequests {
            associations,
            inboxes,
            abandoned_connects,
            dropped_endpoints,
        } = requests;
        for endpoint in new_endpoints {
            let number = endpoint.key.port;
            let port = Port::new(endpoint, self.context.clone());
            self.ports.insert(number, port);
            if self.is_closing {
                self.close_port(now, number);
            }
        }
        for key in associations {
            if let Some(port) = self.mark_dirty(key.endpoint) {
                port.service_association(now, key.id);
            }
        }
        for endpoint in inboxes {
            if let Some(port) = self.mark_dirty(endpoint) {
                port.service_inbox(now);
            }
        }
        for endpoint in abandoned_connects {
            if let Some(port) = self.mark_dirty(endpoint) {
                port.abandon_connects(now);
            }
        }
        let close_deadline = now + self.context.close_timeout;
        for endpoint in dropped_endpoints {
            if let Some(port) = self.mark_dirty(endpoint) {
                port.handles_dropped(now, close_deadline);
            }
        }
    }

    /// The endpoint, if it is still there.
    fn port(&self, endpoint: EndpointKey) -> Option<&Port> {
        self.ports
            .get(&endpoint.port)
            .filter(|port| port.key() == endpoint)
    }

    /// The endpoint, if it is still there, to be given work: its engine will be asked what it has
    /// to say.
    fn mark_dirty(&mut self, endpoint: EndpointKey) -> Option<&mut Port> {
        let port = self
            .ports
            .get_mut(&endpoint.port)
            .filter(|port| port.key() == endpoint)?;
        self.dirty.insert(endpoint.port);
        Some(port)
    }

    pub(super) fn handle_timeouts(&mut self, now: Instant) {
        while let Some(number) = self.deadlines.pop_due(now) {
            if let Some(port) = self.ports.get_mut(&number) {
                port.handle_timeout(now);
                self.dirty.insert(number);
            }
        }
    }

    /// Begins to shut everything down.
    pub(super) fn close(&mut self, now: Instant) {
        self.context.mailbox.close();
        self.is_closing = true;
        for number in self.ports.keys().copied().collect::<Vec<_>>() {
            self.close_port(now, number);
        }
    }

    fn close_port(&mut self, now: Instant, number: u16) {
        if let Some(port) = self.ports.get_mut(&number) {
            port.close(now, now + self.context.close_timeout, None);
            self.dirty.insert(number);
        }
    }

    /// Lets every dirty engine say what it has to say, until all are quiet or the kernel
    /// takes no more packets.
    pub(super) fn flush(&mut self, now: Instant) {
        self.flush_dirty(now);
        // What is larger than the interface takes can be sent again at once, in smaller packets: it was ours.
        while let Some(refused) = self.writer.pop_refused() {
            self.handle_own_error(now, refused);
        }
        self.flush_dirty(now);
    }

    fn flush_dirty(&mut self, now: Instant) {
        while self.writer.len() < SEND_BATCH || self.writer.flush() {
            let Some(&number) = self.dirty.first() else {
                break;
            };
            if self.flush_port(now, number) {
                self.dirty.remove(&number);
            }
        }
        self.writer.flush();
    }

    /// False when the port has more packets to send.
    fn flush_port(&mut self, now: Instant, number: u16) -> bool {
        let Some(port) = self.ports.get_mut(&number) else {
            return true;
        };
        // Either can give rise to the other: an event to an ABORT, sending the last packet to the end of
        // an association.
        loop {
            let mut is_quiet = !port.handle_events(now);
            while let Some(transmit) = port.poll_transmit(now) {
                is_quiet = false;
                self.writer.push(transmit);
                if self.writer.len() >= SEND_BATCH {
                    return false;
                }
            }
            if is_quiet {
                break;
            }
        }
        if port.is_finished() {
            self.deadlines.set(number, None);
            if let Some(port) = self.ports.remove(&number) {
                self.retire(now, number, port);
            }
        } else {
            self.deadlines.set(number, port.next_timeout());
        }
        true
    }

    fn retire(&mut self, now: Instant, number: u16, port: Port) {
        self.context.ports.release(number);
        self.counted += port.finish(now);
    }

    /// What was counted here.
    pub(super) fn statistics(&self) -> StackStatistics {
        let mut sum = self.counted;
        sum.carrier += self.writer.statistics();
        for port in self.ports.values() {
            sum += port.statistics();
        }
        sum
    }

    /// Ends all ports and completes all pending replies. Returns the counters.
    pub(super) fn finish(mut self, now: Instant) -> StackStatistics {
        for endpoint in self.context.mailbox.take().0 {
            let port = Port::new(endpoint, self.context.clone());
            self.retire(now, port.key().port, port);
        }
        for (number, port) in std::mem::take(&mut self.ports) {
            self.retire(now, number, port);
        }
        self.statistics()
    }
}

/// What the engine of which port is told of an error; nothing when it says nothing to SCTP.
fn icmp_error(reported: Reported) -> Option<(u16, IcmpError)> {
    let Reported {
        path,
        report,
        quoted,
    } = reported;
    let kind = match report {
        Report::TooBig { mtu } => IcmpKind::PacketTooBig {
            mtu: usize::try_from(mtu).unwrap_or(usize::MAX),
        },
        Report::Icmp { icmp_type, code } => IcmpKind::of_icmpv4(icmp_type, code, 0)?,
        Report::Icmpv6 { icmp_type, code } => IcmpKind::of_icmpv6(icmp_type, code, 0)?,
        Report::Local { .. } => return None,
    };
    // The packet was ours: its source port is the local one.
    let port = u16::from_be_bytes(*quoted.first_chunk()?);
    Some((port, IcmpError { path, kind, quoted }))
}

/// Packets to or from other addresses are not answered (RFC 9260 section 8.4, rule 1), and no
/// association has them.
fn is_unicast(address: IpAddr) -> bool {
    let broadcast = matches!(address, IpAddr::V4(address) if address.is_broadcast());
    !address.is_multicast() && !broadcast
}
