//! Settings that belong together, by a name.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::{AssociationConfig, EndpointConfig, LossDetection, PathConfig, RecoveryConfig};

/// Timers and loss recovery for a kind of traffic.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Profile {
    /// As RFC 9260 section 16 recommends.
    #[default]
    Rfc9260,
    /// For signalling: few and short messages that must not be late. `docs/sctp.md` explains each
    /// figure.
    Signalling,
}

impl Profile {
    /// Every profile.
    pub const ALL: [Profile; 2] = [Profile::Rfc9260, Profile::Signalling];
}

impl fmt::Display for Profile {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Profile::Rfc9260 => "rfc9260",
            Profile::Signalling => "signalling",
        })
    }
}

/// There is no profile of this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no profile has this name: rfc9260 or signalling is expected")]
pub struct UnknownProfile;

impl FromStr for Profile {
    type Err = UnknownProfile;

    fn from_str(name: &str) -> Result<Profile, UnknownProfile> {
        Profile::ALL
            .into_iter()
            .find(|profile| profile.to_string() == name)
            .ok_or(UnknownProfile)
    }
}

impl AssociationConfig {
    /// With the timers and the loss recovery of a profile. Everything else stays.
    #[must_use]
    pub fn profile(self, profile: Profile) -> AssociationConfig {
        let default = AssociationConfig::default();
        match profile {
            Profile::Rfc9260 => AssociationConfig {
                association_max_retrans: default.association_max_retrans,
                sack_delay: default.sack_delay,
                recovery: default.recovery,
                path: self.path.profile(profile),
                ..self
            },
            Profile::Signalling => AssociationConfig {
                association_max_retrans: 20,
                sack_delay: Duration::from_millis(20),
                recovery: RecoveryConfig {
                    loss_detection: LossDetection::RackTlp,
                    early_retransmit: false,
                    prr: true,
                    f_rto: true,
                    rto_restart: true,
                    thin_linear_timeouts: true,
                    thin_alternate_path: true,
                },
                path: self.path.profile(profile),
                ..self
            },
        }
    }
}

impl EndpointConfig {
    /// With the timers and the loss recovery of a profile. Everything else stays.
    #[must_use]
    pub fn profile(self, profile: Profile) -> EndpointConfig {
        EndpointConfig {
            association: self.association.profile(profile),
            ..self
        }
    }
}

impl PathConfig {
    fn profile(self, profile: Profile) -> PathConfig {
        let default = PathConfig::default();
        match profile {
            Profile::Rfc9260 => PathConfig {
                rto_initial: default.rto_initial,
                rto_min: default.rto_min,
                rto_max: default.rto_max,
                path_max_retrans: default.path_max_retrans,
                hb_interval: default.hb_interval,
                potentially_failed: default.potentially_failed,
                potentially_failed_max_retrans: default.potentially_failed_max_retrans,
                primary_switchover_max_retrans: default.primary_switchover_max_retrans,
                ..self
            },
            Profile::Signalling => PathConfig {
                rto_initial: Duration::from_millis(500),
                rto_min: Duration::from_millis(200),
                rto_max: Duration::from_secs(5),
                path_max_retrans: 3,
                hb_interval: Duration::from_secs(5),
                potentially_failed: true,
                potentially_failed_max_retrans: 0,
                primary_switchover_max_retrans: None,
                ..self
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for profile in Profile::ALL {
            assert_eq!(profile.to_string().parse(), Ok(profile));
            let expected = UnknownProfile.to_string();
            assert!(expected.contains(&profile.to_string()), "{profile}");
        }
        assert_eq!("SIP".parse::<Profile>(), Err(UnknownProfile));
    }

    #[test]
    fn a_profile_changes_what_is_its_own_and_can_be_taken_back() {
        let config = EndpointConfig::default().a_rwnd(1 << 21).mtu(9000);
        let signalling = config.clone().profile(Profile::Signalling);
        assert_eq!(signalling.association.a_rwnd, 1 << 21);
        assert_eq!(signalling.association.path.mtu, 9000);
        assert_eq!(
            signalling.association.path.rto_min,
            Duration::from_millis(200)
        );
        assert_eq!(signalling.clone().bounded(), signalling);
        assert_eq!(signalling.profile(Profile::Rfc9260), config);
        assert_eq!(config.clone().profile(Profile::default()), config);
    }
}
