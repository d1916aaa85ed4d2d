//! A network emulator: hosts outside, routers and links in here.
//!
//! [`Network`] is a core: it is fed packets and the time and does no I/O. It behaves as IP routers with links
//! between them do: time to live, ICMP errors, fragments, the longest prefix. Each direction of a link is a
//! [`link::Link`]; [`Rule`]s treat certain packets otherwise.
//!
//! [`Emulator`] is the driver: it runs a network in a thread of its own between [`Device`]s, which are TUN devices in the
//! network namespaces of the hosts, or packet sockets on real interfaces. The thread waits with epoll, whose timeouts are in
//! nanoseconds here. A change from outside is a closure that the thread runs between two packets, so that the core has no locks.
#![deny(unsafe_code)]

mod change_error;
mod config;
mod driver;
mod ip;
mod network;
mod protocol;
mod rule;
mod statistics;

pub use change_error::ChangeError;
pub use config::{
    ConfigError, End, Framing, GREATEST_MTU, LEAST_MTU, Limits, LinkBetween, NetworkConfig,
    StaticRoute,
};
pub use driver::{Device, DriverConfig, Emulator, go_first, switch_off_offloads};
pub use ipnet::IpNet;
pub use network::{Direction, HostInterface, InterfaceId, Network, Transmit};
pub use protocol::{NoProtocol, Protocol};
pub use rule::{Rule, RuleId};
pub use statistics::{
    LineSnapshot, LinkSnapshot, RouterSnapshot, RouterStatistics, RuleSnapshot, Snapshot,
};
