//! What an operator has changed in a file that is in use.

use std::collections::{BTreeMap, BTreeSet};

use super::reader::Key;

/// The keys whose values differ between two readings of the file, each in the order of their names. Listeners, routes and
/// members are counted as they stand in the file: what is put before others moves them on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Those that take effect while the server runs.
    pub at_once: Vec<String>,
    /// Those that wait for the next start.
    pub at_restart: Vec<String>,
}

impl Changes {
    pub(super) fn between(older: &[Key], newer: &[Key]) -> Changes {
        // A key without a value is as good as one that is not there.
        let values = |keys: &[Key]| -> BTreeMap<String, (String, bool)> {
            let entry = |key: &Key| Some((key.path.clone(), (key.value.clone()?, key.is_live)));
            keys.iter().filter_map(entry).collect()
        };
        let (older, newer) = (values(older), values(newer));
        let mut changes = Changes::default();
        let gone = older.iter().filter(|(path, _)| !newer.contains_key(*path));
        let differs = newer
            .iter()
            .filter(|(path, new)| older.get(*path).map(|(value, _)| value) != Some(&new.0));
        for (path, (_, is_live)) in gone.chain(differs) {
            match is_live {
                true => changes.at_once.push(path.clone()),
                false => changes.at_restart.push(path.clone()),
            }
        }
        let waiting = changes.waiting_listeners();
        let waits = |path: &mut String| is_of(path, &waiting);
        changes
            .at_restart
            .extend(changes.at_once.extract_if(.., waits));
        changes.at_once.sort();
        changes.at_restart.sort();
        changes
    }

    /// What is in use once what takes effect at once has done so: of the older keys those that wait, of the newer ones the
    /// others.
    pub(super) fn taken_over(&self, older: &[Key], newer: &[Key]) -> Vec<Key> {
        let listeners = self.waiting_listeners();
        let waits = |key: &&Key| !key.is_live || is_of(&key.path, &listeners);
        let waiting = older.iter().filter(waits);
        let taken_over = newer.iter().filter(|key| !waits(key));
        waiting.chain(taken_over).cloned().collect()
    }

    /// The listeners that wait for the next start, and with them what they show.
    fn waiting_listeners(&self) -> BTreeSet<String> {
        let of_listeners = self.at_restart.iter().filter_map(|path| listener(path));
        of_listeners.map(str::to_owned).collect()
    }

    /// Whether nothing has changed.
    pub fn is_empty(&self) -> bool {
        self.at_once.is_empty() && self.at_restart.is_empty()
    }
}

/// The listener that a key is about, as the file counts them.
fn listener(path: &str) -> Option<&str> {
    let (listener, _) = path.split_once('.')?;
    listener.starts_with("listener[").then_some(listener)
}

fn is_of(path: &str, listeners: &BTreeSet<String>) -> bool {
    listener(path).is_some_and(|listener| listeners.contains(listener))
}
