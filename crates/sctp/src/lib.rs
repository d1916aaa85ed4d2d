//! Core: the SCTP protocol engine (RFC 9260).
#![forbid(unsafe_code)]
