//! An application server as its SGP sees it: the states of its ASPs, its own state, and the sharing of its traffic
//! (sections 4.3.1, 4.3.2 and 4.3.4.3).

use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

use super::config::{ApplicationServerConfig, KeySelection, PeerId};
use super::key_table::normalize;
use super::output::{AsState, AspState};
use super::sls_shares::{SLS_VALUES, SlsShares};
use crate::message::{ProtocolData, TrafficMode};

/// An application server.
#[derive(Debug)]
pub(crate) struct ApplicationServer {
    pub(crate) config: ApplicationServerConfig,
    /// Its routing key, written as all are that are the same.
    normalized_key: Vec<KeySelection>,
    /// Whether it was made by a registration, and goes with the last ASP that is registered.
    pub(crate) is_dynamic: bool,
    /// Management does not let ASPs become active in it (section 4.7).
    pub(crate) is_blocked: bool,
    state: AsState,
    traffic_mode: Option<TrafficMode>,
    asps: BTreeMap<PeerId, AspState>,
    /// Active ASPs, in the order of their numbers.
    active: Vec<PeerId>,
    /// Loadshare: the ASP of each SLS.
    by_sls: SlsShares,
    /// Messages that wait for an ASP while the AS is pending.
    pub(crate) waiting: VecDeque<ProtocolData>,
    /// When T(r) expires.
    pub(crate) recovery: Option<Instant>,
    /// Whether it has been reported that there are fewer active ASPs than required.
    pub(crate) is_short: bool,
    /// Broadcast: flows (by SLS) whose next message has to have a Correlation Id.
    untagged: Vec<bool>,
    last_correlation_id: u32,
}

impl ApplicationServer {
    pub(crate) fn new(config: ApplicationServerConfig, is_dynamic: bool) -> ApplicationServer {
        let mut normalized_key = config.routing_key.clone();
        normalize(&mut normalized_key);
        ApplicationServer {
            normalized_key,
            traffic_mode: config.traffic_mode,
            config,
            is_dynamic,
            is_blocked: false,
            state: AsState::Down,
            asps: BTreeMap::new(),
            active: Vec::new(),
            by_sls: SlsShares::default(),
            waiting: VecDeque::new(),
            recovery: None,
            is_short: false,
            untagged: vec![false; SLS_VALUES],
            last_correlation_id: 0,
        }
    }

    pub(crate) fn state(&self) -> AsState {
        self.state
    }

    /// Its routing key, in the form in which [`normalize`] writes it.
    pub(crate) fn normalized_key(&self) -> &[KeySelection] {
        &self.normalized_key
    }

    /// Whether messages for it can be taken: they are sent, or wait.
    pub(crate) fn is_usable(&self) -> bool {
        matches!(self.state, AsState::Active | AsState::Pending)
    }

    /// Its mode; until an ASP or the configuration has said one, they share the load.
    pub(crate) fn traffic_mode(&self) -> TrafficMode {
        self.traffic_mode.unwrap_or(TrafficMode::LOADSHARE)
    }

    /// Whether an ASP that asks for this mode fits. The first one to become active decides where the configuration does not
    /// (section 4.3.4.3).
    pub(crate) fn accepts(&self, mode: Option<TrafficMode>) -> bool {
        let Some(mode) = mode else {
            return true;
        };
        let is_known = mode.name().is_some();
        is_known
            && (self.config.traffic_mode.unwrap_or(mode) == mode)
            && (self.active.is_empty() || self.traffic_mode() == mode)
    }

    /// Takes the mode of the ASP that becomes active first.
    pub(crate) fn set_traffic_mode(&mut self, mode: TrafficMode) {
        if self.active.is_empty() {
            self.traffic_mode = Some(mode);
        }
    }

    pub(crate) fn asps(&self) -> impl Iterator<Item = (PeerId, AspState)> {
        self.asps.iter().map(|(peer, state)| (*peer, *state))
    }

    pub(crate) fn asp_state(&self, peer: PeerId) -> AspState {
        self.asps.get(&peer).copied().unwrap_or_default()
    }

    pub(crate) fn active(&self) -> &[PeerId] {
        &self.active
    }

    /// ASPs that must be active before traffic begins. One does in override mode.
    pub(crate) fn required(&self) -> usize {
        match self.traffic_mode() {
            TrafficMode::OVERRIDE => 1,
            _ => self.config.required_asps.max(1),
        }
    }

    /// An ASP belongs to it.
    pub(crate) fn add(&mut self, peer: PeerId) {
        self.asps.entry(peer).or_default();
    }

    /// An ASP does not belong to it any more. Tell its state before.
    pub(crate) fn remove(&mut self, peer: PeerId) {
        self.asps.remove(&peer);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.asps.is_empty()
    }

    /// An ASP is in another state. Returns those that it overrides.
    pub(crate) fn set_asp_state(&mut self, peer: PeerId, state: AspState) -> Vec<PeerId> {
        let before = self.asps.insert(peer, state).unwrap_or_default();
        if before == state {
            return Vec::new();
        }
        let mut overridden = Vec::new();
        self.active.retain(|it| *it != peer);
        if state == AspState::Active {
            if self.traffic_mode() == TrafficMode::OVERRIDE {
                overridden = std::mem::take(&mut self.active);
                for other in &overridden {
                    self.asps.insert(*other, AspState::Inactive);
                }
            }
            let position = self.active.partition_point(|it| *it < peer);
            self.active.insert(position, peer);
            self.untagged.fill(true);
        }
        match self.traffic_mode() {
            TrafficMode::BROADCAST => self.by_sls.share(&[]),
            _ => self.by_sls.share(&self.active),
        }
        overridden
    }

    /// The state that follows from those of the ASPs (figure 4). T(r) is the caller's.
    pub(crate) fn advance(&mut self) {
        self.state = match (self.state, self.active.len()) {
            // Until T(r) expires, whatever becomes of the ASPs.
            (AsState::Active | AsState::Pending, 0) => AsState::Pending,
            (AsState::Active | AsState::Pending, _) => AsState::Active,
            (_, active) if active >= self.required() => AsState::Active,
            _ => self.state_without_traffic(),
        };
    }

    /// T(r) has expired. Returns how many messages were waiting.
    pub(crate) fn give_up(&mut self) -> usize {
        self.recovery = None;
        self.state = self.state_without_traffic();
        let waiting = std::mem::take(&mut self.waiting);
        waiting.len()
    }

    /// The ASP for a message with this SLS; none in broadcast mode, or without active ASPs.
    pub(crate) fn asp_for(&self, sls: u8) -> Option<PeerId> {
        self.by_sls.of(sls)
    }

    /// The Correlation Id of a message with this SLS, if it is to have one: the first one of a flow since an ASP has become
    /// active in broadcast mode (section 4.3.4.3).
    pub(crate) fn correlation_id(&mut self, sls: u8) -> Option<u32> {
        let flow = self.untagged.get_mut(usize::from(sls))?;
        if !std::mem::take(flow) || self.traffic_mode() != TrafficMode::BROADCAST {
            return None;
        }
        self.last_correlation_id = self.last_correlation_id.wrapping_add(1);
        Some(self.last_correlation_id)
    }

    fn state_without_traffic(&self) -> AsState {
        match self.asps.values().all(|state| *state == AspState::Down) {
            true => AsState::Down,
            false => AsState::Inactive,
        }
    }
}
