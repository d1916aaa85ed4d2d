//! The settings of an endpoint: the protocol parameters of RFC 9260 section 16 by their names, and
//! the bounds on everything that a peer can make us hold.

use std::time::Duration;

/// Settings of an endpoint; they hold for every association of it.
///
/// [`Default`] gives the values that RFC 9260 section 16 recommends.
#[derive(Debug, Clone, PartialEq)]
pub struct EndpointConfig {
    /// RTO.Initial: the retransmission timeout of a path before its first measurement.
    pub rto_initial: Duration,
    /// RTO.Min: the least retransmission timeout.
    pub rto_min: Duration,
    /// RTO.Max: the greatest retransmission timeout.
    pub rto_max: Duration,
    /// Max.Burst: how many packets with new data may leave at one opportunity (section 6.1).
    pub max_burst: u32,
    /// RTO.Alpha: the weight of a new measurement in SRTT (section 6.3.1).
    pub rto_alpha: f64,
    /// RTO.Beta: the weight of a new deviation in RTTVAR (section 6.3.1).
    pub rto_beta: f64,
    /// Valid.Cookie.Life: how long a State Cookie that we gave out is accepted.
    pub valid_cookie_life: Duration,
    /// Association.Max.Retrans: consecutive errors of the peer before the association is given up.
    pub association_max_retrans: u32,
    /// Path.Max.Retrans: consecutive errors of one path before it is inactive.
    pub path_max_retrans: u32,
    /// Max.Init.Retransmits: how often INIT or COOKIE ECHO is sent again before giving up.
    pub max_init_retransmits: u32,
    /// HB.interval: added to the RTO between HEARTBEATs on an idle path; zero switches them off.
    pub hb_interval: Duration,
    /// HB.Max.Burst: HEARTBEATs that may leave at one time.
    pub hb_max_burst: u32,
    /// SACK.Delay: the longest delay of an acknowledgement; at most 500 ms (section 6.2).
    pub sack_delay: Duration,
    /// Acknowledge at the latest every so many packets with DATA (section 6.2: two).
    pub sack_frequency: u32,

    /// Bytes of received user data that an association holds: the window that it advertises.
    /// At least 1500 (section 3.3.2).
    pub a_rwnd: u32,
    /// Bytes of user messages that an association holds until they are acknowledged.
    pub send_buffer: usize,
    /// Outbound streams that we ask for (section 5.1.1); at least 1.
    pub outbound_streams: u16,
    /// Inbound streams that we allow the peer (section 5.1.1); at least 1.
    pub max_inbound_streams: u16,
    /// The largest IP packet, headers included, that a path is taken to carry, in bytes.
    pub mtu: usize,
    /// Send small messages at once (true), or hold them back while data is in flight so that they
    /// can be bundled (section 6.1; Nagle's algorithm).
    pub nodelay: bool,

    /// The largest user message, in bytes, in either direction. A peer's larger one is answered
    /// with ABORT, because it could never be delivered.
    pub max_message_size: usize,
    /// Associations of this endpoint, in any state. Above it a COOKIE ECHO is dropped and
    /// `connect` refuses.
    pub max_associations: usize,
}

impl Default for EndpointConfig {
    fn default() -> Self {
        EndpointConfig {
            rto_initial: Duration::from_secs(1),
            rto_min: Duration::from_secs(1),
            rto_max: Duration::from_secs(60),
            max_burst: 4,
            rto_alpha: 1.0 / 8.0,
            rto_beta: 1.0 / 4.0,
            valid_cookie_life: Duration::from_secs(60),
            association_max_retrans: 10,
            path_max_retrans: 5,
            max_init_retransmits: 8,
            hb_interval: Duration::from_secs(30),
            hb_max_burst: 1,
            sack_delay: Duration::from_millis(200),
            sack_frequency: 2,
            a_rwnd: 1 << 20,
            send_buffer: 1 << 20,
            outbound_streams: 10,
            max_inbound_streams: 2048,
            mtu: 1500,
            nodelay: true,
            max_message_size: 1 << 18,
            max_associations: 1 << 20,
        }
    }
}
