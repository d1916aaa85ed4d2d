//! What carries SCTP.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use sctp_net::{
    DEFAULT_ENCAPSULATION_PORT, EndpointConfig, KernelCarrierConfig, RawCarrierConfig, Stack,
    UdpCarrierConfig,
};
use serde::Deserialize;
use tap::Tap;

/// What is under SCTP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Over {
    /// UDP (RFC 6951).
    #[default]
    Udp,
    /// IP.
    Ip,
    /// The kernel's SCTP.
    Kernel,
}

/// The table `sctp` of a configuration.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CarrierConfiguration {
    /// What is under SCTP.
    pub over: Over,
    /// Local addresses; with several, associations are multi-homed. Empty: all of the host.
    pub addresses: Vec<IpAddr>,
    /// The local SCTP port.
    pub port: u16,
    /// The local UDP port; 0 lets the system choose.
    pub encapsulation_port: u16,
    /// The UDP port of peers that have none of their own in the configuration.
    pub peer_encapsulation_port: u16,
    /// With `over = "ip"`: a packet filter keeps the kernel's SCTP away.
    pub kernel_kept_away: bool,
    /// Streams in each direction.
    pub streams: u16,
    /// Association.Max.Retrans: an association is lost after more errors in a row (RFC 9260 section 8.1); none: 10.
    pub association_max_retrans: Option<u32>,
    /// Where packets are captured.
    pub pcap: Option<PathBuf>,
}

impl Default for CarrierConfiguration {
    fn default() -> CarrierConfiguration {
        CarrierConfiguration {
            over: Over::Udp,
            addresses: Vec::new(),
            port: m3ua::message::PORT,
            encapsulation_port: DEFAULT_ENCAPSULATION_PORT,
            peer_encapsulation_port: DEFAULT_ENCAPSULATION_PORT,
            kernel_kept_away: false,
            streams: 17,
            association_max_retrans: None,
            pcap: None,
        }
    }
}

impl CarrierConfiguration {
    /// The settings of associations.
    pub(crate) fn endpoint(&self) -> EndpointConfig {
        let mut config = EndpointConfig::default();
        let association = &mut config.association;
        association.outbound_streams = self.streams;
        association.max_inbound_streams = self.streams;
        if let Some(errors) = self.association_max_retrans {
            association.association_max_retrans = errors;
        }
        config
    }

    /// Opens the stack; `tap` takes its packets.
    pub(crate) fn open(&self, tap: Option<Tap>) -> io::Result<Stack> {
        let addresses = self.addresses.clone();
        match self.over {
            Over::Udp => {
                let mut config = UdpCarrierConfig::new(self.udp_at(Ipv4Addr::UNSPECIFIED.into()));
                if !addresses.is_empty() {
                    config.addresses = addresses.into_iter().map(|ip| self.udp_at(ip)).collect();
                }
                config.peer_encapsulation_port = self.peer_encapsulation_port;
                config.joint_acknowledgement = true;
                config.tap = tap;
                Stack::udp(config)
            }
            Over::Ip => Stack::raw(RawCarrierConfig {
                addresses,
                kernel_kept_away: self.kernel_kept_away,
                joint_acknowledgement: true,
                tap,
                ..RawCarrierConfig::default()
            }),
            Over::Kernel if tap.is_some() => Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "packets of the kernel's SCTP are captured by tcpdump, not here",
            )),
            Over::Kernel => Stack::kernel(KernelCarrierConfig {
                addresses,
                ..KernelCarrierConfig::default()
            }),
        }
    }

    fn udp_at(&self, ip: IpAddr) -> SocketAddr {
        SocketAddr::new(ip, self.encapsulation_port)
    }
}

/// What carries SCTP, where, and the SCTP port.
impl fmt::Display for CarrierConfiguration {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = |ip: &IpAddr| match self.over {
            Over::Udp => self.udp_at(*ip).to_string(),
            Over::Ip | Over::Kernel => ip.to_string(),
        };
        let places: Vec<String> = match self.addresses.as_slice() {
            [] => vec![at(&Ipv4Addr::UNSPECIFIED.into())],
            addresses => addresses.iter().map(at).collect(),
        };
        let carrier = match self.over {
            Over::Udp => "over UDP",
            Over::Ip => "over IP",
            Over::Kernel => "in the kernel",
        };
        let (places, port) = (places.join(" and "), self.port);
        write!(formatter, "{carrier} on {places}, SCTP port {port}")
    }
}
