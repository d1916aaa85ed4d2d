//! A worker's way to Redis servers that plugins ask.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::{Client, Cmd, RedisResult, Value};
use tokio::sync::mpsc;

use crate::core::{Answer, QueryId, RedisCommand, RedisReply};

/// Asks Redis servers. There is one connection to each, which carries the commands of all calls in a pipeline; one that
/// is lost is opened again for the next command.
pub(super) struct RedisClient {
    /// By URL; the one that was asked last is at the end.
    connections: VecDeque<(Box<str>, ConnectionManager)>,
    timeout: Duration,
    sender: mpsc::Sender<(QueryId, Answer)>,
    receiver: mpsc::Receiver<(QueryId, Answer)>,
}

/// How many answers wait to be taken.
const ANSWER_QUEUE: usize = 256;

/// How many connections are kept: scripts choose the URLs.
const MAXIMUM_CONNECTIONS: usize = 16;

/// How many octets a reply may have.
const LONGEST_REPLY: usize = 1 << 20;

impl RedisClient {
    /// A client whose commands end after `timeout`, when nobody waits for them any more. Their number is bounded by that,
    /// and by the core, which asks only so much at a time.
    pub(super) fn new(timeout: Duration) -> RedisClient {
        let (sender, receiver) = mpsc::channel(ANSWER_QUEUE);
        RedisClient {
            connections: VecDeque::new(),
            timeout,
            sender,
            receiver,
        }
    }

    /// Asks; the answer comes through [`next`](RedisClient::next).
    pub(super) fn ask(&mut self, id: QueryId, command: RedisCommand) {
        let connection = self.connection(&command.url);
        let (sender, timeout) = (self.sender.clone(), self.timeout);
        tokio::spawn(async move {
            let asked = async {
                let answer = match connection {
                    Ok(mut connection) => fetch(&mut connection, &command.words).await,
                    Err(error) => Err(error),
                };
                let answer = answer.unwrap_or_else(|error| {
                    tracing::debug!(server = ?without_password(&command.url), error = %error, "no answer of Redis");
                    Answer::Failed
                });
                // Without a receiver the server has stopped.
                let _ = sender.send((id, answer)).await;
            };
            // Whoever has asked has given up by then.
            let _ = tokio::time::timeout(timeout, asked).await;
        });
    }

    /// The next answer.
    pub(super) async fn next(&mut self) -> Option<(QueryId, Answer)> {
        self.receiver.recv().await
    }

    /// The next answer, if there is one now.
    pub(super) fn next_now(&mut self) -> Option<(QueryId, Answer)> {
        self.receiver.try_recv().ok()
    }

    /// The connection to a server; it is opened by the first command. The one that has been asked least recently gives way
    /// to a new one: it is closed when its commands have their answers.
    fn connection(&mut self, url: &str) -> RedisResult<ConnectionManager> {
        let known = self
            .connections
            .iter()
            .position(|(known, _)| **known == *url);
        let (url, connection) = match known.and_then(|at| self.connections.remove(at)) {
            Some(known) => known,
            None => (url.into(), self.open(url)?),
        };
        if self.connections.len() >= MAXIMUM_CONNECTIONS {
            self.connections.pop_front();
        }
        self.connections.push_back((url, connection.clone()));
        Ok(connection)
    }

    /// A connection that is opened by its first command.
    fn open(&self, url: &str) -> RedisResult<ConnectionManager> {
        // The next command tries again: those that wait for an answer are not to wait for attempts.
        let config = ConnectionManagerConfig::new()
            .set_number_of_retries(0)
            .set_connection_timeout(Some(self.timeout))
            .set_response_timeout(Some(self.timeout));
        ConnectionManager::new_lazy_with_config(Client::open(url)?, config)
    }
}

impl fmt::Debug for RedisClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisClient").finish_non_exhaustive()
    }
}

async fn fetch(connection: &mut ConnectionManager, words: &[Bytes]) -> RedisResult<Answer> {
    let mut command = Cmd::new();
    for word in words {
        command.arg(&**word);
    }
    let value = match command.query_async::<Value>(connection).await {
        Ok(value) => value,
        Err(error) => {
            // An error that the server has answered is an answer.
            let code = error.code().map(str::to_owned).ok_or(error.clone())?;
            let why = match error.detail() {
                Some(detail) => format!("{code} {detail}"),
                None => code,
            };
            return Ok(Answer::Redis(RedisReply::Error(why.into())));
        }
    };
    let mut room = LONGEST_REPLY;
    match reply(value, &mut room) {
        Some(reply) => Ok(Answer::Redis(reply)),
        None => Ok(Answer::Redis(RedisReply::Error(
            "the reply is too long".into(),
        ))),
    }
}

/// The reply in the types of RESP2; `None` where it has more octets than there is room for.
fn reply(value: Value, room: &mut usize) -> Option<RedisReply> {
    /// What a value takes beside its text.
    const EACH: usize = 16;
    let mut text = |text: Bytes| {
        *room = room.checked_sub(text.len() + EACH)?;
        Some(RedisReply::Text(text))
    };
    match value {
        Value::Nil => Some(RedisReply::Nil),
        Value::Int(number) => Some(RedisReply::Integer(number)),
        Value::Boolean(value) => Some(RedisReply::Integer(value.into())),
        Value::Okay => text(Bytes::from_static(b"OK")),
        Value::SimpleString(string) => text(string.into()),
        Value::BulkString(octets) => text(octets.into()),
        Value::VerbatimString { text: string, .. } => text(string.into()),
        Value::Double(number) => text(number.to_string().into()),
        Value::BigNumber(digits) => text(digits.into()),
        Value::Array(values) | Value::Set(values) => list(values, room),
        Value::Map(pairs) => {
            let values = pairs.into_iter().flat_map(|(name, value)| [name, value]);
            list(values.collect(), room)
        }
        Value::Attribute { data, .. } => reply(*data, room),
        Value::ServerError(error) => Some(RedisReply::Error(error.to_string().into())),
        _ => Some(RedisReply::Nil),
    }
}

fn list(values: Vec<Value>, room: &mut usize) -> Option<RedisReply> {
    *room = room.checked_sub(values.len() * size_of::<RedisReply>())?;
    let replies = values.into_iter().map(|value| reply(value, room));
    Some(RedisReply::List(replies.collect::<Option<_>>()?))
}

/// A URL for the log.
fn without_password(url: &str) -> &str {
    url.rsplit_once('@').map_or(url, |(_, place)| place)
}
