//! Network namespaces: networks of one's own on one machine.
//!
//! A [`Namespace`] is held by a descriptor of this process, and has no name anywhere: it is gone with the last
//! process that holds it or runs in it, however that ends. [`become_root`] gives a process without
//! privileges the right to make some, where the kernel lets it have a user namespace.
#![deny(unsafe_code)]

mod interfaces;
mod mark;
mod netlink;
mod privilege;
mod programs;
mod spawn;

pub use mark::Mark;
pub use netlink::{Netlink, NetlinkError, NextHop, Route};
pub use privilege::{Privilege, Unavailable, become_root, join};
pub use programs::{Program, end_programs};

use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use nix::sched::{CloneFlags, setns, unshare};

/// A network namespace. It lives as long as this value, one of its clones, or a program in it.
#[derive(Debug, Clone)]
pub struct Namespace {
    file: Arc<File>,
    identity: Identity,
}

/// What tells a namespace from all others that exist at the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Identity {
    device: u64,
    inode: u64,
}

impl Namespace {
    /// Makes one. Its loopback interface is down.
    ///
    /// # Errors
    ///
    /// The process may not (see [`become_root`]), or the kernel allows no more.
    pub fn new() -> io::Result<Namespace> {
        // Of a thread that then ends, so that the caller stays where it is.
        let make = || {
            unshare(CloneFlags::CLONE_NEWNET)?;
            Namespace::open(Path::new("/proc/thread-self/ns/net"))
        };
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().spawn_scoped(scope, make)?;
            thread.join().unwrap_or_else(|_| Err(panicked()))
        })
    }

    /// Holds the namespace that a file stands for, such as `/run/netns/NAME` or `/proc/PID/ns/net`.
    ///
    /// # Errors
    ///
    /// The file cannot be opened.
    pub fn open(path: &Path) -> io::Result<Namespace> {
        let file = File::open(path)?;
        let identity = Identity::of(&file)?;
        Ok(Namespace {
            file: Arc::new(file),
            identity,
        })
    }

    /// Moves the calling thread into the namespace for good: the sockets that it opens from now on are there, and
    /// so are the programs and threads that it starts.
    ///
    /// # Errors
    ///
    /// The thread may not.
    pub fn enter(&self) -> io::Result<()> {
        Ok(setns(&*self.file, CloneFlags::CLONE_NEWNET)?)
    }

    /// Runs something in a thread of its own that is in the namespace, and waits for it.
    ///
    /// # Errors
    ///
    /// The thread cannot be made, may not enter, or panicked.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> io::Result<T> {
        let inside = || {
            self.enter()?;
            Ok(work())
        };
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().spawn_scoped(scope, inside)?;
            thread.join().unwrap_or_else(|_| Err(panicked()))
        })
    }

    /// A command that runs a program in the namespace. With `hosts`, a file like `/etc/hosts` that is there as
    /// long as programs start, the program finds it in the place of `/etc/hosts`, and the namespace's interfaces
    /// in `/sys`.
    pub fn command(&self, program: impl AsRef<OsStr>, hosts: Option<&Path>) -> Command {
        let mut command = Command::new(program);
        // A path with a zero octet names no file, and so none that could be put there.
        let hosts = hosts.and_then(|path| CString::new(path.as_os_str().as_bytes()).ok());
        spawn::within(&mut command, Arc::clone(&self.file), hosts);
        command
    }

    /// What tells this namespace from others.
    pub fn identity(&self) -> Identity {
        self.identity
    }

    /// A file by which other processes of the same user can open the namespace as long as this value lives.
    pub fn path(&self) -> PathBuf {
        let (process, descriptor) = (std::process::id(), self.file.as_raw_fd());
        PathBuf::from(format!("/proc/{process}/fd/{descriptor}"))
    }
}

impl Identity {
    fn of(file: &File) -> io::Result<Identity> {
        let metadata = file.metadata()?;
        Ok(Identity {
            device: metadata.dev(),
            inode: metadata.ino(),
        })
    }
}

fn panicked() -> io::Error {
    io::Error::other("the thread in the namespace panicked")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A namespace, or a line that says why there is none.
    fn namespace() -> Option<Namespace> {
        let made = Namespace::new();
        if let Err(error) = &made {
            use std::io::Write;
            writeln!(io::stderr(), "skipped: no network namespace: {error}").ok();
        }
        made.ok()
    }

    #[test]
    fn what_is_in_a_namespace_is_nowhere_else() {
        let Some(namespace) = namespace() else { return };
        let loopback_up = |namespace: &Namespace| namespace.netlink()?.set_link_up("lo");
        loopback_up(&namespace).unwrap();
        let bind = || std::net::TcpListener::bind("127.0.0.1:5060");
        let first = namespace.run(bind).unwrap().unwrap();
        let other = Namespace::new().unwrap();
        loopback_up(&other).unwrap();
        other.run(bind).unwrap().unwrap();
        assert_eq!(
            namespace.run(bind).unwrap().unwrap_err().kind(),
            io::ErrorKind::AddrInUse
        );
        assert_ne!(namespace.identity(), other.identity());
        drop(first);
    }

    #[test]
    fn programs_run_inside_with_their_own_names_of_hosts() {
        let Some(namespace) = namespace() else { return };
        let hosts = std::env::temp_dir().join(format!("namespace-hosts-{}", std::process::id()));
        std::fs::write(&hosts, "192.0.2.7 elsewhere\n").unwrap();
        let output = namespace
            .command("sh", Some(&hosts))
            .args(["-c", "cat /etc/hosts; readlink /proc/self/ns/net"])
            .output()
            .unwrap();
        std::fs::remove_file(&hosts).unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        let inode = format!("net:[{}]", namespace.identity().inode);
        assert_eq!(text, format!("192.0.2.7 elsewhere\n{inode}\n"));
        let outside = std::fs::read_to_string("/etc/hosts").unwrap_or_default();
        assert!(!outside.contains("elsewhere"));
    }

    #[test]
    fn programs_inside_are_found_and_ended() {
        let Some(namespace) = namespace() else { return };
        let mut sleeper = namespace.command("sleep", None).arg("100").spawn().unwrap();
        let is_inside = |_, identity| identity == namespace.identity();
        let ended = end_programs(is_inside, std::time::Duration::from_secs(5));
        let ended: Vec<u32> = ended.iter().map(|program| program.process).collect();
        assert_eq!(ended, [sleeper.id()]);
        assert!(!sleeper.wait().unwrap().success());
    }
}
