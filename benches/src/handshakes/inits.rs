//! INITs answered, as in a flood of them from ever other addresses.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use bytes::Bytes;
use rand::SeedableRng;
use rand_chacha::ChaCha12Rng;
use sctp::Endpoint;

use super::pairs::per_cpu_second;
use super::scripted::{PORT, Script};
use crate::engines::tandem::{address, config};
use crate::engines::{Engine, dcsctp};

/// How far the clock goes on between two INITs: no faster than an endpoint answers them by default.
const BETWEEN: Duration = Duration::from_micros(10);

/// How many different INITs there are.
const DIFFERENT: u32 = 4096;

pub(super) fn ours_per_cpu_second(time: Duration) -> anyhow::Result<f64> {
    let mut now = Instant::now();
    let mut endpoint = Endpoint::new(PORT, config(), ChaCha12Rng::seed_from_u64(1).get_seed());
    let inits = inits()?;
    let mut next = 0;
    per_cpu_second(time, || {
        now += BETWEEN;
        next = (next + 1) % DIFFERENT;
        let init = inits.get(next as usize).context("no INIT")?;
        endpoint.handle_packet(now, address(next), init.clone());
        ensure!(endpoint.poll_transmit(now).is_some(), "no INIT ACK");
        Ok(())
    })
}

pub(super) fn dcsctp_per_cpu_second(time: Duration) -> anyhow::Result<f64> {
    let mut now = Instant::now();
    let mut socket = dcsctp::Engine::new(now);
    let inits: Vec<Vec<u8>> = inits()?.iter().map(|init| init.to_vec()).collect();
    let mut next = 0;
    per_cpu_second(time, || {
        now += BETWEEN;
        next = (next + 1) % DIFFERENT;
        let init = inits.get(next as usize).context("no INIT")?;
        socket.handle_packet(now, init.clone());
        ensure!(socket.transmit(now).is_some(), "no INIT ACK of dcSCTP");
        Ok(())
    })
}

fn inits() -> anyhow::Result<Vec<Bytes>> {
    let mut script = Script::new();
    (1..=DIFFERENT).map(|tag| script.init(tag)).collect()
}
