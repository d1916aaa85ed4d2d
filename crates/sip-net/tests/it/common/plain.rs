//! Plain TCP sockets, which send what no implementation should, and see every octet.

use bytes::Bytes;
use sip::{Flow, Transport};
use sip_net::{CloseReason, Incoming};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::{Node, PATIENCE};

pub(crate) async fn plain(server: &Node) -> TcpStream {
    let stream = TcpStream::connect(server.address())
        .await
        .expect("connects");
    stream.set_nodelay(true).expect("a TCP socket");
    stream
}

pub(crate) async fn write(stream: &mut TcpStream, bytes: &[u8]) {
    timeout(PATIENCE, stream.write_all(bytes))
        .await
        .expect("in time")
        .expect("written");
}

pub(crate) async fn read(stream: &mut TcpStream, length: usize) -> Bytes {
    let mut bytes = vec![0; length];
    timeout(PATIENCE, stream.read_exact(&mut bytes))
        .await
        .expect("in time")
        .expect("read");
    bytes.into()
}

/// Reads to the end of the stream, in however many pieces.
pub(crate) async fn read_to_end(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    timeout(PATIENCE, stream.read_to_end(&mut bytes))
        .await
        .expect("in time")
        .expect("a FIN");
    bytes
}

pub(crate) async fn closed(node: &mut Node, flow: Flow) -> CloseReason {
    match node.event().await {
        Incoming::ConnectionClosed {
            connection,
            transport,
            remote,
            reason,
        } => {
            assert_eq!((connection, transport), (flow.connection, Transport::Tcp));
            assert_eq!(remote, flow.remote);
            reason
        }
        other => panic!("not closed: {other:?}"),
    }
}
