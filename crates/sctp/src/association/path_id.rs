//! The name of a path.

/// Names one path of an association. It is given out once: after the path is removed, it names no other
/// one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PathId(u32);

impl PathId {
    /// The first path that an association has.
    pub(crate) const FIRST: PathId = PathId(0);

    /// The one that is given out after this one; `None` when none is left.
    pub(crate) fn next(self) -> Option<PathId> {
        self.0.checked_add(1).map(PathId)
    }

    /// As HEARTBEATs carry it.
    pub(crate) fn to_be_bytes(self) -> [u8; 4] {
        self.0.to_be_bytes()
    }
}
