//! Rules as they are written.

use std::net::IpAddr;

use emulator::{Protocol, Rule};
use ipnet::IpNet;
use link::LinkConfig;
use link::words::Files;
use serde::{Deserialize, Serialize};

use crate::words::{Words, config_with_files, no_file, words};

/// A rule in words: which packets, and what becomes of them.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct RuleWords {
    /// An address or a network that packets come from; `any` or nothing for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// An address or a network that packets go to; `any` or nothing for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destination: Option<String>,
    /// The name or number of what the packets carry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
    /// A source port, or the first and last of several: `5060`, `5060-5070`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_port: Option<String>,
    /// A destination port, or the first and last of several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destination_port: Option<String>,
    /// The link on which the rule acts; nothing for where packets enter the network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
    /// What becomes of the packets.
    #[serde(flatten)]
    pub treatment: Words,
}

impl RuleWords {
    /// The rule that the words tell of.
    ///
    /// # Errors
    ///
    /// A word says what cannot be; the text tells which.
    pub fn into_rule(self) -> Result<Rule, String> {
        self.into_rule_with(&mut no_file)
    }

    /// The same, with the tables and traces that `files` reads.
    pub(crate) fn into_rule_with(self, files: &mut Files<'_>) -> Result<Rule, String> {
        Ok(Rule {
            source: self.source.as_deref().map_or(Ok(None), network)?,
            destination: self.destination.as_deref().map_or(Ok(None), network)?,
            protocol: self.protocol.as_deref().map(protocol).transpose()?,
            source_ports: self.source_port.as_deref().map(ports).transpose()?,
            destination_ports: self.destination_port.as_deref().map(ports).transpose()?,
            config: config_with_files(&self.treatment, &LinkConfig::default(), files)?,
            link: self.link,
        })
    }

    /// The words for a rule.
    pub fn of(rule: &Rule) -> RuleWords {
        RuleWords {
            source: rule.source.map(show_network),
            destination: rule.destination.map(show_network),
            protocol: rule.protocol.map(|protocol| protocol.to_string()),
            source_port: rule.source_ports.map(show_ports),
            destination_port: rule.destination_ports.map(show_ports),
            link: rule.link.clone(),
            treatment: words(&rule.config),
        }
    }
}

/// Reads an address or a network; `any` is `None`.
///
/// # Errors
///
/// It is neither.
pub fn network(text: &str) -> Result<Option<IpNet>, String> {
    if text == "any" {
        return Ok(None);
    }
    let address = text.parse::<IpAddr>().map(IpNet::from);
    match address.or_else(|_| text.parse::<IpNet>().map(|network| network.trunc())) {
        Ok(network) => Ok(Some(network)),
        Err(_) => Err(format!(
            "\"{}\" is neither an address nor a network, such as 10.1.0.2, 10.1.0.0/24 or any",
            short(text)
        )),
    }
}

fn show_network(network: IpNet) -> String {
    if network.prefix_len() == network.max_prefix_len() {
        network.addr().to_string()
    } else {
        network.to_string()
    }
}

fn protocol(text: &str) -> Result<Protocol, String> {
    text.parse()
        .map_err(|_| format!("\"{}\" is not a protocol", short(text)))
}

/// Reads a port, or the first and the last of several.
fn ports(text: &str) -> Result<(u16, u16), String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    match (first.trim().parse(), last.trim().parse()) {
        (Ok(first), Ok(last)) if first <= last => Ok((first, last)),
        _ => Err(format!(
            "\"{}\" is not a port or range, such as 5060 or 5060-5070",
            short(text)
        )),
    }
}

fn show_ports((first, last): (u16, u16)) -> String {
    if first == last {
        first.to_string()
    } else {
        format!("{first}-{last}")
    }
}

/// Enough of a text to know it again.
fn short(text: &str) -> String {
    text.chars().take(60).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_reads_as_it_is_written() {
        let words: RuleWords = serde_json::from_value(serde_json::json!({
            "source": "10.1.0.2", "destination": "10.2.0.0/16", "protocol": "udp",
            "destination_port": "5060-5070", "delay": "50ms", "loss": "10%",
        }))
        .unwrap();
        let rule = words.clone().into_rule().unwrap();
        assert_eq!(rule.destination_ports, Some((5060, 5070)));
        assert_eq!(rule.config.delay, std::time::Duration::from_millis(50));
        assert_eq!(RuleWords::of(&rule), words);
        assert_eq!(RuleWords::of(&rule).into_rule().unwrap(), rule);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, named) in [
            (r#"{"source":"10.1.0"}"#, "10.1.0"),
            (r#"{"destination_port":"9-1"}"#, "9-1"),
            (r#"{"protocol":"xyz"}"#, "xyz"),
            (r#"{"dely":"5ms"}"#, "dely"),
            (r#"{"delay":"5"}"#, "delay"),
            (r#"{"preset":"moon"}"#, "moon"),
            (r#"{"preset":5}"#, "preset"),
        ] {
            let words: RuleWords = serde_json::from_str(text).unwrap();
            let error = words.into_rule().unwrap_err();
            assert!(error.contains(named), "{text}: {error}");
        }
    }
}
