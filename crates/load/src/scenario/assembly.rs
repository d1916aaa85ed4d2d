//! Putting a script together from what a file says, entry by entry: names of variables and labels become
//! numbers, and messages that may come before another one are waited for together with it.
//!
//! Both kinds of files say one message an entry, some of them optional:
//!
//! ```text
//! expect 100, optional
//! expect 180, optional
//! expect 200
//! ```
//!
//! A run waits for all of these at one step, at which the optional ones leave it, whatever their order
//! and number.

use std::collections::BTreeMap;
use std::time::Duration;

use super::problem::Problems;
use crate::script::{
    Action, Alternative, Condition, Expect, Expected, Script, Step, StepNumber, Then, Variable,
};

/// More steps than any scenario has.
const MOST_STEPS: usize = 10_000;
/// More variables than any scenario has.
const MOST_VARIABLES: usize = 1_000;

/// A script in the making.
#[derive(Default)]
pub(super) struct Assembly {
    steps: Vec<Step>,
    /// Where each step stands in the file.
    lines: Vec<usize>,
    variables: Vec<String>,
    variables_by_name: BTreeMap<String, Variable>,
    /// Until the end, steps that lead to a label have its place in this list as their number.
    labels: Vec<Label>,
    labels_by_name: BTreeMap<String, StepNumber>,
    /// Labels that stand before the next entry, with their lines.
    standing: Vec<(String, usize)>,
    /// Messages that are waited for together, so far, with the labels before each.
    awaited: Vec<(Vec<(String, usize)>, Awaited)>,
    anytime: Vec<Alternative>,
    /// What is put behind the last step: decisions about optional messages.
    asides: Vec<Aside>,
}

#[derive(Default)]
struct Label {
    /// The line on which it is used first.
    used: Option<usize>,
    at: Option<StepNumber>,
}

/// Conditions on the way from an optional message to elsewhere.
struct Aside {
    /// Where it begins.
    label: StepNumber,
    to: StepNumber,
    when: Vec<Condition>,
    /// Where the run waits on if they do not hold.
    back: StepNumber,
    line: usize,
}

/// A message that may come.
#[derive(Clone)]
pub(super) struct Awaited {
    /// Where it stands in the file.
    pub(super) line: usize,
    /// What it is, any of these.
    pub(super) expected: Vec<Expected>,
    /// What is done when it comes.
    pub(super) actions: Vec<Action>,
    /// Whether the next one may come without it.
    pub(super) presence: Presence,
    /// Where the run goes on after it.
    pub(super) next: Option<Next>,
    /// How long it is waited for.
    pub(super) timeout: Option<Duration>,
    /// The label at which the run goes on if that was in vain.
    pub(super) on_timeout: Option<String>,
}

/// Whether a message has to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Presence {
    /// It has to.
    Required,
    /// It may come before the next one that has to.
    Optional,
    /// It may come at any time.
    Anytime,
}

/// A jump to a label.
#[derive(Clone)]
pub(super) struct Next {
    /// Where to.
    pub(super) label: String,
    /// All that has to hold.
    pub(super) when: Vec<Condition>,
}

impl Assembly {
    /// The number of a variable, which is made when it is new.
    pub(super) fn variable(&mut self, name: &str) -> Variable {
        if let Some(known) = self.variables_by_name.get(name) {
            return *known;
        }
        let variable = self.own_variable(name);
        self.variables_by_name.insert(name.to_owned(), variable);
        variable
    }

    /// A variable that no file can name; the name is for people.
    pub(super) fn own_variable(&mut self, name: &str) -> Variable {
        // What is too much is refused at the end.
        if self.variables.len() <= MOST_VARIABLES {
            self.variables.push(name.to_owned());
        }
        Variable(u16::try_from(self.variables.len() - 1).unwrap_or(u16::MAX))
    }

    /// What comes next is what this label names.
    pub(super) fn label(&mut self, name: &str, line: usize) {
        self.standing.push((name.to_owned(), line));
    }

    /// Adds a step.
    pub(super) fn push(&mut self, step: Step, line: usize, problems: &mut Problems) {
        self.flush(problems);
        self.add(step, line);
    }

    /// Adds a jump.
    pub(super) fn jump(&mut self, next: &Next, line: usize, problems: &mut Problems) {
        self.flush(problems);
        let label = self.labelled(&next.label, line);
        self.decide(label, &next.when, line);
    }

    /// Whether there is no step yet that sends or waits.
    pub(super) fn is_empty(&self) -> bool {
        let mut steps = self.steps.iter();
        self.awaited.is_empty() && steps.all(|step| matches!(step, Step::Do(_) | Step::Jump { .. }))
    }

    /// Whether messages are gathered that are waited for together with the next one.
    pub(super) fn is_gathering(&self) -> bool {
        !self.awaited.is_empty()
    }

    /// Ends optional messages that nothing follows. They are not waited for, unless one of them has a time of its own:
    /// then the run is complete, or goes on where that one says, when the time is up.
    pub(super) fn expect_to_the_end(&mut self, problems: &mut Problems) {
        let gathered = std::mem::take(&mut self.awaited);
        for (labels, _) in &gathered {
            for (name, line) in labels {
                self.place_named(name, *line, problems);
            }
        }
        if gathered
            .iter()
            .any(|(_, awaited)| awaited.timeout.is_some())
        {
            let behind = self.own_label();
            self.wait_for(&gathered, behind);
            if let Some(Step::Expect(expect)) = self.steps.last_mut() {
                expect.on_timeout.get_or_insert(behind);
            }
            self.place(behind);
        }
    }

    /// Adds what is passed over unless all conditions hold.
    pub(super) fn only_if(
        &mut self,
        conditions: &[Condition],
        line: usize,
        problems: &mut Problems,
        add: impl FnOnce(&mut Assembly, &mut Problems),
    ) {
        if conditions.is_empty() {
            add(self, problems);
            return;
        }
        self.flush(problems);
        let behind = self.own_label();
        for condition in conditions {
            self.leave_unless(condition, behind, line);
        }
        add(self, problems);
        self.flush(problems);
        self.place(behind);
    }

    /// Adds a message that may come.
    pub(super) fn expect(&mut self, awaited: Awaited, problems: &mut Problems) {
        if awaited.presence == Presence::Anytime {
            self.expect_anytime(awaited, problems);
            return;
        }
        let is_last = awaited.presence == Presence::Required;
        let labels = std::mem::take(&mut self.standing);
        self.awaited.push((labels, awaited));
        if is_last {
            self.wait(problems);
        }
    }

    /// The script, unless something is wrong with it.
    pub(super) fn finish(mut self, name: &str, problems: &mut Problems) -> Option<Script> {
        self.flush(problems);
        if self.steps.is_empty() && problems.is_empty() {
            problems.add(1, format_args!("{name} has no steps"));
        }
        if self.steps.is_empty() {
            return None;
        }
        self.add_asides();
        if self.steps.len() > MOST_STEPS || self.variables.len() > MOST_VARIABLES {
            let message = format!("more than {MOST_STEPS} steps or {MOST_VARIABLES} variables");
            problems.add(1, message);
            return None;
        }
        for (name, number) in &self.labels_by_name {
            if let Some(Label {
                used: Some(line),
                at: None,
            }) = self.labels.get(usize::from(number.0))
            {
                problems.add(*line, format_args!("there is no label \"{name}\""));
            }
        }
        if !problems.is_empty() {
            return None;
        }
        self.resolve();
        let script = Script::new(name, self.steps, self.variables).and_then(|script| {
            match self.anytime.is_empty() {
                true => Ok(script),
                false => script.with_anytime(self.anytime),
            }
        });
        let line_of = |step: usize| self.lines.get(step).copied();
        script
            .map_err(|error| {
                let line = error.step().and_then(line_of);
                problems.add(line.unwrap_or(1), error);
            })
            .ok()
    }

    /// Waits for what has been gathered. A label within is a way to skip what stands before it, so there
    /// is a step for each.
    fn wait(&mut self, problems: &mut Problems) {
        let gathered = std::mem::take(&mut self.awaited);
        let entrances = gathered
            .iter()
            .enumerate()
            .filter(|(index, (labels, _))| *index == 0 || !labels.is_empty());
        let entrances: Vec<usize> = entrances.map(|(index, _)| index).collect();
        let behind = self.own_label();
        for entrance in entrances {
            let awaited = gathered.get(entrance..).unwrap_or_default();
            if let Some((labels, _)) = awaited.first() {
                for (name, line) in labels {
                    self.place_named(name, *line, problems);
                }
            }
            self.wait_for(awaited, behind);
        }
        self.place(behind);
        if let Some((_, last)) = gathered.last()
            && let Some(next) = &last.next
            && !next.when.is_empty()
        {
            self.jump(next, last.line, problems);
        }
    }

    /// One step that waits for all of these, of which the last one leads to a label.
    fn wait_for(&mut self, awaited: &[(Vec<(String, usize)>, Awaited)], behind: StepNumber) {
        let here = self.own_label();
        self.place(here);
        let mut expect = Expect::any_of([]);
        for (_, awaited) in awaited {
            let then = match (&awaited.next, awaited.presence) {
                (Some(next), _) if next.when.is_empty() => {
                    Then::Jump(self.labelled(&next.label, awaited.line))
                }
                (_, Presence::Required) => Then::Jump(behind),
                (Some(next), _) => Then::Jump(self.aside(next, here, awaited.line)),
                (None, _) => Then::Stay,
            };
            expect.alternatives.extend(alternatives(awaited, then));
            if expect.timeout.is_none() {
                expect.timeout = awaited.timeout;
                expect.on_timeout = awaited
                    .on_timeout
                    .as_ref()
                    .map(|label| self.labelled(label, awaited.line));
            }
        }
        let line = awaited.first().map_or(1, |(_, awaited)| awaited.line);
        self.add(Step::Expect(expect), line);
    }

    fn expect_anytime(&mut self, awaited: Awaited, problems: &mut Problems) {
        let then = match &awaited.next {
            Some(next) if next.when.is_empty() => {
                Then::Jump(self.labelled(&next.label, awaited.line))
            }
            Some(_) => {
                let message = "a jump after a message that may come at any time has no conditions: \
                               let it lead to a step that decides";
                problems.add(awaited.line, message);
                Then::Stay
            }
            None => Then::Stay,
        };
        self.anytime.extend(alternatives(&awaited, then));
    }

    /// Ends the messages that are waited for together, and gives the labels before the next step their place.
    fn flush(&mut self, problems: &mut Problems) {
        if let Some((_, last)) = self.awaited.last() {
            let message = "this message is optional, and no required message follows: add the message before which \
                           it may arrive";
            problems.add(last.line, message);
            self.awaited.clear();
        }
        for (name, line) in std::mem::take(&mut self.standing) {
            self.place_named(&name, line, problems);
        }
    }

    fn add(&mut self, step: Step, line: usize) {
        // What is too much is refused at the end.
        if self.steps.len() <= MOST_STEPS {
            self.steps.push(step);
            self.lines.push(line);
        }
    }

    /// Steps that lead to a label if all conditions hold, and to the step behind them otherwise.
    fn decide(&mut self, to: StepNumber, conditions: &[Condition], line: usize) {
        let behind = self.own_label();
        let (last, others) = match conditions {
            [] => (Condition::Always, conditions),
            [others @ .., last] => (last.clone(), others),
        };
        for condition in others {
            self.leave_unless(condition, behind, line);
        }
        self.add(Step::Jump { to, when: last }, line);
        self.place(behind);
    }

    /// Steps that lead to a label unless a condition holds.
    fn leave_unless(&mut self, condition: &Condition, to: StepNumber, line: usize) {
        let when = match condition {
            Condition::IsSet(variable) => Condition::IsUnset(*variable),
            Condition::IsUnset(variable) => Condition::IsSet(*variable),
            Condition::Chance(chance) => Condition::Chance(1.0 - chance),
            other => {
                let onwards = self.own_label();
                let when = other.clone();
                self.add(Step::Jump { to: onwards, when }, line);
                self.add(always(to), line);
                self.place(onwards);
                return;
            }
        };
        self.add(Step::Jump { to, when }, line);
    }

    fn aside(&mut self, next: &Next, back: StepNumber, line: usize) -> StepNumber {
        let label = self.own_label();
        let to = self.labelled(&next.label, line);
        self.asides.push(Aside {
            label,
            to,
            when: next.when.clone(),
            back,
            line,
        });
        label
    }

    fn add_asides(&mut self) {
        let asides = std::mem::take(&mut self.asides);
        if let Some(first) = asides.first() {
            // The end of what stands in the file.
            self.add(Step::Complete, first.line);
        }
        for aside in asides {
            self.place(aside.label);
            self.decide(aside.to, &aside.when, aside.line);
            self.add(always(aside.back), aside.line);
        }
    }

    /// The place of a label in the list.
    fn labelled(&mut self, name: &str, line: usize) -> StepNumber {
        let number = self.number_of(name);
        if let Some(label) = self.labels.get_mut(usize::from(number.0)) {
            label.used.get_or_insert(line);
        }
        number
    }

    fn number_of(&mut self, name: &str) -> StepNumber {
        if let Some(known) = self.labels_by_name.get(name) {
            return *known;
        }
        let label = self.own_label();
        self.labels_by_name.insert(name.to_owned(), label);
        label
    }

    /// A label that no file can name.
    fn own_label(&mut self) -> StepNumber {
        self.labels.push(Label::default());
        StepNumber(u16::try_from(self.labels.len() - 1).unwrap_or(u16::MAX))
    }

    /// Puts a label before the next step.
    fn place(&mut self, label: StepNumber) {
        let here = StepNumber(u16::try_from(self.steps.len()).unwrap_or(u16::MAX));
        if let Some(label) = self.labels.get_mut(usize::from(label.0)) {
            label.at = Some(here);
        }
    }

    fn place_named(&mut self, name: &str, line: usize, problems: &mut Problems) {
        let number = self.number_of(name);
        let label = self.labels.get(usize::from(number.0));
        if label.is_some_and(|label| label.at.is_some()) {
            problems.add(line, format_args!("there are two labels \"{name}\""));
        }
        self.place(number);
    }

    /// Puts numbers of steps where those of labels are.
    fn resolve(&mut self) {
        let Assembly {
            steps,
            anytime,
            labels,
            ..
        } = self;
        let resolve = |number: &mut StepNumber| {
            let label = labels.get(usize::from(number.0));
            *number = label.and_then(|label| label.at).unwrap_or_default();
        };
        for alternative in anytime {
            if let Then::Jump(to) = &mut alternative.then {
                resolve(to);
            }
        }
        for (index, step) in steps.iter_mut().enumerate() {
            match step {
                Step::Jump { to, .. } => resolve(to),
                Step::Expect(expect) => {
                    if let Some(to) = &mut expect.on_timeout {
                        resolve(to);
                    }
                    for alternative in &mut expect.alternatives {
                        let Then::Jump(to) = &mut alternative.then else {
                            continue;
                        };
                        resolve(to);
                        if usize::from(to.0) == index + 1 {
                            alternative.then = Then::Next;
                        }
                    }
                }
                _ => {}
            }
        }
    }
}

fn always(to: StepNumber) -> Step {
    Step::Jump {
        to,
        when: Condition::Always,
    }
}

/// What is waited for, one alternative for each kind of message that it can be.
fn alternatives(awaited: &Awaited, then: Then) -> impl Iterator<Item = Alternative> + '_ {
    awaited.expected.iter().map(move |expected| Alternative {
        expected: expected.clone(),
        actions: awaited.actions.clone(),
        then,
    })
}
