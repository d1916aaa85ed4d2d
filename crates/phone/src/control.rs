//! A socket by which other programs use a phone: commands as JSON, a line each, go in; events come out.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::broadcast;
use tokio::task::AbortHandle;

use crate::command::Command;
use crate::event::PhoneEvent;
use crate::phone::Phone;

/// Events that a client may be behind; a slower one misses some, and is told how many.
const MAX_BEHIND: usize = 1_024;
/// The longest line of a client.
const MAX_LINE: u64 = 64 << 10;
/// From an attempt to take a client that failed to the next one.
const RETRY: Duration = Duration::from_millis(100);
/// Clients at one time.
const MAX_CLIENTS: usize = 16;
/// The socket's name in the directory that it is made in.
const NAME: &str = "s";

/// The socket. It is removed when this is dropped.
#[derive(Debug)]
pub struct ControlSocket {
    path: PathBuf,
    events: broadcast::Sender<String>,
    accepting: AbortHandle,
}

impl ControlSocket {
    /// Opens the socket; only this user may connect to it. One that a phone has left behind is replaced.
    ///
    /// # Errors
    ///
    /// There is something else at the path, or it cannot be created.
    pub fn open(path: &Path, phone: &Phone) -> io::Result<ControlSocket> {
        let is_left =
            std::fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket());
        if is_left && std::os::unix::net::UnixStream::connect(path).is_err() {
            std::fs::remove_file(path)?;
        }
        let listener = bind(path)?;
        let (events, _) = broadcast::channel(MAX_BEHIND);
        let accepting = tokio::spawn(accept(listener, phone.clone(), events.clone()));
        Ok(ControlSocket {
            path: path.to_owned(),
            events,
            accepting: accepting.abort_handle(),
        })
    }

    /// Tells all clients of an event.
    pub fn tell(&self, event: &PhoneEvent) {
        if let Ok(line) = serde_json::to_string(event) {
            // Nobody may be connected.
            let _ = self.events.send(line);
        }
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        // It holds the phone on, and the clients.
        self.accepting.abort();
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Makes a socket that nobody else can connect to at any time: in a directory that only this user may enter, until its
/// permissions are set.
fn bind(path: &Path) -> io::Result<UnixListener> {
    let parent = match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    let random = rand::random::<u32>();
    let directory = parent.join(format!(".tandem-{random:08x}"));
    DirBuilder::new().mode(0o700).create(&directory)?;
    let inside = directory.join(NAME);
    let bound = UnixListener::bind(&inside).and_then(|listener| {
        std::fs::set_permissions(&inside, std::fs::Permissions::from_mode(0o600))?;
        // Unlike a rename, it does not replace what is there.
        std::fs::hard_link(&inside, path)?;
        Ok(listener)
    });
    let _ = std::fs::remove_file(&inside);
    let _ = std::fs::remove_dir(&directory);
    bound
}

async fn accept(listener: UnixListener, phone: Phone, events: broadcast::Sender<String>) {
    loop {
        match listener.accept().await {
            Ok((client, _)) if events.receiver_count() < MAX_CLIENTS => {
                tokio::spawn(serve(client, phone.clone(), events.subscribe()));
            }
            // One client too many.
            Ok(_) => {}
            // There may be no file descriptors now, and some later.
            Err(_) => tokio::time::sleep(RETRY).await,
        }
    }
}

/// Serves a client until it has gone. A line that is no command is answered, and what is longer than a line may be counts as
/// several.
async fn serve(client: UnixStream, phone: Phone, mut events: broadcast::Receiver<String>) {
    let (reader, mut writer) = client.into_split();
    let mut reader = BufReader::new(reader);
    let mut line = Vec::new();
    loop {
        let mut limited = (&mut reader).take(MAX_LINE - line.len() as u64);
        let answer = tokio::select! {
            read = limited.read_until(b'\n', &mut line) => match read {
                Ok(0) | Err(_) => return,
                // More of it may be on its way, unless it is too long.
                Ok(_) if line.last() != Some(&b'\n') && (line.len() as u64) < MAX_LINE => continue,
                Ok(_) => {
                    let command = serde_json::from_slice::<Command>(&line);
                    line.clear();
                    match command {
                        Ok(command) => {
                            if phone.command(command).await {
                                continue;
                            }
                            return;
                        }
                        Err(error) => {
                            let problem = error.to_string();
                            serde_json::json!({ "event": "refused", "problem": problem }).to_string()
                        }
                    }
                }
            },
            event = events.recv() => match event {
                Ok(event) => event,
                Err(broadcast::error::RecvError::Lagged(count)) => {
                    serde_json::json!({ "event": "missed", "count": count }).to_string()
                }
                Err(broadcast::error::RecvError::Closed) => return,
            },
        };
        if writer
            .write_all(format!("{answer}\n").as_bytes())
            .await
            .is_err()
        {
            return;
        }
    }
}
