//! The settings of one path: those of its association, or its own.

use crate::{AssociationConfig, PathConfig};

/// What was set for one path alone; for most paths, nothing.
#[derive(Debug, Clone, Default)]
pub(super) struct PathSettings(Option<Box<PathConfig>>);

impl PathSettings {
    /// The settings that hold for the path.
    pub(super) fn in_force<'a>(&'a self, config: &'a AssociationConfig) -> &'a PathConfig {
        self.0.as_deref().unwrap_or(&config.path)
    }

    /// Sets what holds for this path alone, moved to the nearest settings that make sense.
    pub(super) fn set(&mut self, own: PathConfig) {
        self.0 = Some(Box::new(own.bounded()));
    }
}
