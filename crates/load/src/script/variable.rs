//! The variables of a run.

/// The place of a variable among the names given to [`Script::new`](super::Script::new). It holds octets,
/// or is not set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Variable(pub u16);
