//! From figures to a verdict: each check holds one figure against a law, or says whether what a
//! published experiment found was found again.

use std::ops::RangeInclusive;

use report::{Cell, Column, Row, Table, format_number};

use crate::verdict::Verdict;

/// The checks of one experiment, in the order in which they were made.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Checks {
    checks: Vec<Check>,
}

#[derive(Clone, Debug, PartialEq)]
struct Check {
    what: String,
    kind: Kind,
    holds: bool,
    /// The figure, where there is one.
    measured: Option<f64>,
    /// What is allowed or was meant, in words.
    expected: String,
    /// Whether a machine that had no time may have broken it.
    is_timed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Law,
    Found,
}

impl Checks {
    /// No checks so far.
    pub fn new() -> Checks {
        Checks::default()
    }

    /// Holds a figure against a law: it must lie within the range that the law allows, whose ends
    /// come from the law and from what the measurement cannot tell apart. Without an upper end any figure is small
    /// enough. One that is no finite number breaks the law. Times and rates depend on the time that the machine had.
    pub fn law(
        &mut self,
        what: impl Into<String>,
        measured: f64,
        allowed: RangeInclusive<f64>,
        unit: &str,
    ) {
        let (low, high) = (figure(*allowed.start()), figure(*allowed.end()));
        let expected = match allowed.end().is_finite() {
            true => format!("{low} to {high} {unit}"),
            false => format!("at least {low} {unit}"),
        };
        self.checks.push(Check {
            what: what.into(),
            kind: Kind::Law,
            holds: measured.is_finite() && allowed.contains(&measured),
            measured: Some(measured),
            expected: expected.trim_end().to_owned(),
            is_timed: is_of_time(unit),
        });
    }

    /// Holds what happened against a law that is kept or broken; `detail` says what happened if it
    /// is broken.
    pub fn law_holds(&mut self, what: impl Into<String>, holds: bool, detail: impl Into<String>) {
        let detail = if holds { String::new() } else { detail.into() };
        self.push(what.into(), Kind::Law, holds, detail);
    }

    /// Says that the law checked last depends on the time that the machine had, though no unit says so.
    pub fn depends_on_time(&mut self) {
        if let Some(last) = self.checks.last_mut() {
            last.is_timed = true;
        }
    }

    /// Says whether the published finding was found again, and if not, the reason. (The law is
    /// another matter.)
    pub fn found(&mut self, what: impl Into<String>, found: bool, reason: impl Into<String>) {
        let reason = if found { String::new() } else { reason.into() };
        self.push(what.into(), Kind::Found, found, reason);
    }

    /// The verdict and why.
    pub fn verdict(&self) -> (Verdict, String) {
        let broken: Vec<String> = self.broken(Kind::Law).map(Check::describe).collect();
        if !broken.is_empty() {
            return (Verdict::Fails, broken.join("; "));
        }
        if !self.checks.iter().any(|check| check.kind == Kind::Law) {
            return (Verdict::Fails, "nothing was held against a law".to_owned());
        }
        let differing: Vec<String> = self.broken(Kind::Found).map(Check::describe).collect();
        if !differing.is_empty() {
            return (Verdict::Differs, differing.join("; "));
        }
        let laws = self.checks.iter().filter(|check| check.kind == Kind::Law);
        let found = self.checks.iter().filter(|check| check.kind == Kind::Found);
        let laws = laws.count();
        let mut why = match laws {
            1 => "the law holds".to_owned(),
            laws => format!("all {laws} checks against the law hold"),
        };
        for check in found {
            why.push_str("; found again: ");
            why.push_str(&check.what);
        }
        (Verdict::Holds, why)
    }

    /// Whether laws are broken, and each of them depends on the time that the machine had.
    pub(crate) fn is_broken_by_time_alone(&self) -> bool {
        let mut broken = self.broken(Kind::Law).peekable();
        broken.peek().is_some() && broken.all(|check| check.is_timed)
    }

    /// The checks as a table.
    pub fn into_table(self) -> Table {
        let mut table = Table::new("Checks")
            .column(Column::text("Check").key().wraps())
            .column(Column::text("Result"))
            .column(Column::number("Ours"))
            .column(Column::text("Allowed"));
        for check in self.checks {
            let result = match (check.kind, check.holds) {
                (Kind::Law, true) => "holds",
                (Kind::Law, false) => "fails",
                (Kind::Found, true) => "found",
                (Kind::Found, false) => "differs",
            };
            table.push(Row::new([
                Cell::from(check.what),
                Cell::from(result),
                check.measured.map_or(Cell::Absent, |measured| {
                    Cell::number(measured, decimals(measured))
                }),
                match check.measured {
                    Some(_) => Cell::from(check.expected),
                    None if check.holds => Cell::Absent,
                    None => Cell::note("see the verdict"),
                },
            ]));
        }
        table
    }

    fn push(&mut self, what: String, kind: Kind, holds: bool, expected: String) {
        self.checks.push(Check {
            what,
            kind,
            holds,
            measured: None,
            expected,
            is_timed: false,
        });
    }

    fn broken(&self, kind: Kind) -> impl Iterator<Item = &Check> {
        self.checks
            .iter()
            .filter(move |check| check.kind == kind && !check.holds)
    }
}

impl Check {
    fn describe(&self) -> String {
        match (self.kind, self.measured) {
            (Kind::Law, Some(measured)) => format!(
                "{}: {} where the law allows {}",
                self.what,
                figure(measured),
                self.expected
            ),
            (Kind::Law, None) => format!("{}: {}", self.what, self.expected),
            (Kind::Found, _) => format!("not found: {}: {}", self.what, self.expected),
        }
    }
}

/// Whether what has this unit is a time or a rate.
fn is_of_time(unit: &str) -> bool {
    ["s", "ms"].contains(&unit) || unit.ends_with("/s")
}

/// A number as it stands in a sentence.
fn figure(value: f64) -> String {
    format_number(value, decimals(value))
}

/// Decimals that leave about four significant figures.
fn decimals(value: f64) -> u8 {
    match value.abs() {
        0.0 => 0,
        size if size >= 1000.0 => 0,
        size if size >= 100.0 => 1,
        size if size >= 10.0 => 2,
        size if size >= 0.1 => 3,
        _ => 5,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_law_is_worse_than_what_was_not_found() {
        let mut checks = Checks::new();
        checks.law("goodput", 100.0, 90.0..=110.0, "kByte/s");
        assert_eq!(checks.verdict().0, Verdict::Holds);
        checks.found("SCTP is as fast as TCP", false, "it is slower");
        let (verdict, why) = checks.verdict();
        assert_eq!(verdict, Verdict::Differs);
        assert_eq!(why, "not found: SCTP is as fast as TCP: it is slower");
        checks.law("delay", 5.0, 1.0..=4.0, "ms");
        let (verdict, why) = checks.verdict();
        assert_eq!(verdict, Verdict::Fails);
        assert_eq!(why, "delay: 5.000 where the law allows 1.000 to 4.000 ms");
    }

    #[test]
    fn both_ends_of_the_range_are_allowed_and_no_number_is_not() {
        for (measured, verdict) in [
            (1.0, Verdict::Holds),
            (4.0, Verdict::Holds),
            (4.01, Verdict::Fails),
            (0.99, Verdict::Fails),
            (f64::NAN, Verdict::Fails),
            (f64::INFINITY, Verdict::Fails),
        ] {
            let mut checks = Checks::new();
            checks.law("x", measured, 1.0..=4.0, "");
            assert_eq!(checks.verdict().0, verdict, "{measured}");
        }
    }

    #[test]
    fn a_law_may_have_no_upper_end() {
        for (measured, verdict) in [
            (1e300, Verdict::Holds),
            (0.5, Verdict::Fails),
            (f64::INFINITY, Verdict::Fails),
        ] {
            let mut checks = Checks::new();
            checks.law("time", measured, 1.0..=f64::INFINITY, "ms");
            assert_eq!(checks.verdict().0, verdict, "{measured}");
            let csv = checks.into_table().to_csv();
            assert!(csv.contains("at least 1.000 ms"), "{csv}");
        }
    }

    #[test]
    fn without_a_law_nothing_holds() {
        let mut checks = Checks::new();
        assert_eq!(checks.verdict().0, Verdict::Fails);
        checks.found("something", true, "");
        assert_eq!(checks.verdict().0, Verdict::Fails);
        checks.law_holds("something else", true, "");
        assert_eq!(checks.verdict().0, Verdict::Holds);
        checks.law_holds("a third thing", false, "it broke");
        assert_eq!(
            checks.verdict(),
            (Verdict::Fails, "a third thing: it broke".to_owned())
        );
    }

    #[test]
    fn times_and_rates_depend_on_the_machine_and_counts_do_not() {
        let broken = |units: &[&str]| {
            let mut checks = Checks::new();
            checks.law("kept", 0.0, 0.0..=0.0, "messages");
            for unit in units {
                checks.law("broken", 2.0, 0.0..=1.0, unit);
            }
            checks
        };
        for timed in ["s", "ms", "kByte/s", "Mbit/s", "packets/s"] {
            assert!(broken(&[timed]).is_broken_by_time_alone(), "{timed}");
        }
        for not in ["messages", "bytes", "chunks", "KiB", ""] {
            assert!(!broken(&[not]).is_broken_by_time_alone(), "{not}");
            assert!(!broken(&["ms", not, "s"]).is_broken_by_time_alone());
        }
        assert!(!broken(&[]).is_broken_by_time_alone());
        let mut checks = broken(&["ms"]);
        checks.law_holds("order", false, "it is another");
        assert!(!checks.is_broken_by_time_alone());
        checks.depends_on_time();
        assert!(checks.is_broken_by_time_alone());
        checks.found("a thing", false, "because");
        assert!(checks.is_broken_by_time_alone());
    }

    #[test]
    fn every_check_is_a_row() {
        let mut checks = Checks::new();
        checks.law("goodput", 12.5, 10.0..=13.0, "kByte/s");
        checks.found("a thing", false, "because");
        let csv = checks.into_table().to_csv();
        assert_eq!(csv.lines().count(), 3, "{csv}");
        assert!(csv.contains("holds,12.5,10.00 to 13.00 kByte/s"), "{csv}");
        assert!(csv.contains("differs,,see the verdict"), "{csv}");
    }
}
