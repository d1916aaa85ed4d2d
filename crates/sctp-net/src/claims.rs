//! Which SCTP ports of this host our programs have, when they share raw IP.
//!
//! Each raw socket hears every SCTP packet of the host, so every program must know which ports are
//! another's. A claim is an abstract Unix socket with the port in its name: the kernel gives each
//! name once in a network namespace, and takes it back when its owner dies, however it dies.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::{Duration, Instant};

/// A name of which this program is the only owner, until it is dropped.
#[derive(Debug)]
pub(crate) struct Claim {
    _socket: UnixDatagram,
}

impl Claim {
    /// Claims an SCTP port, on all addresses of the host.
    ///
    /// # Errors
    ///
    /// `AddrInUse` when another program has it; others of the kernel.
    pub(crate) fn port(port: u16) -> io::Result<Claim> {
        Self::named(&port_name(port))
    }

    fn named(name: &str) -> io::Result<Claim> {
        let address = SocketAddr::from_abstract_name(name)?;
        let socket = UnixDatagram::bind_addr(&address)?;
        Ok(Claim { _socket: socket })
    }
}

/// Decides whether it is ours to answer packets to ports that we don't have (RFC 9260 section 8.4).
#[derive(Debug)]
pub(crate) struct OutOfTheBlueDuty {
    probe: UnixDatagram,
    /// Ports of other programs, and until when we take them to be theirs without asking again.
    others: HashMap<u16, Instant>,
    /// Of all our programs on the host, one answers at each address for the ports that nobody has.
    duties: HashMap<IpAddr, Duty>,
}

/// The duty at one address, and whether it is ours.
#[derive(Debug)]
enum Duty {
    Ours { _claim: Claim },
    Anothers { ask_again: Instant },
}

/// For how long a port stays another's without asking. When its owner dies meanwhile, packets to it
/// are not answered for this long; the opposite mistake, to abort the associations of a
/// program that has just started, is never made.
const OTHERS_FOR: Duration = Duration::from_secs(1);

/// How often we look whether the program that had the duty is gone.
const ASK_EVERY: Duration = Duration::from_secs(1);

/// At how many addresses we have or look for the duty.
const MAX_DUTIES: usize = 1024;

impl OutOfTheBlueDuty {
    /// Knows nothing yet.
    ///
    /// # Errors
    ///
    /// When no Unix socket can be made.
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            probe: UnixDatagram::unbound()?,
            others: HashMap::new(),
            duties: HashMap::new(),
        })
    }

    /// Whether a packet to `port` at our address `local`, a port which this program does not have,
    /// is to be answered by it.
    pub(crate) fn includes(&mut self, now: Instant, local: IpAddr, port: u16) -> bool {
        self.is_ours(now, local) && !self.is_anothers(now, port)
    }

    fn is_ours(&mut self, now: Instant, local: IpAddr) -> bool {
        match self.duties.get(&local) {
            Some(Duty::Ours { .. }) => return true,
            Some(Duty::Anothers { ask_again }) if now < *ask_again => return false,
            None if self.duties.len() >= MAX_DUTIES => return false,
            _ => {}
        }
        let duty = match Claim::named(&format!("tandem-sctp-out-of-the-blue-{local}")) {
            Ok(claim) => Duty::Ours { _claim: claim },
            Err(_) => Duty::Anothers {
                ask_again: now + ASK_EVERY,
            },
        };
        let is_ours = matches!(duty, Duty::Ours { .. });
        self.duties.insert(local, duty);
        is_ours
    }

    fn is_anothers(&mut self, now: Instant, port: u16) -> bool {
        if self.others.get(&port).is_some_and(|&until| now < until) {
            return true;
        }
        let claimed = SocketAddr::from_abstract_name(port_name(port))
            .is_ok_and(|address| self.probe.connect_addr(&address).is_ok());
        if claimed {
            self.others.insert(port, now + OTHERS_FOR);
        } else {
            self.others.remove(&port);
        }
        claimed
    }
}

fn port_name(port: u16) -> String {
    format!("tandem-sctp-{port}")
}
