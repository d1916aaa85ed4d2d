//! Stacks: a carrier and the endpoints on it.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use sctp::EndpointConfig;
use tokio::sync::{mpsc, oneshot};

use crate::carrier::Carrier;
use crate::claims::OutOfTheBlueDuty;
use crate::config::{KernelCarrierConfig, RawCarrierConfig, UdpCarrierConfig};
use crate::directory::Directory;
use crate::driver::{Driver, WorkerContext, WorkerParts};
use crate::endpoint::{Endpoint, OneToMany};
use crate::kernel;
use crate::keys::EndpointKey;
use crate::mailbox::{Command, Mailbox, NewEndpoint};
use crate::ports::{NoPort, Ports};
use crate::stack_handle::{PortSource, StackHandle, WorkerHandle};
use crate::statistics::StackStatistics;
use crate::style::{CountedInbox, Style};
use crate::worker_group::WorkerGroup;

/// Carries the packets of any number of SCTP endpoints. Cheap to clone.
///
/// One task, or as many as there are to be workers, serves the carrier and all endpoints. It ends when
/// the stack is closed, or when the last handle of the stack, its endpoints and its associations
/// is dropped; either way it first shuts down what is left, and aborts it when that takes too long.
#[derive(Clone, Debug)]
pub struct Stack {
    handle: Arc<StackHandle>,
}

/// How many commands may wait for a worker; callers beyond them wait.
const MAX_COMMANDS: usize = 256;

/// How many workers there may be.
const MAX_WORKERS: usize = 256;

impl Stack {
    /// A stack on UDP sockets of its own (RFC 6951), one for each local address.
    ///
    /// # Errors
    ///
    /// When a socket cannot be bound, with its address in the text; and when it is not called
    /// within a tokio runtime.
    pub fn udp(config: UdpCarrierConfig) -> io::Result<Stack> {
        let workers = config.workers.clamp(1, MAX_WORKERS);
        let carrier = Carrier::udp(&config, workers)?;
        let settings = Settings {
            peer_encapsulation_port: Some(config.peer_encapsulation_port),
            accept_backlog: config.accept_backlog,
            close_timeout: config.close_timeout,
            joint_acknowledgement: config.joint_acknowledgement,
        };
        Self::start(carrier, workers, settings)
    }

    /// A stack right on IP, as protocol 132.
    ///
    /// All stacks of this kind on a host, of whatever program, share the SCTP ports: each port
    /// belongs to one of them, on all addresses. A stack hears the packets of all and leaves alone
    /// those to ports of others.
    ///
    /// # Errors
    ///
    /// When the capability CAP_NET_RAW is missing, or the kernel has an SCTP of its own: the text
    /// says what can be done. And when it is not called within a tokio runtime.
    pub fn raw(config: RawCarrierConfig) -> io::Result<Stack> {
        let workers = config.workers.clamp(1, MAX_WORKERS);
        tokio::runtime::Handle::try_current().map_err(io::Error::other)?;
        let carrier = Carrier::raw(&config, workers)?;
        let settings = Settings {
            peer_encapsulation_port: None,
            accept_backlog: config.accept_backlog,
            close_timeout: config.close_timeout,
            joint_acknowledgement: config.joint_acknowledgement,
        };
        Self::start(carrier, workers, settings)
    }

    /// A stack that leaves SCTP to the kernel, and works its sockets (RFC 6458).
    ///
    /// # Errors
    ///
    /// When the kernel has no SCTP: the text says what can be done. And when it is not called within a
    /// tokio runtime.
    pub fn kernel(config: KernelCarrierConfig) -> io::Result<Stack> {
        tokio::runtime::Handle::try_current().map_err(io::Error::other)?;
        let opener = kernel::Opener::new(config.addresses.clone())?;
        let local_addresses = opener.addresses();
        let first = local_addresses.first().copied();
        let local_addr = first.unwrap_or(IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED));
        let mailbox = Arc::new(Mailbox::default());
        let (commands, driver_commands) = mpsc::channel(MAX_COMMANDS);
        kernel::start(&config, Arc::clone(&mailbox), driver_commands);
        Ok(Stack {
            handle: Arc::new(StackHandle {
                local_addr: SocketAddr::new(local_addr, 0),
                local_addresses,
                has_zone: false,
                peer_encapsulation_port: None,
                ports: PortSource::Kernel(opener),
                directory: Directory::default(),
                next_worker: AtomicUsize::new(0),
                workers: vec![WorkerHandle {
                    mailbox,
                    commands,
                    worker: None,
                }],
            }),
        })
    }

    /// The local addresses, of which the wildcard ones stand for all of the host's.
    pub fn local_addresses(&self) -> &[IpAddr] {
        &self.handle.local_addresses
    }

    /// The first local address and the local UDP encapsulation port; port 0 where there is no
    /// encapsulation.
    pub fn local_addr(&self) -> SocketAddr {
        self.handle.local_addr
    }

    /// An endpoint in one-to-one style on a local SCTP port; port 0 chooses a free one.
    ///
    /// # Errors
    ///
    /// When the port is in use (`AddrInUse`), none is free, the settings contradict each other
    /// (`InvalidInput`), or the stack is closed.
    pub fn endpoint(&self, port: u16, config: EndpointConfig) -> io::Result<Endpoint> {
        let accepts = CountedInbox::new(self.handle.workers.len());
        let style = Style::OneToOne(Arc::clone(&accepts));
        let key = self.open(port, &config, &style)?;
        Ok(Endpoint::new(key, Arc::clone(&self.handle), accepts))
    }

    /// An endpoint in one-to-many style on a local SCTP port; port 0 chooses a free one.
    ///
    /// # Errors
    ///
    /// When the port is in use (`AddrInUse`), none is free, the settings contradict each other
    /// (`InvalidInput`), or the stack is closed.
    pub fn one_to_many(&self, port: u16, config: EndpointConfig) -> io::Result<OneToMany> {
        let events = CountedInbox::new(self.handle.workers.len());
        let style = Style::OneToMany(Arc::clone(&events));
        let key = self.open(port, &config, &style)?;
        Ok(OneToMany::new(key, Arc::clone(&self.handle), events))
    }

    /// What the stack has counted until now, or until it was closed.
    pub async fn statistics(&self) -> StackStatistics {
        let mut sum = StackStatistics::default();
        for (index, worker) in self.handle.workers.iter().enumerate() {
            let (reply, answer) = oneshot::channel();
            let command = Command::Statistics { reply };
            let answer = match self.handle.ask(index, command).await {
                Some(()) => answer.await.ok(),
                None => None,
            };
            sum += answer.unwrap_or_else(|| worker.mailbox.last_statistics());
        }
        sum
    }

    /// Closes the stack: shuts down all associations of all endpoints, waits for them at most the
    /// `close_timeout`, aborts the rest, and closes the carrier.
    pub async fn close(&self) {
        self.handle
            .ask_all(|reply| Command::CloseStack { reply })
            .await;
    }

    /// Starts the workers.
    fn start(carrier: Carrier, workers: usize, settings: Settings) -> io::Result<Stack> {
        let readers = carrier.ends.iter().filter(|(reader, _)| reader.is_some());
        let (group, directory) = WorkerGroup::new(workers, readers.count() < workers);
        let host_wide = settings.peer_encapsulation_port.is_none();
        let ports = Arc::new(Ports::new(host_wide, workers));
        let duty = host_wide.then(OutOfTheBlueDuty::new).transpose()?;
        let duty = duty.map(|duty| Arc::new(std::sync::Mutex::new(duty)));
        let first = carrier.addresses.first().copied();
        let local_addr = SocketAddr::new(
            first.unwrap_or(IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED)),
            carrier.port,
        );
        let mut handles = Vec::with_capacity(workers);
        for (group, (reader, writer)) in group.into_iter().zip(carrier.ends) {
            let mailbox = Arc::new(Mailbox::default());
            let (commands, driver_commands) = mpsc::channel(MAX_COMMANDS);
            let context = WorkerContext {
                local_addr,
                listed_addresses: carrier.listed.clone(),
                accept_backlog: settings.accept_backlog,
                close_timeout: settings.close_timeout,
                joint_acknowledgement: settings.joint_acknowledgement,
                mailbox: Arc::clone(&mailbox),
                ports: Arc::clone(&ports),
                worker: group.index(),
                workers,
                directory: directory.clone(),
            };
            let parts = WorkerParts {
                reader,
                writer,
                group,
                duty: duty.clone(),
                commands: driver_commands,
            };
            let driver = Driver::new(parts, context);
            handles.push(WorkerHandle {
                mailbox,
                commands,
                worker: Some(driver.worker()),
            });
            tokio::spawn(driver.run());
        }
        Ok(Stack {
            handle: Arc::new(StackHandle {
                local_addr,
                local_addresses: carrier.addresses,
                has_zone: carrier.has_zone,
                peer_encapsulation_port: settings.peer_encapsulation_port,
                ports: PortSource::Ours(ports),
                directory,
                next_worker: AtomicUsize::new(0),
                workers: handles,
            }),
        })
    }

    fn open(&self, port: u16, config: &EndpointConfig, style: &Style) -> io::Result<EndpointKey> {
        let contradiction = |error| io::Error::new(io::ErrorKind::InvalidInput, error);
        config.check().map_err(contradiction)?;
        let handle = &self.handle;
        let (key, mut socket) = match &handle.ports {
            PortSource::Ours(ports) => ports
                .reserve(port, rand::random())
                .map(|key| (key, None))
                .map_err(|reason| self.describe(port, reason))?,
            PortSource::Kernel(opener) => {
                let (key, socket) = opener.open(port, config)?;
                (key, Some(socket))
            }
        };
        let mut opened = true;
        for worker in &handle.workers {
            let is_open = worker.mailbox.open_endpoint(NewEndpoint {
                key,
                config: config.clone(),
                style: style.clone(),
                socket: socket.take(),
            });
            if !is_open {
                // Its part is over before it began.
                if let PortSource::Ours(ports) = &handle.ports {
                    ports.release(key.port);
                }
                style.worker_finished();
                opened = false;
            }
        }
        if opened {
            Ok(key)
        } else {
            Err(io::Error::new(
                io::ErrorKind::NotConnected,
                format!("the SCTP stack on {} is closed", self.place()),
            ))
        }
    }

    fn describe(&self, port: u16, reason: NoPort) -> io::Error {
        let place = self.place();
        let (kind, text) = match reason {
            NoPort::InUse => (
                io::ErrorKind::AddrInUse,
                format!("SCTP port {port} on {place}: address in use"),
            ),
            NoPort::NoneFree => (
                io::ErrorKind::AddrNotAvailable,
                format!("no SCTP port is free on {place}"),
            ),
            NoPort::Failed(error) => (
                error.kind(),
                format!("SCTP port {port} on {place} cannot be claimed: {error}"),
            ),
        };
        io::Error::new(kind, text)
    }

    /// Where the stack is, in words.
    fn place(&self) -> String {
        match (&self.handle.ports, self.handle.peer_encapsulation_port) {
            (PortSource::Kernel(_), _) => "the kernel".into(),
            (_, Some(_)) => format!("UDP {}", self.handle.local_addr),
            (_, None) => "IP".into(),
        }
    }
}

/// What carriers have in common.
struct Settings {
    /// `None`: no encapsulation.
    peer_encapsulation_port: Option<u16>,
    accept_backlog: usize,
    close_timeout: Duration,
    joint_acknowledgement: bool,
}
