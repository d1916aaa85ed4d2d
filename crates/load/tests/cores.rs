//! Callers and callees face to face on a virtual clock, with a registrar that says yes to everyone.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use load::core::{CallPlan, Callees, Callers, Pace, Population, Side, Stop};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha12Rng;
use sip::{ConnectionId, Flow, Message, Method, Name, Transmit, Transport};

/// From one side to the other.
const DELAY: Duration = Duration::from_millis(10);

struct World {
    now: Instant,
    callers: Callers,
    callees: Callees,
    /// Messages on their way: when they arrive, and whether at the callers.
    on_the_way: Vec<(Instant, bool, Message)>,
    loss: f64,
    /// From a message's coming to its turn.
    wait: Duration,
    rng: ChaCha12Rng,
    flow: Flow,
}

impl World {
    fn new(users: u32, transport: Transport, plan: CallPlan, loss: f64, seed: u64) -> World {
        let flow = Flow {
            transport,
            local: SocketAddr::from(([127, 0, 0, 1], 5070)),
            remote: SocketAddr::from(([127, 0, 0, 1], 5060)),
            connection: ConnectionId(1),
            stream: 0,
        };
        let population = |first| Population {
            first,
            flows: vec![Some(flow); users as usize],
            proxy: flow.remote,
        };
        World {
            now: Instant::now(),
            callers: Callers::new(population(1), plan, ChaCha12Rng::seed_from_u64(seed)),
            callees: Callees::new(population(users + 1), ChaCha12Rng::seed_from_u64(seed + 1)),
            on_the_way: Vec::new(),
            loss,
            wait: Duration::ZERO,
            rng: ChaCha12Rng::seed_from_u64(seed + 2),
            flow,
        }
    }

    fn registered(users: u32, transport: Transport, plan: CallPlan) -> World {
        let mut world = World::new(users, transport, plan, 0.0, 1);
        world.callers.register(world.now);
        world.callees.register(world.now);
        world.run(Duration::from_secs(1));
        assert!(world.callers.is_registered() && world.callees.is_registered());
        world
    }

    /// Lets time pass.
    fn run(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            while let Some(transmit) = self.callers.poll_transmit() {
                self.send(false, &transmit);
            }
            while let Some(transmit) = self.callees.poll_transmit() {
                self.send(true, &transmit);
            }
            let next = self
                .on_the_way
                .iter()
                .map(|(at, ..)| *at + self.wait)
                .chain(self.callers.next_timeout())
                .chain(self.callees.next_timeout())
                .min()
                .filter(|next| *next <= end);
            let Some(next) = next else { break };
            self.now = self.now.max(next);
            while let Some(index) = self
                .on_the_way
                .iter()
                .position(|(at, ..)| *at + self.wait <= self.now)
            {
                let (received, to_callers, message) = self.on_the_way.remove(index);
                if to_callers {
                    self.callers
                        .handle_message(self.now, received, self.flow, message);
                } else {
                    self.callees
                        .handle_message(self.now, received, self.flow, message);
                }
            }
            self.callers.handle_timeout(self.now);
            self.callees.handle_timeout(self.now);
        }
        self.now = end;
    }

    fn send(&mut self, to_callers: bool, transmit: &Transmit) {
        if self.rng.random_bool(self.loss) {
            return;
        }
        let message = Message::read(transmit.payload.clone()).expect("users write messages");
        assert_eq!(message.validate(), Ok(()), "{:?}", transmit.payload);
        let is_registration = message
            .cseq()
            .is_some_and(|(_, method)| method == Method::Register);
        if is_registration {
            let response = Message::response_to(&message, 200, "OK").with(Name::Expires, "3600");
            self.on_the_way
                .push((self.now + 2 * DELAY, !to_callers, response));
        } else {
            self.on_the_way
                .push((self.now + DELAY, to_callers, message));
        }
    }
}

#[test]
fn a_closed_loop_makes_one_call_after_the_other() {
    let plan = CallPlan {
        stop: Stop::Calls(100),
        ..CallPlan::default()
    };
    let mut world = World::registered(4, Transport::Sctp, plan);
    world.callers.start_calls(world.now);
    // A call is an INVITE and its answer, a BYE and its answer: 40 ms. 25 rounds of four.
    world.run(Duration::from_millis(999));
    assert!(!world.callers.has_finished_calls());
    world.run(Duration::from_millis(2));
    assert!(world.callers.has_finished_calls());
    let results = world.callers.results();
    assert_eq!(
        (results.attempted, results.completed, results.failed),
        (100, 100, 0)
    );
    assert_eq!(results.session_request_delay.maximum(), Some(2 * DELAY));
    assert_eq!(results.session_disconnect_delay.maximum(), Some(2 * DELAY));
    assert_eq!(results.failed_session_request_delay.count(), 0);
    assert_eq!(world.callees.sessions(), 0);
}

#[test]
fn registration_delay_is_the_round_trip() {
    let world = World::registered(3, Transport::Tcp, CallPlan::default());
    assert_eq!(world.callers.registrations().delay.count(), 3);
    assert_eq!(
        world.callers.registrations().delay.maximum(),
        Some(2 * DELAY)
    );
}

#[test]
fn registrations_are_refreshed() {
    let mut world = World::registered(2, Transport::Udp, CallPlan::default());
    world.run(Duration::from_secs(2700));
    assert_eq!(world.callers.registrations().succeeded, 4);
}

#[test]
fn an_open_loop_does_not_wait_for_answers() {
    let plan = CallPlan {
        pace: Pace::Open {
            calls_per_second: 50.0,
        },
        stop: Stop::After(Duration::from_secs(2)),
        hold: Duration::from_secs(10),
        in_flight: 80,
        ..CallPlan::default()
    };
    let mut world = World::registered(2, Transport::Tcp, plan);
    world.callers.start_calls(world.now);
    world.run(Duration::from_secs(5));
    let results = world.callers.results();
    assert_eq!((results.attempted, results.not_started), (80, 20));
    assert_eq!(results.unfinished(), 80);
    world.run(Duration::from_secs(10));
    assert_eq!(world.callers.results().completed, 80);
}

#[test]
fn after_the_time_no_call_begins() {
    let plan = CallPlan {
        stop: Stop::After(Duration::from_secs(1)),
        ..CallPlan::default()
    };
    let mut world = World::registered(1, Transport::Tcp, plan);
    world.callers.start_calls(world.now);
    world.run(Duration::from_secs(10));
    assert_eq!(world.callers.results().attempted, 25);
}

/// What is lost is repeated: by Timers A, E and G, by the callee until its ACK comes, and by the caller
/// that hears a 2xx twice.
#[test]
fn calls_survive_loss_over_udp() {
    let mut repeated = 0;
    for seed in 0..20 {
        let plan = CallPlan {
            stop: Stop::Calls(40),
            ..CallPlan::default()
        };
        let mut world = World::new(4, Transport::Udp, plan, 0.2, seed);
        world.callers.register(world.now);
        world.callees.register(world.now);
        world.run(Duration::from_secs(60));
        assert!(
            world.callers.is_registered() && world.callees.is_registered(),
            "seed {seed}"
        );
        world.callers.start_calls(world.now);
        world.run(Duration::from_secs(300));
        let results = world.callers.results();
        assert_eq!(results.attempted, 40, "seed {seed}");
        assert_eq!(results.unfinished(), 0, "seed {seed}");
        assert!(results.completed >= 38, "seed {seed}: {results:?}");
        assert_eq!(world.callees.sessions(), 0, "seed {seed}");
        repeated += world.callers.retransmissions() + world.callees.retransmissions();
    }
    assert!(repeated > 0);
}

/// Nobody answers: the call fails by Timer B, the caller pauses and tries again.
#[test]
fn a_call_that_nobody_answers_fails() {
    let plan = CallPlan {
        stop: Stop::Calls(2),
        ..CallPlan::default()
    };
    let mut world = World::registered(1, Transport::Udp, plan);
    world.loss = 1.0;
    world.callers.start_calls(world.now);
    world.run(Duration::from_secs(33));
    let results = world.callers.results();
    assert_eq!((results.attempted, results.failed), (2, 1));
    assert_eq!(
        results.failed_session_request_delay.count(),
        0,
        "there was no response at all"
    );
    world.run(Duration::from_secs(33));
    assert_eq!(world.callers.results().failed, 2);
}

/// A message that waited for its turn: what it ends was over when it came, what follows begins now.
#[test]
fn the_wait_of_a_message_is_in_no_measurement() {
    let plan = CallPlan {
        stop: Stop::Calls(1),
        ..CallPlan::default()
    };
    let mut world = World::registered(1, Transport::Tcp, plan);
    world.wait = Duration::from_millis(3);
    world.callers.start_calls(world.now);
    world.run(Duration::from_secs(1));
    let results = world.callers.results();
    assert_eq!(results.completed, 1);
    // The callee's wait is in its answer, the caller's own is not.
    let delay = Some(2 * DELAY + world.wait);
    assert_eq!(results.session_request_delay.maximum(), delay);
    assert_eq!(results.session_disconnect_delay.maximum(), delay);
}

#[test]
fn a_user_without_a_connection_takes_no_part() {
    let flow = World::new(1, Transport::Sctp, CallPlan::default(), 0.0, 1).flow;
    let population = Population {
        first: 1,
        flows: vec![None, Some(flow)],
        proxy: flow.remote,
    };
    let rng = ChaCha12Rng::seed_from_u64(1);
    let now = Instant::now();
    let mut callers = Callers::new(population, CallPlan::default(), rng);
    callers.register(now);
    callers.handle_timeout(now);
    callers.start_calls(now);
    let sent: Vec<Message> = std::iter::from_fn(|| callers.poll_transmit())
        .map(|transmit| Message::read(transmit.payload).expect("users write messages"))
        .collect();
    let callees: Vec<_> = sent
        .iter()
        .map(|message| message.to().expect("To").uri())
        .collect();
    assert_eq!(
        callees,
        ["sip:user2@127.0.0.1:5060", "sip:user4@127.0.0.1:5060"]
    );
    assert_eq!(callers.registrations().users, 2);
    assert!(!callers.is_registered());
}
