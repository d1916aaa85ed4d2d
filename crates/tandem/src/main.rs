//! The command line, nothing else.
#![forbid(unsafe_code)]

fn main() {}
