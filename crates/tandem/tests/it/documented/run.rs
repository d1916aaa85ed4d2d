//! Runs a command, or has the program parse it.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use tempfile::TempDir;
use test_support::{Namespace, Peer, wait_until};

use super::table::Entry;
use crate::program::support::{program_path, send_signal, tandem};

/// A command or its server is up, or done, within this on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Has the program parse the arguments of a command line. It shows its help then, where it accepts them.
pub(super) fn parsed(line: &str) -> Result<(), String> {
    for arguments in command_lines(line) {
        let mut words = Vec::new();
        for mut word in arguments {
            // A number that the shell knows.
            if word == "$$" {
                "1".clone_into(&mut word);
            }
            if word == "COMMAND" || word == "TARGET" || word.contains('…') {
                // The value of the option before it is left open, too.
                if words
                    .last()
                    .is_some_and(|last: &String| last.starts_with("--"))
                {
                    words.pop();
                }
                break;
            }
            // What may be left out.
            if !(word.starts_with('[') && word.ends_with(']')) || word.contains(':') {
                words.push(word);
            }
        }
        // Where the arguments of another program begin.
        let end = words
            .iter()
            .position(|word| word == "--")
            .unwrap_or(words.len());
        words.truncate(end);
        words.retain(|word| word != "--help");
        let output = tandem().args(&words).arg("--help").output();
        let output = output.map_err(|error| error.to_string())?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(format!(
                "not accepted: {}",
                said.lines().next().unwrap_or_default()
            ));
        }
    }
    Ok(())
}

/// The arguments of each call of `tandem` in a line of the shell.
fn command_lines(line: &str) -> Vec<Vec<String>> {
    let mut all = Vec::new();
    let mut current: Option<Vec<String>> = None;
    for word in words(line) {
        match word.as_str() {
            "tandem" => all.extend(current.replace(Vec::new())),
            "|" | "&" | ";" | "<" | ">" | ">>" | ")" => all.extend(current.take()),
            _ => {
                if let Some(arguments) = &mut current {
                    arguments.push(word);
                }
            }
        }
    }
    all.extend(current);
    all
}

/// The words of a line of the shell, of which quotes and backslashes make one, and its operators.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        match (quote, character) {
            (Some(open), _) if character == open => quote = None,
            (Some(_), _) => word.get_or_insert_default().push(character),
            (None, '\'' | '"') => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            (None, '\\') => word.get_or_insert_default().extend(characters.next()),
            (None, ' ') => words.extend(word.take()),
            (None, '|' | '&' | ';' | '<' | '>' | '(' | ')') => {
                words.extend(word.take());
                words.push(character.to_string());
            }
            (None, _) => word.get_or_insert_default().push(character),
        }
    }
    words.extend(word);
    words
}

/// Runs a command as the table says.
pub(super) fn run(entry: &Entry) -> Result<(), String> {
    let Some(place) = WorkingDirectory::new() else {
        return Ok(());
    };
    place.write_files();
    if entry.needs_calls {
        place.write_calls()?;
    }
    let mut servers = Vec::new();
    for (line, up) in entry.servers {
        servers.push(place.start(line, up)?);
    }
    for line in entry.before {
        let output = place.shell(line).output();
        let output = output.map_err(|error| error.to_string())?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(format!("{line}: {said}"));
        }
    }
    let result = place.run(&entry.command_line(), entry);
    if entry.brings_networks_up() {
        let down = place.shell("tandem net down --all").output();
        down.map_err(|error| error.to_string())?;
    }
    result
}

/// Where a command is run: a network namespace and a directory of its own.
struct WorkingDirectory {
    namespace: Namespace,
    directory: TempDir,
}

impl WorkingDirectory {
    /// `None` where there are no namespaces to be had.
    fn new() -> Option<WorkingDirectory> {
        let namespace = Namespace::new()?;
        let directory = tempfile::tempdir().expect("a directory");
        let place = WorkingDirectory {
            namespace,
            directory,
        };
        let bin = place.path().join("bin");
        std::fs::create_dir(&bin).expect("a directory");
        std::os::unix::fs::symlink(program_path(), bin.join("tandem")).expect("a link");
        Some(place)
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    /// A line of the shell, which finds `tandem`, and changes nothing of the host's.
    fn shell(&self, line: &str) -> Command {
        let directory = self.path();
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = self.namespace.command("sh");
        command.arg("-c").arg(line).current_dir(directory);
        command.env(
            "PATH",
            format!("{}:{path}", directory.join("bin").display()),
        );
        command.env("HOME", directory);
        command.env("XDG_RUNTIME_DIR", directory);
        let store = directory.join("tandem.db");
        command.env("TANDEM_STORE", format!("sqlite:{}", store.display()));
        command.env("PASSWORD", "secret");
        command
    }

    /// Starts a program, so that a signal reaches it and not its shell. It does not ignore SIGINT, as what a shell without
    /// job control runs in the background does, with all that this starts.
    fn spawn(&self, line: &str) -> Peer {
        let line = match line.contains('|') {
            true => line.to_owned(),
            false => line.replacen("tandem ", "exec env --default-signal=INT tandem ", 1),
        };
        Peer::spawn(&mut self.shell(&line))
    }

    /// Starts a program that goes on, and waits until it has printed this.
    fn start(&self, line: &str, up: &str) -> Result<Peer, String> {
        let peer = self.spawn(line);
        match wait_until(PATIENCE, || peer.output().contains(up)) {
            true => Ok(peer),
            false => Err(format!(
                "{line}: {up:?} is not in its output:\n{}",
                peer.output()
            )),
        }
    }

    fn run(&self, line: &str, entry: &Entry) -> Result<(), String> {
        let mut peer = match entry.up {
            Some(up) => {
                let peer = self.start(line, up)?;
                send_signal(peer.id(), "INT");
                peer
            }
            None => {
                let mut peer = self.spawn(line);
                if let Some(input) = entry.input {
                    peer.write(input);
                }
                peer.close_input();
                peer
            }
        };
        let status = peer.wait(PATIENCE);
        // As a shell tells that a signal has ended a program.
        let status = status.code().or_else(|| Some(128 + status.signal()?));
        // A generator of load may be late on a busy machine, and says so.
        let may_be_late = status == Some(3) && line.contains("tandem load");
        match status == Some(entry.status) || may_be_late {
            true => Ok(()),
            false => {
                let output = peer.output();
                Err(format!("{line}: ended with {status:?}:\n{output}"))
            }
        }
    }

    fn write(&self, name: &str, octets: &[u8]) {
        std::fs::write(self.path().join(name), octets).expect("written");
    }

    /// Files that the examples name.
    fn write_files(&self) {
        self.write("tandem.toml", b"domains = [\"example.org\"]\n");
        let office = include_str!("../../../../testbed/topologies/two-hosts.toml");
        self.write("office.toml", office.as_bytes());
        self.write("lte.down", b"1\n2\n");
        self.write("lte.up", b"1\n2\n");
    }

    /// A capture of some calls under the names that the examples use, and the Call-ID of one of them.
    fn write_calls(&self) -> Result<(), String> {
        static CALLS: OnceLock<Result<Vec<u8>, String>> = OnceLock::new();
        let capture = CALLS.get_or_init(|| self.capture_calls()).clone()?;
        for name in [
            "calls.pcap",
            "calls.pcapng",
            "server.pcap",
            "caller.pcap",
            "callee.pcap",
        ] {
            self.write(name, &capture);
        }
        let text = String::from_utf8_lossy(&capture);
        let (_, from) = text.split_once("INVITE sip:").ok_or("there is no call")?;
        let (_, from) = from.split_once("Call-ID: ").ok_or("there is no Call-ID")?;
        let call_id = from.lines().next().unwrap_or_default().trim();
        self.write("call-id", call_id.as_bytes());
        Ok(())
    }

    fn capture_calls(&self) -> Result<Vec<u8>, String> {
        let mut proxy = self.start("tandem proxy --pcap made.pcapng", "encapsulated")?;
        let mut load = self.spawn("tandem load calls --via 127.0.0.1 --users 3 -m 3 --no-screen");
        load.wait(PATIENCE);
        send_signal(proxy.id(), "INT");
        proxy.wait(PATIENCE);
        let capture = std::fs::read(self.path().join("made.pcapng"));
        capture.map_err(|error| error.to_string())
    }
}
