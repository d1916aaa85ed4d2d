//! Stacks: a UDP socket and the endpoints on it.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use sctp::EndpointConfig;
use tokio::sync::{mpsc, oneshot};
use udp_net::{UdpConfig, UdpSocket};

use crate::config::{RawCarrierConfig, UdpCarrierConfig};
use crate::driver::Driver;
use crate::endpoint::{CountedInbox, Endpoint, OneToMany};
use crate::mailbox::{Command, EndpointKey, Mailbox, NoPort, Style};
use crate::statistics::StackStatistics;

/// A UDP socket that carries the packets of any number of SCTP endpoints. Cheap to clone.
///
/// One task serves the socket and all endpoints. It ends when the stack is closed, or when the
/// last handle of the stack, its endpoints and its associations is dropped; either way it first shuts
/// down what is left, and aborts it when that takes too long.
#[derive(Clone, Debug)]
pub struct Stack {
    handle: Arc<StackHandle>,
}

/// How many questions may wait for the driver; those who ask more wait themselves.
const MAX_COMMANDS: usize = 256;

impl Stack {
    /// A stack on a UDP socket of its own (RFC 6951).
    ///
    /// # Errors
    ///
    /// When the socket cannot be bound, with its address in the text; and when it is not called
    /// within a tokio runtime.
    pub fn udp(config: UdpCarrierConfig) -> io::Result<Stack> {
        let udp_config = UdpConfig {
            impairment: config.impairment,
            segmentation_offload: config.segmentation_offload,
            // The engine does not look for the path MTU: what it sends in vain, because its packets
            // are larger than the path takes, it would send in vain for ever.
            allow_fragmentation: true,
            ..UdpConfig::default()
        };
        let Some(&address) = config.addresses.first() else {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "SCTP in UDP: no local address was given",
            ));
        };
        let socket = UdpSocket::bind(address, udp_config)?;
        let mailbox = Arc::new(Mailbox::default());
        let (commands, driver_commands) = mpsc::channel(MAX_COMMANDS);
        let handle = StackHandle {
            local_addr: socket.local_addr(),
            local_addresses: vec![socket.local_addr().ip()],
            peer_encapsulation_port: Some(config.peer_encapsulation_port),
            mailbox: Arc::clone(&mailbox),
            commands,
        };
        tokio::spawn(Driver::new(socket, &config, mailbox, driver_commands).run());
        Ok(Stack {
            handle: Arc::new(handle),
        })
    }

    /// A stack right on IP, as protocol 132.
    ///
    /// # Errors
    ///
    /// When the capability CAP_NET_RAW is missing, or the kernel has an SCTP of its own: the text
    /// says what can be done. And when it is not called within a tokio runtime.
    pub fn raw(_config: RawCarrierConfig) -> io::Result<Stack> {
        Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "SCTP over IP is not built yet",
        ))
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
    /// When the port is in use on this stack, none is free, or the stack is closed.
    pub fn endpoint(&self, port: u16, config: EndpointConfig) -> io::Result<Endpoint> {
        let accepts = CountedInbox::new();
        let style = Style::OneToOne(Arc::clone(&accepts));
        let key = self.open(port, config, style)?;
        Ok(Endpoint::new(key, Arc::clone(&self.handle), accepts))
    }

    /// An endpoint in one-to-many style on a local SCTP port; port 0 chooses a free one.
    ///
    /// # Errors
    ///
    /// When the port is in use on this stack, none is free, or the stack is closed.
    pub fn one_to_many(&self, port: u16, config: EndpointConfig) -> io::Result<OneToMany> {
        let events = CountedInbox::new();
        let style = Style::OneToMany(Arc::clone(&events));
        let key = self.open(port, config, style)?;
        Ok(OneToMany::new(key, Arc::clone(&self.handle), events))
    }

    /// What the stack has counted until now, or until it was closed.
    pub async fn statistics(&self) -> StackStatistics {
        let (reply, answer) = oneshot::channel();
        let asked = self.handle.ask(Command::Statistics { reply }).await;
        let answer = match asked {
            Some(()) => answer.await.ok(),
            None => None,
        };
        answer.unwrap_or_else(|| self.handle.mailbox.last_statistics())
    }

    /// Closes the stack: shuts down all associations of all endpoints, waits for them at most the
    /// `close_timeout`, aborts the rest, and closes the socket.
    pub async fn close(&self) {
        let (reply, answer) = oneshot::channel();
        if self
            .handle
            .ask(Command::CloseStack { reply })
            .await
            .is_some()
        {
            // No answer means that it had ended already.
            answer.await.ok();
        }
    }

    fn open(&self, port: u16, config: EndpointConfig, style: Style) -> io::Result<EndpointKey> {
        let mailbox = &self.handle.mailbox;
        mailbox
            .open_endpoint(port, rand::random(), config, style)
            .map_err(|reason| {
                let address = self.handle.local_addr;
                let (kind, text) = match reason {
                    NoPort::InUse => (
                        io::ErrorKind::AddrInUse,
                        format!("SCTP port {port} on UDP {address} is in use"),
                    ),
                    NoPort::NoneFree => (
                        io::ErrorKind::AddrNotAvailable,
                        format!("no SCTP port is free on UDP {address}"),
                    ),
                    NoPort::StackClosed => (
                        io::ErrorKind::NotConnected,
                        format!("the SCTP stack on UDP {address} is closed"),
                    ),
                };
                io::Error::new(kind, text)
            })
    }
}

/// What all handles of a stack share. The driver ends when nobody holds it any more.
#[derive(Debug)]
pub(crate) struct StackHandle {
    pub(crate) local_addr: SocketAddr,
    pub(crate) local_addresses: Vec<IpAddr>,
    /// `None`: no encapsulation.
    pub(crate) peer_encapsulation_port: Option<u16>,
    pub(crate) mailbox: Arc<Mailbox>,
    commands: mpsc::Sender<Command>,
}

impl StackHandle {
    /// Hands a command to the driver; `None` when the driver has ended.
    pub(crate) async fn ask(&self, command: Command) -> Option<()> {
        self.commands.send(command).await.ok()
    }
}
