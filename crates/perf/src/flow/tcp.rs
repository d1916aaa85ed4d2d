//! TCP: a connection is a flow, a message is a write.

use std::io;
use std::net::{IpAddr, Shutdown};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use socket2::SockRef;
use tcp_info::tcp_info;
use tokio::net::TcpStream;
use tokio::time::{sleep_until, timeout};

use super::{Counter, SendPlan, StopSignal, Turn, is_stopped, set_type_of_service, stopped};
use crate::TestParameters;
use crate::control::{PathCondition, PathReport};

/// What one call to the kernel may bring.
const READ_BYTES: usize = 256 * 1024;

/// How long the peer may take to confirm that it has everything.
const CLOSE_TIME: Duration = Duration::from_secs(30);

/// Applies what a test asks of a connection.
pub(crate) fn configure(stream: &TcpStream, test: &TestParameters) -> io::Result<()> {
    stream.set_nodelay(test.nodelay)?;
    if let Some(window) = test.window {
        let socket = SockRef::from(stream);
        // The kernel caps these silently.
        socket.set_send_buffer_size(window)?;
        socket.set_recv_buffer_size(window)?;
    }
    if let Some(tos) = test.tos {
        set_type_of_service(SockRef::from(stream), tos, stream.local_addr()?.ip())?;
    }
    Ok(())
}

/// Sends as planned.
pub(crate) async fn send(
    stream: &TcpStream,
    plan: &SendPlan,
    counter: &Counter,
    stop: &mut StopSignal,
) -> io::Result<()> {
    let mut sent = 0;
    'plan: loop {
        tokio::task::coop::consume_budget().await;
        if is_stopped(stop) {
            break;
        }
        match plan.turn(sent, Instant::now()) {
            Turn::Done => break,
            Turn::Until(due) => {
                tokio::select! {
                    () = sleep_until(due.into()) => {}
                    () = stopped(stop) => break,
                }
            }
            Turn::Send(messages) => {
                for _ in 0..messages {
                    if !write_message(stream, plan, counter, stop).await? {
                        break 'plan;
                    }
                    sent += 1;
                }
            }
        }
    }
    Ok(())
}

/// Ends our direction, and waits until the peer has read it to the end and ended its own.
pub(crate) async fn finish(stream: &TcpStream) -> io::Result<()> {
    SockRef::from(stream).shutdown(Shutdown::Write)?;
    let mut nothing = [0];
    let closed = async {
        loop {
            stream.readable().await?;
            match stream.try_read(&mut nothing) {
                Ok(0) => return Ok(()),
                Ok(_) => return Err(io::Error::other("the receiver sends data")),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    };
    timeout(CLOSE_TIME, closed)
        .await
        .map_err(|_| io::Error::other("the receiver has not read everything"))?
}

/// Reads until the peer has sent everything.
pub(crate) async fn receive(stream: &TcpStream, size: usize, counter: &Counter) -> io::Result<()> {
    let mut buffer = vec![0; READ_BYTES];
    let mut bytes = 0_u64;
    loop {
        tokio::task::coop::consume_budget().await;
        match stream.try_read(&mut buffer) {
            // The sender waits for our end as the sign that everything was read.
            Ok(0) => return SockRef::from(stream).shutdown(Shutdown::Write),
            Ok(read) => {
                let size = size as u64;
                let before = bytes / size;
                bytes += read as u64;
                counter.add(bytes / size - before, read);
                counter.arrived(Instant::now());
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => stream.readable().await?,
            Err(error) => return Err(error),
        }
    }
}

/// What the kernel knows of the connection: the path, and the segments sent again. `peer` is told because a
/// connection that has ended has none any more, but still its counters.
pub(crate) fn observe(
    stream: &TcpStream,
    peer: IpAddr,
    flow: usize,
) -> Option<(Vec<PathReport>, u64)> {
    let info = tcp_info(stream.as_fd())?;
    let path = PathReport {
        flow,
        address: peer,
        state: PathCondition::Active,
        primary: true,
        srtt_ms: (!info.srtt.is_zero()).then_some(info.srtt.as_secs_f64() * 1e3),
        rto_ms: info.rto.as_secs_f64() * 1e3,
        cwnd_bytes: info.cwnd_bytes,
        mtu_bytes: info.mtu_bytes,
    };
    Some((vec![path], info.retransmissions))
}

/// Writes one message; `false` when it had to be left unfinished.
async fn write_message(
    stream: &TcpStream,
    plan: &SendPlan,
    counter: &Counter,
    stop: &mut StopSignal,
) -> io::Result<bool> {
    let mut rest: &[u8] = &plan.payload;
    while !rest.is_empty() {
        match stream.try_write(rest) {
            Ok(written) => {
                rest = rest.get(written..).unwrap_or_default();
                counter.add(u64::from(rest.is_empty()), written);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                tokio::select! {
                    writable = stream.writable() => writable?,
                    () = sleep_until(plan.deadline().into()) => return Ok(false),
                    () = stopped(stop) => return Ok(false),
                }
            }
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}
