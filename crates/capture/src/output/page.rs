//! The page: tables, plots and ladder diagrams.

use report::{Axis, Colour, Machine, Page, Period, Plot, Provenance, Section, Series, Table};

use super::Output;
use super::calendar::system_time;
use crate::Delays;
use crate::chunks::ChunkArrows;

/// Points of a distribution: percentiles, closer together towards the end.
const PERCENTILES: [f64; 21] = [
    0.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 75.0, 80.0, 85.0, 90.0, 95.0, 97.0, 98.0,
    99.0, 99.5, 99.9, 99.99, 100.0,
];

impl Output {
    /// The page as one HTML document; `command` is what repeats the analysis.
    pub fn to_html(
        &self,
        command: &str,
        machine: Machine,
        seed: u64,
        parameters: Vec<(String, String)>,
        chunks: Option<&ChunkArrows>,
    ) -> String {
        let period = self.results.first.zip(self.results.last);
        let period = period.map(|(first, last)| Period {
            began: system_time(first),
            lasted: last.since(first),
        });
        let mut page =
            Page::new("Signalling in a capture", self.verdict(), period).paragraph(self.in_short());
        page = page.section(Section::new("Capture").table(self.files_table()));
        let plots = self.plots();
        if !plots.is_empty() {
            let section = Section::new("Over time and in distribution");
            page = page.section(plots.into_iter().fold(section, Section::plot));
        }
        let (sctp, m3ua) = (self.sctp_tables(), self.m3ua_tables());
        let is_elsewhere = |table: &Table| {
            table == &self.files_table() || sctp.contains(table) || m3ua.contains(table)
        };
        let tables = self.tables().into_iter();
        let figures = tables.filter(|table| !is_elsewhere(table));
        let figures = figures.collect();
        for (heading, tables) in [("Figures", figures), ("SCTP", sctp), ("M3UA", m3ua)] {
            if !tables.is_empty() {
                let section = Section::new(heading);
                page = page.section(tables.into_iter().fold(section, Section::table));
            }
        }
        for (heading, text, ladders) in [
            (
                "Asked for",
                String::new(),
                self.results.named_ladders(chunks),
            ),
            (
                "Failed calls",
                match self.results.more_failed {
                    0 => String::new(),
                    more => format!(
                        "{more} more failed; --failed N shows more of them, --ladder CALL-ID any call."
                    ),
                },
                self.results.failed_ladders(chunks),
            ),
            (
                "Slowest calls",
                "By call set-up delay, the slowest first.".to_owned(),
                self.results.slowest_ladders(chunks),
            ),
            (
                "Associations with M3UA",
                String::new(),
                self.results.m3ua_ladders(chunks),
            ),
        ] {
            if ladders.is_empty() {
                continue;
            }
            let mut section = Section::new(heading);
            if !text.is_empty() {
                section = section.paragraph(text);
            }
            page = page.section(ladders.into_iter().fold(section, Section::ladder));
        }
        page.provenance(Provenance {
            program: format!("tandem {}", env!("CARGO_PKG_VERSION")),
            machine,
            command: command.to_owned(),
            seed,
            parameters,
        })
        .to_html()
    }

    fn plots(&self) -> Vec<Plot> {
        let mut plots = Vec::new();
        let delays = &self.results.delays;
        let kinds = [
            ("REGISTER", &delays.register, Colour::Green),
            ("INVITE processing", &delays.invite, Colour::Blue),
            ("Call set-up", &delays.call_setup, Colour::Orange),
        ];
        if kinds.iter().any(|(_, delays, _)| delays.count() > 0) {
            let mut plot = Plot::new(
                "Distribution of delays at the server",
                Axis::new("Percentile", "%").percentiles(),
                Axis::new("Delay", "ms").logarithmic(),
            );
            for (name, delays, colour) in kinds {
                if delays.count() > 0 {
                    plot = plot.series(Series::new(name, colour).points(percentiles(delays)));
                }
            }
            plots.push(plot);
        }
        let timeline = &self.results.timeline;
        let steps: Vec<_> = timeline.steps().collect();
        let per_second = |count: u64| count as f64 / timeline.step_seconds();
        let line = |name: &str, colour, value: &dyn Fn(&crate::Step) -> Option<f64>| {
            Series::new(name, colour).points(steps.iter().map(|(at, step)| (*at, value(step))))
        };
        let time = || Axis::new("Time", "s");
        if steps.iter().any(|(_, step)| step.set_up > 0) {
            let mean = |step: &crate::Step| {
                (step.set_up > 0).then(|| step.set_up_total as f64 / step.set_up as f64 / 1e6)
            };
            let longest =
                |step: &crate::Step| (step.set_up > 0).then(|| step.set_up_longest as f64 / 1e6);
            plots.push(
                Plot::new(
                    "Call set-up delay over time",
                    time(),
                    Axis::new("Call set-up delay", "ms").logarithmic(),
                )
                .series(line("mean", Colour::Blue, &mean))
                .series(line("longest", Colour::Orange, &longest)),
            );
        }
        if steps.iter().any(|(_, step)| step.calls > 0) {
            plots.push(
                Plot::new("Calls over time", time(), Axis::new("Calls", "1/s"))
                    .series(line("begun", Colour::Blue, &|step| {
                        Some(per_second(step.calls))
                    }))
                    .series(line("of these failed", Colour::Orange, &|step| {
                        Some(per_second(step.failed_calls))
                    })),
            );
        }
        if !steps.is_empty() {
            plots.push(
                Plot::new(
                    "SIP messages over time",
                    time(),
                    Axis::new("Messages", "1/s"),
                )
                .series(line("all", Colour::Blue, &|step| {
                    Some(per_second(step.messages))
                }))
                .series(line("retransmitted", Colour::Orange, &|step| {
                    Some(per_second(step.retransmissions))
                })),
            );
        }
        plots.extend(self.responses_plot());
        plots
    }

    /// Responses by status code over time: the most frequent codes one by one, all others together.
    fn responses_plot(&self) -> Option<Plot> {
        const COLOURS: [Colour; 5] = [
            Colour::Green,
            Colour::Blue,
            Colour::Orange,
            Colour::Purple,
            Colour::Sky,
        ];
        let timeline = &self.results.timeline;
        let codes = timeline.codes();
        if codes.is_empty() {
            return None;
        }
        let series = |name: &str, colour, counts: &[u64]| {
            let rates = timeline
                .steps()
                .zip(counts)
                .map(|((at, _), count)| (at, Some(*count as f64 / timeline.step_seconds())));
            Series::new(name, colour).points(rates.collect::<Vec<_>>())
        };
        let mut plot = Plot::new(
            "Responses over time",
            Axis::new("Time", "s"),
            Axis::new("Responses", "1/s"),
        );
        let (named, others): (Vec<_>, Vec<_>) = codes
            .iter()
            .filter(|(code, _)| *code != 0)
            .enumerate()
            .partition(|(place, _)| *place < COLOURS.len());
        for ((_, (code, counts)), colour) in named.into_iter().zip(COLOURS) {
            plot = plot.series(series(&code.to_string(), colour, counts));
        }
        let uncounted = codes.iter().filter(|(code, _)| *code == 0);
        let others: Vec<&Vec<u64>> = others
            .into_iter()
            .map(|(_, (_, counts))| counts)
            .chain(uncounted.map(|(_, counts)| counts))
            .collect();
        if let Some(first) = others.first() {
            let together =
                (0..first.len()).map(|step| others.iter().map(|counts| counts[step]).sum());
            let together: Vec<u64> = together.collect();
            plot = plot.series(series("others", Colour::Grey, &together));
        }
        Some(plot)
    }
}

/// Those that so many samples tell apart from the largest one.
fn percentiles(delays: &Delays) -> impl Iterator<Item = (f64, Option<f64>)> {
    let samples = delays.count() as f64;
    let is_told = move |percent: &f64| *percent == 100.0 || (100.0 - percent) * samples >= 100.0;
    PERCENTILES.into_iter().filter(is_told).map(|percent| {
        let value = delays.quantile(percent / 100.0);
        (percent, value.map(|value| value.as_secs_f64() * 1e3))
    })
}
