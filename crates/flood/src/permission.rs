//! What may be flooded: this host's loopback, and hosts of a testbed.

use namespace::Mark;
use std::net::IpAddr;

/// A target that is not flooded.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "{0} is neither on loopback nor is this a host of a testbed: floods are limited to loopback and networks of \
     `tandem net up` (tandem net exec HOST -- tandem flood …)"
)]
pub struct Refused(pub IpAddr);

/// Refuses a target that is neither on loopback nor reached from a host of a testbed, whose namespace
/// leads nowhere but to other hosts of the testbed.
///
/// # Errors
///
/// When it is refused.
pub fn check_target(target: IpAddr) -> Result<(), Refused> {
    check(target, Mark::is_here())
}

fn check(target: IpAddr, is_testbed: bool) -> Result<(), Refused> {
    let is_loopback = match target {
        IpAddr::V4(address) => address.is_loopback(),
        IpAddr::V6(address) => match address.to_ipv4_mapped() {
            Some(mapped) => mapped.is_loopback(),
            None => address.is_loopback(),
        },
    };
    let is_host = !target.is_multicast()
        && !target.is_unspecified()
        && target != IpAddr::from([255, 255, 255, 255]);
    if is_loopback || is_testbed && is_host {
        Ok(())
    } else {
        Err(Refused(target))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn loopback_may_be_flooded_and_nothing_else_outside_of_a_testbed() {
        for allowed in ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"] {
            assert!(check(allowed.parse().unwrap(), false).is_ok(), "{allowed}");
        }
        for refused in [
            "10.0.0.1",
            "192.168.1.1",
            "8.8.8.8",
            "0.0.0.0",
            "255.255.255.255",
            "224.0.0.1",
            "::",
            "fe80::1",
            "fd00::1",
            "2001:db8::1",
            "::ffff:10.0.0.1",
        ] {
            let address = refused.parse().unwrap();
            assert_eq!(check(address, false), Err(Refused(address)), "{refused}");
        }
        assert!(check("10.0.0.1".parse().unwrap(), true).is_ok());
        for refused in ["224.0.0.1", "0.0.0.0", "ff02::1", "255.255.255.255"] {
            assert!(check(refused.parse().unwrap(), true).is_err(), "{refused}");
        }
    }

    proptest! {
        #[test]
        fn no_address_but_loopback_is_flooded_from_an_ordinary_host(bits: u32) {
            let address = IpAddr::V4(bits.into());
            prop_assert_eq!(check(address, false).is_ok(), bits >> 24 == 127);
        }
    }
}
