//! Small helpers: free ports, waiting for a condition.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::time::{Duration, Instant};

/// A port that is free for UDP and for TCP, on every address, at the moment of asking. For
/// programs that cannot take port 0: another program may still take it first.
///
/// # Panics
///
/// When no such port is found.
pub fn free_udp_port() -> u16 {
    let any = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
    (0..100)
        .find_map(|_| {
            let socket = UdpSocket::bind((any, 0)).ok()?;
            let port = socket.local_addr().ok()?.port();
            TcpListener::bind(SocketAddr::new(any, port)).ok()?;
            Some(port)
        })
        .expect("a port that is free for UDP and TCP")
}

/// Asks `condition` every few milliseconds until it is true; false when `limit` passes first.
/// Blocks the thread.
pub fn wait_until(limit: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + limit;
    loop {
        if condition() {
            return true;
        }
        if Instant::now() >= end {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_free_port_can_be_bound() {
        let port = free_udp_port();
        UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port)).unwrap();
    }

    #[test]
    fn waiting_ends_with_the_condition_or_with_the_time() {
        let mut asked = 0;
        assert!(wait_until(Duration::from_secs(10), || {
            asked += 1;
            asked == 3
        }));
        assert!(!wait_until(Duration::from_millis(20), || false));
    }
}
