//! Opens the stacks that carry our SCTP: over UDP, over IP, or the kernel's in our place.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use sctp_net::{KernelCarrierConfig, RawCarrierConfig, Stack, Tap, UdpCarrierConfig};

use crate::config::{SctpOver, SipNetConfig};
use crate::impairments::Impairments;

/// Opens stacks as the settings say.
#[derive(Debug)]
pub(super) struct StackOpener {
    pub(super) over: SctpOver,
    pub(super) encapsulation_port: u16,
    peer_encapsulation_port: u16,
    kernel_kept_away: bool,
    close_timeout: Duration,
    impairments: Arc<Impairments>,
    pub(super) impaired: bool,
    tap: Option<Tap>,
}

impl StackOpener {
    pub(super) fn new(config: &SipNetConfig, impairments: Arc<Impairments>) -> StackOpener {
        StackOpener {
            over: config.sctp_over,
            encapsulation_port: config.encapsulation_port,
            peer_encapsulation_port: config.peer_encapsulation_port,
            kernel_kept_away: config.kernel_kept_away,
            close_timeout: config.limits.shutdown_timeout,
            impaired: config.impairment.is_some(),
            impairments,
            tap: config.tap.clone(),
        }
    }

    /// A stack at these local addresses.
    pub(super) fn open(&self, addresses: &[IpAddr]) -> io::Result<Stack> {
        if self.over != SctpOver::Udp && self.impaired {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "only SCTP over UDP can have a bad network inside its sockets",
            ));
        }
        match self.over {
            SctpOver::Udp => self.open_udp(addresses),
            SctpOver::Ip => Stack::raw(RawCarrierConfig {
                addresses: addresses.to_vec(),
                kernel_kept_away: self.kernel_kept_away,
                tap: self.tap.clone(),
                close_timeout: self.close_timeout,
                joint_acknowledgement: true,
                ..RawCarrierConfig::default()
            }),
            SctpOver::Kernel if self.tap.is_some() => Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "the kernel's SCTP packets cannot be captured here: use tcpdump, or SCTP over udp or ip",
            )),
            SctpOver::Kernel => Stack::kernel(KernelCarrierConfig {
                addresses: addresses.to_vec(),
                close_timeout: self.close_timeout,
                ..KernelCarrierConfig::default()
            }),
        }
    }

    fn open_udp(&self, addresses: &[IpAddr]) -> io::Result<Stack> {
        let sockets: Vec<SocketAddr> = addresses
            .iter()
            .map(|&ip| SocketAddr::new(ip, self.encapsulation_port))
            .collect();
        let Some(&first) = sockets.first() else {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "SCTP over UDP needs a local address",
            ));
        };
        Stack::udp(UdpCarrierConfig {
            addresses: sockets,
            peer_encapsulation_port: self.peer_encapsulation_port,
            impairment: self.impairments.next(),
            tap: self.tap.clone(),
            close_timeout: self.close_timeout,
            // Signalling seldom has two packets of one size to send at once, and captures stay true.
            segmentation_offload: false,
            joint_acknowledgement: true,
            ..UdpCarrierConfig::new(first)
        })
    }
}
