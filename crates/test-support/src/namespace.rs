//! Network namespaces: a loopback interface of one's own.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::packages::{require_command, say_skipped};
use crate::wait::wait_until;

/// A network namespace with a loopback interface, where nobody else's packets are. It is gone when it is dropped
/// and the programs that still run in it have ended.
#[derive(Debug)]
pub struct Namespace {
    inner: namespace::Namespace,
    name: String,
}

impl Namespace {
    /// Makes one. `None`, and a line with the reason, when that is not possible here (it needs root): the
    /// test then ends early.
    pub fn new() -> Option<Namespace> {
        require_command("ip", "iproute2")?;
        let inner = match namespace::Namespace::new() {
            Ok(inner) => inner,
            Err(error) => {
                say_skipped(&format!("no network namespace: {error}"));
                return None;
            }
        };
        let name = inner.path().display().to_string();
        let namespace = Namespace { inner, name };
        let mut netlink = namespace.inner.netlink().expect("a netlink socket");
        netlink.set_link_up("lo").expect("loopback goes up");
        Some(namespace)
    }

    /// The name by which `ip` knows it where it moves interfaces: a path.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs `ip` with these arguments, separated by spaces, in the namespace.
    ///
    /// # Panics
    ///
    /// When it fails.
    pub fn ip(&self, arguments: &str) {
        let mut ip = self.inner.command("ip", None);
        let output = ip.args(arguments.split_whitespace()).output();
        let output = output.expect("ip can be run");
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

    /// Waits until its interfaces that are up carry packets. The kernel may take a second with each that became up at
    /// both ends, and drops what is sent until then.
    ///
    /// # Panics
    ///
    /// When they do not: the other end of one is down.
    pub fn wait_for_links(&self) {
        let carry = || {
            let shown = self
                .command("ip")
                .args(["-o", "link", "show", "up"])
                .output();
            let shown = shown.expect("ip can be run").stdout;
            !String::from_utf8_lossy(&shown).contains("state DOWN")
        };
        assert!(
            wait_until(Duration::from_secs(30), carry),
            "a link stays down"
        );
    }

    /// Moves the calling thread into the namespace: the sockets that it opens from now on are there.
    ///
    /// # Panics
    ///
    /// When it fails.
    pub fn enter(&self) {
        let done = self.inner.enter();
        done.unwrap_or_else(|error| panic!("cannot enter a network namespace: {error}"));
    }

    /// A command that runs a program in the namespace, which sees its interfaces in `/sys`, too.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        self.inner.command(program, Some(Path::new("/etc/hosts")))
    }
}

/// Moves the calling thread into the namespace that `ip` knows by this name.
pub(crate) fn enter(name: &str) {
    let path = format!("/run/netns/{name}");
    let entered = namespace::Namespace::open(Path::new(&path)).and_then(|one| one.enter());
    entered.unwrap_or_else(|error| panic!("cannot enter {path}: {error}"));
}
