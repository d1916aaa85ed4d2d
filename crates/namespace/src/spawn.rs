//! Programs that start in a namespace.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString};
use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, setns, unshare};

/// Lets the program of a command start in the network namespace, with `hosts` in the place of `/etc/hosts`.
pub(crate) fn within(command: &mut Command, namespace: Arc<File>, hosts: Option<CString>) {
    // A system without that file has no place for another one: its programs have to do with addresses.
    let has_hosts = fs::exists("/etc/hosts").unwrap_or(true);
    let prepare = move || {
        setns(&*namespace, CloneFlags::CLONE_NEWNET)?;
        if let Some(hosts) = &hosts {
            mount_own(hosts, has_hosts)?;
        }
        Ok(())
    };
    // SAFETY: between fork and exec only system calls are made, with texts that were made before: nothing is
    // allocated, and no lock is taken.
    unsafe { command.pre_exec(prepare) };
}

/// Mounts of the program's own: the file with the names of hosts, and a view of the interfaces of its namespace.
fn mount_own(hosts: &CStr, has_hosts: bool) -> io::Result<()> {
    const NOTHING: Option<&CStr> = None;
    unshare(CloneFlags::CLONE_NEWNS)?;
    // What is mounted here stays here.
    let apart = MsFlags::MS_SLAVE | MsFlags::MS_REC;
    mount(NOTHING, c"/", NOTHING, apart, NOTHING)?;
    if has_hosts {
        mount(
            Some(hosts),
            c"/etc/hosts",
            NOTHING,
            MsFlags::MS_BIND,
            NOTHING,
        )?;
    }
    // Few programs look there, and in containers it may not be allowed. It goes over what is there: a kernel that
    // forbids it (mount_namespaces(7)) leaves that as it is.
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    for flags in [flags, flags | MsFlags::MS_RDONLY] {
        if mount(Some(c"sysfs"), c"/sys", Some(c"sysfs"), flags, NOTHING).is_ok() {
            break;
        }
    }
    Ok(())
}
