//! Driver: SIP transports UDP, TCP and SCTP.
#![deny(unsafe_code)]
