//! The addresses of this host and the domains that follow from them.

use std::io;
use std::net::IpAddr;

use sip_net::Listen;

use crate::HostPort;
use crate::core::Domain;

/// The addresses that the listeners take messages on: their own, and for a wildcard every address of
/// the host in its family.
pub(super) fn local_addresses(listeners: &[Listen]) -> io::Result<Vec<IpAddr>> {
    let mut addresses = Vec::new();
    let mut add = |address: IpAddr| {
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    };
    for listener in listeners {
        let own = listener.address.ip();
        if !own.is_unspecified() {
            add(own);
            continue;
        }
        for interface in if_addrs::get_if_addrs()? {
            let address = interface.ip();
            if address.is_ipv4() == own.is_ipv4() {
                add(address);
            }
        }
    }
    Ok(addresses)
}

/// The domain of a server that was told none: the addresses, what is advertised, and `localhost`.
pub(super) fn default_domain(addresses: &[IpAddr], advertise: Option<&HostPort>) -> Vec<Domain> {
    let localhost = HostPort {
        host: "localhost".to_owned(),
        port: None,
    };
    let mut names = advertise
        .map(|advertise| HostPort {
            host: advertise.host.clone(),
            port: None,
        })
        .into_iter()
        .chain(addresses.iter().map(|address| HostPort::from(*address)))
        .chain([localhost]);
    let name = names.next();
    name.map(|name| Domain {
        name,
        aliases: names.collect(),
    })
    .into_iter()
    .collect()
}

/// Domains of their own.
pub(super) fn separate_domains(names: Vec<HostPort>) -> Vec<Domain> {
    names
        .into_iter()
        .map(|name| Domain {
            name,
            aliases: Vec::new(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listen(text: &str) -> Listen {
        text.parse().expect("a listener")
    }

    #[test]
    fn a_listener_on_one_address_is_known_by_it_and_as_localhost() {
        let addresses =
            local_addresses(&[listen("udp:127.0.0.1:5060"), listen("tcp:127.0.0.1:5060")])
                .expect("addresses");
        let domains = default_domain(&addresses, None);
        let names: Vec<String> = domains
            .iter()
            .flat_map(|domain| std::iter::once(&domain.name).chain(&domain.aliases))
            .map(ToString::to_string)
            .collect();
        assert_eq!(names, ["127.0.0.1", "localhost"]);
        assert_eq!(domains.len(), 1);
    }

    #[test]
    fn a_wildcard_listener_is_known_by_every_address_of_its_family() {
        let addresses = local_addresses(&[listen("udp:0.0.0.0:5060")]).expect("addresses");
        assert!(
            addresses.contains(&IpAddr::from([127, 0, 0, 1])),
            "{addresses:?}"
        );
        assert!(addresses.iter().all(IpAddr::is_ipv4), "{addresses:?}");
    }
}
