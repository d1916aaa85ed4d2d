//! Where destinations are reached, and whether they are: routes, what SGs say of them, and what the user was told last
//! (sections 1.3.2.5 and 4.5.2).

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::config::{AsId, PeerId, Route, Via};
use super::point_code_map::{PointCodeMap, canonical};
use super::sls_shares::SlsShares;
use crate::MaskedPointCode;

/// Whether a destination can be reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Availability {
    /// No.
    #[default]
    Unavailable,
    /// Yes, though another way would be better.
    Restricted,
    /// Yes.
    Available,
}

impl Availability {
    /// Whether messages can be sent there.
    pub fn is_reachable(self) -> bool {
        self != Availability::Unavailable
    }
}

/// The routes of a network, those to one destination in order of priority.
pub(crate) type Routes = PointCodeMap<Vec<Route>>;

/// The destinations of a network.
#[derive(Debug, Default)]
pub(crate) struct Destinations {
    /// Shared with those who have asked for them, until they change.
    pub(crate) routes: Arc<Routes>,
    /// The destinations in the routing keys of application servers that we alone serve, which have no routes.
    own: PointCodeMap<MaskedPointCode>,
    /// The destinations that have a route this way.
    by_via: HashMap<Via, BTreeSet<MaskedPointCode>>,
    /// What the network behind us says, at an SGP.
    pub(crate) declared: PointCodeMap<Declared>,
    /// What the user knows. What is not here is unavailable.
    pub(crate) reported: PointCodeMap<Availability>,
}

/// What the network behind an SGP says of a destination.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Declared {
    pub(crate) availability: Availability,
    /// The congestion level, if it is known.
    pub(crate) congestion: Option<u8>,
}

/// An SG as we see it.
#[derive(Debug, Default)]
pub(crate) struct Gateway {
    /// The SGPs at which we are active.
    pub(crate) active: Vec<PeerId>,
    /// They by SLS.
    pub(crate) by_sls: SlsShares,
    /// What it has said of destinations. What is not here is available. Shared as routes are.
    pub(crate) status: Arc<PointCodeMap<Availability>>,
    /// Congestion levels that it has told.
    pub(crate) congestion: PointCodeMap<u8>,
}

impl Gateway {
    /// What it says of a destination, if it can be used at all.
    pub(crate) fn availability(&self, range: MaskedPointCode) -> Availability {
        rated(!self.active.is_empty(), &self.status, range)
    }

    /// Takes what it says. The smallest range that has a destination is always the latest that was said of it, as a larger
    /// one replaces those inside.
    /// False when there is no room for it.
    pub(crate) fn set(
        &mut self,
        range: MaskedPointCode,
        availability: Availability,
        max: usize,
    ) -> bool {
        for inside in self.status.inside(range) {
            Arc::make_mut(&mut self.status).remove(inside);
        }
        let otherwise = self
            .status
            .covering(range)
            .copied()
            .unwrap_or(Availability::Available);
        if otherwise == availability {
            return true;
        }
        let has_room = self.status.len() < max;
        if has_room {
            Arc::make_mut(&mut self.status).insert(range, availability);
        }
        has_room
    }
}

/// What an SG says of a destination, given whether it can be used at all, and what it has said.
pub(crate) fn rated(
    is_usable: bool,
    status: &PointCodeMap<Availability>,
    range: MaskedPointCode,
) -> Availability {
    match is_usable {
        false => Availability::Unavailable,
        true => status
            .covering(range)
            .copied()
            .unwrap_or(Availability::Available),
    }
}

/// A destination is reached as well as by the best of its routes.
pub(crate) fn best(routes: &[Route], rate: impl Fn(Via) -> Availability) -> Availability {
    let rated = routes.iter().map(|route| rate(route.via));
    rated.max().unwrap_or_default()
}

impl Destinations {
    /// A destination of our own.
    pub(crate) fn add_own(&mut self, destination: MaskedPointCode) {
        self.own.insert(destination, destination);
    }

    /// The smallest range of the configuration that has this one: of a key of ours, or of a route that `is_configured`.
    pub(crate) fn configured(
        &self,
        destination: MaskedPointCode,
        is_configured: impl Fn(Via) -> bool,
    ) -> Option<MaskedPointCode> {
        let mut routes = self.routes.all_covering(destination).flatten();
        let route = routes.find(|route| is_configured(route.via));
        let own = self.own.covering(destination).copied();
        let ranges = own.into_iter().chain(route.map(|it| it.destination));
        let smallest = ranges.min_by_key(|range| range.wildcards());
        smallest.map(canonical)
    }

    pub(crate) fn add_route(&mut self, route: Route) {
        self.by_via
            .entry(route.via)
            .or_default()
            .insert(route.destination);
        let all = Arc::make_mut(&mut self.routes);
        match all.get_mut(route.destination) {
            None => all.insert(route.destination, vec![route]),
            Some(routes) if routes.contains(&route) => {}
            Some(routes) => {
                let position = routes.partition_point(|it| it.priority <= route.priority);
                routes.insert(position, route);
            }
        }
    }

    pub(crate) fn remove_route(&mut self, route: Route) {
        let all = Arc::make_mut(&mut self.routes);
        let Some(routes) = all.get_mut(route.destination) else {
            return;
        };
        routes.retain(|it| *it != route);
        if !routes.iter().any(|it| it.via == route.via)
            && let Some(destinations) = self.by_via.get_mut(&route.via)
        {
            destinations.remove(&route.destination);
        }
        if routes.is_empty() {
            all.remove(route.destination);
        }
    }

    /// The routes of the smallest range that has this one, in order of priority.
    pub(crate) fn routes(&self, range: MaskedPointCode) -> &[Route] {
        self.routes
            .covering(range)
            .map(Vec::as_slice)
            .unwrap_or_default()
    }

    /// The application servers whose routes have all of this range.
    pub(crate) fn servers_of(&self, range: MaskedPointCode) -> impl Iterator<Item = AsId> {
        let routes = self.routes.all_covering(range).flatten();
        routes.filter_map(|route| match route.via {
            Via::As(server) => Some(server),
            Via::Sg(_) => None,
        })
    }

    /// The destinations of all routes.
    pub(crate) fn all(&self) -> Vec<MaskedPointCode> {
        self.routes.ranges()
    }

    /// The destinations of routes inside a range.
    pub(crate) fn routes_inside(&self, range: MaskedPointCode) -> Vec<MaskedPointCode> {
        self.routes.inside(range)
    }

    /// The destinations that have a route this way.
    pub(crate) fn reached_by(&self, via: Via) -> impl Iterator<Item = MaskedPointCode> {
        self.by_via.get(&via).into_iter().flatten().copied()
    }

    /// Destinations that the network behind us says are congested.
    pub(crate) fn congested(&self) -> usize {
        let congested = |it: &&Declared| it.congestion.is_some_and(|level| level > 0);
        self.declared.values().filter(congested).count()
    }

    /// Takes what the network behind us says, as [`Gateway::set`] does.
    pub(crate) fn declare(
        &mut self,
        range: MaskedPointCode,
        max: usize,
        change: impl Fn(&mut Declared),
    ) -> bool {
        let mut declared = self.declared.covering(range).copied().unwrap_or_default();
        change(&mut declared);
        for inside in self.declared.inside(range) {
            self.declared.remove(inside);
        }
        let has_room = self.declared.len() < max;
        if has_room {
            self.declared.insert(range, declared);
        }
        has_room
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PointCode;

    fn range(mask: u8, value: u32) -> MaskedPointCode {
        MaskedPointCode {
            mask,
            point_code: PointCode::new(value).expect("24 bits"),
        }
    }

    /// A registration is compared with those that share its destination, not with all.
    #[test]
    fn few_application_servers_have_a_destination() {
        let mut destinations = Destinations::default();
        let all = (0..10_000).map(|number| (range(0, number), Via::As(AsId(number as usize))));
        let larger = [
            (range(3, 40), Via::As(AsId(10_000))),
            (range(24, 0), Via::Sg(crate::SgId(0))),
        ];
        for (destination, via) in all.chain(larger) {
            destinations.add_route(Route {
                destination,
                via,
                priority: 0,
            });
        }
        let of = |value| -> Vec<AsId> { destinations.servers_of(range(0, value)).collect() };
        assert_eq!(of(41), [AsId(41), AsId(10_000)]);
        assert_eq!(of(9_999), [AsId(9_999)]);
        assert_eq!(of(10_000), []);
    }
}
