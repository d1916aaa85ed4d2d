//! User agents that talk to each other over a network of their own, on a virtual clock.

mod calls;
mod faults;
mod network;
mod registrations;
mod sessions;
mod texts;
mod transfers;
