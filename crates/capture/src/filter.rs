//! Which packets to look into: the expressions of tcpdump that people use for SIP.

use std::net::IpAddr;
use std::str::FromStr;

use etherparse::{IpNumber, ip_number};

/// Chooses packets by their addresses, ports and protocol, in the words of tcpdump: `host`, `net`, `port`,
/// `portrange`, with `src` or `dst` before them, `udp`, `tcp`, `sctp`, `ip`, `ip6`, and `and`, `or`, `not`,
/// and parentheses. As there, `and` and `or` bind alike, from left to right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter(Expression);

/// Why a text is no filter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct FilterError(String);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Expression {
    All(Vec<Expression>),
    Any(Vec<Expression>),
    Not(Box<Expression>),
    Protocol(IpNumber),
    Version(IpVersion),
    Network(Qualifier, Network),
    /// The first and the last port.
    Ports(Qualifier, u16, u16),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum IpVersion {
    Four,
    Six,
}

/// The direction qualifier of pcap-filter(7): `src`, `dst`, or neither.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Qualifier {
    Source,
    Destination,
    Either,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Network {
    address: IpAddr,
    /// Leading bits that matter.
    bits: u8,
}

/// What a filter looks at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Addressed {
    pub(crate) protocol: IpNumber,
    pub(crate) addresses: [IpAddr; 2],
    /// Of UDP, TCP or SCTP; `None` of others.
    pub(crate) ports: Option<[u16; 2]>,
}

impl Filter {
    /// Whether a packet is wanted.
    pub(crate) fn matches(&self, packet: &Addressed) -> bool {
        self.0.matches(packet)
    }
}

impl Expression {
    fn matches(&self, packet: &Addressed) -> bool {
        match self {
            Expression::All(all) => all.iter().all(|one| one.matches(packet)),
            Expression::Any(any) => any.iter().any(|one| one.matches(packet)),
            Expression::Not(one) => !one.matches(packet),
            Expression::Protocol(protocol) => packet.protocol == *protocol,
            Expression::Version(version) => {
                packet.addresses[0].is_ipv4() == (*version == IpVersion::Four)
            }
            Expression::Network(qualifier, network) => {
                qualifier.any(packet.addresses, |address| network.contains(address))
            }
            Expression::Ports(qualifier, first, last) => packet
                .ports
                .is_some_and(|ports| qualifier.any(ports, |port| (*first..=*last).contains(&port))),
        }
    }
}

impl Qualifier {
    fn any<T>(self, [source, destination]: [T; 2], is_wanted: impl Fn(T) -> bool) -> bool {
        match self {
            Qualifier::Source => is_wanted(source),
            Qualifier::Destination => is_wanted(destination),
            Qualifier::Either => is_wanted(source) || is_wanted(destination),
        }
    }
}

impl Network {
    fn contains(&self, address: IpAddr) -> bool {
        let bits = |address: IpAddr| match address {
            IpAddr::V4(address) => (u128::from(address.to_bits()) << 96, 32),
            IpAddr::V6(address) => (address.to_bits(), 128),
        };
        let ((ours, width), (theirs, their_width)) = (bits(self.address), bits(address));
        let shift = 128 - u32::from(self.bits);
        width == their_width && (ours ^ theirs).checked_shr(shift).unwrap_or(0) == 0
    }
}

impl FromStr for Filter {
    type Err = FilterError;

    fn from_str(text: &str) -> Result<Filter, FilterError> {
        let spaced = text
            .replace('(', " ( ")
            .replace(')', " ) ")
            .replace('!', " ! ");
        let mut words = Words {
            words: spaced.split_whitespace().collect(),
            at: 0,
        };
        if words.words.len() > Words::MOST {
            return Err(FilterError("a filter is too long".to_owned()));
        }
        let expression = words.expression(0)?;
        match words.next() {
            None => Ok(Filter(expression)),
            Some(word) => Err(FilterError(format!(
                "{word:?} does not continue a filter: use and, or"
            ))),
        }
    }
}

/// The words of a filter, and how many have been read.
struct Words<'t> {
    words: Vec<&'t str>,
    at: usize,
}

impl<'t> Words<'t> {
    /// Words in all: each may put what is before it a level deeper.
    const MOST: usize = 1000;
    /// Parentheses and negations within each other.
    const DEEPEST: usize = 50;

    fn next(&mut self) -> Option<&'t str> {
        let word = self.words.get(self.at).copied();
        self.at += usize::from(word.is_some());
        word
    }

    /// Takes the next word if it is one of these.
    fn take(&mut self, words: &[&str]) -> Option<&'t str> {
        let next = self.words.get(self.at).copied()?;
        let is_one = words.iter().any(|word| word.eq_ignore_ascii_case(next));
        self.at += usize::from(is_one);
        is_one.then_some(next)
    }

    fn expression(&mut self, depth: usize) -> Result<Expression, FilterError> {
        let mut left = self.term(depth)?;
        loop {
            if self.take(&["and", "&&"]).is_some() {
                let right = self.term(depth)?;
                left = match left {
                    Expression::All(mut all) => {
                        all.push(right);
                        Expression::All(all)
                    }
                    other => Expression::All(vec![other, right]),
                };
            } else if self.take(&["or", "||"]).is_some() {
                let right = self.term(depth)?;
                left = match left {
                    Expression::Any(mut any) => {
                        any.push(right);
                        Expression::Any(any)
                    }
                    other => Expression::Any(vec![other, right]),
                };
            } else {
                return Ok(left);
            }
        }
    }

    fn term(&mut self, depth: usize) -> Result<Expression, FilterError> {
        if depth > Self::DEEPEST {
            return Err(FilterError("too many parentheses".to_owned()));
        }
        if self.take(&["not", "!"]).is_some() {
            return Ok(Expression::Not(Box::new(self.term(depth + 1)?)));
        }
        if self.take(&["("]).is_some() {
            let inner = self.expression(depth + 1)?;
            return match self.take(&[")"]) {
                Some(_) => Ok(inner),
                None => Err(FilterError("a parenthesis is not closed".to_owned())),
            };
        }
        match self.take(&["udp", "tcp", "sctp", "ip", "ip6"]) {
            Some(protocol) => {
                let protocol = match protocol.to_ascii_lowercase().as_str() {
                    "udp" => Expression::Protocol(ip_number::UDP),
                    "tcp" => Expression::Protocol(ip_number::TCP),
                    "sctp" => Expression::Protocol(ip_number::SCTP),
                    "ip" => Expression::Version(IpVersion::Four),
                    _ => Expression::Version(IpVersion::Six),
                };
                // `udp port 5060` is both.
                let goes_on = self.words.get(self.at).is_some_and(|next| {
                    let words = ["src", "dst", "host", "net", "port", "portrange"];
                    words.iter().any(|word| word.eq_ignore_ascii_case(next))
                });
                match goes_on {
                    true => Ok(Expression::All(vec![protocol, self.end()?])),
                    false => Ok(protocol),
                }
            }
            None => self.end(),
        }
    }

    /// What is said of one end: `src port 5060`.
    fn end(&mut self) -> Result<Expression, FilterError> {
        let qualifier = match self.take(&["src", "dst"]) {
            Some(word) if word.eq_ignore_ascii_case("src") => Qualifier::Source,
            Some(_) => Qualifier::Destination,
            None => Qualifier::Either,
        };
        let kind = self.take(&["host", "net", "port", "portrange"]);
        let Some(value) = self.next() else {
            return Err(FilterError(match kind {
                Some(kind) => format!("{kind} needs a value after it"),
                None => "a filter is missing: host ADDRESS, port NUMBER, udp, …".to_owned(),
            }));
        };
        let kind = kind.map(str::to_ascii_lowercase);
        match kind.as_deref() {
            Some("port") => {
                let port = port(value)?;
                Ok(Expression::Ports(qualifier, port, port))
            }
            Some("portrange") => match value.split_once('-') {
                Some((first, last)) => Ok(Expression::Ports(qualifier, port(first)?, port(last)?)),
                None => Err(FilterError(format!(
                    "{value:?} is not a range such as 5060-5080"
                ))),
            },
            Some("net") => Ok(Expression::Network(qualifier, network(value)?)),
            Some(_) => Ok(Expression::Network(qualifier, host(value)?)),
            None => match host(value) {
                Ok(host) => Ok(Expression::Network(qualifier, host)),
                Err(_) => Err(FilterError(format!(
                    "{value:?} is none of host, net, port, portrange, udp, tcp, sctp, ip, ip6"
                ))),
            },
        }
    }
}

fn port(value: &str) -> Result<u16, FilterError> {
    match value {
        "sip" => Ok(5060),
        "sips" => Ok(5061),
        number => number
            .parse()
            .map_err(|_| FilterError(format!("{value:?} is not a port"))),
    }
}

fn host(value: &str) -> Result<Network, FilterError> {
    let address: IpAddr = value
        .parse()
        .map_err(|_| FilterError(format!("{value:?} is not an IP address")))?;
    Ok(Network {
        address,
        bits: width(address),
    })
}

fn network(value: &str) -> Result<Network, FilterError> {
    let (address, bits) = match value.split_once('/') {
        Some((address, bits)) => (host(address)?.address, bits),
        None => return host(value),
    };
    match bits.parse() {
        Ok(bits) if bits <= width(address) => Ok(Network { address, bits }),
        _ => Err(FilterError(format!(
            "{value:?} is not a network such as 10.0.0.0/8"
        ))),
    }
}

fn width(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn matches(filter: &str, source: &str, destination: &str) -> bool {
        let end = |text: &str| -> std::net::SocketAddr { text.parse().expect("an end") };
        let (source, destination) = (end(source), end(destination));
        let filter: Filter = filter
            .parse()
            .unwrap_or_else(|error| panic!("{filter}: {error}"));
        filter.matches(&Addressed {
            protocol: ip_number::UDP,
            addresses: [source.ip(), destination.ip()],
            ports: Some([source.port(), destination.port()]),
        })
    }

    #[test]
    fn expressions_mean_what_they_mean_to_tcpdump() {
        for (filter, wanted) in [
            ("port 5060", true),
            ("port sip", true),
            ("udp port 5060", true),
            ("tcp port 5060", false),
            ("src port 5060", false),
            ("dst port 5060 and udp", true),
            ("portrange 5000-5100", true),
            ("host 10.0.0.1", true),
            ("src 10.0.0.1", true),
            ("dst host 10.0.0.1", false),
            ("net 10.0.0.0/8", true),
            ("src net 10.1.0.0/16", false),
            ("net 0.0.0.0/0", true),
            ("host ::1", false),
            ("ip6", false),
            ("ip", true),
            ("not port 22", true),
            ("!(port 5060)", false),
            // From left to right, and alike.
            ("port 1 and port 2 or port 5060", true),
            ("port 5060 or port 1 and port 2", false),
            ("port 5060 or (port 1 and port 2)", true),
            ("HOST 10.0.0.1 AND NOT tcp", true),
        ] {
            assert_eq!(
                matches(filter, "10.0.0.1:40000", "192.0.2.7:5060"),
                wanted,
                "{filter}"
            );
        }
        assert!(matches("net 2001:db8::/32", "[2001:db8::1]:1", "[::1]:2"));
    }

    #[test]
    fn what_is_no_filter_is_said() {
        for (filter, said) in [
            ("", "missing"),
            ("port", "needs a value"),
            ("port x", "not a port"),
            ("port 99999", "not a port"),
            ("portrange 5", "not a range"),
            ("host example.org", "not an IP address"),
            ("net 10.0.0.0/33", "not a network"),
            ("(udp", "not closed"),
            ("udp udp", "does not continue"),
            ("ether proto 1", "none of"),
        ] {
            let error = filter.parse::<Filter>().expect_err(filter).to_string();
            assert!(error.contains(said), "{filter}: {error}");
        }
        let deep = "not ".repeat(1000) + "udp";
        assert!(deep.parse::<Filter>().is_err());
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(words in prop::collection::vec(
            prop::sample::select(vec![
                "and", "or", "not", "(", ")", "!", "port", "host", "net", "src", "dst", "5060", "::1",
                "10.0.0.0/8", "udp", "ip6", "portrange", "1-2", "é",
            ]),
            0..30,
        )) {
            if let Ok(filter) = words.join(" ").parse::<Filter>() {
                let packet = Addressed {
                    protocol: ip_number::TCP,
                    addresses: ["::1".parse().unwrap(); 2],
                    ports: None,
                };
                filter.matches(&packet);
            }
        }
    }
}
