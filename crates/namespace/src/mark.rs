//! How a program finds out that it runs in a host of a testbed, whose network leads nowhere else.

use crate::interfaces::are_all_tun;
use std::fs;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// The mark of a namespace that is a host of a testbed. It is an abstract Unix socket: such names
/// belong to one network namespace, and vanish with the process that holds them (unix(7)).
#[derive(Debug)]
pub struct Mark {
    _socket: UnixDatagram,
}

impl Mark {
    /// Marks the network namespace of this thread, until this is dropped.
    ///
    /// # Errors
    ///
    /// When it is marked already.
    pub fn here() -> io::Result<Mark> {
        let socket = UnixDatagram::bind_addr(&address()?)?;
        Ok(Mark { _socket: socket })
    }

    /// Whether the network namespace of this thread is marked, and is such that it can be a host of a
    /// testbed: anybody can set a mark in the namespace that they are in, so the mark alone does not
    /// make one of the machine's own.
    pub fn is_here() -> bool {
        let reach = || UnixDatagram::unbound()?.connect_addr(&address()?);
        reach().is_ok() && !is_machines_own() && are_all_tun().unwrap_or(false)
    }
}

/// Whether the network namespace of this thread is process 1's. Who may not look at that is told by the
/// interfaces alone.
fn is_machines_own() -> bool {
    let first = fs::read_link("/proc/1/ns/net");
    let own = fs::read_link("/proc/thread-self/ns/net");
    matches!((first, own), (Ok(first), Ok(own)) if first == own)
}

fn address() -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name("tandem-testbed")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Namespace;
    use std::thread;
    use std::time::{Duration, Instant};

    #[test]
    fn a_mark_is_seen_in_its_namespace_alone_and_as_long_as_it_is_held() {
        let (Ok(one), Ok(other)) = (Namespace::new(), Namespace::new()) else {
            println!("skipped: no network namespace can be made here");
            return;
        };
        let is_marked = |namespace: &Namespace| namespace.run(Mark::is_here).unwrap();
        assert!(!is_marked(&one));
        let mark = one.run(Mark::here).unwrap().unwrap();
        assert!(is_marked(&one) && !is_marked(&other));
        assert!(one.run(Mark::here).unwrap().is_err());
        drop(mark);
        // A program that another test starts has our sockets as well, from its fork until its exec.
        let deadline = Instant::now() + Duration::from_secs(10);
        while is_marked(&one) && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(1));
        }
        assert!(!is_marked(&one));
    }

    #[test]
    fn a_mark_where_interfaces_lead_elsewhere_is_none() {
        let Ok(namespace) = Namespace::new() else {
            println!("skipped: no network namespace can be made here");
            return;
        };
        let is_marked = || namespace.run(Mark::is_here).unwrap();
        let _mark = namespace.run(Mark::here).unwrap().unwrap();
        let ip = |arguments: &str| {
            let mut command = namespace.command("ip", None);
            let output = command.args(arguments.split_whitespace()).output().unwrap();
            match output.status.success() {
                true => Ok(()),
                false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
            }
        };
        ip("link set lo up").unwrap();
        assert!(is_marked());
        for (kind, is_host) in [("tun", true), ("tap", false)] {
            if let Err(error) = ip(&format!("tuntap add dev x0 mode {kind}")) {
                println!("skipped: no {kind} device can be made here: {error}");
                continue;
            }
            ip("link set x0 up").unwrap();
            ip("address add 10.9.9.1/24 dev x0 label x0:one").unwrap();
            assert_eq!(is_marked(), is_host, "{kind}");
            ip("link delete x0").unwrap();
        }
        if let Err(error) = ip("link add x0 type dummy") {
            println!("skipped: no dummy device can be made here: {error}");
            return;
        }
        assert!(is_marked(), "it is down");
        ip("link set x0 up").unwrap();
        assert!(!is_marked());
    }

    #[test]
    fn the_machines_own_network_is_no_host_whoever_marks_it() {
        // Another process may hold the name: that is a mark as well.
        let _mark = Mark::here();
        if is_machines_own() {
            assert!(!Mark::is_here());
        } else {
            println!("skipped: this is not the machine's own network, or that cannot be told");
        }
    }
}
