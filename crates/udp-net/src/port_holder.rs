//! Which program has a UDP port, as far as the system tells.

use std::fmt;
use std::fs;

/// A program that has a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortHolder {
    /// Its name, as the kernel has it.
    pub name: String,
    /// The number of its process.
    pub process: u32,
}

impl fmt::Display for PortHolder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} (process {})", self.name, self.process)
    }
}

/// The program that has a UDP port of this host, at whatever address. `None` where nobody has it, or where the program is of
/// another user, whose sockets are seen by root alone.
pub fn port_holder(port: u16) -> Option<PortHolder> {
    let tables = ["/proc/self/net/udp", "/proc/self/net/udp6"];
    let sockets: Vec<String> = tables
        .iter()
        .filter_map(|table| fs::read_to_string(table).ok())
        .flat_map(|table| sockets(&table, port))
        .collect();
    if sockets.is_empty() {
        return None;
    }
    let processes = fs::read_dir("/proc").ok()?.flatten();
    let mut processes = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    processes.find_map(|process: u32| {
        let open = fs::read_dir(format!("/proc/{process}/fd")).ok()?;
        let has_it = open.flatten().any(|descriptor| {
            let link = fs::read_link(descriptor.path());
            link.is_ok_and(|link| sockets.iter().any(|socket| link.as_os_str() == &**socket))
        });
        if !has_it {
            return None;
        }
        let name = fs::read_to_string(format!("/proc/{process}/comm")).ok()?;
        let name = name.trim_end().to_owned();
        Some(PortHolder { name, process })
    })
}

/// The sockets at a port, as links to them are written, from a table of the kernel (proc_net_udp(5)).
fn sockets(table: &str, port: u16) -> Vec<String> {
    let ending = format!(":{port:04X}");
    let lines = table.lines().skip(1).filter_map(|line| {
        let mut columns = line.split_ascii_whitespace();
        let local = columns.nth(1)?;
        let inode = columns.nth(7)?;
        local
            .ends_with(&ending)
            .then(|| format!("socket:[{inode}]"))
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_holder_of_a_port_is_found() {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let port = socket.local_addr().unwrap().port();
        let holder = port_holder(port).expect("this process has it");
        assert_eq!(holder.process, std::process::id());
        assert!(!holder.name.is_empty());
        drop(socket);
        assert_eq!(port_holder(port), None);
    }

    #[test]
    fn sockets_are_found_by_their_port() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n  \
            12: 0100007F:26AB 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 123456 2 0 0\n  \
            13: 0100007F:26AC 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 7 2 0 0\n";
        assert_eq!(sockets(table, 9899), ["socket:[123456]"]);
        assert!(sockets(table, 1).is_empty());
        assert!(sockets("", 1).is_empty());
    }
}
