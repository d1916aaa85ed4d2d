//! Text summaries, judged as Adnan 2012 did: a user is an address and port, and the nth caller belongs to
//! the nth callee.

use std::net::IpAddr;

use ahash::RandomState;
use hashbrown::HashMap;

use super::message::Kind;
use super::method_code::MethodCode;
use super::session::{Milestone, Outcome, Session, Timestamps};
use super::sip_exchanges::SipExchanges;
use crate::{Endpoint, Event, SipSummary, SummaryStart, Time};

/// The port that servers have: how to tell them from users.
const SIP_PORT: u16 = 5060;

/// What summaries tell of the users of one server.
#[derive(Debug)]
pub(crate) struct Summaries {
    users: Vec<User>,
    by_endpoint: HashMap<Endpoint, usize, RandomState>,
    /// On which side of calls the users of a host are.
    hosts: HashMap<IpAddr, Sides, RandomState>,
    /// Callees whose INVITE has reached the server, with the time it did.
    invited: HashMap<Box<str>, Time, RandomState>,
    most: usize,
    /// Messages that neither come from a server nor go to one, or of more users than are followed.
    unplaced: u64,
}

#[derive(Debug)]
struct User {
    endpoint: Endpoint,
    /// The first message from or to it.
    began: Time,
    times: Timestamps,
    sides: Sides,
    messages: u64,
}

/// For which side how many messages speak.
#[derive(Clone, Copy, Default, Debug)]
struct Sides {
    caller: u64,
    callee: u64,
}

impl Summaries {
    pub(crate) fn new(hasher: RandomState, most: usize) -> Summaries {
        Summaries {
            users: Vec::new(),
            by_endpoint: HashMap::with_hasher(hasher.clone()),
            hosts: HashMap::with_hasher(hasher.clone()),
            invited: HashMap::with_hasher(hasher),
            most,
            unplaced: 0,
        }
    }

    /// Whether the capture is a summary at all.
    pub(crate) fn has_users(&self) -> bool {
        !self.by_endpoint.is_empty()
    }

    pub(crate) fn unplaced(&self) -> u64 {
        self.unplaced
    }

    pub(crate) fn observe(
        &mut self,
        event: &Event<'_>,
        summary: &SipSummary<'_>,
        sip: &mut SipExchanges,
    ) {
        let (kind, method) = match summary.start {
            SummaryStart::Request { method, .. } => (
                Kind::Request,
                MethodCode::of(&sip::Method::from_name(method)),
            ),
            SummaryStart::Response { status, method, .. } => (
                Kind::Response(status),
                method.map_or(MethodCode::Other, |method| {
                    MethodCode::of(&sip::Method::from_name(method))
                }),
            ),
        };
        sip.codes.count(kind, method);
        let status = match kind {
            Kind::Request => None,
            Kind::Response(status) => Some(status),
        };
        sip.timeline.message(event.time, status);
        let from_user = match (
            event.source.port == SIP_PORT,
            event.destination.port == SIP_PORT,
        ) {
            (false, true) => true,
            (true, false) => false,
            _ => {
                self.unplaced += 1;
                return;
            }
        };
        let endpoint = match from_user {
            true => event.source,
            false => event.destination,
        };
        let Some(at) = self.user_at(endpoint, event.time) else {
            self.unplaced += 1;
            return;
        };
        let user = &mut self.users[at];
        user.messages += 1;
        let has_session = summary.has_session_description;
        let milestone = match (kind, method, from_user) {
            (Kind::Request, MethodCode::Register, true) => Some(Milestone::Register1),
            (Kind::Request, MethodCode::Invite, true) => Some(Milestone::Invite1),
            (Kind::Request, MethodCode::Invite, false) => Some(Milestone::Invite2),
            (Kind::Request, MethodCode::Ack, true) => Some(Milestone::Ack),
            (Kind::Response(180), _, false) => Some(Milestone::Ringing),
            (Kind::Response(200), _, false) if has_session => Some(Milestone::SdpOk2),
            (Kind::Response(200), _, true) if has_session => Some(Milestone::SdpOk1),
            // Summaries do not tell what a 200 is for. What comes after a REGISTER is its own.
            (Kind::Response(200), MethodCode::Other | MethodCode::Register, false)
                if user.times.get(Milestone::Register1).is_some() =>
            {
                Some(Milestone::Ok1)
            }
            _ => None,
        };
        let Some(milestone) = milestone else { return };
        user.times.set(milestone, Some(event.time));
        let vote = match milestone {
            Milestone::Invite1 | Milestone::Ack | Milestone::Ringing | Milestone::SdpOk2 => Sides {
                caller: 1,
                callee: 0,
            },
            Milestone::Invite2 | Milestone::SdpOk1 => Sides {
                caller: 0,
                callee: 1,
            },
            _ => Sides::default(),
        };
        user.sides.add(vote);
        self.hosts.entry(endpoint.address).or_default().add(vote);
        if let SummaryStart::Request { uri, .. } = summary.start {
            self.follow_invite(milestone, uri, event.time, sip);
        }
    }

    /// Rows of Adnan 2012's table: callers and callees, each in the order in which they came up.
    pub(crate) fn finish(&mut self, sip: &mut SipExchanges, each: &mut dyn FnMut(&Session)) {
        let (mut callers, mut callees) = (Vec::new(), Vec::new());
        for user in std::mem::take(&mut self.users) {
            let host = self
                .hosts
                .get(&user.endpoint.address)
                .copied()
                .unwrap_or_default();
            // A host with users on both sides says nothing; the user's own messages do.
            let sides = match host.caller > 0 && host.callee > 0 {
                true => user.sides,
                false => host,
            };
            match sides.callee > sides.caller {
                true => callees.push(user),
                false => callers.push(user),
            }
        }
        let rows = callers.len().max(callees.len());
        let (mut callers, mut callees) = (callers.into_iter(), callees.into_iter());
        for number in 1..=rows as u64 {
            let session = row(number, callers.next(), callees.next());
            let delays = [session.register_delay_1(), session.register_delay_2()];
            for delay in delays.into_iter().flatten() {
                sip.delays.register.record_nanoseconds(delay);
            }
            if session.timestamps.get(Milestone::Invite1).is_some() {
                sip.timeline.at(session.began).calls += 1;
            }
            sip.add_paired_session(&session);
            each(&session);
        }
    }

    fn user_at(&mut self, endpoint: Endpoint, time: Time) -> Option<usize> {
        if let Some(at) = self.by_endpoint.get(&endpoint) {
            return Some(*at);
        }
        if self.users.len() >= self.most {
            return None;
        }
        self.users.push(User {
            endpoint,
            began: time,
            times: Timestamps::default(),
            sides: Sides::default(),
            messages: 0,
        });
        self.by_endpoint.insert(endpoint, self.users.len() - 1);
        Some(self.users.len() - 1)
    }

    /// The time that the server takes for an INVITE: both have the same user in the Request-URI.
    fn follow_invite(
        &mut self,
        milestone: Milestone,
        uri: &str,
        time: Time,
        sip: &mut SipExchanges,
    ) {
        let Some(callee) = super::addresses::user_of(uri) else {
            return;
        };
        match milestone {
            Milestone::Invite1 if self.invited.len() < self.most => {
                self.invited.entry(callee.into()).or_insert(time);
            }
            Milestone::Invite2 => {
                if let Some(invited) = self.invited.remove(callee) {
                    sip.delays.invite.record_nanoseconds(time - invited);
                }
            }
            _ => {}
        }
    }
}

impl Sides {
    fn add(&mut self, other: Sides) {
        self.caller += other.caller;
        self.callee += other.callee;
    }
}

fn row(number: u64, caller: Option<User>, callee: Option<User>) -> Session {
    let mut timestamps = Timestamps::default();
    if let Some(caller) = &caller {
        for milestone in [
            Milestone::Register1,
            Milestone::Ok1,
            Milestone::Invite1,
            Milestone::Ringing,
            Milestone::SdpOk2,
            Milestone::Ack,
        ] {
            timestamps.set(milestone, caller.times.get(milestone));
        }
    }
    if let Some(callee) = &callee {
        // What both sides do alike is kept as the caller's.
        timestamps.set(Milestone::Register2, callee.times.get(Milestone::Register1));
        timestamps.set(Milestone::Ok2, callee.times.get(Milestone::Ok1));
        timestamps.set(Milestone::Invite2, callee.times.get(Milestone::Invite2));
        timestamps.set(Milestone::SdpOk1, callee.times.get(Milestone::SdpOk1));
    }
    let name = |user: &Option<User>| match user {
        Some(user) => user.endpoint.to_string().into_boxed_str(),
        None => Box::default(),
    };
    let users = || [&caller, &callee].into_iter().flatten();
    Session {
        number,
        call_ids: Vec::new(),
        from: name(&caller),
        to: name(&callee),
        transport: None,
        began: users().map(|user| user.began).min().unwrap_or_default(),
        outcome: match timestamps
            .get(Milestone::Ack)
            .or(timestamps.get(Milestone::SdpOk2))
        {
            Some(_) => Outcome::Standing,
            None => Outcome::Unanswered,
        },
        timestamps,
        session_request_delay: timestamps.between(Milestone::Invite1, Milestone::Ringing),
        session_disconnect_delay: None,
        session_duration: None,
        messages: users().map(|user| user.messages).sum(),
        retransmissions: 0,
        rtp: Vec::new(),
    }
}
