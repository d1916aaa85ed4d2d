//! Runs steps on emulated users.

use std::pin::pin;
use std::time::Duration;

use super::{Procedure, Step, StepResult, Workload, reasons, responses, what_came};
use crate::arrivals::{Objection, ValidityLimits};
use crate::driver::{
    GeneratorConfig, LoadError, LoadGenerator, LoadModel, LoadPlan, Outcome, Role, Task, TaskKind,
};
use crate::statistics::Statistics;

/// The users that a workload needs, and what they do.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The users. Where a step says how many callers there are, that many.
    pub config: GeneratorConfig,
    /// Other users, who only answer: callees that are not registered at the server.
    pub companions: Option<GeneratorConfig>,
    /// What callers do. For registrations it is of no account.
    pub tasks: Vec<Task>,
    /// Whether users register before the first step.
    pub registers: bool,
    /// Attempts that may be under way at a time.
    pub in_flight: usize,
}

impl Setup {
    /// Users who register and then do one thing.
    pub fn new(config: GeneratorConfig, task: TaskKind) -> Setup {
        let plan = LoadPlan::new(
            task,
            LoadModel::Serve {
                count: None,
                time: None,
            },
        );
        Setup {
            config,
            companions: None,
            tasks: plan.tasks,
            registers: true,
            in_flight: plan.in_flight,
        }
    }
}

/// Runs the steps of procedures, one after the other, against a server.
///
/// Users stay from step to step as long as the workload and their number are the same, but for ladders, whose
/// every step begins anew. Users who go remove their bindings: whoever is called later finds nobody who is not there. After a
/// step of [`Workload::Registrations`] bindings are removed, too, so that the next one finds a server that does not have them. It
/// takes as many callers as attempts, and bindings of an hour (RFC 7502 section 6.7).
#[derive(Debug)]
pub struct StepRunner {
    setups: Vec<(Workload, Setup)>,
    /// How long all users may take to register.
    register_within: Duration,
    /// Between steps, so that the server is rid of the last one.
    settle: Duration,
    present: Option<Present>,
    /// What TLS agreed on in the last step.
    tls_cipher_suite: Option<String>,
}

/// The users that there are.
#[derive(Debug)]
struct Present {
    workload: Workload,
    callers: u32,
    users: LoadGenerator,
    companions: Option<LoadGenerator>,
    /// What registering them showed, until a step takes it.
    registration: Option<Outcome>,
}

/// Why a step could not be run.
#[derive(Debug, thiserror::Error)]
pub enum StepError {
    /// The users could not be started, or stopped.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// Nobody said what to do.
    #[error("there are no users for {}", .0.name())]
    Workload(Workload),
    /// Users could not register, without whom a step says nothing.
    #[error(
        "{missing} of {users} users could not register within {} s ({came}): check that the server runs, accepts \
         registrations, and whether it requires --auth",
        .within.as_secs_f64()
    )]
    Unregistered {
        /// Users who did not.
        missing: u32,
        /// Users who were to.
        users: u32,
        /// How long they had.
        within: Duration,
        /// What came instead.
        came: String,
    },
}

impl StepRunner {
    /// A runner with users for these workloads. There are two seconds between steps, and users have a minute
    /// to register.
    pub fn new(setups: Vec<(Workload, Setup)>) -> StepRunner {
        StepRunner {
            setups,
            register_within: Duration::from_secs(60),
            settle: Duration::from_secs(2),
            present: None,
            tls_cipher_suite: None,
        }
    }

    /// Between steps it is quiet for so long.
    #[must_use]
    pub fn settle(mut self, settle: Duration) -> StepRunner {
        self.settle = settle;
        self
    }

    /// Users may take so long to register.
    #[must_use]
    pub fn register_within(mut self, within: Duration) -> StepRunner {
        self.register_within = within;
        self
    }

    /// Runs a procedure to its end. Before each step and after it somebody may look at what there is; who
    /// says `false` ends it.
    ///
    /// # Errors
    ///
    /// When users cannot be started or cannot register.
    pub async fn run(
        &mut self,
        procedure: &mut impl Procedure,
        mut look: impl FnMut(&Step, Option<&StepResult>) -> bool,
    ) -> Result<(), StepError> {
        while let Some(step) = procedure.next_step() {
            if !look(&step, None) {
                break;
            }
            let result = self.run_step(&step).await?;
            let goes_on = look(&step, Some(&result));
            procedure.handle_result(result);
            if !goes_on {
                break;
            }
            tokio::time::sleep(self.settle).await;
        }
        Ok(())
    }

    /// Runs one step.
    ///
    /// # Errors
    ///
    /// When users cannot be started or cannot register.
    pub async fn run_step(&mut self, step: &Step) -> Result<StepResult, StepError> {
        let setup = self
            .setups
            .iter()
            .find(|(workload, _)| *workload == step.workload)
            .map(|(_, setup)| setup.clone())
            .ok_or(StepError::Workload(step.workload))?;
        let mut present = self.users(step, &setup).await?;
        let plan = LoadPlan {
            tasks: tasks(step, &setup),
            model: LoadModel::Open(step.arrivals()),
            in_flight: setup.in_flight,
            drain: None,
        };
        let outcome = run_until_failure(&mut present.users, plan, step).await?;
        self.tls_cipher_suite.clone_from(&outcome.tls_cipher_suite);
        if step.workload == Workload::Registrations && outcome.statistics.completed() > 0 {
            let begun = outcome.statistics.arrivals.started;
            remove_bindings(&mut present, step, begun).await?;
        }
        let registration = present.registration.take();
        self.present = Some(present);
        Ok(result(step, outcome, registration))
    }

    /// The cipher suite that TLS agreed on in the last step, by its IANA name.
    pub fn tls_cipher_suite(&self) -> Option<&str> {
        self.tls_cipher_suite.as_deref()
    }

    /// Removes the bindings of the users that there are, and closes all connections.
    pub async fn shutdown(mut self) {
        self.leave().await;
    }

    /// The users for a step: those that there are, or new ones.
    async fn users(&mut self, step: &Step, setup: &Setup) -> Result<Present, StepError> {
        let mut callers = step.users.unwrap_or(setup.config.users);
        let each_is_new = step.workload == Workload::Registrations;
        if each_is_new {
            // RFC 7502 section 6.7: each registration is that of an address of record of its own.
            callers = callers.max(u32::try_from(step.attempts).unwrap_or(u32::MAX));
        }
        // A rung is to begin like the one before it.
        let is_fresh = step.workload == Workload::RegistrationsAndSessions;
        let is_right = |present: &mut Present| {
            let are_enough = match each_is_new {
                true => present.callers >= callers,
                false => present.callers == callers,
            };
            !is_fresh && present.workload == step.workload && are_enough
        };
        if let Some(present) = self.present.take_if(is_right) {
            return Ok(present);
        }
        self.leave().await;
        let companions = match &setup.companions {
            Some(config) => Some(LoadGenerator::start(config.clone()).await?),
            None => None,
        };
        let mut users = LoadGenerator::start(GeneratorConfig {
            users: callers,
            ..setup.config.clone()
        })
        .await?;
        let mut registration = None;
        if setup.registers && step.workload != Workload::Registrations {
            let outcome = users.register(None, self.register_within).await?;
            let all = match setup.config.role {
                Role::Both => callers.saturating_mul(2),
                Role::Callers | Role::Callees => callers,
            };
            // On a ladder those who could not register are part of what is measured.
            let must_all = step.workload != Workload::RegistrationsAndSessions;
            if outcome.registered < all && must_all {
                return Err(StepError::Unregistered {
                    missing: all - outcome.registered,
                    users: all,
                    within: self.register_within,
                    came: what_came(
                        &responses(&outcome.statistics),
                        &reasons(&outcome.statistics),
                    ),
                });
            }
            registration = Some(outcome);
        }
        Ok(Present {
            workload: step.workload,
            callers,
            users,
            companions,
            registration,
        })
    }

    async fn leave(&mut self) {
        if let Some(mut present) = self.present.take() {
            let within = present.users.time_to_unregister();
            // What the registrar does not take back expires by itself, and what has stopped is not there to be asked.
            let _ = present.users.unregister(within).await;
            present.users.shutdown().await;
            if let Some(companions) = present.companions {
                companions.shutdown().await;
            }
        }
    }
}

/// What callers do in a step.
fn tasks(step: &Step, setup: &Setup) -> Vec<Task> {
    match step.workload {
        Workload::Registrations | Workload::Reregistrations => {
            LoadPlan::new(
                TaskKind::Register,
                LoadModel::Serve {
                    count: None,
                    time: None,
                },
            )
            .tasks
        }
        _ => setup.tasks.clone(),
    }
}

/// By so many attempts workers may be apart when a step ends before its time.
const SLACK: u64 = 1000;

/// Removes the bindings of the callers who may have one, the first of them: at half the rate of the step,
/// which may have been more than the server can take.
async fn remove_bindings(present: &mut Present, step: &Step, begun: u64) -> Result<(), LoadError> {
    // Workers begin the same number, but for what they begin at once.
    let bound = (begun + SLACK).min(u64::from(present.callers));
    let rate = (step.per_second / 2.0).max(1.0);
    let plan = LoadPlan::at_rate(TaskKind::Unregister, rate, bound);
    present.users.run(plan).await.map(drop)
}

/// Runs a plan, and begins nothing more when a step has failed that may stop then.
async fn run_until_failure(
    users: &mut LoadGenerator,
    plan: LoadPlan,
    step: &Step,
) -> Result<Outcome, LoadError> {
    let mut live = users.live();
    let control = users.control();
    let mut run = pin!(users.run(plan));
    if !step.stops_at_failure {
        return run.await;
    }
    loop {
        tokio::select! {
            outcome = &mut run => return outcome,
            changed = live.changed() => {
                if changed.is_err() {
                    return run.await;
                }
                if has_failed(step, &live.borrow_and_update().statistics) {
                    control.stop();
                    return run.await;
                }
            }
        }
    }
}

fn has_failed(step: &Step, statistics: &Statistics) -> bool {
    match step.workload {
        Workload::Sessions => statistics.metrics.session_requests > statistics.metrics.established,
        _ => statistics.failed() > 0,
    }
}

fn result(step: &Step, outcome: Outcome, registration: Option<Outcome>) -> StepResult {
    let mut statistics = outcome.statistics;
    let started = statistics.series.origin();
    let took = statistics
        .arrivals
        .last
        .map_or(outcome.time, |last| last.saturating_duration_since(started));
    let begun = statistics.arrivals.started;
    let mut background = outcome.background;
    let mut validity = outcome.validity;
    let is_part = step.workload == Workload::RegistrationsAndSessions;
    if let Some(registration) = registration.filter(|_| is_part) {
        let mut whole = registration.statistics;
        whole.merge(&statistics);
        statistics = whole;
        if let (Some(all), Some(before)) = (&mut background, &registration.background) {
            let is_of_background =
                |objection: &Objection| matches!(objection, Objection::Background { .. });
            all.merge(before);
            validity
                .objections
                .retain(|objection| !is_of_background(objection));
            validity.judge_background(&ValidityLimits::default(), all.sent, all.due());
        }
    }
    StepResult {
        begun,
        background,
        ..StepResult::new(step, statistics, took, validity)
    }
}
