//! Sending in trains: datagrams of one length to one destination, as one through the kernel.

use std::io;
use std::mem::MaybeUninit;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::RawFd;

use super::{PLAIN_BATCH, Piece};
use crate::header::{CONTROL_BYTES, Control, header};
use crate::name::Name;
use crate::trains::{Car, train};

/// How many datagrams one call writes at most.
const PIECES: usize = 256;

impl Car for Piece {
    fn destination(&self) -> SocketAddr {
        self.destination
    }

    fn source_ip(&self) -> Option<IpAddr> {
        None
    }

    fn octets(&self) -> usize {
        self.length
    }
}

/// Sends as many of the pieces as one call takes, in trains of datagrams that are at most so long, and tells how many.
pub(super) fn send_trains(
    socket: RawFd,
    octets: &[u8],
    pieces: &[Piece],
    longest: usize,
) -> io::Result<usize> {
    let mut vectors = [const { MaybeUninit::<libc::iovec>::uninit() }; PIECES];
    let mut names = [const { MaybeUninit::<Name>::uninit() }; PLAIN_BATCH];
    let mut headers = [const { MaybeUninit::<libc::mmsghdr>::uninit() }; PLAIN_BATCH];
    let mut controls = [const { MaybeUninit::<Control>::uninit() }; PLAIN_BATCH];
    let mut lengths = [0; PLAIN_BATCH];
    let mut rest = &pieces[..pieces.len().min(PIECES)];
    let (mut filled, mut trains) = (0, 0);
    while trains < PLAIN_BATCH && !rest.is_empty() {
        let (cars, behind) = rest.split_at(train(rest, longest));
        rest = behind;
        let room = &mut vectors[filled..filled + cars.len()];
        for (vector, piece) in room.iter_mut().zip(cars) {
            let payload = &octets[piece.start..piece.start + piece.length];
            vector.write(libc::iovec {
                iov_base: payload.as_ptr().cast_mut().cast(),
                iov_len: payload.len(),
            });
        }
        let (name, length) = Name::of(cars[0].destination);
        let name = names[trains].write(name);
        let header =
            headers[trains].write(header(&raw mut *name, room.as_mut_ptr().cast(), cars.len()));
        header.msg_hdr.msg_namelen = length;
        if cars.len() > 1 {
            let control = controls[trains].write(Control([0; CONTROL_BYTES]));
            header.msg_hdr.msg_control = (&raw mut *control).cast();
            header.msg_hdr.msg_controllen = CONTROL_BYTES;
            // At most LONGEST_IN_TRAIN.
            let segment = cars[0].length as u16;
            // SAFETY: the header has a control room of CONTROL_BYTES, aligned and zeroed, which is ours and has room
            // for a header and an integer of two octets.
            unsafe {
                let message = libc::CMSG_FIRSTHDR(&raw const header.msg_hdr);
                (*message).cmsg_level = libc::SOL_UDP;
                (*message).cmsg_type = libc::UDP_SEGMENT;
                (*message).cmsg_len = libc::CMSG_LEN(size_of::<u16>() as libc::c_uint) as usize;
                libc::CMSG_DATA(message)
                    .cast::<u16>()
                    .write_unaligned(segment);
            }
            // SAFETY: it computes, and touches nothing.
            header.msg_hdr.msg_controllen =
                unsafe { libc::CMSG_SPACE(size_of::<u16>() as libc::c_uint) } as usize;
        }
        filled += cars.len();
        lengths[trains] = cars.len();
        trains += 1;
    }
    // SAFETY: the caller's descriptor is open. As many headers have been written as there are trains. Each points to a
    // name of the length it gives, to as many vectors as it gives, by these to octets of the buffer, and to a control
    // message where it gives a length of one; all of them live until the call returns. The kernel only reads them, and
    // writes the lengths sent into the headers, which are ours.
    let sent = unsafe {
        libc::sendmmsg(
            socket,
            headers.as_mut_ptr().cast(),
            trains as libc::c_uint,
            libc::MSG_DONTWAIT,
        )
    };
    let sent = usize::try_from(sent).map_err(|_| io::Error::last_os_error())?;
    Ok(lengths.iter().take(sent).sum())
}
