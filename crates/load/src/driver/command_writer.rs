//! A thread that writes commands to another generator, so that the worker waits for no connection and no write.

use std::io::{self, Write};
use std::net::TcpStream;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::Duration;

/// Commands that wait to be written to one generator: those of some seconds, while it is about to start.
const MOST_WAITING: usize = 10_000;

/// How long the end waits for what is not written yet: a generator that reads slowly holds nobody up for longer.
const FINISH_WITHIN: Duration = Duration::from_secs(5);

/// Writes commands to one generator, in order.
pub(super) struct CommandWriter {
    commands: SyncSender<Vec<u8>>,
    /// When the thread has done what it could: the connection, if there was one.
    ended: Receiver<Option<TcpStream>>,
}

impl CommandWriter {
    /// Opens a connection in the thread and writes to it. `failed` is told once why nothing can be written any more.
    pub(super) fn start(
        open: impl FnOnce() -> io::Result<TcpStream> + Send + 'static,
        failed: impl FnOnce(io::Error) + Send + 'static,
    ) -> io::Result<CommandWriter> {
        let (commands, waiting) = sync_channel(MOST_WAITING);
        let (end, ended) = sync_channel(1);
        let thread = thread::Builder::new().name("twin-writer".to_owned());
        thread.spawn(move || {
            let stream = match open() {
                Ok(mut stream) => {
                    if let Err(error) = write(&mut stream, &waiting) {
                        failed(error);
                    }
                    Some(stream)
                }
                Err(error) => {
                    failed(error);
                    None
                }
            };
            drop(waiting);
            // Nobody may wait for it.
            end.send(stream).ok();
        })?;
        Ok(CommandWriter { commands, ended })
    }

    /// Queues the octets of a command. One that has failed has said so, and takes what comes without a word.
    ///
    /// # Errors
    /// When too many wait.
    pub(super) fn send(&self, octets: Vec<u8>) -> io::Result<()> {
        match self.commands.try_send(octets) {
            Ok(()) | Err(TrySendError::Disconnected(_)) => Ok(()),
            Err(TrySendError::Full(_)) => Err(io::Error::new(
                io::ErrorKind::WouldBlock,
                format!("{MOST_WAITING} commands wait to be taken by another generator"),
            )),
        }
    }

    /// Writes what waits, for some seconds, and closes the connection.
    pub(super) fn finish(self) {
        drop(self.commands);
        if let Ok(Some(stream)) = self.ended.recv_timeout(FINISH_WITHIN) {
            // Whoever reads from it ends, too.
            stream.shutdown(std::net::Shutdown::Both).ok();
        }
    }
}

fn write(stream: &mut TcpStream, commands: &Receiver<Vec<u8>>) -> io::Result<()> {
    while let Ok(octets) = commands.recv() {
        stream.write_all(&octets)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::TcpListener;
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn what_is_sent_before_the_connection_is_open_is_written_in_order() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (go, begin) = channel();
        let open = move || {
            begin.recv().unwrap();
            TcpStream::connect(address)
        };
        let writer = CommandWriter::start(open, |error| panic!("{error}")).unwrap();
        for command in ["one", "two"] {
            writer.send(command.into()).unwrap();
        }
        go.send(()).unwrap();
        let (mut stream, _) = listener.accept().unwrap();
        writer.finish();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        assert_eq!(text, "onetwo");
    }

    #[test]
    fn why_there_is_no_connection_is_told() {
        let (tell, told) = channel();
        let failed = move |error: io::Error| tell.send(error.to_string()).unwrap();
        let writer = CommandWriter::start(|| Err(io::Error::other("none")), failed).unwrap();
        assert_eq!(told.recv().unwrap(), "none");
        writer.send(b"one".to_vec()).unwrap();
        writer.finish();
    }

    #[test]
    fn what_waits_is_bounded() {
        let (go, begin) = channel::<()>();
        let open = move || {
            begin.recv().ok();
            Err(io::Error::other("none"))
        };
        let writer = CommandWriter::start(open, |_| ()).unwrap();
        for _ in 0..MOST_WAITING {
            writer.send(b"one".to_vec()).unwrap();
        }
        assert!(writer.send(b"one".to_vec()).is_err());
        drop(go);
        writer.finish();
    }
}
