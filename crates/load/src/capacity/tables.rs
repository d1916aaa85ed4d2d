//! Steps, rungs and parts as tables and plots.

use report::{Axis, Cell, Colour, Column, Plot, Point, Row, Series, Table, Trials};

use super::{BackgroundTrials, PartResult, Rung, Sipstone, StepSummary, Workload};

impl Workload {
    /// Its name, for people.
    pub fn name(self) -> String {
        match self {
            Workload::Sessions => "sessions".to_owned(),
            Workload::Registrations => "registrations".to_owned(),
            Workload::Reregistrations => "re-registrations".to_owned(),
            Workload::RegistrationsAndSessions => "registrations and sessions".to_owned(),
            Workload::Sipstone(part) => part.name().to_owned(),
            Workload::SipstoneMix => "mix".to_owned(),
        }
    }
}

impl StepSummary {
    /// Steps as a table, a row each.
    pub fn table(steps: &[StepSummary]) -> Table {
        let has_background = steps.iter().any(|step| step.background.is_some());
        let mut table = Table::new("Steps")
            .column(Column::number("Step").key())
            .column(Column::text("Of").key())
            .column(Column::number("offered").unit("/s").group("Rate"))
            .column(Column::number("achieved").unit("/s").group("Rate"))
            .column(Column::number("attempted").group("Attempts"))
            .column(Column::number("succeeded").group("Attempts"))
            .column(Column::number("failed").group("Attempts"))
            .column(Column::number("p50").unit("ms").group("Response time"))
            .column(Column::number("p95").unit("ms").group("Response time"))
            .column(Column::number("max").unit("ms").group("Response time"))
            .column(Column::number("p99").unit("ms").group("Lateness"));
        if has_background {
            table = table.columns(background_columns());
        }
        table = table.column(Column::text("Verdict"));
        for step in steps {
            let response_time = step.response_time_ms;
            let mut cells = vec![
                Cell::from(u64::from(step.number) + 1),
                Cell::from(step.workload.name()),
                Cell::number(step.per_second, 0),
                Cell::number(step.achieved_per_second, 0),
                Cell::from(step.attempted),
                Cell::from(step.succeeded),
                Cell::from(step.failed),
                Cell::milliseconds(response_time.p50),
                Cell::milliseconds(response_time.p95),
                Cell::milliseconds(response_time.max),
                Cell::milliseconds(step.lateness_ms.p99),
            ];
            if has_background {
                let background = step.background.as_ref();
                cells.extend([
                    Cell::from(background.map(|background| background.sent)),
                    Cell::number(background.and_then(|background| background.lost_percent), 3),
                    megabits(background.and_then(|background| background.bits_per_second)),
                ]);
            }
            cells.push(Cell::from(step.verdict()));
            table.push(Row::new(cells));
        }
        table
    }

    /// Steps as a plot: the rate of each, those that passed apart from those that did not.
    pub fn plot(title: &str, steps: &[StepSummary]) -> Plot {
        let points = |wanted: fn(&StepSummary) -> bool| {
            let chosen = move |step: &StepSummary| {
                let rate = Some(step.per_second).filter(|_| wanted(step));
                (f64::from(step.number) + 1.0, rate)
            };
            steps.iter().map(chosen).collect::<Vec<_>>()
        };
        let is_valid = |step: &StepSummary| step.validity.is_valid();
        Plot::new(title, Axis::new("Step", ""), Axis::new("Attempts", "1/s"))
            .series(Series::new("passed", Colour::Green).points(points(|step| step.passed)))
            .series(
                Series::new("failed", Colour::Orange)
                    .points(points(|step| !step.passed && step.validity.is_valid())),
            )
            .series(
                Series::new("generator too slow", Colour::Grey)
                    .points(points(|step| !step.validity.is_valid())),
            )
            .note(match steps.iter().all(is_valid) {
                true => "The generator kept its schedule in all steps.",
                false => {
                    "Steps in which the generator did not keep its schedule say nothing about the server."
                }
            })
    }

    fn verdict(&self) -> String {
        match (self.validity.is_valid(), self.passed) {
            (false, _) => self.validity.to_string(),
            (true, true) => "passed".to_owned(),
            (true, false) => "failed".to_owned(),
        }
    }
}

impl Rung {
    /// Rungs as a table: means over the repetitions, with the half widths of their 95 % intervals.
    pub fn table(rungs: &[Rung]) -> Table {
        let has_background = rungs.iter().any(|rung| rung.background.is_some());
        let groups = [
            ("REGISTER delay", "ms"),
            ("INVITE delay", "ms"),
            ("Call set-up delay", "ms"),
        ];
        let mut table = Table::new("Ladder").column(Column::number("Sessions").key());
        for (group, unit) in groups {
            let columns = ["min", "avg", "± avg", "max"];
            table =
                table.columns(columns.map(|column| Column::number(column).unit(unit).group(group)));
        }
        table = table
            .columns(
                ["REGISTER", "INVITE", "sessions", "± sessions"]
                    .map(|column| Column::number(column).group("Lost")),
            )
            .column(Column::number("SER").unit("%"));
        if has_background {
            table = table.columns(background_columns());
        }
        for rung in rungs {
            let mut cells = vec![Cell::from(u64::from(rung.sessions))];
            for delay in [
                &rung.register_delay,
                &rung.invite_delay,
                &rung.call_setup_delay,
            ] {
                cells.extend(
                    [
                        delay.min.mean,
                        delay.average.mean,
                        delay.average.half_width_95,
                        delay.max.mean,
                    ]
                    .map(Cell::milliseconds),
                );
            }
            let mean = |trials: &Trials| Cell::number(trials.mean, 1);
            cells.extend([
                mean(&rung.lost_registers),
                mean(&rung.lost_invites),
                mean(&rung.lost_sessions),
                Cell::number(rung.lost_sessions.half_width_95, 1),
                mean(&rung.session_establishment_ratio_percent),
            ]);
            if has_background {
                let of = |trials: fn(&BackgroundTrials) -> &Trials| {
                    let background = rung.background.as_ref();
                    background.and_then(|background| trials(background).mean)
                };
                cells.extend([
                    Cell::number(of(|background| &background.sent), 0),
                    Cell::number(of(|background| &background.lost_percent), 3),
                    megabits(of(|background| &background.bits_per_second)),
                ]);
            }
            table.push(Row::new(cells));
        }
        table.note("Means over the repetitions; ± is half the width of their 95 % interval.");
        let invalid: u32 = rungs.iter().map(|rung| rung.invalid).sum();
        if invalid > 0 {
            table.note(format!(
                "{invalid} repetitions in which the generator did not keep its schedule are left out."
            ));
        }
        table
    }

    /// A delay over the rungs as a plot, with the 95 % intervals of the means.
    pub fn plot(rungs: &[Rung]) -> Plot {
        let series = |name, colour, of: fn(&Rung) -> &super::DelayTrials| {
            let points = rungs.iter().map(move |rung| Point {
                x: f64::from(rung.sessions),
                y: of(rung).average.mean,
                interval: of(rung).average.interval(),
            });
            Series::new(name, colour).points(points)
        };
        Plot::new(
            "Mean delays over sessions",
            Axis::new("Sessions", ""),
            Axis::new("Delay", "ms").logarithmic(),
        )
        .series(series("REGISTER", Colour::Blue, |rung| {
            &rung.register_delay
        }))
        .series(series("INVITE", Colour::Orange, |rung| &rung.invite_delay))
        .series(series("call set-up", Colour::Green, |rung| {
            &rung.call_setup_delay
        }))
    }
}

/// The traffic beside: what was sent, how much of it was lost, and at which rate.
fn background_columns() -> [Column; 3] {
    [
        Column::number("sent"),
        Column::number("lost").unit("%"),
        Column::number("rate").unit("Mbit/s"),
    ]
    .map(|column| column.group("Background"))
}

fn megabits(bits_per_second: Option<f64>) -> Cell {
    Cell::number(bits_per_second.map(|bits| bits / 1e6), 3)
}

impl Sipstone {
    /// What was found as a table, a row a part, and the figure beneath.
    pub fn table(&self) -> Table {
        let mut table = Table::new("SIPstone")
            .column(Column::text("Part").key())
            .column(Column::number("Weight"))
            .column(Column::text("Transactions a second"));
        for PartResult { part, weight, end } in self.results() {
            table.push(Row::new([
                Cell::from(part.map_or("mix", super::Part::name)),
                Cell::number(*weight, 2),
                Cell::from(end.to_string()),
            ]));
        }
        let limits = self.parameters().limits;
        table.note(format!(
            "The highest rates at which at most {} % fail and {} % are answered within {} ms: Tandem's own limits, \
             not the paper's.",
            limits.failed_share * 100.0,
            limits.quantile * 100.0,
            limits.response_time_ms
        ));
        if let Some(figure) = self.figure() {
            table.note(format!(
                "Weighted mean: {} transactions a second.",
                report::format_number(figure, 0)
            ));
        }
        table
    }
}
