//! Connections and associations: each by itself, and the table of all with its limits.

mod accepted;
mod address_book;
mod connection;
mod table;
mod traffic;

pub(crate) use accepted::source;
pub(crate) use connection::{Connection, Flush, OpenedBy};
pub(crate) use table::Connections;

#[cfg(test)]
mod tests;
