//! Procedures against servers that are made up.

use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha12Rng;

use super::*;
use crate::arrivals::Objection;
use crate::record::Failure;

/// Runs a procedure to its end, on a server that says how many attempts of a step fail.
fn run(procedure: &mut impl Procedure, mut failures: impl FnMut(&Step) -> u64) -> Vec<Step> {
    run_with(procedure, |step| {
        StepResult::simulated(step, failures(step))
    })
}

fn run_with(
    procedure: &mut impl Procedure,
    mut server: impl FnMut(&Step) -> StepResult,
) -> Vec<Step> {
    let mut steps = Vec::new();
    while let Some(step) = procedure.next_step() {
        assert!(steps.len() < 100_000, "it does not end");
        let result = server(&step);
        steps.push(step);
        procedure.handle_result(result);
    }
    steps
}

/// A step in which the generator did not keep up.
fn too_slow(step: &Step) -> StepResult {
    let mut result = StepResult::simulated(step, step.attempts / 2);
    result.validity.objections.push(Objection::Missed {
        scheduled: step.attempts,
        started: step.attempts / 2,
    });
    result
}

/// Fails as RFC 7502 appendix A simulates it: whatever is beyond its capacity.
fn capacity(per_second: f64) -> impl FnMut(&Step) -> u64 {
    move |step| u64::from(step.per_second > per_second)
}

/// `find_R` of RFC 7502 appendix A, as it stands there.
fn appendix_a(dut_max_sps: f64, mut r: f64, mut w: f64) -> f64 {
    let mut d = f64::max(0.10, w / 2.0);
    let (mut old_r, mut count) = (0.0, 0);
    loop {
        if r <= dut_max_sps {
            if r > old_r {
                old_r = r;
            } else {
                count += 1;
                if count >= 10 {
                    return f64::max(r, old_r);
                }
            }
            r = (r + w * r).floor();
        } else {
            r = (r - d * r).floor();
            d = f64::max(0.10, d / 2.0);
            w = f64::max(0.10, w / 2.0);
        }
    }
}

#[test]
fn the_example_of_the_rfc_is_found() {
    let mut search = Search::new(SearchParameters::default());
    let steps = run(&mut search, capacity(460.0));
    assert_eq!(search.end(), Some(End::Found { per_second: 458 }));
    assert_eq!(appendix_a(460.0, 100.0, 0.10), 458.0);
    // 100, 110, 121, …: a tenth more as long as nothing fails.
    assert_eq!(steps[0].per_second, 100.0);
    assert_eq!(steps[0].attempts, 50_000);
    assert_eq!(steps[2].per_second, 121.0);
    assert_eq!(search.steps().len(), steps.len());
    assert!(search.steps()[0].passed);
}

#[test]
fn a_search_ends_where_the_generator_does() {
    let mut search = Search::new(SearchParameters::default());
    let steps = run_with(&mut search, |step| {
        if step.per_second > 200.0 {
            too_slow(step)
        } else {
            StepResult::simulated(step, 0)
        }
    });
    let end = End::GeneratorLimit {
        at_least: Some(193),
        too_fast: 212,
    };
    assert_eq!(search.end(), Some(end));
    // The rate was tried three times before it was given up.
    let tried = steps.iter().filter(|step| step.per_second == 212.0).count();
    assert_eq!(tried, 3);
    let expected = "at least 193/s: the generator, not the server, could not keep up with 212/s";
    assert_eq!(end.to_string(), expected);
}

/// Once 144 a second passed and 130 failed, 144 is not what the server takes.
#[test]
fn what_passed_above_a_failure_is_no_result() {
    let mut search = Search::new(SearchParameters {
        start: 100,
        most_steps: 4,
        ..SearchParameters::default()
    });
    // The fourth step is the first one below.
    run(&mut search, |step| {
        u64::from(step.number == 1 || step.number == 3)
    });
    let steps = search.steps();
    let rates: Vec<(f64, bool)> = steps
        .iter()
        .map(|step| (step.per_second, step.passed))
        .collect();
    assert_eq!(
        rates,
        [(100.0, true), (110.0, false), (99.0, true), (108.0, false)]
    );
    assert_eq!(StepSummary::highest_passed(steps), Some(100));
    assert_eq!(StepSummary::highest_passed(&steps[..1]), Some(100));
    let mut above = steps.to_vec();
    above[2].per_second = 120.0;
    assert_eq!(StepSummary::highest_passed(&above), Some(100));
    assert_eq!(search.end(), Some(End::TooManySteps { best: Some(100) }));
}

#[test]
fn a_generator_that_is_slow_once_is_given_another_try() {
    let mut search = Search::new(SearchParameters::default());
    let mut is_first = true;
    run_with(&mut search, |step| {
        if std::mem::take(&mut is_first) {
            too_slow(step)
        } else {
            StepResult::simulated(step, u64::from(step.per_second > 460.0))
        }
    });
    assert_eq!(search.end(), Some(End::Found { per_second: 458 }));
}

#[test]
fn a_server_that_takes_nothing_ends_the_search() {
    let mut search = Search::new(SearchParameters::default());
    run(&mut search, |_| 1);
    assert_eq!(search.end(), Some(End::Nothing));
    let at_zero = SearchParameters {
        start: 0,
        ..SearchParameters::default()
    };
    assert_eq!(Search::new(at_zero).end(), Some(End::Nothing));
}

#[test]
fn a_server_that_is_not_there_ends_the_search_at_once() {
    let mut search = Search::new(SearchParameters::default());
    let steps = run_with(&mut search, |step| {
        let mut result = StepResult::simulated(step, step.attempts);
        for _ in 0..7 {
            result.statistics.invite_codes.count(Some(503));
            result.statistics.failures.count(Failure::Refused);
        }
        result.statistics.failures.count(Failure::NoResponse);
        result
    });
    assert_eq!(steps.len(), 1);
    let end = search.end().unwrap();
    assert_eq!(end, End::NoneSucceeded { per_second: 100 });
    assert_eq!(end.per_second(), None);
    assert_eq!(search.steps()[0].what_came(), "7 × 503, 1 × no response");
    // One that takes some is searched, and so is one that took everything before.
    let mut search = Search::new(SearchParameters::default());
    let steps = run(&mut search, |step| step.attempts - 1);
    assert!(steps.len() > 10);
    let mut search = Search::new(SearchParameters::default());
    let mut count = 0;
    let steps = run(&mut search, |step| {
        count += 1;
        if count == 1 { 0 } else { step.attempts }
    });
    assert!(steps.len() > 10);
}

#[test]
fn a_server_that_is_slow_once_is_not_taken_for_none() {
    let mut search = Search::new(SearchParameters::default());
    let step = search.next_step().unwrap();
    let mut slow = too_slow(&step);
    slow.succeeded = 0;
    search.handle_result(slow);
    assert_eq!(search.end(), None);
}

#[test]
fn a_step_lasts_a_while_however_few_sessions_are_wanted() {
    let mut search = Search::new(SearchParameters {
        attempts: 500,
        most_attempts: Some(100_000),
        ..SearchParameters::default()
    });
    let steps = run(&mut search, |_| 0);
    assert!(
        steps
            .iter()
            .all(|step| step.duration().as_secs_f64() >= 2.0)
    );
    assert_eq!(steps[0].attempts, 500);
    assert!(steps.iter().all(|step| step.attempts <= 100_000));
    let end = search.end().unwrap();
    assert!(
        matches!(
            end,
            End::TooFewUsers {
                at_least: Some(45_000..=50_000),
                ..
            }
        ),
        "{end:?}"
    );
    let few = SearchParameters {
        most_attempts: Some(10),
        ..SearchParameters::default()
    };
    let end = Search::new(few).end().unwrap();
    assert_eq!(end.to_string(), "unknown: the first step wants 50000 users");
}

#[test]
fn a_server_that_takes_everything_ends_the_search() {
    let mut search = Search::new(SearchParameters::default());
    run(&mut search, |_| 0);
    let end = search.end();
    assert!(
        matches!(end, Some(End::TooManySteps { best: Some(_) })),
        "{end:?}"
    );
}

#[test]
fn a_step_that_is_not_whole_has_not_passed() {
    let mut search = Search::new(SearchParameters::default());
    let step = search.next_step().unwrap();
    let mut result = StepResult::simulated(&step, 0);
    result.succeeded -= 1;
    search.handle_result(result);
    assert_eq!(search.next_step().unwrap().per_second, 90.0);
}

#[test]
fn a_session_counts_as_established_however_it_ends() {
    let step = Search::new(SearchParameters::default())
        .next_step()
        .unwrap();
    let mut statistics = StepResult::simulated(&step, 0).statistics;
    statistics.metrics.session_requests = 7;
    statistics.metrics.established = 7;
    statistics.calls.failed = 3;
    let validity = Validity::default;
    let took = Duration::from_secs(1);
    let result = StepResult::new(&step, statistics.clone(), took, validity());
    assert_eq!((result.succeeded, result.failed), (7, 0));
    let ladder = Ladder::new(LadderParameters::default());
    let step = ladder.next_step().unwrap();
    let result = StepResult::new(&step, statistics, took, validity());
    assert_eq!((result.succeeded, result.failed), (0, 3));
}

#[test]
fn a_limit_is_found_in_few_steps() {
    for limit in [3u64, 99, 100, 101, 1234, 98_765] {
        let mut search = LimitSearch::new(LimitSearchParameters::default());
        let mut steps = 0;
        while let Some(rate) = search.rate() {
            steps += 1;
            search.judge(rate <= limit);
        }
        let Some(End::Found { per_second }) = search.end() else {
            panic!("{limit}: {:?}", search.end());
        };
        assert!(per_second <= limit && per_second as f64 * 1.02 + 1.0 >= limit as f64);
        assert!(steps <= 20, "{limit}: {steps} steps");
    }
    // Without a limit it ends at rates that nobody has.
    let mut boundless = LimitSearch::new(LimitSearchParameters::default());
    while boundless.rate().is_some() {
        boundless.judge(true);
    }
    let end = boundless.end();
    assert!(
        matches!(end, Some(End::TooManySteps { best: Some(_) })),
        "{end:?}"
    );
    let mut hopeless = LimitSearch::new(LimitSearchParameters::default());
    while hopeless.rate().is_some() {
        hopeless.judge(false);
    }
    assert_eq!(hopeless.end(), Some(End::Nothing));
}

#[test]
fn sipstone_weighs_its_parts() {
    let mut sipstone = Sipstone::new(SipstoneParameters {
        parts: vec![(Part::Registration, 3.0), (Part::Forwarded, 1.0)],
        ..SipstoneParameters::default()
    });
    assert_eq!(sipstone.figure(), None);
    let steps = run(&mut sipstone, |step| {
        let capacity = match step.workload {
            Workload::Sipstone(Part::Registration) => 4000.0,
            _ => 1000.0,
        };
        // All that is too much fails.
        ((1.0 - capacity / step.per_second).max(0.0) * step.attempts as f64).round() as u64
    });
    assert!(steps.iter().all(|step| step.spacing == Spacing::Random));
    let found: Vec<u64> = sipstone
        .results()
        .iter()
        .filter_map(|result| result.end.per_second())
        .collect();
    // A twentieth may fail.
    assert!((4130..=4211).contains(&found[0]), "{found:?}");
    assert!((1030..=1053).contains(&found[1]), "{found:?}");
    let mean = (3.0 * found[0] as f64 + found[1] as f64) / 4.0;
    assert_eq!(sipstone.figure(), Some(mean));
}

#[test]
fn sipstone_is_over_when_a_response_takes_too_long() {
    let parameters = SipstoneParameters {
        is_mixed: true,
        ..SipstoneParameters::default()
    };
    let mut sipstone = Sipstone::new(parameters);
    run_with(&mut sipstone, |step| {
        assert_eq!(step.workload, Workload::SipstoneMix);
        let mut result = StepResult::simulated(step, 0);
        // Half a millisecond for each a second that is asked for.
        let delay = Duration::from_secs_f64(step.per_second * 0.5e-3);
        for _ in 0..20 {
            result.statistics.answer_delay.record(delay);
        }
        result
    });
    let figure = sipstone.figure().unwrap();
    assert!((980.0..=1000.0).contains(&figure), "{figure}");
    assert_eq!(sipstone.results().len(), 1);
}

#[test]
fn a_ladder_tells_of_the_traffic_beside_it() {
    let measured = |background: Option<BackgroundTotal>| {
        let mut ladder = Ladder::new(LadderParameters {
            rungs: vec![2, 3],
            repeat: 2,
            per_second: None,
        });
        run_with(&mut ladder, |step| StepResult {
            background: background.clone(),
            ..StepResult::simulated(step, 0)
        });
        ladder
    };
    let ladder = measured(Some(BackgroundTotal {
        sent: 1000,
        received: Some(990),
        octets: 1_470_000,
        time: Duration::from_secs(2),
        ..BackgroundTotal::default()
    }));
    let rungs = ladder.rungs();
    for rung in &rungs {
        let background = rung.background.as_ref().unwrap();
        assert_eq!(background.sent.mean, Some(1000.0));
        assert_eq!(background.lost_percent.mean, Some(1.0));
        assert_eq!(background.bits_per_second.mean, Some(5_880_000.0));
    }
    let tables = [Rung::table(&rungs), StepSummary::table(ladder.steps())];
    for table in tables.map(|table| table.to_terminal(200)) {
        assert!(table.contains("Background"), "{table}");
        assert!(
            table.contains("1,000") && table.contains("5.880"),
            "{table}"
        );
    }
    let alone = measured(None);
    let tables = [
        Rung::table(&alone.rungs()),
        StepSummary::table(alone.steps()),
    ];
    for table in tables.map(|table| table.to_terminal(200)) {
        assert!(!table.contains("Background"), "{table}");
    }
}

#[test]
fn a_ladder_repeats_each_rung() {
    let mut ladder = Ladder::new(LadderParameters {
        rungs: vec![10, 1000],
        repeat: 3,
        per_second: None,
    });
    let mut calls = 0;
    let steps = run_with(&mut ladder, |step| {
        calls += 1;
        let mut result = StepResult::simulated(step, 0);
        let published = &mut result.statistics.published;
        published
            .register_delay
            .record(Duration::from_millis(calls));
        published.lost_registers = step.attempts / 10;
        if calls == 6 {
            result.validity = too_slow(step).validity;
        }
        result
    });
    let users: Vec<Option<u32>> = steps.iter().map(|step| step.users).collect();
    let expected = [10, 10, 10, 1000, 1000, 1000].map(Some);
    assert_eq!(users, expected);
    let rungs = ladder.rungs();
    assert_eq!(rungs[0].register_delay.average.mean, Some(2.0));
    assert_eq!(rungs[0].register_delay.average.count, 3);
    let interval = rungs[0].register_delay.average.interval();
    assert!(interval.is_some_and(|(low, high)| low < 1.0 && high > 3.0));
    assert_eq!(rungs[0].lost_registers.mean, Some(1.0));
    assert_eq!(rungs[0].invite_delay.average.mean, None);
    // The last one was the generator's fault.
    assert_eq!((rungs[1].invalid, rungs[1].lost_registers.count), (1, 2));
    assert_eq!(rungs[1].register_delay.max.mean, Some(4.5));
}

#[test]
fn tables_have_a_row_for_each_step_rung_and_part() {
    let mut search = Search::new(SearchParameters::default());
    run(&mut search, capacity(460.0));
    let csv = StepSummary::table(search.steps()).to_csv();
    assert_eq!(csv.lines().count(), search.steps().len() + 1);
    assert!(csv.contains("passed") && csv.contains("failed"));
    let svg = StepSummary::plot("Search", search.steps()).to_svg(600, 300);
    assert!(svg.starts_with("<svg"));
    let mut ladder = Ladder::new(LadderParameters::default());
    run(&mut ladder, |_| 0);
    let rungs = ladder.rungs();
    assert_eq!(Rung::table(&rungs).to_csv().lines().count(), 9);
    let mut sipstone = Sipstone::new(SipstoneParameters::default());
    run(&mut sipstone, |step| match step.per_second > 460.0 {
        true => step.attempts,
        false => 0,
    });
    let text = sipstone.table().to_terminal(120);
    assert!(
        text.contains("proxy 480") && text.contains("Weighted mean"),
        "{text}"
    );
    let benchmark = Benchmark {
        setup: TestSetup {
            transport_to_dut: "UDP".to_owned(),
            transport_from_dut: "UDP".to_owned(),
            session_attempt_rate: 100,
            total_sessions_attempted: 50_000,
            establishment_threshold_s: 32.0,
            ..TestSetup::default()
        },
        sessions: Some(SessionBenchmark {
            session_establishment_rate: search.end().unwrap(),
            is_media_relay: false,
        }),
        registrations: None,
        deviations: vec!["1,000 sessions a step instead of 50,000.".to_owned()],
        steps: search.steps().to_vec(),
    };
    let text = benchmark.form().to_terminal(100);
    for line in [
        "UDP to and from the DUT",
        "458/s",
        "32 s",
        "instead of 50,000",
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
}

proptest! {
    /// Whatever the capacity, the search does what the RFC's own simulation does.
    #[test]
    fn the_search_is_the_rfcs(
        capacity_per_second in 100u32..60_000,
        start in 100u64..2_000,
        increase in 0.10..1.0f64,
    ) {
        let capacity_per_second = f64::from(capacity_per_second);
        let mut search = Search::new(SearchParameters {
            start,
            increase,
            ..SearchParameters::default()
        });
        run(&mut search, capacity(capacity_per_second));
        let expected = appendix_a(capacity_per_second, start as f64, increase);
        let found = search.end().unwrap().per_second().unwrap() as f64;
        prop_assert_eq!(found, expected);
        prop_assert!(found <= capacity_per_second);
        prop_assert!(found >= capacity_per_second * 0.8);
    }

    /// A server that sometimes fails a little below its capacity, and in which one attempt of many fails
    /// when there is too much, does not lead the search astray.
    #[test]
    fn the_search_finds_the_capacity_of_a_fickle_server(
        capacity_per_second in 500.0..50_000f64,
        seed in any::<u64>(),
    ) {
        let mut rng = ChaCha12Rng::seed_from_u64(seed);
        let mut search = Search::new(SearchParameters {
            attempts: 1000,
            ..SearchParameters::default()
        });
        run(&mut search, |step| {
            let load = step.per_second / capacity_per_second;
            let chance = ((load - 0.9) / 0.1).clamp(0.0, 1.0);
            u64::from(rng.random_bool(chance))
        });
        let found = search.end().unwrap().per_second().unwrap() as f64;
        prop_assert!(found <= capacity_per_second);
        prop_assert!(found >= capacity_per_second * 0.75, "{found} for {capacity_per_second}");
    }
}
