//! Sending past the errors of datagrams sent earlier.

use std::io;

/// How often a datagram is given to the kernel that meets errors of others.
const MAX_TRIES: usize = 32;

/// How often in a row before it is the route that says so: for each of them a report would have had to come in the moment
/// between two calls.
const MAX_TRIES_OF_A_ROUTE: usize = 8;

/// What became of a send call.
#[derive(Debug)]
pub(crate) enum Tried<T> {
    /// What the kernel says to it.
    Done(io::Result<T>),
    /// Nothing: it has met errors of others again and again.
    Lost,
}

/// Sends by a socket that [hears of errors](crate::hear_network_errors). Each report of the network that quotes a
/// datagram of the socket, whoever that was for, becomes the error of the next call, which then does nothing else
/// (`sk_err` of the kernel; taking a report from the queue makes the one behind it the next call's error). It says nothing
/// of what is being sent.
pub(crate) fn send_past_errors<T>(mut send: impl FnMut() -> io::Result<T>) -> Tried<T> {
    let mut tries_of_route = 0;
    for tried in 1..=MAX_TRIES {
        let error = match send() {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => error,
            result => return Tried::Done(result),
        };
        match origin(&error) {
            Origin::Network => tries_of_route = 0,
            Origin::NetworkOrRoute if tries_of_route + 1 < MAX_TRIES_OF_A_ROUTE => {
                tries_of_route += 1;
            }
            Origin::NetworkOrRoute => return Tried::Done(Err(error)),
            Origin::Any if tried == 1 => {}
            Origin::Any => return Tried::Done(Err(error)),
        }
    }
    Tried::Lost
}

/// Who may have said what a send call has failed with.
enum Origin {
    /// The network, of a datagram sent earlier: no send call of an unconnected socket fails so by itself.
    Network,
    /// The network, or this host's own routes.
    NetworkOrRoute,
    /// Anybody. Among them is what is too large for the path: each such call leaves a report of its own, so that it is not
    /// made more often than needed.
    Any,
}

/// As the kernel translates ICMP (icmp(7); `icmp_err_convert` and `icmpv6_err_convert` of Linux).
fn origin(error: &io::Error) -> Origin {
    match error.raw_os_error() {
        Some(
            libc::ECONNREFUSED
            | libc::EHOSTDOWN
            | libc::ENONET
            | libc::ENOPROTOOPT
            | libc::EOPNOTSUPP
            | libc::EPROTO,
        ) => Origin::Network,
        Some(libc::ENETUNREACH | libc::EHOSTUNREACH | libc::EACCES) => Origin::NetworkOrRoute,
        _ => Origin::Any,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends by a socket that says these errors one after the other, and then takes everything. Tells how often it was asked.
    fn send(errors: &[i32]) -> (usize, Tried<()>) {
        let mut calls = 0;
        let tried = send_past_errors(|| {
            calls += 1;
            match errors.get(calls - 1) {
                Some(&errno) => Err(io::Error::from_raw_os_error(errno)),
                None => Ok(()),
            }
        });
        (calls, tried)
    }

    #[test]
    fn errors_of_others_are_not_taken_for_its_own() {
        let refused = libc::ECONNREFUSED;
        for errors in [
            &[][..],
            &[refused],
            &[libc::EMSGSIZE],
            &[refused, refused, libc::EPROTO, refused],
            &[libc::EHOSTUNREACH; MAX_TRIES_OF_A_ROUTE - 1],
            &[refused; MAX_TRIES - 1],
        ] {
            let (calls, tried) = send(errors);
            assert!(matches!(tried, Tried::Done(Ok(()))), "{errors:?} {tried:?}");
            assert_eq!(calls, errors.len() + 1);
        }
        let (calls, tried) = send(&[refused; 100]);
        assert!(matches!(tried, Tried::Lost), "{tried:?}");
        assert_eq!(calls, MAX_TRIES);
    }

    #[test]
    fn its_own_errors_are_told() {
        for (errno, tries) in [
            (libc::EAGAIN, 1),
            (libc::EMSGSIZE, 2),
            (libc::EINVAL, 2),
            (libc::EPERM, 2),
            (libc::ENETUNREACH, MAX_TRIES_OF_A_ROUTE),
            (libc::EHOSTUNREACH, MAX_TRIES_OF_A_ROUTE),
        ] {
            let (calls, tried) = send(&[errno; 100]);
            let Tried::Done(Err(error)) = tried else {
                panic!("{errno} {tried:?}");
            };
            assert_eq!((error.raw_os_error(), calls), (Some(errno), tries));
        }
        // After those of others, too.
        let (_, tried) = send(&[[libc::ECONNREFUSED; 4], [libc::EINVAL; 4]].concat());
        assert!(matches!(tried, Tried::Done(Err(_))), "{tried:?}");
    }
}
