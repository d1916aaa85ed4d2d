//! Our proxy, in a process of its own.

use proxy::location::LocationConfig;
use proxy::{ProxyConfig, Server};
use sip_net::SipNetConfig;

use super::Ports;
use crate::transfer::tell;

/// Serves until the process is ended. The three listeners have one port.
pub(crate) fn serve(workers: usize, location: &str) -> anyhow::Result<()> {
    // As the `tandem` program does.
    proxy::use_small_pages();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let port = test_support::free_udp_port();
        let listeners = ["udp", "tcp", "sctp"]
            .map(|transport| format!("{transport}:127.0.0.1:{port}").parse())
            .into_iter()
            .collect::<Result<_, _>>()?;
        let mut server = Server::start(ProxyConfig {
            transports: SipNetConfig {
                listeners,
                encapsulation_port: 0,
                ..SipNetConfig::default()
            },
            location: LocationConfig {
                url: location.parse()?,
                ..LocationConfig::default()
            },
            workers,
            ..ProxyConfig::default()
        })
        .await?;
        let encapsulation = server.encapsulation_addresses();
        tell(&Ports {
            sip: port,
            encapsulation: encapsulation.first().map(|address| address.port()),
        })?;
        server.ended().await;
        anyhow::bail!("the proxy has stopped by itself")
    })
}
