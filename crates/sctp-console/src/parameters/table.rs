//! The protocol parameters: their names, where they are described, what they mean, and what they take.

use std::time::Duration;

use super::value::Field;
use super::words;

/// A protocol parameter that can be set by its name.
#[derive(Debug)]
pub struct Parameter {
    /// How it is called in `name=value`: the RFC's name, in small letters.
    pub name: &'static str,
    /// What it is for.
    pub meaning: &'static str,
    /// The document and section that it comes from; nothing where it is ours alone.
    pub section: &'static str,
    pub(super) field: Field,
}

const MILLISECOND: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(24 * 3600);

/// Every parameter, in the order in which they are told.
pub const PARAMETERS: &[Parameter] = &[
    Parameter {
        name: "loss_detection",
        meaning: "how losses are found before T3-rtx expires: gap-reports or rack-tlp",
        section: "RFC 9260 7.2.4, RFC 8985",
        field: Field::Words(words::LOSS_DETECTION),
    },
    Parameter {
        name: "early_retransmit",
        meaning: "fewer gap reports are enough where fewer than four chunks are outstanding",
        section: "RFC 5827",
        field: Field::Flag(|config| &mut config.association.recovery.early_retransmit),
    },
    Parameter {
        name: "prr",
        meaning: "with rack-tlp, the flight goes down to the new window evenly",
        section: "RFC 6937",
        field: Field::Flag(|config| &mut config.association.recovery.prr),
    },
    Parameter {
        name: "f_rto",
        meaning: "whether a timeout that was for nothing is undone",
        section: "RFC 5682",
        field: Field::Flag(|config| &mut config.association.recovery.f_rto),
    },
    Parameter {
        name: "rto_restart",
        meaning: "with little in flight, T3-rtx counts from when the earliest chunk was sent",
        section: "RFC 7765",
        field: Field::Flag(|config| &mut config.association.recovery.rto_restart),
    },
    Parameter {
        name: "thin_linear_timeouts",
        meaning: "with little in flight, six timeouts in a row are equally long",
        section: "",
        field: Field::Flag(|config| &mut config.association.recovery.thin_linear_timeouts),
    },
    Parameter {
        name: "thin_alternate_path",
        meaning: "with little in flight, retransmissions take another path",
        section: "RFC 9260 6.4",
        field: Field::Flag(|config| &mut config.association.recovery.thin_alternate_path),
    },
    Parameter {
        name: "rto_initial",
        meaning: "retransmission timeout of a path before its first measurement (RTO.Initial)",
        section: "RFC 9260 6.3.1, 16",
        field: Field::Time(
            |config| &mut config.association.path.rto_initial,
            MILLISECOND..=DAY,
        ),
    },
    Parameter {
        name: "rto_min",
        meaning: "minimum retransmission timeout (RTO.Min)",
        section: "RFC 9260 6.3.1, 16",
        field: Field::Time(
            |config| &mut config.association.path.rto_min,
            MILLISECOND..=DAY,
        ),
    },
    Parameter {
        name: "rto_max",
        meaning: "maximum retransmission timeout (RTO.Max)",
        section: "RFC 9260 6.3.1, 16",
        field: Field::Time(
            |config| &mut config.association.path.rto_max,
            MILLISECOND..=DAY,
        ),
    },
    Parameter {
        name: "rto_alpha",
        meaning: "weight of a new measurement in the smoothed round-trip time (RTO.Alpha)",
        section: "RFC 9260 6.3.1, 16",
        field: Field::Weight(|config| &mut config.association.path.rto_alpha),
    },
    Parameter {
        name: "rto_beta",
        meaning: "weight of a new measurement in the variation of the round-trip time (RTO.Beta)",
        section: "RFC 9260 6.3.1, 16",
        field: Field::Weight(|config| &mut config.association.path.rto_beta),
    },
    Parameter {
        name: "max_burst",
        meaning: "packets with new data that may be sent at one opportunity (Max.Burst)",
        section: "RFC 9260 6.1, 16",
        field: Field::Number(|config| &mut config.association.max_burst, 1..=u32::MAX),
    },
    Parameter {
        name: "valid_cookie_life",
        meaning: "how long a State Cookie is accepted (Valid.Cookie.Life)",
        section: "RFC 9260 5.1.3, 16",
        field: Field::Time(|config| &mut config.valid_cookie_life, MILLISECOND..=DAY),
    },
    Parameter {
        name: "association_max_retrans",
        meaning: "consecutive errors of the peer before the association is lost (Association.Max.Retrans)",
        section: "RFC 9260 8.1, 16",
        field: Field::Number(
            |config| &mut config.association.association_max_retrans,
            0..=u32::MAX,
        ),
    },
    Parameter {
        name: "path_max_retrans",
        meaning: "consecutive errors of a path before it is inactive (Path.Max.Retrans)",
        section: "RFC 9260 8.2, 16",
        field: Field::Number(
            |config| &mut config.association.path.path_max_retrans,
            0..=u32::MAX,
        ),
    },
    Parameter {
        name: "max_init_retransmits",
        meaning: "retransmissions of INIT or COOKIE ECHO (Max.Init.Retransmits)",
        section: "RFC 9260 5.1, 16",
        field: Field::Number(
            |config| &mut config.association.max_init_retransmits,
            0..=u32::MAX,
        ),
    },
    Parameter {
        name: "heartbeats",
        meaning: "whether HEARTBEATs monitor idle paths",
        section: "RFC 9260 8.3",
        field: Field::Flag(|config| &mut config.association.path.heartbeats),
    },
    Parameter {
        name: "hb_interval",
        meaning: "time between HEARTBEATs on an idle path, to which its RTO is added (HB.interval)",
        section: "RFC 9260 8.3, 16",
        field: Field::Time(
            |config| &mut config.association.path.hb_interval,
            Duration::ZERO..=DAY,
        ),
    },
    Parameter {
        name: "hb_max_burst",
        meaning: "HEARTBEATs that may be sent at one time (HB.Max.Burst)",
        section: "RFC 9260 5.4, 16",
        field: Field::Number(|config| &mut config.association.hb_max_burst, 1..=u32::MAX),
    },
    Parameter {
        name: "sack_delay",
        meaning: "longest delay of an acknowledgement (SACK.Delay)",
        section: "RFC 9260 6.2, 16",
        field: Field::Time(
            |config| &mut config.association.sack_delay,
            Duration::ZERO..=Duration::from_millis(500),
        ),
    },
    Parameter {
        name: "sack_frequency",
        meaning: "packets with DATA after which a SACK is sent at once",
        section: "RFC 9260 6.2",
        field: Field::Number(
            |config| &mut config.association.sack_frequency,
            1..=u32::MAX,
        ),
    },
    Parameter {
        name: "potentially_failed",
        meaning: "whether data moves to another path at the first errors, long before the path is inactive",
        section: "RFC 7829 3.2",
        field: Field::Flag(|config| &mut config.association.path.potentially_failed),
    },
    Parameter {
        name: "potentially_failed_max_retrans",
        meaning: "consecutive errors before a path is Potentially Failed (PotentiallyFailed.Max.Retrans)",
        section: "RFC 7829 3.2",
        field: Field::Number(
            |config| &mut config.association.path.potentially_failed_max_retrans,
            0..=u32::MAX,
        ),
    },
    Parameter {
        name: "potentially_failed_events",
        meaning: "whether ADDR_POTENTIALLY_FAILED is reported",
        section: "RFC 7829 3.2",
        field: Field::Flag(|config| &mut config.association.potentially_failed_events),
    },
    Parameter {
        name: "primary_switchover_max_retrans",
        meaning: "errors of the primary path before another becomes primary (Primary.Switchover.Max.Retrans)",
        section: "RFC 7829 5",
        field: Field::OptionalNumber(
            |config| &mut config.association.path.primary_switchover_max_retrans,
            0..=u32::MAX,
        ),
    },
    Parameter {
        name: "outbound_streams",
        meaning: "outbound streams to ask for",
        section: "RFC 9260 5.1.1",
        field: Field::Number16(
            |config| &mut config.association.outbound_streams,
            1..=u16::MAX,
        ),
    },
    Parameter {
        name: "max_inbound_streams",
        meaning: "inbound streams allowed to the peer",
        section: "RFC 9260 5.1.1",
        field: Field::Number16(
            |config| &mut config.association.max_inbound_streams,
            1..=u16::MAX,
        ),
    },
    Parameter {
        name: "max_outbound_streams",
        meaning: "outbound streams at most, after the peer has asked for more of them",
        section: "RFC 6525 5.2.6",
        field: Field::Number16(
            |config| &mut config.association.max_outbound_streams,
            1..=u16::MAX,
        ),
    },
    Parameter {
        name: "extensions",
        meaning: "extensions offered to peers: pr, auth, asconf, reconf, idata, nrsack, zero-checksum",
        section: "RFC 5061 4.2.7",
        field: Field::Words(words::EXTENSIONS),
    },
    Parameter {
        name: "auth_chunks",
        meaning: "chunk types that the peer has to authenticate, such as data,sack",
        section: "RFC 4895 3.2",
        field: Field::Words(words::AUTH_CHUNKS),
    },
    Parameter {
        name: "hmac_identifiers",
        meaning: "HMAC algorithms that the peer may use: sha-256 and sha-1, the preferred one first",
        section: "RFC 4895 3.3",
        field: Field::Words(words::HMAC_IDENTIFIERS),
    },
    Parameter {
        name: "alternate_error_detection",
        meaning: "what the carrier protects packets with in place of the checksum: none, dtls or tests",
        section: "RFC 9653",
        field: Field::Words(words::ALTERNATE_ERROR_DETECTION),
    },
    Parameter {
        name: "address_reconfiguration_without_authentication",
        meaning: "whether peers change addresses that do not authenticate their chunks",
        section: "RFC 5061 4.1",
        field: Field::Flag(|config| {
            &mut config
                .association
                .address_reconfiguration_without_authentication
        }),
    },
    Parameter {
        name: "adaptation_code_point",
        meaning: "adaptation layer that peers are told of",
        section: "RFC 5061 4.2.6",
        field: Field::OptionalNumber(
            |config| &mut config.association.adaptation_code_point,
            0..=u32::MAX,
        ),
    },
    Parameter {
        name: "default_pr_policy",
        meaning: "when messages are given up that do not say so themselves",
        section: "RFC 3758, RFC 7496 3",
        field: Field::Words(words::DEFAULT_PR_POLICY),
    },
    Parameter {
        name: "congestion_control",
        meaning: "congestion controller: rfc9260, cubic, or coupled over paths: lia, olia, balia, rpv1, rpv2",
        section: "RFC 9260 7.2, RFC 9438, RFC 6356",
        field: Field::Words(words::CONGESTION_CONTROL),
    },
    Parameter {
        name: "stream_scheduler",
        meaning: "which stream sends next: fcfs, rr, rr-pkt, prio, fc or wfq",
        section: "RFC 8260 3",
        field: Field::Words(words::STREAM_SCHEDULER),
    },
    Parameter {
        name: "cmt",
        meaning: "whether data goes over several paths at a time (concurrent multipath transfer)",
        section: "",
        field: Field::Flag(|config| &mut config.association.cmt),
    },
    Parameter {
        name: "path_scheduler",
        meaning: "which path sends next, with cmt: round-robin, min-rtt, ecf, blest or redundant",
        section: "",
        field: Field::Words(words::PATH_SCHEDULER),
    },
    Parameter {
        name: "buffer_splitting",
        meaning: "buffers that paths share in equal parts, with cmt: none, send, receive or both",
        section: "",
        field: Field::Words(words::BUFFER_SPLITTING),
    },
    Parameter {
        name: "re_configuration_policy",
        meaning: "requests granted to the peer: reset-streams, reset-association, add-streams",
        section: "RFC 6525 6.3.1",
        field: Field::Words(words::RE_CONFIGURATION_POLICY),
    },
    Parameter {
        name: "a_rwnd",
        meaning: "received user data that an association buffers: the advertised window",
        section: "RFC 9260 3.3.2, 6.2",
        field: Field::Bytes32(|config| &mut config.association.a_rwnd, 1500..=u32::MAX),
    },
    Parameter {
        name: "send_buffer",
        meaning: "octets of user messages buffered until they are acknowledged",
        section: "",
        field: Field::Bytes(|config| &mut config.association.send_buffer, 1..=usize::MAX),
    },
    Parameter {
        name: "max_message_size",
        meaning: "largest user message in either direction; above a_rwnd only with a partial_delivery_point",
        section: "",
        field: Field::Bytes(
            |config| &mut config.association.max_message_size,
            1..=usize::MAX,
        ),
    },
    Parameter {
        name: "partial_delivery_point",
        meaning: "larger messages are delivered in pieces as they arrive",
        section: "RFC 9260 6.9",
        field: Field::Bytes(
            |config| &mut config.association.partial_delivery_point,
            1..=usize::MAX,
        ),
    },
    Parameter {
        name: "fragment_interleave",
        meaning: "whether messages of other streams may come between the pieces of one",
        section: "RFC 6458 8.1.20",
        field: Field::Flag(|config| &mut config.association.fragment_interleave),
    },
    Parameter {
        name: "nodelay",
        meaning: "send small messages at once, without waiting to bundle them (Nagle)",
        section: "RFC 9260 6.1",
        field: Field::Flag(|config| &mut config.association.nodelay),
    },
    Parameter {
        name: "bundling",
        meaning: "whether chunks share packets",
        section: "RFC 9260 6.10",
        field: Field::Flag(|config| &mut config.association.bundling),
    },
    Parameter {
        name: "mtu",
        meaning: "largest IP packet, with headers, initially assumed for a path",
        section: "RFC 9260 7.3",
        field: Field::Bytes(|config| &mut config.association.path.mtu, 576..=65_535),
    },
    Parameter {
        name: "path_mtu_discovery",
        meaning: "whether path MTU discovery probes other packet sizes",
        section: "RFC 8899 5.3",
        field: Field::Flag(|config| &mut config.association.path.path_mtu_discovery),
    },
    Parameter {
        name: "base_mtu",
        meaning: "SCTP packet size expected to work when mtu is too large (BASE_PLPMTU)",
        section: "RFC 8899 5.1.2",
        field: Field::Bytes(|config| &mut config.association.path.base_mtu, 512..=65_535),
    },
    Parameter {
        name: "max_probes",
        meaning: "lost probe packets before a size is considered too large (MAX_PROBES)",
        section: "RFC 8899 5.1.2",
        field: Field::Number(
            |config| &mut config.association.path.max_probes,
            1..=u32::MAX,
        ),
    },
    Parameter {
        name: "probe_timer",
        meaning: "timeout of a probe packet (PROBE_TIMER)",
        section: "RFC 8899 5.1.1",
        field: Field::Time(
            |config| &mut config.association.path.probe_timer,
            SECOND..=DAY,
        ),
    },
    Parameter {
        name: "pmtu_raise_timer",
        meaning: "time after which a larger packet is tried again (PMTU_RAISE_TIMER)",
        section: "RFC 8899 5.1.1",
        field: Field::Time(
            |config| &mut config.association.path.pmtu_raise_timer,
            MILLISECOND..=DAY,
        ),
    },
    Parameter {
        name: "sender_dry_events",
        meaning: "whether SENDER_DRY_EVENT is reported when all sent data is acknowledged",
        section: "RFC 6458 6.1.9",
        field: Field::Flag(|config| &mut config.association.sender_dry_events),
    },
    Parameter {
        name: "max_received_messages",
        meaning: "received messages and fragments that an association holds",
        section: "",
        field: Field::Size(
            |config| &mut config.association.max_received_messages,
            1..=usize::MAX,
        ),
    },
    Parameter {
        name: "max_tsn_distance",
        meaning: "how far above the cumulative TSN one may be to be taken",
        section: "",
        field: Field::Number16(
            |config| &mut config.association.max_tsn_distance,
            1..=32_767,
        ),
    },
    Parameter {
        name: "max_gap_ack_blocks",
        meaning: "runs of received TSNs between holes that an association keeps",
        section: "",
        field: Field::Size(
            |config| &mut config.association.max_gap_ack_blocks,
            1..=usize::MAX,
        ),
    },
    Parameter {
        name: "max_duplicate_tsns",
        meaning: "duplicate TSNs that are listed in a SACK at most",
        section: "RFC 9260 6.2",
        field: Field::Size(
            |config| &mut config.association.max_duplicate_tsns,
            0..=usize::MAX,
        ),
    },
    Parameter {
        name: "max_peer_addresses",
        meaning: "addresses of the peer that an association uses",
        section: "",
        field: Field::Size(|config| &mut config.association.max_peer_addresses, 1..=255),
    },
    Parameter {
        name: "max_pending_heartbeat_acks",
        meaning: "HEARTBEATs of the peer that wait for their answers",
        section: "RFC 9260 8.3",
        field: Field::Size(
            |config| &mut config.association.max_pending_heartbeat_acks,
            1..=usize::MAX,
        ),
    },
    Parameter {
        name: "max_inits_per_second",
        meaning: "INITs that are answered within a second",
        section: "",
        field: Field::Number(|config| &mut config.max_inits_per_second, 0..=u32::MAX),
    },
    Parameter {
        name: "max_cookie_echoes_per_second",
        meaning: "COOKIE ECHOs that are looked at within a second",
        section: "",
        field: Field::Number(
            |config| &mut config.max_cookie_echoes_per_second,
            0..=u32::MAX,
        ),
    },
    Parameter {
        name: "max_received_bytes",
        meaning: "received user data that is held over all associations; at least max_message_size",
        section: "",
        field: Field::Bytes(|config| &mut config.max_received_bytes, 1..=usize::MAX),
    },
    Parameter {
        name: "guaranteed_receive_bytes",
        meaning: "received user data that each association may hold whatever the others hold",
        section: "",
        field: Field::Bytes(
            |config| &mut config.association.guaranteed_receive_bytes,
            0..=usize::MAX,
        ),
    },
    Parameter {
        name: "max_associations",
        meaning: "associations of the endpoint, in any state",
        section: "",
        field: Field::Size(|config| &mut config.max_associations, 1..=usize::MAX),
    },
    Parameter {
        name: "max_pending_replies",
        meaning: "answers that belong to no association and wait to be sent",
        section: "",
        field: Field::Size(|config| &mut config.max_pending_replies, 1..=usize::MAX),
    },
    Parameter {
        name: "max_remembered_tags",
        meaning: "verification tags of ended associations that are remembered for valid_cookie_life",
        section: "",
        field: Field::Size(|config| &mut config.max_remembered_tags, 0..=usize::MAX),
    },
];
