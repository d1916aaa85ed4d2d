//! Scripts: what an emulated user does, step by step.
//!
//! A [`Script`] is compiled once and shared by all engines; a call is a *run* of one. Its steps
//! [send](Send) what a [`Template`] says, [expect](Expect) messages, pause, jump, and work on variables.
//! What RFC 3261 demands of a user agent whatever it says is the engine's and not the script's:
//! retransmissions, the ACK to a refused INVITE, the answer to a repeated request, credentials when they
//! are asked for, the route set of a dialog.
//!
//! There are three sources of scripts: those [built in](builtin), scenario files, and SIPp's XML. All
//! three make [`Step`]s and hand them to [`Script::new`], which checks what the interpreter relies on.
//!
//! ```
//! use load::script::{Expect, Script, Send, Step, Template};
//!
//! let options = Template::parse(
//!     "OPTIONS sip:{peer}@{domain} SIP/2.0\n\
//!      Via: SIP/2.0/{transport} {local_address};branch={branch}\n\
//!      From: <sip:{user}@{domain}>;tag={local_tag}\n\
//!      To: <sip:{peer}@{domain}>\n\
//!      Call-ID: {call_id}\n\
//!      CSeq: {cseq} OPTIONS\n\
//!      Max-Forwards: 70\n\
//!      {authorization}\n\
//!      Content-Length: {content_length}\n\
//!      \n",
//! )?;
//! let steps = vec![
//!     Step::Send(Send::new(options)),
//!     Step::Expect(Expect::response(200..=299)),
//! ];
//! let script = Script::new("ping", steps, Vec::new())?;
//! assert_eq!(script.name(), "ping");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod builtin;
mod check;
mod distribution;
mod line;
mod pattern;
mod step;
mod table;
mod template;
mod text;
mod value;
mod variable;

use sip::Method;

pub use check::ScriptError;
pub use distribution::Distribution;
pub use line::{Line, LineKind};
pub use pattern::Pattern;
pub use step::{
    Action, Alternative, Check, Expect, Expected, MediaAction, Pause, Send, Source, Step,
    StepNumber, Then, Within,
};
pub use table::{RowOrder, Table};
pub(crate) use template::{CSeqSource, MOST_LENGTHS};
pub use template::{
    EchoedField, Login, Slot, Start, Template, TemplateBuilder, TemplateError, TemplatePart, Text,
};
pub use value::{Arithmetic, Comparison, Condition};
pub use variable::Variable;

/// The place of a script among those of an engine: in the order in which they were added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ScriptId(pub u16);

/// What an emulated user does, step by step, checked and ready to run.
#[derive(Clone, Debug)]
pub struct Script {
    name: String,
    steps: Vec<Step>,
    lines: line::Lines,
    /// Names of the variables, for messages to people.
    variables: Vec<String>,
    kind: Kind,
    first: First,
    /// What the script does at any time with a message that its present step does not expect.
    anytime: Vec<Alternative>,
    timers: usize,
    timer_names: Vec<String>,
    acknowledges_failures: bool,
    is_strict: bool,
    expects_provisional: bool,
    learns_early: bool,
    asks_once: bool,
    auto_answers: bool,
    has_fractions: bool,
    has_commands: bool,
    /// By step: what is still used of messages that have been received.
    needs: check::Needs,
}

/// What records a script gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It has an INVITE in it.
    Call,
    /// It has a REGISTER in it, and no INVITE.
    Registration,
    /// Neither: its first method.
    Request(Method),
}

/// Who begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum First {
    /// It begins with something other than waiting: an engine has to be told to begin it.
    Sends,
    /// It waits for a request with this method outside of any call, and begins when one comes.
    Waits(Method),
    /// It waits for a command of another generator, and begins when one comes that is for no call.
    Commanded,
}

impl Script {
    /// Whether it sends or waits for commands of other generators.
    pub fn has_commands(&self) -> bool {
        self.has_commands
    }

    /// Names of the generators that it sends commands to.
    pub fn command_targets(&self) -> impl Iterator<Item = &str> {
        let actions = self.steps.iter().flat_map(|step| match step {
            Step::Do(actions) => actions.as_slice(),
            _ => &[],
        });
        actions.filter_map(|action| match action {
            Action::Command { to, .. } => to.as_deref(),
            _ => None,
        })
    }

    /// Whether its first command is one that it sends.
    pub fn commands_first(&self) -> bool {
        let of_step = |step: &Step| match step {
            Step::Do(actions) => {
                let is_command = |action: &Action| matches!(action, Action::Command { .. });
                actions.iter().any(is_command).then_some(true)
            }
            Step::Expect(expect) => {
                let is_command =
                    |one: &Alternative| matches!(one.expected, Expected::Command { .. });
                expect.alternatives.iter().any(is_command).then_some(false)
            }
            _ => None,
        };
        self.steps.iter().find_map(of_step).unwrap_or_default()
    }

    /// Whether it plays something, or sends back what it hears.
    pub fn has_media(&self) -> bool {
        let has_media = |actions: &[Action]| {
            actions
                .iter()
                .any(|action| matches!(action, Action::Media(_)))
        };
        let mut anytime = self.anytime.iter();
        anytime.any(|alternative| has_media(&alternative.actions))
            || self.steps.iter().any(|step| match step {
                Step::Send(send) => has_media(&send.actions),
                Step::Expect(expect) => {
                    let mut alternatives = expect.alternatives.iter();
                    alternatives.any(|alternative| has_media(&alternative.actions))
                }
                Step::Do(actions) => has_media(actions),
                _ => false,
            })
    }

    /// A script of these steps, which may use as many variables as there are names for.
    ///
    /// # Errors
    ///
    /// When a step leads to one that does not exist, uses a variable that does not exist, answers where
    /// no request can have come, or when it is empty or has more than 65,000 steps.
    pub fn new(
        name: impl Into<String>,
        steps: Vec<Step>,
        variables: Vec<String>,
    ) -> Result<Script, ScriptError> {
        check::check(name.into(), steps, variables, Vec::new())
    }

    /// The same script with alternatives that are looked at whatever step it stands at, after those of
    /// the step itself: a BYE that may come while it pauses. [`Then::Stay`] goes on waiting as before.
    ///
    /// # Errors
    ///
    /// As for [`Script::new`].
    pub fn with_anytime(self, anytime: Vec<Alternative>) -> Result<Script, ScriptError> {
        let mut script = check::check(self.name, self.steps, self.variables, anytime)?;
        script.acknowledges_failures = self.acknowledges_failures;
        script.is_strict = self.is_strict;
        script.expects_provisional = self.expects_provisional;
        script.auto_answers = self.auto_answers;
        script.has_fractions = self.has_fractions;
        script.timer_names = self.timer_names;
        Ok(script)
    }

    /// The same script, which itself has steps that send the ACK to a final response of 300 to 699 that it
    /// expects (as SIPp's scenarios do). The engine sends it for all others.
    pub fn acknowledging_failures(mut self) -> Script {
        self.acknowledges_failures = true;
        self
    }

    /// The same script, in which a request that no step expects fails the run
    /// ([`Failure::Unexpected`](crate::record::Failure::Unexpected)), as in SIPp, and so does a 100 in a script that
    /// [expects provisional responses](Script::expecting_provisional). Otherwise the engine answers the request as a user agent
    /// would and the run goes on.
    pub fn strict(mut self) -> Script {
        self.is_strict = true;
        self
    }

    /// The same script, in which a provisional response that no step expects fails the run
    /// ([`Failure::Unexpected`](crate::record::Failure::Unexpected)): its INVITE is cancelled. A 100 does not, which only says that
    /// the next hop has the request (RFC 3261 section 17.2.1), nor does a repetition, nor what crosses a CANCEL.
    pub fn expecting_provisional(mut self) -> Script {
        self.expects_provisional = true;
        self
    }

    /// The same script, in which INFO, NOTIFY, OPTIONS and UPDATE that no step expects are answered with 200, and the run
    /// goes on (SIPp's `-aa`).
    pub fn auto_answering(mut self) -> Script {
        self.auto_answers = true;
        self
    }

    /// The same script, which writes numbers that it has calculated with six digits behind the point, as C's `%f` does and
    /// SIPp with it. Otherwise they have no needless digits.
    pub fn with_fractions(mut self) -> Script {
        self.has_fractions = true;
        self
    }

    /// The same script, whose timers have these names, by their numbers.
    pub fn with_timer_names(mut self, names: Vec<String>) -> Script {
        self.timer_names = names;
        self
    }

    /// The same script, no delay of which has more than one request in it: each counts from a request to its own
    /// answer, unless that is a challenge.
    pub(crate) fn asking_once(mut self) -> Script {
        self.asks_once = true;
        self
    }

    /// Its name, for people.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its steps.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// The messages that it sends and that may come, and its pauses, in the order of its steps; behind them the messages that
    /// may come at any time.
    pub fn lines(&self) -> &[Line] {
        &self.lines.lines
    }

    /// The place among the [lines](Script::lines) of the first one of a step.
    pub(crate) fn line_of(&self, step: StepNumber) -> Option<usize> {
        self.lines.of_step(step)
    }

    /// The place among the [lines](Script::lines) of the first message that may come at any time.
    pub(crate) fn line_of_anytime(&self) -> Option<usize> {
        let behind = u16::try_from(self.steps.len()).ok()?;
        self.lines.of_step(StepNumber(behind))
    }

    /// What is looked at whatever step it stands at.
    pub fn anytime(&self) -> &[Alternative] {
        &self.anytime
    }

    /// Names of its variables.
    pub fn variables(&self) -> &[String] {
        &self.variables
    }

    /// What records it gives.
    pub fn kind(&self) -> &Kind {
        &self.kind
    }

    /// Who begins.
    pub fn first(&self) -> &First {
        &self.first
    }

    /// The methods of the requests that it may begin with.
    pub(crate) fn beginnings(&self) -> impl Iterator<Item = &Method> {
        let mut steps = self.steps.iter();
        let first = steps.find(|step| !matches!(step, Step::Do(_) | Step::Jump { .. }));
        let alternatives = match first {
            Some(Step::Expect(expect)) => expect.alternatives.as_slice(),
            _ => &[],
        };
        alternatives
            .iter()
            .filter_map(|alternative| match &alternative.expected {
                Expected::Request(method) => Some(method),
                Expected::Response { .. } | Expected::Command { .. } => None,
            })
    }

    /// How many timers it takes times with: one more than the highest number.
    pub fn timers(&self) -> usize {
        self.timers
    }

    /// Names of timers, by their numbers. Scripts of one scenario number them alike, so there may be names of timers that
    /// only the other side has.
    pub fn timer_names(&self) -> &[String] {
        &self.timer_names
    }

    /// Whether it sends the ACK to the refusals that it expects by itself.
    pub fn acknowledges_failures(&self) -> bool {
        self.acknowledges_failures
    }

    /// Whether a request that no step expects fails a run.
    pub fn is_strict(&self) -> bool {
        self.is_strict
    }

    /// Whether it answers a request of this method that no step expects with 200.
    pub(crate) fn auto_answers(&self, method: &Method) -> bool {
        let answered = [
            Method::Info,
            Method::Notify,
            Method::Options,
            Method::Update,
        ];
        self.auto_answers && answered.contains(method)
    }

    /// A number as it stands in a variable.
    pub(crate) fn written(&self, number: f64) -> Vec<u8> {
        match self.has_fractions {
            true => format!("{number:.6}"),
            false => number.to_string(),
        }
        .into_bytes()
    }

    /// Whether this provisional response has to be expected.
    pub(crate) fn has_to_expect(&self, status: u16) -> bool {
        self.expects_provisional && (self.is_strict || status > 100)
    }

    /// Whether it sends requests of its own before there is a final response to the INVITE (PRACK, UPDATE),
    /// so that what a provisional response says of the dialog matters.
    pub(crate) fn learns_early(&self) -> bool {
        self.learns_early
    }

    /// Whether each of its delays is known to be that of one request, where nobody is challenged.
    pub(crate) fn asks_once(&self) -> bool {
        self.asks_once
    }

    /// The step of a number.
    pub(crate) fn step(&self, number: StepNumber) -> Option<&Step> {
        self.steps.get(usize::from(number.0))
    }

    /// Whether from this step on the last message received is used before another one is waited for.
    pub(crate) fn needs_last(&self, number: StepNumber) -> bool {
        self.needs.last(number)
    }

    /// Whether from this step on the message that began the run may be used.
    pub(crate) fn needs_initial(&self, number: StepNumber) -> bool {
        self.needs.initial(number)
    }
}
