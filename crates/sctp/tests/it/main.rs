//! The integration tests of `sctp`, all in one program: each module is a topic.

mod address_reconfiguration;
mod authentication;
mod chunks;
mod common;
mod handshake;
mod hostile;
mod known_peer;
mod lock_up;
mod loss;
mod loss_recovery;
mod multihoming;
mod multipath;
mod nr_sack;
mod packet;
mod partial_delivery;
mod partial_reliability;
mod path_mtu;
mod re_configuration;
mod receive_budget;
mod rfc8260;
mod rfc9260;
mod settings;
mod shutdown;
mod transfer;
mod window;
mod zero_checksum;
