//! The task that serves a stack on the kernel's SCTP.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use tokio::sync::{mpsc, oneshot};

use super::port::{Port, StackContext};
use super::watch::{Ready, Watches};
use crate::config::KernelCarrierConfig;
use crate::keys::EndpointKey;
use crate::mailbox::{Command, Mailbox};
use crate::service_queue::ServiceRequests;
use crate::statistics::StackStatistics;

/// Starts the task that serves a stack.
pub(crate) fn start(
    config: &KernelCarrierConfig,
    mailbox: Arc<Mailbox>,
    commands: mpsc::Receiver<Command>,
) {
    let context = StackContext {
        accept_backlog: config.accept_backlog,
        close_timeout: config.close_timeout,
        mailbox,
    };
    tokio::spawn(Driver::new(commands, context).run());
}

struct Driver {
    commands: mpsc::Receiver<Command>,
    /// There are handles that can send commands.
    commands_open: bool,
    /// The endpoints, by how many had been opened before each.
    ports: BTreeMap<u64, Port>,
    watches: Watches,
    context: StackContext,
    /// Replies to those who close the stack, once that has been asked for.
    closing: Option<Vec<oneshot::Sender<()>>>,
    /// What the endpoints counted that are no more.
    counted: StackStatistics,
}

/// Why the driver woke.
enum Wake {
    Ready(Ready),
    Command(Option<Command>),
    Service,
    Timeout,
}

impl Driver {
    pub(super) fn new(commands: mpsc::Receiver<Command>, context: StackContext) -> Self {
        Self {
            commands,
            commands_open: true,
            ports: BTreeMap::new(),
            watches: Watches::default(),
            context,
            closing: None,
            counted: StackStatistics::default(),
        }
    }

    /// Serves until the stack is closed and everything has ended.
    pub(super) async fn run(mut self) {
        while self.closing.is_none() || !self.ports.is_empty() {
            let wake = self.wait().await;
            let now = Instant::now();
            // Endpoints are opened before the commands that are meant for them.
            self.service(now);
            match wake {
                Wake::Ready(ready) => {
                    if let Some(port) = self.ports.get_mut(&ready.owner.endpoint) {
                        port.handle_ready(ready);
                    }
                }
                Wake::Command(Some(command)) => self.handle_command(now, command),
                Wake::Command(None) => {
                    self.commands_open = false;
                    self.close(now, None);
                }
                Wake::Service => {}
                Wake::Timeout => {
                    for port in self.ports.values_mut() {
                        port.handle_timeout(now);
                    }
                }
            }
            self.flush();
        }
    }

    async fn wait(&mut self) -> Wake {
        let timeouts = self.ports.values().filter_map(Port::next_timeout);
        let deadline = timeouts.min().map(tokio::time::Instant::from_std);
        let timeout = async {
            match deadline {
                Some(deadline) => tokio::time::sleep_until(deadline).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            ready = self.watches.next() => Wake::Ready(ready),
            command = self.commands.recv(), if self.commands_open => Wake::Command(command),
            () = self.context.mailbox.service().woken() => Wake::Service,
            () = timeout => Wake::Timeout,
        }
    }

    /// Looks at everything that handles have put on the list.
    fn service(&mut self, now: Instant) {
        let (new_endpoints, requests) = self.context.mailbox.take();
        let ServiceRequests {
            associations,
            inboxes,
            abandoned_connects,
            dropped_endpoints,
        } = requests;
        let deadline = now + self.context.close_timeout;
        for endpoint in new_endpoints {
            let style = endpoint.style.clone();
            let (key, config) = (endpoint.key, endpoint.config);
            let Some(socket) = endpoint.socket else {
                continue;
            };
            let context = self.context.clone();
            match Port::new(key, socket, config, endpoint.style, context) {
                Ok(mut port) => {
                    if self.closing.is_some() {
                        port.close(deadline, None);
                    }
                    self.ports.insert(key.number, port);
                }
                Err(error) => {
                    tracing::error!(port = key.port, %error, "an SCTP endpoint cannot be served");
                    style.worker_finished();
                }
            }
        }
        for key in associations {
            if let Some(port) = self.port(key.endpoint) {
                port.service_association(key.id);
            }
        }
        for endpoint in inboxes {
            if let Some(port) = self.port(endpoint) {
                port.service_inbox();
            }
        }
        for endpoint in abandoned_connects {
            if let Some(port) = self.port(endpoint) {
                port.abandon_connects();
            }
        }
        for endpoint in dropped_endpoints {
            if let Some(port) = self.port(endpoint) {
                port.handles_dropped(deadline);
            }
        }
    }

    /// Serves a command. The caller may have given up meanwhile: errors of replies are ignored.
    fn handle_command(&mut self, now: Instant, command: Command) {
        match command {
            Command::Connect {
                endpoint,
                to,
                reply,
            } => {
                if let Some(port) = self.port(endpoint) {
                    port.connect(*to, reply);
                }
            }
            Command::Control {
                key,
                control,
                reply,
            } => {
                if let Some(port) = self.port(key.endpoint) {
                    reply.send(port.control(key.id, control)).ok();
                }
            }
            // There is no engine to be called: handles do not ask.
            Command::Call { .. } => {}
            Command::Status { key, reply } => {
                let port = self.port(key.endpoint);
                reply.send(port.and_then(|port| port.status(key.id))).ok();
            }
            Command::AssociationStatistics { key, reply } => {
                let port = self.port(key.endpoint);
                let statistics = port.and_then(|port| port.association_statistics(key.id));
                reply.send(statistics).ok();
            }
            Command::Statistics { reply } => drop(reply.send(self.statistics())),
            Command::CloseEndpoint { endpoint, reply } => {
                let deadline = now + self.context.close_timeout;
                match self.port(endpoint) {
                    Some(port) => port.close(deadline, Some(reply)),
                    None => drop(reply.send(())),
                }
            }
            Command::CloseStack { reply } => self.close(now, Some(reply)),
        }
    }

    /// Ends what has nothing left to do, and waits for the rest.
    fn flush(&mut self) {
        for port in self.ports.values_mut() {
            port.watch(&self.watches);
        }
        let finished = self.ports.extract_if(.., |_, port| port.is_finished());
        for (_, port) in finished {
            self.counted += port.finish();
        }
    }

    fn close(&mut self, now: Instant, reply: Option<oneshot::Sender<()>>) {
        self.context.mailbox.close();
        self.closing.get_or_insert_default().extend(reply);
        let deadline = now + self.context.close_timeout;
        for port in self.ports.values_mut() {
            port.close(deadline, None);
        }
    }

    fn statistics(&mut self) -> StackStatistics {
        let mut sum = self.counted;
        for port in self.ports.values_mut() {
            sum += port.statistics();
        }
        sum
    }

    /// The endpoint, if it is still there.
    fn port(&mut self, endpoint: EndpointKey) -> Option<&mut Port> {
        self.ports.get_mut(&endpoint.number)
    }
}

/// Completes all pending replies, also when the runtime is shut down before the end.
impl Drop for Driver {
    fn drop(&mut self) {
        let mailbox = Arc::clone(&self.context.mailbox);
        mailbox.close();
        for endpoint in mailbox.take().0 {
            endpoint.style.worker_finished();
        }
        for port in std::mem::take(&mut self.ports).into_values() {
            self.counted += port.finish();
        }
        mailbox.leave_statistics(self.counted);
        for reply in self.closing.take().into_iter().flatten() {
            // The caller may have given up meanwhile.
            reply.send(()).ok();
        }
    }
}
