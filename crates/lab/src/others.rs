//! How busy this machine is with what is none of ours: where others take the processors, or it stands still, what was
//! timed proves nothing.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use std::{fmt, fs};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use nix::unistd::{SysconfVar, sysconf};

/// How often is looked.
const EVERY: Duration = Duration::from_secs(1);

/// Processors that others take in the mean of such a time at least where the machine counts as busy.
const BUSY: f64 = 0.5;

/// Who is woken so late, or later, has seen the machine stand still.
const STANDSTILL: Duration = Duration::from_millis(20);

/// Looks again and again how much processor time everything took, and how much of it groups of processes that are ours.
pub(crate) struct Others {
    seen: Vec<Seen>,
}

/// What was seen while one thing was watched.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    disturbance: Disturbance,
    /// The last look, while it is watched.
    last: Option<Look>,
}

/// What may have disturbed a measurement.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Disturbance {
    /// The most that others took from one look to the next, processors.
    taken: f64,
    /// How late somebody was woken at the latest.
    late: Duration,
}

impl Disturbance {
    #[cfg(test)]
    pub(crate) fn of(taken: f64, late: Duration) -> Disturbance {
        Disturbance { taken, late }
    }

    /// How many processors others took when they took most, if that is so many that nothing can be timed.
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

/// Processor time since whenever, seconds.
#[derive(Clone, Copy, Debug)]
struct Look {
    at: Instant,
    all: f64,
    ours: f64,
}

impl Others {
    /// For so many things that are watched one by one.
    pub(crate) fn new(count: usize) -> Others {
        Others {
            seen: vec![Seen::default(); count],
        }
    }

    /// Watches this one from now on. `ours` are the groups of processes that are ours beside this process.
    pub(crate) fn begin(&mut self, index: usize, ours: &[u32]) {
        if let Some(seen) = self.seen.get_mut(index) {
            *seen = Seen {
                disturbance: Disturbance::default(),
                last: Look::now(ours),
            };
        }
    }

    /// Somebody was woken so late.
    pub(crate) fn was_late(&mut self, late: Duration) {
        for seen in self.seen.iter_mut().filter(|seen| seen.last.is_some()) {
            seen.disturbance.late = seen.disturbance.late.max(late);
        }
    }

    /// Looks, if it is time to.
    pub(crate) fn look(&mut self, ours: &[u32]) {
        let now = Instant::now();
        let is_due = |seen: &&mut Seen| seen.is_due(now, EVERY);
        let mut due = self.seen.iter_mut().filter(is_due).peekable();
        if due.peek().is_none() {
            return;
        }
        if let Some(look) = Look::now(ours) {
            due.for_each(|seen| seen.add(look));
        }
    }

    /// What there was since this one began, which is watched no longer.
    pub(crate) fn end(&mut self, index: usize, ours: &[u32]) -> Disturbance {
        let Some(seen) = self.seen.get_mut(index) else {
            return Disturbance::default();
        };
        // A short time is told too roughly by clocks that tick.
        if seen.is_due(Instant::now(), EVERY / 4)
            && let Some(look) = Look::now(ours)
        {
            seen.add(look);
        }
        std::mem::take(seen).disturbance
    }
}

impl Seen {
    fn is_due(&self, now: Instant, every: Duration) -> bool {
        self.last.is_some_and(|last| now - last.at >= every)
    }

    fn add(&mut self, look: Look) {
        if let Some(taken) = self.last.replace(look).and_then(|last| look.taken(last)) {
            self.disturbance.taken = self.disturbance.taken.max(taken);
        }
    }
}

impl Look {
    fn now(ours: &[u32]) -> Option<Look> {
        let (all, ours) = all_of_machine().zip(of_groups(ours))?;
        Some(Look {
            at: Instant::now(),
            all,
            ours,
        })
    }

    /// Processors that others took since; nothing where processes of ours have gone whose time nobody knows.
    fn taken(&self, since: Look) -> Option<f64> {
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
        let look = |seconds, all, ours| Look {
            at: start + Duration::from_secs(seconds),
            all,
            ours,
        };
        let before = look(0, 100.0, 10.0);
        assert_eq!(look(2, 103.0, 12.0).taken(before), Some(0.5));
        assert_eq!(look(2, 102.0, 12.0).taken(before), Some(0.0));
        // One of ours has gone, with its time.
        assert_eq!(look(2, 103.0, 9.0).taken(before), None);
    }

    #[test]
    fn what_was_before_it_began_has_not_disturbed_it() {
        let mut others = Others::new(2);
        others.was_late(Duration::from_secs(1));
        for index in [0, 1, 2] {
            others.begin(index, &[]);
        }
        // A look is taken at once.
        assert!(others.seen.iter().all(|seen| seen.last.is_some()));
        others.seen[0].disturbance.taken = 1.5;
        others.was_late(Duration::from_millis(3));
        let late = |milliseconds| Disturbance::of(0.0, Duration::from_millis(milliseconds));
        assert_eq!(others.end(1, &[]).late, late(3).late);
        others.begin(1, &[]);
        others.was_late(Duration::from_millis(30));
        let seen = others.seen[0].disturbance;
        assert_eq!(seen, Disturbance::of(1.5, Duration::from_millis(30)));
        assert!(seen.is_any());
        assert_eq!(seen.by_others(), Some(1.5));
        assert!(late(30).is_any());
        assert_eq!(late(30).by_others(), None);
        assert!(!late(3).is_any());
        // What has ended is watched no longer.
        others.end(0, &[]);
        others.was_late(Duration::from_secs(1));
        others.look(&[]);
        assert_eq!(others.seen[0].disturbance, Disturbance::default());
        assert_eq!(others.end(2, &[]), Disturbance::default());
    }

    #[test]
    fn each_is_looked_at_when_it_is_time_for_it() {
        let mut others = Others::new(2);
        others.begin(0, &[]);
        others.begin(1, &[]);
        let at = |others: &Others, index: usize| others.seen[index].last.map(|last| last.at);
        let before = [at(&others, 0), at(&others, 1)];
        others.look(&[]);
        let long_ago = Instant::now().checked_sub(2 * EVERY);
        if let (Some(last), Some(then)) = (others.seen[0].last.as_mut(), long_ago) {
            last.at = then;
        }
        others.look(&[]);
        assert!(at(&others, 0) > before[0]);
        // The other may have been due on a machine that stood still.
        assert!(at(&others, 1) >= before[1]);
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
