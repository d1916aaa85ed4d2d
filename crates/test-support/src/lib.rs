//! What the tests share: real peers from Debian's packages.
#![forbid(unsafe_code)]
