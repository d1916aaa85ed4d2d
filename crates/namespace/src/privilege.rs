//! The right to make namespaces.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use nix::errno::Errno;
use nix::sched::{CloneFlags, setns, unshare};
use nix::unistd::{getegid, geteuid};

use crate::Namespace;

/// By what right namespaces are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Privilege {
    /// The process may by itself.
    Root,
    /// It is in a user namespace of its own, where it is root.
    UserNamespace,
}

/// Namespaces cannot be made here.
#[derive(Debug, thiserror::Error)]
pub enum Unavailable {
    /// Not root, and no user namespace to be had.
    #[error(
        "not root, and the kernel allows no user namespace ({0}): run it as root, or allow user namespaces \
         (sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone, \
         kernel.apparmor_restrict_unprivileged_userns=0)"
    )]
    Forbidden(io::Error),
    /// The process has threads already.
    #[error("not root, and too late for a user namespace: this process has several threads")]
    TooLate,
    /// Root, but without the privilege.
    #[error("cannot create network namespaces ({0}): CAP_SYS_ADMIN is missing")]
    Powerless(io::Error),
}

/// Sees to it that this process may make network namespaces: by the right that it has, or as root of a user
/// namespace of its own, into which it moves for good. That needs a process with a single thread.
///
/// # Errors
///
/// Neither is possible here.
pub fn become_root() -> Result<Privilege, Unavailable> {
    let Err(error) = Namespace::new() else {
        return Ok(Privilege::Root);
    };
    let (user, group) = (geteuid(), getegid());
    match unshare(CloneFlags::CLONE_NEWUSER) {
        Ok(()) => {}
        Err(_) if user.is_root() => return Err(Unavailable::Powerless(error)),
        Err(Errno::EINVAL) => return Err(Unavailable::TooLate),
        Err(errno) => return Err(Unavailable::Forbidden(errno.into())),
    }
    // user_namespaces(7): a process without privileges may map its own user and group alone, the latter after it
    // has given up the right to leave groups.
    let map = || {
        fs::write("/proc/self/setgroups", "deny")?;
        fs::write("/proc/self/uid_map", format!("0 {user} 1"))?;
        fs::write("/proc/self/gid_map", format!("0 {group} 1"))?;
        Namespace::new()
    };
    match map() {
        Ok(_) => Ok(Privilege::UserNamespace),
        Err(error) => Err(Unavailable::Forbidden(error)),
    }
}

/// Moves this process, which must have a single thread, into the user namespace of another process of the same
/// user, unless it is there already.
///
/// # Errors
///
/// There is no such process, or this one may not.
pub fn join(process: u32) -> io::Result<()> {
    let theirs = File::open(format!("/proc/{process}/ns/user"))?;
    let ours = File::open(Path::new("/proc/self/ns/user"))?;
    if crate::Identity::of(&theirs)? == crate::Identity::of(&ours)? {
        return Ok(());
    }
    Ok(setns(theirs, CloneFlags::CLONE_NEWUSER)?)
}
