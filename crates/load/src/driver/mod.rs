//! Joins engines to the network.

mod carrier;
