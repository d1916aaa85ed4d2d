//! The whole program: an endpoint, its associations, what is typed, and how it all ends.

mod commands;
mod connection;

use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use sctp_net::{Association, AssociationId, CloseCause, Endpoint, EndpointConfig, Stack, Tap};
use tokio::sync::{Notify, mpsc};
use tokio::task::{JoinError, JoinSet};

use crate::carrier::{Carrier, Over};
use crate::command::Command;
use crate::input::{self, Input};
use crate::output::Output;
use crate::record::{Record, Subject};
use crate::service::Service;
use crate::session::{Received, Session};
use crate::target::{ResolveError, Target};
use crate::terminal::Terminal;
use connection::Connection;

/// What the program is to do.
#[derive(Clone, Debug)]
pub struct Options {
    /// What carries the packets.
    pub carrier: Carrier,
    /// The local SCTP port; 0 chooses a free one.
    pub port: u16,
    /// The protocol parameters.
    pub config: EndpointConfig,
    /// What is done with associations and their messages.
    pub service: Service,
    /// The PPID of the messages that are typed, and of those that the service begins with.
    pub ppid: u32,
    /// Streams, and their weights or priorities for [`AssociationConfig::stream_scheduler`].
    ///
    /// [`AssociationConfig::stream_scheduler`]: field@sctp_net::AssociationConfig::stream_scheduler
    pub stream_values: Vec<(u16, u16)>,
    /// How long the peers must have been quiet, after the end of the input, before associations are
    /// shut down.
    pub linger: Duration,
    /// How long associations may take to be shut down once the program is told to end. Then they are
    /// aborted.
    pub linger_limit: Duration,
    /// Whom to associate with; nobody: wait for peers.
    pub connect: Option<Target>,
    /// Whether to associate again when an association has ended, for ever.
    pub reconnect: bool,
}

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All associations were shut down in good order.
    Graceful,
    /// An association was lost or aborted.
    Lost,
    /// Associations were aborted at the end: they took longer than [`Options::linger_limit`], or the
    /// program was told twice to end.
    Aborted,
}

/// Why it could not go on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A name has no address.
    #[error(transparent)]
    Resolve(#[from] ResolveError),
    /// The carrier, the port, or a thread could not be had.
    #[error(transparent)]
    Start(#[from] io::Error),
    /// The association could not be begun.
    #[error(transparent)]
    Connect(#[from] sctp_net::ConnectError),
    /// It was interrupted before an association was up.
    #[error("interrupted before an association was up")]
    Interrupted,
    /// Packets are missing in the file of the capture.
    #[error("the capture is not complete: {0}")]
    Capture(#[source] io::Error),
    /// The carrier failed.
    #[error("the carrier of SCTP failed")]
    CarrierFailed,
}

/// Runs until the input ends, `terminal.stops` says so, or, where the options say whom to connect to,
/// until that association has ended.
///
/// # Errors
///
/// When it cannot begin, or the carrier fails.
pub async fn run(options: Options, terminal: Terminal) -> Result<Outcome, Error> {
    let Terminal {
        input,
        lines,
        errors,
        for_people,
        mut stops,
    } = terminal;
    let (output, writer) = Output::start(lines, errors, for_people)?;
    let started = tokio::select! {
        program = Program::start(options, input, output) => program,
        // A name may take long to be resolved.
        Some(()) = stops.recv() => Err(Error::Interrupted),
    };
    let result = match started {
        Ok(program) => {
            let tap = program.tap.clone();
            let result = program.run(&mut stops).await;
            // The program may end before the stack lets go of the file.
            match tap.map_or(Ok(()), |tap| tap.flush()) {
                Ok(()) => result,
                Err(error) => result.and(Err(Error::Capture(error))),
            }
        }
        Err(error) => Err(error),
    };
    let progress = writer.progress();
    let is_aborted = matches!(result, Ok(Outcome::Aborted));
    tokio::select! {
        () = writer.finish() => {}
        // Nobody reads what is still to be written.
        () = progress.stalled(ABORT_TIME), if is_aborted => {}
        Some(()) = stops.recv() => {}
    }
    result
}

/// How long to wait for each line about associations that are aborted.
const ABORT_TIME: Duration = Duration::from_secs(1);

type Task<T> = Pin<Box<dyn Future<Output = T> + Send>>;

struct Program {
    options: Options,
    stack: Stack,
    /// The capture of its packets.
    tap: Option<Tap>,
    endpoint: Endpoint,
    output: Output,
    connection: Option<Connection>,
    sessions: JoinSet<(AssociationId, CloseCause)>,
    /// How many associations have come up.
    begun: u64,
    associations: BTreeMap<AssociationId, Served>,
    /// The association to which typed lines go.
    current: Option<AssociationId>,
    input: Option<mpsc::Receiver<Input>>,
    /// A command that waits for an association.
    held: Option<Command>,
    /// A command that is being done, or something to print. The program itself never waits for the
    /// output: it would not hear who wants it to end.
    work: Option<Task<()>>,
    /// After the end of the input: ends when the peers have been quiet for long enough.
    quiet: Option<Task<()>>,
    activity: Arc<Notify>,
    /// Once the program was told to end: ends when that has taken long enough.
    limit: Option<Task<()>>,
    /// Once everything is being aborted: ends when nothing more is told of it.
    patience: Option<Task<()>>,
    phase: Phase,
    lost: bool,
    failure: Option<Error>,
}

/// An association that is up, and what is known of it here.
#[derive(Clone, Debug)]
struct Served {
    association: Association,
    subject: Subject,
    received: Arc<Received>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    /// Associations may begin, lines may be typed.
    Running,
    /// The input has ended.
    InputEnded,
    /// Everything is being shut down.
    Stopping,
    /// Everything is being aborted.
    Aborting,
}

/// What happened.
enum Happening {
    Accepted(Option<Association>),
    Connected(Result<Association, sctp_net::ConnectError>),
    SessionEnded(Result<(AssociationId, CloseCause), JoinError>),
    Input(Option<Input>),
    WorkDone,
    Quiet,
    OutputClosed,
    Stop,
    LimitReached,
    PatienceEnded,
}

impl Program {
    async fn start(
        mut options: Options,
        source: Option<Box<dyn io::BufRead + Send>>,
        output: Output,
    ) -> Result<Program, Error> {
        let peers = match &options.connect {
            Some(target) => target.resolve().await?,
            None => Vec::new(),
        };
        if options.service == Service::Echo {
            // What comes back is to be what was sent, not a message for each piece.
            options.config.association.partial_delivery_point = usize::MAX;
        }
        let (stack, tap) = options.carrier.open(&peers)?;
        let endpoint = stack.endpoint(options.port, options.config.clone())?;
        output.print(introduce(&options, &stack, &endpoint)).await;
        // A command may stand before the longest message.
        const COMMAND: usize = 64;
        let longest = options
            .config
            .association
            .max_message_size
            .saturating_add(COMMAND);
        let input = source
            .map(|source| input::start(source, longest))
            .transpose()?;
        let mut program = Program {
            connection: options.connect.as_ref().map(|target| {
                let addresses = peers.iter().map(|peer| peer.ip).collect();
                Connection::new(addresses, target.port())
            }),
            stack,
            tap,
            endpoint,
            output,
            sessions: JoinSet::new(),
            begun: 0,
            associations: BTreeMap::new(),
            current: None,
            input,
            held: None,
            work: None,
            quiet: None,
            activity: Arc::default(),
            limit: None,
            patience: None,
            phase: Phase::Running,
            lost: false,
            failure: None,
            options,
        };
        program.connect();
        Ok(program)
    }

    async fn run(mut self, stops: &mut mpsc::Receiver<()>) -> Result<Outcome, Error> {
        while !self.is_over() {
            match self.next(stops).await {
                Happening::Accepted(Some(association)) => self.begin(association, true),
                Happening::Accepted(None) => {
                    self.failure.get_or_insert(Error::CarrierFailed);
                    self.stop();
                }
                Happening::Connected(result) => self.connected(result),
                Happening::SessionEnded(Ok((id, cause))) => self.session_ended(id, &cause),
                Happening::SessionEnded(Err(error)) => {
                    // A session is never cancelled: it has panicked, and so does who waits for it.
                    std::panic::resume_unwind(error.into_panic());
                }
                Happening::Input(input) => self.take_input(input),
                Happening::WorkDone => self.work = None,
                Happening::Quiet | Happening::OutputClosed => self.stop(),
                Happening::Stop if self.limit.is_none() => self.interrupt(),
                Happening::Stop if self.phase < Phase::Aborting => self.abort(),
                Happening::LimitReached => self.abort_at_limit(),
                Happening::Stop | Happening::PatienceEnded => break,
            }
            self.look_at_input_end();
        }
        let progress = self.output.progress();
        let is_aborting = self.phase == Phase::Aborting;
        tokio::select! {
            () = self.close() => {}
            () = progress.stalled(ABORT_TIME), if is_aborting => {}
            Some(()) = stops.recv() => {}
        }
        match self.failure {
            _ if self.phase == Phase::Aborting => Ok(Outcome::Aborted),
            Some(error) => Err(error),
            None if self.lost => Ok(Outcome::Lost),
            None => Ok(Outcome::Graceful),
        }
    }

    async fn next(&mut self, stops: &mut mpsc::Receiver<()>) -> Happening {
        let takes_input = self.held.is_none() && self.work.is_none();
        let is_open = self.phase < Phase::Stopping;
        let attempt = self.connection.as_mut().and_then(Connection::attempt);
        tokio::select! {
            Some(()) = stops.recv() => Happening::Stop,
            Some(result) = self.sessions.join_next() => Happening::SessionEnded(result),
            () = poll(&mut self.work) => Happening::WorkDone,
            association = self.endpoint.accept(), if is_open => Happening::Accepted(association),
            result = poll_some(attempt) => Happening::Connected(result),
            input = receive(&mut self.input), if takes_input => Happening::Input(input),
            () = poll(&mut self.quiet) => Happening::Quiet,
            () = poll(&mut self.limit), if self.phase < Phase::Aborting => Happening::LimitReached,
            () = poll(&mut self.patience) => Happening::PatienceEnded,
            () = self.output.closed(), if is_open => Happening::OutputClosed,
        }
    }

    /// An association is up.
    fn begin(&mut self, association: Association, incoming: bool) {
        let id = association.id();
        self.begun += 1;
        let subject = Subject {
            number: self.begun,
            peer: association.peer(),
        };
        let received = Arc::default();
        if let Some(connection) = &mut self.connection {
            connection.begun(&association);
        }
        let session = Session {
            association: association.clone(),
            subject,
            incoming,
            service: self.options.service,
            ppid: self.options.ppid,
            stream_values: self.options.stream_values.clone(),
            output: self.output.clone(),
            received: Arc::clone(&received),
            activity: Arc::clone(&self.activity),
        };
        self.sessions
            .spawn(async move { (id, session.run().await) });
        let served = Served {
            association,
            subject,
            received,
        };
        self.associations.insert(id, served);
        let is_ours = self
            .connection
            .as_ref()
            .is_some_and(|connection| connection.is(id));
        if self.current.is_none() || is_ours {
            self.current = Some(id);
        }
        if let (Some(command), Some(_)) = (self.held.take(), self.current) {
            self.work = Some(self.execute(command));
        }
    }

    /// An association has ended, and everything has been told of it.
    fn session_ended(&mut self, id: AssociationId, cause: &CloseCause) {
        self.associations.remove(&id);
        if self.current == Some(id) {
            self.current = self.associations.keys().next().copied();
        }
        let is_ours = self
            .connection
            .as_ref()
            .is_some_and(|connection| connection.is(id));
        let graceful = *cause == CloseCause::Shutdown;
        if is_ours {
            self.lost = !graceful;
            self.connection_ended();
        } else if self.connection.is_none() && self.phase >= Phase::Stopping {
            self.lost |= !graceful;
        }
    }

    fn take_input(&mut self, input: Option<Input>) {
        match input {
            Some(Input::Line(line)) => self.take_line(&line),
            Some(Input::TooLong(bytes)) => {
                let most = self.options.config.association.max_message_size;
                let text =
                    format!("a line of {bytes} bytes is not sent: max_message_size is {most}");
                self.tell(Record::error(text));
            }
            Some(Input::End(reason)) => {
                if let Some(error) = reason {
                    self.tell(Record::error(format!("standard input: {error}")));
                }
                self.end_input();
            }
            None => self.end_input(),
        }
    }

    /// Prints a line before more is read, and after what is being done.
    fn tell(&mut self, record: Record) {
        let output = self.output.clone();
        let before = self.work.take();
        self.work = Some(Box::pin(async move {
            if let Some(before) = before {
                before.await;
            }
            output.print(record).await;
        }));
    }

    fn end_input(&mut self) {
        self.input = None;
        if self.phase == Phase::Running {
            self.phase = Phase::InputEnded;
        }
    }

    /// After the end of the input, and when all of it is done: waits for quiet, then stops.
    fn look_at_input_end(&mut self) {
        let is_done = self.held.is_none() && self.work.is_none() && self.quiet.is_none();
        if self.phase != Phase::InputEnded || !is_done || self.is_connecting() {
            return;
        }
        let associations: Vec<Association> = self
            .associations
            .values()
            .map(|served| served.association.clone())
            .collect();
        let activity = Arc::clone(&self.activity);
        let linger = self.options.linger;
        self.quiet = Some(Box::pin(quiet(associations, activity, linger)));
    }

    /// Shuts everything down.
    fn stop(&mut self) {
        if self.phase >= Phase::Stopping {
            return;
        }
        self.phase = Phase::Stopping;
        self.input = None;
        self.quiet = None;
        if let Some(connection) = &mut self.connection {
            connection.give_up();
        }
        for served in self.associations.values() {
            served.association.begin_shutdown();
        }
    }

    /// The person or the system wants it to end.
    fn interrupt(&mut self) {
        let limit = self.options.linger_limit;
        self.limit = Some(Box::pin(tokio::time::sleep(limit)));
        if self.is_connecting() && !self.options.reconnect {
            self.failure.get_or_insert(Error::Interrupted);
        }
        self.stop();
        self.tell(Record::report("stopping"));
    }

    /// It has taken too long to shut everything down.
    fn abort_at_limit(&mut self) {
        self.abort();
        let limit = self.options.linger_limit;
        let text = format!(
            "associations are aborted: they have not ended within {limit:?} (--linger-limit)"
        );
        self.tell(Record::error(text));
    }

    /// Ends everything at once.
    fn abort(&mut self) {
        self.phase = Phase::Aborting;
        let progress = self.output.progress();
        self.patience = Some(Box::pin(async move { progress.stalled(ABORT_TIME).await }));
        for served in self.associations.values() {
            served.association.abort(b"interrupted");
        }
    }

    fn is_over(&self) -> bool {
        self.phase >= Phase::Stopping && self.sessions.is_empty() && self.work.is_none()
    }

    async fn close(&mut self) {
        if self.held.is_some() {
            let text = "a line was not sent: there is no association";
            self.output.print(Record::error(text)).await;
        }
        self.stack.close().await;
    }
}

/// What the program tells of itself when it begins.
fn introduce(options: &Options, stack: &Stack, endpoint: &Endpoint) -> Record {
    let over = options.carrier.over;
    let addresses: Vec<String> = stack
        .local_addresses()
        .iter()
        .map(ToString::to_string)
        .collect();
    let encapsulation_port = (over == Over::Udp).then(|| stack.local_addr().port());
    Record::report("endpoint")
        .with("port", endpoint.port())
        .with("over", over)
        .with_some("encapsulation_port", encapsulation_port)
        .with("addresses", addresses.join(","))
        .with("service", options.service)
}

/// Waits until no message has arrived for so long, and all that was sent is acknowledged.
async fn quiet(associations: Vec<Association>, activity: Arc<Notify>, linger: Duration) {
    loop {
        tokio::select! {
            () = activity.notified() => continue,
            () = tokio::time::sleep(linger) => {}
        }
        let mut outstanding = 0;
        for association in &associations {
            let status = association.status().await;
            outstanding += status.map_or(0, |status| status.send_buffer_bytes);
        }
        if outstanding == 0 || linger.is_zero() {
            return;
        }
    }
}

/// The result of a task; waits for ever where there is none.
async fn poll<T>(task: &mut Option<Task<T>>) -> T {
    poll_some(task.as_mut()).await
}

async fn poll_some<T>(task: Option<&mut Task<T>>) -> T {
    match task {
        Some(task) => task.await,
        None => std::future::pending().await,
    }
}

/// What is typed next; waits for ever where nothing can be.
async fn receive(input: &mut Option<mpsc::Receiver<Input>>) -> Option<Input> {
    match input {
        Some(input) => input.recv().await,
        None => std::future::pending().await,
    }
}
