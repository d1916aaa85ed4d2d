//! Settings.

use std::path::PathBuf;
use std::time::Duration;

use media::codec::Codec;
use media::tones::Country;
use sip::Transport;
use sip_net::SipNetConfig;
use ua::{AccountConfig, UaConfig};

use crate::device::Source;
use crate::media_config::MediaConfig;
use crate::mixing::Output;

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
    /// How media are protected, found and missed.
    pub media: MediaConfig,
    /// What is sent in calls.
    pub source: Source,
    /// Where calls and the tones of their progress are heard.
    pub output: Output,
    /// Whose tones they are.
    pub country: Country,
    /// From one [`Quality`](crate::PhoneEvent::Quality) of a call to the next.
    pub quality_interval: Duration,
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
        let mut net = SipNetConfig::default();
        // An association goes on when this host gets another address (RFC 5061).
        net.sctp.association.extensions.address_reconfiguration = true;
        PhoneConfig {
            accounts,
            ua: UaConfig::default(),
            net,
            transport: None,
            codecs: Codec::ALL.to_vec(),
            media: MediaConfig::default(),
            source: Source::Null,
            output: Output::Null,
            country: Country::default(),
            quality_interval: Duration::from_secs(5),
            recording: None,
            answers: false,
            accepts_transfers: false,
            is_attended: false,
            seed,
        }
    }
}
