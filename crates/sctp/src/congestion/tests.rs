//! What the tests of controllers share, and the properties of all of them.

use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::window::{Law, LossBased};
use super::*;

/// A SACK that acknowledges so many bytes of those in flight.
pub(super) fn acked(acknowledged: usize, flight_before: usize) -> AckedBytes {
    AckedBytes {
        acknowledged,
        flight_before,
        all_acknowledged: false,
    }
}

/// A path that has measured nothing, in recovery or not.
fn unmeasured(in_recovery: bool, coupled: &CoupledPaths) -> PathConditions<'_> {
    PathConditions {
        now: Instant::now(),
        rtt: None,
        in_recovery,
        coupled,
    }
}

/// A SACK comes on a path of its own.
pub(super) fn acknowledge(
    controller: &mut dyn CongestionController,
    acked: AckedBytes,
    in_recovery: bool,
) {
    let coupled = CoupledPaths::default();
    controller.on_acknowledged(acked, &unmeasured(in_recovery, &coupled));
}

/// A loss is found on a path of its own.
pub(super) fn lose(controller: &mut dyn CongestionController) {
    controller.on_congestion_event(&unmeasured(false, &CoupledPaths::default()));
}

/// T3-rtx expires on a path of its own.
pub(super) fn time_out(controller: &mut dyn CongestionController) {
    controller.on_timeout(&unmeasured(false, &CoupledPaths::default()));
}

/// Round-trip times that are all the same.
pub(super) fn steady_rtt(milliseconds: u64) -> PathRtt {
    let rtt = Duration::from_millis(milliseconds);
    PathRtt {
        smoothed: rtt,
        latest: rtt,
        min: rtt,
    }
}

/// Paths that tell their windows, their round-trip times in milliseconds, and the bytes acknowledged between
/// losses. They are in congestion avoidance.
pub(super) fn coupled(paths: &[(usize, u64, u64)]) -> CoupledPaths {
    let mut coupled = CoupledPaths::default();
    coupled.refresh(
        paths
            .iter()
            .map(|&(cwnd, milliseconds, acked_between_losses)| CoupledPath {
                cwnd,
                ssthresh: cwnd / 2,
                srtt: Duration::from_millis(milliseconds),
                acked_between_losses,
            }),
    );
    coupled
}

/// A controller in congestion avoidance, on packets of 1000 bytes.
pub(super) fn avoiding<L: Law + Default>(cwnd: usize) -> LossBased<L> {
    let mut controller = LossBased::new(L::default(), 1000, false);
    controller.window.cwnd = cwnd;
    controller.window.ssthresh = cwnd / 2;
    controller
}

/// By how much the window grows when so many bytes of a full window are acknowledged one packet at a time.
pub(super) fn growth<L: Law>(
    controller: &mut LossBased<L>,
    packets: usize,
    milliseconds: u64,
    coupled: &CoupledPaths,
) -> isize {
    let path = PathConditions {
        now: Instant::now(),
        rtt: Some(steady_rtt(milliseconds)),
        in_recovery: false,
        coupled,
    };
    let before = controller.window.cwnd;
    for _ in 0..packets {
        let window = controller.window.clone();
        let full = acked(1000, window.cwnd);
        // Each packet sees the window of before, so that the sum is a multiple.
        controller
            .law
            .avoid_congestion(&mut controller.window, full, &path);
        let grown = controller.window.cwnd as isize - window.cwnd as isize;
        assert!(grown.abs() <= 1000, "no more than a packet for a packet");
    }
    controller.window.cwnd as isize - before as isize
}

/// Something that happens to a path.
#[derive(Debug, Clone)]
enum Happening {
    Acknowledged {
        acknowledged: usize,
        flight_before: usize,
        all_acknowledged: bool,
        in_recovery: bool,
    },
    Loss,
    Penalty(bool),
    Timeout,
    SpuriousLoss,
    Idle,
    Pmdcs(usize),
}

/// A time step, a round-trip time and other paths that go with a happening.
#[derive(Debug, Clone)]
struct Surroundings {
    /// Back or forth, in nanoseconds.
    step: i64,
    rtt: Option<PathRtt>,
    others: Vec<CoupledPath>,
}

fn bytes() -> impl Strategy<Value = usize> {
    prop_oneof![
        0..200_000_usize,
        Just(0),
        Just(u32::MAX as usize),
        Just(usize::MAX)
    ]
}

fn durations() -> impl Strategy<Value = Duration> {
    prop_oneof![
        (0..400_000_000_u64).prop_map(Duration::from_nanos),
        Just(Duration::ZERO),
        Just(Duration::from_secs(3_000_000)),
    ]
}

fn happenings() -> impl Strategy<Value = Happening> {
    prop_oneof![
        8 => (bytes(), bytes(), any::<bool>(), any::<bool>()).prop_map(
            |(acknowledged, flight_before, all_acknowledged, in_recovery)| {
                Happening::Acknowledged {
                    acknowledged,
                    flight_before,
                    all_acknowledged,
                    in_recovery,
                }
            }
        ),
        1 => Just(Happening::Loss),
        1 => any::<bool>().prop_map(Happening::Penalty),
        1 => Just(Happening::Timeout),
        1 => Just(Happening::SpuriousLoss),
        1 => Just(Happening::Idle),
        1 => (500..65_000_usize).prop_map(Happening::Pmdcs),
    ]
}

fn surroundings() -> impl Strategy<Value = Surroundings> {
    let step = prop_oneof![
        0..300_000_000_i64,
        Just(-5_000_000_000),
        Just(3_000_000_000_000_000),
    ];
    let rtt = (durations(), durations(), durations());
    let rtt = rtt.prop_map(|(smoothed, latest, min)| PathRtt {
        smoothed,
        latest,
        min,
    });
    let other = (bytes(), bytes(), durations(), any::<u64>());
    let other = other.prop_map(|(cwnd, ssthresh, srtt, acked_between_losses)| CoupledPath {
        cwnd,
        ssthresh,
        srtt,
        acked_between_losses,
    });
    let others = proptest::collection::vec(other, 0..4);
    (step, proptest::option::of(rtt), others).prop_map(|(step, rtt, others)| Surroundings {
        step,
        rtt,
        others,
    })
}

/// The windows of a controller after each of these.
fn windows(
    control: CongestionControl,
    start: Instant,
    history: &[(Happening, Surroundings)],
) -> Vec<(usize, usize)> {
    let mut controller = control.controller(1000, false);
    let mut pmdcs = 1000;
    let mut now = start;
    let mut windows = Vec::new();
    for (happening, surroundings) in history {
        let step = Duration::from_nanos(surroundings.step.unsigned_abs());
        now = if surroundings.step < 0 {
            now.checked_sub(step).unwrap_or(now)
        } else {
            now + step
        };
        let own = controller.coupled();
        let mut coupled = CoupledPaths::default();
        coupled.refresh(surroundings.others.iter().copied().chain(own));
        let path = |in_recovery| PathConditions {
            now,
            rtt: surroundings.rtt,
            in_recovery,
            coupled: &coupled,
        };
        match *happening {
            Happening::Acknowledged {
                acknowledged,
                flight_before,
                all_acknowledged,
                in_recovery,
            } => controller.on_acknowledged(
                AckedBytes {
                    acknowledged,
                    flight_before,
                    all_acknowledged,
                },
                &path(in_recovery),
            ),
            Happening::Loss => controller.on_congestion_event(&path(false)),
            Happening::Penalty(is_lost) => controller.on_penalty(is_lost, &path(false)),
            Happening::Timeout => controller.on_timeout(&path(false)),
            Happening::SpuriousLoss => controller.on_spurious_loss(),
            Happening::Idle => controller.on_idle(),
            Happening::Pmdcs(to) => {
                pmdcs = to;
                controller.set_pmdcs(to);
            }
        }
        assert!(controller.cwnd() >= 500, "{control}: a packet at least");
        assert!(
            controller.cwnd() <= u32::MAX as usize && controller.ssthresh() <= u32::MAX as usize,
            "{control}: within bounds"
        );
        if matches!(
            happening,
            Happening::Loss | Happening::Penalty(_) | Happening::Timeout
        ) {
            assert!(
                controller.cwnd() >= pmdcs,
                "{control}: a packet of this size"
            );
        }
        assert!(
            controller.flight_limit() > 0,
            "{control}: something may always leave"
        );
        windows.push((controller.cwnd(), controller.ssthresh()));
    }
    windows
}

proptest! {
    #[test]
    fn whatever_happens_a_packet_may_leave_and_windows_are_bounded(
        history in proptest::collection::vec((happenings(), surroundings()), 1..60),
    ) {
        let start = Instant::now() + Duration::from_secs(1000);
        for control in CongestionControl::ALL {
            let once = windows(control, start, &history);
            let again = windows(control, start + Duration::from_secs(5), &history);
            prop_assert_eq!(once, again, "{} is deterministic", control);
        }
    }
}

#[test]
fn coupled_controllers_on_their_own_grow_like_reno() {
    fn grows<L: Law + Default>() -> isize {
        growth(
            &mut avoiding::<L>(100_000),
            100,
            50,
            &CoupledPaths::default(),
        )
    }
    let growths = [
        grows::<lia::Lia>(),
        grows::<olia::Olia>(),
        grows::<balia::Balia>(),
        grows::<resource_pooling::RpV1>(),
        grows::<resource_pooling::RpV2>(),
    ];
    // A packet for a window of a hundred; a little less, for the window grows meanwhile.
    assert_eq!(growths, [995; 5]);
}

#[test]
fn nothing_grows_in_recovery_or_while_the_window_is_not_used() {
    for control in CongestionControl::ALL {
        let mut controller = control.controller(1000, false);
        let before = controller.cwnd();
        acknowledge(&mut *controller, acked(1000, before), true);
        acknowledge(&mut *controller, acked(1000, before / 4), false);
        assert_eq!(controller.cwnd(), before, "{control}");
    }
}

#[test]
fn a_spurious_loss_gives_every_window_back() {
    for control in CongestionControl::ALL {
        let mut controller = grown(control);
        let before = (controller.cwnd(), controller.ssthresh());
        assert!(before.0 >= 40_000, "{control}");
        lose(&mut *controller);
        assert!(controller.cwnd() < before.0, "{control}");
        controller.on_spurious_loss();
        assert_eq!(
            (controller.cwnd(), controller.ssthresh()),
            before,
            "{control}"
        );
        assert_eq!(controller.acked_between_losses(), None, "{control}");
        time_out(&mut *controller);
        time_out(&mut *controller);
        controller.on_spurious_loss();
        assert_eq!(
            (controller.cwnd(), controller.ssthresh()),
            before,
            "{control}"
        );
        lose(&mut *controller);
        let reduced = controller.cwnd();
        controller.on_spurious_loss();
        controller.on_spurious_loss();
        assert!(controller.cwnd() > reduced, "{control}: once is enough");
    }
}

/// A controller whose window has grown to some size.
fn grown(control: CongestionControl) -> Box<dyn CongestionController> {
    let mut controller = control.controller(1000, false);
    for _ in 0..40 {
        let full = acked(1000, controller.cwnd());
        acknowledge(&mut *controller, full, false);
    }
    controller
}

#[test]
fn a_penalty_counts_as_a_loss_only_where_something_is_overdue_and_is_not_undone() {
    let penalise = |controller: &mut dyn CongestionController, is_lost| {
        controller.on_penalty(is_lost, &unmeasured(false, &CoupledPaths::default()));
    };
    for control in CongestionControl::ALL {
        let mut controller = grown(control);
        let before = controller.cwnd();
        penalise(&mut *controller, false);
        let penalised = (controller.cwnd(), controller.ssthresh());
        assert!(penalised.0 < before, "{control}");
        assert_eq!(controller.acked_between_losses(), None, "{control}");
        controller.on_spurious_loss();
        assert_eq!(controller.cwnd(), penalised.0, "{control}");

        for (is_lost, after) in [(false, Some(40_000)), (true, Some(30_250))] {
            let mut controller = grown(control);
            lose(&mut *controller);
            let between = controller.acked_between_losses();
            assert_eq!(between, Some(40_000), "{control}");
            acknowledge(&mut *controller, acked(1000, 0), false);
            penalise(&mut *controller, is_lost);
            // Another 1000 bytes: (3 * 40,000 + 1000) / 4.
            assert_eq!(controller.acked_between_losses(), after, "{control}");
            assert!(controller.cwnd() < penalised.0, "{control}");
            // The loss is undone, the penalty stays.
            controller.on_spurious_loss();
            let restored = (controller.cwnd(), controller.ssthresh());
            assert_eq!(restored, penalised, "{control}");
            let after = is_lost.then_some(41_000);
            assert_eq!(controller.acked_between_losses(), after, "{control}");
        }
    }
}

#[test]
fn timeouts_in_a_row_are_one_loss() {
    for control in CongestionControl::ALL {
        let mut controller = grown(control);
        time_out(&mut *controller);
        let coupled = controller.coupled();
        for _ in 0..3 {
            time_out(&mut *controller);
        }
        let between = controller.acked_between_losses();
        assert_eq!(between, Some(40_000), "{control}");
        let acked_between = |path: Option<CoupledPath>| path.map(|path| path.acked_between_losses);
        assert_eq!(
            acked_between(controller.coupled()),
            acked_between(coupled),
            "{control}"
        );
        acknowledge(&mut *controller, acked(1000, 1000), false);
        time_out(&mut *controller);
        let between = controller.acked_between_losses();
        // (3 * 40,000 + 1000) / 4.
        assert_eq!(between, Some(30_250), "{control}: another one");
    }
}
