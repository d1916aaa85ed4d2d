//! `tandem load calls`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::bail;
use clap::Args;
use load::driver::LoadModel;
use load::script::builtin::{self, AnswerPlan, CallPlan};
use load::script::{First, Pause, Script};
use serde::Serialize;

use super::common::{Network, Outputs};
use super::media::{self, Media};
use super::population::Population;
use super::scenarios::{SippOptions, load_scenario};
use super::schedule::Schedule;
use super::traces;
use super::twins::TwinOptions;
use super::usage_error;
use super::user_options::{self, RoleOption, UserOptions, Workload};
use crate::usage::refused;
use crate::values::duration;

/// Register users and let them call each other.
///
/// Registers users 1 to n, who call, and n+1 to 2n, who answer; user i calls user n+i through the proxy named by
/// --via. Calls begin on a schedule, independent of earlier calls. The lateness of the generator is measured, and a
/// run that did not keep its schedule is marked invalid. With --closed, a caller begins its next call when its last
/// has ended.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    #[command(flatten)]
    pub(super) network: Network,

    #[command(flatten)]
    pub(super) user_options: UserOptions,

    #[command(flatten)]
    pub(super) population: Population,

    #[command(flatten)]
    pub(super) schedule: Schedule,

    /// Each caller begins its next call when its last has ended, instead of on a schedule
    #[arg(long, conflicts_with_all = ["rate", "arrivals", "ramp", "step"], help_heading = "Schedule")]
    pub(super) closed: bool,

    /// Duration of a call from answer to BYE; of -d, as SIPp has it, a number alone is in milliseconds
    #[arg(long, short = 'd', value_name = "TIME", value_parser = duration, default_value = "0s")]
    pub(super) hold: Duration,

    /// How long callees ring before they answer
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "0s", help_heading = "Calls")]
    pub(super) ring: Duration,

    /// Callers cancel a call that is not answered within this time
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "32s", help_heading = "Calls")]
    pub(super) answer_within: Duration,

    /// Scenario instead of a plain call: a file in TOML, SIPp's XML, or the name of a built-in one
    ///
    /// docs/scenarios.md describes the files; `tandem load scenarios` lists the built-in ones.
    #[arg(long, value_name = "FILE")]
    pub(super) scenario: Option<PathBuf>,

    #[command(flatten)]
    pub(super) sipp: SippOptions,

    #[command(flatten)]
    pub(super) twins: TwinOptions,

    #[command(flatten)]
    pub(super) media: Media,

    #[command(flatten)]
    pub(super) outputs: Outputs,
}

const EXAMPLES: &str = "\
Examples:
  tandem proxy                             in another terminal: the server under test
  tandem load calls --via 127.0.0.1 --users 1000 --rate 100 --duration 30s
  tandem load calls --via 127.0.0.1 -r 500 -m 10000 -d 5000 --transport tcp --html calls.html
  tandem load calls --via 'sips:proxy.example;transport=sctp' --auth user%d:secret --hold 30s
  tandem load calls --via 10.0.0.1 --role callees --users 1000     and on the other machine:
  tandem load calls --via 10.0.0.1 --role callers --users 1000 --ramp 1000/60s
  tandem load calls --direct --role callers --via 127.0.0.1:5070 -s service -r 100 -m 1000
      as sipp -sn uac 127.0.0.1:5070 -r 100 -m 1000
  tandem load calls --via 127.0.0.1 --hold 10s --media tone        with RTP, echoed by callees
  tandem load calls --via 127.0.0.1 --scenario rfc3665-3.8         a built-in scenario

Keys: + and - change the rate by 1, * and / by 10, p pauses, q ends when all calls have ended, q
again or Q ends at once.

Exit status: 0 every call succeeded, 1 one failed, 3 the run is invalid: the generator did not
keep its schedule, 97 interrupted, 99 no call was made, 254 a socket cannot be bound, 255 other
failure, 2 usage error. All except 2 and 3 are SIPp's.";

/// What was asked for, for the document.
#[derive(Debug, Serialize)]
struct Parameters {
    #[serde(flatten)]
    common: user_options::Parameters,
    hold_seconds: f64,
    ring_seconds: f64,
    answer_within_seconds: f64,
    closed: bool,
    scenario: Option<String>,
    #[serde(flatten)]
    media: media::Parameters,
}

/// Makes the calls.
pub(super) async fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let Arguments {
        network,
        user_options,
        population,
        schedule,
        outputs,
        ..
    } = &arguments;
    if let Err(reason) = user_options.check(network, schedule) {
        usage_error("calls", &reason);
    }
    outputs.check()?;
    let workload = Workload {
        command: "calls",
        noun: "calls",
        scripts: scripts(&arguments)?,
        uses_fields: arguments.scenario.is_some(),
        name: traces::name_of(arguments.scenario.as_deref(), "calls"),
        shows_steps: arguments.scenario.is_some(),
        is_closed: arguments.closed,
    };
    let mut job = user_options
        .job(workload, network, population, schedule)
        .await?;
    // What callers do is the first one; what begins with a command of another generator begins nothing by itself.
    if let Some(script) = job.config.scripts.first() {
        job.config.twins = arguments.twins.plan(script)?;
        if *script.first() == First::Commanded {
            job.plan.model = LoadModel::Serve {
                count: schedule.calls,
                time: schedule.time_limit(),
            };
        }
    }
    let plays = job.config.scripts.iter().any(|script| script.has_media());
    job.config.media = arguments.media.plan(&network.i_may_test, plays)?;
    let parameters = Parameters {
        common: user_options::Parameters::new(
            Some(user_options),
            network,
            population,
            schedule,
            &job,
        ),
        hold_seconds: arguments.hold.as_secs_f64(),
        ring_seconds: arguments.ring.as_secs_f64(),
        answer_within_seconds: arguments.answer_within.as_secs_f64(),
        closed: arguments.closed,
        scenario: arguments
            .scenario
            .as_ref()
            .map(|file| file.display().to_string()),
        media: arguments.media.parameters(),
    };
    let results = job.run(outputs).await?;
    results.show_and_write(outputs, &parameters)
}

/// What users do: what callers do comes first.
fn scripts(arguments: &Arguments) -> anyhow::Result<Vec<Script>> {
    let hold = Pause::Fixed(arguments.hold);
    let call = builtin::call(&CallPlan {
        hold: hold.clone(),
        answer_within: Some(arguments.answer_within),
    })?;
    let answer = builtin::answer(&AnswerPlan {
        ring: Pause::Fixed(arguments.ring),
        ..AnswerPlan::for_calls_of(arguments.hold)
    })?;
    let (caller, callee) = match &arguments.scenario {
        None => (call, answer),
        Some(file) => {
            let options = arguments.sipp.scenario_options(hold);
            let scenario = load_scenario(file, &options)?;
            if scenario.caller.is_none() && arguments.user_options.role != RoleOption::Callees {
                bail!(refused(format!(
                    "{} has only the steps of a callee: give --role callees, or a scenario with a caller",
                    file.display()
                )));
            }
            (
                scenario.caller.unwrap_or(call),
                scenario.callee.unwrap_or(answer),
            )
        }
    };
    Ok(vec![caller, callee, builtin::register()?])
}
