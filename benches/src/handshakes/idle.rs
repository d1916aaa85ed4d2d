//! Idle associations of one endpoint, on a virtual clock; its peers are scripted.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use bytes::Bytes;
use rand::SeedableRng;
use rand_chacha::ChaCha12Rng;
use sctp::{Endpoint, EndpointConfig, PathAddress};
use serde::{Deserialize, Serialize};

use super::scripted::{PORT, Script};
use crate::engines::tandem::address;
use crate::process::print_report;
use crate::{cpu, memory};

/// How often timers and packets are looked at.
const STEP: Duration = Duration::from_millis(50);

/// All addresses begin with this.
const FIRST_ADDRESS: u32 = 0x0a00_0000;

/// What a process tells that held associations.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct IdleAssociations {
    associations: u32,
    bytes: u64,
    pub(super) seconds: f64,
    pub(super) cpu_seconds: f64,
    heartbeats: u64,
}

impl IdleAssociations {
    pub(super) fn bytes_each(&self) -> f64 {
        self.bytes as f64 / f64::from(self.associations)
    }
}

/// Sets up `count` associations and keeps them for a while on the virtual clock.
pub(crate) fn hold(count: u32, time: Duration) -> anyhow::Result<()> {
    let config = EndpointConfig::default();
    ensure!(
        config.max_associations >= count as usize,
        "an endpoint has at most {} associations",
        config.max_associations
    );
    let mut holder = Holder {
        now: Instant::now(),
        endpoint: Endpoint::new(PORT, config, ChaCha12Rng::seed_from_u64(1).get_seed()),
        script: Script::new(),
        tags: vec![0; count as usize],
        cpu: Duration::ZERO,
        heartbeats: 0,
    };
    let before = memory::proportional_set_size()?;
    holder.associate_all()?;
    let bytes = memory::proportional_set_size()?.saturating_sub(before);
    let begun = holder.now;
    holder.cpu = Duration::ZERO;
    while holder.now < begun + time {
        holder.step()?;
    }
    ensure!(
        holder.endpoint.association_count() == count as usize,
        "associations were lost"
    );
    print_report(&IdleAssociations {
        associations: count,
        bytes,
        seconds: time.as_secs_f64(),
        cpu_seconds: holder.cpu.as_secs_f64(),
        heartbeats: holder.heartbeats,
    })
}

struct Holder {
    now: Instant,
    endpoint: Endpoint,
    script: Script,
    /// Our verification tag for each peer.
    tags: Vec<u32>,
    /// CPU time of the endpoint, without that of its peers.
    cpu: Duration,
    heartbeats: u64,
}

impl Holder {
    /// They come over so much time that their heartbeats do not come all at once.
    fn associate_all(&mut self) -> anyhow::Result<()> {
        let mut until_step = 0;
        for number in 0..self.tags.len() {
            let from = address(number as u32);
            let init = self.script.init(number as u32 + 1)?;
            let init_ack = self.answer(from, init).context("no INIT ACK")?;
            let (tag, echo) = self.script.cookie_echo(&init_ack)?;
            self.answer(from, echo).context("no COOKIE ACK")?;
            while self.endpoint.poll_event().is_some() {}
            if let Some(known) = self.tags.get_mut(number) {
                *known = tag;
            }
            until_step += 1;
            if until_step == 2000 {
                until_step = 0;
                self.step()?;
            }
        }
        Ok(())
    }

    fn answer(&mut self, from: PathAddress, packet: Bytes) -> Option<Bytes> {
        self.endpoint.handle_packet(self.now, from, packet);
        self.endpoint
            .poll_transmit(self.now)
            .map(|transmit| transmit.packet)
    }

    /// Time goes on by a step; what is due is done, and the peers answer.
    fn step(&mut self) -> anyhow::Result<()> {
        self.now += STEP;
        let mut packets = Vec::new();
        let before = cpu::of_thread()?;
        if self
            .endpoint
            .next_timeout()
            .is_some_and(|due| due <= self.now)
        {
            self.endpoint.handle_timeout(self.now);
        }
        while let Some(transmit) = self.endpoint.poll_transmit(self.now) {
            packets.push(transmit);
        }
        self.cpu += cpu::of_thread()?.saturating_sub(before);

        let mut answers = Vec::new();
        for transmit in packets {
            let number = number_of(transmit.path).context("another address")?;
            let tag = self.tags.get(number).copied().context("no such peer")?;
            let answer = self.script.heartbeat_ack(tag, &transmit.packet)?;
            answers.extend(answer.map(|answer| (transmit.path, answer)));
        }

        self.heartbeats += answers.len() as u64;
        let before = cpu::of_thread()?;
        for (from, answer) in answers {
            self.endpoint.handle_packet(self.now, from, answer);
        }
        while self.endpoint.poll_event().is_some() {}
        self.cpu += cpu::of_thread()?.saturating_sub(before);
        Ok(())
    }
}

fn number_of(path: PathAddress) -> Option<usize> {
    match path.remote {
        std::net::IpAddr::V4(address) => {
            Some((u32::from(address).checked_sub(FIRST_ADDRESS)?) as usize)
        }
        std::net::IpAddr::V6(_) => None,
    }
}
