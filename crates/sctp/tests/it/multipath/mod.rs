//! Concurrent multipath transfer: data over several paths at a time.

mod links;

mod goals;
mod random_faults;
mod redundant;
