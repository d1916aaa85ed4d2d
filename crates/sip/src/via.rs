//! Via values (RFC 3261 section 20.42).

use std::net::IpAddr;

use crate::{Host, Parameters, Transport};

/// Why a value is not a Via's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed Via")]
pub struct ViaError;

/// One Via value, borrowed from its message.
#[derive(Clone, Copy, Debug)]
pub struct Via<'a> {
    transport: &'a str,
    host: Host<'a>,
    port: Option<u16>,
    parameters: Parameters<'a>,
}

impl<'a> Via<'a> {
    /// Parses one value.
    pub fn parse(_value: &'a [u8]) -> Result<Via<'a>, ViaError> {
        todo!()
    }

    /// The transport's name as written.
    pub fn transport_name(&self) -> &'a str {
        self.transport
    }

    /// The transport, where it is one of those that we know.
    pub fn transport(&self) -> Option<Transport> {
        Transport::from_via_name(self.transport)
    }

    /// The host of sent-by.
    pub fn host(&self) -> Host<'a> {
        self.host
    }

    /// The port of sent-by, where one is written.
    pub fn port(&self) -> Option<u16> {
        self.port
    }

    /// The branch parameter (RFC 3261 section 8.1.1.7).
    pub fn branch(&self) -> Option<&'a str> {
        self.parameters.get("branch")
    }

    /// The received parameter: the address that the request came from (RFC 3261 section 18.2.1).
    pub fn received(&self) -> Option<IpAddr> {
        todo!()
    }

    /// Whether there is an rport parameter, with or without a value (RFC 3581).
    pub fn has_rport(&self) -> bool {
        self.parameters.contains("rport")
    }

    /// The value of the rport parameter: the port that the request came from (RFC 3581).
    pub fn rport(&self) -> Option<u16> {
        self.parameters.get("rport")?.parse().ok()
    }

    /// The maddr parameter as written.
    pub fn maddr(&self) -> Option<&'a str> {
        self.parameters.get("maddr")
    }

    /// All parameters.
    pub fn parameters(&self) -> Parameters<'a> {
        self.parameters
    }

    /// The value of a parameter, "" where it has none; `None` where it is not there.
    pub fn parameter(&self, name: &str) -> Option<&'a str> {
        self.parameters.get(name)
    }
}
