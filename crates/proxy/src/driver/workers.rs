//! The threads of the workers: each has a runtime of its own, on which its service and the sockets and
//! connections that belong to it live. Where one thread is enough for all, it drives all runtimes (see
//! [`Sharing`]).

use std::fmt;
use std::io;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::sync::Arc;
use std::thread::{self, Builder, available_parallelism};
use std::time::{Duration, Instant};

use tokio::runtime::{Builder as RuntimeBuilder, Handle, Runtime};
use tokio::sync::{oneshot, watch};
use tokio::task::yield_now;

use super::service::Service;
use super::sharing::{After, Post, Rounds, Sharing};

/// Running threads. They end some time after this is dropped; [`join`](Workers::join) waits for it.
#[derive(Debug)]
pub(super) struct Workers {
    workers: Vec<Worker>,
    sharing: Arc<Sharing>,
    /// Held for as long as the runtimes are to live.
    hold: watch::Sender<()>,
}

#[derive(Debug)]
struct Worker {
    runtime: Handle,
    /// The service goes this way; then it is empty.
    service: Option<oneshot::Sender<Service>>,
    ended: oneshot::Receiver<()>,
}

/// What a thread drives: a worker's runtime, and what has to end before it does.
pub(super) struct Seat {
    runtime: Runtime,
    main: Pin<Box<dyn Future<Output = ()> + Send>>,
}

/// Why a thread has stopped driving.
enum Stopped {
    /// All that it was for has ended.
    Ended,
    /// One thread is to drive all.
    ToShare,
}

/// The seats of all workers, on the first one's thread. They go back to the threads when this is dropped.
struct Company<'a> {
    sharing: &'a Sharing,
    seats: Vec<Seat>,
    had_too_much: bool,
}

/// How many tasks a runtime runs before it looks for what there is to do, where there are so many.
const TASKS_A_LOOK: u32 = 256;

/// For so many messages of a round a runtime looks once more: a message takes two tasks at the most.
const MESSAGES_A_LOOK: u64 = TASKS_A_LOOK as u64 / 2;

/// How many times a runtime looks at least for what is to be read: who has had its turn reads on after the next look.
const READING_LOOKS: u64 = 3;

/// How many times it does where that has been read.
const DOING_LOOKS: u64 = 2;

/// How many more times a runtime looks at the most.
const MAXIMUM_LOOKS: u64 = 16;

impl Workers {
    /// Starts so many threads, or one for each core where that is 0. They wait for their services. Messages wait for others
    /// for up to the time of `gather`.
    pub(super) fn start(count: usize, gather: Duration) -> io::Result<Workers> {
        let count = match count {
            0 => available_parallelism().map_or(1, usize::from),
            count => count,
        };
        let (hold, held) = watch::channel(());
        let sharing = Sharing::new(count, gather);
        let workers = (0..count)
            .map(|number| Worker::start(number, held.clone(), sharing.clone()))
            .collect::<io::Result<_>>()?;
        Ok(Workers {
            workers,
            sharing,
            hold,
        })
    }

    /// The runtimes, one a worker.
    pub(super) fn runtimes(&self) -> Vec<Handle> {
        let runtimes = self.workers.iter();
        runtimes.map(|worker| worker.runtime.clone()).collect()
    }

    pub(super) fn count(&self) -> usize {
        self.workers.len()
    }

    /// The place of the worker of this number among the others.
    pub(super) fn post(&self, number: usize) -> Post {
        self.sharing.post(number)
    }

    /// What tells on how many threads the workers are.
    pub(super) fn sharing(&self) -> Arc<Sharing> {
        self.sharing.clone()
    }

    /// Gives the worker of this number its service.
    pub(super) fn employ(&mut self, number: usize, service: Service) {
        let worker = self.workers.get_mut(number);
        if let Some(way) = worker.and_then(|worker| worker.service.take()) {
            // A thread that has ended drops it, which its handles show.
            let _ = way.send(service);
        }
    }

    /// Lets the runtimes end, and returns when the threads have.
    pub(super) async fn join(self) {
        drop(self.hold);
        for worker in self.workers {
            drop(worker.service);
            let _ = worker.ended.await;
        }
    }
}

impl Worker {
    fn start(
        number: usize,
        held: watch::Receiver<()>,
        sharing: Arc<Sharing>,
    ) -> io::Result<Worker> {
        let runtime = RuntimeBuilder::new_current_thread()
            .enable_all()
            .event_interval(TASKS_A_LOOK)
            .build()?;
        let handle = runtime.handle().clone();
        let (service, arrival) = oneshot::channel();
        let (ending, ended) = oneshot::channel();
        let seat = Seat::new(runtime, serve(arrival, held));
        Builder::new()
            .name(format!("worker-{number}"))
            .spawn(move || {
                work(number, seat, &sharing);
                let _ = ending.send(());
            })?;
        Ok(Worker {
            runtime: handle,
            service: Some(service),
            ended,
        })
    }
}

/// What a thread does.
fn work(number: usize, mut seat: Seat, sharing: &Sharing) {
    while let Stopped::ToShare = seat.drive(sharing) {
        let back = match number {
            0 => Company::gather(sharing, seat).serve(),
            _ => Some(sharing.lend(number, seat)),
        };
        match back {
            Some(back) => seat = back,
            None => return,
        }
    }
}

/// What a worker's runtime is for: it serves, and then lives on for what is still to be closed.
async fn serve(service: oneshot::Receiver<Service>, mut held: watch::Receiver<()>) {
    if let Ok(service) = service.await {
        // A task of its own, like those that read: in the queue of tasks it comes behind them, and they do not wake the
        // runtime for it.
        if let Err(error) = tokio::spawn(service.run()).await
            && let Ok(panic) = error.try_into_panic()
        {
            resume_unwind(panic);
        }
        // Nothing is ever sent: this ends when the sender is dropped.
        let _ = held.changed().await;
    }
}

impl Seat {
    /// A runtime that is for this.
    pub(super) fn new(runtime: Runtime, main: impl Future<Output = ()> + Send + 'static) -> Seat {
        Seat {
            runtime,
            main: Box::pin(main),
        }
    }

    /// Drives the runtime until it has done what it is for, or one thread is to drive all.
    fn drive(&mut self, sharing: &Sharing) -> Stopped {
        let Seat { runtime, main } = self;
        runtime.block_on(async {
            tokio::select! {
                biased;
                () = main => Stopped::Ended,
                () = sharing.wanted() => Stopped::ToShare,
            }
        })
    }

    /// Lets the runtime look so many times what there is to do, and do it, without waiting for more; `begin` before.
    fn look(&self, times: u64, begin: impl FnOnce()) {
        self.runtime.block_on(async {
            begin();
            for _ in 0..times {
                yield_now().await;
            }
        });
    }
}

impl fmt::Debug for Seat {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let id = self.runtime.handle().id();
        formatter.debug_tuple("Seat").field(&id).finish()
    }
}

impl<'a> Company<'a> {
    /// Waits for the seats of the other threads.
    fn gather(sharing: &'a Sharing, own: Seat) -> Company<'a> {
        Company {
            sharing,
            seats: sharing.borrow(own),
            had_too_much: false,
        }
    }

    /// Serves for all until there is too little or too much to do, or a worker ends. Returns the first worker's seat.
    fn serve(mut self) -> Option<Seat> {
        let sharing = self.sharing;
        let mut rounds = Rounds::new(sharing.gather(), Instant::now());
        let mut more_looks = MAXIMUM_LOOKS;
        while !self.seats.is_empty() && !sharing.is_over() {
            let begun = Instant::now();
            let before = sharing.work();
            self.round(begun, more_looks);
            let work = sharing.work().since(before);
            more_looks = (work.messages / MESSAGES_A_LOOK).min(MAXIMUM_LOOKS);
            let ended = Instant::now();
            match rounds.after(begun, ended, work, sharing.patience(ended).0) {
                After::Pause(pause) => thread::sleep(pause),
                After::TooLittle => break,
                After::TooMuch => {
                    self.had_too_much = true;
                    break;
                }
            }
        }
        self.part()
    }

    /// Everybody reads, so that what they read for each other is there when everybody does what it asks for; what that sends
    /// along one connection leaves in one piece. What takes too long is left to the others' own threads.
    fn round(&self, begun: Instant, more_looks: u64) {
        let seats = || self.seats.iter().enumerate();
        let has_time = |_: &(usize, &Seat)| !Rounds::is_too_long(begun, Instant::now());
        for (_, seat) in seats().take_while(has_time) {
            seat.look(READING_LOOKS + more_looks, || {});
        }
        if let Some(together) = self.sharing.together() {
            together.hold();
        }
        for (number, seat) in seats().take_while(has_time) {
            seat.look(DOING_LOOKS + more_looks, || self.sharing.open(number));
        }
        self.release();
    }

    /// Nothing is kept to leave together with more.
    fn release(&self) {
        if let (Some(seat), Some(together)) = (self.seats.first(), self.sharing.together()) {
            seat.look(0, || together.release());
        }
    }

    fn part(&mut self) -> Option<Seat> {
        // After a panic in a round.
        self.release();
        let seats = std::mem::take(&mut self.seats);
        self.sharing.give_back(seats, self.had_too_much)
    }
}

impl Drop for Company<'_> {
    /// By a panic the other threads get their own back, too.
    fn drop(&mut self) {
        if !self.seats.is_empty() {
            self.part();
        }
    }
}
