//! Each part of a link against its law: with fixed seeds, and bounds that a right part exceeds once in
//! millions of seeds.

mod hostile;
mod impairments;
mod jitter;
mod losses;
mod management;
mod queue;
mod schedule;
mod support;
mod words;
