//! What the kernel knows of a TCP connection (`TCP_INFO`).
#![allow(unsafe_code)]

use std::mem::{self, MaybeUninit};
use std::os::fd::{AsRawFd, BorrowedFd};

/// What we read of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TcpInfo {
    /// Segments sent again.
    pub(crate) retransmissions: u64,
    /// Smoothed round-trip time, microseconds.
    pub(crate) srtt_us: u64,
    /// Retransmission timeout, microseconds.
    pub(crate) rto_us: u64,
    /// Congestion window, bytes.
    pub(crate) cwnd_bytes: u64,
    /// Path MTU, bytes.
    pub(crate) mtu_bytes: u64,
}

/// Asks the kernel; `None` where it does not tell.
pub(crate) fn tcp_info(socket: BorrowedFd<'_>) -> Option<TcpInfo> {
    let mut info = MaybeUninit::<libc::tcp_info>::zeroed();
    let mut length = mem::size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: the pointer leads to `length` bytes of ours, to which the kernel writes at most `length`;
    // the descriptor is open while it is borrowed.
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
    // SAFETY: the structure is plain integers, for which all zeros is a value, and it was zeroed; an older
    // kernel writes less of it.
    let info = unsafe { info.assume_init() };
    Some(TcpInfo {
        retransmissions: info.tcpi_total_retrans.into(),
        srtt_us: info.tcpi_rtt.into(),
        rto_us: info.tcpi_rto.into(),
        cwnd_bytes: u64::from(info.tcpi_snd_cwnd) * u64::from(info.tcpi_snd_mss),
        mtu_bytes: info.tcpi_pmtu.into(),
    })
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn a_connection_has_a_window_and_another_socket_has_no_info() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        if let Some(info) = tcp_info(stream.as_fd()) {
            assert!(info.cwnd_bytes > 0, "{info:?}");
            assert_eq!(info.retransmissions, 0);
        }
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        assert_eq!(tcp_info(udp.as_fd()), None);
    }
}
