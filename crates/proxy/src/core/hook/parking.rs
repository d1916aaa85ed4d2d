//! What a hook leaves behind while a message waits for the answer to its query.

use std::any::Any;
use std::fmt;

use crate::core::query::{Answer, Query};

/// What a hook keeps until it is asked again: anything of its own, or nothing. It is dropped where the hook is not asked any
/// more.
#[derive(Default)]
pub struct ParkedState(Option<Box<dyn Any + Send>>);

impl ParkedState {
    /// Keeps a value.
    pub fn new<T: Send + 'static>(value: T) -> ParkedState {
        ParkedState(Some(Box::new(value)))
    }

    /// The value, where one of this type was kept.
    pub fn into_inner<T: 'static>(self) -> Option<T> {
        let value = self.0?.downcast().ok()?;
        Some(*value)
    }
}

impl fmt::Debug for ParkedState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_empty = self.0.is_none();
        f.write_str(if is_empty { "nothing" } else { "a state" })
    }
}

/// What a hook is asked again with.
#[derive(Debug)]
pub struct Resumption<'a> {
    /// The answer to its query.
    pub answer: &'a Answer,
    /// What it has kept.
    pub state: ParkedState,
}

/// A hook that waits for an answer.
#[derive(Debug)]
pub(crate) struct Parking {
    /// Its place among all.
    pub(crate) hook: usize,
    pub(crate) query: Query,
    pub(crate) state: ParkedState,
}

/// A hook that has its answer.
#[derive(Debug)]
pub(crate) struct Resumed {
    /// Its place among all.
    pub(crate) hook: usize,
    pub(crate) answer: Answer,
    pub(crate) state: ParkedState,
}
