//! Puts datagrams next to each other that may pass the kernel as one: those of one length to one destination.

use std::net::SocketAddr;

use udp_net::Piece;

/// How many runs' messages are told apart. Runs that share a place count as one, which only keeps an order that
/// need not be kept.
const PLACES: usize = 1024;

/// How many of the last trains are looked at for one that a datagram may join.
const LOOKED_AT: usize = 24;

/// Orders datagrams: each joins the datagrams of its socket, length and destination, where none of its own call
/// is left behind by that. So messages of a call leave in the order in which they were written.
#[derive(Debug)]
pub(super) struct Coupling {
    trains: Vec<Train>,
    /// By datagram: the next one of its train.
    next: Vec<u32>,
    /// By run: one more than the place of the last train that has a message of it.
    last: Box<[u16; PLACES]>,
    order: Vec<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Train {
    token: u32,
    length: usize,
    destination: SocketAddr,
    first: u32,
    last: u32,
}

/// No datagram.
const NONE: u32 = u32::MAX;

impl Coupling {
    pub(super) fn new() -> Coupling {
        Coupling {
            trains: Vec::new(),
            next: Vec::new(),
            last: Box::new([0; PLACES]),
            order: Vec::new(),
        }
    }

    /// The places of datagrams in the order in which they are to leave, those of one socket together. `datagrams`
    /// gives the socket, the run and the piece of each.
    pub(super) fn order<'a>(
        &mut self,
        datagrams: impl Iterator<Item = (u32, u32, &'a Piece)>,
    ) -> &[u32] {
        self.trains.clear();
        self.next.clear();
        self.order.clear();
        self.last.fill(0);
        for (token, run, piece) in datagrams {
            self.add(token, run, piece);
        }
        // Messages of a call leave by one socket: which of two sockets comes first is all the same.
        self.trains.sort_by_key(|train| train.token);
        for train in &self.trains {
            let mut at = train.first;
            while let Some(next) = self.next.get(at as usize) {
                self.order.push(at);
                at = *next;
            }
        }
        &self.order
    }

    fn add(&mut self, token: u32, run: u32, piece: &Piece) {
        let number = self.next.len() as u32;
        self.next.push(NONE);
        let place = run as usize % PLACES;
        let earliest = usize::from(self.last[place]).saturating_sub(1);
        let earliest = earliest.max(self.trains.len().saturating_sub(LOOKED_AT));
        let open = self.trains.get_mut(earliest..).unwrap_or_default();
        let found = open.iter_mut().enumerate().find(|(_, train)| {
            train.length == piece.length
                && train.token == token
                && train.destination == piece.destination
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
                    token,
                    length: piece.length,
                    destination: piece.destination,
                    first: number,
                    last: number,
                });
                self.trains.len() - 1
            }
        };
        self.last[place] = u16::try_from(train + 1).unwrap_or(u16::MAX);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn piece(length: usize) -> Piece {
        Piece {
            start: 0,
            length,
            destination: SocketAddr::from(([127, 0, 0, 1], 5060)),
        }
    }

    fn order(datagrams: &[(u32, u32, usize)]) -> Vec<u32> {
        let pieces: Vec<Piece> = datagrams
            .iter()
            .map(|(.., length)| piece(*length))
            .collect();
        let told = datagrams.iter().zip(&pieces);
        let told = told.map(|((token, run, _), piece)| (*token, *run, piece));
        Coupling::new().order(told).to_vec()
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
        /// Every datagram leaves once, those of a run in their order.
        #[test]
        fn nothing_is_lost_and_no_call_disordered(
            datagrams in prop::collection::vec((0..3_u32, 0..40_u32, 1..6_usize), 0..256),
        ) {
            // A run has one socket.
            let datagrams: Vec<_> = datagrams
                .into_iter()
                .map(|(_, run, length)| (run % 3, run, length))
                .collect();
            let order = order(&datagrams);
            let mut sorted = order.clone();
            sorted.sort_unstable();
            prop_assert!(sorted.iter().copied().eq(0..datagrams.len() as u32));
            for run in 0..40 {
                let own: Vec<_> = order
                    .iter()
                    .filter(|at| datagrams[**at as usize].1 == run)
                    .collect();
                prop_assert!(own.is_sorted());
            }
        }
    }
}
