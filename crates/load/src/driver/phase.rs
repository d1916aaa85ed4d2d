//! The phase of a worker: its share of the arrivals of a plan, or the registration of its users.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rand_chacha::ChaCha12Rng;

use super::plan::{LoadModel, LoadPlan, Task, TaskKind};
use super::population::{Population, Rotation, user_at};
use crate::arrivals::{Arrivals, Pattern, PatternError, Plan as ArrivalPlan, Spacing};
use crate::engine::{Engine, NewSession, NotBegun, UserRange};
use crate::record::{Party, Record};
use crate::script::ScriptId;
use crate::statistics::Statistics;

/// Attempts that are begun before received messages are read.
const BEGUN_AT_ONCE: usize = 64;

/// Registrations that a worker has under way while it registers all users as fast as it can.
const REGISTRATIONS_AT_ONCE: usize = 256;

/// The phase of a worker.
#[derive(Debug)]
pub(super) struct Phase {
    activity: Activity,
    /// When nothing is begun any more.
    end: Option<Instant>,
    /// How long what is under way then may take.
    drain: Option<Duration>,
    /// Since when nothing is begun any more.
    stopped: Option<Instant>,
    /// Users whose registration was begun here and has not ended; one has no two at a time. Those that the
    /// engine begins to keep users registered are not among them.
    registering: HashSet<u32>,
    /// When what was begun in this turn was due.
    begun: Vec<Instant>,
    /// Attempts of a closed loop that have ended.
    ended: u64,
    is_done: bool,
}

#[derive(Debug)]
enum Activity {
    /// Nothing, but to answer.
    None,
    /// Registers each user once, or removes each binding.
    Registering {
        removes: bool,
        users: Vec<UserRange>,
        /// The next one, by its place in all ranges.
        next: u32,
        /// Where so many a second are to begin.
        arrivals: Option<Box<Arrivals>>,
    },
    /// Begins attempts by the clock.
    Open {
        arrivals: Box<Arrivals>,
        plan: Arc<LoadPlan>,
        rotation: Rotation,
        in_flight: usize,
    },
    /// Lets each caller begin again and again.
    Closed {
        count: Option<u64>,
        /// What they do; whatever else they do beside is not counted.
        script: Option<ScriptId>,
    },
    /// Waits for others to call, or for commands of other generators.
    Serving(Commanded),
}

/// Attempts that commands begin.
#[derive(Clone, Copy, Debug)]
struct Commanded {
    /// After how many none is begun any more.
    count: Option<u64>,
    /// How many may be under way.
    in_flight: usize,
    /// How many have begun.
    begun: u64,
}

/// What becomes of a command that is for no call that there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Beginning {
    /// An attempt was begun.
    Begun,
    /// None may begin now, or it cannot.
    Refused,
    /// It is not of a kind that begins one.
    None,
}

/// The progress of a phase in one turn of its worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// There is more to do, or it was said before that there is not.
    Nothing,
    /// As many were begun as are begun in a turn: more may be due.
    More,
    /// All has been begun, and has ended or had its time.
    Done,
}

impl Phase {
    /// Nothing to do but to answer.
    pub(super) fn idle() -> Phase {
        Phase::new(Activity::None)
    }

    /// Registers all users of a worker, so many a second of all workers together or as fast as the
    /// registrar answers.
    pub(super) fn register(
        started: Instant,
        per_second: Option<f64>,
        population: Population,
        rng: ChaCha12Rng,
    ) -> Result<Phase, PatternError> {
        let plan = per_second.map(|per_second| ArrivalPlan {
            pattern: Pattern::Constant { per_second },
            spacing: Spacing::Even,
            count: None,
            time: None,
        });
        let arrivals = plan
            .map(|plan| Arrivals::new(plan, population.share, started, rng))
            .transpose()?;
        Ok(Phase::new(Activity::Registering {
            removes: false,
            users: vec![population.callers, population.callees],
            next: 0,
            arrivals: arrivals.map(Box::new),
        }))
    }

    /// Removes the bindings of all users of a worker who have one, as fast as the registrar answers.
    pub(super) fn unregister(population: Population) -> Phase {
        Phase::new(Activity::Registering {
            removes: true,
            users: vec![population.callers, population.callees],
            next: 0,
            arrivals: None,
        })
    }

    /// Does what a plan says.
    pub(super) fn run(
        now: Instant,
        started: Instant,
        plan: &Arc<LoadPlan>,
        population: Population,
        rng: ChaCha12Rng,
        engine: &mut Engine,
    ) -> Result<Phase, PatternError> {
        let share = population.share;
        let (activity, time) = match plan.model {
            LoadModel::Open(arrivals) => {
                let arrivals = Arrivals::new(arrivals, share, started, rng)?;
                let activity = Activity::Open {
                    arrivals: Box::new(arrivals),
                    plan: plan.clone(),
                    rotation: Rotation::new(population, plan.tasks.len()),
                    in_flight: usize::try_from(share.of(plan.in_flight as u64))
                        .unwrap_or(usize::MAX),
                };
                // The arrivals themselves know when they end.
                (activity, None)
            }
            LoadModel::Closed { count, time } => {
                let count = count.map(|count| share.of(count));
                let script = begin_closed(now, plan, population, count, engine);
                (Activity::Closed { count, script }, time)
            }
            LoadModel::Serve { count, time } => {
                let commanded = Commanded {
                    count,
                    in_flight: plan.in_flight,
                    begun: 0,
                };
                (Activity::Serving(commanded), time)
            }
        };
        Ok(Phase {
            end: time.and_then(|time| started.checked_add(time)),
            drain: plan.drain,
            ..Phase::new(activity)
        })
    }

    fn new(activity: Activity) -> Phase {
        Phase {
            activity,
            end: None,
            drain: None,
            stopped: None,
            registering: HashSet::new(),
            begun: Vec::new(),
            ended: 0,
            is_done: false,
        }
    }

    /// Begins what is due.
    pub(super) fn turn(
        &mut self,
        now: Instant,
        engine: &mut Engine,
        statistics: &mut Statistics,
    ) -> Progress {
        let mut is_behind = false;
        if self.stopped.is_none() {
            is_behind = self.begin_due(now, engine, statistics);
            if self.is_over(now) {
                self.stop(now, engine);
            }
        }
        match !self.is_done && self.has_ended(now, engine) {
            true => {
                self.is_done = true;
                Progress::Done
            }
            false if is_behind => Progress::More,
            false => Progress::Nothing,
        }
    }

    /// What was begun in this turn has been sent now: that is how late it was.
    pub(super) fn note_begun(&mut self, now: Instant, statistics: &mut Statistics) {
        for due in self.begun.drain(..) {
            statistics.note_started(due, now);
        }
    }

    /// A command of another generator is to begin an attempt. `begin` is given how many have begun.
    pub(super) fn begin_commanded(
        &mut self,
        now: Instant,
        engine: &mut Engine,
        statistics: &mut Statistics,
        begin: impl FnOnce(&mut Engine, u64) -> Result<(), NotBegun>,
    ) -> Beginning {
        let Activity::Serving(commanded) = &mut self.activity else {
            return Beginning::None;
        };
        if self.stopped.is_some() || commanded.is_enough() {
            return Beginning::Refused;
        }
        let begun = match engine.in_flight() >= commanded.in_flight {
            true => Err(NotBegun::Full),
            false => begin(engine, commanded.begun),
        };
        match begun {
            Ok(()) => {
                commanded.begun += 1;
                self.begun.push(now);
                return Beginning::Begun;
            }
            Err(NotBegun::NoScript) => return Beginning::None,
            Err(NotBegun::Full | NotBegun::Busy) => statistics.note_held_back(now),
            Err(NotBegun::NoSuchUser | NotBegun::NotConnected) => statistics.note_not_started(now),
        }
        Beginning::Refused
    }

    /// When there is something to begin, or to end, next.
    pub(super) fn next(&self) -> Option<Instant> {
        let next = match (&self.activity, self.stopped) {
            (_, Some(stopped)) => self.drain.and_then(|drain| stopped.checked_add(drain)),
            (Activity::Open { arrivals, .. }, None) => arrivals.next_due(),
            (
                Activity::Registering {
                    arrivals: Some(arrivals),
                    ..
                },
                None,
            ) => arrivals.next_due(),
            _ => None,
        };
        let end = self.end.filter(|_| self.stopped.is_none());
        [next, end]
            .into_iter()
            .flatten()
            .min()
            .filter(|_| !self.is_done)
    }

    /// Whether attempts are begun by the clock, so that nobody waits for this worker's speed.
    pub(super) fn is_open(&self) -> bool {
        matches!(self.activity, Activity::Open { .. })
    }

    /// Whether bindings are removed, which is no attempt of anybody's.
    pub(super) fn is_removing(&self) -> bool {
        matches!(self.activity, Activity::Registering { removes: true, .. })
    }

    /// Whether nothing is begun here but what keeps users registered.
    pub(super) fn is_serving(&self) -> bool {
        matches!(self.activity, Activity::Serving(_))
    }

    /// Takes note of what has ended.
    pub(super) fn record(&mut self, record: &Record) {
        let attempt = record.attempt();
        if matches!(record, Record::Established(_)) || attempt.party == Party::Callee {
            return;
        }
        if let Activity::Closed { script, .. } = self.activity
            && script == Some(attempt.script)
        {
            self.ended += 1;
        }
        if matches!(record, Record::Registration(_)) {
            self.registering.remove(&attempt.user);
        }
    }

    pub(super) fn set_rate(&mut self, now: Instant, per_second: f64) {
        if let Activity::Open { arrivals, .. } = &mut self.activity {
            arrivals.set_rate(now, per_second);
        }
    }

    pub(super) fn pause(&mut self, now: Instant) {
        if let Activity::Open { arrivals, .. } = &mut self.activity {
            arrivals.pause(now);
        }
    }

    pub(super) fn resume(&mut self, now: Instant) {
        if let Activity::Open { arrivals, .. } = &mut self.activity {
            arrivals.resume(now);
        }
    }

    /// Begins nothing more.
    pub(super) fn stop(&mut self, now: Instant, engine: &mut Engine) {
        self.stopped.get_or_insert(now);
        if let Activity::Closed { .. } = self.activity {
            engine.stop_repeating();
        }
    }

    /// Arrivals of this worker's that the schedule has until now.
    pub(super) fn scheduled(&self, now: Instant) -> u64 {
        match &self.activity {
            Activity::Open { arrivals, .. } => {
                arrivals.scheduled(self.stopped.map_or(now, |stopped| stopped.min(now)))
            }
            Activity::Registering {
                users,
                arrivals: Some(arrivals),
                ..
            } => {
                let all = users.iter().map(|range| u64::from(range.count));
                arrivals.scheduled(now).min(all.sum())
            }
            _ => 0,
        }
    }

    /// Attempts that the plan wants a second at present, of all workers.
    pub(super) fn per_second(&self, now: Instant) -> Option<f64> {
        match &self.activity {
            Activity::Open { arrivals, .. } => Some(arrivals.per_second(now)),
            _ => None,
        }
    }

    /// Tells whether more may be due.
    fn begin_due(
        &mut self,
        now: Instant,
        engine: &mut Engine,
        statistics: &mut Statistics,
    ) -> bool {
        match &mut self.activity {
            Activity::Registering {
                removes,
                users,
                next,
                arrivals,
            } => {
                for _ in 0..BEGUN_AT_ONCE {
                    while *removes
                        && user_at(users, *next).is_some_and(|user| !engine.is_registered(user))
                    {
                        *next += 1;
                    }
                    let Some(user) = user_at(users, *next) else {
                        return false;
                    };
                    let due = match arrivals {
                        Some(arrivals) => arrivals.take_due(now),
                        None => (self.registering.len() < REGISTRATIONS_AT_ONCE).then_some(now),
                    };
                    let Some(due) = due else { return false };
                    *next += 1;
                    // Users without a connection take no part.
                    let begun = match *removes {
                        true => engine.unregister(now, due, user),
                        false => engine.register(now, due, user),
                    };
                    if begun.is_ok() {
                        self.registering.insert(user);
                        self.begun.push(due);
                    }
                }
            }
            Activity::Open {
                arrivals,
                plan,
                rotation,
                in_flight,
            } => {
                for _ in 0..BEGUN_AT_ONCE {
                    let Some(due) = arrivals.take_due(now) else {
                        return false;
                    };
                    let under_way = engine.in_flight() + self.registering.len();
                    let begun = match rotation.next(&plan.tasks) {
                        Some(_) if under_way >= *in_flight => Err(NotBegun::Full),
                        Some((TaskKind::Register, user, _)) => engine
                            .register(now, due, user)
                            .inspect(|()| _ = self.registering.insert(user)),
                        Some((TaskKind::Unregister, user, _)) => engine
                            .unregister(now, due, user)
                            .inspect(|()| _ = self.registering.insert(user)),
                        Some((TaskKind::Script(script), user, peer)) => {
                            engine.begin(now, due, NewSession { script, user, peer })
                        }
                        None => Err(NotBegun::NoSuchUser),
                    };
                    match begun {
                        Ok(()) => self.begun.push(due),
                        // The far end has not answered what was begun before.
                        Err(NotBegun::Full | NotBegun::Busy) => statistics.note_held_back(due),
                        Err(_) => statistics.note_not_started(due),
                    }
                }
            }
            Activity::None | Activity::Closed { .. } | Activity::Serving(_) => return false,
        }
        true
    }

    /// Whether nothing is begun any more from now on.
    fn is_over(&self, now: Instant) -> bool {
        let is_over = match &self.activity {
            Activity::Open { arrivals, .. } => arrivals.is_finished(now),
            Activity::Registering { users, next, .. } => user_at(users, *next).is_none(),
            Activity::Closed { count, .. } => count.is_some_and(|count| self.ended >= count),
            Activity::Serving(commanded) => commanded.is_enough(),
            Activity::None => false,
        };
        is_over || self.end.is_some_and(|end| end <= now)
    }

    /// Whether all that was begun has ended, or has had its time.
    fn has_ended(&self, now: Instant, engine: &Engine) -> bool {
        let Some(stopped) = self.stopped else {
            return false;
        };
        let is_late = self
            .drain
            .is_some_and(|drain| now.saturating_duration_since(stopped) >= drain);
        is_late
            || match self.activity {
                Activity::Serving(_) => {
                    engine.in_flight() == 0 && (self.drain.is_none() || engine.sessions() == 0)
                }
                _ => self.registering.is_empty() && engine.in_flight() == 0,
            }
    }
}

impl Commanded {
    fn is_enough(&self) -> bool {
        self.count.is_some_and(|count| self.begun >= count)
    }
}

/// Has every caller repeat the first task of a plan, whose script is returned.
fn begin_closed(
    now: Instant,
    plan: &LoadPlan,
    population: Population,
    count: Option<u64>,
    engine: &mut Engine,
) -> Option<ScriptId> {
    let Some(Task {
        kind: TaskKind::Script(script),
        ..
    }) = plan.tasks.first()
    else {
        return None;
    };
    engine.limit_repeating(count);
    let callers = population.callers;
    for place in 0..callers.count {
        let user = callers.first + callers.step * place;
        let peer = user + population.all_callers;
        let session = NewSession {
            script: *script,
            user,
            peer,
        };
        // A user that is not there begins nothing.
        engine.call_repeatedly(now, session).ok();
    }
    Some(*script)
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;
    use crate::engine::EngineConfig;
    use crate::record::{Attempt, CallId, Outcome, RegistrationRecord, RequestRecord};

    fn attempt(script: u16, user: u32) -> Attempt {
        let now = Instant::now();
        Attempt {
            script: ScriptId(script),
            party: Party::Caller,
            user,
            peer: 0,
            call_id: CallId::read(b"1@localhost"),
            due: now,
            begun: now,
            ended: Duration::ZERO,
            outcome: Outcome::Completed,
            status: Some(200),
            retransmissions: 0,
            authentications: 0,
            timers: Vec::new(),
        }
    }

    fn registration(user: u32) -> Record {
        Record::Registration(RegistrationRecord {
            attempt: attempt(2, user),
            is_refresh: true,
            answered: None,
            expires: None,
        })
    }

    /// Users are kept registered while they call: that is none of the calls that the loop was asked for, and
    /// none of the registrations that were begun here.
    #[test]
    fn refreshes_are_not_counted() {
        let mut phase = Phase::new(Activity::Closed {
            count: Some(2),
            script: Some(ScriptId(0)),
        });
        phase.registering.insert(7);
        for user in 1..6 {
            phase.record(&registration(user));
        }
        assert_eq!((phase.ended, phase.registering.len()), (0, 1));
        assert!(!phase.is_over(Instant::now()));
        for user in 1..3 {
            phase.record(&Record::Request(RequestRecord {
                attempt: attempt(0, user),
                method: sip::Method::Options,
                answered: None,
            }));
        }
        assert!(phase.is_over(Instant::now()));
        phase.record(&registration(7));
        assert_eq!((phase.ended, phase.registering.len()), (2, 0));
    }

    #[test]
    fn commands_begin_no_more_than_may_be_begun() {
        let now = Instant::now();
        let rng = ChaCha12Rng::seed_from_u64(1);
        let mut engine = Engine::new(EngineConfig::default(), rng, now);
        let mut statistics = Statistics::new(now, Duration::from_secs(1));
        let serving = |count, in_flight| {
            Phase::new(Activity::Serving(Commanded {
                count,
                in_flight,
                begun: 0,
            }))
        };
        let (mut limited, mut full) = (serving(Some(2), 5), serving(None, 0));
        let mut begin = |phase: &mut Phase, begun| {
            let begin = |_: &mut Engine, _| begun;
            phase.begin_commanded(now, &mut engine, &mut statistics, begin)
        };
        assert_eq!(
            begin(&mut limited, Err(NotBegun::NoScript)),
            Beginning::None
        );
        for _ in 0..2 {
            assert!(!limited.is_over(now));
            assert_eq!(begin(&mut limited, Ok(())), Beginning::Begun);
        }
        assert_eq!(begin(&mut limited, Ok(())), Beginning::Refused);
        assert!(limited.is_over(now));
        assert_eq!(begin(&mut full, Ok(())), Beginning::Refused);
        let unconnected = Err(NotBegun::NotConnected);
        let mut other = Phase::new(Activity::Serving(Commanded {
            count: None,
            in_flight: 5,
            begun: 0,
        }));
        assert_eq!(begin(&mut other, unconnected), Beginning::Refused);
        assert_eq!(begin(&mut Phase::idle(), Ok(())), Beginning::None);
        let arrivals = statistics.arrivals;
        assert_eq!((arrivals.held_back, arrivals.not_started), (1, 2));
    }
}
