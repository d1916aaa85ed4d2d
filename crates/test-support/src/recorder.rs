//! Packets recorded by tcpdump.

use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::namespace::Namespace;
use crate::packages::require_command;
use crate::peer::Peer;
use crate::wait::wait_until;

const LIMIT: Duration = Duration::from_secs(30);

/// The port that discards (RFC 863), where nobody need be.
const DISCARD: u16 = 9;

/// tcpdump on a loopback interface.
pub struct Recorder<'a> {
    process: Peer,
    file: PathBuf,
    namespace: Option<&'a Namespace>,
}

impl<'a> Recorder<'a> {
    /// Records into a file what this expression of tcpdump's lets through, "" for all, on the loopback interface of
    /// a namespace or of the host. `None` where there is no tcpdump.
    ///
    /// # Panics
    ///
    /// When tcpdump does not begin.
    pub fn start(
        file: &Path,
        expression: &str,
        namespace: Option<&'a Namespace>,
    ) -> Option<Recorder<'a>> {
        let tcpdump = require_command("tcpdump", "tcpdump")?;
        let mut command = match namespace {
            Some(namespace) => namespace.command(tcpdump),
            None => Command::new(tcpdump),
        };
        // Not in immediate mode: the buffer, large enough for all that a test sends while tcpdump does not get a
        // processor, would have room for a few packets only, for each takes the most that one may have.
        command.args(["-i", "lo", "-n", "-U", "-Z", "root", "-B", "65536", "-w"]);
        command.arg(file);
        if !expression.is_empty() {
            command.arg(format!("({expression}) or udp port {DISCARD}"));
        }
        let mut process = Peer::spawn(&mut command);
        process.wait_for_output("listening on", LIMIT);
        Some(Recorder {
            process,
            file: file.to_owned(),
            namespace,
        })
    }

    /// Waits until all that was sent is in the file, and ends it: what it has not read by then would be lost. The
    /// file has some more packets then, datagrams to UDP port 9.
    ///
    /// # Panics
    ///
    /// When the last packet does not come into the file.
    pub fn finish(mut self) {
        let socket = std::thread::scope(|scope| {
            let bind = || {
                if let Some(namespace) = self.namespace {
                    namespace.enter();
                }
                UdpSocket::bind("127.0.0.1:0").expect("a socket")
            };
            scope.spawn(bind).join().expect("it does not panic")
        });
        // Other recordings end on the same interface at the same time.
        let sender = socket.local_addr().expect("it is bound");
        let last = format!("the last datagram from {sender}.").into_bytes();
        let has_last = || {
            // Nobody need be there: that it was sent is enough.
            let _ = socket.send_to(&last, ("127.0.0.1", DISCARD));
            let octets = std::fs::read(&self.file).unwrap_or_default();
            octets.windows(last.len()).any(|window| window == last)
        };
        assert!(wait_until(LIMIT, has_last), "not recorded");
        assert!(self.process.ask_to_end(LIMIT), "tcpdump goes on");
    }
}
