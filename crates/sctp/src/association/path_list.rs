//! The list of an association's paths, which are found by their [`PathId`]s.

use std::time::Instant;

use super::path::Path;
use super::path_id::PathId;
use crate::congestion::CoupledPaths;

/// The paths of an association, in the order in which they were added. They are few: looking at one after
/// another finds one.
#[derive(Debug)]
pub(crate) struct Paths {
    /// Ascending by [`PathId`].
    list: Vec<Path>,
    /// What the next path is named; `None` when all names are used up.
    next_id: Option<PathId>,
    /// Bytes of the AUTH chunk that packets with user data carry beside it.
    auth_length: usize,
    /// What coupled congestion controllers know of each other.
    coupled: CoupledPaths,
}

impl Paths {
    /// No path yet.
    pub(crate) fn new() -> Paths {
        Paths {
            list: Vec::new(),
            next_id: Some(PathId::FIRST),
            auth_length: 0,
            coupled: CoupledPaths::default(),
        }
    }

    /// Adds the path that `make` gives for a new id; `None` when there is no new one any more.
    pub(crate) fn add(&mut self, make: impl FnOnce(PathId) -> Path) -> Option<PathId> {
        let id = self.next_id?;
        self.next_id = id.next();
        self.list.push(make(id));
        Some(id)
    }

    /// Removes the path of that id; all others keep their ids.
    pub(crate) fn remove(&mut self, id: PathId) {
        self.list.retain(|path| path.id() != id);
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    /// The path of that id, unless it was removed.
    #[inline]
    pub(crate) fn get(&self, id: PathId) -> Option<&Path> {
        self.list.iter().find(|path| path.id() == id)
    }

    /// The same, to be changed.
    #[inline]
    pub(crate) fn get_mut(&mut self, id: PathId) -> Option<&mut Path> {
        self.list.iter_mut().find(|path| path.id() == id)
    }

    /// Bytes of the AUTH chunk that packets with user data carry beside it; 0 without one.
    pub(crate) fn auth_length(&self) -> usize {
        self.auth_length
    }

    /// Packets with user data carry an AUTH chunk of so many bytes from now on.
    pub(crate) fn set_auth_length(&mut self, length: usize) {
        self.auth_length = length;
    }

    /// All paths.
    pub(crate) fn as_slice(&self) -> &[Path] {
        &self.list
    }

    /// All paths, one after another.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Path> {
        self.list.iter()
    }

    /// The same, to be changed.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Path> {
        self.list.iter_mut()
    }

    /// The path of that id, and what coupled controllers know of all paths `now`.
    pub(crate) fn get_mut_coupled(
        &mut self,
        id: PathId,
        now: Instant,
    ) -> Option<(&mut Path, &CoupledPaths)> {
        self.refresh_coupled(now);
        let path = self.list.iter_mut().find(|path| path.id() == id)?;
        Some((path, &self.coupled))
    }

    /// All paths, and what coupled controllers know of them `now`.
    pub(crate) fn iter_mut_coupled(
        &mut self,
        now: Instant,
    ) -> (impl Iterator<Item = &mut Path>, &CoupledPaths) {
        self.refresh_coupled(now);
        (self.list.iter_mut(), &self.coupled)
    }

    fn refresh_coupled(&mut self, now: Instant) {
        self.coupled
            .refresh(self.list.iter().filter_map(|path| path.coupled(now)));
    }

    /// The path after `id`, which may have been removed; the first one after `None`. A loop by it goes
    /// on whatever it does to the paths.
    pub(crate) fn next_after(&self, id: Option<PathId>) -> Option<PathId> {
        let position = self.list.partition_point(|path| Some(path.id()) <= id);
        self.list.get(position).map(Path::id)
    }

    /// The next path after `id` that the SACK has proved to work.
    pub(crate) fn next_proved_after(&self, id: Option<PathId>) -> Option<PathId> {
        let proved = self.list.iter().filter(|path| path.was_proved());
        proved.map(Path::id).find(|path| Some(*path) > id)
    }

    /// The path whose turn it is after `id`: the first one follows the last one.
    pub(crate) fn next_in_turn(&self, id: Option<PathId>) -> Option<PathId> {
        self.next_after(id).or_else(|| self.next_after(None))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AssociationConfig, PathAddress, PathState};

    fn add(paths: &mut Paths, host: u8) -> PathId {
        let address = PathAddress {
            local: None,
            remote: [192, 0, 2, host].into(),
            encapsulation_port: None,
        };
        paths
            .add(|id| {
                Path::new(
                    id,
                    address,
                    PathState::Active,
                    &AssociationConfig::default(),
                )
            })
            .expect("few were added")
    }

    #[test]
    fn a_removed_path_leaves_the_others_their_ids() {
        let mut paths = Paths::new();
        let [first, second, third] = [1, 2, 3].map(|host| add(&mut paths, host));
        let remote = |paths: &Paths, id| paths.get(id).map(|path| path.address().remote);
        let before = [first, third].map(|id| remote(&paths, id));
        paths.remove(second);
        assert_eq!([first, third].map(|id| remote(&paths, id)), before);
        assert!(paths.get_mut(second).is_none());
        assert_eq!(paths.next_after(Some(second)), Some(third));
        assert_eq!(paths.next_in_turn(Some(third)), Some(first));

        paths.remove(third);
        let again = add(&mut paths, 3);
        assert!(![first, second, third].contains(&again), "never used again");
        assert!(paths.get(third).is_none());
        assert_eq!(paths.next_after(None), Some(first));
        assert_eq!(paths.next_after(Some(first)), Some(again));
        assert_eq!(paths.next_after(Some(again)), None);
    }

    #[test]
    fn no_path_is_added_when_all_ids_are_used_up() {
        let mut paths = Paths::new();
        let id = add(&mut paths, 1);
        paths.next_id = None;
        let unchanged = paths.add(|_| unreachable!("there is no id for it"));
        assert_eq!(unchanged, None);
        assert_eq!(paths.len(), 1);
        assert!(paths.get(id).is_some());
    }
}
