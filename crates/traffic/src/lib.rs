//! Raw traffic by plan, as the generator of Adnan 2012 sends it: packets of chosen sizes, rates, patterns
//! and contents over UDP, TCP and SCTP, encrypted or not, and what becomes of them.
//!
//! The cores do no I/O: [`Composer`] makes packets, [`Reception`] takes them, [`Echoes`] those that come
//! back, [`Schedule`] says when one leaves. A [`Receiver`] waits for senders, a [`Sender`] is one.
#![forbid(unsafe_code)]

mod cipher;
mod clock;
mod composer;
mod condition;
mod control;
mod encryption;
mod header;
mod interface;
pub mod link_budget;
mod page;
mod payload;
mod plan;
mod receiver;
mod reception;
mod result;
mod schedule;
mod sender;
pub mod table;
pub mod text;
mod work;

/// The port of receivers where none is given; that of `tandem perf` is the one before it.
pub const DEFAULT_PORT: u16 = 5212;

pub use cipher::{Cipher, Forged, Key};
pub use clock::Timestamp;
pub use composer::{Composer, Echoes, Packets};
pub use condition::Condition;
pub use control::{Frames, Order, max_size};
pub use encryption::Encryption;
pub use header::{HEADER_OCTETS, Header, Kind, MAX_PACKET_OCTETS};
pub use interface::Interface;
pub use page::page;
pub use payload::Payload;
pub use plan::{Limit, Rate, RunPlan, link_speed};
pub use receiver::{Receiver, ReceiverConfig, ReceiverEvent};
pub use reception::{ReceiverReport, Reception, Second};
pub use result::{LinkShare, RunResult};
pub use schedule::{Pattern, Schedule};
pub use sender::{Progress, Sender, SenderConfig};
pub use work::Work;
