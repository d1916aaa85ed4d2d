//! What the system knows of its network interfaces.

use std::fs;
use std::net::IpAddr;

use serde::Serialize;

/// A network interface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its speed, where the system knows one; loopback and most virtual interfaces have none.
    pub bits_per_second: Option<u64>,
    /// The largest IP packet that it carries, octets.
    pub mtu: u64,
}

/// The MTU where nobody tells: Ethernet's.
const ETHERNET_MTU: u64 = 1_500;

impl Interface {
    /// The interface of a name, as the system describes it.
    ///
    /// # Errors
    ///
    /// When there is none.
    pub fn named(name: &str) -> Result<Interface, String> {
        let is_name =
            !name.is_empty() && !name.contains(['/', '\0']) && name != "." && name != "..";
        let directory = format!("/sys/class/net/{name}");
        if !is_name || fs::metadata(&directory).is_err() {
            return Err(format!(
                "there is no interface \"{name}\" (ip link lists them)"
            ));
        }
        let number = |file: &str| {
            let text = fs::read_to_string(format!("{directory}/{file}")).ok()?;
            text.trim().parse::<i64>().ok()
        };
        // Mbit/s; −1 stands for unknown, and so does an error.
        let megabits = number("speed").and_then(|speed| u64::try_from(speed).ok());
        Ok(Interface {
            name: name.to_owned(),
            bits_per_second: megabits
                .filter(|megabits| *megabits > 0)
                .and_then(|megabits| megabits.checked_mul(1_000_000)),
            mtu: number("mtu")
                .and_then(|mtu| u64::try_from(mtu).ok())
                .unwrap_or(ETHERNET_MTU),
        })
    }

    /// The interface through which packets to an address leave; `None` when there is no route.
    pub fn towards(address: IpAddr) -> Option<Interface> {
        let local = udp_net::local_address_towards(address).ok()?;
        let interfaces = if_addrs::get_if_addrs().ok()?;
        let found = interfaces.into_iter().find(|one| one.ip() == local)?;
        Interface::named(&found.name).ok()
    }

    /// All interfaces that are up and have an address, each once.
    pub fn all() -> Vec<Interface> {
        let mut names: Vec<String> = if_addrs::get_if_addrs()
            .unwrap_or_default()
            .into_iter()
            .map(|one| one.name)
            .collect();
        names.sort();
        names.dedup();
        names
            .iter()
            .filter_map(|name| Interface::named(name).ok())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_there_and_has_no_speed() {
        let loopback = Interface::named("lo").unwrap();
        assert_eq!(loopback.bits_per_second, None);
        assert!(loopback.mtu > 1500);
        assert_eq!(
            Interface::towards("127.0.0.1".parse().unwrap()),
            Some(loopback)
        );
    }

    #[test]
    fn names_do_not_lead_elsewhere() {
        for wrong in ["", ".", "..", "../../kernel", "no-such-interface"] {
            assert!(Interface::named(wrong).is_err(), "{wrong}");
        }
    }
}
