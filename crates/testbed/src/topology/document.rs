//! The text of a topology.

use std::collections::BTreeMap;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::ops::Range;

use emulator::Rule;
use ipnet::IpNet;
use link::words::Files;
use link::{LinkConfig, PeriodWords, Schedule};
use serde::Deserialize;
use toml::Spanned;

use super::expand::{Count, Parameters, numbered};
use super::{
    MAXIMUM_LINKS, MAXIMUM_NODES, MAXIMUM_TEXT, Node, Topology, TopologyError, TopologyLink,
};
use crate::rule::RuleWords;
use crate::words::{Words, config_with_files};

/// Smallest MTU of a link: what IPv6 demands (RFC 8200 section 5).
const SMALLEST_MTU: u16 = 1280;

/// The MTU of a link of which nothing is said: Ethernet's.
const MTU: u16 = 1500;

/// Longest name of a node or link.
const LONGEST_NAME: usize = 32;

/// Most addresses of an interface that a text can give.
const MAXIMUM_ADDRESSES: usize = 4;

/// Most periods of the schedule of a link.
const MAXIMUM_PERIODS: usize = 1024;

/// Most rules of a topology.
const MAXIMUM_RULES: usize = 1024;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[serde(default)]
    description: String,
    #[serde(default)]
    parameters: BTreeMap<String, u32>,
    #[serde(default)]
    host: Vec<Spanned<HostEntry>>,
    #[serde(default)]
    router: Vec<Spanned<RouterEntry>>,
    #[serde(default)]
    link: Vec<Spanned<LinkEntry>>,
    #[serde(default)]
    rule: Vec<Spanned<RuleWords>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HostEntry {
    name: Spanned<String>,
    count: Option<Spanned<Count>>,
    #[serde(default)]
    sysctl: BTreeMap<String, Spanned<Setting>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RouterEntry {
    name: Spanned<String>,
    count: Option<Spanned<Count>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LinkEntry {
    name: Spanned<String>,
    count: Option<Spanned<Count>>,
    between: [Spanned<String>; 2],
    addresses: Option<[Vec<Spanned<String>>; 2]>,
    mtu: Option<Spanned<u16>>,
    both: Option<Spanned<Words>>,
    forward: Option<Spanned<Words>>,
    backward: Option<Spanned<Words>>,
    #[serde(default)]
    schedule: Vec<Spanned<PeriodWords>>,
}

/// The value of a kernel's setting: a number needs no quotes.
#[derive(Deserialize)]
#[serde(untagged)]
enum Setting {
    Number(i64),
    Text(String),
}

/// Reads the text, see [`Topology::parse`].
pub(super) fn read(
    text: &str,
    given: &[(&str, u32)],
    files: &mut Files<'_>,
) -> Result<Topology, TopologyError> {
    if text.len() > MAXIMUM_TEXT {
        let what = format!("a topology has at most {MAXIMUM_TEXT} bytes");
        return Err(TopologyError::whole(what));
    }
    let document: Document = toml::from_str(text).map_err(|error| match error.span() {
        Some(span) => TopologyError::at(text, span, error.message()),
        None => TopologyError::whole(error.message()),
    })?;
    let parameters = Parameters::new(document.parameters, given).map_err(TopologyError::whole)?;
    let mut reader = Reader {
        text,
        parameters,
        nodes: Vec::new(),
        node_of: HashMap::new(),
        links: Vec::new(),
        link_of: HashMap::new(),
        networks: Vec::new(),
    };
    for host in &document.host {
        reader.host(host.get_ref())?;
    }
    for router in &document.router {
        let router = router.get_ref();
        reader.node(&router.name, router.count.as_ref(), false, BTreeMap::new())?;
    }
    for link in &document.link {
        reader.link(link.get_ref(), files)?;
    }
    if !reader.nodes.iter().any(|node| node.is_host) {
        return Err(TopologyError::whole("a topology needs a [[host]]"));
    }
    let rules = reader.rules(document.rule, files)?;
    Ok(Topology {
        description: document.description,
        nodes: reader.nodes,
        links: reader.links,
        rules,
    })
}

struct Reader<'t> {
    text: &'t str,
    parameters: Parameters,
    nodes: Vec<Node>,
    node_of: HashMap<String, usize>,
    links: Vec<TopologyLink>,
    link_of: HashMap<String, usize>,
    /// The networks of addresses that were written down.
    networks: Vec<(IpNet, usize)>,
}

impl Reader<'_> {
    fn host(&mut self, host: &HostEntry) -> Result<(), TopologyError> {
        let mut sysctl = BTreeMap::new();
        for (key, value) in &host.sysctl {
            let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
            let is_key = key.starts_with("net.")
                && key.chars().all(is_plain)
                && key.split('.').all(|part| !part.is_empty());
            if !is_key {
                let what = format!("\"{key}\" is not a network setting: those begin with \"net.\"");
                return Err(self.error(value.span(), what));
            }
            let text = match value.get_ref() {
                Setting::Number(number) => number.to_string(),
                Setting::Text(text) => text.clone(),
            };
            sysctl.insert(key.clone(), text);
        }
        self.node(&host.name, host.count.as_ref(), true, sysctl)
    }

    fn node(
        &mut self,
        name: &Spanned<String>,
        count: Option<&Spanned<Count>>,
        is_host: bool,
        sysctl: BTreeMap<String, String>,
    ) -> Result<(), TopologyError> {
        for number in self.numbers(count, name)? {
            let plain = self.name(name, number)?;
            if self.nodes.len() == MAXIMUM_NODES {
                let what = format!("a topology has at most {MAXIMUM_NODES} hosts and routers");
                return Err(self.error(name.span(), what));
            }
            if self
                .node_of
                .insert(plain.clone(), self.nodes.len())
                .is_some()
            {
                let what = format!("there is a host or router \"{plain}\" already");
                return Err(self.error(name.span(), what));
            }
            self.nodes.push(Node {
                name: plain,
                is_host,
                sysctl: sysctl.clone(),
            });
        }
        Ok(())
    }

    fn link(&mut self, link: &LinkEntry, files: &mut Files<'_>) -> Result<(), TopologyError> {
        let mtu = match &link.mtu {
            None => MTU,
            Some(mtu) if *mtu.get_ref() >= SMALLEST_MTU => *mtu.get_ref(),
            Some(mtu) => {
                let what = format!(
                    "an MTU of {} bytes is below the least of IPv6, {SMALLEST_MTU}",
                    mtu.get_ref()
                );
                return Err(self.error(mtu.span(), what));
            }
        };
        let directions = [
            self.direction(link.both.as_ref(), link.forward.as_ref(), files)?,
            self.direction(link.both.as_ref(), link.backward.as_ref(), files)?,
        ];
        let schedules = [
            self.schedule(&link.schedule, &directions[0], files)?,
            self.schedule(&link.schedule, &directions[1], files)?,
        ];
        for number in self.numbers(link.count.as_ref(), &link.name)? {
            let name = self.name(&link.name, number)?;
            if self.links.len() == MAXIMUM_LINKS {
                let what = format!("a topology has at most {MAXIMUM_LINKS} links");
                return Err(self.error(link.name.span(), what));
            }
            let index = self.links.len();
            if self.link_of.insert(name.clone(), index).is_some() {
                let what = format!("there is a link \"{name}\" already");
                return Err(self.error(link.name.span(), what));
            }
            let [first, second] = &link.between;
            let between = [self.end(first, number)?, self.end(second, number)?];
            if between[0] == between[1] {
                let what = format!("link \"{name}\" joins a node with itself");
                return Err(self.error(first.span(), what));
            }
            let addresses = match &link.addresses {
                None => Default::default(),
                Some(ends) => self.addresses(ends, number, index)?,
            };
            self.links.push(TopologyLink {
                name,
                between,
                addresses,
                mtu,
                directions: directions.clone(),
                schedules: schedules.clone(),
            });
        }
        Ok(())
    }

    /// The configuration of a direction: what is said of both, and on top of it what is said of this one.
    fn direction(
        &self,
        both: Option<&Spanned<Words>>,
        one: Option<&Spanned<Words>>,
        files: &mut Files<'_>,
    ) -> Result<LinkConfig, TopologyError> {
        let mut config = LinkConfig::default();
        for part in [both, one].into_iter().flatten() {
            config = config_with_files(part.get_ref(), &config, files)
                .map_err(|what| self.error(part.span(), what))?;
        }
        Ok(config)
    }

    /// The changes of a direction that is otherwise like `base`.
    fn schedule(
        &self,
        periods: &[Spanned<PeriodWords>],
        base: &LinkConfig,
        files: &mut Files<'_>,
    ) -> Result<Schedule, TopologyError> {
        // Each by itself first, to tell in which line something is wrong.
        for period in periods {
            let alone = std::slice::from_ref(period.get_ref());
            Schedule::read(alone, base, files)
                .map_err(|what| self.error(period.span(), what.to_string()))?;
        }
        if let Some(period) = periods.get(MAXIMUM_PERIODS) {
            let what = format!("a link has at most {MAXIMUM_PERIODS} periods");
            return Err(self.error(period.span(), what));
        }
        let all: Vec<PeriodWords> = periods.iter().map(|one| one.get_ref().clone()).collect();
        Schedule::read(&all, base, files).map_err(|what| TopologyError::whole(what.to_string()))
    }

    /// The addresses of the ends of link `index`, which share at least a network and take none of another link.
    fn addresses(
        &mut self,
        ends: &[Vec<Spanned<String>>; 2],
        number: Option<u32>,
        index: usize,
    ) -> Result<[Vec<IpNet>; 2], TopologyError> {
        let mut read: [Vec<IpNet>; 2] = Default::default();
        for (end, texts) in read.iter_mut().zip(ends) {
            if let Some(text) = texts.get(MAXIMUM_ADDRESSES) {
                let what = format!("an interface has at most {MAXIMUM_ADDRESSES} addresses");
                return Err(self.error(text.span(), what));
            }
            for text in texts {
                let plain = numbered(text.get_ref(), number);
                let address: IpNet = plain.parse().map_err(|_| {
                    let what = format!(
                        "\"{plain}\" is not an address with the length of its network, such as 10.1.0.2/24"
                    );
                    self.error(text.span(), what)
                })?;
                if !is_usable(&address) {
                    let what = format!("{address} cannot be the address of an interface");
                    return Err(self.error(text.span(), what));
                }
                let clash = self.networks.iter().find(|(network, owner)| {
                    let is_own = *owner == index;
                    if is_own && network.trunc() == address.trunc() {
                        return network.addr() == address.addr();
                    }
                    // Two ends of a link that are in different networks do not hear each other.
                    let same_version = network.addr().is_ipv4() == address.addr().is_ipv4();
                    (is_own && same_version)
                        || network.contains(&address.addr())
                        || address.contains(&network.addr())
                });
                if let Some((other, _)) = clash {
                    let what = format!("{address} and {other} overlap");
                    return Err(self.error(text.span(), what));
                }
                self.networks.push((address, index));
                end.push(address);
            }
        }
        Ok(read)
    }

    /// The rules, whose links must be there.
    fn rules(
        &self,
        rules: Vec<Spanned<RuleWords>>,
        files: &mut Files<'_>,
    ) -> Result<Vec<Rule>, TopologyError> {
        if let Some(rule) = rules.get(MAXIMUM_RULES) {
            let what = format!("a topology has at most {MAXIMUM_RULES} rules");
            return Err(self.error(rule.span(), what));
        }
        let mut read = |rule: Spanned<RuleWords>| {
            let span = rule.span();
            let error = |what| self.error(span.clone(), what);
            let rule = rule.into_inner().into_rule_with(files).map_err(error)?;
            match &rule.link {
                Some(link) if !self.link_of.contains_key(link) => {
                    Err(error(format!("there is no link \"{link}\"")))
                }
                _ => Ok(rule),
            }
        };
        rules.into_iter().map(&mut read).collect()
    }

    /// The index of the node that a link names.
    fn end(&self, name: &Spanned<String>, number: Option<u32>) -> Result<usize, TopologyError> {
        let plain = numbered(name.get_ref(), number);
        self.node_of.get(&plain).copied().ok_or_else(|| {
            let what = format!("there is no host or router \"{plain}\"");
            self.error(name.span(), what)
        })
    }

    /// A name with its number in it.
    fn name(&self, name: &Spanned<String>, number: Option<u32>) -> Result<String, TopologyError> {
        let plain = numbered(name.get_ref(), number);
        match check_name(&plain) {
            Ok(()) => Ok(plain),
            Err(what) => Err(self.error(name.span(), what)),
        }
    }

    /// The numbers of an entry that stands for several, or a single nothing.
    fn numbers(
        &self,
        count: Option<&Spanned<Count>>,
        name: &Spanned<String>,
    ) -> Result<Vec<Option<u32>>, TopologyError> {
        let Some(count) = count else {
            return Ok(vec![None]);
        };
        if !name.get_ref().contains("{n}") {
            let what = "the name of what is counted needs a {n}, where its number is put";
            return Err(self.error(name.span(), what));
        }
        let last = self.parameters.value(count.get_ref());
        let last = last.map_err(|what| self.error(count.span(), what))?;
        Ok((1..=last).map(Some).collect())
    }

    fn error(&self, span: Range<usize>, what: impl Into<String>) -> TopologyError {
        TopologyError::at(self.text, span, what)
    }
}

/// Whether an interface can have that address.
fn is_usable(address: &IpNet) -> bool {
    let ip = address.addr();
    let is_own_network = address.prefix_len() < address.max_prefix_len() - 1
        && (ip == address.network() || ip.is_ipv4() && ip == address.broadcast());
    address.prefix_len() > 0
        && !(ip.is_unspecified() || ip.is_loopback() || ip.is_multicast() || is_own_network)
        && ip != IpAddr::V4(Ipv4Addr::BROADCAST)
}

/// Whether a node, a link or a testbed can bear that name: it becomes a host's name, a file's, and a word of the
/// command line.
pub(crate) fn check_name(name: &str) -> Result<(), String> {
    let is_letter = |letter: char| letter.is_ascii_alphanumeric() || "-_".contains(letter);
    let is_good = name.len() <= LONGEST_NAME
        && name.starts_with(|letter: char| letter.is_ascii_alphanumeric())
        && name.chars().all(is_letter);
    if is_good {
        return Ok(());
    }
    Err(format!(
        "\"{}\" is not a name: up to {LONGEST_NAME} letters, digits and hyphens, a letter or digit first",
        name.chars().take(2 * LONGEST_NAME).collect::<String>()
    ))
}
