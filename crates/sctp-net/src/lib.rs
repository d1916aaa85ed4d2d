//! Driver: carries SCTP packets in UDP (RFC 6951), with an async API.
#![forbid(unsafe_code)]
