//! The media of a worker's calls: its engine reports the calls, ports carry their packets.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use media::sdes::Crypto;

use super::config::GeneratorConfig;
use super::error::LoadError;
use super::setup::local_ip;
use crate::engine::{CallMedia, LocalMedia};
use crate::media::{
    CallId, MediaConfig, MediaPort, MediaReport, MediaStatistics, Mode, Remote, SrtpKeys, Strays,
    crypto_of,
};
use crate::record::Party;
use crate::script::MediaAction;

/// How long a call goes on hearing when it is over: what is under way on the network, and in our own
/// buffers, is not lost then.
const LINGER: Duration = Duration::from_millis(200);

/// Statistics of the media of a run.
#[derive(Clone, Debug, Default)]
pub struct MediaTotal {
    /// Calls of our callers.
    pub callers: MediaStatistics,
    /// Calls that our callees answered.
    pub callees: MediaStatistics,
    /// Calls that were answered, but whose other side has not said where it listens for G.711, or has not agreed on keys in
    /// a profile that needs them.
    pub undescribed: u64,
    /// Calls whose other side wants to hear at an address whose owner has not agreed, or at our own port.
    pub refused: u64,
    /// Calls for which there was no room.
    pub without_room: u64,
    /// What came that belonged to no call, since the users were started.
    pub strays: Strays,
}

impl MediaTotal {
    /// Adds what another worker's did.
    pub(super) fn merge(&mut self, other: &MediaTotal) {
        self.callers.merge(&other.callers);
        self.callees.merge(&other.callees);
        self.undescribed += other.undescribed;
        self.refused += other.refused;
        self.without_room += other.without_room;
        self.add_strays(other.strays);
    }

    fn add_strays(&mut self, strays: Strays) {
        self.strays.media += strays.media;
        self.strays.control += strays.control;
        self.strays.malformed += strays.malformed;
    }
}

/// The calls of a worker that have media. Its engine has a clone.
#[derive(Clone, Debug)]
pub(super) struct CallsWithMedia(Arc<Mutex<Calls>>);

#[derive(Debug)]
struct Calls {
    callers: Option<PartyMedia>,
    callees: Option<PartyMedia>,
    calls: HashMap<u32, Call>,
    /// Who has agreed to get media.
    agreed: Vec<String>,
    /// Calls that are over and still hear, the oldest first.
    lingering: VecDeque<(Instant, Party, CallId)>,
    total: MediaTotal,
    /// Whether scripts say what is played, in whichever codec.
    plays_recordings: bool,
}

/// The media of one party of calls. Each has a port of its own: a packet that is sent back would belong to either party
/// otherwise.
#[derive(Debug)]
struct PartyMedia {
    port: MediaPort,
    mode: Mode,
}

#[derive(Debug)]
struct Call {
    party: Party,
    id: CallId,
    local: LocalMedia,
    remote: Option<Remote>,
    /// The lines of `a=crypto` in the latest descriptions.
    our_crypto: Vec<Crypto>,
    their_crypto: Vec<Crypto>,
    /// What they have agreed on.
    keys: Option<SrtpKeys>,
    is_refused: bool,
    is_answered: bool,
    /// What its script has chosen that it does.
    chosen: Option<Mode>,
}

impl CallsWithMedia {
    /// Opens the ports of a worker; none where calls have no media.
    pub(super) fn open(config: &GeneratorConfig) -> Result<Option<CallsWithMedia>, LoadError> {
        let Some(plan) = &config.media else {
            return Ok(None);
        };
        let address = local_ip(config)?;
        if address.is_unspecified() {
            return Err(LoadError::Settings(
                "session descriptions need an address: give the local one",
            ));
        }
        let open = |has_users: bool, mode| -> Result<Option<PartyMedia>, LoadError> {
            if !has_users {
                return Ok(None);
            }
            let port = MediaPort::open(MediaConfig {
                clip: plan.clip.clone(),
                ..MediaConfig::new(address)
            })?;
            Ok(Some(PartyMedia { port, mode }))
        };
        let mut agreed = plan.agreed.clone();
        agreed.push(config.target.ip().to_string());
        let calls = Calls {
            callers: open(config.role.has_callers(), plan.callers)?,
            callees: open(config.role.has_callees(), plan.callees)?,
            calls: HashMap::new(),
            agreed,
            lingering: VecDeque::new(),
            total: MediaTotal::default(),
            plays_recordings: config.scripts.iter().any(|script| script.has_media()),
        };
        Ok(Some(CallsWithMedia(Arc::new(Mutex::new(calls)))))
    }

    /// Ends the media of calls that have been over for long enough.
    pub(super) fn stop_those_due(&self, now: Instant) {
        self.lock().stop_those_due(now);
    }

    /// Waits until nothing is under way any more, and tells what the media did since it was asked last.
    pub(super) fn finish(&self) -> Box<MediaTotal> {
        let mut calls = self.lock();
        let last = calls.lingering.back().map(|(until, ..)| *until);
        if let Some(last) = last {
            std::thread::sleep(last.saturating_duration_since(Instant::now()));
            calls.stop_those_due(last);
        }
        let mut total = std::mem::take(&mut calls.total);
        for media in [&calls.callers, &calls.callees].into_iter().flatten() {
            total.add_strays(media.port.counters().strays);
        }
        Box::new(total)
    }

    fn lock(&self) -> MutexGuard<'_, Calls> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Calls {
    fn media_of(&self, party: Party) -> Option<&PartyMedia> {
        match party {
            Party::Caller => self.callers.as_ref(),
            Party::Callee => self.callees.as_ref(),
        }
    }

    /// Whether a call may send there: not to strangers, and not into the port that it hears at, where what is
    /// sent back would go round for ever.
    fn may_send(&self, party: Party, remote: &Remote) -> bool {
        let ip = remote.rtp.ip();
        let is_own = |media: &PartyMedia| media.port.address() == remote.rtp;
        allowed_targets::check(&ip.to_string(), ip, &self.agreed).is_ok()
            && !self.media_of(party).is_some_and(is_own)
    }

    fn stop_those_due(&mut self, now: Instant) {
        while let Some((_, party, id)) = self.lingering.pop_front_if(|(until, ..)| *until <= now) {
            let report = match self.media_of(party) {
                Some(media) => media.port.stop(id),
                None => MediaReport::default(),
            };
            match party {
                Party::Caller => self.total.callers.record(&report),
                Party::Callee => self.total.callees.record(&report),
            }
        }
    }

    /// Offer and answer are there.
    fn agree(&mut self, call: u32) {
        if let Some(call) = self.calls.get_mut(&call) {
            call.keys = SrtpKeys::agreed(&call.our_crypto, &call.their_crypto);
        }
    }

    /// Begins what can begin: both sides hear from the answer on, callees play from the ACK on, when the caller
    /// surely knows to whom it listens.
    fn start(&mut self, call: u32, is_acknowledged: bool) {
        let Some(call) = self.calls.get(&call) else {
            return;
        };
        let (Some(media), Some(remote)) = (self.media_of(call.party), call.usable_remote()) else {
            return;
        };
        let mode = match (call.chosen, call.party, media.mode) {
            (Some(chosen), ..) => chosen,
            (None, Party::Callee, Mode::Talk) if !is_acknowledged => Mode::Sink,
            (None, _, mode) => mode,
        };
        media.port.start(call.id, mode, remote, call.keys.clone());
    }
}

impl Call {
    /// Where its media may go.
    fn usable_remote(&self) -> Option<Remote> {
        let has_keys = self.keys.is_some();
        self.remote.filter(|remote| has_keys || !remote.needs_keys)
    }
}

impl CallMedia for CallsWithMedia {
    fn begin(&mut self, call: u32, party: Party) {
        let mut calls = self.lock();
        let found = calls.media_of(party).and_then(|media| {
            let id = media.port.reserve()?;
            let local = LocalMedia {
                port: media.port.address().port(),
                source: media.port.ssrc(id)?,
            };
            Some((id, local))
        });
        match found {
            Some((id, local)) => {
                let media = Call {
                    party,
                    id,
                    local,
                    remote: None,
                    our_crypto: Vec::new(),
                    their_crypto: Vec::new(),
                    keys: None,
                    is_refused: false,
                    is_answered: false,
                    chosen: None,
                };
                calls.calls.insert(call, media);
            }
            None => calls.total.without_room += 1,
        }
    }

    fn local(&self, call: u32) -> Option<LocalMedia> {
        self.lock().calls.get(&call).map(|call| call.local)
    }

    fn describe(&mut self, call: u32, description: &[u8]) {
        let mut calls = self.lock();
        let Some(party) = calls.calls.get(&call).map(|call| call.party) else {
            return;
        };
        let read = match calls.plays_recordings {
            true => Remote::read_any(description, false).map(|(remote, _)| remote),
            false => Remote::read(description, false),
        };
        let Ok(remote) = read else {
            return;
        };
        let is_refused = !calls.may_send(party, &remote);
        if let Some(call) = calls.calls.get_mut(&call) {
            call.remote = (!is_refused).then_some(remote);
            call.is_refused = is_refused;
            call.their_crypto = crypto_of(description);
        }
    }

    fn describe_own(&mut self, call: u32, description: &[u8]) {
        let mut calls = self.lock();
        let Some(call) = calls.calls.get_mut(&call) else {
            return;
        };
        // Bodies of another kind have no audio, and change nothing.
        if Remote::read_any(description, false).is_ok() {
            call.our_crypto = crypto_of(description);
        }
    }

    fn answered(&mut self, call: u32) {
        let mut calls = self.lock();
        if let Some(call) = calls.calls.get_mut(&call) {
            call.is_answered = true;
        }
        calls.agree(call);
        calls.start(call, false);
    }

    /// What is played goes where the other side has said that it listens, whether the call is answered or not.
    fn act(&mut self, call: u32, action: &MediaAction) {
        let mut calls = self.lock();
        if let (MediaAction::Echo(is_echo), Some(known)) = (action, calls.calls.get_mut(&call)) {
            known.chosen = Some(if *is_echo { Mode::Echo } else { Mode::Sink });
        }
        // Early media: a provisional response of ours may have had the answer.
        if calls.calls.get(&call).is_some_and(|call| !call.is_answered) {
            calls.agree(call);
        }
        calls.start(call, false);
        let Some(known) = calls.calls.get(&call) else {
            return;
        };
        let Some(port) = calls.media_of(known.party).map(|media| &media.port) else {
            return;
        };
        match action {
            MediaAction::Play(recording) => port.play(known.id, recording.clone()),
            MediaAction::Pause => port.pause(known.id),
            MediaAction::Resume => port.resume(known.id),
            // It has begun with this mode.
            MediaAction::Echo(_) => {}
        }
    }

    fn acknowledged(&mut self, call: u32) {
        let mut calls = self.lock();
        calls.agree(call);
        calls.start(call, true);
    }

    fn end(&mut self, call: u32) {
        let mut calls = self.lock();
        let Some(call) = calls.calls.remove(&call) else {
            return;
        };
        let Some(media) = calls.media_of(call.party) else {
            return;
        };
        if call.is_answered && call.usable_remote().is_some() {
            media.port.stop_sending(call.id);
            let until = Instant::now() + LINGER;
            calls.lingering.push_back((until, call.party, call.id));
        } else {
            // It never began.
            media.port.stop(call.id);
            let total = &mut calls.total;
            match call.is_refused {
                true => total.refused += 1,
                false => total.undescribed += u64::from(call.is_answered),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;
    use crate::driver::config::MediaPlan;
    use crate::media::Clip;

    fn description(at: SocketAddr) -> String {
        let ip = at.ip();
        format!(
            "v=0\r\no=- 1 1 IN IP4 {ip}\r\ns=-\r\nc=IN IP4 {ip}\r\nt=0 0\r\nm=audio {} RTP/AVP 0\r\n",
            at.port()
        )
    }

    #[test]
    fn media_goes_neither_to_strangers_nor_to_where_it_is_heard() {
        let plan = MediaPlan {
            clip: Clip::tone(440),
            callers: Mode::Sink,
            callees: Mode::Sink,
            agreed: vec!["192.0.2.7".to_owned()],
        };
        let config = GeneratorConfig {
            target: "127.0.0.1:5060".parse().expect("an address"),
            media: Some(plan),
            ..GeneratorConfig::default()
        };
        let mut media = CallsWithMedia::open(&config)
            .expect("ports are free")
            .expect("calls have media");
        let port_of = |media: &CallsWithMedia, party| {
            let calls = media.lock();
            calls.media_of(party).map(|media| media.port.address())
        };
        let own = port_of(&media, Party::Caller).expect("callers have a port");
        let theirs = port_of(&media, Party::Callee).expect("callees have a port");
        let cases = [
            ("198.51.100.1:4000".parse().expect("an address"), true),
            ("192.0.2.7:4000".parse().expect("an address"), false),
            (own, true),
            (theirs, false),
        ];
        for (number, (remote, is_refused)) in (0..).zip(cases) {
            media.begin(number, Party::Caller);
            media.describe(number, description(remote).as_bytes());
            media.answered(number);
            media.end(number);
            let total = media.finish();
            assert_eq!(total.refused, u64::from(is_refused), "{remote}");
            assert_eq!(total.callers.calls, u64::from(!is_refused), "{remote}");
            assert_eq!(total.undescribed, 0);
        }
    }
}
