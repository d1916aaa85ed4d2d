//! Topologies that come with the program.

/// A topology that comes with the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadyMade {
    /// Its name.
    pub name: &'static str,
    /// Its text, in TOML.
    pub text: &'static str,
}

/// All topologies that come with the program.
pub const READY_MADE: [ReadyMade; 5] = [
    ReadyMade {
        name: "two-hosts",
        text: include_str!("../../topologies/two-hosts.toml"),
    },
    ReadyMade {
        name: "router",
        text: include_str!("../../topologies/router.toml"),
    },
    ReadyMade {
        name: "multihomed",
        text: include_str!("../../topologies/multihomed.toml"),
    },
    ReadyMade {
        name: "dumbbell",
        text: include_str!("../../topologies/dumbbell.toml"),
    },
    ReadyMade {
        name: "sip",
        text: include_str!("../../topologies/sip.toml"),
    },
];

/// The topology of that name that comes with the program.
pub fn ready_made(name: &str) -> Option<&'static ReadyMade> {
    READY_MADE.iter().find(|one| one.name == name)
}
