//! Sending many datagrams in one call to the kernel: sendmmsg(2).
#![allow(unsafe_code)]

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::RawFd;

use super::{DatagramSlice, PLAIN_BATCH};
use crate::header::header;
use crate::name::Name;

/// Sends as many of the slices as one call takes, and tells how many.
pub(super) fn send_slices(
    socket: RawFd,
    octets: &[u8],
    slices: &[DatagramSlice],
) -> io::Result<usize> {
    let mut vectors = [const { MaybeUninit::<libc::iovec>::uninit() }; PLAIN_BATCH];
    let mut names = [const { MaybeUninit::<Name>::uninit() }; PLAIN_BATCH];
    let mut headers = [const { MaybeUninit::<libc::mmsghdr>::uninit() }; PLAIN_BATCH];
    let slices = &slices[..slices.len().min(PLAIN_BATCH)];
    for (index, slice) in slices.iter().enumerate() {
        let payload = &octets[slice.start..slice.start + slice.length];
        let vector = vectors[index].write(libc::iovec {
            iov_base: payload.as_ptr().cast_mut().cast(),
            iov_len: payload.len(),
        });
        let (name, length) = Name::of(slice.destination);
        let name = names[index].write(name);
        let header = headers[index].write(header(&raw mut *name, vector, 1));
        header.msg_hdr.msg_namelen = length;
    }
    // SAFETY: the caller's descriptor is open. As many headers have been written as there are slices. Each points to a
    // name of the length it gives and to one vector, and by that to octets of the buffer; all of them live until the call
    // returns. The kernel only reads them, and writes the lengths sent into the headers, which are ours.
    let sent = unsafe {
        libc::sendmmsg(
            socket,
            headers.as_mut_ptr().cast(),
            slices.len() as libc::c_uint,
            libc::MSG_DONTWAIT,
        )
    };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}
