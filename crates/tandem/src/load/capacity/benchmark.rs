//! The benchmark of RFC 7502: searches for rates, and the report of section 5.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use load::capacity::{
    Benchmark, End, RegistrationBenchmark, Search, SearchParameters, SessionBenchmark, Setup,
    StepRunner, StepSummary, TestSetup, Workload,
};
use load::driver::{Role, TaskKind};
use load::script::builtin;
use report::{format_count, format_number};

use super::{Callers, Measured, Measuring, name_of, say};
use crate::load::common::Sharing;

/// Users whom a step of registrations may have where no file names them.
const REGISTRANTS: u32 = 200_000;

impl Measuring<'_> {
    /// The benchmark.
    pub(super) async fn benchmark(&self) -> anyhow::Result<Measured> {
        let arguments = self.arguments;
        let workloads = &arguments.of;
        let registers = |workload: &Workload| *workload != Workload::Sessions;
        let registrants = match workloads.iter().any(registers) {
            true => Some(self.registrants()?),
            false => None,
        };
        let mut setups = Vec::new();
        if workloads.contains(&Workload::Sessions) {
            let callers = self.callers(arguments.users, "--users")?;
            setups.push((Workload::Sessions, self.calls(callers)?));
        }
        let most_registrations = registrants.as_ref().map(|users| u64::from(users.count));
        if let Some(users) = registrants {
            setups.extend(self.registrations(users)?);
        }
        let mut runner = StepRunner::new(setups).settle(arguments.settle);
        let mut steps = Vec::new();
        let mut ends = Vec::new();
        for workload in workloads {
            let mut search = Search::new(match workload {
                Workload::Registrations => SearchParameters {
                    workload: *workload,
                    attempts: most_registrations
                        .map_or(arguments.sessions, |most| most.min(arguments.sessions)),
                    most_attempts: most_registrations,
                    ..self.search_parameters()
                },
                _ => SearchParameters {
                    workload: *workload,
                    ..self.search_parameters()
                },
            });
            self.run(&mut runner, &mut search).await?;
            steps.extend_from_slice(search.steps());
            let end = search.end().unwrap_or(End::TooManySteps {
                best: StepSummary::highest_passed(search.steps()),
            });
            say(&format!("{}: {end}", name_of(*workload)));
            if matches!(end, End::TooFewUsers { .. }) && arguments.population.users_file.is_some() {
                say(
                    "each registration is that of another user: name more in --users-file, or begin at a lower --start",
                );
            }
            ends.push((*workload, end));
            if self.is_interrupted.load(Relaxed) {
                break;
            }
        }
        let tls_cipher_suite = runner.tls_cipher_suite().map(str::to_owned);
        runner.shutdown().await;
        let of = |wanted| {
            ends.iter()
                .find(|(workload, _)| *workload == wanted)
                .map(|(_, end)| *end)
        };
        let registration_rate = of(Workload::Registrations);
        let reregistration_rate = of(Workload::Reregistrations);
        Ok(Measured::Benchmark(Box::new(Benchmark {
            setup: TestSetup {
                tls_cipher_suite,
                ..self.setup()
            },
            sessions: of(Workload::Sessions).map(|end| SessionBenchmark {
                session_establishment_rate: end,
                is_media_relay: false,
            }),
            registrations: registration_rate.or(reregistration_rate).map(|_| {
                RegistrationBenchmark {
                    registration_rate,
                    reregistration_rate,
                    notes: Vec::new(),
                }
            }),
            deviations: self.deviations(&steps, most_registrations),
            steps,
        })))
    }

    pub(super) fn search_parameters(&self) -> SearchParameters {
        SearchParameters {
            start: self.arguments.start,
            attempts: self.arguments.sessions,
            ..SearchParameters::default()
        }
    }

    /// All who may register: those who are listed, or as many as a step may want.
    fn registrants(&self) -> anyhow::Result<Callers> {
        let asked = self.arguments.sessions as u32;
        let population = &self.arguments.population;
        // Steps that would be too short have more attempts, each of a user of its own.
        let all = |listed: Option<u32>| Ok(listed.unwrap_or_else(|| asked.max(REGISTRANTS)));
        let (count, directory) = population.directory("capacity", all, None, false)?;
        Ok(Callers {
            count,
            directory: Arc::new(directory),
        })
    }

    /// Users who are not registered before a step, and users who are.
    fn registrations(&self, users: Callers) -> anyhow::Result<[(Workload, Setup); 2]> {
        let asked = self.arguments.sessions as u32;
        let users = Callers {
            count: users.count.min(asked),
            ..users
        };
        let mut config = self.config(Role::Callers, users, vec![builtin::register()?]);
        // A search may take longer than it is until the first of them would be refreshed, beside what is measured.
        config.engine.registration.refresh_after = None;
        let setup = Setup::new(config, TaskKind::Register);
        let unregistered = Setup {
            registers: false,
            ..setup.clone()
        };
        Ok([
            (Workload::Registrations, unregistered),
            (Workload::Reregistrations, setup),
        ])
    }

    fn setup(&self) -> TestSetup {
        let shares = self.arguments.network.connections == Sharing::Shared;
        TestSetup {
            transport_to_dut: self.transport.to_string(),
            transport_from_dut: self.transport.to_string(),
            receives_on_one_connection: shares,
            sends_on_one_connection: shares,
            session_attempt_rate: self.arguments.start,
            session_duration_s: self.arguments.hold.as_secs_f64(),
            total_sessions_attempted: self.arguments.sessions,
            establishment_threshold_s: 32.0,
            is_challenged: self.arguments.population.authenticates(),
            ..TestSetup::default()
        }
    }

    /// Where it was measured otherwise than the RFC has it.
    fn deviations(&self, steps: &[StepSummary], most_registrations: Option<u64>) -> Vec<String> {
        let mut deviations = Vec::new();
        let asked = self.arguments.sessions;
        if asked != SearchParameters::ATTEMPTS {
            deviations.push(format!(
                "Each step attempts {} sessions or registrations; RFC 7502 section 4.10 has {}.",
                format_count(asked),
                format_count(SearchParameters::ATTEMPTS)
            ));
        }
        if let Some(most) = most_registrations.filter(|most| *most < asked) {
            deviations.push(format!(
                "Each step attempts no more than {} registrations: --users-file names no more users.",
                format_count(most)
            ));
        }
        if steps.iter().any(|step| step.attempted > asked) {
            let seconds = SearchParameters::LEAST_SECONDS;
            deviations.push(format!(
                "Steps beyond {} a second attempt more, so that each lasts at least {seconds} s and shows a rate, not \
                 a burst.",
                format_number(asked as f64 / seconds, 0)
            ));
        }
        deviations.extend(self.background_notes());
        deviations
    }
}
