//! Congestion control that both TCP and SCTP have.

use sctp::CongestionControl;

/// Which one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Congestion {
    /// RFC 5681, and RFC 9260 section 7.2.
    Reno,
    /// RFC 9438.
    Cubic,
}

impl Congestion {
    /// Its name in the kernel (TCP_CONGESTION).
    pub(crate) fn of_tcp(self) -> &'static str {
        match self {
            Congestion::Reno => "reno",
            Congestion::Cubic => "cubic",
        }
    }

    /// That of our SCTP.
    pub(crate) fn of_sctp(self) -> CongestionControl {
        match self {
            Congestion::Reno => CongestionControl::Rfc9260,
            Congestion::Cubic => CongestionControl::Cubic,
        }
    }
}
