//! The scripts of the generator itself: calls, registrations, OPTIONS, MESSAGE.
//!
//! They are what `tandem load calls` and its like run. Their templates hold nothing that a call does not
//! need, and the session description has the length of a real phone's.

use std::ops::RangeInclusive;
use std::time::Duration;

use sip::Method;

use super::{
    Alternative, Expect, Expected, Pause, Script, ScriptError, Send, Step, StepNumber, Template,
    TemplateError, Then,
};

/// How calls go.
#[derive(Clone, Debug, PartialEq)]
pub struct CallPlan {
    /// From the ACK to the BYE.
    pub hold: Pause,
    /// A call without a final response for so long is cancelled. Without, Timer B and the callee's own
    /// that timeout end it.
    pub answer_within: Option<Duration>,
}

impl Default for CallPlan {
    /// Hangs up at once. Callers wait for an answer for 32 s, as long as a callee repeats one (64·T1, RFC
    /// 3261 section 13.3.1.4).
    fn default() -> CallPlan {
        CallPlan {
            hold: Pause::Fixed(Duration::ZERO),
            answer_within: Some(Duration::from_secs(32)),
        }
    }
}

/// How callees answer.
#[derive(Clone, Debug, PartialEq)]
pub struct AnswerPlan {
    /// From the 180 to the 200.
    pub ring: Pause,
    /// How long the BYE is waited for. A callee whose caller has vanished then hangs up itself, and the call
    /// has failed. Without, it waits for ever.
    pub bye_timeout: Option<Duration>,
}

impl Default for AnswerPlan {
    /// At once, and with an hour of bye_timeout: longer than calls are held.
    fn default() -> AnswerPlan {
        AnswerPlan {
            ring: Pause::Fixed(Duration::ZERO),
            bye_timeout: Some(Duration::from_secs(3600)),
        }
    }
}

impl AnswerPlan {
    /// At once, and with an hour for the BYE beyond how long calls are held.
    pub fn for_calls_of(hold: Duration) -> AnswerPlan {
        let plan = AnswerPlan::default();
        AnswerPlan {
            bye_timeout: plan.bye_timeout.map(|timeout| timeout.saturating_add(hold)),
            ..plan
        }
    }
}

/// A script that could not be made: never one of these, but their templates are read like any other.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BuiltinError {
    /// A template.
    #[error(transparent)]
    Template(#[from] TemplateError),
    /// The steps.
    #[error(transparent)]
    Script(#[from] ScriptError),
}

/// A caller: INVITE, ACK to the 2xx, hold, BYE.
///
/// # Errors
///
/// None: see [`BuiltinError`].
pub fn call(plan: &CallPlan) -> Result<Script, BuiltinError> {
    let send = |text: &str| Template::parse(text).map(|template| Step::Send(Send::new(template)));
    const CANCEL: StepNumber = StepNumber(7);
    const GIVE_UP: StepNumber = StepNumber(9);
    const ANSWERED_LATE: StepNumber = StepNumber(10);
    let answer = |statuses, then| Alternative {
        expected: Expected::Response {
            statuses,
            method: Some(Method::Invite),
        },
        actions: Vec::new(),
        then,
    };
    let mut answered = Expect::any_of([answer(200..=299, Then::Next)]);
    if let Some(answer_within) = plan.answer_within {
        answered = answered.within(answer_within, Some(CANCEL));
    }
    let farewell = |then| {
        Step::Expect(Expect::any_of([Alternative {
            expected: Expected::Response {
                statuses: 200..=299,
                method: Some(Method::Bye),
            },
            actions: Vec::new(),
            then,
        }]))
    };
    let steps = vec![
        send(INVITE)?,
        Step::Expect(answered),
        send(ACK)?,
        Step::Pause(plan.hold.clone()),
        send(BYE)?,
        farewell(Then::Next),
        Step::Complete,
        // Nobody has answered: a 2xx may still cross the CANCEL (RFC 3261 section 9.1).
        Step::Cancel,
        Step::Expect(Expect::any_of([
            answer(200..=299, Then::Jump(ANSWERED_LATE)),
            answer(300..=699, Then::Next),
        ])),
        Step::GiveUp,
        send(ACK)?,
        send(BYE)?,
        farewell(Then::Jump(GIVE_UP)),
        Step::GiveUp,
    ];
    Ok(Script::new("call", steps, Vec::new())?.asking_once())
}

/// A callee: 180, 200 after ringing, and 200 to the BYE; a BYE of its own where none comes.
///
/// # Errors
///
/// None: see [`BuiltinError`].
pub fn answer(plan: &AnswerPlan) -> Result<Script, BuiltinError> {
    let send = |text: &str| Template::parse(text).map(|template| Step::Send(Send::new(template)));
    let answer = Step::Send(Send::new(Template::parse(ANSWER)?).in_answer_to_first());
    let is_ringing = plan.ring != Pause::Fixed(Duration::ZERO);
    let mut steps = vec![
        Step::Expect(Expect::request(Method::Invite)),
        send(RINGING)?,
    ];
    if is_ringing {
        steps.push(Step::Pause(plan.ring.clone()));
    }
    // The BYE may come where the ACK was lost.
    let farewell = StepNumber(steps.len() as u16 + 3);
    let hang_up = StepNumber(farewell.0 + 2);
    let mut bye = Expect::request(Method::Bye);
    if let Some(timeout) = plan.bye_timeout {
        bye = bye.within(timeout, Some(hang_up));
    }
    steps.extend([
        answer,
        Step::Expect(Expect::any_of([
            Alternative::request(Method::Ack, Then::Next),
            Alternative::request(Method::Bye, Then::Jump(farewell)),
        ])),
        Step::Expect(bye),
        send(OK)?,
        Step::Complete,
    ]);
    if plan.bye_timeout.is_some() {
        steps.extend([
            send(BYE_OF_EITHER)?,
            Step::Expect(Expect::any_of([Alternative::response(
                200..=699,
                Then::Next,
            )])),
            Step::GiveUp,
        ]);
    }
    Ok(Script::new("answer", steps, Vec::new())?)
}

/// A REGISTER. The engine registers with it, refreshes, and removes bindings.
///
/// # Errors
///
/// None: see [`BuiltinError`].
pub fn register() -> Result<Script, BuiltinError> {
    request("register", REGISTER)
}

/// A caller whose INVITE is to be answered with one of these final statuses (300 to 699), by which the call
/// is over.
///
/// # Errors
///
/// None: see [`BuiltinError`].
pub fn refused(statuses: RangeInclusive<u16>) -> Result<Script, BuiltinError> {
    let steps = vec![
        Step::Send(Send::new(Template::parse(INVITE)?)),
        Step::Expect(Expect::response(statuses)),
    ];
    Ok(Script::new("refused call", steps, Vec::new())?.asking_once())
}

/// An OPTIONS to the peer.
///
/// # Errors
///
/// None: see [`BuiltinError`].
pub fn options() -> Result<Script, BuiltinError> {
    Ok(request("options", OPTIONS)?.asking_once())
}

/// An OPTIONS to the proxy itself, which has no peer in it (RFC 3261 section 11).
///
/// # Errors
///
/// None: see [`BuiltinError`].
pub fn ping() -> Result<Script, BuiltinError> {
    Ok(request("ping", PING)?.asking_once())
}

/// A MESSAGE to the peer (RFC 3428).
///
/// # Errors
///
/// None: see [`BuiltinError`].
pub fn message() -> Result<Script, BuiltinError> {
    Ok(request("message", MESSAGE)?.asking_once())
}

/// Says yes to a request of a method outside of a call: to OPTIONS or MESSAGE.
///
/// # Errors
///
/// None: see [`BuiltinError`].
pub fn accept(method: Method) -> Result<Script, BuiltinError> {
    let steps = vec![
        Step::Expect(Expect::request(method)),
        Step::Send(Send::new(Template::parse(OK_WITH_ALLOW)?)),
    ];
    Ok(Script::new("accept", steps, Vec::new())?)
}

/// A request that is to be answered with a 2xx.
fn request(name: &str, text: &str) -> Result<Script, BuiltinError> {
    let steps = vec![
        Step::Send(Send::new(Template::parse(text)?)),
        Step::Expect(Expect::response(200..=299)),
    ];
    Ok(Script::new(name, steps, Vec::new())?)
}

const INVITE: &str = "\
INVITE sip:{peer}@{domain} SIP/2.0
Via: SIP/2.0/{transport} {local_address};branch={branch}
Max-Forwards: 70
{routes}
From: <sip:{user}@{domain}>;tag={local_tag}
To: <sip:{peer}@{domain}>
Call-ID: {call_id}
CSeq: {cseq} INVITE
Contact: <{contact}>
Allow: INVITE, ACK, CANCEL, BYE, OPTIONS
{authorization}
Content-Type: application/sdp
Content-Length: {content_length}

v=0
o={user} 2890844526 2890844526 IN IP{media_ip_version} {media_ip}
s=-
c=IN IP{media_ip_version} {media_ip}
t=0 0
m=audio {media_port} RTP/AVP 0 8
a=rtpmap:0 PCMU/8000
a=rtpmap:8 PCMA/8000
{media_source}
";

const ACK: &str = "\
ACK {target} SIP/2.0
Via: SIP/2.0/{transport} {local_address};branch={branch}
Max-Forwards: 70
{routes}
From: <sip:{user}@{domain}>;tag={local_tag}
To: <sip:{peer}@{domain}>{remote_tag}
Call-ID: {call_id}
CSeq: {cseq} ACK
Content-Length: 0

";

const BYE: &str = "\
BYE {target} SIP/2.0
Via: SIP/2.0/{transport} {local_address};branch={branch}
Max-Forwards: 70
{routes}
From: <sip:{user}@{domain}>;tag={local_tag}
To: <sip:{peer}@{domain}>{remote_tag}
Call-ID: {call_id}
CSeq: {cseq} BYE
{authorization}
Content-Length: 0

";

/// The BYE of whoever ends a call, of which one party may be a stranger.
pub(crate) const BYE_OF_EITHER: &str = "\
BYE {target} SIP/2.0
Via: SIP/2.0/{transport} {local_address};branch={branch}
Max-Forwards: 70
{routes}
From: {local_party}
To: {remote_party}
Call-ID: {call_id}
CSeq: {cseq} BYE
{authorization}
Content-Length: 0

";

const RINGING: &str = "\
SIP/2.0 180 Ringing
{request_vias}
{request_record_routes}
{request_from}
{request_to}
{request_call_id}
{request_cseq}
Contact: <{contact}>
Content-Length: 0

";

const ANSWER: &str = "\
SIP/2.0 200 OK
{request_vias}
{request_record_routes}
{request_from}
{request_to}
{request_call_id}
{request_cseq}
Contact: <{contact}>
Allow: INVITE, ACK, CANCEL, BYE, OPTIONS
Content-Type: application/sdp
Content-Length: {content_length}

v=0
o={user} 2890844527 2890844527 IN IP{media_ip_version} {media_ip}
s=-
c=IN IP{media_ip_version} {media_ip}
t=0 0
m=audio {media_port} RTP/AVP 0
a=rtpmap:0 PCMU/8000
{media_source}
";

const OK: &str = "\
SIP/2.0 200 OK
{request_vias}
{request_from}
{request_to}
{request_call_id}
{request_cseq}
Content-Length: 0

";

const OK_WITH_ALLOW: &str = "\
SIP/2.0 200 OK
{request_vias}
{request_from}
{request_to}
{request_call_id}
{request_cseq}
Allow: INVITE, ACK, CANCEL, BYE, OPTIONS, MESSAGE
Accept: application/sdp
Content-Length: 0

";

const REGISTER: &str = "\
REGISTER sip:{domain} SIP/2.0
Via: SIP/2.0/{transport} {local_address};branch={branch}
Max-Forwards: 70
{routes}
From: <sip:{user}@{domain}>;tag={local_tag}
To: <sip:{user}@{domain}>
Call-ID: {call_id}
CSeq: {cseq} REGISTER
Contact: <{contact}>
Expires: {expires}
{authorization}
Content-Length: 0

";

const OPTIONS: &str = "\
OPTIONS sip:{peer}@{domain} SIP/2.0
Via: SIP/2.0/{transport} {local_address};branch={branch}
Max-Forwards: 70
{routes}
From: <sip:{user}@{domain}>;tag={local_tag}
To: <sip:{peer}@{domain}>
Call-ID: {call_id}
CSeq: {cseq} OPTIONS
Contact: <{contact}>
Accept: application/sdp
{authorization}
Content-Length: 0

";

const PING: &str = "\
OPTIONS sip:{remote_address} SIP/2.0
Via: SIP/2.0/{transport} {local_address};branch={branch}
Max-Forwards: 70
From: <sip:{user}@{domain}>;tag={local_tag}
To: <sip:{remote_address}>
Call-ID: {call_id}
CSeq: {cseq} OPTIONS
Contact: <{contact}>
Accept: application/sdp
{authorization}
Content-Length: 0

";

const MESSAGE: &str = "\
MESSAGE sip:{peer}@{domain} SIP/2.0
Via: SIP/2.0/{transport} {local_address};branch={branch}
Max-Forwards: 70
{routes}
From: <sip:{user}@{domain}>;tag={local_tag}
To: <sip:{peer}@{domain}>
Call-ID: {call_id}
CSeq: {cseq} MESSAGE
{authorization}
Content-Type: text/plain
Content-Length: {content_length}

Watson, come here.";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::{First, Kind};

    #[test]
    fn all_are_sound() {
        let call = call(&CallPlan::default()).unwrap();
        assert_eq!(call.kind(), &Kind::Call);
        assert_eq!(call.first(), &First::Sends);
        let ring = Pause::Fixed(Duration::from_secs(1));
        let slow = AnswerPlan {
            ring,
            ..AnswerPlan::default()
        };
        for plan in [AnswerPlan::default(), slow] {
            let answer = answer(&plan).unwrap();
            assert_eq!(answer.first(), &First::Waits(Method::Invite));
            let patient = answer.steps().iter().find_map(|step| match step {
                Step::Expect(expect) => expect.on_timeout,
                _ => None,
            });
            let hang_up = usize::from(patient.unwrap().0);
            let [Step::Send(farewell), Step::Complete, Step::Send(bye)] =
                &answer.steps()[hang_up - 2..=hang_up]
            else {
                panic!("the BYE is answered, and sent where none comes");
            };
            assert_eq!(farewell.template.status(), Some(200));
            assert_eq!(bye.template.method(), Some(&Method::Bye));
        }
        let held = Duration::from_secs(7200);
        let timeout = AnswerPlan::for_calls_of(held).bye_timeout;
        assert_eq!(timeout, Some(Duration::from_secs(3600) + held));
        assert_eq!(register().unwrap().kind(), &Kind::Registration);
        for script in [options(), ping()] {
            assert_eq!(script.unwrap().kind(), &Kind::Request(Method::Options));
        }
        assert_eq!(message().unwrap().kind(), &Kind::Request(Method::Message));
        accept(Method::Message).unwrap();
    }

    #[test]
    fn calls_that_are_given_up_lead_where_they_should() {
        let call = call(&CallPlan::default()).unwrap();
        assert!(matches!(call.steps()[7], Step::Cancel));
        assert!(matches!(call.steps()[9], Step::GiveUp));
        assert!(matches!(&call.steps()[10], Step::Send(send)
            if send.template.method() == Some(&Method::Ack)));
    }
}
