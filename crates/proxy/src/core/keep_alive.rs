//! Keep-alives from us to user agents behind NATs: over UDP a NAT forgets within half a minute who it
//! lets in (RFC 5626 section 4.4.2), and most phones do not send keep-alives themselves.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use sip::{Flow, Message, Method, Name, Target, Transmit, Transport, Uri};

use super::binding::Binding;
use super::proxy::Proxy;
use super::target::is_at_contact;

/// What is sent to user agents behind NATs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeepAliveMethod {
    /// Two line ends: the least that a NAT can see.
    LineEnds,
    /// An OPTIONS request, which a user agent answers: for NATs that want to see traffic from inside.
    Options,
}

/// How the way to user agents behind NATs is kept open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeepAlivePolicy {
    /// What is sent; `None` leaves it to the user agents.
    pub method: Option<KeepAliveMethod>,
    /// How often.
    pub interval: Duration,
    /// To how many flows, by each worker. Those that register when there are so many are left alone.
    pub maximum_flows: usize,
}

impl Default for KeepAlivePolicy {
    /// Nothing is sent.
    fn default() -> KeepAlivePolicy {
        KeepAlivePolicy {
            method: None,
            interval: Duration::from_secs(25),
            maximum_flows: 100_000,
        }
    }
}

/// The flows that are kept open.
#[derive(Debug, Default)]
pub(crate) struct KeepAlives {
    flows: BTreeMap<Ends, Kept>,
    due: BTreeSet<(Instant, Ends)>,
    /// Until then nothing more is sent: so much has been.
    rests_until: Option<Instant>,
}

/// Our address and that of the user agent, or of its NAT.
type Ends = (SocketAddr, SocketAddr);

#[derive(Debug)]
struct Kept {
    flow: Flow,
    /// When the last binding ends that came along it.
    until: Instant,
    due: Instant,
}

/// How many keep-alives are sent at a time.
const BURST: usize = 64;

/// How long nothing is sent after so many.
const REST: Duration = Duration::from_millis(10);

/// Two line ends.
const LINE_ENDS: &[u8] = b"\r\n\r\n";

impl KeepAlives {
    /// Keeps a flow open. Returns whether there was room.
    fn keep(&mut self, policy: &KeepAlivePolicy, now: Instant, flow: Flow, until: Instant) -> bool {
        let ends = (flow.local, flow.remote);
        if let Some(kept) = self.flows.get_mut(&ends) {
            kept.flow = flow;
            kept.until = kept.until.max(until);
            return true;
        }
        if self.flows.len() >= policy.maximum_flows {
            return false;
        }
        let due = now + policy.interval;
        self.due.insert((due, ends));
        self.flows.insert(ends, Kept { flow, until, due });
        true
    }

    /// The next flow along which something is to be sent. Those that nobody is registered over any more
    /// are given up.
    fn next(&mut self, now: Instant, interval: Duration) -> Option<Flow> {
        loop {
            let &(due, ends) = self.due.first().filter(|(due, _)| *due <= now)?;
            self.due.remove(&(due, ends));
            let kept = self.flows.get_mut(&ends)?;
            if kept.until <= now {
                self.flows.remove(&ends);
                continue;
            }
            // From now on, not from when it was due: what was late is not made up for by haste.
            kept.due = now + interval;
            self.due.insert((kept.due, ends));
            return Some(kept.flow);
        }
    }

    /// When something is to be sent next.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        let (due, _) = self.due.first()?;
        Some(self.rests_until.map_or(*due, |rest| rest.max(*due)))
    }

    /// How many flows are kept open.
    pub(crate) fn len(&self) -> usize {
        self.flows.len()
    }
}

impl Proxy {
    /// Keeps the flow of a REGISTER open, if one of the bindings came along it and is behind a NAT: if its
    /// Contact is another address than that which we see.
    pub(super) fn keep_alive(&mut self, now: Instant, flow: &Flow, bindings: &[Binding]) {
        let policy = &self.policy.keep_alive;
        if policy.method.is_none() || flow.transport != Transport::Udp {
            return;
        }
        let is_behind = |binding: &&Binding| {
            binding.flow() == Some(*flow)
                && matches!(Uri::parse(binding.contact()), Ok(Uri::Sip(uri)) if !is_at_contact(flow, &uri.into()))
        };
        let until = bindings
            .iter()
            .filter(is_behind)
            .map(Binding::expires)
            .max();
        let Some(until) = until.filter(|until| *until > now) else {
            return;
        };
        if !self.keep_alives.keep(policy, now, *flow, until) {
            self.statistics.keep_alives_refused += 1;
        }
    }

    /// Sends what is due, so much at a time.
    pub(super) fn send_keep_alives(&mut self, now: Instant) {
        let KeepAlivePolicy {
            method, interval, ..
        } = self.policy.keep_alive;
        let Some(method) = method else {
            if self.keep_alives.len() > 0 {
                self.keep_alives = KeepAlives::default();
            }
            return;
        };
        if self.keep_alives.rests_until.is_some_and(|rest| rest > now) {
            return;
        }
        for _ in 0..BURST {
            let Some(flow) = self.keep_alives.next(now, interval) else {
                self.keep_alives.rests_until = None;
                return;
            };
            self.statistics.keep_alives_sent += 1;
            match method {
                KeepAliveMethod::LineEnds => self.outgoing.push_back(Transmit {
                    target: Target::Flow(flow),
                    peer: None,
                    payload: LINE_ENDS.into(),
                    call: 0,
                    transaction: None,
                }),
                KeepAliveMethod::Options => self.send_options(now, &flow),
            }
        }
        self.keep_alives.rests_until = Some(now + REST);
    }

    /// Sends an OPTIONS along a flow. Its response is of no interest: that it goes out is enough.
    fn send_options(&mut self, now: Instant, flow: &Flow) {
        let branch = self.transactions.new_branch();
        let uri = format!("sip:{}", flow.remote);
        let Some(side) = self.side_toward(flow) else {
            return;
        };
        let request = Message::request(Method::Options, &uri)
            .with(
                Name::Via,
                format!("SIP/2.0/UDP {};branch={branch};rport", side.source),
            )
            .with(Name::MaxForwards, "1")
            .with(Name::From, format!("<sip:{}>;tag={branch}", side.source))
            .with(Name::To, format!("<{uri}>"))
            .with(Name::CallId, &branch)
            .with(Name::CSeq, "1 OPTIONS");
        self.transactions
            .send_stateless(now, request, Target::Flow(*flow));
    }
}
