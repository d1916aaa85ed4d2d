//! From the messages of an exchange to the session that they were.

use super::exchange::Exchange;
use super::message::Entry;
use super::method_code::MethodCode;
use super::session::{Milestone, Outcome, Session, Timestamps};
use crate::Time;

/// Timers B and F of RFC 3261: 64 times T1.
pub(crate) const TIMEOUT_NANOSECONDS: i64 = 32_000_000_000;

/// A session and what the metrics of RFC 6076 need beyond it.
#[derive(Debug)]
pub(crate) struct Judged {
    pub(crate) session: Session,
    /// How the session ended, for SDD and SDT.
    pub(crate) end: End,
}

/// How a session that was set up ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum End {
    /// It did not, or was not set up.
    None,
    /// The BYE was answered with 2xx.
    Answered,
    /// The BYE was answered otherwise.
    Refused,
    /// Nobody answered the BYE.
    TimedOut,
}

/// Judges an exchange that began with an INVITE; `None` where the capture has not seen that. `now` is the
/// time up to which the capture was read. The session still lacks its Call-IDs and addresses.
pub(crate) fn judge(exchange: &Exchange, now: Time) -> Option<Judged> {
    let entries = &exchange.entries;
    let set_up = SetUp::of(entries)?;
    let mut timestamps = set_up.timestamps(entries);
    let [caller, callee] = &exchange.registrations;
    if let Some(registered) = caller {
        timestamps.set(Milestone::Register1, Some(registered.request));
        timestamps.set(Milestone::Ok1, registered.ok);
    }
    if let Some(registered) = callee {
        timestamps.set(Milestone::Register2, Some(registered.request));
        timestamps.set(Milestone::Ok2, registered.ok);
    }

    let final_response = set_up.final_response(entries);
    let has_ack = timestamps.get(Milestone::Ack).is_some();
    let goodbye = Goodbye::of(entries, set_up.caller_depth);
    let outcome = match final_response.and_then(Entry::status) {
        Some(status @ 300..) => Outcome::Refused(status),
        None if !has_ack => match now - set_up.last.sent >= TIMEOUT_NANOSECONDS {
            // Whoever is rung may still answer.
            true if set_up.status_response(entries).is_none() => Outcome::Unanswered,
            _ => Outcome::Undecided,
        },
        _ => match goodbye.end(now) {
            None => Outcome::Standing,
            Some(End::TimedOut) => Outcome::NotEnded,
            Some(_) => Outcome::Completed,
        },
    };
    let ok = final_response.filter(|_| outcome.is_established());
    let status_time = set_up
        .status_response(entries)
        .or(final_response)
        .map(|entry| entry.received - set_up.first.sent);
    let end = match outcome.is_established() {
        true => goodbye.end(now).unwrap_or(End::None),
        false => End::None,
    };
    let session = Session {
        number: exchange.number,
        call_ids: Vec::new(),
        from: Box::default(),
        to: Box::default(),
        transport: Some(set_up.first.transport),
        began: set_up.began,
        outcome,
        timestamps,
        session_request_delay: status_time,
        session_disconnect_delay: match end {
            End::Answered | End::Refused => goodbye.delay(),
            End::None | End::TimedOut => None,
        },
        session_duration: match (ok, goodbye.request) {
            (Some(ok), Some(bye)) if end == End::TimedOut => {
                Some((bye.sent - ok.received).saturating_add(TIMEOUT_NANOSECONDS))
            }
            (Some(ok), Some(bye)) => Some(bye.sent - ok.received),
            _ => None,
        },
        messages: entries.len() as u64 + exchange.omitted,
        retransmissions: entries
            .iter()
            .filter(|entry| entry.flags.is_retransmission)
            .count() as u64,
        rtp: Vec::new(),
    };
    Some(Judged { session, end })
}

/// How a session was set up, seen from the caller's side.
struct SetUp<'t> {
    /// When the caller sent the earliest of its INVITEs.
    began: Time,
    /// The first INVITE of the caller that `last` repeats.
    first: &'t Entry,
    /// The last one: with credentials, or to where the first was redirected. Of parallel ones, the one that was answered.
    last: &'t Entry,
    /// The last INVITE on its last hop, towards the callee; the caller's own where there is one hop.
    forwarded: Option<&'t Entry>,
    caller_depth: u8,
}

impl<'t> SetUp<'t> {
    fn of(entries: &'t [Entry]) -> Option<SetUp<'t>> {
        let initial = || {
            entries.iter().filter(|entry| {
                entry.is_request(MethodCode::Invite)
                    && !entry.flags.in_dialog
                    && !entry.flags.is_retransmission
            })
        };
        let caller_depth = initial().map(|entry| entry.depth).min()?;
        let of_caller = || initial().filter(|entry| entry.depth == caller_depth);
        let is_answered = |entry: &&Entry| response(entries, entry, 200..=299).is_some();
        let last = of_caller()
            .find(is_answered)
            .or_else(|| of_caller().next_back())?;
        // An INVITE that had no final response yet when the next one was sent is parallel to it, and not repeated by it.
        let first = of_caller()
            .rev()
            .skip_while(|entry| !std::ptr::eq(*entry, last))
            .fold(last, |repeated, entry| {
                match response(entries, entry, 200..=999) {
                    Some(answer) if answer.sent > repeated.sent => repeated,
                    _ => entry,
                }
            });
        // Further legs count their CSeq for themselves.
        let onward = || {
            initial().filter(|entry| {
                entry.depth > caller_depth && (entry.cseq == last.cseq || entry.depth >= 64)
            })
        };
        let deepest = onward().map(|entry| entry.depth).max();
        let mut towards_callee = onward().filter(|entry| Some(entry.depth) == deepest);
        // Of several branches of a fork, the one that answered.
        let answered = towards_callee.clone().find(is_answered);
        Some(SetUp {
            began: of_caller().next()?.sent,
            first,
            last,
            forwarded: answered.or_else(|| towards_callee.next()),
            caller_depth,
        })
    }

    /// The final response to the caller; a 2xx before any other.
    fn final_response(&self, entries: &'t [Entry]) -> Option<&'t Entry> {
        response(entries, self.last, 200..=299).or_else(|| response(entries, self.last, 300..=999))
    }

    /// The first response to the caller that tells of more than its arrival.
    fn status_response(&self, entries: &'t [Entry]) -> Option<&'t Entry> {
        response(entries, self.last, 101..=199)
    }

    /// The times of the set-up at the server: requests when they reach it, responses when they leave it
    /// on the caller's side, and the reverse on the callee's.
    fn timestamps(&self, entries: &[Entry]) -> Timestamps {
        let mut timestamps = Timestamps::default();
        timestamps.set(Milestone::Invite1, Some(self.last.received));
        let ringing = response(entries, self.last, 180..=180)
            .or_else(|| response(entries, self.last, 181..=199));
        timestamps.set(Milestone::Ringing, ringing.map(|entry| entry.sent));
        let ok = response(entries, self.last, 200..=299);
        timestamps.set(Milestone::SdpOk2, ok.map(|entry| entry.sent));
        // An ACK for a 2xx is a transaction of its own; one for a refusal has the INVITE's branch.
        let ack = entries.iter().find(|entry| {
            entry.is_request(MethodCode::Ack)
                && entry.cseq == self.last.cseq
                && entry.branch != self.last.branch
                && entry.depth == self.caller_depth
        });
        timestamps.set(Milestone::Ack, ack.map(|entry| entry.received));
        if let Some(forwarded) = self.forwarded {
            timestamps.set(Milestone::Invite2, Some(forwarded.sent));
            let ok = response(entries, forwarded, 200..=299);
            timestamps.set(Milestone::SdpOk1, ok.map(|entry| entry.received));
        }
        timestamps
    }
}

/// The BYE and its answer, on the hop of whoever sent it.
struct Goodbye<'t> {
    request: Option<&'t Entry>,
    response: Option<&'t Entry>,
}

impl<'t> Goodbye<'t> {
    fn of(entries: &'t [Entry], caller_depth: u8) -> Goodbye<'t> {
        let byes = || {
            entries
                .iter()
                .filter(|entry| entry.is_request(MethodCode::Bye) && !entry.flags.is_retransmission)
        };
        // One Via: its sender's own. Behind a proxy that was not captured there may be more.
        let depth = byes()
            .map(|entry| entry.depth)
            .min()
            .unwrap_or(caller_depth);
        let of_sender = || byes().filter(|entry| entry.depth == depth);
        // A challenged BYE is sent again with credentials; its first one began the end.
        let final_response = |bye: &Entry, codes| response(entries, bye, codes);
        Goodbye {
            request: of_sender().next(),
            response: of_sender()
                .find_map(|bye| final_response(bye, 200..=299))
                .or_else(|| of_sender().find_map(|bye| final_response(bye, 300..=999))),
        }
    }

    /// `None` where there is no BYE, or its answer may still come.
    fn end(&self, now: Time) -> Option<End> {
        let request = self.request?;
        match self.response.and_then(Entry::status) {
            Some(200..=299) => Some(End::Answered),
            Some(_) => Some(End::Refused),
            None => (now - request.sent >= TIMEOUT_NANOSECONDS).then_some(End::TimedOut),
        }
    }

    fn delay(&self) -> Option<i64> {
        Some(self.response?.received - self.request?.sent)
    }
}

/// The first response to a request on the same hop whose status is in this range.
pub(crate) fn response<'t>(
    entries: &'t [Entry],
    request: &Entry,
    codes: std::ops::RangeInclusive<u16>,
) -> Option<&'t Entry> {
    // The branch tells most apart.
    entries.iter().find(|entry| {
        entry.branch == request.branch
            && entry.cseq == request.cseq
            && entry.method == request.method
            && entry.status().is_some_and(|status| codes.contains(&status))
    })
}
