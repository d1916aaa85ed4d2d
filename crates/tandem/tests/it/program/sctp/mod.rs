//! `tandem sctp` as people and scripts use it, two programs on loopback.

mod accepted;
mod arguments;
mod carriers;
mod endings;
mod extensions;
mod kernel;
mod lines;
mod parameters;
mod relay;
mod services;
mod usrsctp;

use std::process::{Command, ExitStatus};
use std::time::Duration;

use test_support::{Peer, wait_until};

use crate::program::support::{send_signal, tandem};

/// What a busy machine may take for anything.
const LIMIT: Duration = Duration::from_secs(60);

/// A running `tandem sctp`, and where it is.
#[derive(Debug)]
pub(crate) struct Talk {
    peer: Peer,
    pub(crate) port: u16,
    /// 0 where there is no encapsulation.
    pub(crate) encapsulation_port: u16,
}

/// `tandem sctp listen` on ports that the system chooses.
pub(crate) fn listen(arguments: &[&str]) -> Talk {
    let mut command = tandem();
    command.args(["sctp", "listen", "--address", "127.0.0.1"]);
    command.args(["--port", "0", "--encapsulation-port", "0"]);
    Talk::start(command.args(arguments))
}

/// `tandem sctp connect` to a running one.
fn connect(to: &Talk, arguments: &[&str]) -> Talk {
    Talk::start(connect_command(to.port, to.encapsulation_port).args(arguments))
}

fn connect_command(port: u16, encapsulation_port: u16) -> Command {
    let mut command = tandem();
    command.args(["sctp", "connect", &format!("127.0.0.1:{port}")]);
    command.args(["--peer-encapsulation-port", &encapsulation_port.to_string()]);
    command
}

impl Talk {
    /// Starts it, and waits for what it tells of itself.
    pub(crate) fn start(command: &mut Command) -> Talk {
        let mut peer = Peer::spawn(command);
        peer.wait_for_output("= endpoint ", LIMIT);
        let output = peer.output();
        let line = line_with(&output, "= endpoint ");
        let port = |key| Some(find_field(&line, key)?.parse().expect("a port"));
        Talk {
            port: port("port").expect("every endpoint has one"),
            encapsulation_port: port("encapsulation_port").unwrap_or_default(),
            peer,
        }
    }

    /// Types a line.
    pub(crate) fn type_line(&mut self, line: &str) {
        self.peer.write(&format!("{line}\n"));
    }

    pub(crate) fn wait_for(&mut self, text: &str) {
        self.peer.wait_for_output(text, LIMIT);
    }

    /// Waits until it has printed a text so often.
    fn wait_for_times(&mut self, text: &str, times: usize) {
        let often = wait_until(LIMIT, || self.count(text) >= times);
        assert!(often, "{text:?} {} times, not {times}", self.count(text));
    }

    fn count(&self, text: &str) -> usize {
        self.peer.output().matches(text).count()
    }

    /// The first line with a text in it, once there is one.
    fn line(&mut self, text: &str) -> String {
        self.wait_for(text);
        line_with(&self.peer.output(), text)
    }

    fn signal(&self, name: &str) {
        send_signal(self.peer.id(), name);
    }

    pub(crate) fn end_input(&mut self) {
        self.peer.close_input();
    }

    /// Waits for its end.
    fn wait(&mut self) -> ExitStatus {
        self.peer.wait(LIMIT)
    }

    /// Its exit status.
    pub(crate) fn status(&mut self) -> Option<i32> {
        self.wait().code()
    }
}

fn line_with(output: &str, text: &str) -> String {
    let line = output.lines().find(|line| line.contains(text));
    line.expect("it was printed").to_owned()
}

/// The value of `key=value` in a line.
fn field<'a>(line: &'a str, key: &str) -> &'a str {
    find_field(line, key).unwrap_or_else(|| panic!("no {key} in {line:?}"))
}

fn find_field<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    line.split(' ')
        .find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
}
