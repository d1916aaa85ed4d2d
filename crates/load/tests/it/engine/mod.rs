//! Whole engines on a virtual clock: what calls, registrations and their failures look like from outside.

mod alone;
mod callees;
mod callers;
mod calls;
mod commands;
mod endings;
mod failovers;
mod forks;
mod hostile;
mod redirections;
mod registrations;
mod sipp;
mod sipp_kinds;
mod sipp_options;
mod world;
