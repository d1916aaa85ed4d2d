//! What phones of any make are told.

use crate::interop::proxy::DOMAIN;

/// A user, as a phone is set up for it.
#[derive(Clone, Debug)]
pub(crate) struct Account {
    pub(crate) user: String,
    /// The domain of the address of record, with a port where it is no name.
    pub(crate) domain: String,
    pub(crate) transport: String,
    /// The port of the user's server on loopback, through which everything goes.
    pub(crate) server_port: u16,
}

impl Account {
    /// A user of the proxy under test.
    pub(crate) fn new(user: &str, transport: &str, proxy_port: u16) -> Account {
        Account {
            user: user.to_owned(),
            domain: DOMAIN.to_owned(),
            transport: transport.to_owned(),
            server_port: proxy_port,
        }
    }

    /// The address of record.
    pub(crate) fn uri(&self) -> String {
        format!("sip:{}@{}", self.user, self.domain)
    }
}
