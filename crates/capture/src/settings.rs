//! What a reader is told before it begins.

use ahash::RandomState;

use crate::filter::Filter;
use crate::tls::KeyLog;

/// How a capture file is to be read.
#[derive(Clone, Debug)]
pub struct Settings {
    /// A random number, so that nobody can prepare a capture whose addresses all fall into one place of a
    /// table. It changes nothing that is seen.
    pub seed: u64,
    /// UDP ports where SCTP is expected (RFC 6951): by default 9899. On other ports an SCTP packet is known
    /// by its checksum, when the capture has all of it.
    pub sctp_udp_ports: Vec<u16>,
    /// The secrets of TLS connections; those that a pcapng file brings are added.
    pub keys: KeyLog,
    /// Which IP packets are looked into, once they are put together from their fragments; `None`: all.
    pub filter: Option<Filter>,
    /// How much may wait for its other parts.
    pub limits: Limits,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            seed: 0,
            sctp_udp_ports: vec![9899],
            keys: KeyLog::default(),
            filter: None,
            limits: Limits::default(),
        }
    }
}

/// How much may wait for its other parts. Where a bound is reached, what nobody added to for the longest
/// time is left out, and that is told.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// IP packets of which not all fragments have been seen.
    pub fragmented_packets: usize,
    /// Octets of those fragments.
    pub fragment_octets: usize,
    /// TCP connections.
    pub connections: usize,
    /// Octets of TCP connections that wait for those before them, or for the rest of a message.
    pub connection_octets: usize,
    /// Directions of SCTP associations.
    pub associations: usize,
    /// Octets of fragments of user messages.
    pub user_message_octets: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            fragmented_packets: 4096,
            fragment_octets: 8 << 20,
            connections: 65_536,
            connection_octets: 32 << 20,
            associations: 65_536,
            user_message_octets: 16 << 20,
        }
    }
}

impl Settings {
    /// How the keys of tables are hashed.
    pub(crate) fn hasher(&self) -> RandomState {
        RandomState::with_seeds(self.seed, !self.seed, SEED_2, SEED_3)
    }
}

/// Digits of pi: anything but zero.
const SEED_2: u64 = 0x243f_6a88_85a3_08d3;
const SEED_3: u64 = 0x1319_8a2e_0370_7344;
