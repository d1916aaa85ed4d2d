//! Networks, as operators write them.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// An IP address or a network: `192.0.2.1`, `192.0.2.0/24`, `2001:db8::/32`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AddressRange {
    network: IpAddr,
    /// How many leading bits are the network's.
    bits: u8,
}

/// A text that is no address and no network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "\"{0}\" is not a network: an address such as 192.0.2.1, or ADDRESS/BITS such as 192.0.2.0/24"
)]
pub struct AddressRangeError(String);

impl AddressRange {
    /// Whether an address is in the network. An IPv4 address that an IPv6 socket shows mapped into
    /// IPv6 is the IPv4 address that it is.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.network, address.to_canonical()) {
            (IpAddr::V4(network), IpAddr::V4(address)) => same_bits(
                u128::from(network.to_bits()) << 96,
                u128::from(address.to_bits()) << 96,
                self.bits,
            ),
            (IpAddr::V6(network), IpAddr::V6(address)) => {
                same_bits(network.to_bits(), address.to_bits(), self.bits)
            }
            _ => false,
        }
    }
}

impl From<IpAddr> for AddressRange {
    fn from(address: IpAddr) -> AddressRange {
        AddressRange {
            network: address,
            bits: width(address),
        }
    }
}

impl fmt::Display for AddressRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.network)?;
        if self.bits < width(self.network) {
            write!(f, "/{}", self.bits)?;
        }
        Ok(())
    }
}

impl FromStr for AddressRange {
    type Err = AddressRangeError;

    fn from_str(text: &str) -> Result<AddressRange, AddressRangeError> {
        let error = || AddressRangeError(text.to_owned());
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let network: IpAddr = address.parse().map_err(|_| error())?;
        let bits = match bits {
            Some(bits) => bits.parse().map_err(|_| error())?,
            None => width(network),
        };
        if bits > width(network) {
            return Err(error());
        }
        Ok(AddressRange { network, bits })
    }
}

fn width(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// Whether the first bits of two numbers are the same.
fn same_bits(one: u128, other: u128, bits: u8) -> bool {
    (one ^ other)
        .checked_shr(128 - u32::from(bits))
        .is_none_or(|difference| difference == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_contains_its_addresses_and_no_others() {
        for (range, address, expected) in [
            ("192.0.2.0/24", "192.0.2.255", true),
            ("192.0.2.0/24", "192.0.3.0", false),
            ("192.0.2.77/24", "192.0.2.1", true),
            ("192.0.2.1", "192.0.2.1", true),
            ("192.0.2.1", "192.0.2.2", false),
            ("192.0.2.1", "::ffff:192.0.2.1", true),
            ("0.0.0.0/0", "203.0.113.9", true),
            ("0.0.0.0/0", "2001:db8::1", false),
            ("2001:db8::/32", "2001:db8:ffff::1", true),
            ("2001:db8::/32", "2001:db9::1", false),
            ("2001:db8::1", "2001:db8::1", true),
            ("::/0", "2001:db8::1", true),
        ] {
            let parsed: AddressRange = range.parse().expect("a range");
            let address = address.parse().expect("an address");
            assert_eq!(parsed.contains(address), expected, "{range} {address}");
        }
    }

    #[test]
    fn what_is_no_network_is_refused_and_what_is_is_written_again() {
        for text in [
            "",
            "192.0.2.0/33",
            "192.0.2/24",
            "::/129",
            "example.com",
            "1.2.3.4/",
        ] {
            assert!(text.parse::<AddressRange>().is_err(), "{text}");
        }
        for text in ["192.0.2.0/24", "192.0.2.1", "2001:db8::/32", "::1", "::/0"] {
            let range: AddressRange = text.parse().expect("a range");
            assert_eq!(range.to_string(), text);
        }
    }
}
