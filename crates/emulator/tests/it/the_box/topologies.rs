//! The networks of the tests.

use emulator::{End, IpNet, LinkBetween, NetworkConfig};
use link::LinkConfig;

pub(crate) fn end(node: &str, interface: &str, addresses: &[&str]) -> End {
    let addresses = addresses.iter().map(|text| text.parse::<IpNet>().unwrap());
    End::new(node, interface, addresses)
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// A client, a router and a server, as in Pang 2003. What the config says happens between router and
/// server, both ways.
pub(crate) fn routed(config: LinkConfig) -> NetworkConfig {
    let left = LinkBetween::new(
        "left",
        [
            end("client", "eth0", &["10.1.0.2/24", "fd00:1::2/64"]),
            end("router", "left", &["10.1.0.1/24", "fd00:1::1/64"]),
        ],
    );
    let right = LinkBetween::new(
        "right",
        [
            end("router", "right", &["10.2.0.1/24", "fd00:2::1/64"]),
            end("server", "eth0", &["10.2.0.2/24", "fd00:2::2/64"]),
        ],
    );
    NetworkConfig {
        hosts: names(&["client", "server"]),
        routers: names(&["router"]),
        links: vec![left, right.with(config)],
        ..NetworkConfig::default()
    }
}

/// Two hosts with two paths that have nothing in common.
pub(crate) fn multihomed(config: &LinkConfig) -> NetworkConfig {
    let link = |name: &str, ends| LinkBetween::new(name, ends).with(config.clone());
    NetworkConfig {
        hosts: names(&["client", "server"]),
        routers: names(&["upper", "lower"]),
        links: vec![
            link(
                "upper-client",
                [
                    end("client", "eth0", &["10.1.0.2/24"]),
                    end("upper", "client", &["10.1.0.1/24"]),
                ],
            ),
            link(
                "upper-server",
                [
                    end("upper", "server", &["10.2.0.1/24"]),
                    end("server", "eth0", &["10.2.0.2/24"]),
                ],
            ),
            link(
                "lower-client",
                [
                    end("client", "eth1", &["10.3.0.2/24"]),
                    end("lower", "client", &["10.3.0.1/24"]),
                ],
            ),
            link(
                "lower-server",
                [
                    end("lower", "server", &["10.4.0.1/24"]),
                    end("server", "eth1", &["10.4.0.2/24"]),
                ],
            ),
        ],
        ..NetworkConfig::default()
    }
}
