//! JSON objects over TCP or SCTP.

use std::io;
use std::time::Duration;

use anyhow::{Context, bail};
use bytes::{Buf, Bytes, BytesMut};
use sctp_net::{Association, SendInfo};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Longest message that a server takes.
pub(crate) const MAX_REQUEST_BYTES: usize = 64 * 1024;
/// Longest message that a client takes: results of many flows with several paths each.
pub(crate) const MAX_REPLY_BYTES: usize = 256 * 1024;

/// How long a peer may take to accept a message of ours.
const SEND_TIME: Duration = Duration::from_secs(10);

/// One side of a control channel.
#[derive(Debug)]
pub(crate) struct ControlChannel {
    carrier: Carrier,
    /// Longest message that is taken.
    max_bytes: usize,
}

#[derive(Debug)]
enum Carrier {
    /// A connection, and what was read of the next message.
    Tcp(TcpStream, BytesMut),
    Sctp(Association),
}

impl ControlChannel {
    pub(crate) fn tcp(stream: TcpStream, max_bytes: usize) -> ControlChannel {
        ControlChannel {
            carrier: Carrier::Tcp(stream, BytesMut::new()),
            max_bytes,
        }
    }

    pub(crate) fn sctp(association: Association, max_bytes: usize) -> ControlChannel {
        ControlChannel {
            carrier: Carrier::Sctp(association),
            max_bytes,
        }
    }

    /// Sends a message.
    ///
    /// # Errors
    ///
    /// When the peer has gone, or does not read.
    pub(crate) async fn send<T: Serialize>(&mut self, message: &T) -> anyhow::Result<()> {
        let json = serde_json::to_vec(message)?;
        let sent = async {
            match &mut self.carrier {
                Carrier::Tcp(stream, _) => write_frame(stream, &json).await?,
                Carrier::Sctp(association) => {
                    let sent = association.send(SendInfo::default(), Bytes::from(json));
                    sent.await?;
                }
            }
            anyhow::Ok(())
        };
        timeout(SEND_TIME, sent)
            .await
            .context("the other side does not read the control connection")?
            .context("the control connection broke")
    }

    /// The next message. A future that is dropped before it is ready has taken nothing.
    ///
    /// # Errors
    ///
    /// When the channel is closed or broken, or what comes is no message.
    pub(crate) async fn receive<T: DeserializeOwned>(&mut self) -> anyhow::Result<T> {
        let json = match &mut self.carrier {
            Carrier::Tcp(stream, buffer) => loop {
                if let Some(frame) = take_frame(buffer, self.max_bytes)? {
                    break frame;
                }
                let read = stream.read_buf(buffer).await;
                if read.context("the control connection broke")? == 0 {
                    bail!("the other side closed the control connection");
                }
            },
            Carrier::Sctp(association) => {
                let message = association.receive().await;
                let message = message.context("the other side closed the control connection")?;
                if message.payload.len() > self.max_bytes {
                    bail!("a control message of {} bytes", message.payload.len());
                }
                message.payload
            }
        };
        parse(&json)
    }
}

/// Reads one message and not a byte more, so that what follows on the connection may be data.
pub(crate) async fn read_frame<T: DeserializeOwned>(
    stream: &mut TcpStream,
    max_bytes: usize,
) -> anyhow::Result<T> {
    let length = stream.read_u32().await? as usize;
    if length > max_bytes {
        bail!("a control message of {length} bytes");
    }
    let mut json = vec![0; length];
    stream.read_exact(&mut json).await?;
    parse(&json)
}

/// Writes one message behind its length.
pub(crate) async fn write_frame(stream: &mut TcpStream, json: &[u8]) -> io::Result<()> {
    let length = u32::try_from(json.len()).map_err(io::Error::other)?;
    let mut frame = Vec::with_capacity(4 + json.len());
    frame.extend_from_slice(&length.to_be_bytes());
    frame.extend_from_slice(json);
    stream.write_all(&frame).await
}

/// The first message of the buffer, if it is there in full.
fn take_frame(buffer: &mut BytesMut, max_bytes: usize) -> anyhow::Result<Option<Bytes>> {
    let Some(length) = buffer.first_chunk::<4>() else {
        return Ok(None);
    };
    let length = u32::from_be_bytes(*length) as usize;
    if length > max_bytes {
        bail!("a control message of {length} bytes");
    }
    if buffer.len() < 4 + length {
        return Ok(None);
    }
    buffer.advance(4);
    Ok(Some(buffer.split_to(length).freeze()))
}

fn parse<T: DeserializeOwned>(json: &[u8]) -> anyhow::Result<T> {
    serde_json::from_slice(json).context("invalid message on the control connection")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tokio::net::TcpListener;

    use super::*;

    #[test]
    fn frames_are_cut_out_however_they_come() {
        let mut buffer = BytesMut::new();
        let mut frames = Vec::new();
        for byte in b"\0\0\0\x02{}\0\0\0\0\0\0\0\x01x" {
            buffer.extend_from_slice(&[*byte]);
            frames.extend(take_frame(&mut buffer, 10).unwrap());
        }
        assert_eq!(frames, [&b"{}"[..], b"", b"x"]);
        assert!(buffer.is_empty());
    }

    #[test]
    fn a_length_above_the_bound_is_refused_before_anything_is_kept() {
        let mut buffer = BytesMut::from(&b"\xff\xff\xff\xff"[..]);
        assert!(take_frame(&mut buffer, MAX_REQUEST_BYTES).is_err());
        let mut buffer = BytesMut::from(&b"GET / HTTP/1.1\r\n"[..]);
        assert!(take_frame(&mut buffer, MAX_REQUEST_BYTES).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut buffer = BytesMut::from(&bytes[..]);
            while let Ok(Some(frame)) = take_frame(&mut buffer, 64) {
                prop_assert!(frame.len() <= 64);
                let _ = parse::<super::super::ClientMessage>(&frame);
                let _ = parse::<super::super::ServerMessage>(&frame);
            }
        }
    }

    #[tokio::test]
    async fn messages_arrive_whole_and_the_end_is_an_error() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let connected = TcpStream::connect(listener.local_addr().unwrap());
        let (connected, accepted) = tokio::join!(connected, listener.accept());
        let mut one = ControlChannel::tcp(connected.unwrap(), 100);
        let mut other = ControlChannel::tcp(accepted.unwrap().0, 100);
        one.send(&["first"]).await.unwrap();
        one.send(&["second"]).await.unwrap();
        assert_eq!(other.receive::<[String; 1]>().await.unwrap(), ["first"]);
        assert_eq!(other.receive::<[String; 1]>().await.unwrap(), ["second"]);
        drop(one);
        let error = other.receive::<[String; 1]>().await.unwrap_err();
        assert!(error.to_string().contains("closed"), "{error}");
    }
}
