//! What the tests of the program share.

use std::process::Command;
use std::time::Duration;

use test_support::{Peer, wait_until};

/// Where the program under test is.
pub(crate) fn program_path() -> &'static str {
    env!("CARGO_BIN_EXE_tandem")
}

/// The program under test.
pub(crate) fn tandem() -> Command {
    Command::new(program_path())
}

/// A running `tandem proxy` and where it listens.
#[derive(Debug)]
pub(crate) struct Proxy {
    pub(crate) peer: Peer,
}

impl Proxy {
    /// Starts it with a listener for each transport on loopback ports that the system chooses.
    pub(crate) fn start() -> Proxy {
        let mut command = tandem();
        command.args(["proxy", "--encapsulation-port", "0", "--store", "memory:"]);
        for transport in ["udp", "tcp", "sctp"] {
            command.args(["--listen", &format!("{transport}:127.0.0.1:0")]);
        }
        let mut peer = Peer::spawn(&mut command);
        peer.wait_for_output("SCTP is encapsulated in UDP on ", Duration::from_secs(20));
        Proxy { peer }
    }

    /// The port that it chose for a transport, from its log.
    pub(crate) fn port(&self, transport: &str) -> u16 {
        self.peer.listening_port(transport)
    }

    /// The UDP port under its SCTP.
    pub(crate) fn encapsulation_port(&self) -> u16 {
        let output = self.peer.output();
        let (_, after) = output
            .split_once("SCTP is encapsulated in UDP on 127.0.0.1:")
            .expect("it says so when it starts");
        let port = after.split(|character: char| !character.is_ascii_digit());
        port.into_iter()
            .next()
            .and_then(|port| port.parse().ok())
            .expect("a port")
    }

    /// Sends a signal by name, such as `INT`.
    pub(crate) fn signal(&self, name: &str) {
        send_signal(self.peer.id(), name);
    }
}

/// Sends a signal by name, such as `INT`, to a process.
pub(crate) fn send_signal(process: u32, name: &str) {
    let status = Command::new("kill")
        .args(["-s", name, &process.to_string()])
        .status()
        .expect("kill is there");
    assert!(status.success());
    if name == "STOP" {
        // Each thread stops when it gets to it: until then it answers.
        let is_stopped = || threads(process).all(|state| state == Some('T'));
        assert!(wait_until(Duration::from_secs(20), is_stopped), "stopped");
    }
}

/// The state of each thread of a process, a letter.
fn threads(process: u32) -> impl Iterator<Item = Option<char>> {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task"));
    tasks.into_iter().flatten().map(|task| {
        let stat = std::fs::read_to_string(task.ok()?.path().join("stat")).ok()?;
        // The name before it, in brackets, may have anything in it.
        stat.rsplit_once(") ")?.1.chars().next()
    })
}
