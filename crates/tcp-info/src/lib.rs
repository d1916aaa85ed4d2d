//! Driver: what the kernel knows of a TCP connection (`TCP_INFO`), the only way to count its packets and
//! to see its window from outside; and the bound on the window that it advertises (`TCP_WINDOW_CLAMP`).
//!
//! A crate of its own, so that the crates that ask can forbid unsafe code.
#![allow(unsafe_code)]

use std::os::fd::BorrowedFd;
use std::time::Duration;

/// What we read of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpInfo {
    /// Segments sent: retransmissions, bare acknowledgements, SYN and FIN included.
    pub segments_sent: u64,
    /// Segments received.
    pub segments_received: u64,
    /// Payload bytes sent, retransmissions included.
    pub payload_bytes_sent: u64,
    /// Payload bytes received, each counted once.
    pub payload_bytes_received: u64,
    /// Segments sent again.
    pub retransmissions: u64,
    /// Smoothed round-trip time.
    pub srtt: Duration,
    /// Retransmission timeout.
    pub rto: Duration,
    /// Congestion window, bytes.
    pub cwnd_bytes: u64,
    /// Path MTU, bytes.
    pub mtu_bytes: u64,
    /// Whether the peer has acknowledged all that was written. What is written to a connection that has been reset
    /// is not.
    pub is_acknowledged: bool,
}

/// Asks the kernel; `None` where it does not tell.
#[cfg(target_os = "linux")]
pub fn tcp_info(socket: BorrowedFd<'_>) -> Option<TcpInfo> {
    use std::mem::MaybeUninit;
    use std::os::fd::AsRawFd;

    let mut info = MaybeUninit::<libc::tcp_info>::zeroed();
    let mut length = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: the descriptor is open for as long as the borrow lasts; `info` is writable for the `length`
    // bytes that the kernel is told of, and it writes no more than those.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if result != 0 {
        return None;
    }
    // SAFETY: the structure is integers only, for which zeros are valid, and it was zeroed before an older
    // kernel wrote a shorter one into it.
    let info = unsafe { info.assume_init() };
    Some(TcpInfo {
        segments_sent: info.tcpi_segs_out.into(),
        segments_received: info.tcpi_segs_in.into(),
        payload_bytes_sent: info.tcpi_bytes_sent,
        payload_bytes_received: info.tcpi_bytes_received,
        retransmissions: info.tcpi_total_retrans.into(),
        srtt: Duration::from_micros(info.tcpi_rtt.into()),
        rto: Duration::from_micros(info.tcpi_rto.into()),
        cwnd_bytes: u64::from(info.tcpi_snd_cwnd) * u64::from(info.tcpi_snd_mss),
        mtu_bytes: info.tcpi_pmtu.into(),
        // A reset empties the queues.
        is_acknowledged: info.tcpi_unacked == 0
            && info.tcpi_notsent_bytes == 0
            && info.tcpi_state != TCP_CLOSE,
    })
}

/// The state of a socket without a connection, as the kernel's `net/tcp_states.h` has it.
#[cfg(target_os = "linux")]
const TCP_CLOSE: u8 = 7;

/// Other systems have no such question, or another answer.
#[cfg(not(target_os = "linux"))]
pub fn tcp_info(_socket: BorrowedFd<'_>) -> Option<TcpInfo> {
    None
}

/// Bounds the window that a socket advertises, in bytes (`TCP_WINDOW_CLAMP`). Of a listening socket it holds
/// for the connections that it accepts.
///
/// # Errors
///
/// Those of the kernel, or where there is no such option.
#[cfg(target_os = "linux")]
pub fn clamp_window(socket: BorrowedFd<'_>, bytes: u32) -> std::io::Result<()> {
    use std::os::fd::AsRawFd;

    let bytes = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
    // SAFETY: the descriptor is open for as long as the borrow lasts; the kernel reads the one integer whose
    // size it is told.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_WINDOW_CLAMP,
            (&raw const bytes).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(std::io::Error::last_os_error())
    }
}

/// Elsewhere there is no such option.
///
/// # Errors
///
/// Always.
#[cfg(not(target_os = "linux"))]
pub fn clamp_window(_socket: BorrowedFd<'_>, _bytes: u32) -> std::io::Result<()> {
    Err(std::io::ErrorKind::Unsupported.into())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn tells_what_went_over_a_connection() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let mut here = TcpStream::connect(listener.local_addr().expect("bound")).expect("connects");
        let (mut there, _) = listener.accept().expect("accepts");
        here.write_all(&[7; 1000]).expect("writes");
        let mut bytes = [0; 1000];
        there.read_exact(&mut bytes).expect("reads");

        let here = tcp_info(here.as_fd()).expect("a TCP socket");
        let there = tcp_info(there.as_fd()).expect("a TCP socket");
        assert_eq!(here.payload_bytes_sent, 1000);
        assert_eq!(there.payload_bytes_received, 1000);
        assert_eq!(there.payload_bytes_sent, 0);
        assert!(there.is_acknowledged);
        // SYN, the acknowledgement that ends the handshake (kernels count it or not), the data.
        assert!((2..=3).contains(&here.segments_sent), "{here:?}");
        assert!(here.cwnd_bytes > 0 && here.mtu_bytes > 0, "{here:?}");
    }

    #[test]
    fn tells_what_the_peer_has_acknowledged() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let here = TcpStream::connect(listener.local_addr().expect("bound")).expect("connects");
        let (there, _) = listener.accept().expect("accepts");
        let is_acknowledged = || {
            tcp_info(here.as_fd())
                .expect("a TCP socket")
                .is_acknowledged
        };
        (&here).write_all(&[7; 10]).expect("writes");
        let patience = std::time::Instant::now() + Duration::from_secs(10);
        while !is_acknowledged() {
            assert!(std::time::Instant::now() < patience);
        }
        // The reset that this brings is no acknowledgement.
        drop(there);
        let _ = (&here).write_all(&[7; 10]);
        let _ = (&here).read(&mut [0; 1]);
        assert!(!is_acknowledged());
    }

    /// That the bound holds is not looked at: kernels forget it sooner or later, which is why users set it again.
    #[test]
    fn tcp_sockets_have_a_window_to_clamp_and_others_none() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        clamp_window(listener.as_fd(), 8192).expect("a TCP socket");
        let connection =
            TcpStream::connect(listener.local_addr().expect("bound")).expect("connects");
        clamp_window(connection.as_fd(), 8192).expect("a TCP socket");
        let udp = UdpSocket::bind("127.0.0.1:0").expect("a port");
        assert!(clamp_window(udp.as_fd(), 8192).is_err());
    }

    #[test]
    fn a_socket_of_another_kind_has_none() {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
        assert_eq!(tcp_info(socket.as_fd()), None);
    }
}
