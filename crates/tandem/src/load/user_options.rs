//! Who calls whom, for the commands that emulate callers and callees.

use std::sync::Arc;

use anyhow::ensure;
use clap::{Args, ValueEnum};
use load::driver::{GeneratorConfig, LoadModel, LoadPlan, Peers, Role, TaskKind};
use load::engine::{EngineConfig, RegistrationPlan};
use load::script::{Script, ScriptId};
use serde::Serialize;

use super::background::{self, Traffic};
use super::common::{self, Network};
use super::job::{Job, Registration};
use super::population::{self, Population};
use super::schedule::{self, Schedule};
use crate::usage::refused;
use crate::values::{count, positive};

/// Who calls whom.
#[derive(Args, Debug)]
pub(super) struct UserOptions {
    /// Callers, and as many callees [default: 100, or half of --users-file]
    #[arg(long, short = 'n', value_name = "N",
          value_parser = |text: &str| count(text, 1..=10_000_000).map(|users| users as u32))]
    pub(super) users: Option<u32>,

    /// The users in this process, to split them over two machines
    #[arg(long, value_enum, default_value_t = RoleOption::Both, help_heading = "Users")]
    pub(super) role: RoleOption,

    /// Call this user, registered by another program or at --via, instead of emulated callees
    #[arg(long, short = 's', value_name = "USER", help_heading = "Users")]
    pub(super) service: Option<String>,

    /// Callers call callees directly, without a proxy: those of this process, or at --via
    #[arg(long, help_heading = "Users")]
    pub(super) direct: bool,

    /// Maximum number of redirections (3xx) that a request follows, all by way of --via; 0: none
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(..=1000),
          help_heading = "Users")]
    pub(super) redirections: u16,

    /// Do not register: the proxy already knows the callees
    #[arg(long, help_heading = "Users")]
    pub(super) no_register: bool,

    /// Leave users registered at the end, until their bindings expire
    #[arg(long, conflicts_with = "no_register", help_heading = "Users")]
    pub(super) keep_registered: bool,

    /// Registrations a second before the calls [default: as fast as they are answered]
    #[arg(long, value_name = "RATE", value_parser = positive, help_heading = "Users")]
    pub(super) register_rate: Option<f64>,

    #[command(flatten)]
    pub(super) traffic: Traffic,
}

/// Which users a process has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum RoleOption {
    /// Callers and callees
    Both,
    /// Users 1 to n, who call
    Callers,
    /// Users n+1 to 2n, who answer until the program is interrupted
    Callees,
}

/// The workload of one of the commands.
#[derive(Debug)]
pub(super) struct Workload {
    /// Its name: `calls`.
    pub(super) command: &'static str,
    /// What the attempts are called.
    pub(super) noun: &'static str,
    /// What users can do; the first is what callers do.
    pub(super) scripts: Vec<Script>,
    /// Whether a script uses fields of a file of users.
    pub(super) uses_fields: bool,
    /// The name of the run in the names of files, and whether its steps are shown.
    pub(super) name: String,
    pub(super) shows_steps: bool,
    /// Whether each caller begins again when it has ended.
    pub(super) is_closed: bool,
}

impl UserOptions {
    /// What makes no sense in the arguments, if something does not.
    pub(super) fn check(&self, network: &Network, schedule: &Schedule) -> Result<(), String> {
        if network.via.is_none() && !self.direct {
            return Err(
                "--via PROXY-URI is missing: whom the users talk to, such as --via 127.0.0.1"
                    .to_owned(),
            );
        }
        if network.via.is_none() && self.role == RoleOption::Callers {
            return Err("--via is missing: with --direct it says where the callees are".to_owned());
        }
        if self.service.is_some() && self.role == RoleOption::Callees {
            return Err("--service says whom callers call: callees have no use for it".to_owned());
        }
        network.transport()?;
        schedule.plan().map(drop)
    }

    /// All that is to be done.
    pub(super) async fn job(
        &self,
        workload: Workload,
        network: &Network,
        population: &Population,
        schedule: &Schedule,
    ) -> anyhow::Result<Job> {
        let transport = network.transport().map_err(refused)?;
        let found = network.find(transport).await?;
        // With somebody else to call there are no callees here.
        let role = match (self.role, &self.service) {
            (RoleOption::Both, None) => Role::Both,
            (RoleOption::Both | RoleOption::Callers, _) => Role::Callers,
            (RoleOption::Callees, _) => Role::Callees,
        };
        let sides = if self.service.is_none() { 2 } else { 1 };
        let (all, directory) = population.directory(
            workload.command,
            |listed| {
                let in_file = listed.map(|listed| listed / sides);
                let users = self.users.or(in_file).unwrap_or(100);
                ensure!(
                    users > 0,
                    "the file has too few users: callers and callees are needed"
                );
                Ok(users * sides)
            },
            self.service.as_deref(),
            workload.uses_fields,
        )?;
        let users = all / sides;
        let config = GeneratorConfig {
            role,
            direct: self.direct,
            users,
            background: self.traffic.plan(&network.i_may_test)?,
            engine: EngineConfig {
                directory: Arc::new(directory),
                domain: population.domain(&found),
                is_repeating: !network.no_retransmit,
                registration: RegistrationPlan {
                    expires: population.expires,
                    ..RegistrationPlan::default()
                },
                process: std::process::id(),
                maximum_targets: self.redirections.into(),
                ..EngineConfig::default()
            },
            scripts: workload.scripts.into_iter().map(Arc::new).collect(),
            ..network.config(&found, transport, population.seed())
        };
        let (count, time) = schedule.end();
        let pace = match role {
            Role::Callees => LoadModel::Serve {
                count: schedule.calls,
                time: schedule.time_limit(),
            },
            _ if workload.is_closed => LoadModel::Closed { count, time },
            _ => LoadModel::Open(schedule.plan().map_err(refused)?),
        };
        let mut plan = LoadPlan::new(TaskKind::Script(ScriptId(0)), pace);
        if let Some(limit) = schedule.limit {
            plan.in_flight = limit as usize;
        }
        if self.service.is_some() {
            for task in &mut plan.tasks {
                task.peers = Peers::Range {
                    first: users + 1,
                    count: 1,
                };
            }
        }
        let registers = !self.direct && !self.no_register;
        Ok(Job {
            title: format!(
                "tandem load {}: {transport}:{}",
                workload.command, found.name
            ),
            noun: workload.noun,
            name: workload.name,
            shows_steps: workload.shows_steps,
            calls_the_target: network.via.is_some() && role != Role::Callees,
            config,
            registration: registers.then_some(Registration {
                per_second: self.register_rate,
                is_measured: false,
            }),
            unregisters: registers && !self.keep_registered,
            plan,
        })
    }
}

/// What was asked for, for the document.
#[derive(Debug, Serialize)]
pub(super) struct Parameters {
    #[serde(flatten)]
    network: common::NetworkParameters,
    #[serde(flatten)]
    population: population::Parameters,
    users: u32,
    role: &'static str,
    service: Option<String>,
    direct: bool,
    redirections: Option<u16>,
    register: bool,
    register_rate_per_second: Option<f64>,
    keep_registered: Option<bool>,
    #[serde(flatten)]
    schedule: schedule::Parameters,
    #[serde(flatten)]
    background: background::Parameters,
}

impl Parameters {
    pub(super) fn new(
        user_options: Option<&UserOptions>,
        network: &Network,
        population: &Population,
        schedule: &Schedule,
        job: &Job,
    ) -> Parameters {
        Parameters {
            network: network.parameters(job.config.transport),
            population: population.parameters(),
            users: job.config.users,
            role: match job.config.role {
                Role::Both => "both",
                Role::Callers => "callers",
                Role::Callees => "callees",
            },
            service: user_options.and_then(|user_options| user_options.service.clone()),
            direct: job.config.direct,
            redirections: user_options.map(|user_options| user_options.redirections),
            register: job.registration.is_some(),
            register_rate_per_second: job
                .registration
                .and_then(|registration| registration.per_second),
            keep_registered: user_options.map(|user_options| user_options.keep_registered),
            schedule: schedule.parameters(&job.plan.model),
            background: background::Parameters::new(job.config.background.as_ref()),
        }
    }
}
