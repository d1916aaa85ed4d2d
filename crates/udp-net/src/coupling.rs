//! Puts datagrams next to each other that may pass the kernel as one: those of one length to one destination.

use std::net::SocketAddr;

/// How many calls' messages are told apart. Calls that share a place count as one, which only keeps an order that
/// need not be kept.
const PLACES: usize = 1024;

/// How many of the last trains are looked at for one that a datagram may join.
const LOOKED_AT: usize = 24;

/// Orders datagrams: each joins the datagrams of its socket, length and destination, where none of its own call
/// is left behind by that. So messages of a call leave in the order in which they were written.
#[derive(Debug)]
pub struct Coupling {
    trains: Vec<Train>,
    /// By datagram: the next one of its train.
    next: Vec<u32>,
    /// By call: one more than the place of the last train that has a message of it.
    last: Box<[u16; PLACES]>,
    order: Vec<u32>,
}

/// A datagram that is to be ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coupled {
    /// By which socket it leaves.
    pub socket: u32,
    /// What its call has for itself among others: a number, or a hash of its name.
    pub call: u32,
    /// How many octets it has.
    pub length: usize,
    /// Where it goes.
    pub destination: SocketAddr,
}

#[derive(Clone, Copy, Debug)]
struct Train {
    socket: u32,
    length: usize,
    destination: SocketAddr,
    first: u32,
    last: u32,
}

/// No datagram.
const NONE: u32 = u32::MAX;

impl Coupling {
    /// Nothing is ordered yet.
    pub fn new() -> Coupling {
        Coupling {
            trains: Vec::new(),
            next: Vec::new(),
            last: Box::new([0; PLACES]),
            order: Vec::new(),
        }
    }

    /// The places of datagrams in the order in which they are to leave, those of one socket together.
    pub fn order(&mut self, datagrams: impl Iterator<Item = Coupled>) -> &[u32] {
        self.trains.clear();
        self.next.clear();
        self.order.clear();
        self.last.fill(0);
        for datagram in datagrams {
            self.add(&datagram);
        }
        // Messages of a call leave by one socket: which of two sockets comes first is all the same.
        self.trains.sort_by_key(|train| train.socket);
        for train in &self.trains {
            let mut at = train.first;
            while let Some(next) = self.next.get(at as usize) {
                self.order.push(at);
                at = *next;
            }
        }
        &self.order
    }

    fn add(&mut self, datagram: &Coupled) {
        let number = self.next.len() as u32;
        self.next.push(NONE);
        let place = datagram.call as usize % PLACES;
        let earliest = usize::from(self.last[place]).saturating_sub(1);
        let earliest = earliest.max(self.trains.len().saturating_sub(LOOKED_AT));
        let open = self.trains.get_mut(earliest..).unwrap_or_default();
        let found = open.iter_mut().enumerate().find(|(_, train)| {
            train.length == datagram.length
                && train.socket == datagram.socket
                && train.destination == datagram.destination
        });
        let train = match found {
            Some((ahead, train)) => {
                if let Some(next) = self.next.get_mut(train.last as usize) {
                    *next = number;
                }
                train.last = number;
                earliest + ahead
            }
            None => {
                self.trains.push(Train {
                    socket: datagram.socket,
                    length: datagram.length,
                    destination: datagram.destination,
                    first: number,
                    last: number,
                });
                self.trains.len() - 1
            }
        };
        self.last[place] = u16::try_from(train + 1).unwrap_or(u16::MAX);
    }
}

impl Default for Coupling {
    fn default() -> Coupling {
        Coupling::new()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn order(datagrams: &[(u32, u32, usize)]) -> Vec<u32> {
        let coupled = datagrams.iter().map(|(socket, call, length)| Coupled {
            socket: *socket,
            call: *call,
            length: *length,
            destination: SocketAddr::from(([127, 0, 0, 1], 5060)),
        });
        Coupling::new().order(coupled).to_vec()
    }

    #[test]
    fn answers_of_several_calls_are_sorted_by_what_they_are() {
        // 180 and 200 of three calls.
        let calls = [
            (0, 1, 300),
            (0, 1, 500),
            (0, 2, 300),
            (0, 2, 500),
            (0, 3, 300),
            (0, 3, 500),
        ];
        assert_eq!(order(&calls), [0, 2, 4, 1, 3, 5]);
    }

    #[test]
    fn a_call_keeps_its_order_where_others_would_have_another() {
        // A 200 that is repeated, and then 180 and 200 of another call.
        assert_eq!(order(&[(0, 1, 500), (0, 2, 300), (0, 2, 500)]), [0, 1, 2]);
        // What follows may join any of them.
        let five = [
            (0, 1, 500),
            (0, 2, 300),
            (0, 2, 500),
            (0, 3, 300),
            (0, 4, 500),
        ];
        assert_eq!(order(&five), [0, 4, 1, 3, 2]);
    }

    #[test]
    fn sockets_are_not_mixed() {
        let two = [(1, 1, 300), (0, 2, 300), (1, 3, 300), (0, 4, 300)];
        assert_eq!(order(&two), [1, 3, 0, 2]);
    }

    proptest! {
        /// Every datagram leaves once, those of a call in their order.
        #[test]
        fn nothing_is_lost_and_no_call_disordered(
            datagrams in prop::collection::vec((0..3_u32, 0..40_u32, 1..6_usize), 0..256),
        ) {
            // A call has one socket.
            let datagrams: Vec<_> = datagrams
                .into_iter()
                .map(|(_, call, length)| (call % 3, call, length))
                .collect();
            let order = order(&datagrams);
            let mut sorted = order.clone();
            sorted.sort_unstable();
            prop_assert!(sorted.iter().copied().eq(0..datagrams.len() as u32));
            for call in 0..40 {
                let own: Vec<_> = order
                    .iter()
                    .filter(|at| datagrams[**at as usize].1 == call)
                    .collect();
                prop_assert!(own.is_sorted());
            }
        }
    }
}
