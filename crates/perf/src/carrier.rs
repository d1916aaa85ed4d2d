//! What carries SCTP.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use anyhow::{Context, bail};
use sctp_net::{
    EndpointConfig, Extensions, KernelCarrierConfig, RawCarrierConfig, Stack, Tap, UdpCarrierConfig,
};
use serde::{Deserialize, Serialize};

use crate::TestParameters;

/// What is below SCTP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Over {
    /// UDP (RFC 6951).
    #[default]
    Udp,
    /// IP itself, as protocol 132.
    Ip,
    /// Whatever the kernel does: its own SCTP.
    Kernel,
}

impl fmt::Display for Over {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Over::Udp => "udp",
            Over::Ip => "ip",
            Over::Kernel => "kernel",
        })
    }
}

impl FromStr for Over {
    type Err = String;

    fn from_str(text: &str) -> Result<Over, String> {
        match text {
            "udp" => Ok(Over::Udp),
            "ip" => Ok(Over::Ip),
            "kernel" => Ok(Over::Kernel),
            _ => Err(format!("\"{text}\" is not valid: use udp, ip or kernel")),
        }
    }
}

/// How SCTP goes out.
#[derive(Clone, Debug)]
pub struct CarrierConfig {
    /// Below SCTP.
    pub over: Over,
    /// Local UDP port under our SCTP; 0 lets the system choose.
    pub encapsulation_port: u16,
    /// UDP port under the SCTP of a peer that we call first.
    pub peer_encapsulation_port: u16,
    /// On a kernel with an SCTP of its own: a packet-filter rule keeps it away from our packets.
    pub kernel_kept_away: bool,
    /// Tasks that share the work of a stack; each association belongs to one of them.
    pub workers: usize,
    /// A capture of what goes over the wire.
    pub tap: Option<Tap>,
}

impl CarrierConfig {
    /// Opens a stack on these local addresses; none, or a wildcard, stands for all of the host's.
    ///
    /// # Errors
    ///
    /// When the carrier is not to be had here; the text says why and what can be done.
    pub fn open(&self, addresses: &[IpAddr]) -> anyhow::Result<Stack> {
        match self.over {
            Over::Udp => {
                let addresses: Vec<SocketAddr> = addresses
                    .iter()
                    .map(|address| SocketAddr::new(*address, self.encapsulation_port))
                    .collect();
                let Some(&first) = addresses.first() else {
                    bail!("SCTP in UDP needs a local address");
                };
                let shown = addresses.iter().map(SocketAddr::to_string);
                let shown = shown.collect::<Vec<_>>().join(", ");
                Stack::udp(UdpCarrierConfig {
                    addresses,
                    peer_encapsulation_port: self.peer_encapsulation_port,
                    workers: self.workers,
                    tap: self.tap.clone(),
                    ..UdpCarrierConfig::new(first)
                })
                .with_context(|| format!("SCTP in UDP on {shown}"))
            }
            Over::Ip => {
                let named = addresses.iter().filter(|address| !address.is_unspecified());
                Stack::raw(RawCarrierConfig {
                    addresses: named.copied().collect(),
                    kernel_kept_away: self.kernel_kept_away,
                    workers: self.workers,
                    tap: self.tap.clone(),
                    ..RawCarrierConfig::default()
                })
                .context("--over ip")
            }
            Over::Kernel if self.tap.is_some() => bail!(
                "--pcap needs --over ip or --over udp: the kernel sends and receives its SCTP packets itself \
                 (tcpdump -i any -w FILE ip proto 132 or ip6 proto 132)"
            ),
            Over::Kernel => Ok(Stack::kernel(KernelCarrierConfig {
                addresses: addresses.to_vec(),
                ..KernelCarrierConfig::default()
            })?),
        }
    }
}

/// The settings of the associations of a test, on either side.
pub(crate) fn association_config(test: &TestParameters) -> EndpointConfig {
    let default = EndpointConfig::default();
    // A window that holds one message alone would be empty while the next one is on its way.
    let window = test
        .window
        .unwrap_or_else(|| (default.association.a_rwnd as usize).max(4 * test.size));
    let mut extensions = Extensions::NONE;
    extensions.interleaving = test.interleave;
    extensions.partial_reliability = test.lifetime.is_some();
    default
        .profile(test.profile.unwrap_or_default())
        .extensions(extensions)
        .stream_scheduler(test.scheduler.unwrap_or_default())
        .congestion_control(test.cmt.or(test.congestion).unwrap_or_default())
        .cmt(test.cmt.is_some())
        .path_scheduler(test.path_scheduler.unwrap_or_default())
        .buffer_splitting(test.buffer_splitting.unwrap_or_default())
        .a_rwnd(u32::try_from(window).unwrap_or(u32::MAX))
        .send_buffer(window)
        .outbound_streams(test.streams)
        .max_inbound_streams(test.streams)
        .max_message_size(test.size.max(1500))
        .nodelay(test.nodelay)
}

/// The settings of a control channel's association.
pub(crate) fn control_config() -> EndpointConfig {
    EndpointConfig::default()
        .outbound_streams(1)
        .max_inbound_streams(1)
        .nodelay(true)
}
