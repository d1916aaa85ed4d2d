//! `tandem net web`.

use std::net::SocketAddr;
use std::process::ExitCode;

use clap::Args;
use serde_json::json;
use testbed::state::Directory;
use testbed::web::Web;
use tokio::signal::unix::{SignalKind, signal};

use super::Which;

/// Serve a page that shows and changes the network, until Ctrl-C.
///
/// The printed address contains a token, which allows changes to the network. The page is served on this machine
/// only, and uses no other server.
#[derive(Args, Debug)]
pub(super) struct Arguments {
    /// Where to listen, an address of loopback; port 0 lets the system choose
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:0")]
    listen: SocketAddr,

    #[command(flatten)]
    which: Which,
}

/// Serves the page.
pub(super) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let directory = Directory::of_user()?;
    let network = directory.find(arguments.which.net.as_deref())?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let web = Web::bind(arguments.listen, directory.control(&network.name)).await?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let url = web.url();
        let value = json!({ "url": url, "address": web.address(), "token": web.token() });
        arguments.which.say(&value, || {
            format!(
                "{} is at {url}\nCtrl-C ends the page; the network stays.",
                network.name
            )
        })?;
        tokio::select! {
            () = web.serve() => {}
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        Ok(ExitCode::SUCCESS)
    })
}
