//! The message flows of RFC 3665, each from the point of view of a user agent in it: what the other side says is fed as the
//! RFC has it, what we say is compared with what the RFC has at that place.

mod flow;
mod registration;
mod session;
