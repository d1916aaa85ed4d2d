//! What each source address may still send.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use ahash::RandomState;

use super::bucket::{Bucket, Rate};

/// Those who send: an IPv4 address, or the upper 64 bits of an IPv6 address, of which one host has all
/// the lower ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Source {
    V4([u8; 4]),
    V6([u8; 8]),
}

impl From<IpAddr> for Source {
    fn from(address: IpAddr) -> Source {
        match address.to_canonical() {
            IpAddr::V4(address) => Source::V4(address.octets()),
            IpAddr::V6(address) => {
                let [a, b, c, d, e, f, g, h, ..] = address.octets();
                Source::V6([a, b, c, d, e, f, g, h])
            }
        }
    }
}

/// A bucket for each source that has sent of late. When there are as many as there may be, those whose
/// buckets are full again are forgotten, which changes nothing for them; where that makes no room, new
/// sources share one bucket.
#[derive(Debug)]
pub(super) struct Sources {
    buckets: HashMap<Source, Bucket, RandomState>,
    maximum: usize,
    /// For those that find no room.
    common: Option<Bucket>,
    swept: Option<Instant>,
}

/// How often at most a full table is searched for sources that can be forgotten.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

impl Sources {
    pub(super) fn new(state: RandomState, maximum: usize) -> Sources {
        Sources {
            buckets: HashMap::with_hasher(state),
            maximum,
            common: None,
            swept: None,
        }
    }

    /// Takes a token of a source. Returns whether there was one, or whether its debt stays within
    /// `credit`.
    pub(super) fn take(&mut self, now: Instant, from: IpAddr, rate: &Rate, credit: f64) -> bool {
        self.bucket(now, from, rate).take(now, rate, credit)
    }

    /// Takes a token that a source owes, as long as its debt stays within `deepest`.
    pub(super) fn owe(&mut self, now: Instant, from: IpAddr, rate: &Rate, deepest: f64) {
        self.bucket(now, from, rate).owe(now, rate, deepest);
    }

    /// Whether [`take`](Sources::take) would find a token.
    pub(super) fn has_one(&mut self, now: Instant, from: IpAddr, rate: &Rate, credit: f64) -> bool {
        match self.known(from) {
            Some(bucket) => bucket.has_one(now, rate, credit),
            // It would get a full one.
            None => true,
        }
    }

    /// Puts a token of a source back that should not have been taken.
    pub(super) fn give_back(&mut self, now: Instant, from: IpAddr, rate: &Rate) {
        if let Some(bucket) = self.known(from) {
            bucket.give_back(now, rate);
        }
    }

    /// The bucket of a source, or the one that it shares.
    fn bucket(&mut self, now: Instant, from: IpAddr, rate: &Rate) -> &mut Bucket {
        let source = Source::from(from);
        if !self.buckets.contains_key(&source) {
            self.make_room(now, rate);
            if self.buckets.len() >= self.maximum {
                return self.common.get_or_insert_with(|| Bucket::full(now, rate));
            }
        }
        let bucket = self.buckets.entry(source);
        bucket.or_insert_with(|| Bucket::full(now, rate))
    }

    /// The bucket that a source has, or shares; none where it would get one of its own.
    fn known(&mut self, from: IpAddr) -> Option<&mut Bucket> {
        let is_full = self.buckets.len() >= self.maximum;
        let own = self.buckets.get_mut(&Source::from(from));
        own.or_else(|| self.common.as_mut().filter(|_| is_full))
    }

    /// How many sources have a bucket of their own.
    pub(super) fn len(&self) -> usize {
        self.buckets.len()
    }

    /// From now on so many may have one; those there are stay until they are forgotten.
    pub(super) fn set_maximum(&mut self, maximum: usize) {
        self.maximum = maximum;
    }

    fn make_room(&mut self, now: Instant, rate: &Rate) {
        let is_due = self
            .swept
            .is_none_or(|swept| now.saturating_duration_since(swept) >= SWEEP_INTERVAL);
        if self.buckets.len() >= self.maximum && is_due {
            self.swept = Some(now);
            self.buckets.retain(|_, bucket| !bucket.is_full(now, rate));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources(maximum: usize) -> Sources {
        Sources::new(RandomState::with_seeds(1, 2, 3, 4), maximum)
    }

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn each_source_has_its_own_rate() {
        let now = Instant::now();
        let rate = Rate::new(1, Duration::from_secs(1));
        let mut sources = sources(10);
        for source in ["192.0.2.1", "192.0.2.2", "2001:db8::1", "2001:db8:0:1::1"] {
            assert!(sources.take(now, address(source), &rate, 0.0), "{source}");
        }
        for same in ["192.0.2.1", "::ffff:192.0.2.1", "2001:db8::ffff:1"] {
            assert!(!sources.take(now, address(same), &rate, 0.0), "{same}");
        }
        assert_eq!(sources.len(), 4);
    }

    #[test]
    fn what_is_given_back_goes_to_where_it_was_taken() {
        let now = Instant::now();
        let rate = Rate::new(1, Duration::from_secs(1));
        let mut sources = sources(1);
        for source in ["192.0.2.1", "192.0.2.2"].map(address) {
            // The second finds no room for a bucket of its own.
            assert!(sources.has_one(now, source, &rate, 0.0));
            assert!(sources.take(now, source, &rate, 0.0));
            assert!(!sources.has_one(now, source, &rate, 0.0));
            sources.give_back(now, source, &rate);
            assert!(sources.has_one(now, source, &rate, 0.0));
            assert!(sources.take(now, source, &rate, 0.0));
        }
        assert!(!sources.has_one(now, address("192.0.2.3"), &rate, 0.0));
        assert_eq!(sources.len(), 1);
    }

    #[test]
    fn a_full_table_forgets_those_who_were_silent_and_lets_others_share() {
        let now = Instant::now();
        let rate = Rate::new(1, Duration::from_secs(1));
        let mut sources = sources(2);
        assert!(sources.take(now, address("192.0.2.1"), &rate, 0.0));
        assert!(sources.take(now, address("192.0.2.2"), &rate, 0.0));
        // These two share.
        assert!(sources.take(now, address("192.0.2.3"), &rate, 0.0));
        assert!(!sources.take(now, address("192.0.2.4"), &rate, 0.0));
        assert_eq!(sources.len(), 2);
        let later = now + Duration::from_secs(2);
        assert!(sources.take(later, address("192.0.2.1"), &rate, 0.0));
        assert!(sources.take(later, address("192.0.2.5"), &rate, 0.0));
        assert_eq!(sources.len(), 2);
        assert!(!sources.take(later, address("192.0.2.1"), &rate, 0.0));
    }
}
