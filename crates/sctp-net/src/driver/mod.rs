//! The task of a worker: it waits for packets, commands and deadlines, and hands them to the [`Worker`]. Handles
//! with something to send may run the worker themselves.

mod claimed_peers;
mod deadlines;
mod host;
mod port;
mod worker;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot};
use tokio::time::Sleep;

use crate::carrier::{Reader, Writer};
use crate::claims::OutOfTheBlueDuty;
use crate::directory::Directory;
use crate::mailbox::{Command, Mailbox};
use crate::ports::Ports;
use crate::worker_group::{HandedOver, WorkerGroup};
pub(crate) use worker::SharedWorker;
use worker::Worker;

/// How many commands are served before packets are looked at again.
const COMMAND_BATCH: usize = 64;

/// How long packets that an impairment delays may still leave after everything has ended.
const LAST_PACKETS: Duration = Duration::from_secs(2);

pub(crate) struct Driver {
    /// Missing where another worker reads for this one.
    reader: Option<Reader>,
    group: WorkerGroup,
    commands: mpsc::Receiver<Command>,
    /// There are handles that can send commands.
    commands_open: bool,
    mailbox: Arc<Mailbox>,
    worker: SharedWorker,
    /// What other workers have handed over.
    handed_over: Vec<HandedOver>,
    /// Replies to those who close the stack, once that has been asked for.
    closing: Option<Vec<oneshot::Sender<()>>>,
    /// This worker has ended all its ports, and goes on for the others alone.
    finished: bool,
    local_addr: SocketAddr,
}

/// The parts that a worker is made of.
pub(crate) struct WorkerParts {
    /// Missing where another worker reads for this one.
    pub(crate) reader: Option<Reader>,
    pub(crate) writer: Writer,
    pub(crate) group: WorkerGroup,
    /// Decides on answers to packets for ports without endpoint, where ports are shared with other programs.
    pub(crate) duty: Option<Arc<Mutex<OutOfTheBlueDuty>>>,
    pub(crate) commands: mpsc::Receiver<Command>,
}

/// What a worker and its ports share.
#[derive(Clone, Debug)]
pub(crate) struct WorkerContext {
    /// Stands in where the local address of a path is not known.
    pub(crate) local_addr: SocketAddr,
    /// The addresses that peers are told of.
    pub(crate) listed_addresses: Vec<IpAddr>,
    pub(crate) accept_backlog: usize,
    pub(crate) close_timeout: Duration,
    /// Packets that are read together are acknowledged together.
    pub(crate) joint_acknowledgement: bool,
    pub(crate) mailbox: Arc<Mailbox>,
    pub(crate) ports: Arc<Ports>,
    /// This worker's number.
    pub(crate) worker: usize,
    /// How many there are.
    pub(crate) workers: usize,
    pub(crate) directory: Directory,
}

/// Why the driver woke.
enum Wake {
    Packets(io::Result<()>),
    Writable(io::Result<()>),
    HandedOver,
    Command(Option<Command>),
    Service,
    Timeout,
    AllFinished,
}

/// What comes after a wake was served.
enum Next {
    Continue,
    /// Everything has ended: what is on its way is to leave.
    Drain,
    End,
}

impl Driver {
    pub(crate) fn new(parts: WorkerParts, context: WorkerContext) -> Self {
        let WorkerParts {
            reader,
            writer,
            group,
            duty,
            commands,
        } = parts;
        Self {
            reader,
            group,
            commands,
            commands_open: true,
            mailbox: Arc::clone(&context.mailbox),
            local_addr: context.local_addr,
            worker: SharedWorker::new(Worker::new(writer, duty, context)),
            handed_over: Vec::new(),
            closing: None,
            finished: false,
        }
    }

    /// By which handles can run the worker.
    pub(crate) fn worker(&self) -> SharedWorker {
        self.worker.clone()
    }

    /// Serves until the stack is closed and everything has ended.
    pub(crate) async fn run(mut self) {
        let mut wake_at = Box::pin(tokio::time::sleep_until(Instant::now().into()));
        loop {
            // A carrier with packets in it is always ready: others get their turn here.
            tokio::task::coop::consume_budget().await;
            let wake = self.wait(wake_at.as_mut()).await;
            match self.serve(wake) {
                Next::Continue => {}
                Next::Drain => {
                    self.worker.drain(LAST_PACKETS).await;
                    if self.group.is_alone() {
                        break;
                    }
                    self.finished = true;
                    self.group.finish();
                }
                Next::End => break,
            }
        }
    }

    async fn wait(&mut self, mut wake_at: std::pin::Pin<&mut Sleep>) -> Wake {
        // Deadlines that have moved to later are looked at too early, once: they move with every packet.
        let rung = wake_at.is_elapsed();
        let set = (!rung).then(|| wake_at.deadline().into_std());
        let Some(rest) = self.worker.next_wait(set) else {
            return Wake::AllFinished;
        };
        if let Some(deadline) = rest.wake_at
            && set != Some(deadline)
        {
            wake_at.as_mut().reset(deadline.into());
        }
        let Driver {
            reader,
            group,
            commands,
            mailbox,
            ..
        } = self;
        tokio::select! {
            result = receive(reader.as_mut()) => Wake::Packets(result),
            result = writable(rest.blocked.as_ref()), if rest.blocked.is_some() => Wake::Writable(result),
            ended = group.wait(&mut self.handed_over), if !group.is_alone() => match ended {
                true => Wake::AllFinished,
                false => Wake::HandedOver,
            },
            command = commands.recv(), if self.commands_open => Wake::Command(command),
            () = mailbox.service().woken() => Wake::Service,
            () = wake_at.as_mut(), if rest.wake_at.is_some() => Wake::Timeout,
        }
    }

    fn serve(&mut self, wake: Wake) -> Next {
        let shared = self.worker.clone();
        let mut worker = shared.lock();
        let Some(worker) = worker.as_deref_mut().and_then(Option::as_mut) else {
            // The thread that ran it has panicked.
            self.group.fail();
            return Next::End;
        };
        let now = Instant::now();
        // Endpoints are opened before the commands that are meant for them.
        worker.service(now);
        match wake {
            Wake::Packets(Ok(())) => self.handle_packets(worker, now),
            Wake::Packets(Err(error)) | Wake::Writable(Err(error)) => {
                let local = self.local_addr;
                tracing::error!(%local, %error, "the carrier under SCTP failed");
                // The others cannot go on alone.
                self.group.fail();
                return Next::End;
            }
            Wake::Writable(Ok(())) | Wake::Service => {}
            Wake::HandedOver => {
                for item in self.handed_over.drain(..) {
                    worker.handle_handed_over(now, item);
                }
            }
            Wake::Command(Some(command)) => self.handle_commands(worker, now, command),
            Wake::Command(None) => {
                self.commands_open = false;
                self.close(worker, now, None);
            }
            Wake::Timeout => worker.handle_timeouts(now),
            Wake::AllFinished => return Next::End,
        }
        worker.flush(now);
        worker.service_again(now);
        match self.closing.is_some() && worker.has_no_ports() && !self.finished {
            true => Next::Drain,
            false => Next::Continue,
        }
    }

    fn handle_packets(&mut self, worker: &mut Worker, now: Instant) {
        let Some(reader) = &mut self.reader else {
            return;
        };
        while let Some(arrived) = reader.pop() {
            worker.handle_packet(now, arrived, &self.group);
        }
        while let Some(reported) = reader.pop_error() {
            worker.handle_error(now, reported, &self.group);
        }
    }

    fn handle_commands(&mut self, worker: &mut Worker, now: Instant, first: Command) {
        self.handle_command(worker, now, first);
        for _ in 1..COMMAND_BATCH {
            let Ok(command) = self.commands.try_recv() else {
                return;
            };
            // One that was sent after `service` may be for an endpoint opened after it, too.
            worker.service(now);
            self.handle_command(worker, now, command);
        }
    }

    fn handle_command(&mut self, worker: &mut Worker, now: Instant, command: Command) {
        match command {
            Command::Statistics { reply } => {
                let mut statistics = worker.statistics();
                if let Some(reader) = &self.reader {
                    statistics.carrier += reader.statistics();
                }
                // The caller may have given up meanwhile.
                reply.send(statistics).ok();
            }
            Command::CloseStack { reply } => self.close(worker, now, Some(reply)),
            other => worker.handle_command(now, other),
        }
    }

    fn close(&mut self, worker: &mut Worker, now: Instant, reply: Option<oneshot::Sender<()>>) {
        self.closing.get_or_insert_default().extend(reply);
        worker.close(now);
    }
}

/// Completes all pending replies: at the end of [`Driver::run`], or when the
/// runtime is shut down before.
impl Drop for Driver {
    fn drop(&mut self) {
        self.mailbox.close();
        if let Some(worker) = self.worker.take() {
            let mut statistics = worker.finish(Instant::now());
            if let Some(reader) = &self.reader {
                statistics.carrier += reader.statistics();
            }
            self.mailbox.leave_statistics(statistics);
        }
        for reply in self.closing.take().into_iter().flatten() {
            // The caller may have given up meanwhile.
            reply.send(()).ok();
        }
    }
}

async fn receive(reader: Option<&mut Reader>) -> io::Result<()> {
    match reader {
        Some(reader) => reader.receive().await,
        None => std::future::pending().await,
    }
}

async fn writable(blocked: Option<&crate::carrier::Blocked>) -> io::Result<()> {
    match blocked {
        Some(blocked) => blocked.writable().await,
        None => std::future::pending().await,
    }
}
