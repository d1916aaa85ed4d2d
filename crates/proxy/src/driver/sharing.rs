//! One thread for all workers, for as long as one is enough.
//!
//! A message that one worker reads for another goes from one processor's caches to the other's, and wakes a thread. Where
//! all workers together have less to do than a thread could, and enough for their messages to gather (see
//! [`Pace`](super::pace::Pace)), the first one's thread drives the runtimes of all in turns: first all sockets are read, then
//! all services do what that has brought. Nothing else changes: whose a call is, and what a worker may hold.

mod judge;
mod rounds;
mod senders;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};
use sip_net::Together;
use tokio::sync::{Notify, watch};

use super::workers::Seat;
use judge::Judge;
pub(super) use rounds::{After, Rounds};
use senders::Senders;
pub(super) use senders::{Patience, Work};

/// What the workers and their threads know of each other.
#[derive(Debug)]
pub(crate) struct Sharing {
    /// What messages may wait for others, which is how far apart the rounds of a shared thread are.
    gather: Duration,
    /// Whether one thread is to drive all: threads that drive wait for it.
    is_wanted: watch::Sender<bool>,
    /// Whether one does.
    is_shared: AtomicBool,
    /// Whether a worker has ended: from then on each thread sees to its own.
    is_over: AtomicBool,
    judge: Mutex<Judge>,
    senders: Mutex<Senders>,
    places: Box<[Place]>,
    /// What the other threads have lent to the first one, each in its worker's place.
    lent: Mutex<Vec<Option<Seat>>>,
    /// Something was lent or given back.
    changed: Condvar,
    /// By which what all workers send in a round of a shared thread leaves together.
    together: OnceLock<Together>,
}

/// What is known of a worker.
#[derive(Debug, Default)]
struct Place {
    /// Opens for each round of a shared thread.
    gate: Notify,
    /// What it has handled.
    messages: AtomicU64,
    others: AtomicU64,
    streamed: AtomicU64,
    associated: AtomicU64,
    /// For how long a thread of its own has run, in nanoseconds; told now and then.
    busy: AtomicU64,
}

/// A worker's place among the others; the first one's decides for all. Once one is dropped no thread is shared any more.
#[derive(Debug)]
pub(super) struct Post {
    sharing: Arc<Sharing>,
    number: usize,
    /// When the worker last told for how long its thread has run, and what that thread's clock showed.
    told: Option<(Instant, Duration)>,
    /// How long messages are to wait until then.
    patience: Option<(Patience, Instant)>,
}

/// How often a worker tells for how long its thread has run.
const TOLD_EVERY: Duration = Duration::from_millis(10);

impl Sharing {
    /// For so many workers, whose messages wait for others for so long at the most.
    pub(super) fn new(workers: usize, gather: Duration) -> Arc<Sharing> {
        Arc::new(Sharing {
            gather,
            is_wanted: watch::Sender::new(false),
            is_shared: AtomicBool::new(false),
            is_over: AtomicBool::new(workers < 2 || gather.is_zero()),
            judge: Mutex::new(Judge::new(gather, Instant::now())),
            senders: Mutex::new(Senders::new(gather, Instant::now())),
            places: (0..workers).map(|_| Place::default()).collect(),
            lent: Mutex::new((0..workers).map(|_| None).collect()),
            changed: Condvar::new(),
            together: OnceLock::new(),
        })
    }

    /// Told once by what all workers send, what they send in a round of a shared thread leaves together.
    pub(super) fn send_by(&self, together: Together) {
        // It is told once.
        let _ = self.together.set(together);
    }

    /// What lets messages leave together, once it is told.
    pub(super) fn together(&self) -> Option<&Together> {
        self.together.get()
    }

    /// The place of the worker of this number.
    pub(super) fn post(self: &Arc<Self>, number: usize) -> Post {
        Post {
            sharing: self.clone(),
            number,
            told: None,
            patience: None,
        }
    }

    /// On how many threads the workers are.
    pub(crate) fn threads(&self) -> usize {
        match self.is_shared.load(Ordering::Relaxed) {
            true => 1,
            false => self.places.len(),
        }
    }

    /// Returns when one thread is to drive all.
    pub(super) async fn wanted(&self) {
        // The sender lives as long as this.
        let _ = self.is_wanted.subscribe().wait_for(|wanted| *wanted).await;
    }

    /// Lends what a thread drives to the first one, and returns when that has given it back.
    pub(super) fn lend(&self, number: usize, seat: Seat) -> Seat {
        let mut lent = self.lent();
        lent[number] = Some(seat);
        if lent.iter().all(Option::is_some) {
            self.changed.notify_all();
        }
        loop {
            if !*self.is_wanted.borrow()
                && let Some(seat) = lent[number].take()
            {
                return seat;
            }
            lent = self
                .changed
                .wait(lent)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// What all threads have lent to the first one, which adds its own; nothing where a worker has ended before all had.
    /// Goes back to the threads by [`give_back`](Sharing::give_back).
    pub(super) fn borrow(&self, own: Seat) -> Vec<Seat> {
        let mut lent = self.lent();
        lent[0] = Some(own);
        while lent.iter().any(Option::is_none) && !self.is_over() {
            lent = self
                .changed
                .wait(lent)
                .unwrap_or_else(PoisonError::into_inner);
        }
        if self.is_over() {
            return Vec::new();
        }
        self.is_shared.store(true, Ordering::SeqCst);
        lent.iter_mut().filter_map(Option::take).collect()
    }

    /// Lets every thread drive its own again. Returns the first one's. After a time in which there was too much to do, the next
    /// one in which a thread is shared is some time off.
    pub(super) fn give_back(&self, seats: Vec<Seat>, was_too_much: bool) -> Option<Seat> {
        let (messages, busy) = (self.messages(), self.busy());
        self.judge_of_all()
            .parted(Instant::now(), messages, busy, was_too_much);
        let mut lent = self.lent();
        for (place, seat) in lent.iter_mut().zip(seats) {
            *place = Some(seat);
        }
        let own = lent[0].take();
        self.is_wanted.send_replace(false);
        self.is_shared.store(false, Ordering::SeqCst);
        self.changed.notify_all();
        drop(lent);
        (0..self.places.len()).for_each(|number| self.open(number));
        own
    }

    /// Lets a worker take its turn on a shared thread.
    pub(super) fn open(&self, number: usize) {
        self.places[number].gate.notify_one();
    }

    /// What all have done.
    pub(super) fn work(&self) -> Work {
        let sum = |count: fn(&Place) -> &AtomicU64| {
            let places = self.places.iter();
            places
                .map(|place| count(place).load(Ordering::Relaxed))
                .sum()
        };
        Work {
            messages: sum(|place| &place.messages),
            others: sum(|place| &place.others),
            streamed: sum(|place| &place.streamed),
            associated: sum(|place| &place.associated),
        }
    }

    /// How many messages all have handled.
    fn messages(&self) -> u64 {
        self.work().messages
    }

    /// For how long threads of their own have run for all.
    fn busy(&self) -> Duration {
        let places = self.places.iter();
        let busy = places.map(|place| place.busy.load(Ordering::Relaxed));
        Duration::from_nanos(busy.sum())
    }

    /// How long messages are to wait for others now, of the time for which they may, and until when that is so if it is known.
    pub(super) fn patience(&self, now: Instant) -> (Patience, Option<Instant>) {
        self.senders().patience(now, self.messages())
    }

    /// What a message may wait for others.
    pub(super) fn gather(&self) -> Duration {
        self.gather
    }

    /// Whether a worker has ended.
    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }

    fn lent(&self) -> MutexGuard<'_, Vec<Option<Seat>>> {
        self.lent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn judge_of_all(&self) -> MutexGuard<'_, Judge> {
        self.judge.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn senders(&self) -> MutexGuard<'_, Senders> {
        self.senders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_shared(&self) -> bool {
        self.is_shared.load(Ordering::SeqCst)
    }

    /// Asks for one thread where that is what there should be.
    fn judge(&self, now: Instant) {
        let (messages, busy) = (self.messages(), self.busy());
        if self.judge_of_all().should_share(now, messages, busy) && !self.senders().wait() {
            // Under the lock: once a worker has ended nothing is wanted any more.
            let _lent = self.lent();
            if !self.is_over() {
                self.is_wanted.send_replace(true);
            }
        }
    }

    /// A worker has ended: whoever waits for others goes on.
    fn end(&self) {
        // Under the lock: who looks whether to wait has seen it, or is woken.
        let _lent = self.lent();
        self.is_over.store(true, Ordering::SeqCst);
        if !self.is_shared.load(Ordering::SeqCst) {
            self.is_wanted.send_replace(false);
        }
        self.changed.notify_all();
    }
}

impl Post {
    /// Returns when the worker may take its turn, and whether it is on a shared thread: then it does what there is to do and
    /// waits for nothing.
    pub(super) async fn turn(&self) -> bool {
        if self.sharing.is_shared() {
            self.sharing.places[self.number].gate.notified().await;
        }
        self.sharing.is_shared()
    }

    /// Whether the thread is shared.
    pub(super) fn is_shared(&self) -> bool {
        self.sharing.is_shared()
    }

    /// How long messages are to wait for others now.
    pub(super) fn patience(&mut self, now: Instant) -> Patience {
        if self.sharing.gather.is_zero() {
            return Patience::None;
        }
        if let Some((patience, until)) = self.patience
            && now < until
        {
            return patience;
        }
        let (patience, until) = self.sharing.patience(now);
        self.patience = until.map(|until| (patience, until));
        patience
    }

    /// To be called after a turn, with what there was to do.
    pub(super) fn note(&mut self, now: Instant, work: Work) {
        let place = &self.sharing.places[self.number];
        place.messages.fetch_add(work.messages, Ordering::Relaxed);
        place.others.fetch_add(work.others, Ordering::Relaxed);
        place.streamed.fetch_add(work.streamed, Ordering::Relaxed);
        place
            .associated
            .fetch_add(work.associated, Ordering::Relaxed);
        if self.sharing.is_shared() {
            // The clock is another thread's when this one is back.
            self.told = None;
            return;
        }
        if let Some((told, _)) = self.told
            && now.saturating_duration_since(told) < TOLD_EVERY
        {
            return;
        }
        // Without this clock, which every kernel has, no thread is ever shared.
        let Ok(clock) = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map(Duration::from) else {
            return;
        };
        if let Some((_, before)) = self.told {
            let ran = clock.saturating_sub(before).as_nanos();
            let ran = u64::try_from(ran).unwrap_or(u64::MAX);
            place.busy.fetch_add(ran, Ordering::Relaxed);
        }
        self.told = Some((now, clock));
        if self.number == 0 {
            self.sharing.judge(now);
        }
    }
}

impl Drop for Post {
    fn drop(&mut self) {
        self.sharing.end();
    }
}

#[cfg(test)]
mod tests;
