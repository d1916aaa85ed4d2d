//! Concurrent multipath transfer: data over several paths at a time.

pub(crate) mod links;

mod fairness;
mod goals;
mod grid;
mod random_faults;
mod redundant;
