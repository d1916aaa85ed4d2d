//! Many datagrams, or trains of them, in one call to the kernel: recvmmsg(2).
#![allow(unsafe_code)]

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::header::{Ancillary, CONTROL_BYTES, Control, header};
use crate::name::Name;

/// What has come into a slot.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Arrival {
    /// How many octets.
    pub(crate) length: usize,
    /// What the kernel tells beside.
    pub(crate) ancillary: Ancillary,
}

/// Reads what has come without waiting, at most `N` datagrams or trains: each into a slot, its source into the name of the
/// same place, what else is known of it into `arrivals`. Tells how many there were.
///
/// # Errors
///
/// The kernel's; `WouldBlock` where nothing has come.
pub(crate) fn receive_many<'a, const N: usize>(
    socket: BorrowedFd<'_>,
    slots: impl Iterator<Item = &'a mut [u8]>,
    names: &mut [Name],
    arrivals: &mut [Arrival; N],
) -> io::Result<usize> {
    let mut vectors = [const { MaybeUninit::<libc::iovec>::uninit() }; N];
    let mut headers = [const { MaybeUninit::<libc::mmsghdr>::uninit() }; N];
    let mut controls = [const { MaybeUninit::<Control>::uninit() }; N];
    let mut rooms = 0;
    for ((slot, name), (index, vector)) in slots.zip(names).zip(vectors.iter_mut().enumerate()) {
        let vector = vector.write(libc::iovec {
            iov_base: slot.as_mut_ptr().cast(),
            iov_len: slot.len(),
        });
        let header = headers[index].write(header(&raw mut *name, vector, 1));
        header.msg_hdr.msg_control = controls[index].as_mut_ptr().cast();
        header.msg_hdr.msg_controllen = CONTROL_BYTES;
        rooms += 1;
    }
    let received = loop {
        // SAFETY: the descriptor is borrowed and so open. The first `rooms` headers have been written. Each points to
        // a name of NAME_BYTES, to a control room of CONTROL_BYTES, to one vector and by that to a slot of the length it
        // gives. All of them are different ones, which live until the call returns and are touched by nobody else during
        // it.
        let received = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                headers.as_mut_ptr().cast(),
                rooms,
                libc::MSG_DONTWAIT,
                std::ptr::null_mut(),
            )
        };
        match usize::try_from(received) {
            Ok(received) => break received,
            Err(_) => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    };
    for (arrival, header) in arrivals.iter_mut().zip(&headers).take(received) {
        // SAFETY: the kernel has filled in as many headers as it says, the first of those written above.
        let header = unsafe { header.assume_init_ref() };
        *arrival = Arrival {
            length: header.msg_len as usize,
            // SAFETY: the kernel has filled in this header, and its control room is alive.
            ancillary: unsafe { Ancillary::of(&header.msg_hdr) },
        };
    }
    Ok(received)
}
