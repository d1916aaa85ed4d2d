//! How a link treats packets.

use crate::link_words::LinkWords;
use crate::{Bottleneck, Chance, Corruption, Jitter, Loss, Reordering};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// How a link treats packets. The default is a perfect link: everything arrives at once.
///
/// In files it is a table of words, see [`LinkWords`].
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(try_from = "LinkWords", into = "LinkWords")]
pub struct LinkConfig {
    /// How much the link carries a second; `None` when that is without limit.
    pub bottleneck: Option<Bottleneck>,
    /// Which packets are lost on their way.
    pub loss: Loss,
    /// Which packets arrive with flipped bits.
    pub corrupt: Corruption,
    /// How likely a packet that is not lost arrives twice.
    pub duplicate: Chance,
    /// Time that every packet takes, once it has left.
    pub delay: Duration,
    /// How much that varies.
    pub jitter: Jitter,
    /// Which packets take no delay, and so overtake others.
    pub reorder: Reordering,
}
