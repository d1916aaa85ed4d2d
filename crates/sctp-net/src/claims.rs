//! Which SCTP ports of this host our programs have, when they share raw IP.
//!
//! Each raw socket hears every SCTP packet of the host, so every program must know which ports are
//! another's. A claim is an abstract Unix socket with the port in its name: the kernel gives each
//! name once in a network namespace, and takes it back when its owner dies, however it dies.
//!
//! Any local user can take such a name. So a claim counts only if root or our own user has made it, and where somebody
//! else has the name, a claim is made under another one that begins with it.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::{Duration, Instant};

use nix::unistd::geteuid;

use crate::unix_sockets::{UnixSocket, abstract_sockets};

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
        Claim::named(&port_name(port), is_trusted)
    }

    fn named(name: &str, is_trusted: fn(u32) -> bool) -> io::Result<Claim> {
        let bind = |name: &str| UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(name)?);
        let (own, socket) = match bind(name) {
            Ok(socket) => (name.to_owned(), socket),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                if is_claimed(name, &abstract_sockets(), is_trusted) {
                    return Err(error);
                }
                let own = format!("{name}{OTHER_NAME}{:016x}", rand::random::<u64>());
                let socket = bind(&own)?;
                (own, socket)
            }
            Err(error) => return Err(error),
        };
        // Another program of ours may have done the same: of those, one stays.
        let sockets = abstract_sockets();
        let is_before = |other: &str| other < own.as_str() || own == name && other != own;
        let mut claims = sockets
            .iter()
            .flatten()
            .filter(|socket| is_claim(name, socket, is_trusted));
        match claims.any(|socket| is_before(&socket.name)) {
            true => Err(io::ErrorKind::AddrInUse.into()),
            false => Ok(Claim { _socket: socket }),
        }
    }
}

/// Between a name and what makes another one of it.
const OTHER_NAME: char = '+';

/// Whether a user's claims count. Those of strangers could keep us from our ports.
fn is_trusted(user: u32) -> bool {
    user == 0 || user == geteuid().as_raw()
}

/// Whether a socket is a claim of a name.
fn is_claim(name: &str, socket: &UnixSocket, is_trusted: fn(u32) -> bool) -> bool {
    let rest = socket.name.strip_prefix(name);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(OTHER_NAME))
        && socket.user.is_none_or(is_trusted)
}

/// Whether a trusted user has claimed a name that is taken. If the kernel does not list the sockets, it is assumed.
fn is_claimed(name: &str, sockets: &Option<Vec<UnixSocket>>, is_trusted: fn(u32) -> bool) -> bool {
    sockets.as_ref().is_none_or(|sockets| {
        sockets
            .iter()
            .any(|socket| is_claim(name, socket, is_trusted))
    })
}

/// Decides whether it is ours to answer packets to ports that we don't have (RFC 9260 section 8.4).
#[derive(Debug)]
pub(crate) struct OutOfTheBlueDuty {
    probe: UnixDatagram,
    /// Ports of other programs, and until when we take them to be theirs without asking again.
    foreign_ports: HashMap<u16, Instant>,
    /// Of all our programs on the host, one answers at each address for the ports that nobody has.
    duties: HashMap<IpAddr, Duty>,
    /// The sockets with other names that claims have, and when they were looked at.
    looked: Option<(Instant, Option<Vec<UnixSocket>>)>,
}

/// The duty at one address, and whether it is ours.
#[derive(Debug)]
enum Duty {
    Ours { _claim: Claim },
    Foreign { ask_again: Instant },
}

/// For how long a port stays another's without asking. When its owner dies meanwhile, packets to it
/// are not answered for this long; the opposite mistake, to abort the associations of a
/// program that has just started, is never made.
const FOREIGN_FOR: Duration = Duration::from_secs(1);

/// How often we look whether the program that had the duty is gone.
const ASK_EVERY: Duration = Duration::from_secs(1);

/// How often we look for claims with other names.
const LOOK_EVERY: Duration = Duration::from_millis(100);

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
            foreign_ports: HashMap::new(),
            duties: HashMap::new(),
            looked: None,
        })
    }

    /// Whether a packet to `port` at our address `local`, a port which this program does not have,
    /// is to be answered by it.
    pub(crate) fn includes(&mut self, now: Instant, local: IpAddr, port: u16) -> bool {
        self.is_ours(now, local) && !self.is_foreign(now, port)
    }

    fn is_ours(&mut self, now: Instant, local: IpAddr) -> bool {
        match self.duties.get(&local) {
            Some(Duty::Ours { .. }) => return true,
            Some(Duty::Foreign { ask_again }) if now < *ask_again => return false,
            None if self.duties.len() >= MAX_DUTIES => return false,
            _ => {}
        }
        let duty = match Claim::named(&format!("tandem-sctp-out-of-the-blue-{local}"), is_trusted) {
            Ok(claim) => Duty::Ours { _claim: claim },
            Err(_) => Duty::Foreign {
                ask_again: now + ASK_EVERY,
            },
        };
        let is_ours = matches!(duty, Duty::Ours { .. });
        self.duties.insert(local, duty);
        is_ours
    }

    fn is_foreign(&mut self, now: Instant, port: u16) -> bool {
        if self
            .foreign_ports
            .get(&port)
            .is_some_and(|&until| now < until)
        {
            return true;
        }
        let name = port_name(port);
        let is_taken = SocketAddr::from_abstract_name(&name)
            .is_ok_and(|address| self.probe.connect_addr(&address).is_ok());
        // A port that has just been claimed is known at once, by its name. Where that is a stranger's, or has been one's,
        // the claim has another name, for which not every packet has us look.
        let is_old = |looked: Instant| now.saturating_duration_since(looked) >= LOOK_EVERY;
        if is_taken
            || self
                .looked
                .as_ref()
                .is_none_or(|(looked, _)| is_old(*looked))
        {
            self.looked = Some((now, abstract_sockets()));
        }
        let sockets = self
            .looked
            .as_ref()
            .and_then(|(_, sockets)| sockets.as_ref());
        let claimed = match sockets {
            Some(sockets) => sockets
                .iter()
                .any(|socket| is_claim(&name, socket, is_trusted)),
            None => is_taken,
        };
        if claimed {
            self.foreign_ports.insert(port, now + FOREIGN_FOR);
        } else {
            self.foreign_ports.remove(&port);
        }
        claimed
    }
}

fn port_name(port: u16) -> String {
    format!("tandem-sctp-{port}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a stranger has is not claimed.
    const NOBODY: fn(u32) -> bool = |_| false;

    fn name(what: &str) -> String {
        format!("tandem-test-{what}-{}", std::process::id())
    }

    #[test]
    fn a_name_is_claimed_once() {
        let name = name("once");
        let first = Claim::named(&name, is_trusted).expect("free");
        let second = Claim::named(&name, is_trusted).expect_err("taken");
        assert_eq!(second.kind(), io::ErrorKind::AddrInUse);
        // Another name that begins like it is not the same.
        Claim::named(&format!("{name}0"), is_trusted).expect("free");
        drop(first);
        Claim::named(&name, is_trusted).expect("free again");
    }

    #[test]
    fn who_squats_a_name_keeps_nobody_from_it() {
        let name = name("squatted");
        let squatter = Claim::named(&name, NOBODY).expect("free");
        if abstract_sockets().is_none() {
            println!("skipped: this kernel does not tell whose Unix sockets are");
            return;
        }
        // A second one that trusts nobody gets another name, and so on.
        let own = Claim::named(&name, NOBODY).expect("under another name");
        let found = abstract_sockets().expect("told");
        let claims = found
            .iter()
            .filter(|socket| is_claim(&name, socket, is_trusted));
        assert_eq!(claims.count(), 2);
        let user = geteuid().as_raw();
        assert!(
            found
                .iter()
                .any(|socket| socket.name == name && socket.user == Some(user))
        );
        assert!(!is_claimed(&name, &Some(found), NOBODY));
        // Gone, and the claim with the other name still counts, for those who trust its owner.
        drop(squatter);
        let second = Claim::named(&name, is_trusted).expect_err("claimed");
        assert_eq!(second.kind(), io::ErrorKind::AddrInUse);
        drop(own);
        Claim::named(&name, is_trusted).expect("free");
    }
}
