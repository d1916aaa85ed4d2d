//! What carries packets from the one host to the other.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context;
use emulator::{Device, DriverConfig, Emulator, InterfaceId, NetworkConfig};
use namespace::{Namespace, NextHop};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::os::fd::AsFd;

use super::hosts::{ADDRESSES, Hosts, default_route, network};
use crate::cpu;

/// Carries packets.
pub(super) trait Carrier {
    /// The two hosts.
    fn hosts(&self) -> &[Namespace; 2];
    /// The CPU time of the thread that carries them; zero where there is none of its own.
    fn cpu(&self) -> anyhow::Result<Duration>;
}

/// A network in a box.
pub(super) struct Ours {
    namespaces: [Namespace; 2],
    emulator: Emulator,
}

/// A thread that reads from the one interface and writes to the other.
pub(super) struct BareCopy {
    namespaces: [Namespace; 2],
    /// Nanoseconds, as the thread last said.
    cpu: Arc<AtomicU64>,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// A third network namespace, with pairs of virtual Ethernet interfaces, whose kernel is the router.
pub(super) struct Kernel {
    namespaces: [Namespace; 2],
    _router: Namespace,
}

impl Ours {
    pub(super) fn new(hosts: Hosts, config: &NetworkConfig) -> anyhow::Result<Ours> {
        Ours::driven(hosts, config, DriverConfig::default())
    }

    pub(super) fn driven(
        hosts: Hosts,
        config: &NetworkConfig,
        driver: DriverConfig,
    ) -> anyhow::Result<Ours> {
        let devices = hosts.devices.into_iter().enumerate();
        let devices = devices.map(|(number, device)| (InterfaceId(number), device));
        let emulator = Emulator::spawn(network(config)?, devices.collect(), driver)?;
        Ok(Ours {
            namespaces: hosts.namespaces,
            emulator,
        })
    }
}

impl Carrier for Ours {
    fn hosts(&self) -> &[Namespace; 2] {
        &self.namespaces
    }

    fn cpu(&self) -> anyhow::Result<Duration> {
        Ok(self.emulator.processor_time()?)
    }
}

impl BareCopy {
    pub(super) fn new(hosts: Hosts) -> anyhow::Result<BareCopy> {
        let cpu = Arc::new(AtomicU64::new(0));
        let is_over = Arc::new(AtomicBool::new(false));
        let thread = std::thread::Builder::new().spawn({
            let (cpu, is_over) = (cpu.clone(), is_over.clone());
            move || copy(&hosts.devices, &cpu, &is_over)
        })?;
        Ok(BareCopy {
            namespaces: hosts.namespaces,
            cpu,
            is_over,
            thread: Some(thread),
        })
    }
}

fn copy([from, to]: &[Device; 2], cpu: &AtomicU64, is_over: &AtomicBool) {
    let mut buffer = vec![0; 1 << 16];
    while !is_over.load(Ordering::Relaxed) {
        while let Ok(Some(length)) = from.receive(&mut buffer) {
            to.send(&buffer[..length]).ok();
        }
        let used = cpu::of_thread().unwrap_or_default();
        cpu.store(used.as_nanos() as u64, Ordering::Relaxed);
        let readable = PollFd::new(from.as_fd(), PollFlags::POLLIN);
        poll(&mut [readable], PollTimeout::from(10_u8)).ok();
    }
}

impl Carrier for BareCopy {
    fn hosts(&self) -> &[Namespace; 2] {
        &self.namespaces
    }

    fn cpu(&self) -> anyhow::Result<Duration> {
        // It says so when there is nothing to copy: within 10 milliseconds.
        std::thread::sleep(Duration::from_millis(50));
        Ok(Duration::from_nanos(self.cpu.load(Ordering::Relaxed)))
    }
}

impl Drop for BareCopy {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}

impl Kernel {
    pub(super) fn new() -> anyhow::Result<Kernel> {
        let [left, right, router] = [Namespace::new()?, Namespace::new()?, Namespace::new()?];
        for (number, host) in [&left, &right].into_iter().enumerate() {
            let address = ADDRESSES[number];
            let gateway = address.replace(".0.2", ".0.1");
            let port = format!("port{number}");
            let mut netlink = router.netlink()?;
            netlink.add_veth(&port, "eth0", host)?;
            netlink.set_link_up(&port)?;
            netlink.add_address(&port, format!("{gateway}/24").parse()?)?;
            let mut netlink = host.netlink()?;
            netlink.set_link_up("lo")?;
            netlink.set_link_up("eth0")?;
            netlink.add_address("eth0", format!("{address}/24").parse()?)?;
            netlink.add_route(&default_route(NextHop::Gateway(gateway.parse()?))?)?;
        }
        router
            .run(|| std::fs::write("/proc/sys/net/ipv4/ip_forward", "1"))?
            .context("the kernel does not become a router")?;
        Ok(Kernel {
            namespaces: [left, right],
            _router: router,
        })
    }
}

impl Carrier for Kernel {
    fn hosts(&self) -> &[Namespace; 2] {
        &self.namespaces
    }

    fn cpu(&self) -> anyhow::Result<Duration> {
        Ok(Duration::ZERO)
    }
}
