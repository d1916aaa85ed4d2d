//! The task that serves a stack, or one of several: it owns a part of the carrier, and the engines of
//! all endpoints with the associations that are its own.

mod deadlines;
mod names;
mod port;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use sctp::packet::Packet;
use sctp::{IcmpError, IcmpKind, PathAddress};
use tokio::sync::{mpsc, oneshot};
use udp_net::Report;

use crate::carrier::{Arrived, Reader, Reported, Writer};
use crate::claims::OutOfTheBlueDuty;
use crate::directory::Directory;
use crate::mailbox::{Attention, Command, EndpointKey, Mailbox};
use crate::ports::Ports;
use crate::statistics::StackStatistics;
use crate::team::{HandedOver, Team};
use deadlines::Deadlines;
use port::Port;

/// How many packets are collected before they are sent.
const SEND_BATCH: usize = 128;

/// How many commands are served before packets are looked at again.
const COMMAND_BATCH: usize = 64;

/// How long packets that an impairment delays may still leave after everything has ended.
const LAST_PACKETS: Duration = Duration::from_secs(2);

pub(crate) struct Driver {
    post: Post,
    /// Somebody may still send commands.
    commands_open: bool,
    ports: BTreeMap<u16, Port>,
    /// Ports whose engines may have something to say.
    touched: BTreeSet<u16>,
    deadlines: Deadlines,
    surroundings: Surroundings,
    /// What other workers have handed over.
    handed_over: Vec<HandedOver>,
    /// Those who wait for the end, once it has been asked for.
    closing: Option<Vec<oneshot::Sender<()>>>,
    /// Nothing is left to do but for the others, who have been told.
    finished: bool,
    /// What the endpoints counted that are no more, and what belongs to none.
    counted: StackStatistics,
}

/// What a worker works with.
pub(crate) struct Post {
    /// Missing where another worker reads for this one.
    pub(crate) reader: Option<Reader>,
    pub(crate) writer: Writer,
    pub(crate) team: Team,
    /// Who answers packets to ports that nobody has, where ports are the whole host's.
    pub(crate) duty: Option<Arc<Mutex<OutOfTheBlueDuty>>>,
    pub(crate) commands: mpsc::Receiver<Command>,
}

/// What a worker and its ports know of the stack.
#[derive(Clone, Debug)]
pub(crate) struct Surroundings {
    /// Stands in where the local address of a path is not known.
    pub(crate) local_addr: SocketAddr,
    /// The addresses that peers are told of.
    pub(crate) listed_addresses: Vec<IpAddr>,
    pub(crate) accept_backlog: usize,
    pub(crate) close_timeout: Duration,
    pub(crate) mailbox: Arc<Mailbox>,
    pub(crate) ports: Arc<Ports>,
    /// This worker's number.
    pub(crate) worker: usize,
    /// How many there are.
    pub(crate) workers: usize,
    pub(crate) directory: Directory,
}

/// Why the driver woke.
enum Wake {
    Packets(io::Result<()>),
    Writable(io::Result<()>),
    HandedOver,
    Command(Option<Command>),
    Attention,
    Timeout,
    AllFinished,
}

impl Driver {
    pub(crate) fn new(post: Post, surroundings: Surroundings) -> Self {
        Self {
            post,
            commands_open: true,
            ports: BTreeMap::new(),
            touched: BTreeSet::new(),
            deadlines: Deadlines::default(),
            surroundings,
            handed_over: Vec::new(),
            closing: None,
            finished: false,
            counted: StackStatistics::default(),
        }
    }

    /// Serves until the stack is closed and everything has ended.
    pub(crate) async fn run(mut self) {
        loop {
            // A carrier with packets in it is always ready: others get their turn here.
            tokio::task::coop::consume_budget().await;
            let wake = self.wait().await;
            let now = Instant::now();
            // Endpoints are opened before the commands that are meant for them.
            self.attend(now);
            match wake {
                Wake::Packets(Ok(())) => self.handle_packets(now),
                Wake::Packets(Err(error)) | Wake::Writable(Err(error)) => {
                    let local = self.surroundings.local_addr;
                    tracing::error!(%local, %error, "the carrier under SCTP failed");
                    // The others cannot go on alone.
                    self.post.team.fail();
                    break;
                }
                Wake::Writable(Ok(())) | Wake::Attention => {}
                Wake::HandedOver => self.handle_handed_over(now),
                Wake::Command(Some(command)) => self.handle_commands(now, command),
                Wake::Command(None) => {
                    self.commands_open = false;
                    self.close(now, None);
                }
                Wake::Timeout => self.handle_timeouts(now),
                Wake::AllFinished => break,
            }
            self.settle(now);
            if self.closing.is_some() && self.ports.is_empty() && !self.finished {
                // A network that takes too long for the last packets may lose them, as any may.
                let drained = self.post.writer.drained();
                tokio::time::timeout(LAST_PACKETS, drained).await.ok();
                if self.post.team.is_alone() {
                    break;
                }
                self.finished = true;
                self.post.team.finish();
            }
        }
    }

    async fn wait(&mut self) -> Wake {
        let deadline = self.deadlines.next();
        let Post {
            reader,
            writer,
            team,
            commands,
            ..
        } = &mut self.post;
        let blocked = writer.len() > 0;
        tokio::select! {
            result = receive(reader.as_mut()) => Wake::Packets(result),
            result = writer.writable(), if blocked => Wake::Writable(result),
            ended = team.wait(&mut self.handed_over), if !team.is_alone() => match ended {
                true => Wake::AllFinished,
                false => Wake::HandedOver,
            },
            command = commands.recv(), if self.commands_open => Wake::Command(command),
            () = self.surroundings.mailbox.wait() => Wake::Attention,
            () = wait_until(deadline) => Wake::Timeout,
        }
    }

    fn handle_packets(&mut self, now: Instant) {
        while let Some(arrived) = self.post.reader.as_mut().and_then(Reader::pop) {
            self.handle_packet(now, arrived);
        }
        while let Some(reported) = self.post.reader.as_mut().and_then(Reader::pop_error) {
            self.handle_error(now, reported);
        }
    }

    fn handle_packet(&mut self, now: Instant, arrived: Arrived) {
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
        // What is for another program, or nobody, is no work for another worker.
        let owner = match self.has_port(port) {
            true => self.post.team.owner_of(from, &packet),
            false => self.surroundings.worker,
        };
        if owner == self.surroundings.worker {
            self.handle_own_packet(now, port, arrived);
        } else {
            self.hand_over(owner, HandedOver::Packet(arrived));
        }
    }

    /// Whether some worker of the stack serves the port: this one may have given it up before the
    /// others.
    fn has_port(&self, number: u16) -> bool {
        self.ports.contains_key(&number) || self.surroundings.ports.holds(number)
    }

    fn handle_own_packet(&mut self, now: Instant, number: u16, arrived: Arrived) {
        if let Some(port) = self.ports.get_mut(&number) {
            self.post.writer.note_arrival(&arrived);
            let Arrived { from, packet } = arrived;
            port.handle_packet(now, from, packet);
            self.touched.insert(number);
            self.answer_at_once(now, number);
        } else if self.is_out_of_the_blue(now, arrived.from, number) {
            self.post.writer.note_arrival(&arrived);
            self.counted.out_of_the_blue += 1;
            self.answer_out_of_the_blue(arrived.from, &arrived.packet);
        }
    }

    /// Collects what a packet lets out before the next one is handled. Each SACK is an opportunity
    /// to send of its own, with a Max.Burst of its own (RFC 9260 section 6.1 D), and every second
    /// packet gets its SACK (section 6.2), however many arrive in one batch.
    fn answer_at_once(&mut self, now: Instant, number: u16) {
        let Some(port) = self.ports.get_mut(&number) else {
            return;
        };
        while self.post.writer.len() < SEND_BATCH || self.post.writer.flush() {
            match port.poll_transmit(now) {
                Some(transmit) => self.post.writer.push(transmit),
                None => return,
            }
        }
    }

    /// Whether a packet to a port that we don't have is ours to answer: not when another program
    /// has the port, or the duty.
    fn is_out_of_the_blue(&self, now: Instant, from: PathAddress, port: u16) -> bool {
        let Some(duty) = &self.post.duty else {
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
        let writer = &mut self.post.writer;
        if writer.len() >= SEND_BATCH {
            return;
        }
        if let Some(answer) = sctp::answer_out_of_the_blue(from, packet) {
            writer.push(answer);
        }
    }

    fn handle_error(&mut self, now: Instant, reported: Reported) {
        let owner = self.post.team.owner_of_error(&reported);
        if owner == self.surroundings.worker {
            self.handle_own_error(now, reported);
        } else {
            self.hand_over(owner, HandedOver::Error(reported));
        }
    }

    fn handle_own_error(&mut self, now: Instant, reported: Reported) {
        let Some((number, error)) = icmp_error(reported) else {
            return;
        };
        if let Some(port) = self.ports.get_mut(&number) {
            port.handle_icmp(now, error);
            self.touched.insert(number);
        }
    }

    fn hand_over(&mut self, worker: usize, item: HandedOver) {
        if self.post.team.hand_over(worker, item) {
            self.counted.handed_over += 1;
        } else {
            self.counted.hand_over_overflows += 1;
        }
    }

    fn handle_handed_over(&mut self, now: Instant) {
        for item in std::mem::take(&mut self.handed_over) {
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
    }

    fn handle_commands(&mut self, now: Instant, first: Command) {
        self.handle_command(now, first);
        for _ in 1..COMMAND_BATCH {
            let Ok(command) = self.post.commands.try_recv() else {
                return;
            };
            // One that was sent after `attend` may be for an endpoint opened after it, too.
            self.attend(now);
            self.handle_command(now, command);
        }
    }

    /// Serves a command. Those who asked may have gone meanwhile: answers are sent and forgotten.
    fn handle_command(&mut self, now: Instant, command: Command) {
        match command {
            Command::Connect {
                endpoint,
                mut to,
                reply,
            } => {
                for path in &mut to.peer {
                    path.local = self.post.writer.source_toward(path.remote);
                }
                if let Some(port) = self.touch(endpoint) {
                    port.connect(now, *to, reply);
                }
            }
            Command::Control {
                key,
                control,
                reply,
            } => {
                if let Some(port) = self.touch(key.endpoint) {
                    reply.send(port.control(now, key.id, control)).ok();
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
            Command::Statistics { reply } => drop(reply.send(self.statistics())),
            Command::CloseEndpoint { endpoint, reply } => {
                let deadline = now + self.surroundings.close_timeout;
                match self.touch(endpoint) {
                    Some(port) => port.close(now, deadline, Some(reply)),
                    None => drop(reply.send(())),
                }
            }
            Command::CloseStack { reply } => self.close(now, Some(reply)),
        }
    }

    /// Looks at everything that handles have put on the list.
    fn attend(&mut self, now: Instant) {
        let Attention {
            new_endpoints,
            associations,
            endpoints,
            abandoned_connects,
            dropped_endpoints,
        } = self.surroundings.mailbox.take();
        for endpoint in new_endpoints {
            let number = endpoint.key.port;
            let port = Port::new(endpoint, self.surroundings.clone());
            self.ports.insert(number, port);
            if self.closing.is_some() {
                self.close_port(now, number);
            }
        }
        for key in associations {
            if let Some(port) = self.touch(key.endpoint) {
                port.attend_association(now, key.id);
            }
        }
        for endpoint in endpoints {
            if let Some(port) = self.touch(endpoint) {
                port.attend_inbox(now);
            }
        }
        for endpoint in abandoned_connects {
            if let Some(port) = self.touch(endpoint) {
                port.abandon_connects(now);
            }
        }
        let close_deadline = now + self.surroundings.close_timeout;
        for endpoint in dropped_endpoints {
            if let Some(port) = self.touch(endpoint) {
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
    fn touch(&mut self, endpoint: EndpointKey) -> Option<&mut Port> {
        let port = self
            .ports
            .get_mut(&endpoint.port)
            .filter(|port| port.key() == endpoint)?;
        self.touched.insert(endpoint.port);
        Some(port)
    }

    fn handle_timeouts(&mut self, now: Instant) {
        while let Some(number) = self.deadlines.pop_due(now) {
            if let Some(port) = self.ports.get_mut(&number) {
                port.handle_timeout(now);
                self.touched.insert(number);
            }
        }
    }

    fn close(&mut self, now: Instant, reply: Option<oneshot::Sender<()>>) {
        self.surroundings.mailbox.close();
        self.closing.get_or_insert_default().extend(reply);
        for number in self.ports.keys().copied().collect::<Vec<_>>() {
            self.close_port(now, number);
        }
    }

    fn close_port(&mut self, now: Instant, number: u16) {
        if let Some(port) = self.ports.get_mut(&number) {
            port.close(now, now + self.surroundings.close_timeout, None);
            self.touched.insert(number);
        }
    }

    /// Lets every engine that was touched say what it has to say, until all are quiet or the kernel
    /// takes no more packets.
    fn settle(&mut self, now: Instant) {
        self.settle_touched(now);
        // What is larger than the interface takes can be sent again at once, in smaller packets.
        while let Some(refused) = self.post.writer.pop_refused() {
            self.handle_error(now, refused);
        }
        self.settle_touched(now);
    }

    fn settle_touched(&mut self, now: Instant) {
        while self.post.writer.len() < SEND_BATCH || self.flush() {
            let Some(&number) = self.touched.first() else {
                break;
            };
            if self.settle_port(now, number) {
                self.touched.remove(&number);
            }
        }
        self.flush();
    }

    /// False when the port has more packets to send.
    fn settle_port(&mut self, now: Instant, number: u16) -> bool {
        let Some(port) = self.ports.get_mut(&number) else {
            return true;
        };
        // Either can give rise to the other: an event to an ABORT, sending the last packet to the end of
        // an association.
        loop {
            let mut is_quiet = !port.handle_events(now);
            while let Some(transmit) = port.poll_transmit(now) {
                is_quiet = false;
                self.post.writer.push(transmit);
                if self.post.writer.len() >= SEND_BATCH {
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
                self.retire(number, port);
            }
        } else {
            self.deadlines.set(number, port.next_timeout());
        }
        true
    }

    fn retire(&mut self, number: u16, port: Port) {
        self.surroundings.ports.release(number);
        self.counted += port.finish();
    }

    /// True when everything is sent.
    fn flush(&mut self) -> bool {
        self.post.writer.flush()
    }

    fn statistics(&self) -> StackStatistics {
        let mut sum = self.counted;
        sum.carrier += self.post.writer.statistics();
        if let Some(reader) = &self.post.reader {
            sum.carrier += reader.statistics();
        }
        for port in self.ports.values() {
            sum += port.statistics();
        }
        sum
    }
}

/// Tells everyone who still waits that it is over: at the end of [`Driver::run`], or when the
/// runtime is shut down before.
impl Drop for Driver {
    fn drop(&mut self) {
        let mailbox = Arc::clone(&self.surroundings.mailbox);
        mailbox.close();
        for endpoint in mailbox.take().new_endpoints {
            let port = Port::new(endpoint, self.surroundings.clone());
            self.retire(port.key().port, port);
        }
        for (number, port) in std::mem::take(&mut self.ports) {
            self.retire(number, port);
        }
        mailbox.leave_statistics(self.statistics());
        for reply in self.closing.take().into_iter().flatten() {
            // Who waited may have gone meanwhile.
            reply.send(()).ok();
        }
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

async fn receive(reader: Option<&mut Reader>) -> io::Result<()> {
    match reader {
        Some(reader) => reader.receive().await,
        None => std::future::pending().await,
    }
}

/// Packets to or from other addresses are not answered (RFC 9260 section 8.4, rule 1), and no
/// association has them.
fn is_unicast(address: IpAddr) -> bool {
    let broadcast = matches!(address, IpAddr::V4(address) if address.is_broadcast());
    !address.is_multicast() && !broadcast
}

async fn wait_until(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time.into()).await,
        None => std::future::pending().await,
    }
}
