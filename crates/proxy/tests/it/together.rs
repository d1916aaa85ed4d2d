//! Messages that have come together lead to what they would have led to one by one: what is sent to each end of a
//! call, and in which order, is the same but for the branches, which are drawn, and in the end nothing is left. What
//! goes to the one end may go before or after what goes to the other. This holds for a core whose questions are answered
//! before the next messages come, and that refuses nothing.
//!
//! It does not hold for a CANCEL that comes together with its INVITE, or just before a final response: the INVITE, or the
//! CANCEL, need not be forwarded at all then. Nor for an INVITE that comes together with itself sent again, or again with
//! a response to it: the repetition may have one response fewer, since none has been sent yet.

use std::time::Duration;

use crate::common::{Bench, Sent, flow, register, request, response, values};
use proptest::prelude::*;
use sip::{Flow, Message, Method, Name, Target};

const LISTENER: &str = "udp:192.0.2.1:5060";
const CALLER: &str = "192.0.2.9:5060";
const CALLEE: &str = "192.0.2.20:5060";
const CONTACT: &str = "sip:bob@192.0.2.20:5060";
const CALLED: &str = "sip:bob@example.com";
const TAG: &str = "b1";

/// What comes to the proxy for a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Invite,
    /// The callee's response to the INVITE.
    Response(u16),
    AckToSuccess,
    AckToFailure,
    Bye,
    Cancel,
    /// The callee's 200 to this.
    Ok(&'static Method),
    /// A REGISTER with this sequence number.
    Register(u32),
}

/// How a call goes: each part follows from what the proxy has sent before it.
type Course = &'static [&'static [Step]];

const ANSWERED: Course = &[
    &[Step::Invite],
    &[Step::Response(180), Step::Response(200)],
    &[Step::AckToSuccess, Step::Bye],
    &[Step::Ok(&Method::Bye)],
];

const BUSY: Course = &[
    &[Step::Invite],
    &[Step::Response(180), Step::Response(486)],
    &[Step::AckToFailure],
];

const CANCELLED: Course = &[
    &[Step::Invite],
    &[Step::Response(180)],
    &[Step::Cancel],
    &[Step::Ok(&Method::Cancel), Step::Response(487)],
    &[Step::AckToFailure],
];

const CANCELLED_TOO_LATE: Course = &[
    &[Step::Invite],
    &[Step::Response(180)],
    &[Step::Response(200), Step::Cancel],
    &[Step::AckToSuccess, Step::Bye],
    &[Step::Ok(&Method::Bye)],
];

/// REGISTERs of one address of record are taken in their order (RFC 3261 section 10.3).
const REGISTERED: Course = &[
    &[Step::Register(1), Step::Register(2)],
    &[Step::Register(4), Step::Register(3)],
    &[Step::Register(5)],
];

const COURSES: [Course; 5] = [ANSWERED, BUSY, CANCELLED, CANCELLED_TOO_LATE, REGISTERED];

/// A call, and how far it has come.
#[derive(Clone, Debug)]
struct Call {
    id: String,
    course: Course,
    part: usize,
    step: usize,
}

impl Call {
    fn is_over(&self) -> bool {
        self.part == self.course.len()
    }

    /// The next steps, at most so many, of one part.
    fn advance(&mut self, at_most: usize) -> &'static [Step] {
        let Some(part) = self.course.get(self.part) else {
            return &[];
        };
        let steps = &part[self.step..part.len().min(self.step + at_most)];
        self.step += steps.len();
        if self.step == part.len() {
            self.part += 1;
            self.step = 0;
        }
        steps
    }
}

/// A proxy, and what it has sent for each call.
struct Side {
    bench: Bench,
    sent: Vec<Vec<Sent>>,
}

impl Side {
    fn new(calls: usize) -> Side {
        let mut bench = Bench::new(&[LISTENER], &["example.com"]);
        bench.register(flow(LISTENER, CALLEE), "bob", &format!("<{CONTACT}>"));
        Side {
            bench,
            sent: vec![Vec::new(); calls],
        }
    }

    /// The message of a step, and the way that it comes.
    fn message(&self, number: usize, call: &Call, step: Step) -> (Flow, Message) {
        let sent = self.sent[number].iter().map(|sent| &sent.message);
        let forwarded = |method: &Method| {
            let mut requests = sent.clone();
            let request = requests.find(|message| message.method() == Some(method));
            request.expect("what was forwarded")
        };
        let in_dialog = |method: Method| {
            let mut successes = sent.clone();
            let ok = successes.find(|message| {
                message.status() == Some(200)
                    && values(message, Name::CSeq)
                        .iter()
                        .any(|cseq| cseq.ends_with("INVITE"))
            });
            let branch = format!("SIP/2.0/UDP {CALLER};branch=z9hG4bK{}-{method}", call.id);
            let number = if method == Method::Ack { 1 } else { 2 };
            let mut request = request(method.clone(), CONTACT, &call.id);
            request.replace(Name::Via, branch);
            request.replace(Name::CSeq, format!("{number} {method}"));
            request.set_to_tag(TAG);
            for route in values(ok.expect("a 200"), Name::RecordRoute) {
                request.push_back(Name::Route, route);
            }
            request
        };
        let (from, message) = match step {
            Step::Invite => (CALLER, request(Method::Invite, CALLED, &call.id)),
            Step::Cancel => (CALLER, request(Method::Cancel, CALLED, &call.id)),
            Step::AckToFailure => {
                let mut ack = request(Method::Ack, CALLED, &call.id);
                ack.set_to_tag(TAG);
                (CALLER, ack)
            }
            Step::AckToSuccess => (CALLER, in_dialog(Method::Ack)),
            Step::Bye => (CALLER, in_dialog(Method::Bye)),
            Step::Response(status) => {
                let response = response(forwarded(&Method::Invite), status, TAG);
                (CALLEE, response.with(Name::Contact, format!("<{CONTACT}>")))
            }
            Step::Register(number) => {
                let contact = format!("<sip:phone{number}@{CALLER}>");
                let mut register = register(&call.id, number, &[&contact]);
                register.replace(Name::CallId, call.id.as_str());
                (CALLER, register)
            }
            Step::Ok(method) => (CALLEE, response(forwarded(method), 200, TAG)),
        };
        (flow(LISTENER, from), message)
    }

    /// Takes notice of what was sent.
    fn hear(&mut self, calls: &[Call]) {
        for sent in self.bench.sent() {
            let id = sent.message.call_id().expect("a Call-ID");
            let number = calls.iter().position(|call| call.id == id);
            self.sent[number.expect("a call")].push(sent);
        }
    }

    /// What was sent for a call to either end, but for the branches, which are drawn. What goes to the one may go before
    /// or after what goes to the other.
    fn written(&self, number: usize) -> [Vec<String>; 2] {
        [CALLER, CALLEE].map(|end| {
            let sent = self.sent[number].iter();
            let to_it = sent.filter(|sent| remote(&sent.target) == end);
            let text = |sent: &Sent| {
                let mut message = sent.message.clone();
                if message.is_request() {
                    message.remove_first_value(Name::Via);
                }
                format!("{:?}\n{message}", sent.target)
            };
            to_it.map(text).collect()
        })
    }
}

fn remote(target: &Target) -> String {
    let remote = match target {
        Target::Flow(flow) | Target::FlowOrAddress(flow, _) => flow.remote,
        Target::Address(_, remote) => *remote,
    };
    remote.to_string()
}

proptest! {
    #[test]
    fn together_is_as_one_by_one(
        courses in prop::collection::vec(prop::sample::select(COURSES.to_vec()), 1..6),
        turns in prop::collection::vec(prop::collection::vec(0..3_usize, 6), 0..12),
    ) {
        let mut calls: Vec<Call> = Vec::new();
        for (number, course) in courses.into_iter().enumerate() {
            calls.push(Call { id: format!("call{number}"), course, part: 0, step: 0 });
        }
        let mut apart = Side::new(calls.len());
        let mut together = Side::new(calls.len());
        let mut turns = turns.into_iter();
        while !calls.iter().all(Call::is_over) {
            let turn = turns.next().unwrap_or(vec![2; 6]);
            let mut steps = Vec::new();
            for (number, at_most) in (0..calls.len()).zip(turn) {
                steps.extend(calls[number].advance(at_most).iter().map(|step| (number, *step)));
            }
            for (number, step) in &steps {
                let (way, message) = apart.message(*number, &calls[*number], *step);
                apart.bench.receive(way, message);
                apart.hear(&calls);
            }
            let messages = steps.iter().map(|(number, step)| {
                together.message(*number, &calls[*number], *step)
            });
            let messages = messages.collect();
            together.bench.receive_together(messages);
            together.hear(&calls);
        }
        for number in 0..calls.len() {
            prop_assert_eq!(apart.written(number), together.written(number));
        }
        for side in [&mut apart, &mut together] {
            side.bench.pass(Duration::from_secs(300));
            side.bench.assert_idle();
        }
    }
}
