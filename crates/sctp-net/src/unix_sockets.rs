//! The abstract Unix sockets of our network namespace and their owners (sock_diag(7)).

use std::io::{self, Read, Write};

use socket2::{Domain, Protocol, Socket, Type};

/// An abstract socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UnixSocket {
    /// Its name; what is not UTF-8 is left out.
    pub(crate) name: String,
    /// The user who has made it, if the kernel says so (since Linux 5.3).
    pub(crate) user: Option<u32>,
}

/// All abstract sockets with names of ours; `None` if the kernel does not list them.
pub(crate) fn abstract_sockets() -> Option<Vec<UnixSocket>> {
    dump()
        .inspect_err(|error| tracing::debug!(%error, "cannot list Unix sockets"))
        .ok()
}

/// How names of ours begin.
const OURS: &str = "tandem-";

// The kernel's linux/netlink.h, linux/sock_diag.h and linux/unix_diag.h.
const NETLINK_SOCK_DIAG: i32 = 4;
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLM_F_REQUEST_DUMP: u16 = 0x301;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const UDIAG_SHOW_NAME: u32 = 0x01;
const UDIAG_SHOW_UID: u32 = 0x40;
const UNIX_DIAG_NAME: u16 = 0;
const UNIX_DIAG_UID: u16 = 7;
/// A message's header, a socket's fixed part, an attribute's header.
const HEADER: usize = 16;
const SOCKET: usize = 16;
const ATTRIBUTE: usize = 4;

fn dump() -> io::Result<Vec<UnixSocket>> {
    let kind = Type::RAW.cloexec();
    let protocol = Some(Protocol::from(NETLINK_SOCK_DIAG));
    let mut socket = Socket::new(Domain::from(libc::AF_NETLINK), kind, protocol)?;
    let mut request = Vec::new();
    request.extend(40_u32.to_ne_bytes());
    request.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    request.extend(NLM_F_REQUEST_DUMP.to_ne_bytes());
    request.extend([0; 8]);
    // struct unix_diag_req: sockets in any state.
    request.extend([libc::AF_UNIX as u8, 0, 0, 0]);
    request.extend(u32::MAX.to_ne_bytes());
    request.extend(0_u32.to_ne_bytes());
    request.extend((UDIAG_SHOW_NAME | UDIAG_SHOW_UID).to_ne_bytes());
    request.extend([0; 8]);
    socket.write_all(&request)?;
    let mut sockets = Vec::new();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let length = socket.read(&mut buffer)?;
        let mut messages = buffer.get(..length).unwrap_or_default();
        if messages.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        while let Some((kind, payload)) = next_message(&mut messages) {
            match kind {
                NLMSG_DONE => return Ok(sockets),
                NLMSG_ERROR => {
                    let code = payload
                        .first_chunk()
                        .map_or(0, |code| i32::from_ne_bytes(*code));
                    return Err(io::Error::from_raw_os_error(-code));
                }
                _ => sockets.extend(read_socket(payload)),
            }
        }
    }
}

/// The first of some messages: its type, and what is in it.
fn next_message<'a>(messages: &mut &'a [u8]) -> Option<(u16, &'a [u8])> {
    let length = u32::from_ne_bytes(*messages.first_chunk()?) as usize;
    let kind = u16::from_ne_bytes(*messages.get(4..)?.first_chunk()?);
    let payload = messages.get(HEADER..length)?;
    *messages = messages
        .get(length.next_multiple_of(4)..)
        .unwrap_or_default();
    Some((kind, payload))
}

fn read_socket(payload: &[u8]) -> Option<UnixSocket> {
    let mut attributes = payload.get(SOCKET..)?;
    let (mut name, mut user) = (None, None);
    while let Some(length) = attributes.first_chunk() {
        let length = usize::from(u16::from_ne_bytes(*length));
        let kind = u16::from_ne_bytes(*attributes.get(2..)?.first_chunk()?);
        let value = attributes.get(ATTRIBUTE..length)?;
        match kind {
            // An abstract name begins with a zero.
            UNIX_DIAG_NAME => name = value.strip_prefix(&[0]),
            UNIX_DIAG_UID => user = value.first_chunk().map(|user| u32::from_ne_bytes(*user)),
            _ => {}
        }
        attributes = attributes
            .get(length.next_multiple_of(4)..)
            .unwrap_or_default();
    }
    let name = std::str::from_utf8(name?).ok()?;
    name.starts_with(OURS).then(|| UnixSocket {
        name: name.to_owned(),
        user,
    })
}
