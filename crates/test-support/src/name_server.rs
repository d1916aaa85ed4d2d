//! A name server with a zone of the test: Knot DNS.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::{self, Command};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::{Peer, free_udp_port, require_command};

/// The domain that a [`NameServer`] knows all about.
pub const ZONE: &str = "example.org";

/// How long the server may take to start.
const PATIENCE: Duration = Duration::from_secs(20);

/// A name server on a loopback port. It ends with the test.
#[derive(Debug)]
pub struct NameServer {
    program: PathBuf,
    directory: PathBuf,
    port: u16,
    running: Option<Peer>,
}

impl NameServer {
    /// Starts a server whose zone `example.org` has these records, in the form of a zone file (RFC 1035
    /// section 5). That something does not exist may be remembered for so many seconds. `None` where
    /// there is no server program to be had: the reason has been printed, and the test ends early.
    ///
    /// # Panics
    ///
    /// When the server does not start.
    pub fn start(records: &str, negative_ttl: u32) -> Option<NameServer> {
        static STARTED: AtomicUsize = AtomicUsize::new(0);
        let program = require_command("knotd", "knot")?;
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let directory =
            std::env::temp_dir().join(format!("tandem-tests-dns-{}-{number}", process::id()));
        fs::create_dir_all(&directory).expect("a directory");
        let mut server = NameServer {
            program,
            directory,
            port: free_udp_port(),
            running: None,
        };
        server.set_records(records, negative_ttl);
        server.resume();
        Some(server)
    }

    /// Where it is asked, over UDP and TCP.
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// Gives the zone other records. A server that runs takes them up when it is [stopped](NameServer::stop)
    /// and [started again](NameServer::resume).
    ///
    /// # Panics
    ///
    /// When the files cannot be written.
    pub fn set_records(&mut self, records: &str, negative_ttl: u32) {
        let zone = format!(
            "$ORIGIN {ZONE}.\n$TTL 300\n\
             @ {negative_ttl} SOA ns hostmaster ( 1 3600 600 86400 {negative_ttl} )\n\
             @ NS ns\nns A 127.0.0.1\n{records}\n"
        );
        let storage = self.directory.display();
        let settings = format!(
            "server:\n  rundir: \"{storage}\"\n  listen: 127.0.0.1@{}\n  udp-workers: 1\n  tcp-workers: 1\n  background-workers: 1\n\
             database:\n  storage: \"{storage}\"\n\
             log:\n  - target: stderr\n    any: info\n\
             zone:\n  - domain: {ZONE}\n    storage: \"{storage}\"\n    file: zone\n    zonefile-sync: -1\n    journal-content: none\n",
            self.port
        );
        for (name, text) in [("zone", zone), ("knot.conf", settings)] {
            fs::write(self.directory.join(name), text).expect("a file is written");
        }
    }

    /// Ends the server; nobody answers any more.
    pub fn stop(&mut self) {
        self.running = None;
    }

    /// Starts the server again, on the same port.
    ///
    /// # Panics
    ///
    /// When it does not start.
    pub fn resume(&mut self) {
        let mut peer = Peer::spawn(
            Command::new(&self.program)
                .arg("-c")
                .arg(self.directory.join("knot.conf")),
        );
        peer.wait_for_output("server started", PATIENCE);
        self.running = Some(peer);
    }
}

impl Drop for NameServer {
    fn drop(&mut self) {
        self.stop();
        // What is left of it does not matter.
        fs::remove_dir_all(&self.directory).ok();
    }
}
