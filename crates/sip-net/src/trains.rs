//! Datagrams that leave together and go to this host pass the kernel in trains.

use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use udp_net::{Coupled, Coupling, Datagram, Taps};

use crate::connections::Outgoing;

/// Puts datagrams next to each other that may pass the kernel as one: those of one length to one loopback address, where
/// nobody listens to the packets of that interface.
#[derive(Debug)]
pub(crate) struct Trains(Mutex<State>);

#[derive(Debug)]
struct State {
    taps: Taps,
    coupling: Coupling,
    /// Of a train that does not arrive the network tells once, and quotes one message. So there are none for a while.
    not_before: Option<Instant>,
}

/// For how long there are no trains when something has not arrived: as long as transactions repeat requests that got no
/// answer (Timers B and F, RFC 3261 section 17).
const ALONE: Duration = Duration::from_secs(32);

impl Trains {
    /// For a socket of the network namespace that this thread is in.
    pub(crate) fn new() -> Trains {
        Trains(Mutex::new(State {
            taps: Taps::here(),
            coupling: Coupling::new(),
            not_before: None,
        }))
    }

    /// Orders datagrams, those of a call as they were. `false`, and nothing has changed, where they are to go one by one.
    pub(crate) fn couple(
        &self,
        datagrams: &mut Vec<Datagram>,
        outgoing: &mut Vec<Outgoing>,
    ) -> bool {
        let to_loopback = datagrams
            .iter()
            .filter(|datagram| datagram.destination.ip().is_loopback());
        if to_loopback.count() < 2 {
            return false;
        }
        // Another one sends by this socket: that is not worth waiting for.
        let Ok(mut state) = self.0.try_lock() else {
            return false;
        };
        let State {
            taps,
            coupling,
            not_before,
        } = &mut *state;
        let now = Instant::now();
        if not_before.is_some_and(|time| now < time) || taps.are_there(now) {
            return false;
        }
        let all = datagrams.iter().zip(&*outgoing);
        let order = coupling.order(all.map(|(datagram, outgoing)| Coupled {
            socket: 0,
            call: outgoing.call,
            length: datagram.payload.len(),
            destination: datagram.destination,
        }));
        put_in_order(order, datagrams);
        put_in_order(order, outgoing);
        true
    }

    /// Takes notice that a datagram to this address has not arrived. What went elsewhere was in no train.
    pub(crate) fn note_undelivered(&self, destination: SocketAddr) {
        if !destination.ip().is_loopback() {
            return;
        }
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.not_before = Some(Instant::now() + ALONE);
    }
}

/// Puts items in an order, which has each place once.
fn put_in_order<T>(order: &[u32], items: &mut Vec<T>) {
    let mut taken: Vec<Option<T>> = items.drain(..).map(Some).collect();
    let ordered = order
        .iter()
        .filter_map(|place| taken.get_mut(*place as usize)?.take());
    items.extend(ordered);
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    /// Datagrams of these calls and contents to an address.
    fn both(destination: &str, all: &[(u32, &'static str)]) -> (Vec<Datagram>, Vec<Outgoing>) {
        let datagram = |(_, content): &(u32, &'static str)| Datagram {
            destination: destination.parse().expect("an address"),
            source_ip: None,
            payload: Bytes::from_static(content.as_bytes()),
        };
        let outgoing = |(call, _): &(u32, &'static str)| Outgoing {
            payload: Bytes::new(),
            stream: 0,
            call: *call,
            transaction: None,
            fallback: None,
            reserved: None,
            is_last_resort: false,
        };
        (
            all.iter().map(datagram).collect(),
            all.iter().map(outgoing).collect(),
        )
    }

    const ALL: [(u32, &str); 5] = [
        (1, "ringing"),
        (1, "ok"),
        (2, "ringing"),
        (2, "ok"),
        (3, "ok"),
    ];

    /// No packet socket is looked for.
    fn trains() -> Trains {
        let trains = Trains::new();
        trains.0.lock().expect("the only one").taps = Taps::nowhere();
        trains
    }

    #[test]
    fn what_is_alike_comes_together_and_calls_keep_their_order() {
        let (mut datagrams, mut outgoing) = both("127.0.0.1:5060", &ALL);
        assert!(trains().couple(&mut datagrams, &mut outgoing));
        let order: Vec<(u32, &[u8])> = outgoing
            .iter()
            .zip(&datagrams)
            .map(|(outgoing, datagram)| (outgoing.call, &*datagram.payload))
            .collect();
        let expected: [(u32, &[u8]); 5] = [
            (1, b"ringing"),
            (2, b"ringing"),
            (1, b"ok"),
            (2, b"ok"),
            (3, b"ok"),
        ];
        assert_eq!(order, expected);
    }

    #[test]
    fn what_goes_to_other_hosts_stays_as_it_is() {
        let (mut datagrams, mut outgoing) = both("192.0.2.1:5060", &ALL);
        let before = datagrams.clone();
        assert!(!trains().couple(&mut datagrams, &mut outgoing));
        assert_eq!(datagrams, before);
    }

    #[test]
    fn there_are_no_trains_where_something_has_not_arrived() {
        let (mut datagrams, mut outgoing) = both("127.0.0.1:5060", &ALL);
        let trains = trains();
        // Users whose NAT or telephone is gone are there all the time.
        trains.note_undelivered(SocketAddr::from(([192, 0, 2, 1], 5060)));
        assert!(trains.couple(&mut datagrams, &mut outgoing));
        trains.note_undelivered(SocketAddr::from(([127, 0, 0, 1], 5060)));
        assert!(!trains.couple(&mut datagrams, &mut outgoing));
    }
}
