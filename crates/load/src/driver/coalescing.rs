//! For how long a worker lets messages gather before it looks at them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::config::{GeneratorConfig, Role};
use super::plan::TaskKind;
use crate::script::Script;

/// How often it is looked how much there is to do.
const WINDOW: Duration = Duration::from_millis(10);

/// A worker that has fewer messages in a window is woken by each of them.
const BUSY: u64 = 40;

/// How many messages a turn is to have; and where all callees of our callers are in this process, so that no server
/// is sent so many at once.
const MESSAGES: u64 = 64;
const MESSAGES_AMONG_OURSELVES: u64 = 128;

/// How long turns may last at most: where all callees of our callers are in this process, so that nobody but itself
/// waits for it, over any transport; where attempts may begin so late, and nothing that is measured depends on it; where
/// our callees answer calls of others, whose delays have that in them; where messages have come when they are read; and
/// where a delay counts from one request to the answer to a later one, which is written when its turn comes.
const LONGEST_AMONG_OURSELVES: Duration = Duration::from_millis(8);
const LONGEST: Duration = Duration::from_millis(4);
const LONGEST_OF_CALLEES: Duration = Duration::from_micros(500);
const LONGEST_WITHOUT_STAMPS: Duration = Duration::from_micros(150);
const LONGEST_WITH_FOLLOW_UPS: Duration = Duration::from_micros(150);

/// How long the turns of a worker may last.
#[derive(Clone, Debug)]
pub(super) struct CoalescingLimits {
    /// Where each delay is that of one request.
    longest: Duration,
    /// Where it is that of several.
    with_follow_ups: Duration,
    /// Whether users answer challenges: delays count from the first request (RFC 6076 sections 4.1 and 4.3).
    has_logins: bool,
    scripts: Vec<Arc<Script>>,
}

impl CoalescingLimits {
    pub(super) fn new(config: &GeneratorConfig, is_stamped: bool) -> CoalescingLimits {
        let is_among_ourselves = config.role == Role::Both && config.direct;
        let longest = if is_among_ourselves {
            LONGEST_AMONG_OURSELVES
        } else if !is_stamped {
            LONGEST_WITHOUT_STAMPS
        } else if config.role.has_callees() {
            LONGEST_OF_CALLEES
        } else {
            LONGEST
        };
        let with_follow_ups = match is_among_ourselves {
            true => longest,
            false => longest.min(LONGEST_WITH_FOLLOW_UPS),
        };
        let directory = &config.engine.directory;
        let has_logins = directory.password.is_some()
            || directory.listed.iter().any(|user| user.password.is_some());
        CoalescingLimits {
            longest,
            with_follow_ups,
            has_logins,
            scripts: config.scripts.clone(),
        }
    }

    /// While so much is done.
    pub(super) fn longest(&self, tasks: impl IntoIterator<Item = TaskKind>) -> Duration {
        let mut tasks = tasks.into_iter();
        match self.has_logins || tasks.any(|task| self.has_follow_ups(task)) {
            true => self.with_follow_ups,
            false => self.longest,
        }
    }

    /// Where requests turn out to be followed by others.
    pub(super) fn with_follow_ups(&self) -> Duration {
        self.with_follow_ups
    }

    fn has_follow_ups(&self, task: TaskKind) -> bool {
        match task {
            // A registrar that wants longer registrations has the REGISTER repeated (RFC 3261 section 10.2.8).
            TaskKind::Register | TaskKind::Unregister => true,
            TaskKind::Script(id) => {
                let script = self.scripts.get(usize::from(id.0));
                script.is_none_or(|script| !script.asks_once())
            }
        }
    }
}

/// Lets a worker that begins attempts by the clock have turns with more than a message or two, once there are
/// many: a call is six wakes otherwise, each of which costs more than what is done in it. What it measures stays
/// right, since the kernel notes when datagrams come; but attempts begin, and requests of peers are answered,
/// later by up to a turn.
#[derive(Debug)]
pub(super) struct Coalescer {
    /// When the present window began, and how many messages had been received then.
    window: (Instant, u64),
    /// How long a turn may last.
    longest: Duration,
    /// How long a turn lasts; nothing where messages are few.
    turn: Duration,
    /// When the present turn began.
    began: Instant,
}

/// How to wait for the next turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wait {
    /// For so long, whatever comes.
    pub(super) pause: Duration,
    /// After that for a message, but no longer than until then.
    pub(super) until: Option<Instant>,
}

impl Coalescer {
    /// CoalescingLimits last no longer than `longest`.
    pub(super) fn new(now: Instant, longest: Duration) -> Coalescer {
        Coalescer {
            window: (now, 0),
            longest,
            turn: Duration::ZERO,
            began: now,
        }
    }

    /// From now on turns last no longer than this.
    pub(super) fn limit(&mut self, longest: Duration) {
        self.longest = longest;
        self.turn = self.turn.min(longest);
    }

    /// Ends a turn. `due` is when there is something to do next; `is_behind` says that there is now; so many messages
    /// had been received since the beginning.
    pub(super) fn end_turn(
        &mut self,
        now: Instant,
        due: Option<Instant>,
        is_behind: bool,
        received: u64,
    ) -> Wait {
        self.measure(now, received);
        let (pause, until) = if is_behind {
            (Duration::ZERO, Some(now))
        } else if self.turn.is_zero() {
            (Duration::ZERO, due)
        } else {
            let next = now.max(self.began + self.turn);
            (next - now, Some(next))
        };
        self.began = now + pause;
        Wait { pause, until }
    }

    fn measure(&mut self, now: Instant, received: u64) {
        let (since, before) = self.window;
        let time = now.saturating_duration_since(since);
        if time < WINDOW {
            return;
        }
        let wanted = match self.longest > LONGEST {
            true => MESSAGES_AMONG_OURSELVES,
            false => MESSAGES,
        };
        self.turn = turn(received.saturating_sub(before), time, wanted).min(self.longest);
        self.window = (now, received);
    }
}

/// How long turns are to be where so many messages came in such a time, and so many are wanted in a turn.
fn turn(messages: u64, time: Duration, wanted: u64) -> Duration {
    let busy = time.as_secs_f64() / WINDOW.as_secs_f64() * BUSY as f64;
    if messages as f64 <= busy {
        return Duration::ZERO;
    }
    time.mul_f64(wanted as f64 / messages as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Directory, EngineConfig};
    use crate::script::builtin::{self, AnswerPlan, CallPlan};
    use crate::script::{ScriptId, Step};

    #[test]
    fn turns_are_short_where_delays_have_several_requests_in_them() {
        let calls = GeneratorConfig {
            role: Role::Callers,
            ..GeneratorConfig::calls(&CallPlan::default(), &AnswerPlan::default()).unwrap()
        };
        let of =
            |config: &GeneratorConfig, task| CoalescingLimits::new(config, true).longest([task]);
        assert_eq!(of(&calls, GeneratorConfig::CALL), LONGEST);
        assert_eq!(of(&calls, TaskKind::Register), LONGEST_WITH_FOLLOW_UPS);
        let unstamped = CoalescingLimits::new(&calls, false);
        assert_eq!(unstamped.longest([]), LONGEST_WITHOUT_STAMPS);
        let both = GeneratorConfig {
            role: Role::Both,
            ..calls.clone()
        };
        assert_eq!(of(&both, GeneratorConfig::CALL), LONGEST_OF_CALLEES);
        let direct = |role| GeneratorConfig {
            role,
            direct: true,
            ..calls.clone()
        };
        let ourselves = direct(Role::Both);
        for task in [GeneratorConfig::CALL, TaskKind::Register] {
            assert_eq!(of(&ourselves, task), LONGEST_AMONG_OURSELVES);
        }
        // Whether they wait for each other over TCP or over UDP.
        let unstamped = CoalescingLimits::new(&ourselves, false);
        assert_eq!(
            unstamped.longest([GeneratorConfig::CALL]),
            LONGEST_AMONG_OURSELVES
        );
        assert_eq!(unstamped.with_follow_ups(), LONGEST_AMONG_OURSELVES);
        // Whoever calls them is another process.
        assert_eq!(
            of(&direct(Role::Callees), GeneratorConfig::CALL),
            LONGEST_OF_CALLEES
        );
        assert_eq!(of(&direct(Role::Callers), GeneratorConfig::CALL), LONGEST);

        let directory = Directory {
            password: Some("secret".to_owned()),
            ..Directory::default()
        };
        let challenged = GeneratorConfig {
            engine: EngineConfig {
                directory: Arc::new(directory),
                ..EngineConfig::default()
            },
            ..calls.clone()
        };
        assert_eq!(
            of(&challenged, GeneratorConfig::CALL),
            LONGEST_WITH_FOLLOW_UPS
        );

        // Nobody knows what a scenario takes the time of.
        let steps: Vec<Step> = builtin::options().unwrap().steps().to_vec();
        let scenario = Script::new("of its own", steps, Vec::new()).unwrap();
        let scenario = GeneratorConfig {
            scripts: vec![Arc::new(builtin::options().unwrap()), Arc::new(scenario)],
            ..calls
        };
        let of = |number| of(&scenario, TaskKind::Script(ScriptId(number)));
        assert_eq!(of(0), LONGEST);
        assert_eq!(of(1), LONGEST_WITH_FOLLOW_UPS);
    }

    #[test]
    fn turns_have_enough_to_do_and_do_not_last_for_long() {
        let one = Duration::from_secs(1);
        let of = |messages, time| turn(messages, time, MESSAGES);
        assert_eq!(of(4_000, one), Duration::ZERO);
        assert_eq!(of(16_000, one), Duration::from_millis(4));
        assert_eq!(of(128_000, one), Duration::from_micros(500));
        assert_eq!(of(1_280, one / 100), Duration::from_micros(500));
        assert_eq!(of(0, Duration::ZERO), Duration::ZERO);
        let ourselves = turn(16_000, one, MESSAGES_AMONG_OURSELVES);
        assert_eq!(ourselves, LONGEST_AMONG_OURSELVES);
    }

    #[test]
    fn whoever_has_little_to_do_waits_for_what_is_due() {
        let now = Instant::now();
        let mut coalescer = Coalescer::new(now, Duration::from_millis(1));
        let due = Some(now + Duration::from_millis(20));
        let at_once = |until| Wait {
            pause: Duration::ZERO,
            until,
        };
        assert_eq!(coalescer.end_turn(now, due, false, 0), at_once(due));
        assert_eq!(coalescer.end_turn(now, None, false, 0), at_once(None));
        // Until the next window it is not known that there is more.
        assert_eq!(coalescer.end_turn(now, due, false, 200), at_once(due));
        let later = now + WINDOW;
        assert_eq!(
            coalescer.end_turn(later, due, true, 200),
            at_once(Some(later))
        );
        let wait = coalescer.end_turn(later, due, false, 200);
        let pause = Duration::from_millis(1);
        let until = Some(later + pause);
        assert_eq!(wait, Wait { pause, until });
        // A turn that took longer is followed at once.
        let late = later + 3 * pause;
        assert_eq!(
            coalescer.end_turn(late, due, false, 200),
            at_once(Some(late))
        );
    }
}
