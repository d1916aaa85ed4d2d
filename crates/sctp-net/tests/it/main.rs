//! The integration tests of `sctp-net`, all in one program: each module is a topic.

mod accepted;
mod common;
mod extensions;
mod kernel_carrier;
mod kernel_extensions;
mod kernel_peer;
mod lifetime;
mod odd_peers;
mod path_mtu;
mod raw_ip;
mod several_addresses;
mod transfer;
mod usrsctp;
mod usrsctp_paths;
mod workers;
