//! The task that serves a stack, or one of several: it waits for packets, commands and deadlines, and lets the
//! [`Machine`] do what they ask for. Handles that have something to send may do so by themselves.

mod deadlines;
mod host;
mod machine;
mod names;
mod port;

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
use crate::team::{HandedOver, Team};
use machine::Machine;
pub(crate) use machine::SharedMachine;

/// How many commands are served before packets are looked at again.
const COMMAND_BATCH: usize = 64;

/// How long packets that an impairment delays may still leave after everything has ended.
const LAST_PACKETS: Duration = Duration::from_secs(2);

pub(crate) struct Driver {
    /// Missing where another worker reads for this one.
    reader: Option<Reader>,
    team: Team,
    commands: mpsc::Receiver<Command>,
    /// Somebody may still send commands.
    commands_open: bool,
    mailbox: Arc<Mailbox>,
    machine: SharedMachine,
    /// What other workers have handed over.
    handed_over: Vec<HandedOver>,
    /// Those who wait for the end, once it has been asked for.
    closing: Option<Vec<oneshot::Sender<()>>>,
    /// Nothing is left to do but for the others, who have been told.
    finished: bool,
    local_addr: SocketAddr,
}

/// What a worker works with.
pub(crate) struct Post {
    /// Missing where another worker reads for this one.
    pub(crate) reader: Option<Reader>,
    pub(crate) writer: Writer,
    pub(crate) team: Team,
    /// Who answers packets to ports that nobody has, where ports are the whole host's.
    pub(crate) duty: Option<Arc<Mutex<OutOfTheBlueDuty>>>,
    pub(crate) commands: mpsc::Receiver<Command>,
}

/// What a worker and its ports know of the stack.
#[derive(Clone, Debug)]
pub(crate) struct Surroundings {
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
    Attention,
    Timeout,
    AllFinished,
}

/// What is to be done after a wake was served.
enum Then {
    GoOn,
    /// Everything has ended: what is on its way is to leave.
    Drain,
    End,
}

impl Driver {
    pub(crate) fn new(post: Post, surroundings: Surroundings) -> Self {
        let Post {
            reader,
            writer,
            team,
            duty,
            commands,
        } = post;
        Self {
            reader,
            team,
            commands,
            commands_open: true,
            mailbox: Arc::clone(&surroundings.mailbox),
            local_addr: surroundings.local_addr,
            machine: SharedMachine::new(Machine::new(writer, duty, surroundings)),
            handed_over: Vec::new(),
            closing: None,
            finished: false,
        }
    }

    /// By which handles do what cannot wait.
    pub(crate) fn machine(&self) -> SharedMachine {
        self.machine.clone()
    }

    /// Serves until the stack is closed and everything has ended.
    pub(crate) async fn run(mut self) {
        let mut alarm = Box::pin(tokio::time::sleep_until(Instant::now().into()));
        loop {
            // A carrier with packets in it is always ready: others get their turn here.
            tokio::task::coop::consume_budget().await;
            let wake = self.wait(alarm.as_mut()).await;
            match self.serve(wake) {
                Then::GoOn => {}
                Then::Drain => {
                    self.machine.drain(LAST_PACKETS).await;
                    if self.team.is_alone() {
                        break;
                    }
                    self.finished = true;
                    self.team.finish();
                }
                Then::End => break,
            }
        }
    }

    async fn wait(&mut self, mut alarm: std::pin::Pin<&mut Sleep>) -> Wake {
        // Deadlines that have moved to later are looked at too early, once: they move with every packet.
        let rung = alarm.is_elapsed();
        let set = (!rung).then(|| alarm.deadline().into_std());
        let Some(rest) = self.machine.rest(set) else {
            return Wake::AllFinished;
        };
        if let Some(deadline) = rest.alarm
            && set != Some(deadline)
        {
            alarm.as_mut().reset(deadline.into());
        }
        let Driver {
            reader,
            team,
            commands,
            mailbox,
            ..
        } = self;
        tokio::select! {
            result = receive(reader.as_mut()) => Wake::Packets(result),
            result = writable(rest.blocked.as_ref()), if rest.blocked.is_some() => Wake::Writable(result),
            ended = team.wait(&mut self.handed_over), if !team.is_alone() => match ended {
                true => Wake::AllFinished,
                false => Wake::HandedOver,
            },
            command = commands.recv(), if self.commands_open => Wake::Command(command),
            () = mailbox.wait() => Wake::Attention,
            () = alarm.as_mut(), if rest.alarm.is_some() => Wake::Timeout,
        }
    }

    fn serve(&mut self, wake: Wake) -> Then {
        let shared = self.machine.clone();
        let mut machine = shared.lock();
        let Some(machine) = machine.as_deref_mut().and_then(Option::as_mut) else {
            // Whoever served it has panicked.
            self.team.fail();
            return Then::End;
        };
        let now = Instant::now();
        // Endpoints are opened before the commands that are meant for them.
        machine.attend(now);
        match wake {
            Wake::Packets(Ok(())) => self.handle_packets(machine, now),
            Wake::Packets(Err(error)) | Wake::Writable(Err(error)) => {
                let local = self.local_addr;
                tracing::error!(%local, %error, "the carrier under SCTP failed");
                // The others cannot go on alone.
                self.team.fail();
                return Then::End;
            }
            Wake::Writable(Ok(())) | Wake::Attention => {}
            Wake::HandedOver => {
                for item in self.handed_over.drain(..) {
                    machine.handle_handed_over(now, item);
                }
            }
            Wake::Command(Some(command)) => self.handle_commands(machine, now, command),
            Wake::Command(None) => {
                self.commands_open = false;
                self.close(machine, now, None);
            }
            Wake::Timeout => machine.handle_timeouts(now),
            Wake::AllFinished => return Then::End,
        }
        machine.settle(now);
        machine.attend_latecomers(now);
        match self.closing.is_some() && machine.has_no_ports() && !self.finished {
            true => Then::Drain,
            false => Then::GoOn,
        }
    }

    fn handle_packets(&mut self, machine: &mut Machine, now: Instant) {
        let Some(reader) = &mut self.reader else {
            return;
        };
        while let Some(arrived) = reader.pop() {
            machine.handle_packet(now, arrived, &self.team);
        }
        while let Some(reported) = reader.pop_error() {
            machine.handle_error(now, reported, &self.team);
        }
    }

    fn handle_commands(&mut self, machine: &mut Machine, now: Instant, first: Command) {
        self.handle_command(machine, now, first);
        for _ in 1..COMMAND_BATCH {
            let Ok(command) = self.commands.try_recv() else {
                return;
            };
            // One that was sent after `attend` may be for an endpoint opened after it, too.
            machine.attend(now);
            self.handle_command(machine, now, command);
        }
    }

    fn handle_command(&mut self, machine: &mut Machine, now: Instant, command: Command) {
        match command {
            Command::Statistics { reply } => {
                let mut statistics = machine.statistics();
                if let Some(reader) = &self.reader {
                    statistics.carrier += reader.statistics();
                }
                // Who asked may have gone meanwhile.
                reply.send(statistics).ok();
            }
            Command::CloseStack { reply } => self.close(machine, now, Some(reply)),
            other => machine.handle_command(now, other),
        }
    }

    fn close(&mut self, machine: &mut Machine, now: Instant, reply: Option<oneshot::Sender<()>>) {
        self.closing.get_or_insert_default().extend(reply);
        machine.close(now);
    }
}

/// Tells everyone who still waits that it is over: at the end of [`Driver::run`], or when the
/// runtime is shut down before.
impl Drop for Driver {
    fn drop(&mut self) {
        self.mailbox.close();
        if let Some(machine) = self.machine.take() {
            let mut statistics = machine.finish(Instant::now());
            if let Some(reader) = &self.reader {
                statistics.carrier += reader.statistics();
            }
            self.mailbox.leave_statistics(statistics);
        }
        for reply in self.closing.take().into_iter().flatten() {
            // Who waited may have gone meanwhile.
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
