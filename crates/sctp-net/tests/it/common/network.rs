//! Hosts in network namespaces of their own, joined by veth pairs.

use std::future::Future;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::thread::JoinHandle;

use test_support::{Namespace, require_command};

/// A host: a namespace, in which code of the test can run.
#[derive(Clone)]
pub(crate) struct Host {
    pub(crate) namespace: Arc<Namespace>,
}

impl Host {
    /// A host without links; `None` where no namespace can be had.
    pub(crate) fn new() -> Option<Host> {
        // A new address is usable at once: nobody else is there who might have it.
        let namespace = Namespace::new()?;
        let quick = [
            "net.ipv6.conf.default.accept_dad=0",
            "net.ipv4.ip_forward=1",
        ];
        for setting in quick {
            let set = namespace
                .command("sysctl")
                .args(["-q", "-w", setting])
                .output();
            set.expect("sysctl can be run");
        }
        Some(Host {
            namespace: Arc::new(namespace),
        })
    }

    /// A link to another host, with these addresses (and prefix lengths) on either side.
    pub(crate) fn link(&self, other: &Host, name: &str, ours: &[&str], theirs: &[&str]) {
        self.namespace.join(&other.namespace, name);
        for (host, addresses) in [(self, ours), (other, theirs)] {
            for address in addresses {
                let nodad = if address.contains(':') { "nodad" } else { "" };
                let namespace = &host.namespace;
                namespace.ip(&format!("address add {address} dev {name} {nodad}"));
            }
            host.namespace.ip(&format!("link set {name} up"));
        }
        for host in [self, other] {
            host.namespace.wait_for_links();
        }
    }

    /// Runs a future to its end in the host, on a thread of its own.
    pub(crate) fn run<F, T>(&self, run: impl FnOnce() -> F + Send + 'static) -> JoinHandle<T>
    where
        F: Future<Output = T>,
        T: Send + 'static,
    {
        let namespace = Arc::clone(&self.namespace);
        std::thread::spawn(move || {
            namespace.enter();
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(run())
        })
    }
}

/// What the thread gives; its panic is ours.
pub(crate) fn join<T>(thread: JoinHandle<T>) -> T {
    thread
        .join()
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// How many packets of a capture tshark shows with a filter, when it looks for SCTP in these UDP ports;
/// `None` where there is no tshark.
pub(crate) fn shown(capture: &Path, filter: &str, udp_ports: &[u16]) -> Option<usize> {
    let mut tshark = Command::new(require_command("tshark", "tshark")?);
    for port in udp_ports {
        tshark.args(["-d", &format!("udp.port=={port},sctp")]);
    }
    let output = tshark
        .args([
            "-o",
            "sctp.checksum:CRC 32c",
            "-o",
            "udp.check_checksum:TRUE",
        ])
        .args(["-Y", filter, "-r"])
        .arg(capture)
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    Some(String::from_utf8_lossy(&output.stdout).lines().count())
}
