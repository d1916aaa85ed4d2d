//! Whatever comes in whatever order: nothing panics, and nothing is left when silence falls.

use proptest::prelude::*;

use super::*;

const METHODS: [&str; 5] = ["INVITE", "ACK", "CANCEL", "OPTIONS", "BYE"];
/// Some with the magic cookie, some without.
const BRANCHES: [&str; 4] = ["z9hG4bK1", "z9hG4bK2", "1", "z9hG4bK"];
const STATUSES: [u16; 6] = [100, 180, 200, 302, 486, 603];

/// Something that happens to a layer.
#[derive(Clone, Debug)]
enum Step {
    Send {
        method: &'static str,
        branch: &'static str,
        transport: Transport,
    },
    ReceiveRequest {
        method: &'static str,
        branch: &'static str,
        transport: Transport,
    },
    ReceiveResponse {
        status: u16,
        method: &'static str,
        branch: &'static str,
    },
    Respond {
        which: usize,
        status: u16,
    },
    FailToSend {
        which: usize,
    },
    Abandon {
        which: usize,
    },
    Wait {
        milliseconds: u64,
    },
    /// The driver is late.
    Oversleep {
        milliseconds: u64,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let method = || prop::sample::select(&METHODS[..]);
    let branch = || prop::sample::select(&BRANCHES[..]);
    let transport = || prop::sample::select(&[Transport::Udp, Transport::Sctp][..]);
    let status = || prop::sample::select(&STATUSES[..]);
    prop_oneof![
        (method(), branch(), transport()).prop_map(|(method, branch, transport)| Step::Send {
            method,
            branch,
            transport
        }),
        (method(), branch(), transport()).prop_map(|(method, branch, transport)| {
            Step::ReceiveRequest {
                method,
                branch,
                transport,
            }
        }),
        (status(), method(), branch()).prop_map(|(status, method, branch)| {
            Step::ReceiveResponse {
                status,
                method,
                branch,
            }
        }),
        (0..8usize, status()).prop_map(|(which, status)| Step::Respond { which, status }),
        (0..8usize).prop_map(|which| Step::FailToSend { which }),
        (0..8usize).prop_map(|which| Step::Abandon { which }),
        (0..8000u64).prop_map(|milliseconds| Step::Wait { milliseconds }),
        (0..8000u64).prop_map(|milliseconds| Step::Oversleep { milliseconds }),
    ]
}

/// A layer with a user that remembers what it has been told.
struct World {
    layer: Layer,
    clients: Vec<ClientId>,
    requests: Vec<(ServerId, Message)>,
    ended: Vec<TransactionKey>,
    /// Everything that was sent and told, in order.
    trace: Vec<String>,
}

impl World {
    fn new() -> World {
        World {
            layer: Layer::default(),
            clients: Vec::new(),
            requests: Vec::new(),
            ended: Vec::new(),
            trace: Vec::new(),
        }
    }

    fn take(&mut self, step: Step) {
        let now = self.layer.now;
        match step {
            Step::Send {
                method,
                branch,
                transport,
            } => {
                let target = Target::Flow(flow(transport));
                let message = read(&request(method, branch));
                let sent = self.layer.transactions.send_request(now, message, target);
                self.clients.extend(sent.ok());
            }
            Step::ReceiveRequest {
                method,
                branch,
                transport,
            } => {
                let message = read(&request(method, branch));
                let flow = flow(transport);
                self.layer.transactions.handle_message(now, flow, message);
            }
            Step::ReceiveResponse {
                status,
                method,
                branch,
            } => {
                let message = read(&response(status, method, branch, "a"));
                let flow = flow(Transport::Udp);
                self.layer.transactions.handle_message(now, flow, message);
            }
            Step::Respond { which, status } => {
                if let Some((id, request)) = self.requests.get(which).cloned() {
                    self.layer.respond(id, &request, status);
                }
            }
            Step::FailToSend { which } => {
                let key = match (self.clients.get(which), self.requests.get(which)) {
                    (Some(id), _) if which % 2 == 0 => TransactionKey::Client(*id),
                    (_, Some((id, _))) => TransactionKey::Server(*id),
                    _ => return,
                };
                self.layer.transactions.handle_send_failure(now, key);
            }
            Step::Abandon { which } => {
                if let Some(id) = self.clients.get(which) {
                    self.layer.transactions.abandon(now, *id);
                }
            }
            Step::Wait { milliseconds } => {
                let sent = self.layer.run_for(Duration::from_millis(milliseconds));
                self.trace.extend(sent.into_iter().map(|(_, line)| line));
            }
            Step::Oversleep { milliseconds } => {
                self.layer.now += Duration::from_millis(milliseconds);
                self.layer.transactions.handle_timeout(self.layer.now);
            }
        }
        self.listen();
    }

    fn listen(&mut self) {
        self.trace.extend(self.layer.sent());
        for event in self.layer.events() {
            self.trace.push(name_of(&event));
            match event {
                TransactionEvent::Request {
                    transaction,
                    request,
                    ..
                } => self.requests.push((transaction, request)),
                TransactionEvent::Terminated { transaction } => {
                    assert!(!self.ended.contains(&transaction));
                    self.ended.push(transaction);
                }
                _ => {}
            }
        }
    }

    /// The user finishes what it has begun, and the network falls silent.
    fn come_to_rest(&mut self) {
        let now = self.layer.now;
        for (id, request) in self.requests.clone() {
            self.layer.respond(id, &request, 500);
        }
        for id in self.clients.clone() {
            self.layer.transactions.abandon(now, id);
        }
        // The user's last responses are repeated for 64*T1, and no transaction waits longer.
        self.layer.run_for(TIMEOUT + Duration::from_secs(1));
        self.listen();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn all_transactions_end(steps in prop::collection::vec(step(), 0..80)) {
        let mut world = World::new();
        for step in steps {
            world.take(step);
        }
        world.come_to_rest();
        prop_assert!(world.layer.is_empty());
        prop_assert_eq!(world.ended.len(), world.clients.len() + world.requests.len());
        // Timers that mean nothing any more run out too.
        prop_assert_eq!(world.layer.run_for(TIMEOUT), []);
        prop_assert_eq!(world.layer.transactions.next_timeout(), None);
    }

    /// Silence alone ends everything that does not wait for a user: client transactions without a
    /// response, and server transactions that are not an INVITE or have a final response.
    #[test]
    fn silence_ends_what_waits_for_the_network(steps in prop::collection::vec(step(), 0..80)) {
        let mut world = World::new();
        for step in steps {
            let rings_on = matches!(&step, Step::ReceiveResponse { status: ..200, method: "INVITE", .. });
            let waits_for_user = matches!(&step, Step::ReceiveRequest { method: "INVITE", .. });
            if !rings_on && !waits_for_user {
                world.take(step);
            }
        }
        world.layer.run_for(TIMEOUT * 2);
        prop_assert!(world.layer.is_empty());
    }

    #[test]
    fn the_same_happens_again(steps in prop::collection::vec(step(), 0..80)) {
        let mut worlds = [World::new(), World::new()];
        for world in &mut worlds {
            for step in steps.clone() {
                world.take(step);
            }
        }
        let [one, other] = worlds;
        prop_assert_eq!(one.trace, other.trace);
        prop_assert_eq!(one.layer.transactions.statistics(), other.layer.transactions.statistics());
    }

    /// Messages that only half keep to the rules: whatever the reader takes, the layer bears.
    #[test]
    fn garbled_messages_are_borne(
        steps in prop::collection::vec((step(), any::<prop::sample::Index>(), any::<u8>()), 0..40),
    ) {
        let mut layer = Layer::default();
        for (step, at, octet) in steps {
            let text = match step {
                Step::ReceiveRequest { method, branch, .. } => request(method, branch),
                Step::ReceiveResponse { status, method, branch } => response(status, method, branch, "a"),
                _ => continue,
            };
            let mut octets = text.into_bytes();
            let at = at.index(octets.len());
            octets[at] = octet;
            if let Ok(message) = Message::read(octets.into()) {
                let now = layer.now;
                layer.transactions.handle_message(now, flow(Transport::Udp), message);
            }
            layer.run_for(T1);
        }
        for event in layer.events() {
            if let TransactionEvent::Request { transaction, request, .. } = event {
                layer.respond(transaction, &request, 500);
            }
        }
        layer.run_for(TIMEOUT + Duration::from_secs(1));
        prop_assert!(layer.is_empty());
    }
}
