//! The task that owns the user agent: what comes from the network and from the user meets here.

mod calls;
mod commands;
mod events;
mod media;
mod offers;
mod ways;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha12Rng;
use sip::Transport;
use sip_net::resolve::{Reach, Resolver, ResolverConfig};
use sip_net::{Incoming, Transports};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;
use ua::{AccountId, CallNumber, Query, Route, Ua};

use crate::command::Command;
use crate::config::PhoneConfig;
use crate::dtls::Certificate;
use crate::event::PhoneEvent;
use crate::media_config::Srtp;
use crate::mixing::{Conference, Speaker};
use crate::negotiation::{LocalMedia, Negotiated};
use crate::paths::watch;
use crate::sound::{CallSound, SoundEvent};
use crate::stun::Gatherer;
use ways::{LOOK_INTERVAL, Ways};

/// How long the end of a call or registration may take when the phone is switched off.
const LAST_WORDS: Duration = Duration::from_secs(3);

pub(crate) struct Running {
    config: PhoneConfig,
    ua: Ua,
    accounts: Vec<AccountId>,
    transports: Transports,
    resolver: Resolver,
    reach: Reach,
    calls: BTreeMap<CallNumber, PhoneCall>,
    resolving: JoinSet<(Query, Option<Route>)>,
    ways: Ways,
    /// Associations that are asked to take another address of ours.
    moving: JoinSet<SocketAddr>,
    gatherer: Option<Gatherer>,
    sounds: mpsc::UnboundedReceiver<(u64, SoundEvent)>,
    tell: mpsc::UnboundedSender<(u64, SoundEvent)>,
    events: mpsc::Sender<PhoneEvent>,
    /// Events for which there was no room.
    missed: u64,
    /// Of DTLS; `None` when nothing is protected.
    certificate: Option<Arc<Certificate>>,
    speaker: Speaker,
    conference: Arc<Conference>,
    /// Calls are answered with 486.
    does_not_disturb: bool,
    is_conference: bool,
    /// The accounts that are to be registered.
    registered: BTreeSet<AccountId>,
    next_sound: u64,
    rng: ChaCha12Rng,
    is_quitting: bool,
}

/// What a phone knows of a call.
struct PhoneCall {
    account: AccountId,
    /// Our signalling is encrypted on its way to the next hop.
    is_encrypted: bool,
    /// The host for which our address was chosen, a name or an address.
    towards: String,
    sound: Option<CallSound>,
    local: Option<LocalMedia>,
    /// What was agreed on before the answer.
    early: Option<Negotiated>,
    /// The offer with which it came.
    offered: Bytes,
    is_incoming: bool,
    is_up: bool,
    is_held_by_us: bool,
    is_held_by_them: bool,
    /// Our side as we have offered it anew, until that is answered.
    proposed: Option<LocalMedia>,
    /// Whether the other side takes keys in the media.
    takes_keys: bool,
    /// Whom the other side has asked us to call.
    transfer_target: Option<String>,
    /// When another address of ours can be offered again.
    moves_at: Option<Instant>,
}

impl PhoneCall {
    fn new(account: AccountId, is_encrypted: bool) -> PhoneCall {
        PhoneCall {
            account,
            is_encrypted,
            towards: String::new(),
            sound: None,
            local: None,
            early: None,
            offered: Bytes::new(),
            is_incoming: false,
            is_up: false,
            is_held_by_us: false,
            is_held_by_them: false,
            proposed: None,
            takes_keys: false,
            transfer_target: None,
            moves_at: None,
        }
    }

    /// Whether another address of ours can be offered.
    fn may_move(&self, now: Instant) -> bool {
        self.is_up && self.proposed.is_none() && self.moves_at.is_none_or(|at| at <= now)
    }

    /// The other address of ours that is offered, if one is.
    fn moves_to(&self) -> Option<IpAddr> {
        let (local, proposed) = (self.local.as_ref()?, self.proposed.as_ref()?);
        (local.port != proposed.port || local.address != proposed.address)
            .then_some(proposed.address)
    }
}

impl Running {
    pub(crate) fn new(
        config: PhoneConfig,
        transports: Transports,
        speaker: Speaker,
        events: mpsc::Sender<PhoneEvent>,
    ) -> Running {
        let mut rng = ChaCha12Rng::from_seed(config.seed);
        let mut ua = Ua::new(config.ua.clone(), rng.random());
        let accounts = config
            .accounts
            .iter()
            .map(|account| ua.add_account(account.clone()))
            .collect();
        let resolver = Resolver::new(
            ResolverConfig::default(),
            ChaCha12Rng::from_seed(rng.random()),
        );
        let mut reach = Reach::default();
        for transport in Transport::ALL {
            for local in ["0.0.0.0:0", "[::]:0"] {
                if let Ok(local) = local.parse() {
                    reach.add(transport, local);
                }
            }
        }
        let may_protect = config.media.srtp != Srtp::Off;
        let certificate = may_protect.then(Certificate::generate).flatten();
        let gatherer = config.media.stun.as_deref().map(Gatherer::start);
        let (tell, sounds) = mpsc::unbounded_channel();
        Running {
            config,
            ua,
            accounts,
            transports,
            resolver,
            reach,
            calls: BTreeMap::new(),
            resolving: JoinSet::new(),
            ways: Ways::default(),
            moving: JoinSet::new(),
            gatherer,
            sounds,
            tell,
            events,
            missed: 0,
            certificate: certificate.map(Arc::new),
            speaker,
            conference: Arc::default(),
            does_not_disturb: false,
            is_conference: false,
            registered: BTreeSet::new(),
            next_sound: 0,
            rng,
            is_quitting: false,
        }
    }

    pub(crate) async fn run(
        mut self,
        mut incoming: mpsc::Receiver<Incoming>,
        mut inbox: mpsc::Receiver<Command>,
    ) {
        let mut off_at: Option<tokio::time::Instant> = None;
        self.transports.tell_keep_alives();
        let mut paths = watch(self.transports.clone());
        let mut looks = tokio::time::interval(LOOK_INTERVAL);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            self.turn();
            if self.is_quitting {
                let limit = *off_at.get_or_insert_with(|| tokio::time::Instant::now() + LAST_WORDS);
                if self.ua.is_idle() || tokio::time::Instant::now() >= limit {
                    break;
                }
            }
            let timeout = self.ua.next_timeout().map(tokio::time::Instant::from_std);
            let due = async {
                match [timeout, off_at].into_iter().flatten().min() {
                    Some(due) => tokio::time::sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                message = incoming.recv() => match message {
                    Some(message) => self.handle_incoming(message),
                    None => break,
                },
                command = inbox.recv(), if !self.is_quitting => self.handle_command(command.unwrap_or(Command::Quit)),
                Some((sound, event)) = self.sounds.recv() => self.handle_sound(sound, event),
                Some(resolved) = self.resolving.join_next() => {
                    if let Ok((query, route)) = resolved {
                        self.handle_route(Instant::now(), &query, route);
                    }
                }
                Some(event) = paths.recv() => self.emit(event),
                Some(moved) = self.moving.join_next() => {
                    if let Ok(remote) = moved {
                        self.handle_moved(Instant::now(), remote);
                    }
                }
                _ = looks.tick() => self.look_at_addresses(Instant::now()),
                () = due => self.ua.handle_timeout(Instant::now()),
            }
        }
        self.transports.shutdown().await;
        // What it writes is complete before the last event says that the phone is off.
        drop(self.speaker);
    }

    /// Brings what the user agent has to say to where it belongs.
    fn turn(&mut self) {
        loop {
            let mut is_quiet = true;
            while let Some(query) = self.ua.poll_query() {
                is_quiet = false;
                self.resolve(query);
            }
            while let Some(event) = self.ua.poll_event() {
                is_quiet = false;
                self.handle_event(event);
            }
            while let Some(transmit) = self.ua.poll_transmit() {
                is_quiet = false;
                self.transports.send(transmit);
            }
            while let Some(connection) = self.ua.poll_close() {
                is_quiet = false;
                self.transports.close(connection);
            }
            if is_quiet {
                break;
            }
        }
    }

    /// Tells an event; nobody may listen any more.
    fn emit(&mut self, event: PhoneEvent) {
        if self.missed > 0 {
            let told = PhoneEvent::Missed { count: self.missed };
            // Room for what was missed, and for this one.
            if self.events.capacity() < 2 || self.events.try_send(told).is_err() {
                self.missed += 1;
                return;
            }
            self.missed = 0;
        }
        if let Err(mpsc::error::TrySendError::Full(_)) = self.events.try_send(event) {
            self.missed += 1;
        }
    }

    fn handle_incoming(&mut self, incoming: Incoming) {
        let now = Instant::now();
        match incoming {
            Incoming::Message { flow, message, .. } => {
                let flow = self.current_flow(flow);
                self.ua.handle_message(now, flow, message);
            }
            Incoming::SendFailed { transaction, .. } => {
                self.ua.handle_send_failure(now, transaction)
            }
            Incoming::KeepAlive { flow, payload } => {
                self.ua.handle_keep_alive(now, &flow, &payload);
            }
            Incoming::ConnectionClosed { connection, .. } => {
                self.ua.handle_connection_closed(now, connection);
            }
            Incoming::Undelivered { .. }
            | Incoming::Unread { .. }
            | Incoming::Malformed { .. }
            | Incoming::ConnectionIdentified { .. } => {}
        }
    }

    fn account(&self, number: usize) -> Option<AccountId> {
        self.accounts.get(number).copied()
    }

    fn number_of(&self, account: AccountId) -> usize {
        let place = self.accounts.iter().position(|other| *other == account);
        place.unwrap_or(0)
    }
}
