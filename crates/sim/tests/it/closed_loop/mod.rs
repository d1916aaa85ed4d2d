//! Two SCTP engines whose users play ping-pong on eight streams over links that lose much: the
//! traffic of SIP, where a message is sent when another one came, and the hardest for a transport
//! that learns of losses from what is sent after them.
//!
//! What is lost costs retransmission timeouts of RTO.Min, a second, and more when the
//! retransmission is lost too. It must not cost more than that: the back-off ends with the first
//! answer.

mod host;

use host::PingPong;
use link::{Link, LinkConfig};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha12Rng;
use sctp::{Endpoint, EndpointConfig};
use sim::{HostId, Simulation, Stop};
use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
const SERVER: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2));
const PORT: u16 = 5060;

/// From one host to the other.
const DELAY: Duration = Duration::from_millis(10);

/// Seeds of each run; what is asked of a rate is asked of their mean.
const SEEDS: u64 = 10;

#[test]
fn a_lossy_link_slows_an_association_down_but_does_not_stop_it() {
    // Without loss there are 400 exchanges a second. The floors leave a tenth or two for chance;
    // where back-off ends only with new data, the last two rates are 3.3 and 0.3.
    for (loss, floor, seconds) in [
        (0.05, 190.0, 60),
        (0.1, 49.0, 300),
        (0.2, 4.8, 600),
        (0.3, 0.7, 600),
    ] {
        let rates = (0..SEEDS).map(|seed| {
            let mut run = Run::new(seed, loss);
            run.advance(Duration::from_secs(seconds));
            run.exchanges() as f64 / seconds as f64
        });
        let mean = rates.sum::<f64>() / SEEDS as f64;
        println!("{loss}: {mean:.2} exchanges a second");
        assert!(mean >= floor, "{mean:.2} exchanges a second, {loss} lost");
    }
}

#[test]
fn an_association_is_itself_again_after_one_timeout_without_loss() {
    for seed in 0..SEEDS {
        let mut run = Run::new(seed, 0.3);
        run.advance(Duration::from_secs(100));
        run.set_loss(0.0);
        // A timer that runs may have been set by the RTO as it is, and not later than now.
        let pending = run.rtos().into_iter().max().expect("two of them");
        run.advance(pending + 20 * DELAY);
        assert_eq!(run.rtos(), [Duration::from_secs(1); 2], "seed {seed}");
        let before = run.exchanges();
        run.advance(Duration::from_secs(1));
        let rate = run.exchanges() - before;
        assert!(rate >= 390, "{rate} exchanges a second, seed {seed}");
    }
}

/// Two hosts that play.
struct Run {
    seed: u64,
    simulation: Simulation<PingPong>,
    hosts: [HostId; 2],
}

impl Run {
    fn new(seed: u64, loss: f64) -> Run {
        let start = Instant::now();
        let mut simulation = Simulation::new(start);
        let config = EndpointConfig::default()
            // However often a packet and its retransmissions are lost: the peer is there.
            .association_max_retrans(1000)
            .max_init_retransmits(1000);
        let mut host = |address, streams, random| {
            let endpoint = Endpoint::new(PORT, config.clone(), generator(seed, random).random());
            simulation.add_host(PingPong::new(address, endpoint, streams), &[address])
        };
        let hosts = [host(CLIENT, 0..4, 1), host(SERVER, 4..8, 2)];
        simulation.host_mut(hosts[0]).connect(start, SERVER, PORT);
        let mut run = Run {
            seed,
            simulation,
            hosts,
        };
        run.set_loss(loss);
        run
    }

    /// Lays links that lose so much, in both directions.
    fn set_loss(&mut self, loss: f64) {
        let config = LinkConfig {
            loss: loss.into(),
            delay: DELAY,
            ..LinkConfig::default()
        };
        for (from, to, random) in [(CLIENT, SERVER, 3), (SERVER, CLIENT, 4)] {
            let link = Link::new(config.clone(), generator(self.seed, random));
            self.simulation.connect(from, to, link);
        }
    }

    fn advance(&mut self, duration: Duration) {
        let end = self.simulation.now() + duration;
        assert_eq!(self.simulation.run(end, |_| false), Ok(Stop::TimeUp));
    }

    fn exchanges(&self) -> u64 {
        self.hosts
            .map(|host| self.simulation.host(host).exchanges())
            .into_iter()
            .sum()
    }

    /// The RTO of each host.
    fn rtos(&self) -> [Duration; 2] {
        self.hosts.map(|host| self.simulation.host(host).rto())
    }
}

/// A stream of random numbers that no other part of the run uses.
fn generator(seed: u64, stream: u64) -> ChaCha12Rng {
    let mut rng = ChaCha12Rng::seed_from_u64(seed);
    rng.set_stream(stream);
    rng
}
