//! What an operator has changed in a file that is in use.

use std::collections::{BTreeMap, BTreeSet};

use super::reader::Key;

/// The keys whose values differ between two readings of the file, each in the order of their names.
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
        // What a listener shows waits for the listener.
        let waiting: BTreeSet<String> = listeners(&changes.at_restart).collect();
        let waits = |path: &mut String| listener(path).is_some_and(|it| waiting.contains(it));
        changes
            .at_restart
            .extend(changes.at_once.extract_if(.., waits));
        changes.at_once.sort();
        changes.at_restart.sort();
        changes
    }

    /// Whether nothing has changed.
    pub fn is_empty(&self) -> bool {
        self.at_once.is_empty() && self.at_restart.is_empty()
    }
}

/// The listeners that these keys are about.
fn listeners(paths: &[String]) -> impl Iterator<Item = String> {
    paths
        .iter()
        .filter_map(|path| listener(path))
        .map(str::to_owned)
}

/// The listener that a key is about, as the file counts them.
fn listener(path: &str) -> Option<&str> {
    let (listener, _) = path.split_once('.')?;
    listener.starts_with("listener[").then_some(listener)
}
