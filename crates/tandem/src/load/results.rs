//! What a run measured.

use std::time::Duration;

use load::arrivals::{Pattern, Validity};
use load::driver::{BackgroundTotal, LoadModel, MediaTotal, ProcessorTime};
use load::engine::{Counters, StepCount};
use load::statistics::{ArrivalCounts, Delays, Ends, Statistics};

use report::{
    Machine, Page, Period, Provenance, Section, Table, format_count, format_number, format_share,
};
use serde::Serialize;
use sip_net::WireStatistics;

use super::exit::Ending;
use super::job::{Done, Job};
use super::{background, media, page, tables};
use crate::demo::command_line;

/// What a run measured.
#[derive(Debug)]
pub(super) struct Results {
    title: String,
    noun: &'static str,
    period: Period,
    users: u64,
    pub(super) seed: u64,
    /// Attempts a second that were asked for, where they were the same all the time.
    requested_rate: Option<f64>,
    is_serving: bool,
    is_interrupted: bool,
    registration: Option<Registered>,
    /// How long the run took, from its first arrival on.
    pub(super) time: Duration,
    /// Of the registrations before it, too.
    pub(super) statistics: Statistics,
    pub(super) validity: Validity,
    counters: Counters,
    wire: WireStatistics,
    processor: ProcessorTime,
    tls_cipher_suite: Option<String>,
    background: Option<BackgroundTotal>,
    media: Option<Box<MediaTotal>>,
    /// Why not all was done, where something went wrong.
    pub(super) failure: Option<anyhow::Error>,
    /// Whether the file of attempts could be written.
    pub(super) records: anyhow::Result<()>,
    /// What the scenario calls its timers, by their numbers.
    timer_names: Vec<String>,
    /// The steps of the scenario and what became of them, where there is one.
    steps: Vec<(String, StepCount)>,
}

/// What came of the registrations before a run.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Registered {
    users: u64,
    registered: u64,
    seconds: f64,
}

impl Results {
    pub(super) fn new(
        job: Job,
        done: Done,
        period: Period,
        failure: Option<anyhow::Error>,
        is_interrupted: bool,
        records: anyhow::Result<()>,
    ) -> Results {
        let Done {
            registered: registration,
            outcome,
        } = done;
        let users = job.users();
        let scripts = job.config.scripts.iter();
        let timer_names = scripts
            .map(|script| script.timer_names())
            .max_by_key(|names| names.len())
            .unwrap_or_default()
            .to_vec();
        let steps = match (&outcome, job.shows_steps) {
            (Some(outcome), true) => tables::step_rows(&job.config.scripts, &outcome.steps),
            _ => Vec::new(),
        };
        let is_measured = job
            .registration
            .is_some_and(|registration| registration.is_measured);
        let registered = registration.as_ref().map(|outcome| Registered {
            users,
            registered: u64::from(outcome.registered),
            seconds: outcome.time.as_secs_f64(),
        });
        let last = outcome.as_ref().or(registration.as_ref());
        let time = outcome
            .as_ref()
            .map_or(Duration::ZERO, |outcome| outcome.time);
        let mut statistics = match last {
            Some(last) => last.statistics.clone(),
            None => Statistics::new(std::time::Instant::now(), job.config.interval),
        };
        if let (Some(registration), Some(_)) = (&registration, &outcome) {
            add_registrations(&mut statistics, &registration.statistics);
            if is_measured {
                statistics.arrivals = registration.statistics.arrivals;
                statistics.lateness.merge(&registration.statistics.lateness);
            }
        }
        if outcome.is_none() && !is_measured {
            // Those of the registrations are not what the schedule is about.
            statistics.arrivals = ArrivalCounts::default();
        }
        let mut validity = Validity::default();
        let measured = registration.iter().filter(|_| is_measured);
        for outcome in measured.chain(&outcome) {
            let objections = &outcome.validity.objections;
            validity.objections.extend_from_slice(objections);
        }
        let requested_rate = match job.plan.model {
            LoadModel::Serve { .. } if is_measured => job
                .registration
                .and_then(|registration| registration.per_second),
            LoadModel::Open(plan) => match plan.pattern {
                Pattern::Constant { per_second } => Some(per_second),
                _ => None,
            },
            _ => None,
        };
        Results {
            period,
            users,
            seed: job.config.seed,
            requested_rate,
            is_serving: matches!(job.plan.model, LoadModel::Serve { .. }),
            is_interrupted,
            registration: registered,
            time,
            validity,
            counters: last.map(|last| last.counters).unwrap_or_default(),
            wire: last.map(|last| last.wire).unwrap_or_default(),
            processor: last.map(|last| last.processor).unwrap_or_default(),
            tls_cipher_suite: last.and_then(|last| last.tls_cipher_suite.clone()),
            background: last.and_then(|last| last.background.clone()),
            media: outcome.and_then(|outcome| outcome.media),
            statistics,
            title: job.title,
            noun: job.noun,
            failure,
            records,
            timer_names,
            steps,
        }
    }

    /// How the program is to end.
    pub(super) fn ending(&self) -> Ending {
        let statistics = &self.statistics;
        let failed = statistics.failed()
            + if self.is_serving {
                statistics.served.failed
            } else {
                0
            };
        let completed = statistics.completed() + statistics.served.completed;
        let is_nothing = failed == 0 && completed == 0;
        match () {
            () if self.is_interrupted => Ending::Interrupted,
            () if is_nothing && statistics.arrivals.started == 0 => Ending::Nothing,
            // What failed in an invalid run is not the server's doing.
            () if !self.validity.is_valid() => Ending::Invalid,
            () if failed > 0 => Ending::Failures,
            () if is_nothing => Ending::Nothing,
            () if statistics.arrivals.held_back > 0 => Ending::Failures,
            () => Ending::Well,
        }
    }

    /// The result in a sentence, which agrees with how the program ends.
    fn verdict(&self) -> String {
        let statistics = &self.statistics;
        let mut parts = Vec::new();
        if let Some(failure) = self.failure() {
            parts.push(format!("not completed: {failure}"));
        }
        match self.ending() {
            Ending::Interrupted => parts.push("interrupted".to_owned()),
            Ending::Nothing => parts.push("no attempt ended".to_owned()),
            Ending::Invalid => parts.push(format!("{}", self.validity)),
            Ending::Failures | Ending::Well => {}
        }
        let (_, noun) = self.attempts();
        let [calls, requests] = [statistics.calls, statistics.requests].map(|ends| (ends, noun));
        let registrations = (statistics.registrations, "registrations");
        let served = (statistics.served, "calls that came");
        let kinds = [calls, requests, registrations].into_iter();
        for (ends, noun) in kinds.chain(self.is_serving.then_some(served)) {
            if ends.decided() > 0 {
                let failed = format!("{noun} failed");
                parts.push(format_share(ends.failed, ends.decided(), &failed));
            }
        }
        if statistics.arrivals.held_back > 0 {
            parts.push(format!(
                "{} more were held back",
                format_count(statistics.arrivals.held_back)
            ));
        }
        parts.join("; ")
    }

    /// The most important in a few lines.
    pub(super) fn in_short(&self) -> Vec<String> {
        let statistics = &self.statistics;
        let arrivals = &statistics.arrivals;
        let mut lines = vec![self.title.clone()];
        if let Some(registration) = &self.registration {
            lines.push(format!(
                "Registered  {} of {} users in {} s",
                format_count(registration.registered),
                format_count(registration.users),
                format_number(registration.seconds, 2)
            ));
        }
        let seconds = self.time.as_secs_f64();
        if arrivals.offered > 0 {
            let offered = match self.requested_rate {
                Some(asked) => format!("{} a second asked for, ", format_number(asked, 1)),
                None => String::new(),
            };
            lines.push(format!(
                "Schedule    {offered}{} due, {} begun in {} s: {}",
                format_count(arrivals.offered),
                format_count(arrivals.started),
                format_number(seconds, 2),
                self.validity
            ));
        }
        if arrivals.held_back > 0 {
            lines.push(format!(
                "Held back   {} of them, because the maximum was in progress: {}",
                format_count(arrivals.held_back),
                match self.validity.is_valid() {
                    true => "the server did not keep up",
                    false => "the generator itself may be the cause",
                }
            ));
        }
        let (requests, noun) = self.attempts();
        if requests > 0 {
            let processor = self.processor.user + self.processor.system;
            let each =
                |time: Duration| format_number(time.as_secs_f64() * 1e6 / requests as f64, 1);
            lines.push(format!(
                "Generator   {} s of processor time: {} µs for each of {} {}, {} of it in the program",
                format_number(processor.as_secs_f64(), 2),
                each(processor),
                format_count(requests),
                noun,
                each(self.processor.user)
            ));
        }
        lines.push(format!(
            "Messages    {} sent, {} received; {} malformed, {} stray",
            format_count(self.counters.sent),
            format_count(self.counters.received),
            format_count(self.counters.malformed),
            format_count(self.counters.stray_responses + self.counters.stray_requests)
        ));
        for (count, what) in [
            (self.counters.redirections, "places that a 3xx had named"),
            (self.counters.failovers, "the second proxy"),
        ] {
            if count > 0 {
                lines.push(format!(
                    "Elsewhere   {} requests sent to {what}",
                    format_count(count)
                ));
            }
        }
        lines.extend(forks(&self.counters).map(|warning| format!("Forks       {warning}")));
        if let Some(suite) = &self.tls_cipher_suite {
            lines.push(format!("Security    TLS with {suite}"));
        }
        if self.wire.incoming_dropped > 0 {
            lines.push(format!(
                "Lost here   {} datagrams for which the generator's sockets had no room",
                format_count(self.wire.incoming_dropped)
            ));
        }
        if let Some(background) = &self.background {
            lines.push(background::in_short(background));
        }
        if let Some(media) = &self.media {
            lines.push(media::in_short(media));
        }
        lines
    }

    /// Attempts that our users made, and what they are called; registrations apart where there are others.
    fn attempts(&self) -> (u64, &'static str) {
        let statistics = &self.statistics;
        let all = |ends: Ends| ends.decided() + ends.unfinished;
        let own = all(statistics.calls) + all(statistics.requests);
        match own {
            0 if self.is_serving => (all(statistics.served), self.noun),
            0 => (all(statistics.registrations), "registrations"),
            own => (own, self.noun),
        }
    }

    /// All that was measured, as tables.
    pub(super) fn tables(&self) -> Vec<Table> {
        let timers: Vec<_> = self.timers().collect();
        let mut tables = tables::all(&self.statistics, &timers, self.time);
        tables.extend(tables::steps(&self.steps));
        tables.extend(self.media.as_deref().and_then(media::table));
        tables
    }

    pub(super) fn page(
        &self,
        machine: Machine,
        parameters: &impl Serialize,
    ) -> anyhow::Result<String> {
        let mut page = Page::new(self.title.clone(), self.verdict(), self.period);
        for line in self.in_short().into_iter().skip(1) {
            // The words stand in columns in a terminal.
            page = page.paragraph(match line.split_once("  ") {
                Some((label, rest)) => format!("{label}: {}", rest.trim_start()),
                None => line,
            });
        }
        let timers: Vec<_> = self.timers().collect();
        for section in page::sections(&self.statistics, &timers, self.requested_rate) {
            page = page.section(section);
        }
        if let Some(section) = self.media.as_deref().and_then(media::section) {
            page = page.section(section);
        }
        page = page.section(
            self.tables()
                .into_iter()
                .fold(Section::new("Figures"), Section::table),
        );
        Ok(page
            .provenance(Provenance {
                program: format!("tandem {}", env!("CARGO_PKG_VERSION")),
                machine,
                command: command_line(),
                seed: self.seed,
                parameters: flat(parameters)?,
            })
            .to_html())
    }

    /// Why not all was done, where something went wrong.
    pub(super) fn failure(&self) -> Option<String> {
        self.failure.as_ref().map(|failure| format!("{failure:#}"))
    }

    /// The times that the scenario takes by itself, by their names.
    pub(super) fn timers(&self) -> impl Iterator<Item = (&str, &Delays)> {
        let names = self.timer_names.iter().map(String::as_str);
        names.zip(&self.statistics.timers)
    }

    pub(super) fn registration(&self) -> Option<Registered> {
        self.registration
    }

    pub(super) fn requested_rate(&self) -> Option<f64> {
        self.requested_rate
    }

    pub(super) fn counters(&self) -> &Counters {
        &self.counters
    }

    pub(super) fn tls_cipher_suite(&self) -> Option<&str> {
        self.tls_cipher_suite.as_deref()
    }

    pub(super) fn wire(&self) -> &WireStatistics {
        &self.wire
    }

    pub(super) fn processor(&self) -> ProcessorTime {
        self.processor
    }

    pub(super) fn background(&self) -> Option<&BackgroundTotal> {
        self.background.as_ref()
    }

    pub(super) fn media(&self) -> Option<&MediaTotal> {
        self.media.as_deref()
    }

    pub(super) fn users(&self) -> u64 {
        self.users
    }
}

/// A warning where users have contacts that other runs have left: each call to them goes there, too.
pub(super) fn forks(counters: &Counters) -> Option<String> {
    let found = match counters.other_bindings {
        0 => return None,
        1 => "a registration found other contacts of its user".to_owned(),
        many => format!(
            "{} registrations found other contacts of their users",
            format_count(many)
        ),
    };
    Some(format!(
        "{found}: calls to them fork; --names gives users of other names"
    ))
}

/// Takes the registrations before a run into its figures; its series remain of the run alone.
fn add_registrations(statistics: &mut Statistics, before: &Statistics) {
    statistics.registrations.completed += before.registrations.completed;
    statistics.registrations.failed += before.registrations.failed;
    statistics.registrations.unfinished += before.registrations.unfinished;
    statistics.metrics.merge(&before.metrics);
    statistics.published.merge(&before.published);
    statistics.register_codes.merge(&before.register_codes);
    statistics.failures.merge(&before.failures);
    statistics.retransmissions += before.retransmissions;
    statistics.authentications += before.authentications;
}

/// The parameters as names and values.
pub(super) fn flat(parameters: &impl Serialize) -> anyhow::Result<Vec<(String, String)>> {
    let serde_json::Value::Object(members) = serde_json::to_value(parameters)? else {
        return Ok(Vec::new());
    };
    let members = members.into_iter().filter(|(_, value)| !value.is_null());
    Ok(members
        .map(|(name, value)| match value {
            serde_json::Value::String(text) => (name, text),
            other => (name, other.to_string()),
        })
        .collect())
}
