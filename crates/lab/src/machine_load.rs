//! The load of the machine by other processes. If they take the processors, or the machine stands still, times that were
//! measured prove nothing.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use std::{fmt, fs};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use nix::unistd::{SysconfVar, sysconf};

/// How often the load is sampled.
const SAMPLE_INTERVAL: Duration = Duration::from_secs(1);

/// From so many processors on, taken by other processes on average over an interval, the machine counts as busy.
const BUSY: f64 = 0.5;

/// A thread that is woken so late, or later, has seen the machine stand still.
const STANDSTILL: Duration = Duration::from_millis(20);

/// Samples the processor time of the machine, and the part of it that our own groups of processes took.
pub(crate) struct MachineLoad {
    experiments: Vec<ExperimentLoad>,
}

/// What was sampled during one experiment.
#[derive(Clone, Copy, Debug, Default)]
struct ExperimentLoad {
    disturbance: Disturbance,
    /// The last sample, while the experiment runs.
    last: Option<Sample>,
}

/// What may have disturbed a measurement.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Disturbance {
    /// The most that other processes took from one sample to the next, processors.
    taken: f64,
    /// How late a thread was woken at most.
    late: Duration,
}

impl Disturbance {
    #[cfg(test)]
    pub(crate) fn of(taken: f64, late: Duration) -> Disturbance {
        Disturbance { taken, late }
    }

    /// The most processors that other processes took, if that is so many that nothing can be timed.
    pub(crate) fn by_others(&self) -> Option<f64> {
        (self.taken >= BUSY).then_some(self.taken)
    }

    /// Whether there was any.
    pub(crate) fn is_any(&self) -> bool {
        self.by_others().is_some() || self.late >= STANDSTILL
    }
}

impl fmt::Display for Disturbance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let taken = self.by_others();
        if let Some(taken) = taken {
            write!(f, "others took up to {taken:.1} processors")?;
        }
        if self.late >= STANDSTILL {
            let between = if taken.is_some() { ", " } else { "" };
            let late = self.late.as_millis();
            write!(f, "{between}somebody was woken {late} ms too late")?;
        }
        Ok(())
    }
}

/// Processor time since the machine started, seconds.
#[derive(Clone, Copy, Debug)]
struct Sample {
    at: Instant,
    all: f64,
    ours: f64,
}

impl MachineLoad {
    /// For so many experiments, each of which is watched by itself.
    pub(crate) fn new(count: usize) -> MachineLoad {
        MachineLoad {
            experiments: vec![ExperimentLoad::default(); count],
        }
    }

    /// Watches this experiment from now on. `ours` are the groups of processes that are ours beside this process.
    pub(crate) fn begin(&mut self, index: usize, ours: &[u32]) {
        if let Some(experiment) = self.experiments.get_mut(index) {
            *experiment = ExperimentLoad {
                disturbance: Disturbance::default(),
                last: Sample::now(ours),
            };
        }
    }

    /// A thread was woken so late.
    pub(crate) fn was_late(&mut self, late: Duration) {
        for experiment in self
            .experiments
            .iter_mut()
            .filter(|experiment| experiment.last.is_some())
        {
            experiment.disturbance.late = experiment.disturbance.late.max(late);
        }
    }

    /// Takes a sample, if it is time to.
    pub(crate) fn sample(&mut self, ours: &[u32]) {
        let now = Instant::now();
        let is_due = |experiment: &&mut ExperimentLoad| experiment.is_due(now, SAMPLE_INTERVAL);
        let mut due = self.experiments.iter_mut().filter(is_due).peekable();
        if due.peek().is_none() {
            return;
        }
        if let Some(sample) = Sample::now(ours) {
            due.for_each(|experiment| experiment.add(sample));
        }
    }

    /// The disturbance since this experiment began; it is watched no longer.
    pub(crate) fn end(&mut self, index: usize, ours: &[u32]) -> Disturbance {
        let Some(experiment) = self.experiments.get_mut(index) else {
            return Disturbance::default();
        };
        // Ticking clocks are too coarse for a short time.
        if experiment.is_due(Instant::now(), SAMPLE_INTERVAL / 4)
            && let Some(sample) = Sample::now(ours)
        {
            experiment.add(sample);
        }
        std::mem::take(experiment).disturbance
    }
}

impl ExperimentLoad {
    fn is_due(&self, now: Instant, every: Duration) -> bool {
        self.last.is_some_and(|last| now - last.at >= every)
    }

    fn add(&mut self, sample: Sample) {
        if let Some(taken) = self
            .last
            .replace(sample)
            .and_then(|last| sample.taken(last))
        {
            self.disturbance.taken = self.disturbance.taken.max(taken);
        }
    }
}

impl Sample {
    fn now(ours: &[u32]) -> Option<Sample> {
        let (all, ours) = all_of_machine().zip(of_groups(ours))?;
        Some(Sample {
            at: Instant::now(),
            all,
            ours,
        })
    }

    /// Processors that others took since; nothing where processes of ours have gone whose time nobody knows.
    fn taken(&self, since: Sample) -> Option<f64> {
        let ours = self.ours - since.ours;
        let others = self.all - since.all - ours;
        (ours >= 0.0).then(|| others / (self.at - since.at).as_secs_f64())
    }
}

/// Seconds that the processors have worked, or somebody else's machine has taken them away.
fn all_of_machine() -> Option<f64> {
    busy_ticks(&fs::read_to_string("/proc/stat").ok()?).map(seconds)
}

/// User, nice, system and steal of the first line of /proc/stat (proc_stat(5)). What interrupts take is left out: no
/// process is told of that.
fn busy_ticks(stat: &str) -> Option<u64> {
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    let ticks = line.split_whitespace().map(str::parse);
    let ticks: Vec<u64> = ticks.collect::<Result<_, _>>().ok()?;
    let of = |index: usize| ticks.get(index).copied().unwrap_or(0);
    Some(of(0) + of(1) + of(2) + of(7))
}

/// Seconds that this process, those that it has waited for, and those of such groups have worked.
fn of_groups(groups: &[u32]) -> Option<f64> {
    let mut total = 0.0;
    for who in [UsageWho::RUSAGE_SELF, UsageWho::RUSAGE_CHILDREN] {
        let usage = getrusage(who).ok()?;
        let time = usage.user_time() + usage.system_time();
        total += time.num_microseconds() as f64 / 1e6;
    }
    let groups: BTreeSet<u32> = groups.iter().copied().collect();
    for entry in fs::read_dir("/proc").ok()?.flatten() {
        let name = entry.file_name();
        let is_process = name
            .as_encoded_bytes()
            .first()
            .is_some_and(u8::is_ascii_digit);
        if !is_process {
            continue;
        }
        // One that has gone meanwhile has been waited for.
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        if let Some((group, ticks)) = group_and_ticks(&stat)
            && groups.contains(&group)
        {
            total += seconds(ticks);
        }
    }
    Some(total)
}

/// The group of a process, and its time with that of the children that it has waited for (proc_pid_stat(5)). The name
/// of its program stands in brackets, and may have any characters in it.
fn group_and_ticks(stat: &str) -> Option<(u32, u64)> {
    let (_, fields) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let ticks = fields.get(11..15)?.iter().map(|ticks| ticks.parse::<u64>());
    let ticks: Result<Vec<u64>, _> = ticks.collect();
    Some((fields.get(2)?.parse().ok()?, ticks.ok()?.iter().sum()))
}

fn seconds(ticks: u64) -> f64 {
    let per_second = sysconf(SysconfVar::CLK_TCK).ok().flatten();
    ticks as f64 / per_second.unwrap_or(100) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_tells_is_read() {
        let stat = "cpu  8905714 314139 1372887 6658621 85210 0 65329 30275 0 0\ncpu0 1 2 3 4\n";
        assert_eq!(
            busy_ticks(stat),
            Some(8_905_714 + 314_139 + 1_372_887 + 30_275)
        );
        assert_eq!(busy_ticks("cpu  1 2 3 4 5\n"), Some(6));
        for damaged in ["", "cpu  1 x 3\n", "intr 5\n"] {
            assert_eq!(busy_ticks(damaged), None, "{damaged}");
        }
        let stat =
            "29795 (a (b) c) R 29789 29780 16704 0 -1 4194304 101 0 0 0 7 8 9 10 20 0 1 0 8773347";
        assert_eq!(group_and_ticks(stat), Some((29_780, 34)));
        for damaged in ["", "1 (x) R 1 2", "1 x R 1 2 3 0 0 0 0 0 0 0 7 8 9 10"] {
            assert_eq!(group_and_ticks(damaged), None, "{damaged}");
        }
    }

    #[test]
    fn what_is_ours_is_not_that_of_others() {
        let start = Instant::now();
        let sample = |seconds, all, ours| Sample {
            at: start + Duration::from_secs(seconds),
            all,
            ours,
        };
        let before = sample(0, 100.0, 10.0);
        assert_eq!(sample(2, 103.0, 12.0).taken(before), Some(0.5));
        assert_eq!(sample(2, 102.0, 12.0).taken(before), Some(0.0));
        // One of ours has gone, with its time.
        assert_eq!(sample(2, 103.0, 9.0).taken(before), None);
    }

    #[test]
    fn what_was_before_it_began_has_not_disturbed_it() {
        let mut load = MachineLoad::new(2);
        load.was_late(Duration::from_secs(1));
        for index in [0, 1, 2] {
            load.begin(index, &[]);
        }
        // A sample is taken at once.
        assert!(
            load.experiments
                .iter()
                .all(|experiment| experiment.last.is_some())
        );
        load.experiments[0].disturbance.taken = 1.5;
        load.was_late(Duration::from_millis(3));
        let late = |milliseconds| Disturbance::of(0.0, Duration::from_millis(milliseconds));
        assert_eq!(load.end(1, &[]).late, late(3).late);
        load.begin(1, &[]);
        load.was_late(Duration::from_millis(30));
        let disturbance = load.experiments[0].disturbance;
        assert_eq!(disturbance, Disturbance::of(1.5, Duration::from_millis(30)));
        assert!(disturbance.is_any());
        assert_eq!(disturbance.by_others(), Some(1.5));
        assert!(late(30).is_any());
        assert_eq!(late(30).by_others(), None);
        assert!(!late(3).is_any());
        // What has ended is watched no longer.
        load.end(0, &[]);
        load.was_late(Duration::from_secs(1));
        load.sample(&[]);
        assert_eq!(load.experiments[0].disturbance, Disturbance::default());
        assert_eq!(load.end(2, &[]), Disturbance::default());
    }

    #[test]
    fn each_is_looked_at_when_it_is_time_for_it() {
        let mut load = MachineLoad::new(2);
        load.begin(0, &[]);
        load.begin(1, &[]);
        let at =
            |load: &MachineLoad, index: usize| load.experiments[index].last.map(|last| last.at);
        let before = [at(&load, 0), at(&load, 1)];
        load.sample(&[]);
        let long_ago = Instant::now().checked_sub(2 * SAMPLE_INTERVAL);
        if let (Some(last), Some(then)) = (load.experiments[0].last.as_mut(), long_ago) {
            last.at = then;
        }
        load.sample(&[]);
        assert!(at(&load, 0) > before[0]);
        // The other may have been due on a machine that stood still.
        assert!(at(&load, 1) >= before[1]);
    }

    #[test]
    fn a_process_that_works_is_seen() {
        let before = of_groups(&[]).expect("/proc is there");
        let end = Instant::now() + Duration::from_millis(50);
        while Instant::now() < end {
            std::hint::spin_loop();
        }
        assert!(of_groups(&[]).expect("/proc is there") > before);
        assert!(all_of_machine().expect("/proc is there") > 0.0);
    }
}
