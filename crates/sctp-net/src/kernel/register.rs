//! Sockets that the runtime watches.
#![allow(unsafe_code)]

use std::io;

use tokio::io::unix::AsyncFd;

use super::socket::Socket;

/// Lets the runtime tell when a socket is ready.
pub(super) fn register(socket: Socket) -> io::Result<AsyncFd<Socket>> {
    // SAFETY: the socket owns its file descriptor, which stays open and the same until the socket is dropped,
    // and nobody can take it out.
    unsafe { AsyncFd::register(socket) }.map_err(io::Error::from)
}
