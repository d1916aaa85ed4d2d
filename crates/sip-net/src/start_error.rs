//! Why listening did not work.

use std::io;

use crate::listen::Listen;
use crate::tls::TlsError;

/// Why the transports did not start: one line that names the listener or file and says what to do.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A listener cannot be opened.
    #[error("cannot listen on {listen}: {problem}")]
    Listen {
        /// The listener that failed.
        listen: Listen,
        /// What is wrong with it.
        problem: StartProblem,
    },
    /// TLS lacks something.
    #[error("TLS: {0}")]
    Tls(#[from] TlsError),
}

/// What is wrong with a listener.
#[derive(Debug, thiserror::Error)]
pub enum StartProblem {
    /// Another socket holds the port.
    #[error("the port is in use: stop the program that holds it or choose another port")]
    PortInUse,
    /// Another socket holds the UDP port that is to carry the SCTP packets (RFC 6951).
    #[error(
        "UDP port {0}, which carries its SCTP packets, is in use{by}: stop that program or choose another port \
         (--encapsulation-port, in a file sctp.encapsulation_port)",
        by = held_by(*.0)
    )]
    EncapsulationPortInUse(u16),
    /// SCTP right on IP needs a privilege.
    #[error(
        "SCTP over IP needs the capability CAP_NET_RAW: run as root, grant it by \"setcap cap_net_raw+ep PROGRAM\", or use SCTP over udp"
    )]
    SctpOverIpNotAllowed,
    /// The kernel's SCTP would disturb ours.
    #[error(
        "this kernel has its own SCTP, which would abort ours: use SCTP over kernel or over udp, or keep the kernel away by a packet filter and say so"
    )]
    KernelHasSctp,
    /// There is no SCTP in the kernel.
    #[error("this kernel has no SCTP: load it (modprobe sctp), or use SCTP over udp or ip")]
    KernelHasNoSctp,
    /// The address belongs to no interface of this host.
    #[error("this host has no such address: choose one of its own, or 0.0.0.0 or [::] for all")]
    NoSuchAddress,
    /// The system does not let this program have the port.
    #[error("permission denied: ports below 1024 need privileges, choose a higher one")]
    PermissionDenied,
    /// Anything else that the system said.
    #[error("{0}")]
    Io(io::Error),
}

fn held_by(port: u16) -> String {
    udp_net::port_holder(port).map_or_else(String::new, |holder| format!(" by {holder}"))
}

impl StartProblem {
    /// Sorts what the system said when a listener's own port was bound.
    pub(crate) fn from_io(error: io::Error) -> StartProblem {
        match error.kind() {
            io::ErrorKind::AddrInUse => StartProblem::PortInUse,
            io::ErrorKind::AddrNotAvailable => StartProblem::NoSuchAddress,
            io::ErrorKind::PermissionDenied => StartProblem::PermissionDenied,
            _ => StartProblem::Io(error),
        }
    }
}
