//! Whom the users talk to, as the command line names it.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use std::sync::Arc;

use anyhow::Context;
use sip::{Peer, Transport};

use crate::target::Target;

/// The proxy or server: a target that is one host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Server {
    /// A name or an address, the latter without brackets.
    pub(super) host: String,
    pub(super) port: Option<u16>,
    /// What the URI says of the transport.
    pub(super) transport: Option<Transport>,
}

impl FromStr for Server {
    type Err = String;

    fn from_str(text: &str) -> Result<Server, String> {
        let target: Target = text.parse()?;
        Ok(Server {
            host: target.host()?.to_owned(),
            port: target.port,
            transport: target.transport,
        })
    }
}

impl Server {
    /// Who is expected there, where more is known than the address: the name that a certificate has to show.
    pub(super) fn peer(&self) -> Option<Arc<Peer>> {
        self.host.parse::<IpAddr>().is_err().then(|| {
            Arc::new(Peer {
                name: Some(self.host.as_str().into()),
                addresses: Vec::new(),
            })
        })
    }

    /// The server's address: that of the family asked for where the name has several.
    pub(super) async fn resolve(
        &self,
        transport: Transport,
        local: Option<IpAddr>,
    ) -> anyhow::Result<SocketAddr> {
        let port = self.port.unwrap_or_else(|| transport.default_port());
        let addresses = tokio::net::lookup_host((self.host.as_str(), port))
            .await
            .with_context(|| format!("cannot find {}", self.host))?;
        let fits =
            |address: &SocketAddr| local.is_none_or(|local| local.is_ipv4() == address.is_ipv4());
        addresses
            .into_iter()
            .find(fits)
            .with_context(|| match local {
                Some(local) => format!("{} has no address of the kind of {local}", self.host),
                None => format!("{} has no address", self.host),
            })
    }
}

impl fmt::Display for Server {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.parse::<IpAddr>() {
            Ok(IpAddr::V6(address)) => write!(formatter, "[{address}]")?,
            _ => formatter.write_str(&self.host)?,
        }
        match self.port {
            Some(port) => write!(formatter, ":{port}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(text: &str) -> (String, Option<u16>, Option<Transport>) {
        let server: Server = text.parse().unwrap();
        (server.host, server.port, server.transport)
    }

    #[test]
    fn servers_are_uris_or_hosts() {
        let named = |host: &str, port, transport| (host.to_owned(), port, transport);
        assert_eq!(server("127.0.0.1"), named("127.0.0.1", None, None));
        assert_eq!(server("[::1]:5070"), named("::1", Some(5070), None));
        assert_eq!(
            server("sip:proxy.example:5070;transport=tcp"),
            named("proxy.example", Some(5070), Some(Transport::Tcp))
        );
        assert_eq!(
            server("tcp:proxy.example:5070"),
            server("sip:proxy.example:5070;transport=tcp")
        );
        assert_eq!(server("sips:proxy.example").2, Some(Transport::Tls));
        assert_eq!(
            server("sips:proxy.example;transport=sctp").2,
            Some(Transport::TlsSctp)
        );
    }

    #[test]
    fn what_is_no_server_is_said() {
        for wrong in [
            "",
            "sip:",
            "tel:+431",
            "sip:alice@127.0.0.1",
            "127.0.0.1:99999",
            "sip:127.0.0.1;transport=pigeon",
            "sips:127.0.0.1;transport=udp",
            "a b",
            "a,b",
        ] {
            assert!(wrong.parse::<Server>().is_err(), "{wrong}");
        }
    }
}
