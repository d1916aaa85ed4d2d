//! The targets that may be tested: this host, private networks, and hosts whose owner has agreed.
#![forbid(unsafe_code)]

use std::net::{IpAddr, Ipv6Addr};

/// The target may not be tested. The message says how to state that its owner has agreed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{name} is neither loopback nor in a private network; a test without consent is an attack: add --i-may-test \
     {host} if its owner has agreed"
)]
pub struct NotAllowed {
    name: String,
    host: String,
}

/// Refuses addresses that are neither loopback nor private, unless the person who started the test said
/// that this host may be tested: `allowed` holds names and addresses as they were given.
///
/// # Errors
///
/// When `address`, to which `host` resolved, may not be tested.
pub fn check(host: &str, address: IpAddr, allowed: &[String]) -> Result<(), NotAllowed> {
    let is_allowed = allowed.iter().any(|allowed| {
        allowed.eq_ignore_ascii_case(host)
            || allowed
                .parse::<IpAddr>()
                .is_ok_and(|allowed| allowed == address)
    });
    if is_allowed || is_ours(address) {
        return Ok(());
    }
    let name = match host.parse::<IpAddr>() {
        Ok(_) => host.to_owned(),
        Err(_) => format!("{host} ({address})"),
    };
    Err(NotAllowed {
        name,
        host: host.to_owned(),
    })
}

/// Loopback, private (RFC 1918, RFC 4193) and link-local addresses.
fn is_ours(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => {
            address.is_loopback() || address.is_private() || address.is_link_local()
        }
        IpAddr::V6(address) => match address.to_ipv4_mapped() {
            Some(mapped) => is_ours(mapped.into()),
            None => {
                address.is_loopback()
                    || address.is_unicast_link_local()
                    || is_unique_local(&address)
            }
        },
    }
}

fn is_unique_local(address: &Ipv6Addr) -> bool {
    address.segments()[0] & 0xfe00 == 0xfc00
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(host: &str, allowed: &[&str]) -> bool {
        let allowed: Vec<String> = allowed.iter().map(|host| (*host).to_owned()).collect();
        check(host, host.parse().unwrap(), &allowed).is_ok()
    }

    #[test]
    fn loopback_and_private_networks_need_no_permission() {
        for ours in [
            "127.0.0.1",
            "127.9.9.9",
            "::1",
            "10.1.2.3",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.1.1",
            "fe80::1",
            "fd00::1",
            "::ffff:10.0.0.1",
        ] {
            assert!(allowed(ours, &[]), "{ours}");
        }
        for theirs in [
            "192.0.2.1",
            "8.8.8.8",
            "172.32.0.1",
            "100.64.0.1",
            "0.0.0.0",
            "224.0.0.1",
            "255.255.255.255",
            "2001:db8::1",
            "::ffff:8.8.8.8",
        ] {
            assert!(!allowed(theirs, &[]), "{theirs}");
        }
    }

    #[test]
    fn permission_is_for_one_host() {
        assert!(allowed("192.0.2.1", &["192.0.2.1"]));
        assert!(!allowed("192.0.2.2", &["192.0.2.1"]));
        let address = "192.0.2.1".parse().unwrap();
        assert!(check("peer.example", address, &["peer.example".into()]).is_ok());
        // Names are the same whatever their case (RFC 4343).
        assert!(check("Peer.example", address, &["peer.EXAMPLE".into()]).is_ok());
        let error = check("peer.example", address, &[]).unwrap_err().to_string();
        assert!(error.contains("peer.example (192.0.2.1)"), "{error}");
        assert!(error.contains("--i-may-test peer.example"), "{error}");
    }
}
