//! Names of hosts in rules.

use std::net::IpAddr;

use testbed::control::Description;

use crate::usage::refused;

/// The pairs of source and destination that a rule is for. A name of a host or router stands for all its
/// addresses; pairs of different versions of IP are left out.
pub(super) fn pairs(
    description: &Description,
    source: &str,
    destination: &str,
) -> anyhow::Result<Vec<(String, String)>> {
    let sources = addresses(description, source)?;
    let destinations = addresses(description, destination)?;
    let mut pairs = Vec::new();
    for source in &sources {
        for destination in &destinations {
            let versions = [version(source), version(destination)];
            if matches!(versions, [Some(one), Some(other)] if one != other) {
                continue;
            }
            pairs.push((source.clone(), destination.clone()));
        }
    }
    anyhow::ensure!(
        !pairs.is_empty(),
        refused(format!(
            "{source} and {destination} have no addresses of the same version of IP"
        ))
    );
    Ok(pairs)
}

/// The addresses that a text stands for: itself, or those of the node of that name.
fn addresses(description: &Description, text: &str) -> anyhow::Result<Vec<String>> {
    if let Some(node) = description.nodes.iter().find(|node| node.name == text) {
        let interfaces = node.interfaces.iter();
        let addresses = interfaces.flat_map(|interface| &interface.addresses);
        return Ok(addresses
            .filter_map(|address| Some(address.split_once('/')?.0.to_owned()))
            .collect());
    }
    match testbed::network(text) {
        Ok(_) => Ok(vec![text.to_owned()]),
        Err(error) => {
            let nodes: Vec<&str> = description.nodes.iter().map(|n| n.name.as_str()).collect();
            anyhow::bail!(refused(format!(
                "{error}, or the name of a node: {}",
                nodes.join(", ")
            )))
        }
    }
}

/// Whether an address or network is of IPv6; `None` when it is any.
fn version(text: &str) -> Option<bool> {
    let address = text.split_once('/').map_or(text, |(address, _)| address);
    address.parse::<IpAddr>().ok().map(|ip| ip.is_ipv6())
}

#[cfg(test)]
mod tests {
    use super::*;
    use testbed::control::{InterfaceDescription, NodeDescription};

    fn description() -> Description {
        let node = |name: &str, addresses: &[&str]| NodeDescription {
            name: name.to_owned(),
            kind: "host".to_owned(),
            interfaces: vec![InterfaceDescription {
                name: "eth0".to_owned(),
                link: "link".to_owned(),
                addresses: addresses.iter().map(|one| (*one).to_owned()).collect(),
            }],
            namespace: None,
        };
        Description {
            name: "net".to_owned(),
            id: String::new(),
            description: String::new(),
            process: 1,
            seed: 1,
            nodes: vec![
                node("client", &["10.1.0.2/24", "fd00:1::2/64"]),
                node("server", &["10.2.0.2/24", "fd00:2::2/64"]),
            ],
            links: Vec::new(),
        }
    }

    #[test]
    fn names_stand_for_addresses_of_one_version_each() {
        let pairs = pairs(&description(), "client", "server").unwrap();
        let expected = [("10.1.0.2", "10.2.0.2"), ("fd00:1::2", "fd00:2::2")];
        let expected = expected.map(|(one, other)| (one.to_owned(), other.to_owned()));
        assert_eq!(pairs, expected);
    }

    #[test]
    fn addresses_networks_and_any_stand_for_themselves() {
        let description = description();
        let pairs = |source, destination| pairs(&description, source, destination);
        assert_eq!(pairs("any", "10.2.0.0/16").unwrap().len(), 1);
        assert_eq!(pairs("any", "server").unwrap().len(), 2);
        assert!(pairs("10.1.0.2", "fd00:2::2").is_err());
        let error = pairs("nobody", "any").unwrap_err().to_string();
        assert!(error.contains("client, server"), "{error}");
    }
}
