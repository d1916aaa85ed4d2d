//! The page of all experiments of a run: verdicts, then each with its plots, tables and methods.

use report::{Machine, Page, Provenance, Section};
use sctp::Profile;

use crate::experiment::On;
use crate::options::Options;
use crate::results::{Result as Ran, Results};
use crate::verdict::Verdict;

impl Results {
    /// The self-contained page of all; `command` is what repeats them.
    pub fn to_html(&self, command: &str) -> String {
        page(self, command).to_html()
    }
}

/// The page; `command` repeats it.
fn page(results: &Results, command: &str) -> Page {
    let options = results.options();
    let title = match results.results() {
        [one] => format!("{}, repeated", one.experiment.title()),
        _ => "Published transport experiments, repeated".to_owned(),
    };
    let mut page = Page::new(title, headline(results), results.period())
        .paragraph(
            "Holds: the published finding is found again. Differs: Tandem obeys the law of the RFC, but the \
             published finding is not found on today's software or machines. Fails: Tandem breaks the law. \
             Skipped: it could not be run here.",
        )
        .paragraph(match options.on {
            On::Sim => {
                "On simulated hosts and a virtual clock. SCTP is the engine that also runs on \
                 sockets; TCP is smoltcp's with Reno, so nothing here says that SCTP is better than \
                 the TCP of a kernel."
            }
            On::Net => {
                "On real sockets in network namespaces of this machine, joined by the emulator. TCP \
                 is the kernel's with Reno."
            }
        })
        .contents()
        .section(
            Section::new("Verdicts")
                .named("verdicts")
                .table(results.verdicts()),
        );
    for result in results.results() {
        page = page.section(section(result, options));
    }
    page.provenance(Provenance {
        program: format!("tandem {}", env!("CARGO_PKG_VERSION")),
        machine: Machine::detect(),
        command: command.to_owned(),
        seed: options.seed,
        parameters: vec![
            ("on".to_owned(), options.on.to_string()),
            ("quick".to_owned(), options.quick.to_string()),
            (
                "profile of SIP over SCTP".to_owned(),
                options.profile.to_string(),
            ),
        ],
    })
}

/// The verdict of one experiment and its reason, or of several how many hold and which do not.
fn headline(results: &Results) -> String {
    let results = results.results();
    if let [one] = results {
        return format!("{}: {}", one.outcome.verdict, one.outcome.why);
    }
    let with = |verdict| {
        let with = results.iter();
        let with = with.filter(move |result| result.outcome.verdict == verdict);
        with.map(|result| result.experiment.name())
            .collect::<Vec<_>>()
    };
    let mut parts = vec![format!(
        "{} of {} experiments hold",
        with(Verdict::Holds).len(),
        results.len()
    )];
    for verdict in [Verdict::Fails, Verdict::Differs, Verdict::Skipped] {
        let names = with(verdict);
        if !names.is_empty() {
            parts.push(format!("{verdict}: {}", names.join(", ")));
        }
    }
    parts.join("; ")
}

/// One experiment.
fn section(result: &Ran, options: Options) -> Section {
    let Ran {
        experiment,
        outcome,
    } = result;
    let heading = format!(
        "{}: {} ({})",
        experiment.name(),
        experiment.title(),
        experiment.source()
    );
    let mut section = Section::new(heading)
        .named(experiment.name())
        .paragraph(format!(
            "{}: {}.",
            capitalised(&outcome.verdict.to_string()),
            outcome.why
        ));
    for plot in &outcome.plots {
        section = section.plot(plot.clone());
    }
    for table in &outcome.tables {
        section = section.table(table.clone());
    }
    for ladder in &outcome.ladders {
        section = section.ladder(ladder.clone());
    }
    for note in &outcome.notes {
        section = section.paragraph(note);
    }
    let about = experiment.about();
    for (name, text) in [
        ("Topology", about.topology),
        ("What runs", about.runs),
        ("What is measured", about.measures),
        ("Law", about.law),
        ("Check", about.check),
    ] {
        section = section.paragraph(format!("{name}. {text}"));
    }
    section.paragraph(format!(
        "To repeat it alone: {}",
        repeats(experiment.name(), options)
    ))
}

/// The command that runs one experiment alone as it was run here.
fn repeats(name: &str, options: Options) -> String {
    let Options {
        on,
        seed,
        quick,
        profile,
    } = options;
    let quick = if quick { " --quick" } else { "" };
    let profile = match profile {
        Profile::Signalling => String::new(),
        other => format!(" --profile {other}"),
    };
    format!("tandem lab run {name} --on {on} --seed {seed}{quick}{profile}")
}

fn capitalised(word: &str) -> String {
    let mut characters = word.chars();
    characters.next().map_or_else(String::new, |first| {
        first.to_ascii_uppercase().to_string() + characters.as_str()
    })
}

#[cfg(test)]
mod tests {
    use report::Stopwatch;

    use super::*;
    use crate::experiments;
    use crate::outcome::Outcome;

    #[test]
    fn the_verdicts_lead_to_their_parts() {
        let options = Options {
            on: On::Sim,
            seed: 1,
            quick: true,
            profile: Profile::Signalling,
        };
        let results = experiments::all().iter().map(|experiment| Ran {
            experiment: *experiment,
            outcome: Outcome::skipped("nothing was run"),
        });
        let period = Stopwatch::start().period();
        let html = Results::new(options, period, results.collect()).to_html("tandem lab run all");
        assert!(html.contains("<p class=\"headline\">0 of "), "{html}");
        for experiment in experiments::all() {
            let name = experiment.name();
            let count = |text: &str| html.matches(text).count();
            assert_eq!(count(&format!("<section id=\"{name}\">")), 1, "{name}");
            // From the contents and from the table.
            assert_eq!(count(&format!("<a href=\"#{name}\">")), 2, "{name}");
        }
    }

    #[test]
    fn the_headline_says_what_does_not_hold() {
        let options = Options {
            on: On::Sim,
            seed: 1,
            quick: true,
            profile: Profile::Signalling,
        };
        let headline = |verdicts: &[Verdict]| {
            let results = experiments::all().iter().zip(verdicts);
            let results = results.map(|(experiment, verdict)| Ran {
                experiment: *experiment,
                outcome: Outcome {
                    verdict: *verdict,
                    ..Outcome::skipped("it was so")
                },
            });
            headline(&Results::new(
                options,
                Stopwatch::start().period(),
                results.collect(),
            ))
        };
        let name = |index: usize| experiments::all()[index].name();
        assert_eq!(headline(&[Verdict::Fails]), "fails: it was so");
        assert_eq!(headline(&[Verdict::Holds; 3]), "3 of 3 experiments hold");
        assert_eq!(
            headline(&[
                Verdict::Skipped,
                Verdict::Holds,
                Verdict::Fails,
                Verdict::Fails
            ]),
            format!(
                "1 of 4 experiments hold; fails: {}, {}; skipped: {}",
                name(2),
                name(3),
                name(0)
            )
        );
    }

    #[test]
    fn the_command_repeats_what_was_run() {
        let quick = Options {
            on: On::Sim,
            seed: 7,
            quick: true,
            profile: Profile::Signalling,
        };
        assert_eq!(
            repeats("fairness", quick),
            "tandem lab run fairness --on sim --seed 7 --quick"
        );
        let thorough = Options {
            on: On::Net,
            quick: false,
            profile: Profile::Rfc9260,
            ..quick
        };
        assert_eq!(
            repeats("fairness", thorough),
            "tandem lab run fairness --on net --seed 7 --profile rfc9260"
        );
    }
}
