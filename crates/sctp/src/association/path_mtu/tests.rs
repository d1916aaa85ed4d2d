use std::time::Duration;

use proptest::prelude::*;

use super::*;

/// IPv4 and UDP.
const OVERHEAD: usize = 28;
const MIN: usize = 576 - OVERHEAD;
const BASE: usize = 1200;
const MAX: usize = 1500 - OVERHEAD;

struct Discovery {
    now: Instant,
    config: PathConfig,
    mtu: PathMtu,
    /// The sizes of the probes.
    probes: Vec<usize>,
}

impl Discovery {
    fn new() -> Discovery {
        Discovery::with_local_mtu(1500)
    }

    fn with_local_mtu(mtu: usize) -> Discovery {
        let config = PathConfig::default().mtu(mtu);
        let mut mtu = PathMtu::new(Limits::new(OVERHEAD, false, &config), true);
        mtu.start();
        Discovery {
            now: Instant::now(),
            config,
            mtu,
            probes: Vec::new(),
        }
    }

    /// One that has found out that the path carries what the interface does.
    fn complete() -> Discovery {
        let mut discovery = Discovery::new();
        discovery.search(MAX);
        assert_eq!(discovery.mtu.state, State::SearchComplete);
        discovery.probes.clear();
        discovery
    }

    fn probe(&mut self) -> Option<usize> {
        self.mtu.data_sent();
        let size = self.mtu.wanted_probe()?;
        self.mtu.probe_sent(self.now, &self.config);
        self.probes.push(size);
        Some(size)
    }

    fn acknowledge(&mut self) {
        self.now += Duration::from_millis(50);
        self.mtu.probe_acknowledged(self.now, &self.config);
    }

    fn wait(&mut self) {
        self.now = self.mtu.timeout().expect("something is due");
        self.mtu.handle_timeout(self.now, &self.config);
    }

    fn packet_too_big(&mut self, size: usize) -> PacketTooBig {
        self.mtu.packet_too_big(self.now, size, &self.config)
    }

    /// Searches on a path that carries `carried`, without a word from routers.
    fn search(&mut self, carried: usize) {
        for _ in 0..100 {
            match self.probe() {
                Some(size) if size <= carried => self.acknowledge(),
                Some(_) => self.wait(),
                None => return,
            }
        }
        panic!("it never ends: {:?}", self.probes);
    }

    fn lose_large_packets(&mut self, count: usize) {
        for _ in 0..count {
            self.mtu.large_packet_lost(&self.config);
        }
    }
}

#[test]
fn the_usual_path_takes_one_probe_and_no_timer() {
    let mut discovery = Discovery::new();
    assert_eq!(discovery.mtu.plpmtu(), BASE);
    assert_eq!(discovery.mtu.wanted_probe(), None, "nobody sends");
    assert_eq!(discovery.probe(), Some(MAX));
    assert_eq!(discovery.probe(), None, "one at a time");
    assert_eq!(discovery.mtu.plpmtu(), BASE);
    discovery.acknowledge();
    assert_eq!(discovery.mtu.plpmtu(), MAX);
    assert_eq!(discovery.mtu.state, State::SearchComplete);
    assert_eq!((discovery.probe(), discovery.mtu.timeout()), (None, None));
}

#[test]
fn a_smaller_path_is_searched_by_halves() {
    let mut discovery = Discovery::new();
    discovery.search(1372);
    assert_eq!(discovery.probes, [MAX, BASE, 1336, 1404, 1368, 1384]);
    assert_eq!(discovery.mtu.plpmtu(), 1368);
    assert_eq!(discovery.mtu.state, State::SearchComplete);
}

#[test]
fn three_lost_probes_in_a_row_end_the_search_until_the_raise_timer() {
    let mut discovery = Discovery::new();
    let start = discovery.now;
    discovery.search(BASE);
    assert_eq!(discovery.probes, [MAX, BASE, 1336, 1268, 1232]);
    assert_eq!(discovery.mtu.plpmtu(), BASE);
    let probe_timer = discovery.config.probe_timer;
    assert!(discovery.now - start >= 4 * probe_timer);
    discovery.wait();
    assert_eq!(discovery.mtu.state, State::Searching);
    assert!(discovery.now - start >= discovery.config.pmtu_raise_timer);
    discovery.probes.clear();
    discovery.search(MAX);
    assert_eq!(discovery.probes, [MAX]);
    assert_eq!(discovery.mtu.plpmtu(), MAX);
}

#[test]
fn ethernet_is_the_first_guess_where_the_interface_carries_more() {
    let mut discovery = Discovery::with_local_mtu(9000);
    discovery.search(MAX);
    assert_eq!(discovery.probes[..3], [8972, BASE, MAX]);
    assert_eq!(discovery.mtu.plpmtu(), MAX);
}

#[test]
fn a_path_below_the_base_gets_the_least_packets_and_is_asked_again() {
    let mut discovery = Discovery::new();
    for _ in 0..4 {
        discovery.probe().expect("a probe");
        discovery.wait();
    }
    assert_eq!(discovery.probes, [MAX, BASE, BASE, BASE]);
    assert_eq!(discovery.mtu.state, State::Error);
    assert_eq!(discovery.mtu.plpmtu(), MIN);
    assert_eq!(discovery.probe(), Some(BASE));
    discovery.acknowledge();
    assert_eq!(discovery.mtu.state, State::Searching);
    assert_eq!(discovery.mtu.plpmtu(), BASE);
}

/// Loss of another kind, as that of a radio link, costs no more than time.
#[test]
fn probes_of_the_base_that_are_lost_by_chance_end_no_search() {
    for lost in 1..10 {
        for base in [BASE, MIN] {
            let mut discovery = Discovery::new();
            discovery.config.base_mtu = base;
            let limits = Limits::new(OVERHEAD, false, &discovery.config);
            discovery.mtu = PathMtu::new(limits, true);
            discovery.mtu.start();
            for _ in 0..lost {
                discovery.probe().expect("a probe");
                discovery.wait();
            }
            discovery.search(MAX);
            let plpmtu = discovery.mtu.plpmtu();
            assert!(plpmtu + LEAST_GAIN >= MAX, "{base}, {lost} lost: {plpmtu}");
        }
    }
}

#[test]
fn probes_wait_for_data() {
    let mut discovery = Discovery::new();
    discovery.probe();
    discovery.wait();
    assert_eq!(discovery.mtu.wanted_probe(), None);
    assert_eq!(discovery.mtu.timeout(), None);
    assert_eq!(discovery.probe(), Some(BASE));
}

#[test]
fn large_packets_lost_in_a_row_are_a_black_hole() {
    let mut discovery = Discovery::complete();
    for (size, is_suspicious) in [(BASE, false), (BASE + 4, true), (MAX, true)] {
        assert_eq!(discovery.mtu.is_suspicious(size), is_suspicious);
    }
    assert!(!discovery.mtu.is_suspicious(MAX + 4), "IP fragments it");
    discovery.lose_large_packets(2);
    discovery.mtu.large_packet_arrived();
    discovery.lose_large_packets(2);
    assert_eq!(discovery.mtu.plpmtu(), MAX);
    discovery.lose_large_packets(1);
    assert_eq!(discovery.mtu.plpmtu(), BASE);
    discovery.search(1300);
    assert_eq!(discovery.probes[0], BASE);
    assert!((1284..=1300).contains(&discovery.mtu.plpmtu()));
}

/// RFC 8899 section 4.3, where no router says a word: the probes alone would take a minute.
#[test]
fn packets_of_the_base_lost_in_a_row_lead_to_the_least_size() {
    let mut discovery = Discovery::new();
    assert_eq!(discovery.mtu.state, State::Base);
    assert!(discovery.mtu.is_suspicious(BASE) && !discovery.mtu.is_suspicious(MIN));
    discovery.lose_large_packets(3);
    assert_eq!(
        (discovery.mtu.state, discovery.mtu.plpmtu()),
        (State::Error, MIN)
    );
    assert!(!discovery.mtu.is_suspicious(MIN), "nothing is smaller");
    assert_eq!(discovery.probe(), Some(BASE));
    discovery.acknowledge();
    assert_eq!(discovery.mtu.plpmtu(), BASE);
}

#[test]
fn a_base_that_was_confirmed_is_confirmed_again_before_less_is_sent() {
    let mut discovery = Discovery::new();
    discovery.search(BASE);
    assert!(discovery.mtu.is_suspicious(BASE));
    discovery.lose_large_packets(3);
    assert_eq!(
        (discovery.mtu.state, discovery.mtu.plpmtu()),
        (State::Base, BASE)
    );
    for _ in 0..3 {
        assert_eq!(discovery.probe(), Some(BASE));
        discovery.wait();
    }
    assert_eq!(discovery.mtu.plpmtu(), MIN);
}

/// Else it would be lost again each time that the path becomes inactive.
#[test]
fn that_a_path_carries_less_than_the_base_outlasts_its_failure() {
    let mut discovery = Discovery::new();
    discovery.lose_large_packets(3);
    discovery.mtu.stop();
    assert_eq!((discovery.mtu.plpmtu(), discovery.probe()), (MIN, None));
    discovery.mtu.start();
    assert_eq!(discovery.mtu.state, State::Error);
    assert_eq!(
        (discovery.mtu.plpmtu(), discovery.probe()),
        (MIN, Some(BASE))
    );
    // The path may fail before enough was lost.
    let mut discovery = Discovery::new();
    discovery.lose_large_packets(2);
    discovery.mtu.stop();
    discovery.lose_large_packets(1);
    assert_eq!(discovery.mtu.plpmtu(), MIN);
}

#[test]
fn without_probes_lost_packets_still_lead_to_smaller_ones() {
    let mut discovery = Discovery::complete();
    discovery.mtu.end();
    assert_eq!((discovery.mtu.plpmtu(), discovery.probe()), (MAX, None));
    discovery.lose_large_packets(3);
    assert_eq!(discovery.mtu.plpmtu(), BASE);
    discovery.lose_large_packets(3);
    assert_eq!(discovery.mtu.plpmtu(), MIN);
}

#[test]
fn a_router_shortens_the_search_but_does_not_decide() {
    let mut discovery = Discovery::new();
    discovery.probe();
    // While the optimistic probe is under way, nothing of that size is in use.
    assert_eq!(discovery.packet_too_big(1372), PacketTooBig::Used);
    assert_eq!(discovery.mtu.plpmtu(), BASE);
    assert_eq!(discovery.probe(), Some(1372));
    discovery.acknowledge();
    assert_eq!(discovery.mtu.plpmtu(), 1372);
    assert_eq!(discovery.mtu.state, State::SearchComplete);
}

#[test]
fn a_router_that_speaks_of_less_than_is_in_use_leads_back_to_the_base() {
    let mut discovery = Discovery::complete();
    assert_eq!(discovery.packet_too_big(1401), PacketTooBig::Used);
    assert_eq!(discovery.mtu.plpmtu(), BASE);
    assert_eq!(discovery.probe(), Some(1400));
    discovery.acknowledge();
    assert_eq!(discovery.mtu.plpmtu(), 1400);
    assert_eq!(discovery.mtu.state, State::SearchComplete);
    assert_eq!(discovery.packet_too_big(BASE), PacketTooBig::Used);
    assert_eq!(discovery.mtu.plpmtu(), BASE);
}

#[test]
fn a_router_may_speak_of_less_than_the_base() {
    let mut discovery = Discovery::complete();
    assert_eq!(discovery.packet_too_big(1000), PacketTooBig::Used);
    assert_eq!(discovery.mtu.plpmtu(), MIN);
    assert_eq!(discovery.probe(), Some(1000));
    discovery.acknowledge();
    assert_eq!(discovery.mtu.plpmtu(), 1000);
    discovery.wait();
    assert_eq!(discovery.probe(), Some(BASE));
}

#[test]
fn impossible_sizes_of_routers_change_nothing() {
    let mut discovery = Discovery::complete();
    for size in [0, MIN - 4, MAX, MAX + 4, usize::MAX] {
        assert_eq!(discovery.packet_too_big(size), PacketTooBig::Ignored);
    }
    assert_eq!(discovery.mtu.plpmtu(), MAX);
}

#[test]
fn a_path_that_ends_to_work_is_searched_anew() {
    let mut discovery = Discovery::complete();
    discovery.mtu.stop();
    assert_eq!(discovery.mtu.plpmtu(), BASE);
    assert_eq!(discovery.probe(), None);
    discovery.mtu.start();
    assert_eq!(discovery.probe(), Some(MAX));
}

#[test]
fn encapsulation_takes_its_bytes_at_once() {
    let mut discovery = Discovery::complete();
    let config = discovery.config;
    discovery.mtu.set_limits(Limits::new(20, false, &config));
    assert_eq!(discovery.mtu.plpmtu(), MAX + 8);
    discovery.mtu.set_limits(Limits::new(28, false, &config));
    assert_eq!(discovery.mtu.plpmtu(), MAX);
}

#[test]
fn without_discovery_the_interface_says_what_is_carried() {
    let config = PathConfig::default();
    let mut mtu = PathMtu::new(Limits::new(OVERHEAD, false, &config), false);
    mtu.start();
    mtu.data_sent();
    assert_eq!((mtu.plpmtu(), mtu.wanted_probe()), (MAX, None));
    assert!(!mtu.is_suspicious(MAX));
}

#[test]
fn ipv6_has_a_base_that_every_link_carries() {
    let config = PathConfig::default();
    let limits = Limits::new(48, true, &config);
    assert_eq!((limits.min, limits.base, limits.max), (1232, 1232, 1452));
}

proptest! {
    /// Whatever the path carries, and whatever is lost: the PLPMTU stays within what was
    /// confirmed, and is close to the best once nothing is lost any more.
    #[test]
    fn ends_close_to_what_the_path_carries(
        local in 576_usize..=9000,
        carried in 548_usize..=9000,
        lost in prop::collection::vec(any::<bool>(), 0..6),
    ) {
        let mut discovery = Discovery::with_local_mtu(local);
        let carried = carried.min(local - OVERHEAD);
        let mut lost = lost.into_iter();
        for _ in 0..200 {
            match discovery.probe() {
                Some(size) if size <= carried => {
                    if lost.next().unwrap_or(false) {
                        discovery.wait();
                    } else {
                        discovery.acknowledge();
                        prop_assert!(discovery.mtu.plpmtu() <= carried.max(BASE));
                    }
                }
                Some(_) => discovery.wait(),
                None if discovery.mtu.timeout().is_some() => discovery.wait(),
                None => break,
            }
        }
        prop_assert!(discovery.mtu.plpmtu() <= carried.max(MIN));
        if carried >= local - OVERHEAD {
            prop_assert!(discovery.mtu.plpmtu() + 4 > carried);
        }
        if carried >= BASE {
            prop_assert!(discovery.mtu.plpmtu() + LEAST_GAIN + 4 > carried);
        }
    }
}
