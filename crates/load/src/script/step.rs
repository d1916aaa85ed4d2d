//! Steps of a script.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use sip::Method;

use super::distribution::Distribution;
use super::pattern::Pattern;
use super::table::Table;
use super::template::{Login, Template, Text};
use super::value::{Arithmetic, Condition};
use super::variable::Variable;
use crate::media::Recording;

/// The place of a step in its script, counted from 0. One behind the last step is the end: the attempt
/// is complete.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StepNumber(pub u16);

impl StepNumber {
    /// The number of no step.
    pub(crate) const NONE: StepNumber = StepNumber(u16::MAX);
}

/// One action of a session, which goes on with the next step unless this one says otherwise.
#[derive(Clone, Debug)]
pub enum Step {
    /// Sends a message.
    Send(Send),
    /// Waits for a message.
    Expect(Expect),
    /// Waits for a time.
    Pause(Pause),
    /// Goes on elsewhere if a condition holds.
    Jump {
        /// Where.
        to: StepNumber,
        /// If this holds.
        when: Condition,
    },
    /// Works on variables, takes times.
    Do(Vec<Action>),
    /// Cancels the INVITE that has no final response yet (RFC 3261 section 9.1): at once if there was a
    /// provisional one, otherwise when there is. Nothing where there is no such INVITE. The script then
    /// expects what may come: as a rule 487, but also a 2xx that crossed the CANCEL.
    Cancel,
    /// Ends the attempt as failed: nobody answered, after [`Step::Cancel`].
    GiveUp,
    /// Ends the attempt as complete.
    Complete,
    /// Ends the attempt as failed because it is not what the script wants.
    Fail,
}

/// Sends a message. The template says whether it is a request or a response, and of which method.
///
/// A request other than ACK begins a transaction, which repeats it over UDP (RFC 3261 section 17.1) and
/// fails the run when it times out. A 401 or 407 is answered with credentials by sending it again, as
/// long as the step that waits for the response does not expect that status itself. A final response to
/// an INVITE is repeated until the ACK comes (sections 13.3.1.4 and 17.2.1).
#[derive(Clone, Debug)]
pub struct Send {
    /// What is sent.
    pub template: Template,
    /// Which request a response answers.
    pub answers: Source,
    /// Whether it is repeated until it is answered. `false`: sent once, whatever becomes of it.
    pub is_repeated: bool,
    /// The share of these messages that is not sent, as if the network had lost it: 0 to 1.
    pub loss: f64,
    /// What else is done when it has been sent.
    pub actions: Vec<Action>,
}

impl Send {
    /// Sends this, by the rules of RFC 3261; a response answers the last request.
    pub fn new(template: Template) -> Send {
        Send {
            template,
            answers: Source::Last,
            is_repeated: true,
            loss: 0.0,
            actions: Vec::new(),
        }
    }

    /// The same, in answer to the request that began the run.
    pub fn in_answer_to_first(mut self) -> Send {
        self.answers = Source::First;
        self
    }
}

/// One of the messages that a run has received.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// The last one, repetitions apart.
    Last,
    /// The request that began the run, on the side that is called.
    First,
}

/// Waits for a message. The first alternative that fits is taken; what fits none is looked at by the
/// script's [alternatives for any time](super::Script::with_anytime), then by the engine, which answers
/// for the user as RFC 3261 has it. A provisional response fails a run where the script
/// [has to expect it](super::Script::expecting_provisional); a final response that
/// nobody expects does ([`Failure::Refused`](crate::record::Failure::Refused)), a BYE does
/// ([`Failure::HungUp`](crate::record::Failure::HungUp)), and other requests do where the script is
/// [strict](super::Script::strict).
#[derive(Clone, Debug, Default)]
pub struct Expect {
    /// What may come.
    pub alternatives: Vec<Alternative>,
    /// How long it is waited for; without, until the transaction times out, which with a response
    /// is the end of it, and for ever with a request.
    pub timeout: Option<Duration>,
    /// Where the run goes on when the time is up; without, it fails.
    pub on_timeout: Option<StepNumber>,
}

impl Expect {
    /// Waits for a response with one of these statuses to the last request sent.
    pub fn response(statuses: RangeInclusive<u16>) -> Expect {
        Expect::any_of([Alternative::response(statuses, Then::Next)])
    }

    /// Waits for a request.
    pub fn request(method: Method) -> Expect {
        Expect::any_of([Alternative::request(method, Then::Next)])
    }

    /// Waits for one of several messages.
    pub fn any_of(alternatives: impl IntoIterator<Item = Alternative>) -> Expect {
        Expect {
            alternatives: alternatives.into_iter().collect(),
            timeout: None,
            on_timeout: None,
        }
    }

    /// The same with an end to the waiting.
    pub fn within(mut self, timeout: Duration, on_timeout: Option<StepNumber>) -> Expect {
        self.timeout = Some(timeout);
        self.on_timeout = on_timeout;
        self
    }
}

/// A message that may come, and what is done then.
#[derive(Clone, Debug)]
pub struct Alternative {
    /// What it is.
    pub expected: Expected,
    /// What is done with it.
    pub actions: Vec<Action>,
    /// Where the run goes on.
    pub then: Then,
}

impl Alternative {
    /// A response with one of these statuses to whichever request.
    pub fn response(statuses: RangeInclusive<u16>, then: Then) -> Alternative {
        Alternative {
            expected: Expected::Response {
                statuses,
                method: None,
            },
            actions: Vec::new(),
            then,
        }
    }

    /// A request.
    pub fn request(method: Method, then: Then) -> Alternative {
        Alternative {
            expected: Expected::Request(method),
            actions: Vec::new(),
            then,
        }
    }

    /// The same, with something to be done.
    pub fn with(mut self, action: Action) -> Alternative {
        self.actions.push(action);
        self
    }
}

/// What a message is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expected {
    /// A response.
    Response {
        /// With one of these statuses.
        statuses: RangeInclusive<u16>,
        /// To a request with this method, by its CSeq; to any without.
        method: Option<Method>,
    },
    /// A request with this method.
    Request(Method),
    /// A command of another generator (SIPp's third party call control).
    Command {
        /// Of the one with this name; of any without.
        from: Option<Box<str>>,
    },
}

/// Where a run goes on after a message that it has expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// It goes on waiting at the same step.
    Stay,
    /// With the next step.
    Next,
    /// Elsewhere.
    Jump(StepNumber),
}

/// How long a run waits.
#[derive(Clone, Debug, PartialEq)]
pub enum Pause {
    /// Always this long.
    Fixed(Duration),
    /// At random, in milliseconds.
    Distributed(Distribution),
    /// As many milliseconds as the number in a variable says; none where it is no number.
    Variable(Variable),
    /// Until a message comes that an alternative for any time is about.
    Forever,
}

/// What a step does beside sending and waiting.
#[derive(Clone, Debug)]
pub enum Action {
    /// Writes a text into a variable.
    Set {
        /// Which.
        variable: Variable,
        /// What.
        to: Text,
    },
    /// Takes parts of the last message into variables by a regular expression. Each variable gets a
    /// group: the first all that matched, the next ones the groups in parentheses. A variable whose
    /// group has not matched is unset.
    Extract {
        /// Where it is looked for.
        within: Within,
        /// What is looked for.
        pattern: Pattern,
        /// Where it goes.
        into: Vec<Variable>,
        /// What makes the run fail.
        check: Option<Check>,
    },
    /// Calculates with the number in a variable; what is not set or no number counts as 0.
    Calculate {
        /// Which.
        variable: Variable,
        /// How.
        operation: Arithmetic,
        /// With what.
        operand: Text,
    },
    /// Compares, and writes into a variable that it is so; unsets it otherwise.
    Test {
        /// Which.
        variable: Variable,
        /// What is to hold.
        condition: Condition,
    },
    /// Compares what is in a variable with a text, octet by octet, and writes into a variable which is greater: `-1`, `0`
    /// (they are equal) or `1`.
    CompareTexts {
        /// Where the result goes.
        variable: Variable,
        /// What is compared.
        left: Variable,
        /// With what.
        right: Text,
    },
    /// Writes a random number into a variable.
    Sample {
        /// Which.
        variable: Variable,
        /// How they are distributed.
        distribution: Distribution,
    },
    /// Looks whether the last request has credentials that this name and password prove (RFC 7616 section 3.4), and writes into
    /// a variable that it is so; unsets it otherwise.
    VerifyCredentials {
        /// Which variable.
        variable: Variable,
        /// The name and the password.
        login: Login,
    },
    /// Writes into a variable the number of the first row of a table, from 0, whose first field is this text; -1 where there is none.
    Lookup {
        /// Which variable.
        variable: Variable,
        /// Where it is looked for.
        table: Arc<Table>,
        /// What is looked for.
        key: Text,
    },
    /// Writes octets in a variable that a URI does not have as `%` and two digits (RFC 3986 section 2.1).
    UrlEncode(Variable),
    /// Undoes [`Action::UrlEncode`].
    UrlDecode(Variable),
    /// Tells another generator something (SIPp's third party call control).
    Command {
        /// The name of the one; all without.
        to: Option<Arc<str>>,
        /// What.
        text: Text,
    },
    /// Does something with the call's media.
    Media(MediaAction),
    /// Fails the run where this does not hold.
    Require(Condition),
    /// Fails the run.
    Fail,
    /// Says something, where somebody writes it down.
    Log {
        /// What.
        text: Text,
        /// Whether somebody should look at it.
        is_warning: bool,
    },
    /// Starts a timer of the record, unless it runs already.
    StartTimer(u8),
    /// Stops a timer of the record.
    StopTimer(u8),
    /// Unsets a variable.
    Unset(Variable),
}

/// What a script does with the media of its call.
#[derive(Clone, Debug)]
pub enum MediaAction {
    /// Plays a recording, in place of one that is played already.
    Play(Arc<Recording>),
    /// Plays it no further.
    Pause,
    /// Plays it on.
    Resume,
    /// Sends back what it hears, or no longer.
    Echo(bool),
}

/// Where something is looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Within {
    /// The whole message.
    Message,
    /// The values of the header fields of a name, in any case, long or compact, the first as a rule.
    Header {
        /// The name.
        name: String,
        /// Which of several, counted from 0.
        occurrence: usize,
    },
    /// What follows this text on the first line that begins with it, or a further one.
    Line {
        /// The text.
        begin: String,
        /// Which of several lines, counted from 0.
        occurrence: usize,
    },
    /// The body.
    Body,
    /// A variable.
    Variable(Variable),
}

/// When looking for something fails a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// Where it is not there.
    Matches,
    /// Where it is there.
    MatchesNot,
}
