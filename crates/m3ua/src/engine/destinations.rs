//! Where destinations are reached, and whether they are: routes, what SGs say of them, and what the user was told last
//! (sections 1.3.2.5 and 4.5.2).

use std::collections::{BTreeSet, HashMap};

use super::config::{PeerId, Route, Via};
use super::point_code_map::PointCodeMap;
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

/// The destinations of a network.
#[derive(Debug, Default)]
pub(crate) struct Destinations {
    /// In order of priority.
    routes: PointCodeMap<Vec<Route>>,
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
    /// What it has said of destinations. What is not here is available.
    pub(crate) status: PointCodeMap<Availability>,
    /// Congestion levels that it has told.
    pub(crate) congestion: PointCodeMap<u8>,
}

impl Gateway {
    /// What it says of a destination, if it can be used at all.
    pub(crate) fn availability(&self, range: MaskedPointCode) -> Availability {
        match self.active.is_empty() {
            true => Availability::Unavailable,
            false => self
                .status
                .covering(range)
                .copied()
                .unwrap_or(Availability::Available),
        }
    }

    /// Takes what it says. The smallest range that has a destination is always the latest that was said of it, as a larger
    /// one replaces those inside.
    pub(crate) fn set(&mut self, range: MaskedPointCode, availability: Availability, max: usize) {
        for inside in self.status.inside(range) {
            self.status.remove(inside);
        }
        let otherwise = self
            .status
            .covering(range)
            .copied()
            .unwrap_or(Availability::Available);
        if otherwise != availability && self.status.len() < max {
            self.status.insert(range, availability);
        }
    }
}

impl Destinations {
    pub(crate) fn add_route(&mut self, route: Route) {
        self.by_via
            .entry(route.via)
            .or_default()
            .insert(route.destination);
        let existing = self.routes.get_mut(route.destination);
        match existing {
            None => self.routes.insert(route.destination, vec![route]),
            Some(routes) if routes.contains(&route) => {}
            Some(routes) => {
                let position = routes.partition_point(|it| it.priority <= route.priority);
                routes.insert(position, route);
            }
        }
    }

    pub(crate) fn remove_route(&mut self, route: Route) {
        let Some(routes) = self.routes.get_mut(route.destination) else {
            return;
        };
        routes.retain(|it| *it != route);
        if !routes.iter().any(|it| it.via == route.via)
            && let Some(destinations) = self.by_via.get_mut(&route.via)
        {
            destinations.remove(&route.destination);
        }
        if routes.is_empty() {
            self.routes.remove(route.destination);
        }
    }

    /// The routes of the smallest range that has this one, in order of priority.
    pub(crate) fn routes(&self, range: MaskedPointCode) -> &[Route] {
        self.routes
            .covering(range)
            .map(Vec::as_slice)
            .unwrap_or_default()
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

    /// Takes what the network behind us says, as [`Gateway::set`] does.
    pub(crate) fn declare(
        &mut self,
        range: MaskedPointCode,
        max: usize,
        change: impl Fn(&mut Declared),
    ) {
        let mut declared = self.declared.covering(range).copied().unwrap_or_default();
        change(&mut declared);
        for inside in self.declared.inside(range) {
            self.declared.remove(inside);
        }
        if self.declared.len() < max {
            self.declared.insert(range, declared);
        }
    }
}
