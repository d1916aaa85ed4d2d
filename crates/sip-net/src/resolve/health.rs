//! Next hops that have failed: they are tried after all others for a while.

use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use sip::Transport;

/// How a next hop has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HopFailure {
    /// It did not answer in time.
    Silent,
    /// It answered 503.
    Unavailable,
    /// No message could be sent there.
    Unreachable,
}

/// What is known of a next hop that has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HopHealth {
    /// Over which transport.
    pub transport: Transport,
    /// Its address.
    pub remote: SocketAddr,
    /// How it failed last.
    pub failure: HopFailure,
    /// How many times it has failed since it was remembered.
    pub failures: u32,
    /// How much longer it is tried after all others.
    pub left: Duration,
}

type Place = (Transport, SocketAddr);

/// A bounded number of next hops that have failed.
#[derive(Debug)]
pub(super) struct Health<S = RandomState> {
    suspects: HashMap<Place, Suspect, S>,
    by_end: BTreeSet<(Instant, Place)>,
    maximum: usize,
}

#[derive(Clone, Copy, Debug)]
struct Suspect {
    failure: HopFailure,
    failures: u32,
    end: Instant,
}

impl<S: BuildHasher> Health<S> {
    pub(super) fn new(maximum: usize, state: S) -> Health<S> {
        Health {
            suspects: HashMap::with_hasher(state),
            by_end: BTreeSet::new(),
            maximum,
        }
    }

    /// Takes in that a next hop has failed: for so long it is tried last.
    pub(super) fn note(
        &mut self,
        now: Instant,
        place: Place,
        failure: HopFailure,
        pause: Duration,
    ) {
        let old = self.suspects.remove(&place);
        if let Some(old) = old {
            self.by_end.remove(&(old.end, place));
        }
        while let Some((end, _)) = self.by_end.first()
            && (*end <= now || self.suspects.len() >= self.maximum)
        {
            if let Some((_, oldest)) = self.by_end.pop_first() {
                self.suspects.remove(&oldest);
            }
        }
        let Some(end) = now.checked_add(pause) else {
            return;
        };
        if self.maximum == 0 {
            return;
        }
        let failures = old.map_or(0, |old| old.failures).saturating_add(1);
        let suspect = Suspect {
            failure,
            failures,
            end,
        };
        self.by_end.insert((end, place));
        self.suspects.insert(place, suspect);
    }

    /// Whether a next hop is to be tried after all others.
    pub(super) fn is_suspect(&self, now: Instant, place: Place) -> bool {
        !self.suspects.is_empty()
            && self
                .suspects
                .get(&place)
                .is_some_and(|suspect| now < suspect.end)
    }

    /// Those that have failed, the one that is trusted again last coming first.
    pub(super) fn suspects(&self, now: Instant) -> Vec<HopHealth> {
        let current = self.by_end.iter().rev().take_while(|(end, _)| now < *end);
        current
            .filter_map(|(end, place)| {
                let suspect = self.suspects.get(place)?;
                Some(HopHealth {
                    transport: place.0,
                    remote: place.1,
                    failure: suspect.failure,
                    failures: suspect.failures,
                    left: end.saturating_duration_since(now),
                })
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(port: u16) -> Place {
        (Transport::Udp, ([192, 0, 2, 1], port).into())
    }

    #[test]
    fn who_fails_is_suspect_for_a_while() {
        let now = Instant::now();
        let pause = Duration::from_secs(30);
        let mut health = Health::new(10, RandomState::new());
        assert!(!health.is_suspect(now, place(1)));
        health.note(now, place(1), HopFailure::Silent, pause);
        assert!(health.is_suspect(now, place(1)));
        assert!(!health.is_suspect(now, (Transport::Tcp, place(1).1)));
        let later = now + Duration::from_secs(20);
        health.note(later, place(1), HopFailure::Unavailable, pause);
        assert!(health.is_suspect(now + pause, place(1)));
        let shown = health.suspects(now + pause);
        assert_eq!(
            shown,
            [HopHealth {
                transport: Transport::Udp,
                remote: place(1).1,
                failure: HopFailure::Unavailable,
                failures: 2,
                left: Duration::from_secs(20),
            }]
        );
        assert!(!health.is_suspect(later + pause, place(1)));
        assert_eq!(health.suspects(later + pause), []);
    }

    #[test]
    fn the_table_is_bounded() {
        let now = Instant::now();
        let mut health = Health::new(3, RandomState::new());
        for port in 1..=5 {
            let pause = Duration::from_secs(port.into());
            health.note(now, place(port), HopFailure::Unreachable, pause);
        }
        assert_eq!((health.suspects.len(), health.by_end.len()), (3, 3));
        assert!(!health.is_suspect(now, place(2)) && health.is_suspect(now, place(3)));
        let mut none = Health::new(0, RandomState::new());
        none.note(now, place(1), HopFailure::Silent, Duration::from_secs(1));
        assert!(!none.is_suspect(now, place(1)));
    }
}
