//! A script with the state of Lua that it runs in: loading, calling, suspending.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};
use std::{mem, ptr};

use mlua::chunk::ChunkMode;
use mlua::{
    Error, Function, HookTriggers, IntoLua, IntoLuaMulti, LightUserData, Lua, LuaOptions,
    MultiValue, Result, StdLib, Table, Thread, Value, VmState,
};
use sip::{Message, Method};

use super::context::{Context, Events, OVER};
use super::meter::Meter;
use super::question;
use super::shared::Shared;
use super::subject::{self, Current, Subject};
use super::{Environment, HookName, library};
use crate::core::{Answer, Event, PluginScript, Query, RequestAction};

/// How many coroutines are kept for the next calls.
const MAXIMUM_IDLE: usize = 64;

/// How many times the instructions of a hook the script may use while it is loaded.
const LOADING: u64 = 20;

/// A script that has been loaded.
#[derive(Debug)]
pub(super) struct State {
    pub(super) script: PluginScript,
    lua: Lua,
    context: Arc<Context>,
    functions: [Option<Function>; HookName::COUNT],
    timers: Vec<(Duration, Function)>,
    /// What a coroutine yields first when it asks something.
    question: Table,
    idle: Mutex<Vec<Thread>>,
    /// What the call that runs is about.
    current: Arc<Current>,
    /// How many objects there have been: the next one has this number.
    objects: AtomicUsize,
    /// What takes the place of a message while a script has it.
    stand_in: Mutex<Option<Message>>,
    /// Calls that wait for an answer.
    waiting: Arc<AtomicUsize>,
}

/// A call of a hook that has begun, and has not ended.
#[derive(Debug)]
pub(super) struct Call {
    thread: Thread,
    /// What it is about, while it does not run.
    subject: Option<Box<Subject>>,
    instructions_left: u64,
    questions_left: u32,
    /// It is counted among those that wait.
    place: Option<WaitingPlace>,
}

#[derive(Debug)]
struct WaitingPlace(Arc<AtomicUsize>);

impl Drop for WaitingPlace {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

/// What a call has come to.
#[derive(Debug)]
pub(super) enum Outcome {
    /// It has ended, and decided this.
    Done(Option<RequestAction>),
    /// It waits for an answer.
    Asked(Query, Call),
    /// It has failed: file, line and reason.
    Failed(String),
}

/// What a script has done with a message.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Edits {
    pub(super) is_changed: bool,
    pub(super) is_retargeted: bool,
}

impl State {
    /// Runs a script, which defines its functions.
    pub(super) fn load(
        script: &PluginScript,
        environment: &Environment,
        (shared, events): (&Arc<Shared>, &Arc<Events>),
        seed: (i64, i64),
        now: Instant,
    ) -> std::result::Result<State, String> {
        let limits = script.limits;
        let meter = Meter::new(environment.stopwatch, limits.time);
        let context = Arc::new(Context::new(
            &script.name,
            meter,
            shared,
            events,
            limits.memory,
            environment.is_utc,
            now,
        ));
        State::load_with(script, &context, seed)
            .map_err(|error| describe(&error, &script.file, &context))
    }

    fn load_with(script: &PluginScript, context: &Arc<Context>, seed: (i64, i64)) -> Result<State> {
        let limits = script.limits;
        let lua = Lua::new_with(libraries(script), LuaOptions::default())?;
        lua.set_memory_limit(limits.memory)?;
        set_meter(&lua, context)?;
        context
            .meter
            .start_loading(limits.instructions.saturating_mul(LOADING));
        let question = lua.create_table()?;
        let current = Arc::<Current>::default();
        let host = library::host(&lua, context, &question)?;
        subject::add(&lua, &host, &current)?;
        prepare(&lua, script, host, seed)?;
        lua.load(&*script.text)
            .set_name(format!("@{}", script.file))
            .set_mode(ChunkMode::Text)
            .exec()?;
        let globals = lua.globals();
        let mut functions = [const { None }; HookName::COUNT];
        for (function, hook) in functions.iter_mut().zip(HookName::ALL) {
            *function = match globals.raw_get(hook.as_str())? {
                Value::Function(function) => Some(function),
                Value::Nil => None,
                _ => {
                    let name = hook.as_str();
                    return Err(Error::runtime(format!("{name} is no function")));
                }
            };
        }
        let timers = context.take_timers();
        Ok(State {
            script: script.clone(),
            lua,
            context: Arc::clone(context),
            functions,
            timers,
            question,
            idle: Mutex::default(),
            current,
            // 0 is JSON's null.
            objects: AtomicUsize::new(1),
            stand_in: Mutex::default(),
            waiting: Arc::default(),
        })
    }

    /// Whether the script has a function for a hook.
    pub(super) fn has(&self, hook: HookName) -> bool {
        self.function(hook).is_some()
    }

    /// What is to be called again and again.
    pub(super) fn timers(&self) -> &[(Duration, Function)] {
        &self.timers
    }

    pub(super) fn set_wall_clock(&self, now: Instant, time: SystemTime) {
        self.context.set_wall_clock(now, time);
    }

    /// Counts a failure, and tells of it.
    pub(super) fn note_failure(&self, hook: HookName, error: &str) {
        self.context.counters.note_error(hook);
        self.context.report(Event::PluginFailed {
            plugin: Arc::clone(&self.script.name),
            hook: hook.as_str(),
            error: error.into(),
        });
    }

    /// Calls a hook with a message, which the script has while it runs.
    pub(super) fn call_with(
        &self,
        hook: HookName,
        now: Instant,
        message: &mut Message,
        describe_it: impl FnOnce(&mut Subject),
    ) -> (Outcome, Edits) {
        let Some(function) = self.function(hook) else {
            return (Outcome::Done(None), Edits::default());
        };
        let mut call = match self.begin(hook, now, function) {
            Ok(call) => call,
            Err(error) => return (self.failed(&error), Edits::default()),
        };
        let number = self.objects.fetch_add(1, Relaxed);
        let object = LightUserData(ptr::without_provenance_mut(number));
        let mut subject = Box::new(Subject::new(hook, object));
        describe_it(&mut subject);
        call.subject = Some(subject);
        self.go_on_with(call, object, message)
    }

    /// Calls a function without a message.
    pub(super) fn call(
        &self,
        hook: HookName,
        now: Instant,
        function: &Function,
        words: impl FnOnce(&Lua) -> Result<MultiValue>,
    ) -> Outcome {
        let call = self
            .begin(hook, now, function)
            .and_then(|call| Ok((call, words(&self.lua)?)));
        match call {
            Ok((call, words)) => self.go_on(call, words),
            Err(error) => self.failed(&error),
        }
    }

    /// Goes on with a call that has its answer.
    pub(super) fn resume_with(
        &self,
        mut call: Call,
        now: Instant,
        answer: &Answer,
        message: &mut Message,
    ) -> (Outcome, Edits) {
        call.place = None;
        self.context.set_now(now);
        match question::values(&self.lua, now, answer) {
            Ok(words) => self.go_on_with(call, words, message),
            Err(error) => (self.failed(&error), Edits::default()),
        }
    }

    /// Goes on with a call without a message that has its answer.
    pub(super) fn resume(&self, mut call: Call, now: Instant, answer: &Answer) -> Outcome {
        call.place = None;
        self.context.set_now(now);
        match question::values(&self.lua, now, answer) {
            Ok(words) => self.go_on(call, words),
            Err(error) => self.failed(&error),
        }
    }

    pub(super) fn function(&self, hook: HookName) -> Option<&Function> {
        self.functions.get(hook as usize)?.as_ref()
    }

    fn begin(&self, hook: HookName, now: Instant, function: &Function) -> Result<Call> {
        self.context.set_now(now);
        self.context.counters.note_call(hook);
        let idle = lock(&self.idle).pop();
        let thread = match idle {
            Some(thread) => {
                thread.reset(function.clone())?;
                thread
            }
            None => self.lua.create_thread(function.clone())?,
        };
        Ok(Call {
            thread,
            subject: None,
            instructions_left: self.script.limits.instructions,
            questions_left: self.script.limits.questions_of_call,
            place: None,
        })
    }

    /// Hands the message to the script, runs it, and takes the message back.
    fn go_on_with(
        &self,
        mut call: Call,
        words: impl IntoLuaMulti,
        message: &mut Message,
    ) -> (Outcome, Edits) {
        let Some(mut subject) = call.subject.take() else {
            return (self.go_on(call, words), Edits::default());
        };
        let stand_in = lock(&self.stand_in).take();
        let stand_in = stand_in.unwrap_or_else(|| Message::request(Method::Options, "sip:nobody"));
        subject.message = Some(mem::replace(message, stand_in));
        self.current.set(subject);
        let outcome = self.go_on(call, words);
        let Some(mut subject) = self.current.take() else {
            return (outcome, Edits::default());
        };
        if let Some(lent) = subject.message.take() {
            *lock(&self.stand_in) = Some(mem::replace(message, lent));
        }
        let edits = Edits {
            is_changed: mem::take(&mut subject.is_changed),
            is_retargeted: mem::take(&mut subject.is_retargeted),
        };
        for tag in subject.tags.drain(..) {
            self.context.report(tag);
        }
        let outcome = match outcome {
            Outcome::Done(_) => Outcome::Done(subject.verdict.take()),
            Outcome::Asked(query, mut call) => {
                call.subject = Some(subject);
                Outcome::Asked(query, call)
            }
            failed @ Outcome::Failed(_) => failed,
        };
        (outcome, edits)
    }

    /// Runs a call until it ends, asks something that is not known here, or fails.
    fn go_on(&self, mut call: Call, words: impl IntoLuaMulti) -> Outcome {
        let mut yielded = self.run(&mut call, words);
        loop {
            let words = match yielded {
                Ok(Some(words)) => words,
                Ok(None) => break,
                Err(error) => return self.failed(&error),
            };
            let words = match self.take_question(&mut call, words) {
                Ok(Asked::Query(query)) => return Outcome::Asked(query, call),
                Ok(Asked::Answered(words)) => words,
                Err(error) => return self.failed(&error),
            };
            yielded = self.run(&mut call, words);
        }
        let mut idle = lock(&self.idle);
        if idle.len() < MAXIMUM_IDLE {
            idle.push(call.thread);
        }
        Outcome::Done(None)
    }

    /// Runs a call until it yields something, or ends.
    fn run(&self, call: &mut Call, words: impl IntoLuaMulti) -> Result<Option<MultiValue>> {
        self.context.meter.start(call.instructions_left);
        let yielded = call.thread.resume::<MultiValue>(words);
        call.instructions_left = self.context.meter.left();
        let yielded = yielded?;
        match self.context.meter.is_over() {
            true => Err(Error::runtime(OVER)),
            false => Ok(call.thread.is_resumable().then_some(yielded)),
        }
    }

    /// What a call has asked, or what it is told at once.
    fn take_question(&self, call: &mut Call, mut words: MultiValue) -> Result<Asked> {
        let first = words.pop_front();
        if !matches!(&first, Some(Value::Table(table)) if *table == self.question) {
            return Err(Error::runtime("a hook cannot yield"));
        }
        let Some(left) = call.questions_left.checked_sub(1) else {
            // The error is the script's own, and has its line.
            let error = (&self.question, "this call has asked too many questions");
            return Ok(Asked::Answered(error.into_lua_multi(&self.lua)?));
        };
        call.questions_left = left;
        let query = match question::query(&self.lua, words)? {
            Ok(query) => query,
            Err(why) => return Ok(Asked::Answered(question::failed(&self.lua, why)?)),
        };
        let place = WaitingPlace(Arc::clone(&self.waiting));
        if self.waiting.fetch_add(1, Relaxed) >= self.script.limits.questions {
            let why = "too many calls wait for answers";
            return Ok(Asked::Answered(question::failed(&self.lua, why)?));
        }
        call.place = Some(place);
        Ok(Asked::Query(query))
    }

    fn failed(&self, error: &Error) -> Outcome {
        if is_of_memory(error) {
            // What has a destructor is not freed while room is sought: it is now, for the next call.
            let _ = self.lua.gc_collect();
        }
        Outcome::Failed(describe(error, &self.script.file, &self.context))
    }
}

/// What a question comes to.
#[derive(Debug)]
enum Asked {
    Query(Query),
    /// It is not asked: these are the words that the script is told.
    Answered(MultiValue),
}

/// Has the meter looked at every so many instructions.
fn set_meter(lua: &Lua, context: &Arc<Context>) -> Result<()> {
    let metered = Arc::clone(context);
    let triggers = HookTriggers::new().every_nth_instruction(Meter::STEP);
    lua.set_global_hook(triggers, move |_, running| {
        if metered.meter.charge(u64::from(Meter::STEP)) {
            return Ok(VmState::Continue);
        }
        let line = running.current_line();
        if let (Some(file), Some(line)) = (running.source().short_src, line) {
            metered.set_over_at(format!("{file}:{line}"));
        }
        // A coroutine that is left cannot catch that, nor run anything on its way out. Within a function in C it cannot be
        // left: there an error ends it.
        match metered.meter.is_left_alone() {
            true => Ok(VmState::Yield),
            false => Err(Error::runtime(OVER)),
        }
    })
}

fn libraries(script: &PluginScript) -> StdLib {
    let mut libraries = StdLib::COROUTINE
        | StdLib::TABLE
        | StdLib::STRING
        | StdLib::UTF8
        | StdLib::MATH
        // The prelude leaves what is harmless of it.
        | StdLib::OS;
    if script.grants.io {
        libraries |= StdLib::IO;
    }
    if script.grants.package {
        libraries |= StdLib::PACKAGE;
    }
    libraries
}

/// Makes the world that a script finds.
fn prepare(lua: &Lua, script: &PluginScript, host: Table, (seed, more): (i64, i64)) -> Result<()> {
    let grants = lua.create_table()?;
    grants.set("io", script.grants.io)?;
    grants.set("os", script.grants.os)?;
    lua.load(include_str!("prelude.lua"))
        .set_name("=prelude")
        .set_mode(ChunkMode::Text)
        .call::<()>((host, grants))?;
    let globals = lua.globals();
    let math: Table = globals.get("math")?;
    math.get::<Function>("randomseed")?
        .call::<()>((seed, more))?;
    globals.set("settings", library::setting(lua, &script.settings)?)?;
    let files = lua.create_table()?;
    for (name, content) in &script.files {
        files.set(name.as_ref(), lua.create_string(content)?)?;
    }
    globals.set("files", files)
}

/// The words for the end of a dialog.
pub(super) fn dialog(lua: &Lua, parts: [(&str, &str); 3]) -> Result<MultiValue> {
    let table = lua.create_table()?;
    for (name, value) in parts {
        table.set(name, value)?;
    }
    table.into_lua(lua)?.into_lua_multi(lua)
}

/// Whether there was no memory.
fn is_of_memory(error: &Error) -> bool {
    match error {
        Error::MemoryError(_) => true,
        Error::CallbackError { cause, .. } | Error::WithContext { cause, .. } => {
            is_of_memory(cause)
        }
        _ => false,
    }
}

/// File, line and reason of an error.
fn describe(error: &Error, file: &str, context: &Context) -> String {
    if let Some(place) = context.take_over_at() {
        return format!("{place}: {OVER}");
    }
    let (mut cause, mut traceback) = (error, "");
    while let Error::CallbackError {
        traceback: outer,
        cause: inner,
    } = cause
    {
        if traceback.is_empty() {
            traceback = outer;
        }
        cause = inner;
    }
    let reason = library::reason(cause);
    let reason = without_prelude(reason);
    if reason.starts_with(file) {
        return reason;
    }
    let own_traceback = match cause {
        Error::RuntimeError(text) => text,
        _ => "",
    };
    let place = [traceback, own_traceback]
        .into_iter()
        .find_map(|traceback| place_in(traceback, file));
    match place {
        Some(place) => format!("{place}: {reason}"),
        None => format!("{file}: {reason}"),
    }
}

/// A reason without the place in the prelude where it was found out: that says nothing to those who write scripts.
fn without_prelude(reason: String) -> String {
    let rest = reason.strip_prefix("prelude:");
    let rest = rest.and_then(|rest| rest.split_once(": "));
    match rest {
        Some((line, rest)) if line.bytes().all(|octet| octet.is_ascii_digit()) => rest.to_owned(),
        _ => reason,
    }
}

/// The first line of a file that a traceback names.
fn place_in<'a>(traceback: &'a str, file: &str) -> Option<&'a str> {
    let start = traceback.find(&format!("{file}:"))?;
    let rest = traceback.get(start..)?;
    let line = rest.get(file.len() + 1..)?;
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    rest.get(..file.len() + 1 + digits)
}

/// What a panic elsewhere has left is as good as before.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
