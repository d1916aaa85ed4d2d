//! Settings.

use std::fmt;
use std::time::Duration;

use sip::transaction::TransactionConfig;

/// Settings of a user agent.
#[derive(Clone, Debug)]
pub struct UaConfig {
    /// Timers and bounds of transactions.
    pub transactions: TransactionConfig,
    /// Calls at one time; more are answered 486.
    pub max_calls: usize,
    /// After which time both sides show that they are still there (RFC 4028); at least 90 s.
    pub session_interval: Duration,
    /// What User-Agent and Server say.
    pub product: String,
    /// The URN that names this device, the same one for ever (RFC 5626 section 4.1): with it accounts are registered along a
    /// flow to each outbound proxy (RFC 5626), and have GRUUs (RFC 5627) where the registrar gives them.
    pub instance: Option<String>,
}

impl Default for UaConfig {
    fn default() -> UaConfig {
        UaConfig {
            transactions: TransactionConfig {
                max_transactions: 1_000,
                max_octets: 16 << 20,
                ..TransactionConfig::default()
            },
            max_calls: 64,
            session_interval: Duration::from_secs(1800),
            product: "tandem".to_owned(),
            instance: None,
        }
    }
}

/// A user of a SIP service.
#[derive(Clone, Debug)]
pub struct AccountConfig {
    /// The address of record: a SIP or SIPS URI without angle brackets.
    pub address_of_record: String,
    /// The name that is shown to others.
    pub display_name: Option<String>,
    /// What is answered when a server asks who we are.
    pub credentials: Option<Credentials>,
    /// URIs that requests outside of a dialog go to first, the preferred one first; without any they go where their own URI
    /// leads. One with `lr` is named in a Route. Up to four are registered with if the device has an
    /// [instance](UaConfig::instance), else the first one only.
    pub outbound_proxies: Vec<String>,
    /// Whether Contacts show a temporary GRUU, which does not tell who the user is (RFC 5627 section 3.2), in place of the
    /// public one.
    pub hides_user: bool,
    /// For how long a registration is asked for, in seconds.
    pub expires: u32,
}

impl AccountConfig {
    /// The account of an address of record, with everything else as it usually is.
    pub fn new(address_of_record: impl Into<String>) -> AccountConfig {
        AccountConfig {
            address_of_record: address_of_record.into(),
            display_name: None,
            credentials: None,
            outbound_proxies: Vec::new(),
            hides_user: false,
            expires: 600,
        }
    }
}

/// A name and its password.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The name in the realm.
    pub username: String,
    /// The password.
    pub password: String,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Passwords do not belong into logs.
        write!(formatter, "Credentials({})", self.username)
    }
}
