//! Remote targets that have changed within a dialog (RFC 3261 section 12.2): a user agent that moves says so in the
//! Contact of a re-INVITE or an UPDATE, or of the answer to one, and from then on requests of the other side are for
//! there. The mark of the other side stays what it was, so the new target is remembered here.
//!
//! There is room for so many dialogs; those whose target was refreshed longest ago are forgotten. A request
//! to a target that was forgotten is one outside of a dialog: a user of ours is asked who it is, a stranger is refused.

use std::collections::BTreeMap;
use std::mem;

use super::dialog_mark::RemoteTarget;

/// The targets that were told last, by the name of the side whose requests are for there.
#[derive(Debug, Default)]
pub(crate) struct RefreshedTargets {
    young: BTreeMap<u64, RemoteTarget>,
    /// Those that were told before. When there are as many young ones, they go.
    old: BTreeMap<u64, RemoteTarget>,
}

/// Of how many dialogs the target is remembered at least, by each worker.
const MINIMUM: usize = 1 << 17;

impl RefreshedTargets {
    /// Takes notice of a side's new target.
    pub(crate) fn note(&mut self, side: u64, target: RemoteTarget) {
        if self.young.len() >= MINIMUM && !self.young.contains_key(&side) {
            self.old = mem::take(&mut self.young);
        }
        self.young.insert(side, target);
    }

    /// The target of a side, if it was ever refreshed.
    pub(crate) fn find(&self, side: u64) -> Option<RemoteTarget> {
        let target = self.young.get(&side).or_else(|| self.old.get(&side));
        target.copied()
    }
}

#[cfg(test)]
mod tests {
    use super::super::dialog_mark::DialogMarks;
    use super::super::keys::Keys;
    use super::*;

    #[test]
    fn the_last_target_counts_and_the_oldest_are_forgotten() {
        let marks = DialogMarks::new(&Keys::from_bytes([1; 32]));
        let [one, other] =
            ["sip:a@192.0.2.1", "sip:a@192.0.2.2"].map(|uri| marks.remote_target(uri));
        let mut targets = RefreshedTargets::default();
        assert_eq!(targets.find(0), None);
        let number = MINIMUM as u64;
        for side in 0..number {
            targets.note(side, one);
        }
        targets.note(0, other);
        assert_eq!(targets.find(0), Some(other));
        for side in number..2 * number {
            targets.note(side, one);
        }
        assert_eq!(targets.find(0), Some(other));
        targets.note(0, one);
        assert_eq!(targets.find(0), Some(one));
        assert_eq!(targets.find(1), None);
        assert_eq!(targets.find(number), Some(one));
        assert_eq!(targets.young.len() + targets.old.len(), MINIMUM + 1);
    }
}
