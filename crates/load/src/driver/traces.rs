//! Files in which messages, failures and the words of scenarios are written down while a run goes on.

use std::fmt::Display;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use sip::Transport;

use crate::trace::Trace;

/// The most octets of a file: whoever leaves a run alone does not fill a disk.
const MOST_OCTETS: u64 = 1 << 30;

/// Where what is to be written down goes.
#[derive(Debug, Default)]
pub struct Traces {
    /// Every message that is sent or received.
    pub messages: Option<TraceFile>,
    /// Why attempts fail, and what scenarios warn of.
    pub errors: Option<TraceFile>,
    /// What scenarios log.
    pub logs: Option<TraceFile>,
}

impl Traces {
    /// Whether the engines have to say what only they know.
    pub(super) fn wants_traces(&self) -> bool {
        self.errors.is_some() || self.logs.is_some()
    }

    /// Writes a message down.
    pub(super) fn message(&self, transport: Transport, word: &str, octets: &[u8]) {
        if let Some(file) = &self.messages {
            let transport = transport.via_name();
            let length = octets.len();
            let head = format_args!("{transport} message {word} ({length} bytes)");
            file.write(&head, octets);
        }
    }

    /// Writes down what an engine says.
    pub(super) fn trace(&self, trace: &Trace) {
        match trace {
            Trace::Failed {
                call_id,
                script,
                step: (number, step),
                failure,
                message,
            } => {
                if let Some(file) = &self.errors {
                    let head = format_args!(
                        "Call-ID {call_id} failed: {failure}; {script}, step {number}: {step}"
                    );
                    file.write(&head, message.as_deref().unwrap_or_default());
                }
            }
            Trace::Logged { text, is_warning } => {
                let file = if *is_warning {
                    &self.errors
                } else {
                    &self.logs
                };
                if let Some(file) = file {
                    file.write_line(text);
                }
            }
        }
    }
}

/// A file that several threads write to.
#[derive(Debug)]
pub struct TraceFile(Mutex<Open>);

#[derive(Debug)]
struct Open {
    file: File,
    written: u64,
}

impl TraceFile {
    /// Makes the file, which its owner alone can read: messages have credentials in them.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn create(path: &Path) -> io::Result<TraceFile> {
        use std::os::unix::fs::OpenOptionsExt;
        let mut options = File::options();
        options.write(true).create(true).truncate(true).mode(0o600);
        let file = options.open(path)?;
        Ok(TraceFile(Mutex::new(Open { file, written: 0 })))
    }

    /// Writes a rule with the time, a line, and what belongs to it.
    fn write(&self, head: &impl Display, body: &[u8]) {
        let now = humantime::format_rfc3339_micros(SystemTime::now());
        let rule = "-----------------------------------------------";
        let mut text = format!("{rule} {now}\n{head}\n").into_bytes();
        if !body.is_empty() {
            text.push(b'\n');
            text.extend_from_slice(body);
            text.push(b'\n');
        }
        self.append(&text);
    }

    fn write_line(&self, text: &[u8]) {
        let mut line = text.to_vec();
        line.push(b'\n');
        self.append(&line);
    }

    fn append(&self, text: &[u8]) {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if open.written >= MOST_OCTETS {
            return;
        }
        open.written += text.len() as u64;
        // A disk that is full takes nothing from the run.
        let _ = open.file.write_all(text);
        if open.written >= MOST_OCTETS {
            let _ = open
                .file
                .write_all(b"No more is written: the file has 1 GiB.\n");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{CallId, Failure};

    #[test]
    fn what_is_written_down_can_be_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let file = |name: &str| Some(TraceFile::create(&path(name)).unwrap());
        let traces = Traces {
            messages: file("messages"),
            errors: file("errors"),
            logs: file("logs"),
        };
        traces.message(Transport::Udp, "sent", b"BYE sip:a SIP/2.0\r\n\r\n");
        traces.trace(&Trace::Failed {
            call_id: CallId::Other("1@a".into()),
            script: "uac".to_owned(),
            step: (1, "← 200".to_owned()),
            failure: Failure::Refused,
            message: Some(b"SIP/2.0 486 Busy\r\n"[..].into()),
        });
        for is_warning in [false, true] {
            traces.trace(&Trace::Logged {
                text: b"hello".to_vec(),
                is_warning,
            });
        }
        let text = |name: &str| std::fs::read_to_string(path(name)).unwrap();
        let messages = text("messages");
        assert!(messages.starts_with("-----------------------------------------------"));
        assert!(
            messages.contains("\nUDP message sent (21 bytes)\n\nBYE sip:a SIP/2.0\r\n"),
            "{messages}"
        );
        let errors = text("errors");
        assert!(
            errors.contains("Call-ID 1@a failed: refused; uac, step 1: ← 200\n\nSIP/2.0 486 Busy")
        );
        assert!(errors.ends_with("hello\n"));
        assert_eq!(text("logs"), "hello\n");
    }
}
