//! Network namespaces: a loopback interface of one's own.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::packages::{require_command, say_skipped};

/// A network namespace with a loopback interface, where nobody else's packets are. It is removed when it is
/// dropped; programs that still run in it keep it alive until they end.
#[derive(Debug)]
pub struct Namespace {
    ip: PathBuf,
    name: String,
}

impl Namespace {
    /// Makes one. `None`, and a line with the reason, when that is not possible here (it needs root): the
    /// test then ends early.
    pub fn new() -> Option<Namespace> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let ip = require_command("ip", "iproute2")?;
        let name = || {
            let count = COUNT.fetch_add(1, Ordering::Relaxed);
            format!("tandem-test-{}-{count}", std::process::id())
        };
        // A test that was killed may have left one of that name, of a process with the same number.
        let free = |name: &String| !Path::new("/run/netns").join(name).exists();
        let name = std::iter::repeat_with(name).find(free)?;
        let namespace = Namespace { ip, name };
        let mut add = Command::new(&namespace.ip);
        add.args(["netns", "add", &namespace.name]);
        let mut up = namespace.command(&namespace.ip);
        up.args(["link", "set", "lo", "up"]);
        for command in [&mut add, &mut up] {
            let output = command.output().expect("ip can be run");
            if !output.status.success() {
                let reason = String::from_utf8_lossy(&output.stderr);
                say_skipped(&format!("no network namespace: {}", reason.trim()));
                return None;
            }
        }
        Some(namespace)
    }

    /// The name by which `ip` knows it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs `ip` with these arguments, separated by spaces, in the namespace.
    ///
    /// # Panics
    ///
    /// When it fails.
    pub fn ip(&self, arguments: &str) {
        let output = Command::new(&self.ip)
            .args(["-n", &self.name])
            .args(arguments.split_whitespace())
            .output()
            .expect("ip can be run");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "ip {arguments}: {error}");
    }

    /// Joins the namespace with another by a pair of interfaces, both called `interface`. They are down,
    /// and have no addresses.
    ///
    /// # Panics
    ///
    /// When it fails.
    pub fn join(&self, other: &Namespace, interface: &str) {
        let theirs = &other.name;
        self.ip(&format!(
            "link add name {interface} type veth peer name {interface} netns {theirs}"
        ));
    }

    /// Moves the calling thread into the namespace: the sockets that it opens from now on are there.
    ///
    /// # Panics
    ///
    /// When it fails.
    pub fn enter(&self) {
        enter(&self.name);
    }

    /// A command that runs a program in the namespace.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(&self.ip);
        command.args(["netns", "exec", &self.name]).arg(program);
        command
    }
}

/// Moves the calling thread into the namespace that `ip` knows by this name.
pub(crate) fn enter(name: &str) {
    let path = format!("/run/netns/{name}");
    let file = std::fs::File::open(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    nix::sched::setns(file, nix::sched::CloneFlags::CLONE_NEWNET)
        .unwrap_or_else(|error| panic!("cannot enter {path}: {error}"));
}

impl Drop for Namespace {
    fn drop(&mut self) {
        Command::new(&self.ip)
            .args(["netns", "delete", &self.name])
            .output()
            .ok();
    }
}
