//! How a network is controlled while it is up: lines of JSON on a Unix socket, a request and its answer in turn.
//!
//! An answer is `{"ok": …}` or `{"error": "…"}`. The socket is in a directory that only its user may open, but
//! who speaks there is not trusted to speak well: lines, connections and their time are bounded.

mod client;
mod server;
mod state;

pub use client::{Client, ClientError};
pub use server::{Control, serve};
pub use state::{LineState, LinkState, RouterState, RuleState, State};

use serde::{Deserialize, Serialize};

use crate::Words;
use crate::rule::RuleWords;

/// Longest line, in bytes: traces go along with the words that name them.
pub const LONGEST_LINE: usize = 16 << 20;

/// What can be asked of a network.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "kebab-case")]
pub enum Request {
    /// What the network is: a [`Description`].
    Show,
    /// How its links and rules are at this moment: a [`State`].
    State,
    /// Treats the packets of a link otherwise.
    SetLink {
        /// The link.
        link: String,
        /// Which way.
        #[serde(default)]
        direction: Directions,
        /// What becomes of packets.
        words: Words,
        /// Whether what the words do not tell stays as it is, or becomes perfect.
        #[serde(default)]
        keep: bool,
    },
    /// Lets a link carry nothing any more.
    Cut {
        /// The link.
        link: String,
    },
    /// Lets a link carry packets again.
    Heal {
        /// The link.
        link: String,
    },
    /// Adds a rule; the answer is its number.
    AddRule {
        /// The rule.
        rule: RuleWords,
        /// Whether it comes before all others, instead of behind them.
        #[serde(default)]
        first: bool,
    },
    /// Changes what a rule does; what the words do not tell stays as it is.
    ChangeRule {
        /// The rule's number.
        number: u64,
        /// What becomes of packets.
        words: Words,
        /// Whether what the words do not tell becomes perfect.
        #[serde(default)]
        replace: bool,
    },
    /// Deletes a rule.
    DeleteRule {
        /// The rule's number.
        number: u64,
    },
    /// Takes the network down. The answer comes before.
    Down,
}

/// Which direction of a link is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Directions {
    /// Both.
    #[default]
    Both,
    /// From its first end to its second.
    Forward,
    /// From its second end to its first.
    Backward,
}

/// What a network is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Description {
    /// Its name.
    pub name: String,
    /// Tells it from all others.
    pub id: String,
    /// What its topology says of itself.
    pub description: String,
    /// The process that runs it.
    pub process: u32,
    /// What all its randomness comes from.
    pub seed: u64,
    /// Its hosts and routers.
    pub nodes: Vec<NodeDescription>,
    /// Its links.
    pub links: Vec<LinkDescription>,
}

/// What a host or router is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodeDescription {
    /// Its name.
    pub name: String,
    /// `host` or `router`.
    pub kind: String,
    /// Its interfaces.
    pub interfaces: Vec<InterfaceDescription>,
    /// A file that stands for a host's network namespace as long as the network is up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

/// What an interface is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InterfaceDescription {
    /// Its name.
    pub name: String,
    /// The link that it is at.
    pub link: String,
    /// Its addresses, with the lengths of their networks.
    pub addresses: Vec<String>,
}

/// What a link is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LinkDescription {
    /// Its name.
    pub name: String,
    /// The nodes at its ends: *forward* is from the first to the second.
    pub between: [String; 2],
    /// Largest packet, in bytes.
    pub mtu: u16,
}
