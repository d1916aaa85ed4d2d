//! From the events of captures to calls, delays and losses.

mod bounds;
mod calls;
mod cases;
mod metrics;
mod published;
mod rtp;
mod script;
mod several_files;
