//! Whole engines on a virtual clock: what calls, registrations and their failures look like from outside.
#![allow(unreachable_pub, reason = "the modules of a test are private")]

mod calls;
mod peers;
mod registrations;
mod world;
