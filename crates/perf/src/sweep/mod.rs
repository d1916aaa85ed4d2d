//! The test of message sizes of Pang 2003: UDP, TCP and SCTP from 64 to 65,536 bytes.

mod page;
mod table;

use serde::Serialize;
use tokio::sync::watch;

use report::{Document, Machine, Period, Stopwatch};

use crate::client::{self, ClientConfig};
use crate::parameters::limits;
use crate::result::TestResult;
use crate::server_process::ServerProcess;
use crate::{CarrierConfig, Limit, Over, PAYLOAD_SEED, Protocol, TestParameters};

/// The sizes that are swept unless others are given: powers of two, as with ttcp.
pub const SIZES: [usize; 11] = [
    64, 128, 256, 512, 1024, 2048, 4096, 8192, 16_384, 32_768, 65_536,
];

/// The settings of a sweep.
#[derive(Clone, Debug)]
pub struct SweepConfig {
    /// Message sizes, bytes.
    pub sizes: Vec<usize>,
    /// Length of each test, seconds.
    pub seconds: f64,
    /// What carries SCTP.
    pub carrier: CarrierConfig,
}

/// What was asked of a sweep, for its document.
#[derive(Clone, Debug, Serialize)]
pub struct SweepParameters {
    /// Message sizes, bytes.
    pub sizes_bytes: Vec<usize>,
    /// Length of each test, seconds.
    pub seconds: f64,
    /// What carried SCTP.
    pub over: Over,
    /// UDP goes as fast as it can.
    pub udp_bitrate: &'static str,
    /// Small messages leave at once, over TCP and SCTP.
    pub nodelay: bool,
}

/// What a sweep measured.
#[derive(Clone, Debug)]
pub struct Sweep {
    parameters: SweepParameters,
    machine: Machine,
    period: Period,
    /// For each size, the transports in their order.
    runs: Vec<TestResult>,
}

/// The largest message that a transport takes of those asked for: a UDP datagram ends before 65,536.
pub(crate) fn size_over(protocol: Protocol, size: usize) -> usize {
    match protocol {
        Protocol::Udp => size.min(limits::MAX_UDP_SIZE),
        Protocol::Tcp | Protocol::Sctp => size,
    }
}

/// The test of one size over one transport: as fast as it goes, one flow, no Nagle algorithm (the
/// published one had it off, too).
pub(crate) fn test_of(protocol: Protocol, size: usize, seconds: f64) -> TestParameters {
    TestParameters {
        size: size_over(protocol, size),
        limit: Limit::Seconds(seconds),
        bitrate: None,
        nodelay: protocol != Protocol::Udp,
        ..TestParameters::new(protocol)
    }
}

impl SweepConfig {
    /// Whether all tests make sense.
    ///
    /// # Errors
    ///
    /// Says what does not.
    pub fn check(&self) -> Result<(), String> {
        if self.sizes.is_empty() {
            return Err("no size was given".into());
        }
        for &size in &self.sizes {
            for protocol in Protocol::ALL {
                test_of(protocol, size, self.seconds).check()?;
            }
        }
        Ok(())
    }
}

/// Runs all tests against `server`, which listens for all transports. `on_run` is told each result. An
/// interrupt ends the sweep; the results so far remain.
///
/// # Errors
///
/// When a test cannot be run.
pub async fn sweep(
    config: &SweepConfig,
    server: &ServerProcess,
    mut interrupts: client::Interrupts,
    mut on_run: impl FnMut(&TestResult),
) -> anyhow::Result<Sweep> {
    let stopwatch = Stopwatch::start();
    let mut runs = Vec::new();
    'sizes: for &size in &config.sizes {
        for protocol in Protocol::ALL {
            if *interrupts.borrow_and_update() > 0 {
                break 'sizes;
            }
            let (target, encapsulation_port) = server.target(protocol)?;
            let mut carrier = config.carrier.clone();
            if let Some(port) = encapsulation_port {
                carrier.peer_encapsulation_port = port;
            }
            let client = ClientConfig {
                target,
                test: test_of(protocol, size, config.seconds),
                carrier,
                local_addresses: Vec::new(),
                may_test: Vec::new(),
            };
            let run = client::run(&client, follow(&interrupts), |_| {}).await?;
            on_run(&run);
            runs.push(run);
        }
    }
    Ok(Sweep {
        parameters: SweepParameters {
            sizes_bytes: config.sizes.clone(),
            seconds: config.seconds,
            over: config.carrier.over,
            udp_bitrate: "unlimited",
            nodelay: true,
        },
        machine: Machine::detect(),
        period: stopwatch.period(),
        runs,
    })
}

/// The same interrupts for one more test.
fn follow(interrupts: &client::Interrupts) -> watch::Receiver<u32> {
    interrupts.clone()
}

impl Sweep {
    /// Whether a test went wrong.
    pub fn has_errors(&self) -> bool {
        self.runs.iter().any(|run| !run.errors.is_empty())
    }

    /// The table for a terminal of this many columns.
    pub fn to_terminal(&self, width: usize) -> String {
        table::table(self).to_terminal(width)
    }

    /// The page; `command` repeats the sweep.
    pub fn to_html(&self, command: &str) -> String {
        page::page(self, command).to_html()
    }

    /// The document.
    ///
    /// # Errors
    ///
    /// When a value does not serialise.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        let parameters = self.parameters.clone();
        Document::new(
            self.machine.clone(),
            PAYLOAD_SEED,
            parameters,
            self.runs.clone(),
        )
        .to_json()
    }

    /// How many tests there were to be.
    fn planned(&self) -> usize {
        self.parameters.sizes_bytes.len() * Protocol::ALL.len()
    }

    /// The result of a transport at a size.
    fn run(&self, protocol: Protocol, size: usize) -> Option<&TestResult> {
        self.runs
            .iter()
            .find(|run| run.protocol == protocol && run.size_bytes == size_over(protocol, size))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documents_sizes_can_be_swept() {
        let config = SweepConfig {
            sizes: SIZES.to_vec(),
            seconds: 1.0,
            carrier: CarrierConfig {
                over: Over::Udp,
                encapsulation_port: 0,
                peer_encapsulation_port: 9899,
                kernel_kept_away: false,
                workers: 1,
                tap: None,
            },
        };
        assert_eq!(config.check(), Ok(()));
        let none = SweepConfig {
            sizes: Vec::new(),
            ..config.clone()
        };
        assert!(none.check().is_err());
        let tiny = SweepConfig {
            sizes: vec![8],
            ..config
        };
        assert!(tiny.check().unwrap_err().contains("udp"));
    }

    #[test]
    fn a_datagram_is_as_large_as_datagrams_get() {
        assert_eq!(size_over(Protocol::Udp, 65_536), 65_507);
        assert_eq!(size_over(Protocol::Sctp, 65_536), 65_536);
    }
}
