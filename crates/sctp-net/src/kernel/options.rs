//! What the kernel takes of our settings.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::BorrowedFd;
use std::time::Duration;

use sctp::{AssociationConfig, EndpointConfig, PathConfig};

use super::calls::set_option;
use super::layout::{
    ALIGNED_STORAGE, SCTP_ASSOCINFO, SCTP_DELAYED_SACK, SCTP_EVENT,
    SCTP_EXPOSE_POTENTIALLY_FAILED_STATE, SCTP_FRAGMENT_INTERLEAVE, SCTP_INITMSG, SCTP_MAX_BURST,
    SCTP_NODELAY, SCTP_PARTIAL_DELIVERY_POINT, SCTP_PEER_ADDR_PARAMS, SCTP_PEER_ADDR_THLDS_V2,
    SCTP_RECVRCVINFO, SCTP_RTOINFO, SPP_HB_DEMAND, SPP_HB_DISABLE, SPP_HB_ENABLE,
    SPP_HB_TIME_IS_ZERO, SPP_PMTUD_DISABLE, SPP_PMTUD_ENABLE, STORAGE, Structure, socket_address,
};
use super::notification::{
    SCTP_ASSOC_CHANGE, SCTP_PARTIAL_DELIVERY_EVENT, SCTP_PEER_ADDR_CHANGE, SCTP_REMOTE_ERROR,
    SCTP_SEND_FAILED_EVENT, SCTP_SENDER_DRY_EVENT, SCTP_SHUTDOWN_EVENT,
};

/// Stands for the associations that a socket has yet to get, where an association is asked for.
pub(super) const FUTURE: i32 = 0;

/// Gives a new socket its settings.
pub(super) fn apply_to_socket(socket: BorrowedFd<'_>, config: &EndpointConfig) -> io::Result<()> {
    let association = &config.association;
    let set = Setter { socket };
    for (kind, wanted) in [
        (SCTP_ASSOC_CHANGE, true),
        (SCTP_PEER_ADDR_CHANGE, true),
        (SCTP_REMOTE_ERROR, true),
        (SCTP_SEND_FAILED_EVENT, true),
        (SCTP_SHUTDOWN_EVENT, true),
        (SCTP_PARTIAL_DELIVERY_EVENT, true),
        (SCTP_SENDER_DRY_EVENT, association.sender_dry_events),
    ] {
        let event = Structure::new(8)
            .with(4, kind.to_ne_bytes())
            .with(6, [u8::from(wanted)]);
        set.option("notifications", SCTP_EVENT, &event)?;
    }
    set.number("receive information", SCTP_RECVRCVINFO, 1)?;
    // Between its parts, messages of other associations, but none of the same one.
    set.number("fragment_interleave", SCTP_FRAGMENT_INTERLEAVE, 1)?;
    if association.partial_delivery_point <= association.a_rwnd as usize {
        let point = u32::try_from(association.partial_delivery_point).unwrap_or(u32::MAX);
        set.number("partial_delivery_point", SCTP_PARTIAL_DELIVERY_POINT, point)?;
    }
    let exposed = 1 + u32::from(association.potentially_failed_events);
    set.of_association(
        "potentially_failed_events",
        SCTP_EXPOSE_POTENTIALLY_FAILED_STATE,
        FUTURE,
        exposed,
    )?;
    let cookie_life = milliseconds(config.valid_cookie_life).max(1);
    let parameters = Structure::new(20)
        .with(0, FUTURE.to_ne_bytes())
        .with(16, cookie_life.to_ne_bytes());
    set.option("valid_cookie_life", SCTP_ASSOCINFO, &parameters)?;
    apply_to_future(socket, association)
}

/// Gives the associations that are still to come their settings.
pub(super) fn apply_to_future(
    socket: BorrowedFd<'_>,
    config: &AssociationConfig,
) -> io::Result<()> {
    let init = Structure::new(8)
        .with(0, config.outbound_streams.max(1).to_ne_bytes())
        .with(2, config.max_inbound_streams.max(1).to_ne_bytes())
        .with(4, short(config.max_init_retransmits).max(1).to_ne_bytes());
    let set = Setter { socket };
    set.option("streams and max_init_retransmits", SCTP_INITMSG, &init)?;
    set.number("nodelay", SCTP_NODELAY, u32::from(config.nodelay))?;
    apply_to_association(socket, FUTURE, config)
}

/// Gives one association, or all that are still to come, their settings.
pub(super) fn apply_to_association(
    socket: BorrowedFd<'_>,
    association: i32,
    config: &AssociationConfig,
) -> io::Result<()> {
    let set = Setter { socket };
    let rto = Structure::new(16)
        .with(0, association.to_ne_bytes())
        .with(
            4,
            milliseconds(config.path.rto_initial).max(1).to_ne_bytes(),
        )
        .with(8, milliseconds(config.path.rto_max).max(1).to_ne_bytes())
        .with(12, milliseconds(config.path.rto_min).max(1).to_ne_bytes());
    set.option("rto_initial, rto_min and rto_max", SCTP_RTOINFO, &rto)?;
    let parameters = Structure::new(20).with(0, association.to_ne_bytes()).with(
        4,
        short(config.association_max_retrans).max(1).to_ne_bytes(),
    );
    set.option("association_max_retrans", SCTP_ASSOCINFO, &parameters)?;
    apply_to_path(socket, association, None, &config.path)?;
    let immediately = config.sack_delay.is_zero() || config.sack_frequency <= 1;
    let frequency = if immediately {
        1
    } else {
        config.sack_frequency
    };
    let sack = Structure::new(12)
        .with(0, association.to_ne_bytes())
        .with(
            4,
            milliseconds(config.sack_delay).clamp(1, 500).to_ne_bytes(),
        )
        .with(8, frequency.to_ne_bytes());
    set.option("sack_delay and sack_frequency", SCTP_DELAYED_SACK, &sack)?;
    set.of_association("max_burst", SCTP_MAX_BURST, association, config.max_burst)
}

/// Gives one path its settings, or all of an association (`remote` is `None`).
pub(super) fn apply_to_path(
    socket: BorrowedFd<'_>,
    association: i32,
    remote: Option<SocketAddr>,
    config: &PathConfig,
) -> io::Result<()> {
    let interval = milliseconds(config.hb_interval);
    let mut flags = if config.heartbeats {
        SPP_HB_ENABLE
    } else {
        SPP_HB_DISABLE
    };
    if interval == 0 {
        flags |= SPP_HB_TIME_IS_ZERO;
    }
    let mtu = if config.path_mtu_discovery {
        flags |= SPP_PMTUD_ENABLE;
        0
    } else {
        flags |= SPP_PMTUD_DISABLE;
        u32::try_from(config.mtu).unwrap_or(u32::MAX)
    };
    let path_max_retrans = short(config.path_max_retrans).max(1);
    let parameters = PathParameters {
        remote,
        interval,
        path_max_retrans,
        mtu,
        flags,
    };
    let set = Setter { socket };
    let name = "hb_interval, heartbeats, path_max_retrans and mtu";
    set.option(name, SCTP_PEER_ADDR_PARAMS, &parameters.encode(association))?;
    let potentially_failed = if config.potentially_failed {
        short(config.potentially_failed_max_retrans)
    } else {
        u16::MAX
    };
    let switchover = config.primary_switchover_max_retrans;
    let thresholds = Thresholds {
        path_max_retrans,
        potentially_failed,
        switchover: switchover.map_or(u16::MAX, |errors| short(errors).max(potentially_failed)),
    };
    thresholds.set(&set, association, remote)
}

/// Asks for a HEARTBEAT.
pub(super) fn request_heartbeat(
    socket: BorrowedFd<'_>,
    association: i32,
    remote: SocketAddr,
) -> io::Result<()> {
    let parameters = PathParameters {
        remote: Some(remote),
        flags: SPP_HB_DEMAND,
        ..PathParameters::default()
    };
    let parameters = parameters.encode(association);
    set_option(socket, SCTP_PEER_ADDR_PARAMS, parameters.as_bytes())
}

/// A peer's address as the kernel wants it behind an association's name in packed structures, zeros for all.
pub(super) fn storage(remote: Option<SocketAddr>) -> Vec<u8> {
    let mut bytes = remote.map_or_else(Vec::new, socket_address);
    bytes.resize(STORAGE, 0);
    bytes
}

/// `struct sctp_paddrparams`; what is 0 stays as it is.
#[derive(Debug, Default)]
struct PathParameters {
    remote: Option<SocketAddr>,
    interval: u32,
    path_max_retrans: u16,
    mtu: u32,
    flags: u32,
}

impl PathParameters {
    fn encode(&self, association: i32) -> Structure {
        Structure::new(28 + STORAGE)
            .with(0, association.to_ne_bytes())
            .with_bytes(4, &storage(self.remote))
            .with(4 + STORAGE, self.interval.to_ne_bytes())
            .with(8 + STORAGE, self.path_max_retrans.to_ne_bytes())
            .with(10 + STORAGE, self.mtu.to_ne_bytes())
            .with(18 + STORAGE, self.flags.to_ne_bytes())
    }
}

/// `struct sctp_paddrthlds_v2`.
struct Thresholds {
    path_max_retrans: u16,
    potentially_failed: u16,
    switchover: u16,
}

impl Thresholds {
    fn set(
        &self,
        set: &Setter<'_>,
        association: i32,
        remote: Option<SocketAddr>,
    ) -> io::Result<()> {
        let behind = ALIGNED_STORAGE + STORAGE;
        let thresholds = Structure::new((behind + 6).next_multiple_of(ALIGNED_STORAGE))
            .with(0, association.to_ne_bytes())
            .with_bytes(ALIGNED_STORAGE, &storage(remote))
            .with(behind, self.path_max_retrans.to_ne_bytes())
            .with(behind + 2, self.potentially_failed.to_ne_bytes())
            .with(behind + 4, self.switchover.to_ne_bytes());
        set.option(
            "potentially_failed_max_retrans",
            SCTP_PEER_ADDR_THLDS_V2,
            &thresholds,
        )
    }
}

/// Sets options, and names those that the kernel refuses.
struct Setter<'a> {
    socket: BorrowedFd<'a>,
}

impl Setter<'_> {
    fn option(&self, setting: &str, name: i32, value: &Structure) -> io::Result<()> {
        match set_option(self.socket, name, value.as_bytes()) {
            // Older than the option.
            Err(error) if error.raw_os_error() == Some(libc::ENOPROTOOPT) => {
                tracing::warn!(setting, "SCTP of the kernel does not know a setting");
                Ok(())
            }
            Err(error) => Err(io::Error::new(
                error.kind(),
                format!("SCTP of the kernel does not take {setting}: {error}"),
            )),
            Ok(()) => Ok(()),
        }
    }

    fn number(&self, setting: &str, name: i32, value: u32) -> io::Result<()> {
        let value = Structure::new(4).with(0, value.to_ne_bytes());
        self.option(setting, name, &value)
    }

    /// A number behind an association's name.
    fn of_association(
        &self,
        setting: &str,
        name: i32,
        association: i32,
        value: u32,
    ) -> io::Result<()> {
        let value = Structure::new(8)
            .with(0, association.to_ne_bytes())
            .with(4, value.to_ne_bytes());
        self.option(setting, name, &value)
    }
}

/// How long it takes until a peer that does not answer an INIT is given up.
pub(super) fn time_to_give_up(config: &AssociationConfig) -> Duration {
    let mut timeout = config.path.rto_initial;
    let mut sum = Duration::ZERO;
    // The kernel counts no further.
    for _ in 0..=config.max_init_retransmits.clamp(1, u32::from(u16::MAX)) {
        sum = sum.saturating_add(timeout);
        timeout = timeout.saturating_mul(2).min(config.path.rto_max);
    }
    sum
}

fn milliseconds(duration: Duration) -> u32 {
    u32::try_from(duration.as_millis()).unwrap_or(u32::MAX)
}

fn short(number: u32) -> u16 {
    u16::try_from(number).unwrap_or(u16::MAX)
}

/// Whether these stand for no address in particular.
pub(super) fn named(addresses: &[IpAddr]) -> Vec<IpAddr> {
    let named = addresses.iter().filter(|ip| !ip.is_unspecified());
    named.copied().collect()
}
