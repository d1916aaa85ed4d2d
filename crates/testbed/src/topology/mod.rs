//! What a network looks like: hosts, routers and the links between them.

mod document;
mod expand;
mod problem;
mod ready_made;
#[cfg(test)]
mod tests;

pub(crate) use document::check_name;
pub use problem::TopologyError;
pub use ready_made::{READY_MADE, ReadyMade, ready_made};

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use emulator::Rule;
use ipnet::IpNet;
use link::{LinkConfig, Schedule};

/// Most hosts and routers of a topology: each host is a namespace with programs in it.
pub const MAXIMUM_NODES: usize = 256;

/// Most links of a topology.
pub const MAXIMUM_LINKS: usize = 1024;

/// Longest text of a topology, in bytes.
pub const MAXIMUM_TEXT: usize = 1 << 20;

/// Longest file of a table or trace that a topology names, in bytes.
pub(crate) const MAXIMUM_FILE: usize = 16 << 20;

/// What a network looks like.
///
/// ```
/// use testbed::Topology;
///
/// let text = testbed::ready_made("dumbbell").unwrap().text;
/// let topology = Topology::parse(text, &[("senders", 3)]).unwrap();
/// assert_eq!(topology.nodes.iter().filter(|node| node.is_host).count(), 6);
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Topology {
    /// What it is, in a line; may be empty.
    pub description: String,
    /// Hosts first, then routers, in the order in which the text has them.
    pub nodes: Vec<Node>,
    /// The links, in the order of the text.
    pub links: Vec<TopologyLink>,
    /// Rules that are in force from the beginning.
    pub rules: Vec<Rule>,
}

/// A host, where programs run, or a router, which only forwards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Its name; no two nodes have the same.
    pub name: String,
    /// Whether programs can run on it.
    pub is_host: bool,
    /// Settings of the host's kernel that are to be made, such as `net.ipv4.tcp_congestion_control`. All begin
    /// with `net.`, so that they are the namespace's own.
    pub sysctl: BTreeMap<String, String>,
}

/// A link between two nodes.
#[derive(Debug, Clone, PartialEq)]
pub struct TopologyLink {
    /// Its name; no two links have the same.
    pub name: String,
    /// The nodes that it joins, as indices of [`Topology::nodes`]: they differ.
    pub between: [usize; 2],
    /// The addresses of its ends, in the order of `between`; an end without any gets some by plan.
    pub addresses: [Vec<IpNet>; 2],
    /// Largest IP packet that it carries, in bytes.
    pub mtu: u16,
    /// How it treats packets from its first end to its second, and back.
    pub directions: [LinkConfig; 2],
    /// What changes when, in the same order; times count from when the network comes up.
    pub schedules: [Schedule; 2],
}

impl Topology {
    /// Reads a topology from TOML. `parameters` replace what the text's `[parameters]` say.
    ///
    /// # Errors
    ///
    /// The text is no TOML, says something that topologies do not have, or contradicts itself; the error tells
    /// the line.
    pub fn parse(text: &str, parameters: &[(&str, u32)]) -> Result<Topology, TopologyError> {
        document::read(text, parameters, &mut |name| {
            Err(format!("the file {name} cannot be read from here"))
        })
    }

    /// Reads a topology from a file. Tables and traces that it names are beside it.
    ///
    /// # Errors
    ///
    /// As [`Topology::parse`], or a file cannot be read.
    pub fn read(path: &Path, parameters: &[(&str, u32)]) -> Result<Topology, TopologyError> {
        let text = read(path, MAXIMUM_TEXT).map_err(|error| TopologyError {
            line: None,
            what: error.to_string(),
        })?;
        let directory = path.parent().unwrap_or(Path::new(""));
        document::read(&text, parameters, &mut |name| {
            read_file(&directory.join(name))
        })
    }

    /// The index of the node of that name.
    pub fn node(&self, name: &str) -> Option<usize> {
        self.nodes.iter().position(|node| node.name == name)
    }

    /// The index of the link of that name.
    pub fn link(&self, name: &str) -> Option<usize> {
        self.links.iter().position(|line| line.name == name)
    }
}

/// Reads the text of a table or a trace.
///
/// # Errors
///
/// It cannot be read, or is too long; the text tells which file.
pub fn read_file(path: &Path) -> Result<String, String> {
    read(path, MAXIMUM_FILE).map_err(|error| format!("{}: {error}", path.display()))
}

fn read(path: &Path, longest: usize) -> io::Result<String> {
    let mut text = String::new();
    let mut file = File::open(path)?.take(longest as u64 + 1);
    file.read_to_string(&mut text)?;
    if text.len() > longest {
        return Err(io::Error::other(format!("more than {longest} bytes")));
    }
    Ok(text)
}
