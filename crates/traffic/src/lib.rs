//! Raw traffic by plan.
#![forbid(unsafe_code)]
