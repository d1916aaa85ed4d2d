//! `tandem load calls`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{bail, ensure};
use clap::{Args, ValueEnum};
use load::driver::{LoadPlan, Pace, Peers, Role, RunConfig, What};
use load::engine::{EngineConfig, RegistrationPlan};
use load::scenario;
use load::script::builtin::{self, AnswerPlan, CallPlan};
use load::script::{Pause, Script, ScriptId};
use serde::Serialize;

use super::common::{Network, Outputs, Population};
use super::job::{Job, Registration};
use super::scenarios::load_scenario;
use super::schedule::{Schedule, milliseconds};
use super::usage_error;
use crate::values::{count, duration, positive};

/// Register users and let them call each other.
///
/// Registers users 1 to n, who call, and n+1 to 2n, who answer; user i calls user n+i through the proxy that
/// --via names. Calls begin by a schedule, whatever became of earlier ones, and the lateness of the generator
/// is measured: a run that could not keep its schedule is marked invalid. With --closed a caller begins its
/// next call when the last has ended.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    #[command(flatten)]
    pub(super) network: Network,

    /// Callers, and as many callees [default: 100, or half of --users-file]
    #[arg(long, short = 'n', value_name = "N", value_parser = |text: &str| count(text, 1..=10_000_000).map(|users| users as u32),
          help_heading = "Users")]
    pub(super) users: Option<u32>,

    /// Which of the users this process has: split them over two machines
    #[arg(long, value_enum, default_value_t = Side::Both, help_heading = "Users")]
    pub(super) role: Side,

    /// Call this user, whom somebody else has registered or who is at --via, instead of callees of ours
    #[arg(long, short = 's', value_name = "USER", help_heading = "Users")]
    pub(super) service: Option<String>,

    /// Callers call the callees themselves, without a proxy: those of this process, or at --via
    #[arg(long, help_heading = "Users")]
    pub(super) direct: bool,

    /// Do not register: the proxy knows where the callees are
    #[arg(long, help_heading = "Users")]
    pub(super) no_register: bool,

    /// Registrations a second before the calls [default: as fast as they are answered]
    #[arg(long, value_name = "RATE", value_parser = positive, help_heading = "Users")]
    pub(super) register_rate: Option<f64>,

    #[command(flatten)]
    pub(super) population: Population,

    #[command(flatten)]
    pub(super) schedule: Schedule,

    /// Each caller begins its next call when the last has ended, instead of by a schedule
    #[arg(long, conflicts_with_all = ["rate", "arrivals", "ramp", "step"], help_heading = "Schedule")]
    pub(super) closed: bool,

    /// How long a call lasts from answer to BYE; a number alone is milliseconds
    #[arg(long, short = 'd', value_name = "TIME", value_parser = milliseconds, default_value = "0s",
          help_heading = "Calls")]
    pub(super) hold: Duration,

    /// How long callees ring before they answer
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "0s", help_heading = "Calls")]
    pub(super) ring: Duration,

    /// Callers cancel what nobody has answered for so long
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "32s", help_heading = "Calls")]
    pub(super) answer_within: Duration,

    /// What users do, instead of a plain call: a file in TOML, SIPp's XML, or the name of one built in
    ///
    /// docs/scenarios.md describes the files; `tandem load scenarios` lists what is built in.
    #[arg(long, value_name = "FILE", help_heading = "Calls")]
    pub(super) scenario: Option<PathBuf>,

    #[command(flatten)]
    pub(super) outputs: Outputs,
}

/// Which users a process has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Side {
    /// Callers and callees
    Both,
    /// Users 1 to n, who call
    Callers,
    /// Users n+1 to 2n, who answer until the program is told to end
    Callees,
}

const EXAMPLES: &str = "\
Examples:
  tandem proxy                                                    in another terminal: something to test
  tandem load calls --via 127.0.0.1 --users 1000 --rate 100 --duration 30s
  tandem load calls --via 127.0.0.1 -r 500 -m 10000 -d 5000 --transport tcp --html calls.html
  tandem load calls --via 'sips:proxy.example;transport=sctp' --auth user%d:secret --hold 30s --limit 5000
  tandem load calls --via 10.0.0.1 --role callees --users 1000    on one machine, and on the other:
  tandem load calls --via 10.0.0.1 --role callers --users 1000 --ramp 1000/60s
  tandem load calls --direct --role callers --via 127.0.0.1:5070 -s service -r 100 -m 1000
                                                                  as sipp -sn uac 127.0.0.1:5070 -r 100 -m 1000
  tandem load calls --via 127.0.0.1 --scenario rfc3665-3.8        a built-in flow

While it runs: + and - change the rate by 1, * and / by 10, p pauses, q ends when all calls have ended,
q again or Q ends at once.

Exit status: 0 every call went as it should, 1 one did not, 3 the generator did not keep its schedule: the
run is invalid, 97 ended before its time, 99 no call was made, 254 a socket cannot be bound, 255 something
else failed, 2 the arguments make no sense. All but 2 and 3 are SIPp's.";

/// What was asked for, for the document.
#[derive(Debug, Serialize)]
struct Parameters {
    via: Option<String>,
    transport: String,
    connections: &'static str,
    users: u32,
    role: &'static str,
    service: Option<String>,
    direct: bool,
    register: bool,
    rate_per_second: Option<f64>,
    arrivals: Option<&'static str>,
    ramp_to_per_second: Option<f64>,
    ramp_seconds: Option<f64>,
    step_per_second: Option<f64>,
    step_seconds: Option<f64>,
    rate_max_per_second: Option<f64>,
    calls: Option<u64>,
    duration_seconds: Option<f64>,
    limit: Option<u64>,
    hold_seconds: f64,
    ring_seconds: f64,
    scenario: Option<String>,
    retransmit: bool,
    authenticates: bool,
}

/// Makes the calls.
pub(super) async fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    check(&arguments);
    arguments.outputs.check()?;
    let job = job(&arguments).await?;
    let parameters = parameters(&arguments, &job);
    let results = job.run(&arguments.outputs).await?;
    results.show_and_write(&arguments.outputs, &parameters)
}

/// Ends the program where arguments make no sense together.
fn check(arguments: &Arguments) {
    let fail = |reason: &str| usage_error("calls", reason);
    let network = &arguments.network;
    if network.via.is_none() && !arguments.direct {
        fail("--via PROXY-URI is missing: whom the users talk to, such as --via 127.0.0.1");
    }
    if network.via.is_none() && arguments.role == Side::Callers && arguments.direct {
        fail("--via is missing: with --direct it says where the callees are");
    }
    if arguments.service.is_some() && arguments.role == Side::Callees {
        fail("--service says whom callers call: callees have no use for it");
    }
    if let Err(reason) = network.transport() {
        fail(&reason);
    }
    if let Err(reason) = arguments.schedule.plan() {
        fail(&reason);
    }
}

async fn job(arguments: &Arguments) -> anyhow::Result<Job> {
    let network = &arguments.network;
    let transport = network.transport().map_err(anyhow::Error::msg)?;
    let found = network.find(transport).await?;
    // With somebody else to call there are no callees here.
    let role = match (arguments.role, &arguments.service) {
        (Side::Both, None) => Role::Both,
        (Side::Both | Side::Callers, _) => Role::Callers,
        (Side::Callees, _) => Role::Callees,
    };
    let has_peers = arguments.service.is_none();
    let scripts = Scripts::new(arguments)?;
    let sides = if has_peers { 2 } else { 1 };
    let wanted = arguments.users;
    let (all, directory) = arguments.population.directory(
        |listed| {
            let in_file = listed.map(|listed| listed / sides);
            let users = wanted.or(in_file).unwrap_or(100);
            ensure!(
                users > 0,
                "the file names too few users: callers and callees are wanted"
            );
            Ok(users * sides)
        },
        arguments.service.as_deref(),
        scripts.is_scenario,
    )?;
    let users = all / sides;
    let domain = arguments.population.domain.clone();
    let config = RunConfig {
        transport,
        target: found.address,
        peer: found.peer.clone(),
        role,
        direct: arguments.direct,
        users,
        connections: network.connections.into(),
        local_ip: network.local_address,
        local_port: (network.local_port != 0).then_some(network.local_port),
        workers: network.workers.unwrap_or(0),
        engine: EngineConfig {
            directory: Arc::new(directory),
            domain: domain.unwrap_or_else(|| found.name.clone()),
            is_repeating: !network.no_retransmit,
            registration: RegistrationPlan {
                expires: arguments.population.expires,
                ..RegistrationPlan::default()
            },
            process: std::process::id(),
            ..EngineConfig::default()
        },
        scripts: scripts.all,
        transports: network.transports(),
        seed: arguments.population.seed,
        ..RunConfig::default()
    };
    let (count, time) = arguments.schedule.end();
    let pace = match role {
        Role::Callees => Pace::Serve {
            time: arguments.schedule.duration,
        },
        _ if arguments.closed => Pace::Closed { count, time },
        _ => Pace::Open(arguments.schedule.plan().map_err(anyhow::Error::msg)?),
    };
    let mut plan = LoadPlan::new(What::Script(CALLER), pace);
    if let Some(limit) = arguments.schedule.limit {
        plan.in_flight = limit as usize;
    }
    if !has_peers {
        for doing in &mut plan.work {
            doing.peers = Peers::Range {
                first: users + 1,
                count: 1,
            };
        }
    }
    let registers = !arguments.direct && !arguments.no_register;
    Ok(Job {
        title: format!("tandem load calls: {transport}:{}", found.name),
        noun: "calls",
        config,
        registration: registers.then_some(Registration {
            per_second: arguments.register_rate,
        }),
        plan,
    })
}

/// The place of the caller's script among those of a run.
const CALLER: ScriptId = ScriptId(0);

/// What users do.
struct Scripts {
    all: Vec<Arc<Script>>,
    is_scenario: bool,
}

impl Scripts {
    fn new(arguments: &Arguments) -> anyhow::Result<Scripts> {
        let hold = Pause::Fixed(arguments.hold);
        let call = builtin::call(&CallPlan {
            hold: hold.clone(),
            answer_within: Some(arguments.answer_within),
        })?;
        let answer = builtin::answer(&AnswerPlan {
            ring: Pause::Fixed(arguments.ring),
        })?;
        let (caller, callee) = match &arguments.scenario {
            None => (call, answer),
            Some(file) => {
                let options = scenario::Options { hold };
                let scenario = load_scenario(file, &options)?;
                match (scenario.caller, scenario.callee, arguments.role) {
                    (None, _, Side::Both | Side::Callers) => bail!(
                        "{} says what who is called does: give --role callees, or a scenario of a caller",
                        file.display()
                    ),
                    (caller, callee, _) => (caller.unwrap_or(call), callee.unwrap_or(answer)),
                }
            }
        };
        let all = [caller, callee, builtin::register()?];
        Ok(Scripts {
            all: all.into_iter().map(Arc::new).collect(),
            is_scenario: arguments.scenario.is_some(),
        })
    }
}

fn parameters(arguments: &Arguments, job: &Job) -> Parameters {
    let schedule = &arguments.schedule;
    let is_open = matches!(job.plan.pace, Pace::Open(_));
    let (calls, time) = schedule.end();
    Parameters {
        via: arguments.network.via.as_ref().map(|via| via.to_string()),
        transport: job.config.transport.to_string(),
        connections: arguments.network.connections.name(),
        users: job.config.users,
        role: match job.config.role {
            Role::Both => "both",
            Role::Callers => "callers",
            Role::Callees => "callees",
        },
        service: arguments.service.clone(),
        direct: arguments.direct,
        register: job.registration.is_some(),
        rate_per_second: is_open.then(|| schedule.per_second()),
        arrivals: is_open.then(|| schedule.arrivals.name()),
        ramp_to_per_second: schedule.ramp.map(|ramp| ramp.per_second),
        ramp_seconds: schedule.ramp.map(|ramp| ramp.time.as_secs_f64()),
        step_per_second: schedule.step.map(|step| step.per_second),
        step_seconds: schedule.step.map(|step| step.time.as_secs_f64()),
        rate_max_per_second: schedule.rate_max,
        calls,
        duration_seconds: time.map(|time| time.as_secs_f64()),
        limit: schedule.limit,
        hold_seconds: arguments.hold.as_secs_f64(),
        ring_seconds: arguments.ring.as_secs_f64(),
        scenario: arguments
            .scenario
            .as_ref()
            .map(|file| file.display().to_string()),
        retransmit: !arguments.network.no_retransmit,
        authenticates: arguments.population.authenticates(),
    }
}
