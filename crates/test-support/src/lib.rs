//! What the tests share: real peers from Debian's packages.
//!
//! A test against a real peer asks for what it needs ([`require_command`], [`require_file`]); what
//! is missing is installed when that is possible, else the test prints why it is skipped. Peers run
//! as [`Peer`]s, which end with the test and show what they printed when it fails.
#![forbid(unsafe_code)]

mod baresip;
mod browser;
mod control_group;
mod kamailio;
mod kernel_peer;
mod name_server;
mod namespace;
mod nobody;
mod packages;
mod page;
mod peer;
mod recorder;
mod tshark;
mod wait;

pub use baresip::Baresip;
pub use browser::Browser;
pub use control_group::ControlGroup;
pub use kamailio::Kamailio;
pub use kernel_peer::KernelPeer;
pub use name_server::{NameServer, ZONE};
pub use namespace::Namespace;
pub use nobody::Nobody;
pub use packages::{require_command, require_file, say_skipped};
pub use page::{Opened, open_page, print_page};
pub use peer::Peer;
pub use recorder::Recorder;
pub use tshark::{sip_counts_of_run, sip_counts_of_tshark, tshark};
pub use wait::{free_udp_port, wait_until};
