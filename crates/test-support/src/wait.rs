//! Small helpers: free ports, waiting for a condition.

use std::net::{IpAddr, Ipv4Addr, TcpListener, UdpSocket};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// The first port that [`free_udp_port`] gives. The kernel gives ports from 32768 on to those who ask for any: no
/// other test takes one of these meanwhile.
const FIRST: u16 = 20_000;

/// So many ports apart: SIPp and RTP take some behind the one that they are told.
const STEP: u16 = 8;

/// How many there are.
const PORTS: u32 = 1_500;

/// How many of them a test has for itself that runs beside others.
const PORTS_OF_TEST: u32 = 60;

/// A port that was free for UDP and for TCP, on every IPv4 address, at the moment of asking, and that this
/// process is given once. For programs that cannot take port 0.
///
/// # Panics
///
/// When no such port is found.
pub fn free_udp_port() -> u16 {
    static GIVEN: AtomicU32 = AtomicU32::new(0);

    let any = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
    (0..PORTS)
        .find_map(|_| {
            let given = GIVEN.fetch_add(1, Ordering::Relaxed);
            let port = FIRST + STEP * numbered(given) as u16;
            let _udp = UdpSocket::bind((any, port)).ok()?;
            TcpListener::bind((any, port)).ok()?;
            Some(port)
        })
        .expect("a port that is free for UDP and TCP")
}

/// The place of a port among all: other processes that run meanwhile try others first.
fn numbered(given: u32) -> u32 {
    /// Test programs that are not nextest's begin so far from each other.
    const APART: u32 = 97;

    // Of the tests that run at the same time each has a slot of its own.
    let slot = std::env::var("NEXTEST_TEST_GLOBAL_SLOT");
    match slot.ok().and_then(|slot| slot.parse::<u32>().ok()) {
        Some(slot) if given < PORTS_OF_TEST => {
            // Not at once those that the slot's last test had, whose programs may still be ending.
            let turned = process::id().wrapping_mul(7).wrapping_add(given) % PORTS_OF_TEST;
            slot.wrapping_mul(PORTS_OF_TEST).wrapping_add(turned) % PORTS
        }
        _ => process::id().wrapping_mul(APART).wrapping_add(given) % PORTS,
    }
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
        assert_ne!(free_udp_port(), port);
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
