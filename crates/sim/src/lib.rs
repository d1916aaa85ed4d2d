//! Driver: the link model between simulated hosts, on a virtual clock.
#![forbid(unsafe_code)]
