//! The plan of a run: tasks, load model, limits.

use std::time::Duration;

use crate::arrivals::{Pattern, Plan as ArrivalPlan, Spacing};
use crate::script::ScriptId;

/// The tasks of callers, how often they begin, and until when. Callees answer under every plan.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadPlan {
    /// Tasks. Each arrival does one of them, as often as their shares say.
    pub tasks: Vec<Task>,
    /// When it is begun, and until when.
    pub model: LoadModel,
    /// Attempts that may be under way at a time, all workers together. An arrival beyond is counted as not
    /// started.
    pub in_flight: usize,
    /// How long what is under way when nothing is begun any more may take to end; `None`: as long as it takes,
    /// which RFC 3261's timers bound, and for an INVITE with provisional responses alone
    /// [`Timers::proceeding`](crate::engine::Timers::proceeding), where the script has no limit.
    pub drain: Option<Duration>,
}

/// A task of callers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Task {
    /// Its kind.
    pub kind: TaskKind,
    /// How often, beside others.
    pub share: f64,
    /// The users at the other end.
    pub peers: Peers,
}

/// The kind of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskKind {
    /// Runs a script.
    Script(ScriptId),
    /// Registers.
    Register,
    /// Removes its binding.
    Unregister,
}

/// The users that are called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peers {
    /// By user i of n callers user n + i.
    Opposite,
    /// One after the other of these users.
    Range {
        /// The first.
        first: u32,
        /// How many; at least one.
        count: u32,
    },
}

/// When attempts begin.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LoadModel {
    /// Each caller begins its next attempt when the last one has ended (after a failure: half a second
    /// later, so that who refuses everything is not hammered). It does the first of the plan's work.
    Closed {
        /// After how many attempts none is begun any more.
        count: Option<u64>,
        /// After how long none is begun any more.
        time: Option<Duration>,
    },
    /// By the clock, whether or not earlier attempts have ended; callers take turns.
    Open(ArrivalPlan),
    /// Nothing is begun here by itself: callees wait for others to call, and commands of other generators begin
    /// calls, until they are told to stop.
    Serve {
        /// Until so many calls have ended; of those that commands begin, none is begun beyond.
        count: Option<u64>,
        /// How long.
        time: Option<Duration>,
    },
}

impl LoadPlan {
    /// One task under a load model. As many may be in flight as a large test has, and what is under way in the end
    /// may end.
    pub fn new(kind: TaskKind, model: LoadModel) -> LoadPlan {
        let task = Task {
            kind,
            share: 1.0,
            peers: Peers::Opposite,
        };
        LoadPlan {
            tasks: vec![task],
            model,
            in_flight: 100_000,
            drain: None,
        }
    }

    /// One thing, so many times at even intervals.
    pub fn at_rate(kind: TaskKind, per_second: f64, count: u64) -> LoadPlan {
        let arrivals = ArrivalPlan {
            pattern: Pattern::Constant { per_second },
            spacing: Spacing::Even,
            count: Some(count),
            time: None,
        };
        LoadPlan::new(kind, LoadModel::Open(arrivals))
    }
}
