//! A transfer over the kernel's TCP: the two ends.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use super::{BUFFER_BYTES, Listening, Received, Sent, conclude};
use crate::cpu;
use crate::process::Process;
use crate::process::print_report;

/// Runs both ends, each a process.
pub(crate) fn run(message_bytes: usize, time: Duration) -> anyhow::Result<[f64; 2]> {
    let mut server = Process::start_role("tcp-server")?;
    let Listening { port } = server.read_report(Duration::ZERO)?;
    let role = format!("tcp-client {port} {message_bytes} {}", time.as_secs_f64());
    conclude(server, Process::start_role(&role)?, time)
}

/// Discards what one connection brings.
pub(crate) fn serve() -> anyhow::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    print_report(&Listening {
        port: listener.local_addr()?.port(),
    })?;
    let (mut stream, _) = listener.accept()?;
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut bytes = stream.read(&mut buffer)? as u64;
    let cpu = cpu::of_process()?;
    loop {
        match stream.read(&mut buffer)? {
            0 => break,
            read => bytes += read as u64,
        }
    }
    let cpu = cpu::of_process()?.saturating_sub(cpu);
    print_report(&Received {
        bytes,
        cpu_seconds: cpu.as_secs_f64(),
    })
}

/// Writes messages, each with a call of its own, for a time.
pub(crate) fn send(port: u16, message_bytes: usize, time: Duration) -> anyhow::Result<()> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_nodelay(true)?;
    let message = vec![0; message_bytes];
    let (cpu, begun) = (cpu::of_process()?, Instant::now());
    let mut sent = 0;
    while begun.elapsed() < time {
        for _ in 0..64 {
            stream.write_all(&message)?;
            sent += message.len() as u64;
        }
    }
    stream.shutdown(Shutdown::Write)?;
    // The other end closes when it has read everything.
    stream.read_to_end(&mut Vec::new())?;
    let seconds = begun.elapsed().as_secs_f64();
    let cpu = cpu::of_process()?.saturating_sub(cpu);
    print_report(&Sent {
        bytes: sent,
        seconds,
        cpu_seconds: cpu.as_secs_f64(),
    })
}
