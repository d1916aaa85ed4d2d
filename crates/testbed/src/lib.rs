//! Whole networks on one machine: hosts as network namespaces, with an [`emulator`] between them.
//!
//! A [`Topology`] says what a network looks like, a [`Plan`] gives it addresses and routes, and a [`Testbed`] is
//! one that is up: each host is a network namespace whose interfaces are TUN devices of the emulator. [`control`] and
//! [`web`] let others watch and change it while it is up.
//!
//! Namespaces have no names in the file system, and TUN devices vanish with their descriptors: nothing outlives the process
//! that holds them, however it ends. For `tandem net` that process is a [`daemon`], and commands exchange lines of JSON
//! with it ([`remote`]).
//!
//! A host with several interfaces routes by the source address (`plan`): a packet leaves by the interface that has its
//! source address, as a multi-homed SCTP endpoint needs it, whose paths would otherwise share one link.
//!
//! ```no_run
//! use testbed::{Testbed, Topology, ready_made};
//!
//! let topology = Topology::parse(ready_made("router").unwrap().text, &[]).unwrap();
//! let testbed = Testbed::up(&topology, "example", 1).unwrap();
//! let mut ping = testbed.command("client", "ping").unwrap();
//! assert!(ping.args(["-c", "1", "server"]).status().unwrap().success());
//! ```
#![forbid(unsafe_code)]

pub mod control;
pub mod daemon;
mod plan;
mod preset;
pub mod remote;
mod rule;
pub mod state;
mod testbed;
mod topology;
pub mod web;
mod words;

pub use namespace::{Privilege, Unavailable, become_root};
pub use plan::{Interface, Plan, PlanError};
pub use preset::{Preset, preset, presets};
pub use rule::{RuleWords, network};
pub use testbed::{
    HOST_VARIABLE, ID_VARIABLE, NETWORK_VARIABLE, Testbed, UnknownHost, UpError, end_programs_of,
    set_variables,
};
pub use topology::{
    MAXIMUM_LINKS, MAXIMUM_NODES, MAXIMUM_TEXT, Node, READY_MADE, ReadyMade, Topology,
    TopologyError, TopologyLink, read_file, ready_made,
};
pub use words::{PresetWords, Words, config, config_instead, config_over, with_files, words};
