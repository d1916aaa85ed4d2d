//! User agents that talk to each other over a network of their own, on a virtual clock.

mod calls;
mod faults;
mod hostile;
mod network;
mod outbound;
mod registrations;
mod rfc3665;
mod secrecy;
mod sessions;
mod texts;
mod transfers;
