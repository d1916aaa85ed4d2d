//! Who controls a network.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{LONGEST_LINE, Request};

/// How long an answer may take: what is asked for takes microseconds, but machines are busy.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Longest answer, in bytes: the state of as many links and rules as there may be.
const LONGEST_ANSWER: u64 = 64 << 20;

/// A conversation with a network that is up.
#[derive(Debug)]
pub struct Client {
    stream: BufReader<UnixStream>,
}

/// A network did not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// It cannot be talked to.
    #[error("the network does not answer: {0}")]
    Connection(#[from] io::Error),
    /// It refused.
    #[error("{0}")]
    Refused(String),
    /// Its answer makes no sense.
    #[error("the network's answer is invalid ({0}): is it of another version of tandem?")]
    Answer(serde_json::Error),
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Answer {
    Ok(Value),
    Error(String),
}

impl Client {
    /// Begins a conversation by a network's socket.
    ///
    /// # Errors
    ///
    /// Nobody is there.
    pub fn connect(socket: &Path) -> Result<Client, ClientError> {
        let stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        Ok(Client {
            stream: BufReader::new(stream),
        })
    }

    /// Asks for something, and reads what is answered.
    ///
    /// # Errors
    ///
    /// The network is gone, refuses, or is another kind of program.
    pub fn ask<T: DeserializeOwned>(&mut self, request: &Request) -> Result<T, ClientError> {
        let mut line = serde_json::to_vec(request).map_err(ClientError::Answer)?;
        line.push(b'\n');
        if line.len() > LONGEST_LINE {
            let what = format!(
                "a request has at most {LONGEST_LINE} bytes, this one {}",
                line.len()
            );
            return Err(ClientError::Refused(what));
        }
        self.stream.get_mut().write_all(&line)?;
        let mut answer = String::new();
        let read = (&mut self.stream)
            .take(LONGEST_ANSWER)
            .read_line(&mut answer)?;
        if read == 0 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        match serde_json::from_str(&answer).map_err(ClientError::Answer)? {
            Answer::Ok(value) => serde_json::from_value(value).map_err(ClientError::Answer),
            Answer::Error(text) => Err(ClientError::Refused(text)),
        }
    }
}
