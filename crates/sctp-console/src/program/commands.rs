//! What is typed, done.

use std::fmt::Display;
use std::future;

use bytes::Bytes;
use sctp_net::{AddressChange, Association, AssociationId, SendError, SendInfo, StreamReset};

use super::{Program, Served, Task};
use crate::command::{Command, TextMessage};
use crate::output::Output;
use crate::record::Record;
use crate::report;

/// The words of an ABORT must fit a packet, whatever the path takes.
const MAX_REASON: usize = 256;

impl Program {
    /// Begins to do what a line says, or keeps it until there is an association.
    pub(super) fn take_line(&mut self, line: &Bytes) {
        match Command::read(line) {
            Ok(Command::Use(number)) => self.use_association(number),
            Ok(command) if command.needs_association() && self.current.is_none() => {
                self.held = Some(command);
            }
            Ok(command) => self.work = Some(self.execute(command)),
            Err(error) => self.tell(Record::error(error)),
        }
    }

    /// What does a command. It may wait, and everything else goes on meanwhile.
    pub(super) fn execute(&self, command: Command) -> Task<()> {
        let output = self.output.clone();
        let current = self.current_association();
        match (command, current) {
            (Command::Help, _) => Box::pin(print_all(output, report::help())),
            (Command::Associations, _) => Box::pin(print_all(output, self.list())),
            (Command::Stats, _) => self.tell_statistics(),
            (Command::Send(outgoing), Some(served)) => Box::pin(send(
                served.association,
                outgoing,
                self.options.ppid,
                output,
            )),
            (Command::Paths, Some(served)) => Box::pin(tell_paths(served, output)),
            (Command::Primary(address), Some(Served { association, .. })) => Box::pin(async move {
                let result = association.set_primary(address).await;
                tell_refused(&format!("/primary {address}"), result, &output).await;
            }),
            (Command::Heartbeat(address), Some(Served { association, .. })) => {
                Box::pin(async move {
                    let result = association.request_heartbeat(address).await;
                    tell_refused(&format!("/heartbeat {address}"), result, &output).await;
                })
            }
            (Command::Key(key, secret), Some(Served { association, .. })) => Box::pin(async move {
                let result = association.set_shared_key(key, secret).await;
                tell_refused(&format!("/key {key}"), result, &output).await;
            }),
            (Command::ActiveKey(key), Some(Served { association, .. })) => Box::pin(async move {
                let result = association.set_active_key(key).await;
                tell_refused(&format!("/active-key {key}"), result, &output).await;
            }),
            (Command::ChangeAddress(change), Some(Served { association, .. })) => {
                Box::pin(async move {
                    let (command, address) = match change {
                        AddressChange::Add(address) => ("/add", address),
                        AddressChange::Delete(address) => ("/delete", address),
                        AddressChange::SetPeerPrimary(address) => ("/peer-primary", address),
                    };
                    let result = association.change_addresses(vec![change]).await;
                    tell_refused(&format!("{command} {address}"), result, &output).await;
                })
            }
            (Command::Reset(streams), Some(Served { association, .. })) => Box::pin(async move {
                let reset = StreamReset {
                    outgoing: Some(streams),
                    ..StreamReset::default()
                };
                tell_refused("/reset", association.reset_streams(reset).await, &output).await;
            }),
            (Command::AddStreams(streams), Some(Served { association, .. })) => {
                Box::pin(async move {
                    let result = association.add_streams(streams, 0).await;
                    tell_refused("/add-streams", result, &output).await;
                })
            }
            (Command::Shutdown, Some(Served { association, .. })) => {
                association.begin_shutdown();
                Box::pin(future::ready(()))
            }
            (Command::Abort(reason), Some(Served { association, .. })) => {
                association.abort(&reason[..reason.len().min(MAX_REASON)]);
                Box::pin(future::ready(()))
            }
            (Command::Use(_), _) | (_, None) => Box::pin(future::ready(())),
        }
    }

    fn use_association(&mut self, number: u64) {
        let numbered = |(id, served): (&AssociationId, &Served)| {
            (served.subject.number == number).then_some(*id)
        };
        match self.associations.iter().find_map(numbered) {
            Some(id) => self.current = Some(id),
            None => {
                let text = format!("there is no association {number}: /associations lists them");
                self.tell(Record::error(text));
            }
        }
    }

    fn current_association(&self) -> Option<Served> {
        let id = self.current?;
        self.associations.get(&id).cloned()
    }

    fn list(&self) -> Vec<Record> {
        self.associations
            .iter()
            .map(|(id, served)| {
                let (messages, bytes) = served.received.totals();
                Record::report("association")
                    .about(served.subject)
                    .with("current", self.current == Some(*id))
                    .with("messages_received", messages)
                    .with("bytes_received", bytes)
            })
            .collect()
    }

    fn tell_statistics(&self) -> Task<()> {
        let output = self.output.clone();
        let stack = self.stack.clone();
        let settings = report::settings(&self.options.config);
        let current = self.current_association();
        Box::pin(async move {
            if let Some(Served {
                association,
                subject,
                received,
            }) = current
            {
                if let Some(status) = association.status().await {
                    output.print(report::status(subject, &status)).await;
                }
                if let Some(statistics) = association.statistics().await {
                    let counters = report::counters(subject, &statistics, &received);
                    output.print(counters).await;
                }
            }
            let statistics = stack.statistics().await;
            output.print(report::stack(&statistics)).await;
            if let Some(drops) = report::drops(&statistics) {
                output.print(drops).await;
            }
            print_all(output, settings).await;
        })
    }
}

async fn send(association: Association, outgoing: TextMessage, ppid: u32, output: Output) {
    let TextMessage {
        stream,
        unordered,
        policy,
        text,
    } = outgoing;
    let bytes = text.len();
    let info = SendInfo {
        stream,
        ppid,
        unordered,
        pr_policy: policy,
        ..SendInfo::default()
    };
    let Err(error) = association.send(info, text).await else {
        return;
    };
    let text = match error {
        SendError::InvalidStream => {
            let last = association.outbound_streams().saturating_sub(1);
            format!("there is no stream {stream}: they go from 0 to {last}")
        }
        error => format!("a message of {bytes} bytes is not sent: {error}"),
    };
    output.print(Record::error(text)).await;
}

/// Tells of a command that was refused.
async fn tell_refused(command: &str, result: Result<(), impl Display>, output: &Output) {
    if let Err(error) = result {
        let text = format!("{command}: {error}");
        output.print(Record::error(text)).await;
    }
}

async fn tell_paths(served: Served, output: Output) {
    match served.association.status().await {
        Some(status) => print_all(output, report::paths(served.subject, &status)).await,
        None => {
            let ended = Record::error("the association has ended");
            output.print(ended).await;
        }
    }
}

async fn print_all(output: Output, records: Vec<Record>) {
    for record in records {
        output.print(record).await;
    }
}
