//! What a run is to do, and what came of it.

use load::driver::{GeneratorConfig, LoadPlan, Outcome, Role};

/// What is to be done.
#[derive(Debug)]
pub(super) struct Job {
    /// The command and whom it is about, for whoever watches.
    pub(super) title: String,
    /// What the attempts are: `calls`.
    pub(super) noun: &'static str,
    /// Its name in the names of files.
    pub(super) name: String,
    /// Whether what became of each step is shown.
    pub(super) shows_steps: bool,
    /// Whether the target is a server, or somebody who is called.
    pub(super) calls_the_target: bool,
    pub(super) config: GeneratorConfig,
    /// How users register before they begin, unless they do not.
    pub(super) registration: Option<Registration>,
    /// Whether their bindings are removed at the end.
    pub(super) unregisters: bool,
    pub(super) plan: LoadPlan,
}

/// What came of a job, as far as it was done.
#[derive(Debug, Default)]
pub(super) struct Done {
    /// The registrations before the run.
    pub(super) registered: Option<Outcome>,
    /// The run.
    pub(super) outcome: Option<Outcome>,
}

/// How users register.
#[derive(Clone, Copy, Debug)]
pub(super) struct Registration {
    /// How many a second, or as fast as the registrar answers.
    pub(super) per_second: Option<f64>,
    /// Whether that is what is measured, so that the generator has to have kept this rate.
    pub(super) is_measured: bool,
}

impl Job {
    /// Users of this process.
    pub(super) fn users(&self) -> u64 {
        let sides = match self.config.role {
            Role::Both => 2,
            Role::Callers | Role::Callees => 1,
        };
        sides * u64::from(self.config.users)
    }
}
