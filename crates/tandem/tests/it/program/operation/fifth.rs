//! The proxy held to a fifth of a processor by the kernel, so that the callers are not what saturates.

use std::fmt;
use std::fs;
use std::net::SocketAddr;
use std::time::Duration;

use load::arrivals::{Pattern, Plan as ArrivalPlan, Spacing};
use load::driver::{GeneratorConfig, LoadGenerator, LoadModel, LoadPlan};
use load::engine::EngineConfig;
use load::script::Pause;
use load::script::builtin::{AnswerPlan, CallPlan};
use load::statistics::Ends;
use test_support::{ControlGroup, say_skipped};

use super::watching::get;
use super::{PATIENCE, start_command};
use crate::program::support::{Proxy, tandem};

/// Of each of these periods the proxy may run a fifth. Short ones: a pause is no longer than a burst that the
/// sockets hold.
const PERIOD: Duration = Duration::from_millis(10);

/// Callers: so many that those who wait for their calls to end leave the proxy no pause, and so few that it
/// refuses none of them.
const USERS: u32 = 200;

/// A proxy of its own for each run: what an earlier one has left (its callees' bindings, transactions that
/// only wait for retransmissions) is not to burden the next.
fn start(group: &ControlGroup) -> std::io::Result<Proxy> {
    let mut command = tandem();
    command
        .args(["proxy", "--store", "memory:", "--workers", "1"])
        .args(["--listen", "udp:127.0.0.1:0", "--metrics", "127.0.0.1:0"])
        .env("TANDEM_LOG", "warn,tandem=info");
    let mut proxy = start_command(&mut command);
    proxy.peer.wait_for_output("metrics on http://", PATIENCE);
    group.take_in(proxy.peer.id())?;
    Ok(proxy)
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

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:.0} calls/s begun, {:.0} completed, {} in all failed, {} messages sent again, {:.1} % of a processor",
            self.attempted_per_second(),
            self.completed_per_second(),
            self.calls.failed,
            self.retransmissions,
            100.0 * self.share,
        )
    }
}

/// Calls of 20 ms, and what became of them.
fn call(proxy: &Proxy, model: LoadModel) -> Run {
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
        let mut load = LoadGenerator::start(GeneratorConfig {
            target,
            users: USERS,
            engine: EngineConfig {
                domain: target.to_string(),
                ..EngineConfig::default()
            },
            ..GeneratorConfig::calls(&plan, &AnswerPlan::default()).expect("scripts of its own")
        })
        .await
        .expect("it starts");
        load.register(None, Duration::from_secs(20))
            .await
            .expect("sockets");
        let before = processor_time(proxy);
        let plan = LoadPlan {
            drain: Some(Duration::ZERO),
            ..LoadPlan::new(GeneratorConfig::CALL, model)
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

/// A server without a defence completes next to nothing at twice what it can carry: it spends itself on calls that
/// their callers have given up. How near ours comes to its capacity is measured by `versus proxy-overload`, with a
/// program that is built for that; here it is that of tests, on a machine that has other things to do.
#[test]
fn held_to_a_fifth_of_a_processor_it_goes_on_completing_calls_at_twice_what_it_can_carry() {
    let group = match ControlGroup::new(PERIOD / 5, PERIOD) {
        Ok(group) => group,
        Err(error) => {
            say_skipped(&format!(
                "a control group needs root and the cpu controller: {error}"
            ));
            return;
        }
    };
    // Callers that wait for their calls to end never overload it.
    let proxy = match start(&group) {
        Ok(proxy) => proxy,
        Err(error) => {
            say_skipped(&format!(
                "a control group that takes processes of ours: {error}"
            ));
            return;
        }
    };
    let closed = call(
        &proxy,
        LoadModel::Closed {
            count: None,
            time: Some(Duration::from_secs(3)),
        },
    );
    drop(proxy);
    let capacity = closed.completed_per_second();
    println!("capacity: {closed}");
    let proxy = start(&group).expect("as before");
    let offered = 2.0 * capacity;
    let run = call(
        &proxy,
        LoadModel::Open(ArrivalPlan {
            pattern: Pattern::Constant {
                per_second: offered,
            },
            spacing: Spacing::Even,
            count: None,
            time: Some(Duration::from_secs(5)),
        }),
    );
    println!("at twice that: {run}");
    let (_, metrics) = get(&proxy, "/metrics");
    for line in metrics.lines().filter(|line| is_telling(line)) {
        println!("{line}");
    }
    let dropped = kernel_drops(proxy.port("udp"));
    println!("datagrams that the kernel has dropped: {dropped}");
    // Whether it can be judged depends on who else wants the processors.
    let is_starved = |run: &Run| run.share < 0.12;
    if run.attempted_per_second() < 0.9 * offered || is_starved(&closed) || is_starved(&run) {
        say_skipped("the machine is too busy for callers and proxy");
        return;
    }
    let refused = metrics
        .lines()
        .find_map(|line| line.strip_prefix("tandem_drops_total{reason=\"queue_delay\"} "))
        .and_then(|count| count.parse::<f64>().ok())
        .expect("a counter");
    // What fails is what was refused at once: no call that was taken on is given up.
    assert!(
        run.calls.failed as f64 <= 1.02 * refused + 20.0,
        "{run}, {refused} refused"
    );
    // Of what it could have done with the time that it got. Half of what is aimed at, which takes an idle machine:
    // `versus proxy-overload` measures that.
    let share = run.completed_per_second() / run.share / (capacity / closed.share);
    assert!(share > 0.4, "{share}");
}

/// Whether a line of the metrics says what has become of messages.
fn is_telling(line: &str) -> bool {
    let is_told = [
        "tandem_drops",
        "tandem_incoming_dropped",
        "tandem_queue_delay",
        "tandem_sip_absorbed",
        "tandem_sip_retransmissions",
    ]
    .iter()
    .any(|name| line.starts_with(name));
    is_told && !line.ends_with(" 0")
}
