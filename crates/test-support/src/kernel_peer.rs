//! The Linux kernel's SCTP as a peer: a small virtual machine, see `tests/kernel-peer/`.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Once, OnceLock};

use crate::packages::say_skipped;

/// Tells a copy of a test program that it is in the guest.
const INSIDE: &str = "TANDEM_IN_THE_GUEST";

/// The process that the guest lives as long as: nextest, which starts each test as a process of its own, or this one.
fn owner() -> u32 {
    match std::env::var_os("NEXTEST") {
        Some(_) => std::os::unix::process::parent_id(),
        None => std::process::id(),
    }
}

/// A guest whose kernel has SCTP, reached from a network namespace of its own.
///
/// One for all tests of a run: of nextest's, where each test is a process, or of this program. It goes down when the run
/// ends. One process has it at a time; others wait.
#[derive(Debug)]
pub struct KernelPeer {
    script: PathBuf,
    namespace: String,
    /// Locked for as long as this process runs.
    _lock: File,
}

impl KernelPeer {
    /// The guest, booted at the first call. `None`, and a line with the reason, when it cannot be had here: it
    /// needs root, and Debian's packages. The test then ends early.
    ///
    /// # Panics
    ///
    /// When it should work but does not.
    pub fn get() -> Option<&'static KernelPeer> {
        static GUEST: OnceLock<Option<KernelPeer>> = OnceLock::new();
        GUEST.get_or_init(KernelPeer::boot).as_ref()
    }

    fn boot() -> Option<KernelPeer> {
        if !nix::unistd::geteuid().is_root() {
            say_skipped("the guest with the kernel's SCTP needs root");
            return None;
        }
        if !Path::new("/dev/net/tun").exists() || cfg!(not(target_arch = "x86_64")) {
            say_skipped("the guest with the kernel's SCTP needs x86-64 and /dev/net/tun");
            return None;
        }
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        // Where cargo was told to build elsewhere there is no such directory.
        std::fs::create_dir_all(root.join("target")).expect("target/ can be made");
        let lock = File::create(root.join("target/kernel-peer.lock")).expect("a file can be made");
        lock.lock().expect("files can be locked");
        let script = root.join("tests/kernel-peer/guest");
        let up = Command::new(&script)
            .arg("up")
            .arg(owner().to_string())
            .output()
            .expect("the script can be run");
        if !up.status.success() {
            let reason = String::from_utf8_lossy(&up.stderr);
            say_skipped(&format!(
                "no guest with the kernel's SCTP: {}",
                reason.trim()
            ));
            return None;
        }
        let namespace = Command::new(&script)
            .arg("netns")
            .output()
            .expect("the script can be run");
        Some(KernelPeer {
            script,
            namespace: String::from_utf8_lossy(&namespace.stdout).trim().to_owned(),
            _lock: lock,
        })
    }

    /// A command that has the guest's shell run `command`.
    pub fn command(&self, command: &str) -> Command {
        let mut run = Command::new(&self.script);
        run.args(["run", command]);
        run
    }

    /// Runs a command in the guest to its end; what it printed.
    ///
    /// # Panics
    ///
    /// When it fails.
    pub fn run(&self, command: &str) -> String {
        let output = self
            .command(command)
            .output()
            .expect("the script can be run");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command}: {text}{error}");
        text
    }

    /// Runs a test of this very program in the guest, into which the program copies itself: where
    /// [`is_in_guest`](Self::is_in_guest) then is true.
    ///
    /// # Panics
    ///
    /// When the test fails there.
    pub fn run_test(&self, name: &str) {
        static COPIED: Once = Once::new();
        let program = std::env::current_exe().expect("a program knows where it is");
        COPIED.call_once(|| self.put(&program));
        let file = program.file_name().unwrap_or_default().to_string_lossy();
        let said = self.run(&format!(
            "{INSIDE}=1 /bin/{file} --exact {name} --nocapture"
        ));
        assert!(said.contains("1 passed"), "{said}");
    }

    /// Whether this program runs in the guest, as the copy that [`run_test`](Self::run_test) has made.
    pub fn is_in_guest() -> bool {
        std::env::var_os(INSIDE).is_some()
    }

    /// Copies a program into the guest's `/bin`, with the libraries that it needs.
    ///
    /// # Panics
    ///
    /// When it fails.
    pub fn put(&self, program: &Path) {
        let status = Command::new(&self.script)
            .arg("put")
            .arg(program)
            .status()
            .expect("the script can be run");
        assert!(status.success(), "{} cannot be copied", program.display());
    }

    /// Copies any other file into the guest.
    ///
    /// # Panics
    ///
    /// When it fails.
    pub fn put_as(&self, file: &Path, path: &str) {
        let status = Command::new(&self.script)
            .arg("put")
            .args([file.as_os_str(), path.as_ref()])
            .status()
            .expect("the script can be run");
        assert!(status.success(), "{} cannot be copied", file.display());
    }

    /// Unpacks Debian packages into the guest. False, and a line with the reason, when they cannot be had: the
    /// test then ends early.
    ///
    /// # Panics
    ///
    /// When the script cannot be run.
    pub fn add(&self, packages: &[&str]) -> bool {
        let output = Command::new(&self.script)
            .arg("add")
            .args(packages)
            .output()
            .expect("the script can be run");
        if !output.status.success() {
            let reason = String::from_utf8_lossy(&output.stderr);
            say_skipped(&format!("no {}: {}", packages.join(", "), reason.trim()));
        }
        output.status.success()
    }

    /// Moves the calling thread into the namespace from which the guest can be reached: the sockets that it
    /// opens from now on are there.
    ///
    /// # Panics
    ///
    /// When it fails.
    pub fn enter(&self) {
        crate::namespace::enter(&self.namespace);
    }

    /// Runs `ip` with these arguments, separated by spaces, in that namespace.
    ///
    /// # Panics
    ///
    /// When it fails.
    pub fn ip(&self, arguments: &str) {
        let status = Command::new("ip")
            .args(["-n", &self.namespace])
            .args(arguments.split_whitespace())
            .status()
            .expect("ip can be run");
        assert!(status.success(), "ip {arguments}");
    }
}
