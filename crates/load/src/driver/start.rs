//! Starts workers: each in a thread of its own, with its users, sockets and engine.

use std::net::SocketAddr;
use std::num::NonZero;
use std::sync::mpsc;
use std::thread;
use std::time::{Instant, SystemTime};

use ahash::RandomState;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha12Rng;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::oneshot;

use super::coalescing::CoalescingLimits;
use super::command::{Mailbox, Reply};
use super::config::GeneratorConfig;
use super::error::LoadError;
use super::media::CallsWithMedia;
use super::population::Population;
use super::traces::Traces;
use super::twins::Twins;
use super::users::Users;
use super::{setup, worker};
use crate::arrivals::Share;
use crate::engine::{Engine, EngineConfig};

/// What the generator needs of a worker that has started.
pub(super) struct Built {
    pub(super) mailbox: Mailbox,
    pub(super) listening: Option<SocketAddr>,
    pub(super) encapsulation: Option<SocketAddr>,
}

/// Reports a worker that panics: the generator would wait for its replies for ever, since the others go on.
struct PanicGuard(UnboundedSender<Reply>);

impl Drop for PanicGuard {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.send(Reply::Failed(LoadError::Stopped)).ok();
        }
    }
}

/// The thread of a worker: its sockets are opened in it, since what carries some transports runs on one
/// thread alone.
pub(super) fn start_worker(
    config: &GeneratorConfig,
    share: Share,
    mut rng: ChaCha12Rng,
    replies: UnboundedSender<Reply>,
    sender: oneshot::Sender<Result<Built, LoadError>>,
) {
    let _guard = PanicGuard(replies.clone());
    let population = Population::of_worker(config, share);
    let link_seed = rng.next_u64();
    let hasher = hasher(&mut rng);
    let engine_config = EngineConfig {
        users: population.ranges(),
        traces: config.traces.as_deref().is_some_and(Traces::wants_traces),
        time_of_day: SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default(),
        ..config.engine.clone()
    };
    let engine_rng = ChaCha12Rng::from_rng(&mut rng);
    let mut engine = Engine::new(engine_config, engine_rng, Instant::now());
    for script in &config.scripts {
        engine.add_script(script.clone());
    }
    let mut users = Users::new(engine, config.transport, config.traces.clone());
    let setup = match setup::build(config, population, link_seed, hasher, &mut users) {
        Ok(setup) => setup,
        Err(error) => {
            sender.send(Err(error)).ok();
            return;
        }
    };
    let media = match CallsWithMedia::open(config) {
        Ok(media) => media,
        Err(error) => {
            sender.send(Err(error)).ok();
            return;
        }
    };
    if let Some(media) = &media {
        users.engine.set_media(Box::new(media.clone()));
    }
    let twins = match &config.twins {
        Some(plan) => match Twins::open(plan, setup.carrier.waker()) {
            Ok(twins) => Some(twins),
            Err(error) => {
                sender.send(Err(error.into())).ok();
                return;
            }
        },
        None => None,
    };
    let (commands, obeyed) = mpsc::channel();
    let built = Built {
        mailbox: Mailbox::new(commands, setup.carrier.waker()),
        listening: setup.listening,
        encapsulation: setup.encapsulation,
    };
    if sender.send(Ok(built)).is_err() {
        return;
    }
    let coalescing = CoalescingLimits::new(config, setup.carrier.is_stamped());
    worker::run(worker::Parts {
        users,
        carrier: setup.carrier,
        media,
        population,
        commands: obeyed,
        replies,
        records: config.records.clone(),
        interval: config.interval,
        connect_by: Instant::now() + config.connect_within,
        coalescing,
        transport: config.transport,
        has_second: config.second_target.is_some(),
        twins,
        rng,
    });
}

/// Checks settings before anything is opened.
pub(super) fn check(config: &GeneratorConfig) -> Result<(), LoadError> {
    match config.users {
        0 => Err(LoadError::Settings("a run needs at least one user")),
        MOST_USERS.. => Err(LoadError::Settings("a run has 100,000,000 callers at most")),
        _ if config.second_target.is_some() && setup::is_listening(config) => {
            Err(LoadError::Settings("direct calls have no second next hop"))
        }
        _ => Ok(()),
    }
}

/// User numbers have 32 bits, and so have numbers of connections.
const MOST_USERS: u32 = 100_000_001;

/// How many workers there are.
pub(super) fn workers(config: &GeneratorConfig) -> u32 {
    // A command does not say which worker has its call. Listeners of `sip_net` do not share their address with others.
    if config.twins.is_some() || (setup::is_listening(config) && !setup::is_plain(config)) {
        return 1;
    }
    let wanted = match config.workers {
        0 => thread::available_parallelism().map_or(1, NonZero::get),
        workers => workers,
    };
    u32::try_from(wanted).unwrap_or(u32::MAX).min(config.users)
}

/// A hasher whose keys a peer cannot guess and a seed repeats.
fn hasher(rng: &mut impl Rng) -> RandomState {
    RandomState::with_seeds(
        rng.next_u64(),
        rng.next_u64(),
        rng.next_u64(),
        rng.next_u64(),
    )
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc::unbounded_channel;

    use super::*;

    #[test]
    fn a_worker_that_panics_says_so() {
        let (sender, mut replies) = unbounded_channel();
        let other = sender.clone();
        let worker = |fails: bool| {
            let guard = PanicGuard(sender.clone());
            thread::spawn(move || {
                let _guard = guard;
                assert!(!fails, "a panic that this test wants");
            })
        };
        worker(false).join().unwrap();
        assert!(replies.try_recv().is_err());
        worker(true).join().unwrap_err();
        let reply = replies.try_recv();
        assert!(matches!(reply, Ok(Reply::Failed(LoadError::Stopped))));
        drop(other);
    }
}
