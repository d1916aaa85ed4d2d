//! Which destinations can be reached, at one time.

use std::collections::HashSet;
use std::sync::Arc;

use super::config::{AsId, NetworkId, Route, Via};
use super::destinations::{Availability, Routes, best, rated};
use super::point_code_map::PointCodeMap;
use crate::MaskedPointCode;

/// The routes of a process, and what is known of the ways that they take, at one time.
///
/// It costs little to take, however many routes there are, as they are shared with the process until they change. How each
/// destination is reached is worked out when somebody asks.
#[derive(Clone, Debug)]
pub struct Reachability {
    /// By network.
    routes: Vec<Arc<Routes>>,
    /// By SG: whether it can be used at all, and what it has said.
    gateways: Vec<(bool, Arc<PointCodeMap<Availability>>)>,
    /// The application servers that can be used.
    usable: HashSet<AsId>,
}

/// A destination that has routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Destination<'a> {
    /// The point codes.
    pub range: MaskedPointCode,
    /// How it is reached.
    pub availability: Availability,
    /// Its routes, in order of priority.
    pub routes: &'a [Route],
}

impl Reachability {
    pub(crate) fn new(
        routes: impl Iterator<Item = Arc<Routes>>,
        gateways: impl Iterator<Item = (bool, Arc<PointCodeMap<Availability>>)>,
        usable: impl Iterator<Item = AsId>,
    ) -> Reachability {
        Reachability {
            routes: routes.collect(),
            gateways: gateways.collect(),
            usable: usable.collect(),
        }
    }

    /// The destinations of a network, in order.
    pub fn destinations(&self, network: NetworkId) -> Vec<Destination<'_>> {
        let Some(all) = self.routes.get(network.0) else {
            return Vec::new();
        };
        let destinations = all.ranges().into_iter().map(|range| {
            let routes = all.get(range).map(Vec::as_slice).unwrap_or_default();
            Destination {
                range,
                availability: best(routes, |via| self.availability_via(via, range)),
                routes,
            }
        });
        destinations.collect()
    }

    fn availability_via(&self, via: Via, range: MaskedPointCode) -> Availability {
        match via {
            Via::As(server) => match self.usable.contains(&server) {
                true => Availability::Available,
                false => Availability::Unavailable,
            },
            Via::Sg(gateway) => match self.gateways.get(gateway.0) {
                Some((is_usable, status)) => rated(*is_usable, status, range),
                None => Availability::Unavailable,
            },
        }
    }
}
