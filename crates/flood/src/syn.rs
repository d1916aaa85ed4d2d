//! Forged SYNs against a kernel's TCP listener, to stand beside the floods of INITs.

use crate::carrier::{Forger, SOURCES};
use crate::run::AT_ONCE;
use crate::{Limits, MOST_SECONDS, check_target};
use anyhow::Context;
use etherparse::{TcpHeader, TcpOptionElement};
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha12Rng;
use serde::Serialize;
use std::net::SocketAddrV4;
use std::thread;
use std::time::{Duration, Instant};

/// What is to be done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SynConfig {
    /// The TCP listener.
    pub target: SocketAddrV4,
    /// How much.
    pub limits: Limits,
    /// What makes addresses, ports and sequence numbers.
    pub seed: u64,
}

/// What was done.
#[derive(Clone, Copy, PartialEq, Default, Debug, Serialize)]
pub struct SynReport {
    /// How long it took, in seconds.
    pub seconds: f64,
    /// SYNs that the kernel took.
    pub sent: u64,
    /// Those that it refused, for want of room.
    pub refused: u64,
}

/// Sends SYNs from addresses that are nobody's, in the calling thread and its network namespace, and
/// tells now and then how many have been sent. Nobody listens for the answers. It ends in [`MOST_SECONDS`], however
/// many are left.
///
/// # Errors
///
/// When the target is refused, or a raw socket cannot be had.
pub fn run_syns(config: &SynConfig, mut on_progress: impl FnMut(u64)) -> anyhow::Result<SynReport> {
    let target = config.target;
    check_target((*target.ip()).into())?;
    let mut rng = ChaCha12Rng::seed_from_u64(config.seed);
    let mut forger = Forger::open(*target.ip(), ChaCha12Rng::from_rng(&mut rng))
        .context("forged SYNs need a raw socket")?;
    let mut report = SynReport::default();
    let begin = Instant::now();
    loop {
        let elapsed = begin.elapsed();
        let done = report.sent + report.refused;
        let due = config.limits.due(elapsed).saturating_sub(done);
        // Not all at once after a pause, or the clock is not looked at.
        let now = due.min(AT_ONCE);
        for _ in 0..now {
            let (number, port) = (
                rng.random_range(0..SOURCES),
                rng.random_range(1024..=u16::MAX),
            );
            let from = SocketAddrV4::new(forger.source(number), port);
            let syn = syn(from, target, rng.next_u32())?;
            let taken = forger.send_tcp(*from.ip(), &syn.to_bytes());
            *(if taken {
                &mut report.sent
            } else {
                &mut report.refused
            }) += 1;
        }
        on_progress(report.sent);
        let is_late = elapsed >= Duration::from_secs(MOST_SECONDS);
        if done + now >= config.limits.count() || is_late {
            report.seconds = begin.elapsed().as_secs_f64();
            return Ok(report);
        }
        if now == due {
            thread::sleep(TICK);
        }
    }
}

/// How often SYNs are sent that have become due.
const TICK: Duration = Duration::from_millis(1);

/// A SYN (RFC 9293 section 3.1) as hosts send it, with the largest segment of an Ethernet (section
/// 3.7.1) for its only option.
fn syn(from: SocketAddrV4, to: SocketAddrV4, sequence: u32) -> anyhow::Result<TcpHeader> {
    let window = u16::MAX;
    let mut header = TcpHeader::new(from.port(), to.port(), sequence, window);
    header.syn = true;
    header.set_options(&[TcpOptionElement::MaximumSegmentSize(LARGEST_SEGMENT)])?;
    let [source, destination] = [from, to].map(|address| address.ip().octets());
    header.checksum = header.calc_checksum_ipv4_raw(source, destination, &[])?;
    Ok(header)
}

/// What an Ethernet carries, without the headers of IP and TCP.
const LARGEST_SEGMENT: u16 = 1460;

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::checksum::Sum16BitWords;
    use proptest::prelude::*;
    use std::net::Ipv4Addr;

    /// As a receiver checks it (RFC 9293 section 3.1): with its checksum in it the sum is all ones.
    fn is_whole(from: SocketAddrV4, to: SocketAddrV4, segment: &[u8]) -> bool {
        let mut sum = Sum16BitWords::new().add_slice(segment);
        for address in [from, to] {
            sum = sum.add_4bytes(address.ip().octets());
        }
        let sum = sum.add_4bytes([0, 6, 0, segment.len() as u8]);
        sum.ones_complement() == 0
    }

    fn syn(from: SocketAddrV4, to: SocketAddrV4, sequence: u32) -> Vec<u8> {
        let header = super::syn(from, to, sequence).expect("a header");
        header.to_bytes().to_vec()
    }

    #[test]
    fn a_syn_is_as_the_rfc_has_it() {
        let from = SocketAddrV4::new(Ipv4Addr::new(198, 18, 1, 2), 5000);
        let to = SocketAddrV4::new(Ipv4Addr::new(10, 3, 0, 2), 80);
        let segment = syn(from, to, 0x0102_0304);
        assert_eq!(segment[..4], [0x13, 0x88, 0, 80]);
        assert_eq!(segment[4..12], [1, 2, 3, 4, 0, 0, 0, 0]);
        assert_eq!(segment[12..16], [0x60, 2, 0xff, 0xff]);
        assert_eq!(segment[18..], [0, 0, 2, 4, 5, 0xb4]);
        // 198.18 + 1.2 + 10.3 + 0.2 + 6 + 24 + the words of the segment.
        let sum = 0xc612 + 0x0102 + 0x0a03 + 0x0002 + 6 + 24;
        let sum = sum + 0x1388 + 80 + 0x0102 + 0x0304 + 0x6002 + 0xffff + 0x0204 + 0x05b4;
        let expected = !((sum & 0xffff) + (sum >> 16)) as u16;
        assert_eq!(segment[16..18], expected.to_be_bytes());
    }

    proptest! {
        #[test]
        fn its_checksum_holds_and_tells_what_was_altered(
            source: u32, port: u16, sequence: u32, bit in 0..24_usize * 8,
        ) {
            let from = SocketAddrV4::new(source.into(), port);
            let to = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 80);
            let mut segment = syn(from, to, sequence);
            prop_assert!(is_whole(from, to, &segment));
            segment[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(!is_whole(from, to, &segment));
        }
    }

    #[test]
    fn strangers_are_refused_before_anything_is_sent() {
        let config = SynConfig {
            target: SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 1), 80),
            limits: Limits::default(),
            seed: 1,
        };
        let error = run_syns(&config, |_| panic!("something was sent")).unwrap_err();
        assert!(error.to_string().contains("192.0.2.1"), "{error}");
    }
}
