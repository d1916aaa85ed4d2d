//! The congestion controllers by name.

use std::fmt;
use std::str::FromStr;

use super::CongestionController;
use super::balia::Balia;
use super::cubic::Cubic;
use super::lia::Lia;
use super::olia::Olia;
use super::resource_pooling::{RpV1, RpV2};
use super::rfc9260::Rfc9260;
use super::window::{Law, LossBased};

/// Which congestion controller an association's paths have. Those from `Lia` on are coupled: what several
/// paths carry at one time counts together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum CongestionControl {
    /// Slow start and congestion avoidance of RFC 9260 section 7.2.
    #[default]
    Rfc9260,
    /// CUBIC (RFC 9438) with hybrid slow start.
    Cubic,
    /// Linked increases (RFC 6356).
    Lia,
    /// Opportunistic linked increases (draft-khalili-mptcp-congestion-control).
    Olia,
    /// Balanced linked adaptation (draft-walid-mptcp-congestion-control).
    Balia,
    /// Resource pooling by windows (CMT/RPv1).
    RpV1,
    /// Resource pooling by rates (CMT/RPv2).
    RpV2,
}

impl CongestionControl {
    /// Every controller.
    pub const ALL: [CongestionControl; 7] = [
        CongestionControl::Rfc9260,
        CongestionControl::Cubic,
        CongestionControl::Lia,
        CongestionControl::Olia,
        CongestionControl::Balia,
        CongestionControl::RpV1,
        CongestionControl::RpV2,
    ];

    /// A controller for a path whose packets carry `pmdcs` bytes of DATA chunks, before any data
    /// was sent. `ipv6` is the family of the peer's address.
    pub(crate) fn controller(self, pmdcs: usize, ipv6: bool) -> Box<dyn CongestionController> {
        fn with<L: Law + Default + 'static>(
            pmdcs: usize,
            ipv6: bool,
        ) -> Box<dyn CongestionController> {
            Box::new(LossBased::new(L::default(), pmdcs, ipv6))
        }
        match self {
            CongestionControl::Rfc9260 => with::<Rfc9260>(pmdcs, ipv6),
            CongestionControl::Cubic => with::<Cubic>(pmdcs, ipv6),
            CongestionControl::Lia => with::<Lia>(pmdcs, ipv6),
            CongestionControl::Olia => with::<Olia>(pmdcs, ipv6),
            CongestionControl::Balia => with::<Balia>(pmdcs, ipv6),
            CongestionControl::RpV1 => with::<RpV1>(pmdcs, ipv6),
            CongestionControl::RpV2 => with::<RpV2>(pmdcs, ipv6),
        }
    }
}

impl fmt::Display for CongestionControl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            CongestionControl::Rfc9260 => "rfc9260",
            CongestionControl::Cubic => "cubic",
            CongestionControl::Lia => "lia",
            CongestionControl::Olia => "olia",
            CongestionControl::Balia => "balia",
            CongestionControl::RpV1 => "rpv1",
            CongestionControl::RpV2 => "rpv2",
        })
    }
}

/// There is no congestion controller of this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "no congestion controller has this name: rfc9260, cubic, lia, olia, balia, rpv1 or rpv2 is expected"
)]
pub struct UnknownCongestionControl;

impl FromStr for CongestionControl {
    type Err = UnknownCongestionControl;

    fn from_str(name: &str) -> Result<CongestionControl, UnknownCongestionControl> {
        CongestionControl::ALL
            .into_iter()
            .find(|control| control.to_string() == name)
            .ok_or(UnknownCongestionControl)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for control in CongestionControl::ALL {
            assert_eq!(control.to_string().parse(), Ok(control));
            let expected = UnknownCongestionControl.to_string();
            assert!(expected.contains(&control.to_string()), "{control}");
        }
        assert_eq!(
            "CUBIC".parse::<CongestionControl>(),
            Err(UnknownCongestionControl)
        );
    }
}
