//! The proxy held to a fifth of a processor by the kernel, so that the callers are not what saturates.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use load::arrivals::{Pattern, Plan as ArrivalPlan, Spacing};
use load::driver::{LoadPlan, LoadRun, Pace, RunConfig};
use load::engine::EngineConfig;
use load::script::Pause;
use load::script::builtin::{AnswerPlan, CallPlan};
use load::statistics::Ends;

use super::watching::get;
use super::{PATIENCE, start_command};
use crate::support::{Proxy, tandem};

/// Of each of these periods the proxy may run a fifth. Short ones: a pause is no longer than a burst that the
/// sockets hold.
const PERIOD: Duration = Duration::from_millis(10);

/// Callers: so many that those who wait for their calls to end leave the proxy no pause, and so few that it
/// refuses none of them.
const USERS: u32 = 200;

/// A control group of the kernel's CPU controller.
#[derive(Debug)]
struct ControlGroup {
    directory: PathBuf,
}

impl ControlGroup {
    /// One that may use a fifth of a processor, under version 1 or 2 of the controller.
    fn of_a_fifth() -> io::Result<ControlGroup> {
        let name = format!("tandem-overload-{}", std::process::id());
        let period = PERIOD.as_micros();
        let quota = period / 5;
        let (root, settings) = match Path::new("/sys/fs/cgroup/cgroup.controllers").exists() {
            true => {
                let root = Path::new("/sys/fs/cgroup");
                fs::write(root.join("cgroup.subtree_control"), "+cpu")?;
                (root, vec![("cpu.max", format!("{quota} {period}"))])
            }
            false => {
                let settings = vec![
                    ("cpu.cfs_period_us", period.to_string()),
                    ("cpu.cfs_quota_us", quota.to_string()),
                ];
                (Path::new("/sys/fs/cgroup/cpu"), settings)
            }
        };
        let directory = root.join(name);
        fs::create_dir(&directory)?;
        let group = ControlGroup { directory };
        for (file, value) in settings {
            fs::write(group.directory.join(file), value)?;
        }
        Ok(group)
    }

    fn take_in(&self, process: u32) -> io::Result<()> {
        fs::write(self.directory.join("cgroup.procs"), process.to_string())
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        // It goes when the last of its processes has.
        for _ in 0..100 {
            if fs::remove_dir(&self.directory).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// A proxy of its own for each run: what an earlier one has left (its callees' bindings, transactions that
/// only wait for retransmissions) is not to burden the next.
fn start(group: &ControlGroup) -> Proxy {
    let mut command = tandem();
    command
        .args(["proxy", "--store", "memory:", "--workers", "1"])
        .args(["--listen", "udp:127.0.0.1:0", "--metrics", "127.0.0.1:0"])
        .env("TANDEM_LOG", "warn,tandem=info");
    let mut proxy = start_command(&mut command);
    proxy.peer.wait_for_output("metrics on http://", PATIENCE);
    group.take_in(proxy.peer.id()).expect("it is ours");
    proxy
}

/// What became of a run.
#[derive(Debug)]
struct Run {
    calls: Ends,
    /// Messages that the users sent again.
    retransmissions: u64,
    time: Duration,
    /// What the proxy used of a processor.
    share: f64,
}

impl Run {
    fn completed_per_second(&self) -> f64 {
        self.calls.completed as f64 / self.time.as_secs_f64()
    }

    fn attempted_per_second(&self) -> f64 {
        (self.calls.decided() + self.calls.unfinished) as f64 / self.time.as_secs_f64()
    }
}

/// Calls of 20 ms, and what became of them.
fn call(proxy: &Proxy, pace: Pace) -> Run {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let target = SocketAddr::from(([127, 0, 0, 1], proxy.port("udp")));
        let hold = Pause::Fixed(Duration::from_millis(20));
        let plan = CallPlan {
            hold,
            ..CallPlan::default()
        };
        let mut load = LoadRun::start(RunConfig {
            target,
            users: USERS,
            engine: EngineConfig {
                domain: target.to_string(),
                ..EngineConfig::default()
            },
            ..RunConfig::calls(&plan, &AnswerPlan::default()).expect("scripts of its own")
        })
        .await
        .expect("it starts");
        load.register(None, Duration::from_secs(20))
            .await
            .expect("sockets");
        let before = processor_time(proxy);
        let plan = LoadPlan {
            drain: Some(Duration::ZERO),
            ..LoadPlan::new(RunConfig::CALL, pace)
        };
        let outcome = load.run(plan).await.expect("sockets");
        let used = processor_time(proxy) - before;
        let run = Run {
            calls: outcome.statistics.calls,
            retransmissions: outcome.statistics.retransmissions,
            time: outcome.time,
            share: used / outcome.time.as_secs_f64(),
        };
        load.shutdown().await;
        run
    })
}

/// Seconds of a processor that the proxy has used: fields 14 and 15 of /proc/PID/stat, in hundredths.
fn processor_time(proxy: &Proxy) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{}/stat", proxy.peer.id())).expect("it runs");
    let (_, fields) = stat.rsplit_once(") ").expect("a name in parentheses");
    let ticks = fields
        .split(' ')
        .skip(11)
        .take(2)
        .map(|ticks| ticks.parse::<f64>().expect("a number"));
    ticks.sum::<f64>() / 100.0
}

/// How many datagrams found no room at the socket of a port: the last column of /proc/net/udp.
fn kernel_drops(port: u16) -> u64 {
    let sockets = fs::read_to_string("/proc/net/udp").unwrap_or_default();
    let local = format!(":{port:04X} ");
    let of_port = sockets.lines().filter(|line| {
        line.find(&local)
            .is_some_and(|at| line[..at].trim_start().contains(": "))
    });
    of_port
        .filter_map(|line| line.split_whitespace().next_back()?.parse::<u64>().ok())
        .sum()
}

/// It measures, so it wants a machine of its own:
/// `cargo test --release -p tandem --test program fifth -- --ignored --nocapture`.
#[test]
#[ignore = "measures a processor's work: on a busy machine the callers cannot keep up; run it alone"]
fn held_to_a_fifth_of_a_processor_it_completes_most_of_what_it_can_at_twice_that() {
    let group = match ControlGroup::of_a_fifth() {
        Ok(group) => group,
        Err(error) => {
            println!("skipped: a control group needs root and the cpu controller: {error}");
            return;
        }
    };
    // Callers that wait for their calls to end never overload it.
    let proxy = start(&group);
    let closed = call(
        &proxy,
        Pace::Closed {
            count: None,
            time: Some(Duration::from_secs(10)),
        },
    );
    drop(proxy);
    let capacity = closed.completed_per_second();
    println!(
        "capacity {capacity:.0} calls/s: {:.1} % of a processor, {} calls failed, {} messages sent again",
        100.0 * closed.share,
        closed.calls.failed,
        closed.retransmissions,
    );

    let share = |times| {
        let share = overloaded(&group, capacity, times);
        println!("at {times} times that {:.0} % of it", 100.0 * share);
        share
    };
    let at_twice = share(2.0);
    // How it goes on from there is shown, not promised.
    share(4.0);
    assert!(at_twice > 0.8, "{at_twice}");
}

/// Offers a new proxy so many times its capacity, and gives the part of it that is completed.
fn overloaded(group: &ControlGroup, capacity: f64, times: f64) -> f64 {
    let proxy = start(group);
    let offered = times * capacity;
    let pace = Pace::Open(ArrivalPlan {
        pattern: Pattern::Constant {
            per_second: offered,
        },
        spacing: Spacing::Even,
        count: None,
        time: Some(Duration::from_secs(20)),
    });
    let run = call(&proxy, pace);
    let attempted = run.attempted_per_second();
    println!(
        "{attempted:.0} begun a second, {:.0} completed: {:.1} % of a processor, {} calls failed, \
         {} messages sent again",
        run.completed_per_second(),
        100.0 * run.share,
        run.calls.failed,
        run.retransmissions,
    );
    let (_, metrics) = get(&proxy, "/metrics");
    for line in metrics.lines() {
        let is_telling = [
            "tandem_drops",
            "tandem_incoming_dropped",
            "tandem_queue_delay",
            "tandem_sip_absorbed",
            "tandem_sip_retransmissions",
        ]
        .iter()
        .any(|name| line.starts_with(name));
        if is_telling && !line.ends_with(" 0") {
            println!("{line}");
        }
    }
    println!(
        "datagrams that the kernel has dropped: {}",
        kernel_drops(proxy.port("udp"))
    );
    assert!(attempted > 0.9 * offered, "the callers could not keep up");
    run.completed_per_second() / capacity
}
