//! Arrivals against what their plan says of them.

use proptest::prelude::*;
use rand::SeedableRng;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn plan(pattern: Pattern, spacing: Spacing) -> Plan {
    Plan {
        pattern,
        spacing,
        count: None,
        time: None,
    }
}

fn constant(per_second: f64) -> Pattern {
    Pattern::Constant { per_second }
}

fn arrivals(plan: Plan, share: Share, started: Instant, seed: u64) -> Arrivals {
    Arrivals::new(plan, share, started, ChaCha12Rng::seed_from_u64(seed)).unwrap()
}

/// Seconds since the start of all arrivals until then.
fn taken(arrivals: &mut Arrivals, started: Instant, until: Duration) -> Vec<f64> {
    std::iter::from_fn(|| arrivals.take_due(started + until))
        .map(|due| (due - started).as_secs_f64())
        .collect()
}

/// Seconds since the start of all arrivals of a plan until then.
fn planned(plan: Plan, until: Duration, seed: u64) -> Vec<f64> {
    let started = Instant::now();
    taken(
        &mut arrivals(plan, Share::ALL, started, seed),
        started,
        until,
    )
}

fn assert_near(found: &[f64], expected: &[f64]) {
    assert_eq!(found.len(), expected.len(), "{found:?} for {expected:?}");
    for (found, expected) in found.iter().zip(expected) {
        assert!((found - expected).abs() < 1e-6, "{found} for {expected}");
    }
}

#[test]
fn even_arrivals_are_even() {
    let found = planned(plan(constant(4.0), Spacing::Even), SECOND, 0);
    assert_near(&found, &[0.0, 0.25, 0.5, 0.75, 1.0]);
    // A long run does not drift.
    let until = 100 * SECOND + Duration::from_micros(1);
    let found = planned(plan(constant(30_000.0), Spacing::Even), until, 0);
    assert_eq!(found.len(), 3_000_001);
    assert_near(&found[3_000_000..], &[100.0]);
}

#[test]
fn nothing_is_due_before_its_time() {
    let started = Instant::now();
    let mut arrivals = arrivals(plan(constant(1.0), Spacing::Even), Share::ALL, started, 0);
    assert_eq!(arrivals.take_due(started), Some(started));
    assert_eq!(arrivals.take_due(started + SECOND / 2), None);
    assert_eq!(arrivals.next_due(), Some(started + SECOND));
    // Those who come late find all, with their own times.
    assert_eq!(arrivals.scheduled(started + 3 * SECOND), 4);
    let late = taken(&mut arrivals, started, 3 * SECOND);
    assert_near(&late, &[1.0, 2.0, 3.0]);
}

#[test]
fn without_a_rate_nothing_comes() {
    let started = Instant::now();
    for spacing in [Spacing::Even, Spacing::Random] {
        let mut none = arrivals(plan(constant(0.0), spacing), Share::ALL, started, 0);
        assert_eq!(none.next_due(), None);
        assert!(!none.is_finished(started + SECOND));
        none.set_rate(started + SECOND, 1.0);
        assert!(none.next_due().unwrap() >= started + SECOND);
    }
}

#[test]
fn a_ramp_brings_the_integral_of_its_rate() {
    let ramp = Pattern::Ramp {
        from: 0.0,
        to: 100.0,
        over: 10 * SECOND,
    };
    let found = planned(plan(ramp, Spacing::Even), 20 * SECOND, 0);
    let until = |time: f64| found.iter().filter(|due| **due <= time).count();
    // 5 t² while it grows; the first arrival is at 0.
    assert_eq!(until(5.0), 126);
    assert_eq!(until(9.99), 500);
    assert_eq!(until(19.99), 1500);
    let down = Pattern::Ramp {
        from: 100.0,
        to: 0.0,
        over: 10 * SECOND,
    };
    let found = planned(plan(down, Spacing::Even), 20 * SECOND, 0);
    assert!((500..=501).contains(&found.len()), "{}", found.len());
}

#[test]
fn steps_bring_what_each_step_has() {
    let steps = Pattern::Steps {
        from: 10.0,
        by: 20.0,
        every: 2 * SECOND,
        to: 45.0,
    };
    let found = planned(plan(steps, Spacing::Even), 6 * SECOND, 0);
    let between = |from: f64, to: f64| {
        let within = |due: &&f64| (from..to).contains(&(**due + 1e-9));
        found.iter().filter(within).count()
    };
    assert_eq!(between(0.0, 2.0), 20);
    assert_eq!(between(2.0, 4.0), 60);
    assert_eq!(between(4.0, 6.0), 90);
}

#[test]
fn an_even_run_is_the_same_by_how_many_workers_it_is_made() {
    let steps = Pattern::Steps {
        from: 40.0,
        by: 13.0,
        every: SECOND,
        to: 5.0,
    };
    let alone = planned(plan(steps, Spacing::Even), 9 * SECOND, 0);
    let started = Instant::now();
    let mut together: Vec<f64> = (0..3)
        .flat_map(|worker| {
            let share = Share { worker, workers: 3 };
            let mut own = arrivals(plan(steps, Spacing::Even), share, started, 0);
            taken(&mut own, started, 9 * SECOND)
        })
        .collect();
    together.sort_by(f64::total_cmp);
    assert_near(&together, &alone);
}

#[test]
fn counts_are_shared_out() {
    let started = Instant::now();
    let mut plan = plan(constant(1000.0), Spacing::Random);
    plan.count = Some(10);
    let each = [0, 1, 2].map(|worker| {
        let share = Share { worker, workers: 3 };
        let mut own = arrivals(plan, share, started, u64::from(worker));
        let found = taken(&mut own, started, 100 * SECOND).len();
        assert!(own.is_finished(started));
        found
    });
    assert_eq!(each, [4, 3, 3]);
}

#[test]
fn a_time_ends_a_run() {
    let started = Instant::now();
    let mut plan = plan(constant(10.0), Spacing::Even);
    plan.time = Some(SECOND);
    let mut arrivals = arrivals(plan, Share::ALL, started, 0);
    assert!(!arrivals.is_finished(started + SECOND));
    assert_eq!(taken(&mut arrivals, started, 5 * SECOND).len(), 10);
    assert!(!arrivals.is_finished(started + SECOND / 2));
    assert!(arrivals.is_finished(started + SECOND));
}

#[test]
fn a_change_of_rate_keeps_what_has_come_to_pass() {
    let started = Instant::now();
    let mut arrivals = arrivals(plan(constant(1.0), Spacing::Even), Share::ALL, started, 0);
    arrivals.take_due(started);
    // Half way to the next one: the other half goes ten times as fast.
    arrivals.set_rate(started + SECOND / 2, 10.0);
    assert_eq!(arrivals.per_second(started + SECOND), 10.0);
    let found = taken(&mut arrivals, started, Duration::from_millis(801));
    assert_near(&found, &[0.55, 0.65, 0.75]);
}

#[test]
fn a_change_of_rate_does_not_touch_what_was_due_before() {
    let started = Instant::now();
    let mut arrivals = arrivals(plan(constant(1.0), Spacing::Even), Share::ALL, started, 0);
    let change = Duration::from_millis(2500);
    arrivals.set_rate(started + change, 10.0);
    arrivals.set_rate(started + change + Duration::from_millis(150), 0.0);
    let found = taken(&mut arrivals, started, 100 * SECOND);
    assert_near(&found, &[0.0, 1.0, 2.0, 2.55, 2.65]);
}

#[test]
fn a_pattern_goes_on_after_a_pause() {
    let started = Instant::now();
    let ramp = Pattern::Ramp {
        from: 0.0,
        to: 20.0,
        over: 10 * SECOND,
    };
    let mut whole = arrivals(plan(ramp, Spacing::Even), Share::ALL, started, 0);
    let mut paused = whole.clone();
    let expected: Vec<f64> = taken(&mut whole, started, 10 * SECOND)
        .into_iter()
        .map(|due| if due > 5.001 { due + 7.0 } else { due })
        .collect();
    let mut found = taken(&mut paused, started, 5001 * SECOND / 1000);
    paused.pause(started + 5001 * SECOND / 1000);
    assert_eq!(paused.per_second(started + 6 * SECOND), 0.0);
    assert_eq!(paused.next_due(), None);
    paused.resume(started + 12001 * SECOND / 1000);
    found.extend(taken(&mut paused, started, 17 * SECOND));
    assert_near(&found, &expected);
}

#[test]
fn hostile_rates_are_bounded() {
    let started = Instant::now();
    let mut arrivals = arrivals(plan(constant(1.0), Spacing::Even), Share::ALL, started, 0);
    for rate in [f64::NAN, f64::NEG_INFINITY, -1.0] {
        arrivals.set_rate(started, rate);
        assert_eq!(arrivals.per_second(started), 0.0);
    }
    arrivals.set_rate(started, f64::INFINITY);
    assert_eq!(arrivals.per_second(started), Pattern::HIGHEST);
    for number in 0..5000 {
        arrivals.set_rate(started + SECOND, f64::from(number));
    }
    assert!(arrivals.position.changes.len() <= Position::CHANGES);
    assert!(arrivals.take_due(started).is_some());
}

/// Kolmogorov's distance of samples from the exponential distribution with a mean.
fn distance_from_exponential(mut samples: Vec<f64>, mean: f64) -> f64 {
    samples.sort_by(f64::total_cmp);
    let count = samples.len() as f64;
    let distance = |(index, sample): (usize, &f64)| {
        let expected = 1.0 - (-sample / mean).exp();
        let (below, at) = (index as f64 / count, (index + 1) as f64 / count);
        (expected - below).abs().max((expected - at).abs())
    };
    samples.iter().enumerate().map(distance).fold(0.0, f64::max)
}

#[test]
fn random_arrivals_are_exponentially_apart() {
    for seed in 0..8 {
        let found = planned(plan(constant(500.0), Spacing::Random), 40 * SECOND, seed);
        let apart: Vec<f64> = found.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let count = apart.len() as f64;
        // 20,000 with a standard deviation of 141.
        assert!((count - 20_000.0).abs() < 5.0 * 142.0, "{count}");
        let distance = distance_from_exponential(apart, 1.0 / 500.0);
        // Beyond 2.2 / √n is one sample of ten thousand.
        assert!(distance < 2.2 / count.sqrt(), "seed {seed}: {distance}");
    }
}

#[test]
fn random_arrivals_of_workers_together_are_a_poisson_process() {
    let started = Instant::now();
    let mut together: Vec<f64> = (0..4)
        .flat_map(|worker| {
            let share = Share { worker, workers: 4 };
            let mut own = arrivals(
                plan(constant(500.0), Spacing::Random),
                share,
                started,
                u64::from(worker),
            );
            taken(&mut own, started, 40 * SECOND)
        })
        .collect();
    together.sort_by(f64::total_cmp);
    let apart: Vec<f64> = together.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let count = apart.len() as f64;
    assert!((count - 20_000.0).abs() < 5.0 * 142.0, "{count}");
    let distance = distance_from_exponential(apart, 1.0 / 500.0);
    assert!(distance < 2.2 / count.sqrt(), "{distance}");
}

#[test]
fn random_arrivals_follow_a_ramp() {
    let ramp = Pattern::Ramp {
        from: 0.0,
        to: 1000.0,
        over: 20 * SECOND,
    };
    let found = planned(plan(ramp, Spacing::Random), 20 * SECOND, 1);
    for (from, to) in [(0.0, 10.0), (10.0, 15.0), (15.0, 20.0)] {
        let count = found.iter().filter(|due| (from..to).contains(*due)).count() as f64;
        let expected = 25.0 * (to * to - from * from);
        assert!(
            (count - expected).abs() < 5.0 * expected.sqrt(),
            "{from} to {to}: {count} for {expected}"
        );
    }
}

fn any_pattern() -> impl Strategy<Value = Pattern> {
    let rate = || prop_oneof![Just(0.0), 0.01..500.0f64];
    let time = || (1u64..5_000).prop_map(Duration::from_millis);
    prop_oneof![
        rate().prop_map(constant),
        (rate(), rate(), time()).prop_map(|(from, to, over)| Pattern::Ramp { from, to, over }),
        (rate(), 1.0..100.0f64, time(), rate()).prop_map(|(from, by, every, to)| {
            Pattern::Steps {
                from,
                by,
                every,
                to,
            }
        }),
    ]
}

proptest! {
    /// Whatever is changed when, arrivals come in order, and as many as the rate brings.
    #[test]
    fn arrivals_are_the_integral_of_the_rate(
        pattern in any_pattern(),
        mut changes in prop::collection::vec((0u64..10_000, 0..4, 0.0..300.0f64), 0..6),
        taken_in in 1u64..2_000,
    ) {
        let started = Instant::now();
        let mut arrivals = arrivals(plan(pattern, Spacing::Even), Share::ALL, started, 0);
        changes.sort_by_key(|(at, ..)| *at);
        let mut changes = VecDeque::from(changes);
        let mut expected = 0.0;
        let mut found = Vec::new();
        for millisecond in 0..10_000u64 {
            let now = started + Duration::from_millis(millisecond);
            while let Some((_, kind, rate)) = changes.pop_front_if(|(at, ..)| *at == millisecond) {
                match kind {
                    0 => arrivals.pause(now),
                    1 => arrivals.resume(now),
                    _ => arrivals.set_rate(now, rate),
                }
            }
            // The rate in the middle of the millisecond is its mean, but where it changes just there.
            expected += arrivals.per_second(now + Duration::from_micros(500)) / 1000.0;
            if millisecond % taken_in == 0 {
                found.extend(taken(&mut arrivals, started, now - started));
            }
        }
        found.extend(taken(&mut arrivals, started, 10 * SECOND));
        prop_assert!(found.is_sorted());
        let count = found.len() as f64;
        // One at the start, and half a millisecond's worth where the pattern jumps.
        prop_assert!((count - expected).abs() < 3.0, "{} for {}", count, expected);
    }
}
