//! A connection or association of a sender.

use std::time::Duration;

use anyhow::Context;
use bytes::{Bytes, BytesMut};
use sctp_net::{Association, SendInfo};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::control::{Frames, split};
use crate::header::MAX_PACKET_OCTETS;

/// How long a sender may take nothing of what it is sent.
const SEND_TIME: Duration = Duration::from_secs(10);

/// What one call to the kernel may bring.
const READ_OCTETS: usize = 256 * 1024;

#[derive(Debug)]
pub(super) enum Channel {
    Tcp {
        stream: TcpStream,
        frames: Frames,
        buffer: Vec<u8>,
    },
    Sctp {
        association: Association,
        /// A message that comes in parts.
        parts: BytesMut,
    },
}

impl Channel {
    pub(super) fn tcp(stream: TcpStream) -> Channel {
        Channel::Tcp {
            stream,
            frames: Frames::default(),
            buffer: vec![0; READ_OCTETS],
        }
    }

    pub(super) fn sctp(association: Association) -> Channel {
        Channel::Sctp {
            association,
            parts: BytesMut::new(),
        }
    }

    /// Waits for packets, and puts them into `packets`; false when the sender has ended.
    pub(super) async fn receive(&mut self, packets: &mut Vec<BytesMut>) -> anyhow::Result<bool> {
        match self {
            Channel::Tcp {
                stream,
                frames,
                buffer,
            } => {
                while packets.is_empty() {
                    let count = stream.read(buffer).await?;
                    if count == 0 {
                        return Ok(false);
                    }
                    frames.push(buffer.get(..count).unwrap_or_default());
                    while let Some(packet) = frames.next_packet()? {
                        packets.push(packet);
                    }
                }
            }
            Channel::Sctp { association, parts } => {
                while packets.is_empty() {
                    let Some(message) = association.receive().await else {
                        return Ok(false);
                    };
                    anyhow::ensure!(
                        parts.len() + message.payload.len() <= MAX_PACKET_OCTETS,
                        "a message of more than {MAX_PACKET_OCTETS} bytes"
                    );
                    parts.extend_from_slice(&message.payload);
                    if message.end_of_record {
                        packets.push(std::mem::take(parts));
                    }
                }
            }
        }
        Ok(true)
    }

    /// Sends packets that lie one behind the other.
    pub(super) async fn send(&mut self, packets: &[u8]) -> anyhow::Result<()> {
        let sent = async {
            match self {
                Channel::Tcp { stream, .. } => stream.write_all(packets).await?,
                Channel::Sctp { association, .. } => {
                    for packet in split(packets) {
                        let message = Bytes::copy_from_slice(packet);
                        association.send(SendInfo::default(), message).await?;
                    }
                }
            }
            anyhow::Ok(())
        };
        timeout(SEND_TIME, sent)
            .await
            .context("the sender does not read")?
    }
}
