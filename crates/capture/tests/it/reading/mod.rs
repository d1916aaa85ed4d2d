//! From capture files to their events.

pub(crate) mod build;
mod connections;
mod damage;
mod files;
mod fragments;
mod hep;
mod m3ua;
mod recorded;
mod sctp_extensions;
mod secure_streams;
mod summaries;
mod tunnels;
mod user_messages;
