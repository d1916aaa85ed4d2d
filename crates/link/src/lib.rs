//! Core: what a network link does to packets.
//!
//! A [`Link`] is one direction of a link. It sees sizes, classes and times, never contents, and answers
//! each packet with a [`Verdict`]: when it arrives, if it does, how often, and with which bits flipped.
//! It holds no packet and reads no clock, so the same model serves sockets, simulations and routers.
//!
//! Every impairment is a part of its own, with random numbers of its own. They act in this order:
//!
//! 1. changes of the [`Schedule`] whose time has come are made, and a link that is down takes nothing,
//! 2. queue and rate ([`Bottleneck`]): what finds no room is dropped, or what the management of the
//!    queue chooses, if that does not mark it; the rest leaves in its turn,
//! 3. [`Loss`] of what has left,
//! 4. duplication of what is not lost,
//! 5. [`Corruption`], of each copy by itself,
//! 6. delay with [`Jitter`], of each copy by itself, but for what goes ahead ([`Reordering`]),
//! 7. order: unless jitter may reorder, no copy arrives before one that was sent earlier, but for what
//!    goes ahead.
//!
//! Each packet has the same random numbers in every part, by its number. So the seed and the number
//! of a packet alone fix its fate, but for what depends on the packets before it (queue, correlation,
//! models with states): whether it is lost or duplicated and how much jitter it meets, whatever the
//! sizes and times are, and whichever other parts are switched on.
//!
//! All decisions are taken when the packet is offered, since in a queue that serves first who came first
//! they depend on earlier packets alone. [`CoDel`] says where that is not quite so.
//!
//! People write all this in [`words`]; [`LinkWords`] is the table that files and command lines share.
#![forbid(unsafe_code)]

mod alteration;
mod bottleneck;
mod chance;
mod codel;
mod config;
mod corruption;
mod distribution;
mod drd;
mod duplication;
mod histogram;
mod jitter;
mod line;
mod link;
mod link_words;
mod loss;
mod normal;
mod order;
mod packet;
mod queue;
mod queue_length;
mod random;
mod red;
mod reordering;
mod schedule;
mod statistics;
mod table;
mod time;
mod trace;
mod verdict;
pub mod words;

pub use alteration::{Alteration, MAX_FLIPPED_BITS};
pub use bottleneck::{Bottleneck, MAX_QUEUE_PACKETS, Management, Rate};
pub use chance::Chance;
pub use codel::CoDel;
pub use config::LinkConfig;
pub use corruption::Corruption;
pub use distribution::Distribution;
pub use drd::Drd;
pub use histogram::DelayHistogram;
pub use jitter::Jitter;
pub use link::Link;
pub use link_words::LinkWords;
pub use loss::{FourStates, GilbertElliott, Loss, PacketNumbers, Pattern, Periodic};
pub use packet::Packet;
pub use queue_length::Unit;
pub use red::Red;
pub use reordering::Reordering;
pub use schedule::{PeriodWords, Schedule};
pub use statistics::{LinkStatistics, QueueLength};
pub use table::{MAX_TABLE_VALUES, Table};
pub use trace::{MAX_OPPORTUNITIES, OPPORTUNITY_BYTES, Trace};
pub use verdict::{Delivery, DropCause, Verdict};
pub use words::WordsError;
