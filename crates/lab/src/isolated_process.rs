//! Experiments in isolated processes. A network namespace lives no longer than the process that holds it: an
//! experiment that hangs or is interrupted takes its networks along when its process is killed, and the other
//! experiments go on.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget};
use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use report::Stopwatch;

use crate::experiment::Experiment;
use crate::machine_load::{Disturbance, MachineLoad};
use crate::options::Options;
use crate::outcome::Outcome;
use crate::progress::{self, ProgressEvent, is_hidden};
use crate::results::{Result as Ran, Results};
use crate::verdict::Verdict;

/// How many experiments go on side by side, of those that leave the processor idle.
const AT_ONCE: usize = 3;

/// How often an experiment is run whose times or rates break the law on a disturbed machine.
const ATTEMPTS: usize = 3;

/// How often the processes are polled.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// How long a process that has reported its outcome may take to end.
const END_TIMEOUT: Duration = Duration::from_secs(10);

/// Runs each experiment in a process of its own, which `command` makes for an experiment's name: one that calls
/// [`run_in_this_process`](crate::run_in_this_process). Experiments that [leave the processor
/// idle](Experiment::is_light) run side by side. An experiment that takes longer than `longest` fails. An experiment
/// that fails only by times and rates, while other processes take this machine's processors or the machine stands
/// still, is repeated; it is skipped if the other processes never stop. When `interrupted` is set, experiments that have not
/// ended are skipped.
///
/// From now on this process is the parent of what its children leave.
pub fn run_isolated(
    experiments: &[&'static dyn Experiment],
    options: Options,
    longest: Duration,
    command: &dyn Fn(&'static str) -> io::Result<Command>,
    interrupted: &AtomicBool,
) -> Results {
    let stopwatch = Stopwatch::start();
    // Whose parent has gone is waited for here, and its time counts as ours. Without that it may be that of others.
    let _ = nix::sys::prctl::set_child_subreaper(true);
    let bars = match is_hidden() {
        true => MultiProgress::with_draw_target(ProgressDrawTarget::hidden()),
        false => MultiProgress::new(),
    };
    let mut outcomes: Vec<Option<Outcome>> = vec![None; experiments.len()];
    let mut waiting: Vec<usize> = Vec::new();
    for (index, experiment) in experiments.iter().enumerate() {
        if experiment.on().contains(&options.on) {
            waiting.push(index);
        } else {
            outcomes[index] = Some(Outcome::skipped(experiment.why_not(options.on)));
        }
    }
    let mut running: Vec<IsolatedProcess> = Vec::new();
    let mut machine_load = MachineLoad::new(experiments.len());
    let mut before: Vec<Vec<Attempt>> = vec![Vec::new(); experiments.len()];
    while !(waiting.is_empty() && running.is_empty()) {
        if interrupted.load(Ordering::Relaxed) {
            break;
        }
        let is_light = |index: usize| experiments[index].is_light(options.on);
        loop {
            let now: Vec<usize> = running
                .iter()
                .map(|process: &IsolatedProcess| process.index)
                .collect();
            let Some(place) = next(&waiting, &now, &is_light) else {
                break;
            };
            let index = waiting.remove(place);
            machine_load.begin(index, &groups(&running));
            match IsolatedProcess::start(index, experiments[index], longest, command, &bars) {
                Ok(process) => running.push(process),
                Err(error) => {
                    let why = format!("its process cannot be started: {error}");
                    outcomes[index] = Some(Outcome::failed(why));
                }
            }
        }
        let asleep = Instant::now();
        thread::sleep(POLL_INTERVAL);
        machine_load.was_late(asleep.elapsed().saturating_sub(POLL_INTERVAL));
        let groups = groups(&running);
        machine_load.sample(&groups);
        running.retain_mut(|process| {
            let Some(outcome) = process.poll() else {
                return true;
            };
            let index = process.index;
            let disturbance = machine_load.end(index, &groups);
            let why = outcome.why.clone();
            let judged = judge(outcome, disturbance, &before[index]);
            let took = process.began.elapsed().as_secs();
            let result = match &judged {
                Some(outcome) => outcome.verdict.to_string(),
                None => format!("fails on a machine that is disturbed, and is run again: {why}"),
            };
            if !is_hidden() {
                // Nobody may be reading any more.
                let name = process.name;
                let say = || writeln!(io::stderr(), "{name}: {result} ({took} s)").ok();
                bars.suspend(say);
            }
            if judged.is_none() {
                before[index].push(Attempt { why, disturbance });
                waiting.push(index);
            }
            outcomes[index] = judged;
            false
        });
    }
    // Those that still run are killed here.
    drop(running);
    let results = experiments
        .iter()
        .zip(outcomes.into_iter().zip(before))
        .map(|(experiment, (outcome, before))| Ran {
            experiment: *experiment,
            outcome: outcome.unwrap_or_else(|| {
                Outcome::skipped(format!("it was interrupted{}", earlier_runs(&before)))
            }),
        });
    Results::new(options, stopwatch.period(), results.collect())
}

/// A run that does not count: only times or rates broke the law, on a disturbed machine.
#[derive(Clone, Debug)]
struct Attempt {
    why: String,
    disturbance: Disturbance,
}

/// What came out in the end, after runs that did not count; nothing if it is to be found out again. A machine that is
/// disturbed breaks no law but those of times and rates, and so nothing else is looked at again: least of all a process
/// that has died or hangs. Those are void if others disturbed each of the runs; halts that the machine makes by itself
/// again and again are its own.
fn judge(mut outcome: Outcome, disturbance: Disturbance, before: &[Attempt]) -> Option<Outcome> {
    let is_by_time_alone = outcome.verdict == Verdict::Fails && outcome.is_by_time_alone;
    let run = before.len() + 1;
    if is_by_time_alone && disturbance.is_any() {
        if run < ATTEMPTS {
            return None;
        }
        let all = before.iter().map(|attempt| &attempt.disturbance);
        let taken = all.chain([&disturbance]).map(Disturbance::by_others);
        if let Some(taken) = taken.collect::<Option<Vec<f64>>>() {
            let taken: Vec<String> = taken.iter().map(|taken| format!("{taken:.1}")).collect();
            outcome.verdict = Verdict::Skipped;
            outcome.why = format!(
                "other processes used up to {} processors in its {run} runs, so the runs prove nothing: {}",
                taken.join(", "),
                outcome.why
            );
        }
    }
    if !before.is_empty() {
        let ordinal = ["1st", "2nd", "3rd"][before.len().min(ATTEMPTS - 1)];
        outcome.why += &format!(
            "; in the {ordinal} of at most {ATTEMPTS} runs{}",
            earlier_runs(before)
        );
    }
    Some(outcome)
}

/// The runs that did not count and what disturbed them, as the end of a sentence.
fn earlier_runs(before: &[Attempt]) -> String {
    let one = |attempt: &Attempt| format!("{} ({})", attempt.why, attempt.disturbance);
    match before {
        [] => String::new(),
        _ => format!(
            "; before: {}",
            before.iter().map(one).collect::<Vec<_>>().join(" | ")
        ),
    }
}

/// The groups of processes that are ours beside this process.
fn groups(running: &[IsolatedProcess]) -> Vec<u32> {
    running.iter().map(|process| process.child.id()).collect()
}

/// Which of those that wait may begin now, while others run: its place among them.
fn next(waiting: &[usize], running: &[usize], is_light: &dyn Fn(usize) -> bool) -> Option<usize> {
    if running.is_empty() {
        return (!waiting.is_empty()).then_some(0);
    }
    let may = running.len() < AT_ONCE && running.iter().all(|&index| is_light(index));
    let light = |&index: &usize| is_light(index);
    may.then(|| waiting.iter().position(light)).flatten()
}

/// An experiment that runs in a process of its own. The process is killed when this is dropped, and what its
/// networks leave is deleted.
struct IsolatedProcess {
    index: usize,
    name: &'static str,
    child: Child,
    events: Receiver<ProgressEvent>,
    bar: ProgressBar,
    began: Instant,
    longest: Duration,
}

impl IsolatedProcess {
    fn start(
        index: usize,
        experiment: &'static dyn Experiment,
        longest: Duration,
        command: &dyn Fn(&'static str) -> io::Result<Command>,
        bars: &MultiProgress,
    ) -> io::Result<IsolatedProcess> {
        let name = experiment.name();
        let mut child = command(name)?
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            // Ctrl-C is for this process alone, which then ends them in good order.
            .process_group(0)
            .spawn()?;
        let (sender, events) = channel();
        if let Some(output) = child.stdout.take() {
            thread::spawn(move || {
                // What is no line of ours a program on a host has printed.
                let lines = BufReader::new(output).lines().map_while(Result::ok);
                for event in lines.filter_map(|line| serde_json::from_str(&line).ok()) {
                    if sender.send(event).is_err() {
                        return;
                    }
                }
            });
        }
        let bar = bars.add(progress::bar());
        progress::begin(&bar, name);
        Ok(IsolatedProcess {
            index,
            name,
            child,
            events,
            bar,
            began: Instant::now(),
            longest,
        })
    }

    /// How it ended, if it has.
    fn poll(&mut self) -> Option<Outcome> {
        // Before its reports are read: none comes after its end.
        let ended = self.child.try_wait();
        for event in self.events.try_iter() {
            match event {
                ProgressEvent::Ended(outcome) => {
                    self.wait();
                    return Some(*outcome);
                }
                event => progress::show(&self.bar, event),
            }
        }
        let longest = self.longest.as_secs();
        match ended {
            Ok(Some(status)) => {
                // The last lines may still be in the pipe, or in the thread that reads it.
                let rest = self.events.recv_timeout(END_TIMEOUT);
                match rest {
                    Ok(ProgressEvent::Ended(outcome)) => Some(*outcome),
                    Ok(_) => None,
                    Err(_) => Some(Outcome::failed(format!(
                        "its process ended ({status}) without a result"
                    ))),
                }
            }
            Ok(None) if self.began.elapsed() > self.longest => Some(Outcome::failed(format!(
                "it did not end within {longest} s"
            ))),
            Ok(None) => None,
            Err(error) => Some(Outcome::failed(format!("its process is lost: {error}"))),
        }
    }

    /// Lets the process end by itself: it takes its networks down.
    fn wait(&mut self) {
        let end = Instant::now() + END_TIMEOUT;
        while Instant::now() < end && matches!(self.child.try_wait(), Ok(None)) {
            thread::sleep(POLL_INTERVAL / 5);
        }
    }
}

impl Drop for IsolatedProcess {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
        // Programs that it started on hosts are of its group. One that has ended already leaves its number to
        // no other before it is waited for.
        let was_killed = matches!(self.child.try_wait(), Ok(None));
        if let Ok(group) = i32::try_from(self.child.id()) {
            if was_killed {
                let _ = killpg(Pid::from_raw(group), Signal::SIGKILL);
                let _ = self.child.kill();
                let _ = self.child.wait();
            }
            wait_for_rest(group, was_killed);
        }
        // What cannot be deleted now is the next one's to delete.
        let _ = testbed::remote::sweep_inside();
    }
}

/// Waits for what a group's first process has left to this one; where they were killed, until they have ended.
fn wait_for_rest(group: i32, were_killed: bool) {
    let end = Instant::now() + END_TIMEOUT;
    while Instant::now() < end {
        match waitpid(Pid::from_raw(-group), Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::StillAlive) if were_killed => thread::sleep(POLL_INTERVAL / 5),
            Ok(WaitStatus::StillAlive) | Err(_) => return,
            Ok(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::Checks;
    use crate::context::Context;
    use crate::experiment::{About, On};

    /// An experiment that is a shell's script.
    struct Script(&'static str);

    impl Experiment for Script {
        fn name(&self) -> &'static str {
            self.0
        }

        fn source(&self) -> &'static str {
            "none"
        }

        fn title(&self) -> &'static str {
            "A script"
        }

        fn about(&self) -> About {
            About {
                topology: "None.",
                runs: "A script.",
                measures: "Nothing.",
                law: "None.",
                check: "None.",
            }
        }

        fn on(&self) -> &'static [On] {
            &[On::Net]
        }

        fn run(&self, _: On, _: &Context) -> anyhow::Result<Outcome> {
            unreachable!("it runs in a process of its own")
        }
    }

    fn run(scripts: &[&'static dyn Experiment], longest: Duration) -> Vec<Outcome> {
        let options = Options {
            on: On::Net,
            seed: 1,
            quick: true,
            profile: sctp::Profile::Signalling,
        };
        let command = |script| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            Ok(command)
        };
        let interrupted = AtomicBool::new(false);
        let results = run_isolated(scripts, options, longest, &command, &interrupted);
        let outcomes = results.results().iter();
        outcomes.map(|result| result.outcome.clone()).collect()
    }

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn what_a_process_tells_is_what_came_out() {
        static TELLS: Script = Script(
            r#"echo '{"steps":2}'; echo 'something else'; echo '"done"'; echo '{"begin":"more"}'
            echo '{"ended":{"verdict":"differs","why":"so","ours":{"a":1},"published":null,"tables":[],
            "plots":[],"notes":["x"]}}' | tr -d '\n'; echo"#,
        );
        let outcomes = run(&[&TELLS], LONG);
        assert_eq!(outcomes[0].verdict, Verdict::Differs);
        assert_eq!(outcomes[0].why, "so");
        assert_eq!(outcomes[0].ours, serde_json::json!({ "a": 1 }));
        assert_eq!(outcomes[0].notes, ["x"]);
    }

    #[test]
    fn one_that_hangs_fails_with_all_that_it_has_started_and_the_next_runs() {
        static HANGS: Script = Script("sleep 1000 & echo $! >$FILE; wait");
        static DIES: Script = Script("exit 3");
        let file = tempfile::NamedTempFile::new().expect("a file");
        let options = Options {
            on: On::Net,
            seed: 1,
            quick: true,
            profile: sctp::Profile::Signalling,
        };
        let command = |script| {
            let mut command = Command::new("sh");
            command.env("FILE", file.path()).args(["-c", script]);
            Ok(command)
        };
        const HUNG: &str = "it did not end within 2 s";
        let longest = Duration::from_secs(2);
        let run_both = || {
            std::fs::write(file.path(), "").expect("written");
            let interrupted = AtomicBool::new(false);
            let results = run_isolated(&[&HANGS, &DIES], options, longest, &command, &interrupted);
            let outcomes = results.results().iter().map(|result| {
                // However busy the machine is.
                assert_eq!(result.outcome.verdict, Verdict::Fails);
                result.outcome.why.clone()
            });
            let sleeper = std::fs::read_to_string(file.path()).expect("its number");
            (outcomes.collect::<Vec<_>>(), sleeper)
        };
        // Where the machine itself stood still for so long, the one has not begun or the other not ended.
        let (why, sleeper) = (0..5)
            .map(|_| run_both())
            .find(|(why, sleeper)| why[1] != HUNG && !sleeper.is_empty())
            .expect("two seconds are enough");
        assert_eq!(why[0], HUNG);
        assert!(
            why[1].starts_with("its process ended (exit status: 3)"),
            "{}",
            why[1]
        );
        // It has been waited for, too, so that its time is known to be ours.
        let process = format!("/proc/{}", sleeper.trim());
        assert!(!std::path::Path::new(&process).exists(), "{sleeper}");
    }

    fn late() -> Outcome {
        let mut checks = Checks::new();
        checks.law("time", 5.0, 0.0..=4.0, "ms");
        Outcome::judged(checks)
    }

    fn disturbed(taken: f64, milliseconds: u64) -> Disturbance {
        Disturbance::of(taken, Duration::from_millis(milliseconds))
    }

    fn attempts(disturbances: &[Disturbance]) -> Vec<Attempt> {
        let attempt = |(number, disturbance): (usize, &Disturbance)| Attempt {
            why: format!("so {number}"),
            disturbance: *disturbance,
        };
        disturbances.iter().enumerate().map(attempt).collect()
    }

    #[test]
    fn times_on_a_disturbed_machine_are_found_out_again() {
        let (busy, still) = (disturbed(1.5, 0), disturbed(0.1, 30));
        assert_eq!(judge(late(), Disturbance::default(), &[]), Some(late()));
        for disturbance in [busy, still] {
            assert_eq!(judge(late(), disturbance, &[]), None);
            assert_eq!(judge(late(), disturbance, &attempts(&[still])), None);
        }
        let holds = Outcome {
            verdict: Verdict::Holds,
            ..late()
        };
        assert_eq!(judge(holds.clone(), busy, &[]), Some(holds.clone()));
        let again = judge(holds, busy, &attempts(&[still])).expect("it holds");
        assert_eq!(again.verdict, Verdict::Holds);
        let told =
            "; in the 2nd of at most 3 runs; before: so 0 (somebody was woken 30 ms too late)";
        assert_eq!(again.why, late().why + told);
    }

    #[test]
    fn only_others_in_each_run_make_it_void() {
        let (busy, still) = (disturbed(1.5, 0), disturbed(0.1, 30));
        let last = |now, before: &[Disturbance]| {
            let outcome = judge(late(), now, &attempts(before)).expect("it is enough");
            (outcome.verdict, outcome.why)
        };
        let (verdict, why) = last(busy, &[disturbed(0.75, 30), disturbed(2.0, 0)]);
        assert_eq!(verdict, Verdict::Skipped);
        let begin = format!(
            "other processes used up to 0.8, 2.0, 1.5 processors in its 3 runs, so the runs prove nothing: \
             {}; \
             in the 3rd of at most 3 runs; before: so 0 (",
            late().why
        );
        assert!(why.starts_with(&begin), "{why}");
        for (now, before) in [
            (busy, [busy, still]),
            (busy, [still, busy]),
            (still, [busy, busy]),
            (Disturbance::default(), [busy, busy]),
        ] {
            let (verdict, why) = last(now, &before);
            assert_eq!(verdict, Verdict::Fails);
            assert!(
                why.starts_with(&late().why) && why.contains("before: so 0 ("),
                "{why}"
            );
        }
    }

    #[test]
    fn nothing_but_times_is_found_out_again() {
        let busy = disturbed(1.5, 30);
        let mut checks = Checks::new();
        checks.law("time", 5.0, 0.0..=4.0, "ms");
        checks.law("messages", 5.0, 4.0..=4.0, "messages");
        for outcome in [
            Outcome::judged(checks),
            Outcome::failed("it died".to_owned()),
        ] {
            assert_eq!(judge(outcome.clone(), busy, &[]), Some(outcome.clone()));
            let later = judge(outcome.clone(), busy, &attempts(&[busy, busy])).expect("it fails");
            assert_eq!(later.verdict, Verdict::Fails);
            assert!(later.why.starts_with(&outcome.why), "{}", later.why);
        }
    }

    #[test]
    fn whether_it_is_by_time_alone_is_told_by_its_process() {
        let line = serde_json::to_string(&ProgressEvent::Ended(Box::new(late()))).expect("JSON");
        let event: ProgressEvent = serde_json::from_str(&line).expect("what was written");
        assert_eq!(event, ProgressEvent::Ended(Box::new(late())));
        assert!(late().is_by_time_alone);
    }

    #[test]
    fn only_light_ones_run_side_by_side() {
        let is_light = |index| index % 2 == 1;
        assert_eq!(next(&[], &[], &is_light), None);
        assert_eq!(next(&[2, 3], &[], &is_light), Some(0));
        assert_eq!(next(&[3, 5], &[2], &is_light), None);
        assert_eq!(next(&[2, 4, 5], &[1, 3], &is_light), Some(2));
        assert_eq!(next(&[2, 4], &[1], &is_light), None);
        assert_eq!(next(&[9], &[1, 3, 5], &is_light), None);
    }
}
