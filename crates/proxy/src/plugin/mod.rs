//! Plugins: decisions by scripts in Lua, which settings name. `docs/plugins.md` is their manual.
//!
//! [`Plugins`] is a [`Hook`]. It has a `state` of Lua for each script, and asks the scripts in their order. A script runs in a
//! coroutine; a `question` suspends it, and the hook parks the message with the query. What a script sees is in `library` (the
//! global table `tandem`), `prelude.lua` (what is left of Lua's own functions), and `subject` (the message and what can be
//! done with it). What it may use is measured by `meter`. `shared` is common to all workers.

mod context;
mod json;
mod library;
mod lint;
mod meter;
mod pattern;
mod question;
mod redis;
mod shared;
mod simulation;
mod state;
mod strings;
mod subject;

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use mlua::Function;
use rand::Rng;
use rand_chacha::ChaCha12Rng;
use sip::Message;

use context::Events;
pub use lint::lint;
pub use meter::Stopwatch;
pub use shared::{MAXIMUM_ENTRIES, MAXIMUM_OCTETS, PluginCounts, PluginStatistics, Shared};
pub use simulation::{TestResult, run_tests};
use state::{Call, Edits, Outcome, State};
use subject::Subject;

use crate::core::{
    BranchPoint, Decision, DialogEndPoint, DropReply, Event, FailurePoint, ForwardTo, Hook,
    NewTargets, OnError, ParkedState, PluginScript, Points, Policy, Query, Refusal, ReplyPoint,
    RequestAction, RequestPoint, Resumption, RoutePoint,
};

/// What surrounds the scripts of a worker.
#[derive(Clone, Copy, Debug, Default)]
pub struct Environment {
    /// What limits the time of a hook. Without one, instructions alone do, and every run repeats.
    pub stopwatch: Option<Stopwatch>,
    /// Times of day are written as UTC, whatever the zone of this host.
    pub is_utc: bool,
    /// Timers run here: in one of several workers.
    pub has_timers: bool,
}

/// The functions that a script may define.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HookName {
    Request,
    Register,
    Route,
    Branch,
    Reply,
    Failure,
    DialogEnd,
    Timer,
}

impl HookName {
    const COUNT: usize = 8;

    const ALL: [HookName; HookName::COUNT] = [
        HookName::Request,
        HookName::Register,
        HookName::Route,
        HookName::Branch,
        HookName::Reply,
        HookName::Failure,
        HookName::DialogEnd,
        HookName::Timer,
    ];

    fn as_str(self) -> &'static str {
        match self {
            HookName::Request => "on_request",
            HookName::Register => "on_register",
            HookName::Route => "on_route",
            HookName::Branch => "on_branch",
            HookName::Reply => "on_reply",
            HookName::Failure => "on_failure",
            HookName::DialogEnd => "on_dialog_end",
            HookName::Timer => "on_timer",
        }
    }

    fn point(self) -> Points {
        match self {
            HookName::Request => Points::REQUEST,
            HookName::Register => Points::REGISTER,
            HookName::Route => Points::ROUTE,
            HookName::Branch => Points::BRANCH,
            HookName::Reply => Points::REPLY,
            HookName::Failure => Points::FAILURE,
            HookName::DialogEnd => Points::DIALOG_END,
            HookName::Timer => Points::TIMER,
        }
    }

    /// Whether a message can be refused there.
    fn is_refusable(self) -> bool {
        matches!(
            self,
            HookName::Request | HookName::Register | HookName::Route | HookName::Branch
        )
    }
}

/// The scripts of a worker.
#[derive(Debug)]
pub struct Plugins {
    shared: Arc<Shared>,
    environment: Environment,
    rng: ChaCha12Rng,
    now: Instant,
    wall_clock: Option<(Instant, SystemTime)>,
    scripts: Arc<[PluginScript]>,
    states: States,
    points: Points,
    timers: Vec<Timer>,
    events: Arc<Events>,
}

/// The states of all scripts. Calls that wait keep those that they have begun in.
type States = Arc<[Arc<State>]>;

#[derive(Debug)]
struct Timer {
    due: Instant,
    interval: Duration,
    function: Function,
    state: Arc<State>,
}

/// What is kept of a call that waits for an answer.
#[derive(Debug)]
struct WaitingCall {
    states: States,
    /// Whose it is.
    at: usize,
    call: Call,
}

/// What the scripts have decided.
#[derive(Debug)]
enum Consent {
    Continue,
    Act(RequestAction),
    Park(Query, ParkedState),
}

/// Tries whether a script can be loaded.
///
/// # Errors
/// File, line and reason.
pub fn check(script: &PluginScript) -> Result<(), String> {
    let environment = Environment::default();
    let common = (&Arc::default(), &Arc::default());
    let loaded = State::load(script, &environment, common, (1, 2), Instant::now());
    loaded.map(|_| ())
}

impl Plugins {
    /// No scripts yet: those of settings come with them. The generator gives the seeds of `math.random`.
    pub fn new(
        shared: Arc<Shared>,
        environment: Environment,
        now: Instant,
        rng: ChaCha12Rng,
    ) -> Plugins {
        Plugins {
            shared,
            environment,
            rng,
            now,
            wall_clock: None,
            scripts: Arc::default(),
            states: Arc::default(),
            points: Points::default(),
            timers: Vec::new(),
            events: Arc::default(),
        }
    }

    /// Goes over to other scripts. One that has not changed keeps its state.
    fn load(&mut self, scripts: &Arc<[PluginScript]>) {
        let mut states = Vec::new();
        for script in &**scripts {
            let same = self.states.iter().find(|state| state.script == *script);
            if let Some(state) = same {
                states.push(Arc::clone(state));
                continue;
            }
            let seed = (self.rng.next_u64() as i64, self.rng.next_u64() as i64);
            let common = (&self.shared, &self.events);
            match State::load(script, &self.environment, common, seed, self.now) {
                Ok(state) => {
                    if let Some((now, time)) = self.wall_clock {
                        state.set_wall_clock(now, time);
                    }
                    states.push(Arc::new(state));
                }
                Err(error) => self.events.push(Event::PluginFailed {
                    plugin: Arc::clone(&script.name),
                    hook: "loading",
                    error: error.into(),
                }),
            }
        }
        let is_kept =
            |timer: &mut Timer| states.iter().any(|state| Arc::ptr_eq(state, &timer.state));
        self.timers.retain_mut(is_kept);
        let timed = |state: &Arc<State>| {
            let is_timed = self
                .timers
                .iter()
                .any(|timer| Arc::ptr_eq(&timer.state, state));
            self.environment.has_timers && !is_timed
        };
        let new: Vec<_> = states.iter().filter(|state| timed(state)).collect();
        let timers = new.into_iter().flat_map(|state| {
            state.timers().iter().map(|(interval, function)| Timer {
                due: self.now + *interval,
                interval: *interval,
                function: function.clone(),
                state: Arc::clone(state),
            })
        });
        self.timers.extend(timers.collect::<Vec<_>>());
        self.points = HookName::ALL
            .into_iter()
            .filter(|hook| states.iter().any(|state| state.has(*hook)))
            .fold(Points::default(), |points, hook| points | hook.point());
        if !self.timers.is_empty() {
            self.points = self.points | Points::TIMER;
        }
        self.states = states.into();
        self.scripts = Arc::clone(scripts);
    }

    /// Asks the scripts about a message, in their order.
    fn ask(
        &mut self,
        hook: HookName,
        now: Instant,
        resumed: Option<Resumption<'_>>,
        message: &mut Message,
        describe: impl Fn(&mut Subject),
    ) -> (Consent, Edits) {
        let mut edits = Edits::default();
        let (states, mut at, mut waiting) = self.take_up(now, resumed);
        while let Some(state) = states.get(at) {
            let (outcome, more) = match waiting.take() {
                Some((call, answer)) => state.resume_with(call, now, answer, message),
                None => state.call_with(hook, now, message, &describe),
            };
            edits.is_changed |= more.is_changed;
            edits.is_retargeted |= more.is_retargeted;
            match turn(hook, state, outcome) {
                Turn::Act(action) => return (Consent::Act(action), edits),
                Turn::Next => at += 1,
                Turn::Ask(query, call) => {
                    let waiting = ParkedState::new(WaitingCall { states, at, call });
                    return (Consent::Park(query, waiting), edits);
                }
            }
        }
        (Consent::Continue, edits)
    }

    /// Where to begin: with the first script, or with the one that has its answer.
    fn take_up<'a>(
        &mut self,
        now: Instant,
        resumed: Option<Resumption<'a>>,
    ) -> (States, usize, Option<(Call, &'a crate::core::Answer)>) {
        self.now = now;
        let answer = resumed.as_ref().map(|resumed| resumed.answer);
        let waiting = resumed.and_then(|resumed| resumed.state.into_inner::<WaitingCall>());
        match (waiting, answer) {
            (Some(WaitingCall { states, at, call }), Some(answer)) => {
                (states, at, Some((call, answer)))
            }
            _ => (Arc::clone(&self.states), 0, None),
        }
    }
}

/// What a call of a script comes to.
#[derive(Debug)]
enum Turn {
    /// The next script is asked.
    Next,
    Act(RequestAction),
    Ask(Query, Call),
}

fn turn(hook: HookName, state: &State, outcome: Outcome) -> Turn {
    match outcome {
        Outcome::Done(Some(verdict)) => Turn::Act(verdict),
        Outcome::Done(None) => Turn::Next,
        Outcome::Asked(query, call) => Turn::Ask(query, call),
        Outcome::Failed(error) => {
            state.note_failure(hook, &error);
            let is_rejected = state.script.on_error == OnError::Reject && hook.is_refusable();
            match is_rejected {
                true => Turn::Act(RequestAction::Refuse(Refusal::new(500, "Plugin Error"))),
                false => Turn::Next,
            }
        }
    }
}

impl Hook for Plugins {
    fn points(&self) -> Points {
        self.points
    }

    fn set_policy(&mut self, policy: &Arc<Policy>) {
        if policy.plugins != self.scripts {
            self.load(&policy.plugins);
        }
    }

    fn set_wall_clock(&mut self, now: Instant, time: SystemTime) {
        self.now = now;
        self.wall_clock = Some((now, time));
        for state in &*self.states {
            state.set_wall_clock(now, time);
        }
    }

    fn next_timeout(&self) -> Option<Instant> {
        self.timers.iter().map(|timer| timer.due).min()
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop()
    }

    fn on_request(
        &mut self,
        point: &mut RequestPoint<'_>,
        resumed: Option<Resumption<'_>>,
    ) -> Decision<RequestAction> {
        self.on_incoming(HookName::Request, point, resumed)
    }

    fn on_register(
        &mut self,
        point: &mut RequestPoint<'_>,
        resumed: Option<Resumption<'_>>,
    ) -> Decision<RequestAction> {
        self.on_incoming(HookName::Register, point, resumed)
    }

    fn on_route(
        &mut self,
        point: &mut RoutePoint<'_>,
        resumed: Option<Resumption<'_>>,
    ) -> Decision<RequestAction> {
        let (arrival, user) = (*point.arrival, point.user);
        let describe = |subject: &mut Subject| {
            subject.arrival = Some(arrival);
            subject.user = user.map(Into::into);
        };
        let hook = HookName::Route;
        let (consent, _) = self.ask(hook, point.now, resumed, point.request, describe);
        decision(consent)
    }

    fn on_branch(
        &mut self,
        point: &mut BranchPoint<'_>,
        resumed: Option<Resumption<'_>>,
    ) -> Decision<Refusal> {
        let (arrival, target) = (*point.arrival, point.target);
        let describe = |subject: &mut Subject| {
            subject.arrival = Some(arrival);
            subject.target = Some(target.into());
        };
        let hook = HookName::Branch;
        let (consent, edits) = self.ask(hook, point.now, resumed, point.request, describe);
        *point.is_changed |= edits.is_changed;
        match consent {
            Consent::Act(RequestAction::Refuse(refusal)) => Decision::Act(refusal),
            Consent::Park(query, state) => Decision::Park(query, state),
            Consent::Act(_) | Consent::Continue => Decision::Continue,
        }
    }

    fn on_reply(
        &mut self,
        point: &mut ReplyPoint<'_>,
        resumed: Option<Resumption<'_>>,
    ) -> Decision<DropReply> {
        let hook = HookName::Reply;
        let (consent, _) = self.ask(hook, point.now, resumed, point.response, |_| {});
        match consent {
            Consent::Act(RequestAction::Drop) => Decision::Act(DropReply),
            Consent::Park(query, state) => Decision::Park(query, state),
            Consent::Act(_) | Consent::Continue => Decision::Continue,
        }
    }

    fn on_failure(
        &mut self,
        point: &mut FailurePoint<'_>,
        resumed: Option<Resumption<'_>>,
    ) -> Decision<NewTargets> {
        let mut request = point.request().clone();
        let (arrival, status) = (*point.arrival(), point.status());
        let response = point.response();
        let describe = |subject: &mut Subject| {
            subject.arrival = Some(arrival);
            subject.status = Some(status);
            subject.response = response.cloned();
        };
        let hook = HookName::Failure;
        let (consent, _) = self.ask(hook, point.now, resumed, &mut request, describe);
        match consent {
            Consent::Act(RequestAction::Refuse(refusal)) => {
                Decision::Act(NewTargets::answer(refusal))
            }
            Consent::Act(RequestAction::Forward(ForwardTo::Targets(groups))) => {
                Decision::Act(NewTargets::in_turn(groups))
            }
            Consent::Park(query, state) => Decision::Park(query, state),
            Consent::Act(_) | Consent::Continue => Decision::Continue,
        }
    }

    fn on_dialog_end(
        &mut self,
        point: &DialogEndPoint<'_>,
        resumed: Option<Resumption<'_>>,
    ) -> Decision<()> {
        let hook = HookName::DialogEnd;
        let parts = [
            ("call_id", point.call_id),
            ("from_tag", point.from_tag),
            ("to_tag", point.to_tag),
        ];
        let (states, mut at, mut waiting) = self.take_up(point.now, resumed);
        while let Some(state) = states.get(at) {
            let outcome = match (waiting.take(), state.function(hook)) {
                (Some((call, answer)), _) => state.resume(call, point.now, answer),
                (None, Some(function)) => {
                    let words = |lua: &mlua::Lua| state::dialog(lua, parts);
                    state.call(hook, point.now, function, words)
                }
                (None, None) => Outcome::Done(None),
            };
            match turn(hook, state, outcome) {
                Turn::Next | Turn::Act(_) => at += 1,
                Turn::Ask(query, call) => {
                    let waiting = ParkedState::new(WaitingCall { states, at, call });
                    return Decision::Park(query, waiting);
                }
            }
        }
        Decision::Continue
    }

    fn on_timer(&mut self, now: Instant, resumed: Option<Resumption<'_>>) -> Decision<()> {
        let (states, at, waiting) = self.take_up(now, resumed);
        let (state, outcome) = if let Some((call, answer)) = waiting {
            let Some(state) = states.get(at) else {
                return Decision::Continue;
            };
            (Arc::clone(state), state.resume(call, now, answer))
        } else {
            let due = self.timers.iter_mut().find(|timer| timer.due <= now);
            let Some(timer) = due else {
                return Decision::Continue;
            };
            timer.due = now + timer.interval;
            let state = Arc::clone(&timer.state);
            let words = |_: &mlua::Lua| Ok(mlua::MultiValue::new());
            let outcome = state.call(HookName::Timer, now, &timer.function, words);
            (state, outcome)
        };
        match turn(HookName::Timer, &state, outcome) {
            Turn::Next | Turn::Act(_) => Decision::Continue,
            Turn::Ask(query, call) => {
                let states: States = Arc::from([state]);
                let waiting = WaitingCall {
                    states,
                    at: 0,
                    call,
                };
                Decision::Park(query, ParkedState::new(waiting))
            }
        }
    }
}

impl Plugins {
    fn on_incoming(
        &mut self,
        hook: HookName,
        point: &mut RequestPoint<'_>,
        resumed: Option<Resumption<'_>>,
    ) -> Decision<RequestAction> {
        let (arrival, user) = (*point.arrival, point.user);
        let describe = |subject: &mut Subject| {
            subject.arrival = Some(arrival);
            subject.user = user.map(Into::into);
        };
        let (consent, edits) = self.ask(hook, point.now, resumed, point.request, describe);
        *point.is_retargeted |= edits.is_retargeted;
        decision(consent)
    }
}

fn decision(consent: Consent) -> Decision<RequestAction> {
    match consent {
        Consent::Continue => Decision::Continue,
        Consent::Act(action) => Decision::Act(action),
        Consent::Park(query, state) => Decision::Park(query, state),
    }
}
