//! Which core runs what.

use anyhow::{Context, bail};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

/// A core for the server and another one for the generator.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cores {
    server: usize,
    generator: usize,
}

impl Cores {
    /// The first and the last core that this process may use.
    pub(crate) fn find() -> anyhow::Result<Cores> {
        let allowed = affinity()?;
        let is_allowed = |core: &usize| allowed.is_set(*core).unwrap_or(false);
        let mut cores = (0..CpuSet::count()).filter(is_allowed);
        let (first, last) = (cores.next(), cores.next_back());
        let (Some(server), Some(generator)) = (first, last) else {
            bail!("server and generator need a core each, and there is one");
        };
        Ok(Cores { server, generator })
    }

    /// Runs `start` on the server's core. Processes that it starts stay there.
    pub(crate) fn server<T>(self, start: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
        pinned(self.server, start)
    }

    /// Runs `start` on the generator's core. Processes that it starts stay there.
    pub(crate) fn generator<T>(
        self,
        start: impl FnOnce() -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        pinned(self.generator, start)
    }
}

/// A process inherits the cores of the thread that starts it.
fn pinned<T>(core: usize, start: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
    let before = affinity()?;
    let mut only = CpuSet::new();
    only.set(core)?;
    pin(&only)?;
    let started = start();
    pin(&before)?;
    started
}

fn affinity() -> anyhow::Result<CpuSet> {
    sched_getaffinity(Pid::from_raw(0)).context("sched_getaffinity")
}

/// The calling thread.
fn pin(cores: &CpuSet) -> anyhow::Result<()> {
    sched_setaffinity(Pid::from_raw(0), cores).context("sched_setaffinity")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_thread_has_its_cores_back_afterwards() {
        let before = affinity().unwrap();
        let Ok(cores) = Cores::find() else {
            return;
        };
        let only = cores.generator(affinity).unwrap();
        assert!(only.is_set(cores.generator).unwrap());
        assert!(!only.is_set(cores.server).unwrap());
        assert_eq!(affinity().unwrap(), before);
    }
}
