//! The task that owns the user agent: what comes from the network and from the user meets here.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use media::srtp::{MAX_KEY_AND_SALT_OCTETS, MasterKey, Suite};
use media::telephone_event::Key;
use media::tones::Tone;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha12Rng;
use sip::sdp::Direction;
use sip::{Target, Transport, Uri};
use sip_net::resolve::{Reach, Resolver, ResolverConfig};
use sip_net::{Incoming, Transports};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use ua::{AccountId, CallNumber, EndReason, Query, QueryId, RegistrationState, Route, Ua, UaEvent};

use crate::command::Command;
use crate::config::PhoneConfig;
use crate::dtls::Certificate;
use crate::event::PhoneEvent;
use crate::ice::IceCredentials;
use crate::media_config::Srtp;
use crate::mixing::{Conference, Speaker};
use crate::negotiation::{
    LocalMedia, LocalProtection, Negotiated, Settled, answer, offer, read_answer,
};
use crate::paths::watch;
use crate::routes::{address_of_offer, address_towards, is_encrypted, question};
use crate::sound::{CallSound, Devices, SoundEvent};

/// Why a call is neither made nor answered.
const NO_KEYS: &str = "the keys of SRTP must not be sent over this signalling";
/// How often the checks of a call's path can begin anew (RFC 8445 section 9).
const MAX_ICE_STARTS: usize = 8;
/// How long the tone of a call that failed is heard.
const END_TONE: Duration = Duration::from_secs(3);
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
    resolving: JoinSet<(QueryId, Option<Route>)>,
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
    /// The accounts that are to be registered.
    registered: BTreeSet<AccountId>,
    next_sound: u64,
    rng: ChaCha12Rng,
    is_quitting: bool,
}

/// What a phone knows of a call.
struct PhoneCall {
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
}

impl PhoneCall {
    fn new(is_incoming: bool, offered: Bytes) -> PhoneCall {
        PhoneCall {
            sound: None,
            local: None,
            early: None,
            offered,
            is_incoming,
            is_up: false,
            is_held_by_us: false,
            is_held_by_them: false,
            proposed: None,
            takes_keys: false,
        }
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
            sounds,
            tell,
            events,
            missed: 0,
            certificate: certificate.map(Arc::new),
            speaker,
            conference: Arc::default(),
            does_not_disturb: false,
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
                        self.ua.handle_route(Instant::now(), query, route);
                    }
                }
                Some(event) = paths.recv() => self.emit(event),
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
            Incoming::Message { flow, message, .. } => self.ua.handle_message(now, flow, message),
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

    /// Looks for the way to a URI.
    fn resolve(&mut self, query: Query) {
        let question = question(&query.uri, self.config.transport);
        let (resolver, reach, transports) = (
            self.resolver.clone(),
            self.reach.clone(),
            self.transports.clone(),
        );
        self.resolving.spawn(async move {
            let route = async {
                let hops = resolver.resolve(&question?, &reach).await;
                for hop in hops {
                    let flow = transports
                        .connect_to(hop.transport, hop.remote, hop.peer.clone(), false)
                        .await;
                    let Ok(flow) = flow else {
                        continue;
                    };
                    let listening = transports.local_address_for(hop.transport, hop.remote);
                    return Some(Route {
                        target: Target::FlowOrAddress(flow, hop.remote),
                        local: listening.unwrap_or(flow.local),
                        peer: hop.peer,
                    });
                }
                None
            };
            (query.id, route.await)
        });
    }

    fn account(&self, number: usize) -> Option<AccountId> {
        self.accounts.get(number).copied()
    }

    fn number_of(&self, account: AccountId) -> usize {
        let place = self.accounts.iter().position(|other| *other == account);
        place.unwrap_or(0)
    }

    /// The call that a command names, or the latest one that will do.
    fn chosen(
        &self,
        named: Option<u64>,
        will_do: impl Fn(&PhoneCall) -> bool,
    ) -> Option<CallNumber> {
        match named {
            Some(number) => {
                let number = CallNumber(number);
                self.calls.contains_key(&number).then_some(number)
            }
            None => {
                let mut latest = self.calls.iter().rev();
                latest
                    .find(|(_, call)| will_do(call))
                    .map(|(number, _)| *number)
            }
        }
    }

    fn handle_command(&mut self, command: Command) {
        if let Err(problem) = self.follow(command) {
            self.emit(PhoneEvent::Refused {
                problem: problem.to_owned(),
            });
        }
    }

    fn follow(&mut self, command: Command) -> Result<(), &'static str> {
        const NO_ACCOUNT: &str = "there is no such account";
        const NO_CALL: &str = "there is no such call, or it is not ready for this";
        let now = Instant::now();
        let waiting = |call: &PhoneCall| call.is_incoming && !call.is_up;
        let up = |call: &PhoneCall| call.is_up;
        match command {
            Command::Register { account } => {
                let account = self.account(account).ok_or(NO_ACCOUNT)?;
                self.registered.insert(account);
                self.ua.register(now, account);
            }
            Command::Unregister { account, all } => {
                let account = self.account(account).ok_or(NO_ACCOUNT)?;
                self.registered.remove(&account);
                match all {
                    true => self.ua.unregister_all(now, account),
                    false => self.ua.unregister(now, account),
                }
            }
            Command::Bindings { account } => {
                let account = self.account(account).ok_or(NO_ACCOUNT)?;
                self.ua.fetch_bindings(now, account);
            }
            Command::Dial { account, to } => {
                let account = self.account(account).ok_or(NO_ACCOUNT)?;
                self.dial(now, account, to)?;
            }
            Command::Answer { call } => {
                let number = self.chosen(call, waiting).ok_or(NO_CALL)?;
                self.answer(now, number)?;
            }
            Command::Hangup { call } => {
                let number = self.chosen(call, |_| true).ok_or(NO_CALL)?;
                self.ua.hang_up(now, number).map_err(|_| NO_CALL)?;
            }
            Command::Hold { call } => {
                let number = self.chosen(call, up).ok_or(NO_CALL)?;
                self.offer_again(now, number, true)?;
            }
            Command::Resume { call } => {
                let number = self
                    .chosen(call, |call| call.is_held_by_us)
                    .ok_or(NO_CALL)?;
                self.offer_again(now, number, false)?;
            }
            Command::Mute { call, on } => {
                let number = self.chosen(call, up).ok_or(NO_CALL)?;
                let sound = self.calls.get(&number).and_then(|call| call.sound.as_ref());
                sound.ok_or(NO_CALL)?.mute(on);
            }
            Command::Volume { call, db } => {
                let number = self.chosen(call, up).ok_or(NO_CALL)?;
                let sound = self.calls.get(&number).and_then(|call| call.sound.as_ref());
                sound.ok_or(NO_CALL)?.volume(db);
            }
            Command::Record { call, path } => {
                let number = self.chosen(call, up).ok_or(NO_CALL)?;
                let sound = self.calls.get(&number).and_then(|call| call.sound.as_ref());
                sound.ok_or(NO_CALL)?.record(path);
            }
            Command::Conference { on } => {
                let calls = self.calls.values().filter(|call| on && call.is_up);
                let sounds = calls.filter_map(|call| Some(call.sound.as_ref()?.id));
                self.conference.set(&sounds.collect::<Vec<_>>());
            }
            Command::DoNotDisturb { on } => self.does_not_disturb = on,
            Command::AutoAnswer { on } => self.config.answers = on,
            Command::Keys { call, keys } => {
                let number = self.chosen(call, up).ok_or(NO_CALL)?;
                self.press(now, number, &keys)?;
            }
            Command::Transfer { call, to } => {
                check_uri(&to)?;
                let number = self.chosen(call, up).ok_or(NO_CALL)?;
                self.ua
                    .transfer(now, number, &to, None)
                    .map_err(|_| NO_CALL)?;
            }
            Command::Join { call, with } => {
                let with = Some(CallNumber(with));
                self.ua
                    .transfer(now, CallNumber(call), "", with)
                    .map_err(|_| NO_CALL)?;
            }
            Command::AcceptTransfer { call } => {
                let number = self.chosen(call, up).ok_or(NO_CALL)?;
                self.accept_transfer(now, number)?;
            }
            Command::RefuseTransfer { call } => {
                let number = self.chosen(call, up).ok_or(NO_CALL)?;
                self.ua.refuse_transfer(now, number).map_err(|_| NO_CALL)?;
            }
            Command::Text { account, to, text } => {
                check_uri(&to)?;
                let account = self.account(account).ok_or(NO_ACCOUNT)?;
                self.ua
                    .send_text(now, account, &to, "text/plain;charset=UTF-8", text.into());
            }
            Command::Quit => {
                self.is_quitting = true;
                let calls: Vec<CallNumber> = self.calls.keys().copied().collect();
                for call in calls {
                    let _ = self.ua.hang_up(now, call);
                }
                for account in std::mem::take(&mut self.registered) {
                    self.ua.unregister(now, account);
                }
            }
        }
        Ok(())
    }

    /// Opens the sound of a call at our address, and describes it.
    fn open_sound(
        &mut self,
        address: IpAddr,
        is_signalling_encrypted: bool,
    ) -> Result<(CallSound, LocalMedia), &'static str> {
        let devices = Devices {
            source: self.config.source.clone(),
            recording: self.config.recording.take(),
            speaker: self.speaker.input(),
            conference: Arc::clone(&self.conference),
            quality_interval: self.config.quality_interval,
            silence: self.config.media.silence(),
        };
        self.next_sound += 1;
        let (tell, id) = (self.tell.clone(), self.next_sound);
        let certificate = self.certificate.clone();
        let seed = self.rng.random();
        let sound = CallSound::open(address, certificate, devices, seed, id, move |event| {
            let _ = tell.send((id, event));
        })
        .map_err(|_| "no port for the sound is free")?;
        let local = LocalMedia {
            address,
            port: sound.port,
            codecs: self.config.codecs.clone(),
            session_id: u64::from(self.rng.random::<u32>()),
            version: 1,
            direction: Direction::SendReceive,
            refused: Vec::new(),
            place: 0,
            protection: self.protection(is_signalling_encrypted),
            ice: match self.config.media.ice {
                true => (0..MAX_ICE_STARTS)
                    .map(|_| IceCredentials::new(self.rng.random()))
                    .collect(),
                false => Vec::new(),
            },
            settled: Settled::default(),
        };
        Ok((sound, local))
    }

    /// What a call has to protect its media; its keys are its own.
    fn protection(&mut self, is_signalling_encrypted: bool) -> LocalProtection {
        let media = &self.config.media;
        let mut protection = LocalProtection {
            srtp: media.srtp,
            offered: media.offered_keys(is_signalling_encrypted),
            sdes: Vec::new(),
            fingerprint: self.certificate.as_ref().map(|one| one.fingerprint()),
        };
        for suite in Suite::ALL {
            let mut octets = [0; MAX_KEY_AND_SALT_OCTETS];
            self.rng.fill(&mut octets);
            let octets = octets.get(..suite.key_and_salt_octets());
            let key = octets.and_then(|octets| MasterKey::new(suite, octets));
            protection.sdes.extend(key);
        }
        protection
    }

    fn dial(&mut self, now: Instant, account: AccountId, to: String) -> Result<(), &'static str> {
        check_uri(&to)?;
        let config = self.config.accounts.get(self.number_of(account));
        let proxies = config.map_or(&[][..], |config| config.outbound_proxies.as_slice());
        let address = address_towards(proxies.first().unwrap_or(&to));
        // The call goes to any of them, as one after the other fails.
        let transport = self.config.transport;
        let is_encrypted = match proxies {
            [] => is_encrypted(&to, transport),
            _ => proxies.iter().all(|proxy| is_encrypted(proxy, transport)),
        };
        let (sound, mut local) = self.open_sound(address, is_encrypted)?;
        if local.protection.cannot_be_offered() {
            return Err(NO_KEYS);
        }
        let number = self.ua.dial(now, account, &to, offer(&mut local));
        let mut call = PhoneCall::new(false, Bytes::new());
        call.sound = Some(sound);
        call.local = Some(local);
        self.calls.insert(number, call);
        self.emit(PhoneEvent::Dialing { call: number.0, to });
        Ok(())
    }

    /// Answers a call that came.
    fn answer(&mut self, now: Instant, number: CallNumber) -> Result<(), &'static str> {
        const NO_CALL: &str = "there is no such call, or it is answered already";
        let offered = self.calls.get(&number).ok_or(NO_CALL)?.offered.clone();
        let address = address_of_offer(&offered);
        let recording = self.config.recording.clone();
        // Keys of ours are offered in an answer by a call that had no offer; nobody has said by which way it came.
        let opened = self.open_sound(address, false);
        let (sound, mut local) = opened.inspect_err(|_| {
            let _ = self.ua.refuse(now, number, 500, "Server Internal Error");
        })?;
        if offered.is_empty() && local.protection.cannot_be_offered() {
            // It is for the next call.
            self.config.recording = recording;
            let _ = self.ua.refuse(now, number, 488, "Not Acceptable Here");
            return Err(NO_KEYS);
        }
        let (description, negotiated) = if offered.is_empty() {
            (offer(&mut local), None)
        } else {
            match answer(&mut local, &offered) {
                Ok((description, negotiated)) => (description, Some(negotiated)),
                Err(_) => {
                    // It is for the next call.
                    self.config.recording = recording;
                    let _ = self.ua.refuse(now, number, 488, "Not Acceptable Here");
                    return Err("there is nothing in its offer that we could use");
                }
            }
        };
        self.ua
            .answer(now, number, description)
            .map_err(|_| NO_CALL)?;
        let call = self.calls.get_mut(&number).ok_or(NO_CALL)?;
        call.sound = Some(sound);
        call.local = Some(local);
        if let Some(negotiated) = negotiated {
            self.begin(number, negotiated);
        }
        Ok(())
    }

    /// The sound of a call begins.
    fn begin(&mut self, number: CallNumber, negotiated: Negotiated) {
        let Some(call) = self.calls.get_mut(&number) else {
            return;
        };
        let codec = negotiated.send.codec.to_string();
        call.takes_keys = negotiated.send.key_payload_type.is_some();
        if let Some(sound) = &call.sound {
            sound.start(negotiated);
        }
        if !std::mem::replace(&mut call.is_up, true) {
            self.speaker.tone(number.0, None, None);
            self.emit(PhoneEvent::Answered {
                call: number.0,
                codec,
            });
        }
    }

    /// Presses keys: in the media, or by INFO where the other side takes none there.
    fn press(&mut self, now: Instant, number: CallNumber, keys: &str) -> Result<(), &'static str> {
        const NO_CALL: &str = "there is no such call";
        let signs: Vec<Key> = keys
            .chars()
            .map(|sign| Key::of(sign).ok_or("a key is a digit, *, # or a letter from A to D"))
            .collect::<Result<_, _>>()?;
        let call = self.calls.get(&number).ok_or(NO_CALL)?;
        if call.takes_keys {
            call.sound.as_ref().ok_or(NO_CALL)?.press(signs);
            return Ok(());
        }
        for key in signs {
            let sent = self.ua.send_key(now, number, key.sign());
            sent.map_err(|_| NO_CALL)?;
        }
        Ok(())
    }

    /// Puts a call on hold, or goes on with it.
    fn offer_again(
        &mut self,
        now: Instant,
        number: CallNumber,
        hold: bool,
    ) -> Result<(), &'static str> {
        const NOT_READY: &str = "the call is not ready for this";
        let call = self.calls.get_mut(&number).ok_or(NOT_READY)?;
        let local = call.local.as_mut().ok_or(NOT_READY)?;
        let mut offered = local.clone();
        offered.version += 1;
        offered.direction = if hold {
            Direction::SendOnly
        } else {
            Direction::SendReceive
        };
        self.ua
            .offer(now, number, offer(&mut offered))
            .map_err(|_| NOT_READY)?;
        // Another description with this number must not follow, even when this one is refused (RFC 3264 section 8).
        local.version = offered.version;
        call.proposed = Some(offered);
        Ok(())
    }

    fn accept_transfer(&mut self, now: Instant, number: CallNumber) -> Result<(), &'static str> {
        const NO_TRANSFER: &str = "no transfer was asked for";
        let call = self.calls.get(&number).ok_or(NO_TRANSFER)?;
        let address = call.local.as_ref().ok_or(NO_TRANSFER)?.address;
        // Where it goes is not known yet.
        let (sound, mut local) = self.open_sound(address, false)?;
        let new = self.ua.accept_transfer(now, number, offer(&mut local));
        let new = new.map_err(|_| NO_TRANSFER)?;
        let mut call = PhoneCall::new(false, Bytes::new());
        call.sound = Some(sound);
        call.local = Some(local);
        self.calls.insert(new, call);
        Ok(())
    }

    fn handle_sound(&mut self, id: u64, event: SoundEvent) {
        let is_it = |call: &PhoneCall| call.sound.as_ref().is_some_and(|sound| sound.id == id);
        let found = self.calls.iter().find(|(_, call)| is_it(call));
        let Some(call) = found.map(|(number, _)| number.0) else {
            return;
        };
        let told = match event {
            SoundEvent::Key(key) => PhoneEvent::Key { call, key },
            SoundEvent::Played => PhoneEvent::Played { call },
            SoundEvent::Quality(quality) => PhoneEvent::Quality { call, quality },
            SoundEvent::RecordingFailed => PhoneEvent::Refused {
                problem: "the recording cannot be written".to_owned(),
            },
            SoundEvent::Silence(time) => {
                if self.config.media.rtp_timeout_hangup {
                    let _ = self.ua.hang_up(Instant::now(), CallNumber(call));
                }
                PhoneEvent::RtpTimeout {
                    call,
                    seconds: time.as_secs(),
                }
            }
            SoundEvent::NotProtected => {
                // RFC 5763 section 5.
                let _ = self.ua.hang_up(Instant::now(), CallNumber(call));
                PhoneEvent::NotProtected { call }
            }
        };
        self.emit(told);
    }

    fn handle_event(&mut self, event: UaEvent) {
        let now = Instant::now();
        match event {
            UaEvent::Registration { account, state } => {
                let account = self.number_of(account);
                self.emit(match state {
                    RegistrationState::Registered { expires, flows } => PhoneEvent::Registered {
                        account,
                        expires,
                        flows,
                    },
                    RegistrationState::FlowFailed { flow, flows } => PhoneEvent::FlowFailed {
                        account,
                        flow,
                        flows,
                    },
                    RegistrationState::Unregistered => PhoneEvent::Unregistered { account },
                    RegistrationState::Failed { status, reason } => {
                        PhoneEvent::RegistrationFailed {
                            account,
                            status,
                            reason,
                        }
                    }
                });
            }
            UaEvent::Bindings { account, contacts } => self.emit(PhoneEvent::Bindings {
                account: self.number_of(account),
                contacts,
            }),
            UaEvent::Incoming {
                call,
                account,
                from,
                display_name,
                offer,
                replaces,
            } => {
                if self.does_not_disturb && replaces.is_none() {
                    let _ = self.ua.refuse(now, call, 486, "Busy Here");
                    return;
                }
                let is_second = self.calls.values().any(|call| call.is_up);
                self.calls.insert(call, PhoneCall::new(true, offer));
                self.emit(PhoneEvent::Incoming {
                    call: call.0,
                    account: self.number_of(account),
                    from,
                    display_name,
                });
                // A call that takes the place of one that is up is not news to the user.
                if self.config.answers || replaces.is_some() {
                    self.handle_command(Command::Answer { call: Some(call.0) });
                } else {
                    let tone = if is_second {
                        Tone::CallWaiting
                    } else {
                        Tone::Ringback
                    };
                    self.speaker.tone(call.0, Some(tone), None);
                    let _ = self.ua.ring(now, call, Bytes::new());
                }
            }
            UaEvent::Progress {
                call,
                status,
                reason,
                description,
            } => {
                self.emit(PhoneEvent::Progress {
                    call: call.0,
                    status,
                    reason,
                });
                // Sound of the other side says what is to be heard.
                let has_sound = self
                    .calls
                    .get(&call)
                    .is_some_and(|call| call.early.is_some());
                if !description.is_empty() {
                    self.speaker.tone(call.0, None, None);
                } else if status == 180 && !has_sound {
                    self.speaker.tone(call.0, Some(Tone::Ringback), None);
                }
                self.agree(now, call, &description, false);
            }
            UaEvent::Answered { call, description } => self.agree(now, call, &description, true),
            UaEvent::Established { call, description } if !description.is_empty() => {
                self.agree(now, call, &description, true);
            }
            UaEvent::Established { call, .. } => {
                // Our offer was in the answer to the call, and nothing has answered it (RFC 3261 section 13.2.1).
                if self.calls.get(&call).is_some_and(|call| !call.is_up) {
                    let _ = self.ua.hang_up(now, call);
                }
            }
            UaEvent::Offer { call, description } => self.handle_offer(now, call, &description),
            UaEvent::OfferAccepted { call, description } => {
                if let Some(known) = self.calls.get_mut(&call)
                    && let Some(proposed) = known.proposed.take()
                {
                    known.is_held_by_us = proposed.direction == Direction::SendOnly;
                    known.local = Some(proposed);
                }
                self.agree(now, call, &description, true);
                self.emit(PhoneEvent::Changed {
                    call: call.0,
                    accepted: true,
                });
            }
            UaEvent::OfferRefused { call, .. } => {
                // All stays as it was (RFC 3261 section 14.1).
                if let Some(call) = self.calls.get_mut(&call) {
                    call.proposed = None;
                }
                self.emit(PhoneEvent::Changed {
                    call: call.0,
                    accepted: false,
                });
            }
            UaEvent::Key { call, key } => self.emit(PhoneEvent::Key { call: call.0, key }),
            UaEvent::TransferRequested { call, target, .. } => {
                self.emit(PhoneEvent::TransferRequested {
                    call: call.0,
                    target,
                });
                if self.config.accepts_transfers {
                    self.handle_command(Command::AcceptTransfer { call: Some(call.0) });
                } else if !self.config.is_attended {
                    let _ = self.ua.refuse_transfer(now, call);
                }
            }
            UaEvent::TransferProgress { call, status } => {
                self.emit(PhoneEvent::TransferProgress {
                    call: call.0,
                    status,
                });
                // The other side is served (RFC 5589 section 6.1).
                if (200..300).contains(&status) {
                    let _ = self.ua.hang_up(now, call);
                }
            }
            UaEvent::Text {
                account,
                from,
                body,
                ..
            } => self.emit(PhoneEvent::Text {
                account: self.number_of(account),
                from,
                text: String::from_utf8_lossy(&body).into_owned(),
            }),
            UaEvent::TextSent { status, .. } => self.emit(PhoneEvent::TextSent { status }),
            UaEvent::MessagesWaiting { account, waiting } => {
                self.emit(PhoneEvent::MessagesWaiting {
                    account: self.number_of(account),
                    waiting,
                })
            }
            UaEvent::Ended { call, reason } => self.handle_end(call, &reason),
        }
    }

    /// The answer to our offer is there; `is_final` when it came with the answer to the call.
    fn agree(&mut self, now: Instant, number: CallNumber, description: &[u8], is_final: bool) {
        let Some(call) = self.calls.get_mut(&number) else {
            return;
        };
        if !description.is_empty() {
            let agreed = call
                .local
                .as_mut()
                .map(|local| read_answer(local, description));
            match agreed {
                Some(Ok(negotiated)) if is_final => self.begin(number, negotiated),
                Some(Ok(negotiated)) => {
                    call.early = Some(negotiated.clone());
                    if let Some(sound) = &call.sound {
                        sound.start(negotiated);
                    }
                }
                _ if is_final => {
                    let _ = self.ua.hang_up(now, number);
                }
                _ => {}
            }
        } else if is_final && let Some(negotiated) = call.early.take() {
            self.begin(number, negotiated);
        }
    }

    /// The other side offers another session.
    fn handle_offer(&mut self, now: Instant, number: CallNumber, description: &[u8]) {
        let Some(call) = self.calls.get_mut(&number) else {
            return;
        };
        let Some(local) = &mut call.local else {
            return;
        };
        local.version += 1;
        if description.is_empty() {
            let description = offer(local);
            let _ = self.ua.answer_offer(now, number, description);
            return;
        }
        let offered = description;
        let Ok((description, negotiated)) = answer(local, offered) else {
            let _ = self
                .ua
                .refuse_offer(now, number, 488, "Not Acceptable Here");
            return;
        };
        let held = !matches!(
            negotiated.direction,
            Direction::SendReceive | Direction::SendOnly
        );
        let is_news = std::mem::replace(&mut call.is_held_by_them, held) != held;
        if self.ua.answer_offer(now, number, description).is_ok() {
            self.begin(number, negotiated);
        }
        if is_news {
            self.emit(PhoneEvent::Held {
                call: number.0,
                held,
            });
        }
    }

    fn handle_end(&mut self, number: CallNumber, reason: &EndReason) {
        let call = self.calls.remove(&number);
        if let Some(sound) = call.as_ref().and_then(|call| call.sound.as_ref()) {
            self.conference.leave(sound.id);
        }
        let quality = call.and_then(|call| {
            let quality = call.sound.map(CallSound::stop);
            quality.filter(|_| call.is_up)
        });
        // One's own hanging up needs no tone.
        let tone = match reason {
            EndReason::Refused {
                status: 486 | 600, ..
            } => Some(Tone::Busy),
            EndReason::Refused { .. } => Some(Tone::Congestion),
            _ => None,
        };
        self.speaker.tone(number.0, tone, Some(END_TONE));
        let (reason, status) = match reason {
            EndReason::Local => ("local", None),
            EndReason::Remote => ("remote", None),
            EndReason::Refused { status, .. } => ("refused", Some(*status)),
            EndReason::Replaced => ("replaced", None),
            EndReason::Timeout => ("timeout", None),
        };
        self.emit(PhoneEvent::Ended {
            call: number.0,
            reason,
            status,
            quality,
        });
    }
}

/// Says what is wrong with the URI of a command.
fn check_uri(uri: &str) -> Result<(), &'static str> {
    match Uri::parse(uri) {
        Ok(Uri::Sip(_)) => Ok(()),
        _ => Err("a SIP URI is expected, such as sip:bob@example.org"),
    }
}
