//! The paths of SCTP associations: which have failed, and which work again (RFC 9260 section 8.2).

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use sip_net::{PathState, SctpAssociation, Transports};
use tokio::sync::mpsc;

use crate::event::PhoneEvent;

/// From one look to the next.
const INTERVAL: Duration = Duration::from_millis(500);
/// Associations that are looked at.
const MAX_ASSOCIATIONS: usize = 64;
/// Events that wait.
const MAX_EVENTS: usize = 64;

/// Watches the paths of all associations; the events end with the transports.
pub(crate) fn watch(transports: Transports) -> mpsc::Receiver<PhoneEvent> {
    let (tell, events) = mpsc::channel(MAX_EVENTS);
    tokio::spawn(async move {
        let mut paths = Paths::default();
        let mut ticks = tokio::time::interval(INTERVAL);
        while !tell.is_closed() {
            ticks.tick().await;
            let seen = transports.sctp_associations(MAX_ASSOCIATIONS).await;
            for event in paths.changes(&seen) {
                if tell.send(event).await.is_err() {
                    return;
                }
            }
        }
    });
    events
}

/// Whether each path worked when it was looked at last: by the peer's first address, and by both addresses of the path.
#[derive(Debug, Default)]
struct Paths(BTreeMap<(SocketAddr, Option<IpAddr>, IpAddr), bool>);

impl Paths {
    fn changes(&mut self, associations: &[SctpAssociation]) -> Vec<PhoneEvent> {
        let mut now = BTreeMap::new();
        let mut events = Vec::new();
        for association in associations {
            for path in &association.status.paths {
                let works = match path.state {
                    PathState::Active => true,
                    PathState::Inactive | PathState::PotentiallyFailed => false,
                    PathState::Unconfirmed => continue,
                };
                let (local, remote) = (path.address.local, path.address.remote);
                let key = (association.remote, local, remote);
                if self.0.get(&key).is_none_or(|before| *before) != works {
                    events.push(PhoneEvent::Path {
                        peer: association.remote.to_string(),
                        address: remote.to_string(),
                        works,
                    });
                }
                now.insert(key, works);
            }
        }
        // What was told of them does not hold any more.
        let gone = self
            .0
            .iter()
            .filter(|(path, works)| !**works && !now.contains_key(*path));
        events.extend(gone.map(|((peer, _, address), _)| PhoneEvent::PathRemoved {
            peer: peer.to_string(),
            address: address.to_string(),
        }));
        self.0 = now;
        events
    }
}
