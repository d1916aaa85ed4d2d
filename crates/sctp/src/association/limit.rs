//! How far the sending of a message may go: its PR-SCTP policy, bound to the time at which it came
//! (RFC 3758 section 4.1, RFC 7496 section 3).

use std::time::Instant;

use crate::{PrPolicy, SendInfo};

/// The limit of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Limit {
    /// It is reliable.
    #[default]
    None,
    /// It expires then.
    Until(Instant),
    /// So often may each of its chunks be sent again.
    Retransmissions(u32),
    /// It gives way to lower numbers.
    Priority(u32),
}

impl Limit {
    /// The limit of a message that came `now`.
    pub(crate) fn of(info: &SendInfo, now: Instant) -> Limit {
        let policy = info
            .pr_policy
            .unwrap_or_else(|| info.life_time.map_or(PrPolicy::Reliable, PrPolicy::Timed));
        match policy {
            PrPolicy::Reliable => Limit::None,
            // A time that is never reached is no limit.
            PrPolicy::Timed(time) => now.checked_add(time).map_or(Limit::None, Limit::Until),
            PrPolicy::LimitedRetransmissions(most) => Limit::Retransmissions(most),
            PrPolicy::Priority(priority) => Limit::Priority(priority),
        }
    }

    /// When it expires, if it does.
    pub(crate) fn end(self) -> Option<Instant> {
        match self {
            Limit::Until(end) => Some(end),
            _ => None,
        }
    }

    /// Whether a chunk of it, which was sent again `retransmissions` times, is not to be sent once
    /// more.
    pub(crate) fn is_reached(self, now: Instant, retransmissions: u32) -> bool {
        match self {
            Limit::None | Limit::Priority(_) => false,
            Limit::Until(end) => end <= now,
            Limit::Retransmissions(most) => retransmissions >= most,
        }
    }

    /// Whether it gives way to a message of the limit `other`.
    pub(crate) fn gives_way_to(self, other: Limit) -> bool {
        match (self, other) {
            (Limit::Priority(mine), Limit::Priority(other)) => other < mine,
            (Limit::Priority(_), _) => true,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn policies_become_limits() {
        let now = Instant::now();
        let second = Duration::from_secs(1);
        let of = |pr_policy, life_time| {
            let info = SendInfo {
                pr_policy,
                life_time,
                ..SendInfo::default()
            };
            Limit::of(&info, now)
        };
        assert_eq!(of(None, None), Limit::None);
        assert_eq!(of(None, Some(second)), Limit::Until(now + second));
        assert_eq!(of(Some(PrPolicy::Reliable), Some(second)), Limit::None);
        assert_eq!(
            of(Some(PrPolicy::Timed(second)), None),
            Limit::Until(now + second)
        );
        assert_eq!(of(Some(PrPolicy::Timed(Duration::MAX)), None), Limit::None);
        assert_eq!(
            of(Some(PrPolicy::LimitedRetransmissions(3)), None),
            Limit::Retransmissions(3)
        );
        assert_eq!(of(Some(PrPolicy::Priority(4)), None), Limit::Priority(4));
    }

    #[test]
    fn limits_are_reached() {
        let now = Instant::now();
        let later = now + Duration::from_millis(1);
        assert!(!Limit::None.is_reached(later, u32::MAX));
        assert!(!Limit::Priority(7).is_reached(later, u32::MAX));
        assert!(!Limit::Until(later).is_reached(now, 9));
        assert!(Limit::Until(later).is_reached(later, 0));
        assert!(!Limit::Retransmissions(2).is_reached(later, 1));
        assert!(Limit::Retransmissions(2).is_reached(now, 2));
        assert!(Limit::Retransmissions(0).is_reached(now, 0));
    }

    #[test]
    fn the_lower_priority_gives_way() {
        let reliable = [
            Limit::None,
            Limit::Until(Instant::now()),
            Limit::Retransmissions(0),
        ];
        for other in reliable {
            assert!(Limit::Priority(0).gives_way_to(other));
            assert!(!other.gives_way_to(Limit::Priority(0)));
            assert!(!other.gives_way_to(other));
        }
        assert!(Limit::Priority(2).gives_way_to(Limit::Priority(1)));
        assert!(!Limit::Priority(1).gives_way_to(Limit::Priority(1)));
        assert!(!Limit::Priority(1).gives_way_to(Limit::Priority(2)));
    }
}
