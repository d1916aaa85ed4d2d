//! Associations set up and shut down in memory, one after another.

use std::time::{Duration, Instant};

use anyhow::ensure;
use rand::SeedableRng;
use rand_chacha::ChaCha12Rng;
use sctp::{AssociationId, Endpoint, Event};

use crate::cpu;
use crate::engines::tandem::{address, config};
use crate::engines::{Engine, dcsctp};

const PORT: u16 = 5000;

/// How far the clock goes on between two associations.
const BETWEEN: Duration = Duration::from_millis(1);

pub(super) fn ours_per_cpu_second(time: Duration) -> anyhow::Result<f64> {
    let mut pair = Pair::new();
    per_cpu_second(time, || pair.associate_and_end())
}

pub(super) fn dcsctp_per_cpu_second(time: Duration) -> anyhow::Result<f64> {
    let mut now = Instant::now();
    per_cpu_second(time, || {
        now += BETWEEN;
        let (mut client, mut server) = (dcsctp::Engine::new(now), dcsctp::Engine::new(now));
        client.connect();
        exchange(now, &mut client, &mut server);
        ensure!(client.is_up() && server.is_up(), "dcSCTP did not associate");
        client.shut_down();
        exchange(now, &mut client, &mut server);
        ensure!(
            client.is_closed() && server.is_closed(),
            "dcSCTP did not shut down"
        );
        Ok(())
    })
}

/// How often something can be done in a second of CPU time, tried for a `time` on the clock.
pub(super) fn per_cpu_second(
    time: Duration,
    mut action: impl FnMut() -> anyhow::Result<()>,
) -> anyhow::Result<f64> {
    for _ in 0..1000 {
        action()?;
    }
    let (begun, cpu, mut count) = (Instant::now(), cpu::of_thread()?, 0_u64);
    while begun.elapsed() < time {
        for _ in 0..100 {
            action()?;
        }
        count += 100;
    }
    let cpu = cpu::of_thread()?.saturating_sub(cpu);
    Ok(count as f64 / cpu.as_secs_f64())
}

/// Packets travel until both are quiet.
fn exchange<E: Engine>(now: Instant, client: &mut E, server: &mut E) {
    let mut quiet = false;
    while !quiet {
        quiet = true;
        while let Some(packet) = client.transmit(now) {
            server.handle_packet(now, packet);
            quiet = false;
        }
        while let Some(packet) = server.transmit(now) {
            client.handle_packet(now, packet);
            quiet = false;
        }
    }
}

/// Two of our endpoints.
struct Pair {
    now: Instant,
    client: Endpoint,
    server: Endpoint,
}

impl Pair {
    fn new() -> Pair {
        let endpoint =
            |seed| Endpoint::new(PORT, config(), ChaCha12Rng::seed_from_u64(seed).get_seed());
        Pair {
            now: Instant::now(),
            client: endpoint(1),
            server: endpoint(2),
        }
    }

    fn associate_and_end(&mut self) -> anyhow::Result<()> {
        self.now += BETWEEN;
        let id = self.client.connect(self.now, address(2), PORT)?;
        ensure!(self.exchange() == 2, "we did not associate");
        self.end(id)
    }

    fn end(&mut self, id: AssociationId) -> anyhow::Result<()> {
        self.client.shutdown(self.now, id)?;
        self.exchange();
        ensure!(
            self.client.association_count() + self.server.association_count() == 0,
            "we did not shut down"
        );
        Ok(())
    }

    /// Packets travel until both are quiet; how many ends came up.
    fn exchange(&mut self) -> usize {
        let mut quiet = false;
        let mut up = 0;
        while !quiet {
            quiet = true;
            while let Some(transmit) = self.client.poll_transmit(self.now) {
                self.server
                    .handle_packet(self.now, address(1), transmit.packet);
                quiet = false;
            }
            while let Some(transmit) = self.server.poll_transmit(self.now) {
                self.client
                    .handle_packet(self.now, address(2), transmit.packet);
                quiet = false;
            }
            for endpoint in [&mut self.client, &mut self.server] {
                while let Some(event) = endpoint.poll_event() {
                    up += usize::from(matches!(event, Event::CommunicationUp { .. }));
                }
            }
        }
        up
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_associations_come_and_go() {
        let mut pair = Pair::new();
        for _ in 0..100 {
            pair.associate_and_end().unwrap();
        }
    }

    #[test]
    fn those_of_dcsctp_come_and_go() {
        assert!(dcsctp_per_cpu_second(Duration::from_millis(1)).unwrap() > 0.0);
    }
}
