//! Fast Recovery (RFC 9260 section 7.2.4): of all paths together, or, with concurrent multipath transfer, of each
//! path by itself.

use super::path_id::PathId;
use crate::packet::Tsn;

/// Which paths are in Fast Recovery, and until when.
#[derive(Debug, Default)]
pub(crate) struct FastRecovery {
    /// The exit point of all paths together.
    common: Option<Tsn>,
    /// The exit points of single paths.
    split: Vec<(PathId, Tsn)>,
}

impl FastRecovery {
    /// Whether a path is in Fast Recovery.
    pub(crate) fn contains(&self, path: PathId) -> bool {
        self.common.is_some() || self.split.iter().any(|(other, _)| *other == path)
    }

    /// Whether all paths together are.
    pub(crate) fn is_common(&self) -> bool {
        self.common.is_some()
    }

    /// A loss was found on a path; `exit` is the highest outstanding TSN. `split` says that paths recover by
    /// themselves.
    pub(crate) fn enter(&mut self, path: PathId, exit: Tsn, split: bool) {
        if self.contains(path) {
            return;
        }
        if split {
            self.split.push((path, exit));
        } else {
            self.common = Some(exit);
        }
    }

    /// All TSNs up to `cumulative` are acknowledged.
    pub(crate) fn advance(&mut self, cumulative: Tsn) {
        self.common.take_if(|exit| *exit <= cumulative);
    }

    /// The paths that recover by themselves.
    pub(crate) fn split(&self) -> impl Iterator<Item = PathId> {
        self.split.iter().map(|(path, _)| *path)
    }

    /// The paths that recover by themselves have these earliest outstanding chunks, or none.
    pub(crate) fn advance_split(&mut self, earliest: &[(PathId, Tsn)]) {
        self.split.retain(|(path, exit)| {
            earliest
                .iter()
                .any(|(other, tsn)| other == path && tsn <= exit)
        });
    }

    /// T3-rtx of a path expired.
    pub(crate) fn leave(&mut self, path: PathId) {
        self.common = None;
        self.split.retain(|(other, _)| *other != path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_paths_recover_together_or_each_by_itself() {
        let [one, other] = [PathId::FIRST, PathId::FIRST.next().unwrap()];
        let mut recovery = FastRecovery::default();
        recovery.enter(one, Tsn(9), false);
        recovery.enter(other, Tsn(19), false);
        assert!(recovery.contains(one) && recovery.contains(other));
        recovery.advance(Tsn(8));
        assert!(recovery.is_common());
        recovery.advance(Tsn(9));
        assert!(!recovery.contains(one) && !recovery.contains(other));

        recovery.enter(one, Tsn(9), true);
        recovery.enter(other, Tsn(19), true);
        assert!(recovery.contains(one) && recovery.contains(other));
        recovery.advance(Tsn(30));
        recovery.advance_split(&[(one, Tsn(10)), (other, Tsn(10))]);
        assert!(!recovery.contains(one) && recovery.contains(other));
        recovery.enter(one, Tsn(20), true);
        recovery.leave(one);
        assert_eq!(recovery.split().collect::<Vec<_>>(), [other]);
        recovery.advance_split(&[]);
        assert!(!recovery.contains(other), "nothing is outstanding there");
    }
}
