//! On real sockets, in two network namespaces with the emulator as the link between them. TCP is the
//! kernel's; SCTP is ours, in UDP.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::thread;
use std::time::Instant;

use anyhow::Context as _;
use bytes::Bytes;
use rand::Rng;
use sctp::EndpointStatistics;
use sctp_net::SendInfo;
use tokio::time::timeout;

use super::{Bulk, Carried, Transport, Until, message, sctp_config};
use crate::context::Context;
use crate::experiment::On;
use crate::net::{Watch, joined, runtime};
use crate::two_hosts::{Over, PORT, Ready, TIMEOUT, TwoHosts, sctp_endpoint, tcp_socket};

/// What one end has counted.
struct End {
    bytes: u64,
    /// When its flows were up: the last of a sender's, the first of a receiver's.
    up: Instant,
    /// When the transport had taken the last byte, or the user had got it.
    last: Instant,
}

pub(super) fn carry(context: &Context, number: u64, bulk: &Bulk) -> anyhow::Result<Carried> {
    let seed = context.rng(number).next_u64();
    let hosts = TwoHosts::up(seed, bulk.link.clone(), bulk.window)?;
    let (from, to) = (hosts.client, hosts.server);
    let watch = Watch::begin()?;
    let outcome = hosts.run(
        |ready| match bulk.transport {
            Transport::Tcp => receive_tcp(to, bulk, ready),
            Transport::Sctp => receive_sctp(to, bulk, ready),
        },
        |is_over| {
            let began = Instant::now();
            let sent = match bulk.transport {
                Transport::Tcp => send_tcp(from, to, bulk),
                Transport::Sctp => send_sctp(from, to, bulk, is_over),
            };
            Ok((began, sent?))
        },
    );
    let late = watch.end();
    let (received, (began, (sent, counted))) = outcome?;
    let [there, back] = hosts.link()?;
    let carried = Carried {
        sent: sent.bytes,
        received: received.bytes,
        set_up: sent.up - began,
        sending: sent.last - sent.up,
        receiving: received.last.saturating_duration_since(received.up),
        took: received.last - began,
        there,
        back,
        sctp: counted.sctp,
        tcp_retransmissions: counted.tcp_retransmissions,
        late,
    };
    hosts.down();
    Ok(carried)
}

/// What the sender's transport has counted.
#[derive(Default)]
struct Counted {
    sctp: Option<EndpointStatistics>,
    tcp_retransmissions: Option<u64>,
}

fn receive_tcp(address: IpAddr, bulk: &Bulk, ready: Ready) -> anyhow::Result<End> {
    let listener = tcp_socket(address, bulk.window, bulk.congestion)?;
    listener.bind(&SocketAddr::new(address, PORT).into())?;
    listener.listen(i32::from(bulk.flows))?;
    let _ = ready.send(());
    listener.set_read_timeout(Some(TIMEOUT))?;
    let ends = thread::scope(|scope| {
        let readers: Vec<_> = (0..bulk.flows)
            .map(|_| {
                let (socket, _) = listener.accept()?;
                let up = Instant::now();
                Ok(scope.spawn(move || read(socket.into(), up, bulk.window)))
            })
            .collect::<io::Result<_>>()?;
        readers
            .into_iter()
            .map(|reader| joined(reader.join()))
            .collect::<anyhow::Result<Vec<End>>>()
    })?;
    let first = ends.iter().map(|end| end.up).min();
    together(&ends, first.context("there is a flow")?)
}

/// Flows as one.
fn together(ends: &[End], up: Instant) -> anyhow::Result<End> {
    let last = ends.iter().map(|end| end.last).max();
    Ok(End {
        bytes: ends.iter().map(|end| end.bytes).sum(),
        up,
        last: last.context("there is a flow")?,
    })
}

/// Reads until the sender has ended the connection.
fn read(mut stream: TcpStream, up: Instant, window: usize) -> anyhow::Result<End> {
    stream.set_read_timeout(Some(TIMEOUT))?;
    let mut buffer = vec![0; window];
    let mut end = End {
        bytes: 0,
        up,
        last: up,
    };
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return Ok(end),
            Ok(bytes) => {
                end.last = Instant::now();
                end.bytes += bytes as u64;
                // Linux forgets the bound when it finds out how much memory packets of this kind take.
                tcp_info::clamp_window(stream.as_fd(), window as u32)?;
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error).context("no more came"),
        }
    }
}

fn send_tcp(from: IpAddr, to: IpAddr, bulk: &Bulk) -> anyhow::Result<(End, Counted)> {
    let ended = thread::scope(|scope| {
        let writers: Vec<_> = (0..bulk.flows)
            .map(|_| scope.spawn(|| write(from, to, bulk)))
            .collect();
        writers
            .into_iter()
            .map(|writer| joined(writer.join()))
            .collect::<anyhow::Result<Vec<(End, Option<u64>)>>>()
    })?;
    let retransmissions = ended.iter().map(|(_, retransmissions)| *retransmissions);
    let counted = Counted {
        tcp_retransmissions: retransmissions.sum(),
        ..Counted::default()
    };
    let ends: Vec<End> = ended.into_iter().map(|(end, _)| end).collect();
    let up = ends.iter().map(|end| end.up).max();
    Ok((together(&ends, up.context("there is a flow")?)?, counted))
}

/// A connection from its beginning to its end, and the segments that it has sent again.
fn write(from: IpAddr, to: IpAddr, bulk: &Bulk) -> anyhow::Result<(End, Option<u64>)> {
    let socket = tcp_socket(from, bulk.window, bulk.congestion)?;
    socket.bind(&SocketAddr::new(from, 0).into())?;
    socket.connect_timeout(&SocketAddr::new(to, PORT).into(), TIMEOUT)?;
    let mut stream = TcpStream::from(socket);
    stream.set_write_timeout(Some(TIMEOUT))?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    let up = Instant::now();
    let payload = vec![0; message(On::Net)];
    let mut messages = 0;
    while !bulk.until.is_over(messages, up) {
        stream.write_all(&payload)?;
        messages += 1;
    }
    let last = Instant::now();
    stream.shutdown(std::net::Shutdown::Write)?;
    // The receiver ends it when it has read all.
    let left = stream.read(&mut [0])?;
    anyhow::ensure!(left == 0, "the receiver speaks");
    let retransmissions = tcp_info::tcp_info(stream.as_fd()).map(|info| info.retransmissions);
    let end = End {
        bytes: messages * payload.len() as u64,
        up,
        last,
    };
    Ok((end, retransmissions))
}

impl Until {
    /// Whether a flow that has been up since then has sent enough.
    fn is_over(self, messages: u64, up: Instant) -> bool {
        match self {
            Until::Messages(most) => messages >= most,
            Until::Time(time) => up.elapsed() >= time,
        }
    }
}

fn receive_sctp(address: IpAddr, bulk: &Bulk, ready: Ready) -> anyhow::Result<End> {
    let runtime = runtime()?;
    let received = runtime.block_on(async {
        let (_stack, endpoint) = sctp_endpoint(address, sctp_config(bulk))?;
        let _ = ready.send(());
        let accepted = timeout(TIMEOUT, endpoint.accept()).await;
        let association = accepted.ok().flatten().context("nobody came")?;
        let up = Instant::now();
        let mut end = End {
            bytes: 0,
            up,
            last: up,
        };
        while let Some(message) = timeout(TIMEOUT, association.receive())
            .await
            .context("no more came")?
        {
            end.last = Instant::now();
            end.bytes += message.payload.len() as u64;
        }
        anyhow::Ok(end)
    });
    runtime.shutdown_background();
    received
}

fn send_sctp(
    from: IpAddr,
    to: IpAddr,
    bulk: &Bulk,
    is_over: Over,
) -> anyhow::Result<(End, Counted)> {
    let runtime = runtime()?;
    let sent = runtime.block_on(async {
        let (stack, endpoint) = sctp_endpoint(from, sctp_config(bulk))?;
        let association = endpoint.connect(to, PORT, None).await?;
        let up = Instant::now();
        let payload = Bytes::from(vec![0; message(On::Net)]);
        let streams = u64::from(bulk.flows);
        let mut messages = 0;
        while !bulk.until.is_over(messages / streams, up) {
            let info = SendInfo {
                stream: (messages % streams) as u16,
                ..SendInfo::default()
            };
            association.send(info, payload.clone()).await?;
            messages += 1;
        }
        let last = Instant::now();
        timeout(TIMEOUT, association.shutdown())
            .await
            .context("the receiver does not end it")?;
        // A receiver that has not heard the last packet asks again (RFC 9260 section 9.2), and is answered.
        let _ = timeout(TIMEOUT, is_over).await;
        let counted = Counted {
            sctp: Some(stack.statistics().await.sctp),
            ..Counted::default()
        };
        let end = End {
            bytes: messages * payload.len() as u64,
            up,
            last,
        };
        anyhow::Ok((end, counted))
    });
    runtime.shutdown_background();
    sent
}
