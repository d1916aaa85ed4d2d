//! The name of a branch of a response context.

use sip::transaction::ServerId;

/// Names a branch of a response context: its server transaction, and its place among the branches.
pub(crate) type BranchName = (ServerId, usize);
