//! A run as a page.

use std::time::Duration;

use load::statistics::{Delays, Interval, Sketch, Statistics};
use report::{Axis, Colour, Plot, Section, Series};

use super::tables;

/// Points of a distribution: percentiles, closer together towards the end.
const PERCENTILES: [f64; 20] = [
    0.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 75.0, 80.0, 85.0, 90.0, 95.0, 97.0, 98.0,
    99.0, 99.5, 99.9, 100.0,
];

/// Points over time at most: more would not be told apart.
const MOST_POINTS: usize = 240;

/// The sections with plots of a run; one without anything to plot is left out.
pub(super) fn sections(
    statistics: &Statistics,
    timers: &[(&str, &Delays)],
    asked_per_second: Option<f64>,
) -> Vec<Section> {
    let timeline = Timeline::of(statistics);
    let sections = [
        ("Load", load(&timeline, asked_per_second)),
        ("Delays", delays(statistics, timers, &timeline)),
        ("Responses", codes(statistics, &timeline)),
    ];
    sections
        .into_iter()
        .filter(|(_, plots)| !plots.is_empty())
        .map(|(heading, plots)| plots.into_iter().fold(Section::new(heading), Section::plot))
        .collect()
}

fn load(timeline: &Timeline, asked_per_second: Option<f64>) -> Vec<Plot> {
    if timeline.intervals.is_empty() {
        return Vec::new();
    }
    let mut rate = Plot::new(
        "Offered and achieved rate",
        time(),
        Axis::new("Attempts", "1/s"),
    );
    if let Some(asked) = asked_per_second {
        let ends = timeline.ends().map(|at| (at, Some(asked)));
        rate = rate.series(Series::new("asked for", Colour::Grey).dashed().points(ends));
    }
    let rate = rate
        .series(timeline.per_second("offered", Colour::Sky, |interval| interval.offered))
        .series(timeline.per_second("begun", Colour::Blue, |interval| interval.started))
        .series(timeline.per_second("completed", Colour::Green, |interval| interval.completed))
        .series(timeline.per_second("failed", Colour::Orange, |interval| interval.failed));
    let lateness = Plot::new(
        "Lateness of the generator",
        time(),
        Axis::new("Lateness", "ms").logarithmic(),
    )
    .series(timeline.quantile("p50", Colour::Blue, 0.5, |interval| &interval.lateness))
    .series(timeline.quantile("p99", Colour::Orange, 0.99, |interval| &interval.lateness))
    .note("Delay between the schedule and the actual beginning of attempts. It is not caused by the server.");
    vec![rate, lateness]
}

fn delays(statistics: &Statistics, timers: &[(&str, &Delays)], timeline: &Timeline) -> Vec<Plot> {
    let mut plots = Vec::new();
    let metrics = &statistics.metrics;
    let kinds = [
        (
            "registration request",
            &metrics.registration_request_delay,
            Colour::Green,
        ),
        (
            "session request",
            &metrics.session_request_delay,
            Colour::Blue,
        ),
        (
            "session disconnect",
            &metrics.session_disconnect_delay,
            Colour::Purple,
        ),
        (
            "call set-up",
            &statistics.published.call_setup_delay,
            Colour::Sky,
        ),
        ("other request", &statistics.request_delay, Colour::Orange),
    ];
    if kinds.iter().any(|(_, delays, _)| delays.count() > 0) {
        let plot = Plot::new(
            "Distribution of delays",
            Axis::new("Percentile", "%").percentiles(),
            Axis::new("Delay", "ms").logarithmic(),
        );
        plots.push(
            kinds
                .into_iter()
                .filter(|(_, delays, _)| delays.count() > 0)
                .fold(plot, |plot, (name, delays, colour)| {
                    plot.series(Series::new(name, colour).points(percentiles(delays)))
                }),
        );
    }
    plots.extend(scenario_timers(timers));
    type Of = fn(&Interval) -> &Sketch;
    let over_time: [(&str, Of); 3] = [
        ("Session request delay over time", |interval| {
            &interval.session_request_delay
        }),
        ("Registration request delay over time", |interval| {
            &interval.registration_request_delay
        }),
        ("Delay of other requests over time", |interval| {
            &interval.request_delay
        }),
    ];
    for (title, of) in over_time {
        if timeline
            .intervals
            .iter()
            .any(|interval| of(interval).count() > 0)
        {
            plots.push(
                Plot::new(title, time(), Axis::new("Delay", "ms").logarithmic())
                    .series(timeline.quantile("p50", Colour::Blue, 0.5, of))
                    .series(timeline.quantile("p95", Colour::Green, 0.95, of))
                    .series(timeline.quantile("p99", Colour::Purple, 0.99, of))
                    .series(timeline.quantile("longest", Colour::Orange, 1.0, of)),
            );
        }
    }
    plots
}

/// The times that a scenario takes by itself, as many as there are colours; all of them are in the table.
fn scenario_timers(timers: &[(&str, &Delays)]) -> Option<Plot> {
    let taken = timers.iter().filter(|(_, delays)| delays.count() > 0);
    let mut coloured = taken.zip(Colour::ALL).peekable();
    coloured.peek()?;
    let plot = Plot::new(
        "Distribution of the scenario's times",
        Axis::new("Percentile", "%").percentiles(),
        Axis::new("Time", "ms").logarithmic(),
    );
    Some(coloured.fold(plot, |plot, ((name, delays), colour)| {
        plot.series(Series::new(*name, colour).points(percentiles(delays)))
    }))
}

/// Final responses over time: the most frequent ones a line each, the others together.
fn codes(statistics: &Statistics, timeline: &Timeline) -> Vec<Plot> {
    let all = statistics.codes();
    let mut named: Vec<(String, u64)> = tables::named(&all).collect();
    if named.is_empty() {
        return Vec::new();
    }
    named.sort_by(|(one, one_count), (other, other_count)| {
        other_count.cmp(one_count).then_with(|| one.cmp(other))
    });
    let own_line = match named.len() {
        few if few <= Colour::ALL.len() => few,
        _ => Colour::ALL.len() - 1,
    };
    let count_of = |interval: &Interval, name: &str| {
        tables::named(&interval.codes)
            .find(|(other, _)| other == name)
            .map_or(0, |(_, count)| count)
    };
    let mut plot = Plot::new(
        "Final responses over time",
        time(),
        Axis::new("Responses", "1/s"),
    );
    for ((name, _), colour) in named.iter().take(own_line).zip(Colour::ALL) {
        plot = plot.series(timeline.per_second(name, colour, |interval| count_of(interval, name)));
    }
    let rest = &named[own_line..];
    if !rest.is_empty() {
        plot = plot.series(timeline.per_second("others", Colour::Grey, |interval| {
            rest.iter().map(|(name, _)| count_of(interval, name)).sum()
        }));
    }
    let again = Plot::new(
        "Messages retransmitted",
        time(),
        Axis::new("Retransmissions", "1/s"),
    )
    .series(
        timeline.per_second("retransmitted", Colour::Orange, |interval| {
            interval.retransmissions
        }),
    )
    .note("Counted when their attempt ended.");
    match statistics.retransmissions {
        0 => vec![plot],
        _ => vec![plot, again],
    }
}

/// The intervals of a run, joined until there are few enough to plot.
struct Timeline {
    seconds: f64,
    intervals: Vec<Interval>,
}

impl Timeline {
    fn of(statistics: &Statistics) -> Timeline {
        let series = &statistics.series;
        let joined = series.intervals().len().div_ceil(MOST_POINTS).max(1);
        let intervals = series.intervals().chunks(joined).map(|chunk| {
            let mut sum = Interval::default();
            for interval in chunk {
                sum.merge(interval);
            }
            sum
        });
        Timeline {
            seconds: series.width().as_secs_f64() * joined as f64,
            intervals: intervals.collect(),
        }
    }

    /// When the first interval begins and the last one.
    fn ends(&self) -> impl Iterator<Item = f64> {
        let last = self.intervals.len().saturating_sub(1);
        [0.0, last as f64 * self.seconds].into_iter()
    }

    fn line(&self, series: Series, value: impl Fn(&Interval) -> Option<f64>) -> Series {
        let points = self.intervals.iter().enumerate();
        series
            .points(points.map(|(index, interval)| (index as f64 * self.seconds, value(interval))))
    }

    fn per_second(&self, name: &str, colour: Colour, count: impl Fn(&Interval) -> u64) -> Series {
        self.line(Series::new(name, colour), |interval| {
            Some(count(interval) as f64 / self.seconds)
        })
    }

    fn quantile(
        &self,
        name: &str,
        colour: Colour,
        part: f64,
        of: impl Fn(&Interval) -> &Sketch,
    ) -> Series {
        self.line(Series::new(name, colour), |interval| {
            of(interval).quantile(part).map(milliseconds)
        })
    }
}

fn time() -> Axis {
    Axis::new("Time", "s")
}

fn percentiles(delays: &Delays) -> impl Iterator<Item = (f64, Option<f64>)> {
    PERCENTILES.into_iter().map(|percent| {
        let value = delays.quantile(percent / 100.0);
        (percent, value.map(milliseconds))
    })
}

fn milliseconds(delay: Duration) -> f64 {
    delay.as_secs_f64() * 1e3
}
