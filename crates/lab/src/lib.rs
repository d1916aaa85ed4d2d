//! Experiments, one file each.
#![forbid(unsafe_code)]
