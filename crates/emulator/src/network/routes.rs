//! Routes: the longest prefix decides.

use std::net::IpAddr;

use ipnet::IpNet;

/// A table from networks to what stands for them.
#[derive(Clone, Debug)]
pub(super) struct Routes<T> {
    v4: Vec<OfLength<T>>,
    v6: Vec<OfLength<T>>,
}

/// All prefixes of one length.
#[derive(Clone, Debug)]
struct OfLength<T> {
    length: u8,
    /// The bits of the network, in ascending order.
    networks: Vec<(u128, T)>,
}

impl<T> Default for Routes<T> {
    fn default() -> Routes<T> {
        Routes {
            v4: Vec::new(),
            v6: Vec::new(),
        }
    }
}

impl<T: Copy> Routes<T> {
    /// Adds a route unless there is one to that very network.
    pub(super) fn insert(&mut self, network: IpNet, target: T) {
        let key = key(network.network());
        let length = network.prefix_len();
        let table = match network {
            IpNet::V4(_) => &mut self.v4,
            IpNet::V6(_) => &mut self.v6,
        };
        // Long prefixes first.
        let at = table.partition_point(|one| one.length > length);
        if table.get(at).is_none_or(|one| one.length != length) {
            let networks = Vec::new();
            table.insert(at, OfLength { length, networks });
        }
        let networks = &mut table[at].networks;
        if let Err(at) = networks.binary_search_by_key(&key, |(network, _)| *network) {
            networks.insert(at, (key, target));
        }
    }

    /// Where packets for an address go.
    pub(super) fn find(&self, address: IpAddr) -> Option<T> {
        let (table, width) = match address {
            IpAddr::V4(_) => (&self.v4, 32),
            IpAddr::V6(_) => (&self.v6, 128),
        };
        let address = key(address);
        table.iter().find_map(|one| {
            let shift = u32::from(width - one.length);
            let network = address
                .checked_shr(shift)
                .and_then(|bits| bits.checked_shl(shift))
                .unwrap_or(0);
            let found = one
                .networks
                .binary_search_by_key(&network, |(network, _)| *network);
            found.ok().map(|at| one.networks[at].1)
        })
    }
}

fn key(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_bits().into(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(networks: &[&str]) -> Routes<usize> {
        let mut routes = Routes::default();
        for (target, network) in networks.iter().enumerate() {
            routes.insert(network.parse().unwrap(), target);
        }
        routes
    }

    #[test]
    fn the_longest_prefix_decides_whatever_the_order() {
        let networks = ["10.0.0.0/8", "0.0.0.0/0", "10.1.2.3/32", "10.1.0.0/16"];
        let routes = table(&networks);
        let find = |address: &str| routes.find(address.parse().unwrap());
        assert_eq!(find("10.1.2.3"), Some(2));
        assert_eq!(find("10.1.2.4"), Some(3));
        assert_eq!(find("10.2.2.4"), Some(0));
        assert_eq!(find("192.0.2.1"), Some(1));
        assert_eq!(find("::1"), None);
    }

    #[test]
    fn versions_of_ip_are_apart() {
        let routes = table(&["::/0", "2001:db8::/32", "2001:db8::1/128"]);
        let find = |address: &str| routes.find(address.parse().unwrap());
        assert_eq!(find("10.0.0.1"), None);
        assert_eq!(find("2001:db8::1"), Some(2));
        assert_eq!(find("2001:db8::2"), Some(1));
        assert_eq!(find("::"), Some(0));
    }

    #[test]
    fn the_first_of_two_routes_to_a_network_stays() {
        let routes = table(&["10.0.0.1/24", "10.0.0.2/24"]);
        assert_eq!(routes.find("10.0.0.9".parse().unwrap()), Some(0));
    }
}
