//! Driver: UDP sockets in batches, with the link model inside them when asked.
#![forbid(unsafe_code)]
