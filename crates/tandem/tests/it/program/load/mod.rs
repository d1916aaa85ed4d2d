//! `tandem load` as a person runs it, short.

mod arguments;
mod background;
mod calls;
mod capacity;
mod files;
mod keys;
mod listed;
mod options;
mod registrars;
mod security;
mod twins;

use std::process::Output;

use crate::program::support::{Proxy, tandem};

/// Runs `tandem load` with these arguments against a port of the proxy.
fn load(command: &str, proxy: &Proxy, transport: &str, arguments: &[&str]) -> Output {
    let via = format!("127.0.0.1:{}", proxy.port(transport));
    tandem()
        .args(["load", command, "--via", &via, "--transport", transport])
        .args([
            "--peer-encapsulation-port",
            &proxy.encapsulation_port().to_string(),
        ])
        .args(arguments)
        .output()
        .expect("it runs")
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}
