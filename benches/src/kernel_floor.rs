//! What the kernel takes to carry a UDP packet, sent and received in batches: the part of a proxy's
//! CPU time that it cannot save.

use std::net::{Ipv4Addr, SocketAddr};

use bytes::Bytes;
use udp_net::{Batch, Datagram, SendOutcome, UdpConfig, UdpSocket};

use crate::cpu;

/// Packets are as large as SIP messages are, and as many are sent at once as are received at once.
const PACKET_BYTES: usize = 500;
const BATCH: usize = 32;
const BATCHES: usize = 5_000;

/// CPU microseconds to send a packet on loopback and to receive it.
pub(crate) fn cpu_us_per_packet() -> anyhow::Result<f64> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let here = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let config = UdpConfig {
            segmentation_offload: false,
            ..UdpConfig::default()
        };
        let sender = UdpSocket::bind(here, config.clone())?;
        let receiver = UdpSocket::bind(here, config)?;
        let packet = Datagram {
            destination: receiver.local_addr(),
            source_ip: None,
            payload: Bytes::from(vec![b'x'; PACKET_BYTES]),
        };
        let packets = vec![packet; BATCH];
        let mut batch = Batch::new();
        let before = cpu::of_thread()?;
        for _ in 0..BATCHES {
            let (sent, outcome) = sender.try_send_all(&packets);
            anyhow::ensure!(matches!(outcome, SendOutcome::Sent), "{outcome:?}");
            let mut received = 0;
            while received < sent {
                receiver.recv(&mut batch).await?;
                received += batch.drain().count();
            }
        }
        let used = cpu::of_thread()?.saturating_sub(before);
        Ok(used.as_secs_f64() * 1e6 / (BATCH * BATCHES) as f64)
    })
}
