//! Sockets that tokio watches for one thing alone.
#![allow(unsafe_code)]

use std::io;

use socket2::Socket;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Lets tokio watch a socket for nothing but this.
///
/// # Errors
///
/// The kernel's.
pub(crate) fn watch(socket: Socket, interest: Interest) -> io::Result<AsyncFd<Socket>> {
    // SAFETY: a socket2 socket owns its descriptor, which is open and the same for as long as it lives,
    // and it lives inside the AsyncFd; nothing here takes it out of there.
    unsafe { AsyncFd::register_with_interest(socket, interest) }.map_err(io::Error::from)
}
