//! Trains: datagrams of one length to one destination that pass the kernel as one (`UDP_SEGMENT`).

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};

/// A datagram that may be part of a train.
pub(crate) trait Car {
    /// Where it goes.
    fn destination(&self) -> SocketAddr;

    /// The local address that it shall come from.
    fn source_ip(&self) -> Option<IpAddr>;

    /// How many octets it has.
    fn octets(&self) -> usize;
}

/// The longest datagrams that go in trains at first: what an Ethernet frame holds behind the headers of IPv6 and
/// UDP. What has to be fragmented cannot go in one.
pub(crate) const LONGEST_IN_TRAIN: usize = 1_500 - 40 - 8;

/// How many datagrams a train has at most (`UDP_MAX_SEGMENTS` of linux/udp.h, where it is least), and how many
/// octets.
const TRAIN: usize = 64;
const TRAIN_OCTETS: usize = 64_000;

/// How many of the first datagrams go in one train, of those that are at most so long: as many as are as long as the
/// first one, and a shorter one behind them. There are no trains but to loopback addresses: virtual devices, too, would
/// pass them on in one piece to whoever listens.
pub(crate) fn train<C: Car>(cars: &[C], longest: usize) -> usize {
    let Some(first) = cars.first() else {
        return 0;
    };
    let (length, destination) = (first.octets(), first.destination());
    if length == 0 || length > longest || !destination.ip().is_loopback() {
        return 1;
    }
    let most = (TRAIN_OCTETS / length).min(TRAIN);
    let mut count = 1;
    for car in cars.iter().take(most).skip(1) {
        let is_alike = car.destination() == destination && car.source_ip() == first.source_ip();
        if !is_alike || car.octets() > length || car.octets() == 0 {
            break;
        }
        count += 1;
        if car.octets() < length {
            break;
        }
    }
    count
}

/// The longest datagrams that a socket sends in trains, as far as that is known.
#[derive(Debug)]
pub(crate) struct LongestInTrain(AtomicUsize);

impl LongestInTrain {
    /// Of a socket that sends in trains, or in none.
    pub(crate) fn new(has_trains: bool) -> LongestInTrain {
        LongestInTrain(AtomicUsize::new(match has_trains {
            true => LONGEST_IN_TRAIN,
            false => 0,
        }))
    }

    /// In octets; 0 where there are no trains.
    pub(crate) fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// Sends by `send`, which is told the longest, and again in shorter trains or none where the kernel refuses a train.
    /// These stay where it takes the first datagram alone: else it is not the train that was refused, but an address that
    /// is not ours any more, or a destination that cannot be.
    pub(crate) fn send<C: Car>(
        &self,
        cars: &[C],
        mut send: impl FnMut(usize) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let longest = self.get();
        let error = match send(longest) {
            Ok(sent) => return Ok(sent),
            Err(error) => error,
        };
        // What a path does not take in trains it may take one by one.
        let first = cars.first().map_or(0, Car::octets);
        let shorter = match error.raw_os_error() {
            Some(libc::EINVAL | libc::EMSGSIZE) => first.saturating_sub(1),
            Some(libc::EIO | libc::ENOPROTOOPT) => 0,
            _ => return Err(error),
        };
        if train(cars, longest) < 2 {
            return Err(error);
        }
        let sent = send(shorter)?;
        self.0.fetch_min(shorter, Ordering::Relaxed);
        Ok(sent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Plain(usize, u16);

    impl Car for Plain {
        fn destination(&self) -> SocketAddr {
            SocketAddr::from(([127, 0, 0, 1], self.1))
        }

        fn source_ip(&self) -> Option<IpAddr> {
            None
        }

        fn octets(&self) -> usize {
            self.0
        }
    }

    #[test]
    fn what_is_refused_in_a_train_is_sent_without() {
        let cars = [Plain(300, 1), Plain(300, 1)];
        let refused_with = |errno| {
            let longest = LongestInTrain::new(true);
            let mut tried = Vec::new();
            let sent = longest.send(&cars, |longest| {
                tried.push(longest);
                match train(&cars, longest) {
                    1 => Ok(1),
                    _ => Err(io::Error::from_raw_os_error(errno)),
                }
            });
            (sent.ok(), tried)
        };
        assert_eq!(
            refused_with(libc::EMSGSIZE),
            (Some(1), vec![LONGEST_IN_TRAIN, 299])
        );
        assert_eq!(
            refused_with(libc::EIO),
            (Some(1), vec![LONGEST_IN_TRAIN, 0])
        );
        assert_eq!(refused_with(libc::EPERM), (None, vec![LONGEST_IN_TRAIN]));
    }

    #[test]
    fn what_is_refused_alone_is_an_error() {
        let longest = LongestInTrain::new(true);
        for cars in [&[Plain(300, 1)][..], &[Plain(300, 1), Plain(300, 1)]] {
            for errno in [libc::EINVAL, libc::EMSGSIZE, libc::EIO] {
                let mut tried = 0;
                let refused = longest.send(cars, |_| {
                    tried += 1;
                    Err(io::Error::from_raw_os_error(errno))
                });
                assert!(refused.is_err());
                assert_eq!((tried, longest.get()), (cars.len(), LONGEST_IN_TRAIN));
            }
        }
    }
}
