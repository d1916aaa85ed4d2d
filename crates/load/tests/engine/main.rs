//! Whole engines on a virtual clock: what calls, registrations and their failures look like from outside.

mod calls;
mod world;
