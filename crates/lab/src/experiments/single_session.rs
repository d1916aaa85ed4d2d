//! Pang 2003, section 5.3: one user registers, calls another one and hangs up, over UDP and over SCTP.

use std::time::Duration;

use load::record::{CallRecord, Record, RegistrationRecord};
use load::script::Pause;
use load::script::builtin::{AnswerPlan, CallPlan};
use report::{Arrow, Cell, Column, Ladder, Row, Table};
use sctp::Profile;
use serde_json::{Value, json};
use sip::Transport;

use crate::checks::Checks;
use crate::context::Context;
use crate::experiment::{About, Experiment, On};
use crate::one_proxy::{ADDRESSES, OneProxy, Scenario, Way};
use crate::outcome::Outcome;
use crate::published::{stated, transaction_time};
use crate::sip_carrier::contents::Contents;

/// The experiment.
pub(super) struct SingleSession;

/// Each way between a user and the proxy.
const DELAY: Duration = Duration::from_millis(1);

/// How long the phone rings. It is no part of the response time, as in the publication.
const RINGING: Duration = Duration::from_millis(500);

/// From the ACK to the BYE, and between the steps: nothing of one step is left when the next one begins.
const PAUSE: Duration = Duration::from_secs(1);

/// Times are whole microseconds.
const GRANULARITY: Duration = Duration::from_micros(10);

const WAYS: [Way; 3] = [
    Way::Udp,
    Way::Sctp(Profile::Rfc9260),
    Way::Sctp(Profile::Signalling),
];

/// What a user does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The first registration: over SCTP the association is set up for it.
    Fresh,
    /// Another one, over the association that stands.
    Standing,
    SetUp,
    Termination,
}

const STEPS: [Step; 4] = [Step::Fresh, Step::Standing, Step::SetUp, Step::Termination];

impl Step {
    fn name(self) -> &'static str {
        match self {
            Step::Fresh => "first registration",
            Step::Standing => "later registration",
            Step::SetUp => "call set-up",
            Step::Termination => "call termination",
        }
    }

    /// The published operation.
    fn operation(self) -> &'static str {
        match self {
            Step::Fresh | Step::Standing => "registration",
            Step::SetUp => "call_setup",
            Step::Termination => "call_termination",
        }
    }

    /// SIP messages on both sides of the proxy, which answers 100 by itself (RFC 3261 section 16.2).
    fn messages(self) -> usize {
        match self {
            // REGISTER, 200.
            Step::Fresh | Step::Standing => 2,
            // INVITE, 180, 200 and ACK twice; 100.
            Step::SetUp => 9,
            // BYE and 200 twice.
            Step::Termination => 4,
        }
    }

    /// Trips until the user has the answer.
    fn trips(self, way: Way) -> u32 {
        match (self, way.transport()) {
            // INIT and INIT ACK; the REGISTER goes with the COOKIE ECHO (RFC 9260 section 5.1).
            (Step::Fresh, Transport::Sctp) => 4,
            (Step::Fresh | Step::Standing, _) => 2,
            (Step::SetUp | Step::Termination, _) => 4,
        }
    }
}

/// What one step took.
struct Taken {
    step: Step,
    time: Duration,
    packets: Vec<Seen>,
}

/// A packet on the wire.
struct Seen {
    /// Since the first of its step.
    at: Duration,
    /// Hosts, from the caller's to the callee's.
    from: usize,
    to: usize,
    contents: Contents,
}

impl Taken {
    /// All packets but those that only watch the path.
    fn packets(&self) -> usize {
        let counted = self.packets.iter();
        counted.filter(|seen| !seen.contents.is_heartbeat).count()
    }

    fn messages(&self) -> usize {
        self.packets.iter().map(|seen| seen.contents.messages).sum()
    }
}

impl Experiment for SingleSession {
    fn name(&self) -> &'static str {
        "single-session"
    }

    fn source(&self) -> &'static str {
        "Pang 2003, section 5.3, figures 5.5 to 5.7 and table 5.5"
    }

    fn title(&self) -> &'static str {
        "Registration, call set-up and termination over UDP and SCTP, packet by packet"
    }

    fn about(&self) -> About {
        About {
            topology: "A caller, a proxy and registrar, and a callee; the users are 1 ms from the proxy, and nothing is lost.",
            runs: "The users register, over SCTP by setting up an association. A second later they register again, over the \
                   association that stands. Then the caller calls; the phone rings for half a second, and a second \
                   after the answer the caller hangs up. Over UDP, and over SCTP with both profiles of settings.",
            measures: "All packets of each step between the users and the proxy, and the caller's response time: from the \
                       REGISTER to the 200, from the INVITE to the 200 without the ringing, and from the BYE to the \
                       200. HEARTBEATs are not counted.",
            law: "A registration takes two trips, over a new association two more: INIT and INIT ACK, and the REGISTER goes \
                  with the COOKIE ECHO (RFC 9260 section 5.1). Set-up and termination take four, whatever the \
                  transport. Over UDP each message is a packet. Over SCTP a message is a chunk, and a packet is \
                  acknowledged at most once (section 6.2). Pang 2003 has 7 ms and 14 ms for registrations over UDP and \
                  SCTP, 4.6 and 6.0 s for call set-up, 1.7 and 2.4 s for termination, and at least twice as many \
                  packets over SCTP.",
            check: "Times exactly, on the virtual clock; counts of messages and packets.",
        }
    }

    fn on(&self) -> &'static [On] {
        &[On::Sim]
    }

    fn why_not(&self, _: On) -> &'static str {
        "its laws are about exact times and counts of packets, which the virtual clock has"
    }

    fn run(&self, _: On, context: &Context) -> anyhow::Result<Outcome> {
        context.steps(WAYS.len() as u64);
        context.begin("a session over each transport");
        let mut sessions = Vec::new();
        for (number, way) in (0..).zip(WAYS) {
            sessions.push((way, session(context, number, way)?));
            context.done();
        }
        let mut outcome = Outcome::judged(check(&sessions))
            .ours(sessions.iter().flat_map(to_json).collect())
            .published(
                STEPS
                    .iter()
                    .flat_map(|step| {
                        [Transport::Udp, Transport::Sctp].map(|transport| {
                            json!({
                                "step": step.name(),
                                "transport": transport.to_string(),
                                "seconds": transaction_time(step.operation(), transport),
                            })
                        })
                    })
                    .collect(),
            )
            .table(table(&sessions));
        for (way, steps) in &sessions {
            for taken in steps {
                outcome = outcome.ladder(ladder(*way, taken));
            }
        }
        Ok(outcome)
    }
}

/// Runs a session over one transport.
fn session(context: &Context, number: u64, way: Way) -> anyhow::Result<Vec<Taken>> {
    let scenario = Scenario {
        way,
        users: 1,
        delay: DELAY,
        loss: 0.0,
        lasts: Duration::ZERO,
    };
    let call = CallPlan {
        hold: Pause::Fixed(PAUSE),
        ..CallPlan::default()
    };
    let answer = AnswerPlan {
        ring: Pause::Fixed(RINGING),
        ..AnswerPlan::default()
    };
    let mut hosts = OneProxy::new(context, number, &scenario, (&call, &answer))?;
    hosts.record();
    let mut taken = Vec::new();
    for step in [Step::Fresh, Step::Standing] {
        let before = hosts.trace().len();
        hosts.begin_registration();
        hosts.wait(PAUSE)?;
        let records = hosts.take_records();
        let record = records.iter().find_map(|record| match record {
            Record::Registration(record) => Some(record),
            _ => None,
        });
        let time = record.and_then(|record: &RegistrationRecord| record.answered);
        taken.push(Taken {
            step,
            time: time.unwrap_or(Duration::MAX),
            // The caller's; the callee's are the same.
            packets: packets(&hosts, before, |seen| seen.from.max(seen.to) <= PROXY),
        });
    }
    let before = hosts.trace().len();
    hosts.call(10 * PAUSE, Some(1))?;
    hosts.wait(PAUSE)?;
    let records = hosts.take_records();
    let record = records.iter().find_map(|record| match record {
        Record::Call(record) => Some(record),
        _ => None,
    });
    let between = |from: fn(&CallRecord) -> Option<Duration>,
                   to: fn(&CallRecord) -> Option<Duration>| {
        let record = record?;
        Some(to(record)?.saturating_sub(from(record)?))
    };
    let set_up = between(|record| Some(record.invited), |record| record.answered);
    let ended = between(|record| record.bye, |record| record.bye_answered);
    // Half way between the ACK and the BYE.
    let hangs_up = 4 * DELAY + RINGING + PAUSE / 2;
    for (step, time) in [
        (Step::SetUp, set_up.map(|time| time.saturating_sub(RINGING))),
        (Step::Termination, ended),
    ] {
        let is_end = step == Step::Termination;
        let mut packets = packets(&hosts, before, |seen| (seen.at >= hangs_up) == is_end);
        let first = packets.first().map_or(Duration::ZERO, |seen| seen.at);
        for seen in &mut packets {
            seen.at -= first;
        }
        taken.push(Taken {
            step,
            time: time.unwrap_or(Duration::MAX),
            packets,
        });
    }
    Ok(taken)
}

/// The place of the proxy among the hosts.
const PROXY: usize = 1;

/// What was sent after the first packets, so many of them, and is wanted.
fn packets(hosts: &OneProxy, before: usize, is_wanted: impl Fn(&Seen) -> bool) -> Vec<Seen> {
    let sent = hosts.trace().get(before..).unwrap_or_default();
    let first = sent.first().map(|sent| sent.at);
    let place = |address| ADDRESSES.iter().position(|host| *host == address);
    sent.iter()
        .filter_map(|sent| {
            Some(Seen {
                at: sent.at - first?,
                from: place(sent.datagram.source)?,
                to: place(sent.datagram.destination)?,
                contents: Contents::of(&sent.datagram.payload),
            })
        })
        .filter(is_wanted)
        .collect()
}

fn check(sessions: &[(Way, Vec<Taken>)]) -> Checks {
    let mut checks = Checks::new();
    let milliseconds = |time: Duration| time.as_secs_f64() * 1e3;
    for (way, steps) in sessions {
        for taken in steps {
            let what = format!("{}, {}", taken.step.name(), way.name());
            let law = DELAY * taken.step.trips(*way);
            checks.law(
                format!("response time, {what}"),
                milliseconds(taken.time),
                milliseconds(law.saturating_sub(GRANULARITY))..=milliseconds(law + GRANULARITY),
                "ms",
            );
            let messages = taken.step.messages() as f64;
            checks.law(
                format!("SIP messages, {what}"),
                taken.messages() as f64,
                messages..=messages,
                "messages",
            );
            let most = match way.transport() {
                Transport::Udp => messages,
                // A SACK for each; and the handshake, four packets, of which one may carry a message.
                _ if taken.step == Step::Fresh => 2.0 * messages + 4.0,
                _ => 2.0 * messages,
            };
            checks.law(
                format!("packets, {what}"),
                taken.packets() as f64,
                1.0..=most,
                "packets",
            );
        }
    }
    compare(&mut checks, sessions);
    checks
}

/// Beside the publication, with the settings of RFC 9260, as its SCTP had them.
fn compare(checks: &mut Checks, sessions: &[(Way, Vec<Taken>)]) {
    let of = |way: Way, step: Step| {
        let (_, steps) = sessions.iter().find(|(one, _)| *one == way)?;
        steps.iter().find(|taken| taken.step == step)
    };
    for step in [Step::Fresh, Step::SetUp, Step::Termination] {
        let (Some(udp), Some(sctp)) = (of(Way::Udp, step), of(Way::Sctp(Profile::Rfc9260), step))
        else {
            continue;
        };
        let published = [Transport::Udp, Transport::Sctp]
            .map(|transport| transaction_time(step.operation(), transport).unwrap_or(f64::NAN));
        checks.found(
            format!(
                "Pang 2003: {} takes longer over SCTP ({} s) than over UDP ({} s)",
                step.name(),
                published[1],
                published[0]
            ),
            sctp.time > udp.time + GRANULARITY,
            format!(
                "it takes {:.1} ms over both: the association stands, and the acknowledgements of SCTP hold nothing up",
                sctp.time.as_secs_f64() * 1e3
            ),
        );
    }
    let least = stated(
        "single-session",
        "packets over SCTP for each over UDP at least",
    );
    for step in [Step::SetUp, Step::Termination] {
        let (Some(udp), Some(sctp)) = (of(Way::Udp, step), of(Way::Sctp(Profile::Rfc9260), step))
        else {
            continue;
        };
        checks.found(
            format!(
                "Pang 2003: {} takes at least {least} times as many packets over SCTP as over UDP",
                step.name()
            ),
            sctp.packets() as f64 >= least * udp.packets() as f64,
            format!(
                "it takes {} over SCTP and {} over UDP: an acknowledgement goes with a message of the same direction \
                 if there is one, and waits for a second packet otherwise (RFC 9260 section 6.2)",
                sctp.packets(),
                udp.packets()
            ),
        );
    }
}

fn to_json((way, steps): &(Way, Vec<Taken>)) -> Vec<Value> {
    let one = |taken: &Taken| {
        json!({
            "transport": way.name(),
            "step": taken.step.name(),
            "response_time_s": taken.time.as_secs_f64(),
            "packets": taken.packets(),
            "sip_messages": taken.messages(),
        })
    };
    steps.iter().map(one).collect()
}

fn table(sessions: &[(Way, Vec<Taken>)]) -> Table {
    let mut table = Table::new("One session")
        .column(Column::text("Step").key())
        .column(Column::text("Transport").key())
        .column(Column::number("Response time").unit("ms"))
        .column(Column::number("Trips"))
        .column(Column::number("Packets"))
        .column(Column::number("SIP messages"))
        .column(Column::number("published").unit("ms"));
    for step in STEPS {
        for (index, (way, steps)) in sessions.iter().enumerate() {
            let Some(taken) = steps.iter().find(|taken| taken.step == step) else {
                continue;
            };
            let published = transaction_time(step.operation(), way.transport());
            let row = Row::new([
                Cell::from(step.name()),
                Cell::from(way.name()),
                Cell::number(taken.time.as_secs_f64() * 1e3, 2),
                Cell::from(u64::from(step.trips(*way))),
                Cell::from(taken.packets() as u64),
                Cell::from(taken.messages() as u64),
                Cell::number(published.map(|seconds| 1e3 * seconds), 0),
            ]);
            table.push(if index == 0 { row.begins_block() } else { row });
        }
    }
    table.note(
        "Published: Pang 2003, table 5.5. Its set-up and termination take seconds because its user agents do (linphone, \
         with a user who answers by hand).",
    );
    table
}

fn ladder(way: Way, taken: &Taken) -> Ladder {
    let title = format!("{}, {}", capitalised(taken.step.name()), way.name());
    let mut ladder = Ladder::new(title, ["caller", "proxy", "callee"]);
    for seen in &taken.packets {
        ladder.push(Arrow {
            time: format!("{:.3} ms", seen.at.as_secs_f64() * 1e3),
            from: seen.from,
            to: seen.to,
            label: seen.contents.text.clone(),
            kind: seen.contents.kind,
            is_repeated: false,
        });
    }
    ladder.note("Times since the first packet of the step.")
}

fn capitalised(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map_or_else(String::new, |first| {
        first.to_ascii_uppercase().to_string() + characters.as_str()
    })
}
