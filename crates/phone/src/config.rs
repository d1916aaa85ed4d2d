//! Settings.

use std::path::PathBuf;

use media::codec::Codec;
use sip::Transport;
use sip_net::SipNetConfig;
use ua::{AccountConfig, UaConfig};

use crate::device::Source;

/// Settings of a phone.
#[derive(Debug)]
pub struct PhoneConfig {
    /// The accounts; commands name them by their place.
    pub accounts: Vec<AccountConfig>,
    /// The user agent.
    pub ua: UaConfig,
    /// Transports and where they listen.
    pub net: SipNetConfig,
    /// The transport of URIs that name none.
    pub transport: Option<Transport>,
    /// The codecs, the preferred ones first.
    pub codecs: Vec<Codec>,
    /// What is sent in calls.
    pub source: Source,
    /// Where what is heard is written; of several calls, the first one's.
    pub recording: Option<PathBuf>,
    /// Whether calls are answered at once.
    pub answers: bool,
    /// Whether the transfers that others ask for are done without asking. They call whom they like by it, at the cost of
    /// this account.
    pub accepts_transfers: bool,
    /// Whether somebody is there who can be asked for a transfer; otherwise it is refused at once.
    pub is_attended: bool,
    /// Of tags, ports and sources.
    pub seed: [u8; 32],
}

impl PhoneConfig {
    /// A phone of these accounts, with everything else as it usually is.
    pub fn new(accounts: Vec<AccountConfig>, seed: [u8; 32]) -> PhoneConfig {
        PhoneConfig {
            accounts,
            ua: UaConfig::default(),
            net: SipNetConfig::default(),
            transport: None,
            codecs: Codec::ALL.to_vec(),
            source: Source::Null,
            recording: None,
            answers: false,
            accepts_transfers: false,
            is_attended: false,
            seed,
        }
    }
}
