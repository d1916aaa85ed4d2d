//! Bulk transfers over loopback between two processes: what `udp-usrsctp` and `kernel-tcp` have in
//! common.

pub(crate) mod sctp;
pub(crate) mod tcp;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::process::Process;

/// Buffers on both ends of every transfer.
pub(crate) const BUFFER_BYTES: usize = 256 * 1024;

/// The sizes of messages.
pub(crate) const SIZES: [(&str, usize); 4] = [
    ("64B", 64),
    ("1KiB", 1024),
    ("16KiB", 16_384),
    ("64KiB", 65_536),
];

/// What a server says when it can be reached.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Listening {
    pub(crate) port: u16,
}

/// What a server says in the end.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Received {
    pub(crate) bytes: u64,
    pub(crate) cpu_seconds: f64,
}

/// What a client says in the end.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Sent {
    pub(crate) bytes: u64,
    pub(crate) seconds: f64,
    pub(crate) cpu_seconds: f64,
}

/// Waits for both ends of a transfer of about `time`: bytes a second, and CPU seconds a GByte of
/// both ends together.
pub(crate) fn conclude(
    mut server: Process,
    mut client: Process,
    time: Duration,
) -> anyhow::Result<[f64; 2]> {
    let sent: Sent = client.read_report(time)?;
    let received: Received = server.read_report(time)?;
    anyhow::ensure!(
        sent.bytes == received.bytes,
        "{} bytes were sent, {} received",
        sent.bytes,
        received.bytes
    );
    let gbytes = sent.bytes as f64 / 1e9;
    Ok([
        sent.bytes as f64 / sent.seconds,
        (sent.cpu_seconds + received.cpu_seconds) / gbytes,
    ])
}
