//! What a proxy is told when it is made.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use sip::transaction::TransactionConfig;

use super::identity::{Domain, Listener};
use super::keys::Keys;
use super::policy::Policy;
use super::query::QueryLimits;
use super::registrar::registration::RegistrarConfig;
use crate::HostPort;

/// What a proxy is told when it is made.
#[derive(Clone, Debug)]
pub struct Config {
    /// The addresses that the driver listens on, with their real ports.
    pub listeners: Vec<Listener>,
    /// What goes into Via and Record-Route in place of the listener's address; without a port the
    /// listener's port stays.
    pub advertise: Option<HostPort>,
    /// The addresses of this host: those that a wildcard listener stands for.
    pub local_addresses: Vec<IpAddr>,
    /// The domains that the registrar and proxy are responsible for.
    pub domains: Vec<Domain>,
    /// The timers of transactions and the bound on their number.
    pub transactions: TransactionConfig,
    /// The registrar's settings.
    pub registrar: RegistrarConfig,
    /// The bounds on questions.
    pub queries: QueryLimits,
    /// How long a forwarded INVITE may go without a final response after its last provisional one;
    /// more than three minutes (Timer C, RFC 3261 section 16.6 step 11).
    pub timer_c: Duration,
    /// The largest request, in octets, that goes over UDP where TCP is there too: 1,300, or 200 less
    /// than the path MTU where that is known (RFC 3261 section 18.1.1). What goes along a flow goes
    /// there whatever its size: whoever is at its other end has chosen it.
    pub maximum_datagram: usize,
    /// How many octets of messages are held by the requests that are being forwarded or wait for an
    /// answer: each request, its copies, and the responses kept. A request beyond it is answered 503.
    /// What the transactions keep to retransmit is not counted; their number is bounded.
    pub maximum_held_octets: usize,
    /// How many events wait to be taken; those that come when so many do are dropped.
    pub maximum_events: usize,
    /// What can be changed at run time, as it is at first.
    pub policy: Arc<Policy>,
    /// What is signed with them has to be known again by all workers of a server, and after a restart.
    /// `None` draws them from the generator.
    pub keys: Option<Keys>,
    /// Tells this process from earlier ones with the same keys. The same in all workers.
    pub incarnation: u32,
    /// Whether those whom we connect to over TLS are told that they may send us requests by the same connection
    /// (RFC 5923): where we show them a certificate, and it is that of the only domain that we are responsible
    /// for. A connection must not serve several (section 9.3).
    pub offers_aliases: bool,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            listeners: Vec::new(),
            advertise: None,
            local_addresses: Vec::new(),
            domains: Vec::new(),
            transactions: TransactionConfig::default(),
            registrar: RegistrarConfig::default(),
            queries: QueryLimits::default(),
            timer_c: Duration::from_secs(185),
            maximum_datagram: 1300,
            maximum_held_octets: 256 << 20,
            maximum_events: 10_000,
            policy: Arc::default(),
            keys: None,
            incarnation: 0,
            offers_aliases: false,
        }
    }
}
