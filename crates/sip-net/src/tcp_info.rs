//! What the kernel knows about a TCP connection: the only way to count its packets from outside.
#![allow(unsafe_code)]

use std::ops::AddAssign;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Packets and bytes of TCP connections, as their kernel counted them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TcpCounts {
    /// Segments sent, retransmissions, bare acknowledgements, SYN and FIN included.
    pub(crate) segments_sent: u64,
    /// Segments received.
    pub(crate) segments_received: u64,
    /// Payload bytes sent, retransmissions included.
    pub(crate) payload_bytes_sent: u64,
    /// Payload bytes received, each counted once.
    pub(crate) payload_bytes_received: u64,
    /// Segments retransmitted.
    pub(crate) retransmissions: u64,
}

impl AddAssign for TcpCounts {
    fn add_assign(&mut self, other: TcpCounts) {
        self.segments_sent += other.segments_sent;
        self.segments_received += other.segments_received;
        self.payload_bytes_sent += other.payload_bytes_sent;
        self.payload_bytes_received += other.payload_bytes_received;
        self.retransmissions += other.retransmissions;
    }
}

/// Asks the kernel for the counts of one TCP socket; `None` where it does not tell.
#[cfg(target_os = "linux")]
pub(crate) fn tcp_counts(socket: BorrowedFd<'_>) -> Option<TcpCounts> {
    let mut info = std::mem::MaybeUninit::<libc::tcp_info>::zeroed();
    let mut length = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: `socket` is an open descriptor for as long as the borrow lasts; `info` is writable
    // for the `length` bytes that the kernel is told of, and it writes no more than those.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &mut length,
        )
    };
    if result != 0 {
        return None;
    }
    // SAFETY: the structure is integers only, for which zeros are valid, and was zeroed before an
    // older kernel wrote a shorter one into it.
    let info = unsafe { info.assume_init() };
    Some(TcpCounts {
        segments_sent: info.tcpi_segs_out.into(),
        segments_received: info.tcpi_segs_in.into(),
        payload_bytes_sent: info.tcpi_bytes_sent,
        payload_bytes_received: info.tcpi_bytes_received,
        retransmissions: info.tcpi_total_retrans.into(),
    })
}

/// Other systems have no such question, or another answer.
#[cfg(not(target_os = "linux"))]
pub(crate) fn tcp_counts(_socket: BorrowedFd<'_>) -> Option<TcpCounts> {
    None
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn counts_what_went_over_a_connection() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let mut here = TcpStream::connect(listener.local_addr().expect("bound")).expect("connects");
        let (mut there, _) = listener.accept().expect("accepts");
        here.write_all(&[7; 1000]).expect("writes");
        let mut bytes = [0; 1000];
        there.read_exact(&mut bytes).expect("reads");

        let here = tcp_counts(here.as_fd()).expect("a TCP socket");
        let there = tcp_counts(there.as_fd()).expect("a TCP socket");
        assert_eq!(here.payload_bytes_sent, 1000);
        assert_eq!(there.payload_bytes_received, 1000);
        assert_eq!(there.payload_bytes_sent, 0);
        // SYN, the acknowledgement that ends the handshake (kernels count it or not), the data.
        assert!((2..=3).contains(&here.segments_sent), "{here:?}");
    }

    #[test]
    fn a_socket_of_another_kind_has_no_counts() {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
        assert_eq!(tcp_counts(socket.as_fd()), None);
    }
}
