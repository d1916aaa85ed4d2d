//! The link model for each socket that is opened.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use udp_net::Impairment;

/// Gives each socket the same bad network with a seed of its own, in the order of opening.
#[derive(Debug)]
pub(crate) struct Impairments {
    impairment: Option<Impairment>,
    opened: AtomicU64,
}

impl Impairments {
    pub(crate) fn new(impairment: Option<Impairment>) -> Impairments {
        Impairments {
            impairment,
            opened: AtomicU64::new(0),
        }
    }

    /// The bad network of the next socket. The first one's seed is that of the settings.
    pub(crate) fn next(&self) -> Option<Impairment> {
        let impairment = self.impairment.clone()?;
        let ordinal = self.opened.fetch_add(1, Relaxed);
        let seed = impairment.seed ^ ordinal.wrapping_mul(SPREAD);
        Some(Impairment { seed, ..impairment })
    }
}

/// 2^64 divided by the golden ratio: neighbouring ordinals differ in many bits, so that the seeds
/// of one run are not those of a run with the next seed.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

#[cfg(test)]
mod tests {
    use udp_net::LinkConfig;

    use super::*;

    #[test]
    fn each_socket_has_its_own_seed() {
        let link = LinkConfig::default();
        let impairment = Impairment {
            outbound: link.clone(),
            inbound: link,
            seed: 7,
        };
        let seeds = |seed| {
            let impairments = Impairments::new(Some(Impairment {
                seed,
                ..impairment.clone()
            }));
            [(); 3].map(|()| impairments.next().map(|impairment| impairment.seed))
        };
        assert_eq!(seeds(7)[0], Some(7));
        assert_eq!(seeds(7), seeds(7));
        let mut all = [seeds(7), seeds(8)].concat();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 6);
        assert_eq!(Impairments::new(None).next(), None);
    }
}
