//! The task that serves a stack: it owns the UDP socket and the engines of all endpoints.

mod deadlines;
mod port;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use sctp::packet::Packet;
use sctp::{PathAddress, Transmit};
use tokio::sync::{mpsc, oneshot};
use udp_net::{Batch, Datagram, Flushed, Received, SendQueue, UdpSocket};

use crate::config::UdpCarrierConfig;
use crate::mailbox::{Attention, Command, EndpointKey, Mailbox};
use crate::statistics::StackStatistics;
use deadlines::Deadlines;
use port::{Port, Surroundings};

/// How many packets are collected before they are sent.
const SEND_BATCH: usize = 128;

/// How many commands are served before packets are looked at again.
const COMMAND_BATCH: usize = 64;

/// How long packets that an impairment delays may still leave after everything has ended.
const LAST_PACKETS: Duration = Duration::from_secs(2);

pub(crate) struct Driver {
    socket: UdpSocket,
    batch: Batch,
    queue: SendQueue,
    mailbox: Arc<Mailbox>,
    commands: mpsc::Receiver<Command>,
    /// Somebody may still send commands.
    commands_open: bool,
    ports: BTreeMap<u16, Port>,
    /// Ports whose engines may have something to say.
    touched: BTreeSet<u16>,
    deadlines: Deadlines,
    surroundings: Surroundings,
    close_timeout: Duration,
    /// Those who wait for the end, once it has been asked for.
    closing: Option<Vec<oneshot::Sender<()>>>,
    /// What the endpoints counted that are no more, and what belongs to none.
    counted: StackStatistics,
}

/// Why the driver woke.
enum Wake {
    Packets(io::Result<()>),
    Writable(io::Result<()>),
    Command(Option<Command>),
    Attention,
    Timeout,
}

impl Driver {
    pub(crate) fn new(
        socket: UdpSocket,
        config: &UdpCarrierConfig,
        mailbox: Arc<Mailbox>,
        commands: mpsc::Receiver<Command>,
    ) -> Self {
        Self {
            batch: Batch::new(),
            queue: SendQueue::new(),
            surroundings: Surroundings {
                local_addr: socket.local_addr(),
                accept_backlog: config.accept_backlog,
                mailbox: Arc::clone(&mailbox),
            },
            socket,
            mailbox,
            commands,
            commands_open: true,
            ports: BTreeMap::new(),
            touched: BTreeSet::new(),
            deadlines: Deadlines::default(),
            close_timeout: config.close_timeout,
            closing: None,
            counted: StackStatistics::default(),
        }
    }

    /// Serves until the stack is closed and everything has ended.
    pub(crate) async fn run(mut self) {
        loop {
            let wake = self.wait().await;
            let now = Instant::now();
            // Endpoints are opened before the commands that are meant for them.
            self.attend(now);
            match wake {
                Wake::Packets(Ok(())) => self.handle_packets(now),
                Wake::Packets(Err(error)) | Wake::Writable(Err(error)) => {
                    let local = self.socket.local_addr();
                    tracing::error!(%local, %error, "the socket under SCTP failed");
                    break;
                }
                Wake::Writable(Ok(())) | Wake::Attention => {}
                Wake::Command(Some(command)) => self.handle_commands(now, command),
                Wake::Command(None) => {
                    self.commands_open = false;
                    self.close(now, None);
                }
                Wake::Timeout => self.handle_timeouts(now),
            }
            self.settle(now);
            if self.closing.is_some() && self.ports.is_empty() {
                // A network that takes too long for the last packets may lose them, as any may.
                let drained = self.socket.drained();
                tokio::time::timeout(LAST_PACKETS, drained).await.ok();
                break;
            }
        }
    }

    async fn wait(&mut self) -> Wake {
        let blocked = !self.queue.is_empty();
        let deadline = self.deadlines.next();
        tokio::select! {
            result = self.socket.recv(&mut self.batch) => Wake::Packets(result),
            result = self.socket.writable(), if blocked => Wake::Writable(result),
            command = self.commands.recv(), if self.commands_open => Wake::Command(command),
            () = self.mailbox.wait() => Wake::Attention,
            () = wait_until(deadline) => Wake::Timeout,
        }
    }

    fn handle_packets(&mut self, now: Instant) {
        while let Some(received) = self.batch.pop() {
            self.handle_packet(now, received);
        }
    }

    fn handle_packet(&mut self, now: Instant, received: Received) {
        let local = received
            .destination_ip
            .unwrap_or(self.surroundings.local_addr.ip());
        let header = match Packet::read(&received.payload) {
            Ok(packet) if is_unicast(local) && is_unicast(received.source.ip()) => packet.header(),
            _ => {
                self.counted.not_for_us += 1;
                return;
            }
        };
        let from = PathAddress {
            local: (!local.is_unspecified()).then_some(local),
            remote: received.source.ip(),
            encapsulation_port: Some(received.source.port()),
        };
        let number = header.destination_port;
        if let Some(port) = self.ports.get_mut(&number) {
            port.handle_packet(now, from, received.payload);
            self.touched.insert(number);
        } else {
            self.counted.out_of_the_blue += 1;
            self.answer_out_of_the_blue(from, &received.payload);
        }
    }

    /// A packet to a port without endpoint (RFC 9260 section 8.4). Its sender may have to wait for
    /// an answer when there is much else to send.
    fn answer_out_of_the_blue(&mut self, from: PathAddress, packet: &[u8]) {
        if self.queue.len() >= SEND_BATCH {
            return;
        }
        let answer = sctp::answer_out_of_the_blue(from, packet);
        self.queue
            .extend(answer.and_then(|answer| datagram(answer, self.surroundings.local_addr)));
    }

    fn handle_commands(&mut self, now: Instant, first: Command) {
        self.handle_command(now, first);
        for _ in 1..COMMAND_BATCH {
            let Ok(command) = self.commands.try_recv() else {
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
                to,
                reply,
            } => {
                if let Some(port) = self.touch(endpoint) {
                    port.connect(now, to, reply);
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
                let deadline = now + self.close_timeout;
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
            dropped_endpoints,
        } = self.mailbox.take();
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
        let close_deadline = now + self.close_timeout;
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
        self.mailbox.close();
        self.closing.get_or_insert_default().extend(reply);
        for number in self.ports.keys().copied().collect::<Vec<_>>() {
            self.close_port(now, number);
        }
    }

    fn close_port(&mut self, now: Instant, number: u16) {
        if let Some(port) = self.ports.get_mut(&number) {
            port.close(now, now + self.close_timeout, None);
            self.touched.insert(number);
        }
    }

    /// Lets every engine that was touched say what it has to say, until all are quiet or the kernel
    /// takes no more packets.
    fn settle(&mut self, now: Instant) {
        while self.queue.len() < SEND_BATCH || self.flush() {
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
        port.handle_events(now);
        while let Some(transmit) = port.poll_transmit(now) {
            self.queue
                .extend(datagram(transmit, self.surroundings.local_addr));
            if self.queue.len() >= SEND_BATCH {
                return false;
            }
        }
        // Sending may have been the last thing that an association waited for.
        port.handle_events(now);
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
        self.mailbox.release_port(number);
        self.counted.accept_overflows += port.accept_overflows();
        self.counted.sctp += port.finish();
    }

    /// True when everything is sent.
    fn flush(&mut self) -> bool {
        self.socket.flush(&mut self.queue) == Flushed::All
    }

    fn statistics(&self) -> StackStatistics {
        let mut sum = self.counted;
        sum.udp = self.socket.statistics();
        for port in self.ports.values() {
            sum.accept_overflows += port.accept_overflows();
            sum.sctp += *port.statistics();
        }
        sum
    }
}

/// Tells everyone who still waits that it is over: at the end of [`Driver::run`], or when the
/// runtime is shut down before.
impl Drop for Driver {
    fn drop(&mut self) {
        self.mailbox.close();
        for endpoint in self.mailbox.take().new_endpoints {
            let port = Port::new(endpoint, self.surroundings.clone());
            self.retire(port.key().port, port);
        }
        for (number, port) in std::mem::take(&mut self.ports) {
            self.retire(number, port);
        }
        self.mailbox.leave_statistics(self.statistics());
        for reply in self.closing.take().into_iter().flatten() {
            // Who waited may have gone meanwhile.
            reply.send(()).ok();
        }
    }
}

/// What a packet becomes on this stack; nothing when it is not meant for UDP.
fn datagram(transmit: Transmit, local_addr: SocketAddr) -> Option<Datagram> {
    let path = transmit.path;
    let mut destination = SocketAddr::new(path.remote, path.encapsulation_port?);
    if let (SocketAddr::V6(destination), SocketAddr::V6(local)) = (&mut destination, local_addr)
        && destination.ip().is_unicast_link_local()
    {
        // The interface of a link-local address is that of the socket's own.
        destination.set_scope_id(local.scope_id());
    }
    Some(Datagram {
        destination,
        source_ip: path.local.filter(|_| local_addr.ip().is_unspecified()),
        payload: transmit.packet,
    })
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
