//! Hooks: named points on the way of a message at which a decision can be made by somebody else than the core.
//!
//! At each point the hooks are asked in their order, until one decides. A hook that cannot decide yet [parks](Decision::Park)
//! the message with a query, exactly as the core itself waits for a location store: the query goes out with a number, is
//! bounded in number, octets and time like all others, and the hook is asked again with its answer, which is
//! [`Answer::Failed`] when there is none. With the answer it gets back the [state](ParkedState) that it has left; what is
//! parked ends without being asked again, and the state is dropped, when its request is cancelled, or its branch is not
//! wanted any more.
//!
//! The steps that settings ask for are hooks, too: [`DropLists`], [`StaticRoutes`], and the recursion on 3xx responses of the
//! forwarder.

mod drop_lists;
mod parking;
mod point;
mod static_routes;

use std::fmt;
use std::net::IpAddr;
use std::ops::BitOr;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use sip::Message;

use super::event::Event;
use super::policy::Policy;
use super::query::Query;
use super::routing::Dropped;

pub(crate) use drop_lists::DropLists;
pub use parking::{ParkedState, Resumption};
pub(crate) use parking::{Parking, Resumed};
pub use point::{
    BranchPoint, DialogEndPoint, DropReply, FailurePoint, ForwardTo, NewTargets, Refusal,
    ReplyPoint, RequestAction, RequestPoint, RoutePoint,
};
pub(crate) use static_routes::{StaticRoutes, static_route};

/// Makes decisions at points on the way of a message. A hook is asked at its [`points`](Hook::points) only, and is `resumed`
/// with an answer where it has parked the message for one.
pub trait Hook: fmt::Debug + Send {
    /// Where it wants to be asked.
    fn points(&self) -> Points;

    /// Takes notice of settings, at first and whenever they change.
    fn set_policy(&mut self, _policy: &Arc<Policy>) {}

    /// Takes notice of the time of day.
    fn set_wall_clock(&mut self, _now: Instant, _time: SystemTime) {}

    /// When [`on_timer`](Hook::on_timer) is due next.
    fn next_timeout(&self) -> Option<Instant> {
        None
    }

    /// The next event for the log.
    fn poll_event(&mut self) -> Option<Event> {
        None
    }

    /// Something has come from an address, and nobody has looked at it. Returns whether it is dropped.
    fn on_source(&mut self, _remote: IpAddr) -> Option<Dropped> {
        None
    }

    /// A message has come, and belongs to no transaction yet. Returns whether it is dropped.
    fn on_message(&mut self, _message: &Message) -> Option<Dropped> {
        None
    }

    /// A request has begun a server transaction. It is known where it is for, but not who has sent it.
    fn on_request(
        &mut self,
        _point: &mut RequestPoint<'_>,
        _resumed: Option<Resumption<'_>>,
    ) -> Decision<RequestAction> {
        Decision::Continue
    }

    /// A REGISTER for a domain of ours is to be carried out; it is known who has sent it, where that is asked.
    fn on_register(
        &mut self,
        _point: &mut RequestPoint<'_>,
        _resumed: Option<Resumption<'_>>,
    ) -> Decision<RequestAction> {
        Decision::Continue
    }

    /// A request is to be forwarded. One that is forwarded without state cannot be parked, and goes on.
    fn on_route(
        &mut self,
        _point: &mut RoutePoint<'_>,
        _resumed: Option<Resumption<'_>>,
    ) -> Decision<RequestAction> {
        Decision::Continue
    }

    /// A branch is about to begin. If it is refused it counts as one that has been answered so.
    fn on_branch(
        &mut self,
        _point: &mut BranchPoint<'_>,
        _resumed: Option<Resumption<'_>>,
    ) -> Decision<Refusal> {
        Decision::Continue
    }

    /// A response has come on a branch. Only a provisional one can be dropped.
    fn on_reply(
        &mut self,
        _point: &mut ReplyPoint<'_>,
        _resumed: Option<Resumption<'_>>,
    ) -> Decision<DropReply> {
        Decision::Continue
    }

    /// A next hop has answered with 300 or more, or not at all.
    fn on_failure(
        &mut self,
        _point: &mut FailurePoint<'_>,
        _resumed: Option<Resumption<'_>>,
    ) -> Decision<NewTargets> {
        Decision::Continue
    }

    /// A dialog has ended by a BYE. There is nothing to decide, but something to ask and to note.
    fn on_dialog_end(
        &mut self,
        _point: &DialogEndPoint<'_>,
        _resumed: Option<Resumption<'_>>,
    ) -> Decision<()> {
        Decision::Continue
    }

    /// A timer of the hook's own is due. The one whose turn it is may ask something.
    fn on_timer(&mut self, _now: Instant, _resumed: Option<Resumption<'_>>) -> Decision<()> {
        Decision::Continue
    }
}

/// What a hook decides.
#[derive(Debug)]
pub enum Decision<A> {
    /// Nothing: the next hook is asked, and after the last the core goes on.
    Continue,
    /// This.
    Act(A),
    /// Nothing yet: the answer to this query has to be known. The state is given back with it.
    Park(Query, ParkedState),
}

impl<A> Decision<A> {
    /// Waits for the answer to a query, and keeps nothing.
    pub fn park(query: Query) -> Decision<A> {
        Decision::Park(query, ParkedState::default())
    }
}

/// A set of points.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Points(u16);

impl Points {
    /// [`Hook::on_source`].
    pub const SOURCE: Points = Points(1);
    /// [`Hook::on_message`].
    pub const MESSAGE: Points = Points(1 << 1);
    /// [`Hook::on_request`].
    pub const REQUEST: Points = Points(1 << 2);
    /// [`Hook::on_register`].
    pub const REGISTER: Points = Points(1 << 3);
    /// [`Hook::on_route`].
    pub const ROUTE: Points = Points(1 << 4);
    /// [`Hook::on_branch`].
    pub const BRANCH: Points = Points(1 << 5);
    /// [`Hook::on_reply`].
    pub const REPLY: Points = Points(1 << 6);
    /// [`Hook::on_failure`].
    pub const FAILURE: Points = Points(1 << 7);
    /// [`Hook::on_dialog_end`].
    pub const DIALOG_END: Points = Points(1 << 8);
    /// [`Hook::on_timer`].
    pub const TIMER: Points = Points(1 << 9);

    /// Whether a point of another set is in this one.
    pub fn has(self, other: Points) -> bool {
        self.0 & other.0 != 0
    }
}

impl BitOr for Points {
    type Output = Points;

    fn bitor(self, other: Points) -> Points {
        Points(self.0 | other.0)
    }
}

/// The hooks of a core, in the order in which they are asked.
#[derive(Debug)]
pub(crate) struct Hooks {
    hooks: Vec<Box<dyn Hook>>,
    /// Where any of them wants to be asked.
    points: Points,
}

/// What has come of asking the hooks.
#[derive(Debug)]
pub(crate) enum HookOutcome<A> {
    /// None decides.
    Continue,
    /// One has decided this.
    Act(A),
    /// One has to know the answer to a query first.
    Park(Parking),
}

impl Hooks {
    pub(crate) fn new(hooks: Vec<Box<dyn Hook>>, policy: &Arc<Policy>) -> Hooks {
        let mut hooks = Hooks {
            hooks,
            points: Points::default(),
        };
        hooks.set_policy(policy);
        hooks
    }

    /// Adds a hook behind the others.
    pub(crate) fn add(&mut self, hook: Box<dyn Hook>, policy: &Arc<Policy>) {
        self.hooks.push(hook);
        self.set_policy(policy);
    }

    /// Adds a hook before the others.
    pub(crate) fn add_first(&mut self, hook: Box<dyn Hook>, policy: &Arc<Policy>) {
        self.hooks.insert(0, hook);
        self.set_policy(policy);
    }

    /// Takes notice of the time of day.
    pub(crate) fn set_wall_clock(&mut self, now: Instant, time: SystemTime) {
        for hook in &mut self.hooks {
            hook.set_wall_clock(now, time);
        }
    }

    /// When a timer of theirs is due next.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        self.hooks
            .iter()
            .filter_map(|hook| hook.next_timeout())
            .min()
    }

    /// The next event for the log.
    pub(crate) fn poll_event(&mut self) -> Option<Event> {
        self.hooks.iter_mut().find_map(|hook| hook.poll_event())
    }

    /// Exchanges the settings.
    pub(crate) fn set_policy(&mut self, policy: &Arc<Policy>) {
        self.points = Points::default();
        for hook in &mut self.hooks {
            hook.set_policy(policy);
            self.points = self.points | hook.points();
        }
    }

    /// Whether any hook wants to be asked at a point.
    pub(crate) fn are_at(&self, point: Points) -> bool {
        self.points.has(point)
    }

    /// Whether what has come from an address is dropped.
    pub(crate) fn on_source(&mut self, remote: IpAddr) -> Option<Dropped> {
        if !self.are_at(Points::SOURCE) {
            return None;
        }
        self.hooks
            .iter_mut()
            .find_map(|hook| hook.on_source(remote))
    }

    /// Whether a message is dropped.
    pub(crate) fn on_message(&mut self, message: &Message) -> Option<Dropped> {
        if !self.are_at(Points::MESSAGE) {
            return None;
        }
        self.hooks
            .iter_mut()
            .find_map(|hook| hook.on_message(message))
    }

    /// Asks the hooks at a point, from the first, or from the one that is resumed.
    pub(crate) fn ask<A>(
        &mut self,
        point: Points,
        resumed: Option<Resumed>,
        mut ask: impl FnMut(&mut dyn Hook, Option<Resumption<'_>>) -> Decision<A>,
    ) -> HookOutcome<A> {
        if !self.are_at(point) {
            return HookOutcome::Continue;
        }
        let first = resumed.as_ref().map_or(0, |resumed| resumed.hook);
        let (answer, state) = match resumed {
            Some(resumed) => (Some(resumed.answer), resumed.state),
            None => (None, ParkedState::default()),
        };
        let mut resumption = answer.as_ref().map(|answer| Resumption { answer, state });
        for (place, hook) in self.hooks.iter_mut().enumerate().skip(first) {
            let resumption = resumption.take();
            if !hook.points().has(point) {
                continue;
            }
            match ask(hook.as_mut(), resumption) {
                Decision::Continue => {}
                Decision::Act(action) => return HookOutcome::Act(action),
                Decision::Park(query, state) => {
                    return HookOutcome::Park(Parking {
                        hook: place,
                        query,
                        state,
                    });
                }
            }
        }
        HookOutcome::Continue
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::query::{Answer, Place};

    /// Decides what it is told to, and notes whether it was asked with an answer.
    #[derive(Debug)]
    struct Scripted(Points, fn() -> Decision<RequestAction>);

    impl Hook for Scripted {
        fn points(&self) -> Points {
            self.0
        }

        fn on_request(
            &mut self,
            _: &mut RequestPoint<'_>,
            _: Option<Resumption<'_>>,
        ) -> Decision<RequestAction> {
            (self.1)()
        }
    }

    fn refusal(status: u16) -> Decision<RequestAction> {
        Decision::Act(RequestAction::Refuse(Refusal::new(status, "No")))
    }

    fn query() -> Query {
        Query::Page {
            from: Place(1),
            limit: 1,
        }
    }

    fn asked(hooks: &mut Hooks, resumed: Option<Resumed>) -> (String, Vec<bool>) {
        let mut request = Message::request(sip::Method::Invite, "sip:bob@example.com");
        let remote = "192.0.2.1:5060".parse().expect("an address");
        let flow = sip::Flow {
            transport: sip::Transport::Udp,
            local: remote,
            remote,
            connection: sip::ConnectionId(0),
            stream: 0,
        };
        let mut is_retargeted = false;
        let mut point = RequestPoint {
            request: &mut request,
            arrival: &flow,
            user: None,
            now: Instant::now(),
            is_retargeted: &mut is_retargeted,
        };
        let mut answers = Vec::new();
        let asked = hooks.ask(Points::REQUEST, resumed, |hook, answer| {
            answers.push(answer.is_some());
            hook.on_request(&mut point, answer)
        });
        let asked = match asked {
            HookOutcome::Continue => "continue".to_owned(),
            HookOutcome::Act(RequestAction::Refuse(refusal)) => refusal.status.to_string(),
            HookOutcome::Act(other) => format!("{other:?}"),
            HookOutcome::Park(parking) => format!("parked by {}", parking.hook),
        };
        (asked, answers)
    }

    fn hooks(scripted: Vec<Scripted>) -> Hooks {
        let boxed = |hook| Box::new(hook) as Box<dyn Hook>;
        let hooks = scripted.into_iter().map(boxed).collect();
        Hooks::new(hooks, &Arc::default())
    }

    #[test]
    fn the_first_to_decide_decides_and_only_those_at_the_point_are_asked() {
        let mut none = hooks(vec![Scripted(Points::ROUTE, || refusal(401))]);
        assert_eq!(asked(&mut none, None), ("continue".to_owned(), vec![]));
        let mut three = hooks(vec![
            Scripted(Points::REQUEST | Points::ROUTE, || Decision::Continue),
            Scripted(Points::ROUTE, || refusal(401)),
            Scripted(Points::REQUEST, || refusal(403)),
            Scripted(Points::REQUEST, || refusal(404)),
        ]);
        assert_eq!(asked(&mut three, None), ("403".to_owned(), vec![false; 2]));
    }

    #[test]
    fn one_that_has_parked_is_asked_again_with_the_answer_and_then_those_behind_it() {
        let mut hooks = hooks(vec![
            Scripted(Points::REQUEST, || Decision::Continue),
            Scripted(Points::REQUEST, || Decision::park(query())),
            Scripted(Points::REQUEST, || Decision::Continue),
        ]);
        let parked = "parked by 1".to_owned();
        assert_eq!(asked(&mut hooks, None), (parked.clone(), vec![false; 2]));
        let resumed = |hook| {
            Some(Resumed {
                hook,
                answer: Answer::Failed,
                state: ParkedState::default(),
            })
        };
        assert_eq!(asked(&mut hooks, resumed(1)), (parked, vec![true]));
        let (asked, answers) = asked(&mut hooks, resumed(0));
        assert_eq!(
            (asked.as_str(), answers),
            ("parked by 1", vec![true, false])
        );
    }
}
