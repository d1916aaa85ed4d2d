//! Offers and answers of voice calls: RFC 3264, RFC 4733 section 7, RFC 5761 section 5.1; keys of SRTP by RFC 4568 and
//! RFC 5763, also opportunistic (RFC 8643); ICE by RFC 8839; extended reports by RFC 3611 section 5.

mod parts;
#[cfg(test)]
mod tests;
mod theirs;

use std::net::{IpAddr, SocketAddr};
use std::ops::Range;

use bytes::Bytes;
use media::codec::Codec;
use media::receiver::StreamFormat;
use media::sdes::Crypto;
use media::srtp::MasterKey;
use media::telephone_event;
use sip::sdp::{Connection, Direction, Media, Origin, RtpMap, Section, SessionDescription};

pub use parts::Fingerprint;
pub(crate) use parts::{Profile, Setup};
use theirs::{TheirIce, Theirs};

use crate::ice::{Candidate, IceCredentials, IceSession};
use crate::media_config::{Srtp, SrtpKeys};
use crate::stun::MappedAddresses;

/// The kind of our media.
const AUDIO: &str = "audio";
/// The payload types that we give to what has no static one.
const OPUS: u8 = 96;
const KEYS: u8 = 101;
const KEYS_OF_OPUS: u8 = 102;
/// Dynamic payload types (RFC 3551 section 6).
const DYNAMIC: std::ops::RangeInclusive<u8> = 96..=127;
/// Payload types of the other side that are remembered.
const MAX_MAPPED: usize = 256;

/// Our side of a call's media.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalMedia {
    /// Our address.
    pub address: IpAddr,
    /// The port of RTP; RTCP is on the next one unless the other side takes both on one.
    pub port: u16,
    /// Where others see these ports, if a STUN server has told that.
    pub mapped: Option<MappedAddresses>,
    /// The codecs, the preferred ones first.
    pub codecs: Vec<Codec>,
    /// Of the session (RFC 8866 section 5.2).
    pub session_id: u64,
    /// One more with each description.
    pub version: u64,
    /// Which way the sound goes, for us.
    pub direction: Direction,
    /// The other media of the session, which we refuse, in their order.
    pub refused: Vec<RefusedMedia>,
    /// How many of them come before our audio.
    pub place: usize,
    /// What protects the media.
    pub protection: LocalProtection,
    /// Our credentials of ICE, one for each start; none without ICE.
    pub ice: Vec<IceCredentials>,
    /// What earlier descriptions have settled.
    pub settled: Settled,
}

/// What we have to protect media.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LocalProtection {
    /// Whether they are protected.
    pub srtp: Srtp,
    /// What is offered for that; nothing when the signalling must not have it.
    pub offered: Option<SrtpKeys>,
    /// A key for each suite, the preferred ones first; each call has its own.
    pub sdes: Vec<MasterKey>,
    /// The fingerprint of our certificate.
    pub fingerprint: Option<Fingerprint>,
}

/// What stays as it is in further descriptions of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settled {
    /// The protocol of the media line.
    profile: Option<Profile>,
    /// What payload types mean (RFC 3264 section 8.3.2).
    mapped: Vec<(u8, String, u32)>,
    /// The keys are ours and theirs, or agreed on by DTLS: further descriptions have to have some, too.
    security: Security,
    /// The tag of the line of `a=crypto` in use.
    tag: Option<u32>,
    /// How paths are checked.
    ice: Option<SettledIce>,
    /// Our last offer: several answers to it may come (RFC 3261 section 13.2.2.4).
    offered: Offered,
}

/// What both sides have agreed on of ICE.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SettledIce {
    /// The other side's credentials.
    remote: IceCredentials,
    /// The place of ours that go with them.
    start: usize,
    /// Our role, which a restart does not change (RFC 8445 section 9).
    is_controlling: bool,
}

/// What an offer of ours had.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Offered {
    /// The kinds of the media, and the place of our audio among them.
    media: Vec<String>,
    place: usize,
    profile: Option<Profile>,
    formats: Vec<Format>,
    crypto: Vec<Crypto>,
    has_fingerprint: bool,
    ice: Option<IceCredentials>,
    /// An answer without keys will not do.
    must_have_keys: bool,
}

/// Media that the other side has offered and we have refused. They keep their place in all further descriptions (RFC 3264
/// section 8).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedMedia {
    kind: String,
    protocol: String,
    formats: String,
}

impl RefusedMedia {
    fn read(section: &Section) -> Option<RefusedMedia> {
        let line = section.media_line()?;
        Some(RefusedMedia {
            kind: line.kind.to_owned(),
            protocol: line.protocol.to_owned(),
            formats: line.formats().collect::<Vec<_>>().join(" "),
        })
    }

    /// What we do not take has port 0 (RFC 3264 section 6).
    fn section(&self) -> Section {
        Section::media(&Media::new(&self.kind, 0, &self.protocol, &self.formats))
    }
}

/// What protects the media of a call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Security {
    /// Nothing.
    #[default]
    None,
    /// Keys of the session descriptions (RFC 4568), of one suite.
    Sdes {
        /// Of what we send.
        send: MasterKey,
        /// Of what we receive.
        receive: MasterKey,
    },
    /// Keys of a DTLS handshake (RFC 5763).
    Dtls {
        /// One of which the other side's certificate has.
        fingerprints: Vec<Fingerprint>,
        /// We begin the handshake.
        is_client: bool,
    },
}

/// What both sides have agreed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Negotiated {
    /// What we send; the other side sends the codec by the payload type in `receive`.
    pub send: StreamFormat,
    /// What we receive.
    pub receive: StreamFormat,
    /// Where our packets go.
    pub rtp: SocketAddr,
    /// Where our reports go.
    pub rtcp: SocketAddr,
    /// Which way the sound goes, for us.
    pub direction: Direction,
    /// What protects it.
    pub security: Security,
    /// How the path is found; `None`: it is the one of the descriptions.
    pub ice: Option<IceSession>,
    /// Metrics of voice are sent with our reports.
    pub sends_voip_metrics: bool,
}

/// Why there is no session.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NegotiationError {
    /// It is no session description.
    #[error("the session description cannot be read: {0}")]
    Read(#[from] sip::sdp::SdpError),
    /// There is no audio over RTP in it.
    #[error("no audio over RTP is offered")]
    NoAudio,
    /// The address is not an IP address.
    #[error("the audio has no IP address")]
    NoAddress,
    /// None of its codecs is ours.
    #[error("no codec of ours is among those offered")]
    NoCodec,
    /// The media are not protected as they have to be, or by what we do not support.
    #[error("no keys are agreed on by which the audio can be protected")]
    NoKeys,
    /// The answer has not the media of the offer, in their order (RFC 3264 section 6).
    #[error("the answer has other media than the offer")]
    OtherMedia,
    /// The other side has begun the checks of the path anew too often.
    #[error("the checks of the path were begun anew too often")]
    TooManyIceRestarts,
    /// The answer has another protocol than the offer (RFC 3264 section 6.1).
    #[error("the answer has another media protocol than the offer")]
    OtherProfile,
}

/// What a payload type stands for in a description of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Format {
    payload_type: u8,
    encoding: &'static str,
    clock_rate: u32,
    channels: u8,
}

/// What a description of ours has besides formats.
struct Attributes<'a> {
    profile: Profile,
    mux: bool,
    crypto: &'a [Crypto],
    /// With the role in the handshake.
    fingerprint: Option<(&'a Fingerprint, Setup)>,
    ice: Option<&'a IceCredentials>,
    /// Candidates of RTCP on a port of its own are told, too.
    has_rtcp_port: bool,
    ice_mismatch: bool,
    voip_metrics: bool,
}

/// An offer (RFC 3264 section 5).
pub fn offer(local: &mut LocalMedia) -> Bytes {
    let profile = offered_profile(local);
    let keys = offered_keys(local);
    let start = local.settled.ice.as_ref().map_or(0, |ice| ice.start);
    let (before, after) = local.refused.split_at(local.place.min(local.refused.len()));
    let kinds = |media: &[RefusedMedia]| media.iter().map(|one| one.kind.clone()).collect();
    let media: [Vec<String>; 3] = [kinds(before), vec![AUDIO.to_owned()], kinds(after)];
    let offered = Offered {
        media: media.concat(),
        place: before.len(),
        profile: Some(profile),
        formats: offered_formats(local),
        crypto: offered_crypto(local),
        has_fingerprint: keys == Some(SrtpKeys::Dtls) && local.protection.fingerprint.is_some(),
        ice: local.ice.get(start).cloned(),
        must_have_keys: profile.is_secure()
            || local.protection.srtp == Srtp::Required
            || local.settled.security != Security::None,
    };
    let fingerprint = local.protection.fingerprint.as_ref();
    let attributes = Attributes {
        profile,
        mux: true,
        crypto: &offered.crypto,
        // The answerer chooses who begins (RFC 5763 section 5).
        fingerprint: fingerprint
            .filter(|_| offered.has_fingerprint)
            .map(|fingerprint| (fingerprint, Setup::ActPass)),
        ice: offered.ice.as_ref(),
        // The other side may not have both on one port (RFC 5761 section 5.1.3).
        has_rtcp_port: true,
        ice_mismatch: false,
        voip_metrics: true,
    };
    let mut description = description(local);
    for media in before {
        description.push_media(media.section());
    }
    description.push_media(audio(local, local.direction, &offered.formats, &attributes));
    for media in after {
        description.push_media(media.section());
    }
    local.settled.offered = offered;
    description.to_bytes()
}

/// The answer to an offer, and what is agreed on by it (RFC 3264 section 6). Of our codecs the one counts that the other
/// side prefers.
///
/// # Errors
///
/// There is nothing in the offer that we could use.
pub fn answer(
    local: &mut LocalMedia,
    offer: &[u8],
) -> Result<(Bytes, Negotiated), NegotiationError> {
    let offered = SessionDescription::read(offer)?;
    let all = 0..offered.media().len();
    let (place, theirs, keys) = find_audio(&offered, all, |theirs| keys_of_offer(local, theirs))?;
    let (codec, payload_type) = theirs
        .codecs
        .iter()
        .find(|(codec, _)| local.codecs.contains(codec))
        .copied()
        .ok_or(NegotiationError::NoCodec)?;
    let format = StreamFormat {
        codec,
        payload_type,
        key_payload_type: theirs.keys_of(codec),
    };
    let direction = both(local.direction, theirs.direction.reversed());
    let mut formats = vec![Format::of(codec, payload_type)];
    let their_keys = theirs.any_keys(codec);
    if let Some((clock_rate, keys)) = their_keys {
        formats.push(Format::of_keys(clock_rate, keys));
    }
    let (ice, ice_mismatch) = answered_ice(local, &theirs)?;
    let is_client = keys.setup.map(|setup| setup == Setup::Active);
    let attributes = Attributes {
        profile: theirs.profile,
        mux: theirs.mux,
        crypto: keys.crypto.as_slice(),
        fingerprint: local.protection.fingerprint.as_ref().zip(keys.setup),
        ice: ice.as_ref().map(|ice| &ice.local),
        has_rtcp_port: !theirs.mux,
        ice_mismatch,
        voip_metrics: theirs.wants_voip_metrics.is_some(),
    };
    let mut answer = description(local);
    for (index, section) in offered.media().iter().enumerate() {
        if index == place {
            answer.push_media(audio(local, direction, &formats, &attributes));
        } else if let Some(media) = RefusedMedia::read(section) {
            answer.push_media(media.section());
        }
    }
    let security = match (&keys.crypto, keys.remote, is_client) {
        (Some(ours), Some(receive), _) => Security::Sdes {
            send: ours.key.clone(),
            receive,
        },
        (_, _, Some(is_client)) => Security::Dtls {
            fingerprints: theirs.fingerprints.clone(),
            is_client,
        },
        _ => Security::None,
    };
    let negotiated = Negotiated {
        send: format,
        receive: StreamFormat {
            key_payload_type: their_keys.map(|(_, payload_type)| payload_type),
            ..format
        },
        rtp: theirs.rtp,
        rtcp: theirs.rtcp,
        direction,
        security,
        ice,
        sends_voip_metrics: theirs.wants_voip_metrics == Some(true),
    };
    let tag = keys.crypto.map(|crypto| crypto.tag);
    local.settle(&theirs, &negotiated, tag);
    let others = offered.media().iter().enumerate();
    let others = others.filter(|(index, _)| *index != place);
    local.place = place;
    local.refused = others
        .filter_map(|(_, section)| RefusedMedia::read(section))
        .collect();
    Ok((answer.to_bytes(), negotiated))
}

/// What is agreed on by the answer to our offer.
///
/// # Errors
///
/// There is nothing in the answer that we could use.
pub fn read_answer(local: &mut LocalMedia, answer: &[u8]) -> Result<Negotiated, NegotiationError> {
    let answered = SessionDescription::read(answer)?;
    let offered = &local.settled.offered;
    let kinds = answered.media().iter().map(Section::media_line);
    let kinds = kinds.map(|line| line.map(|line| line.kind));
    if !kinds.eq(offered.media.iter().map(|kind| Some(kind.as_str()))) {
        return Err(NegotiationError::OtherMedia);
    }
    let ours = offered.place..offered.place + 1;
    let (_, theirs, keys) = find_audio(&answered, ours, |theirs| keys_of_answer(local, theirs))?;
    if Some(theirs.profile) != local.settled.offered.profile {
        return Err(NegotiationError::OtherProfile);
    }
    let (codec, payload_type) = theirs
        .codecs
        .iter()
        .find(|(codec, _)| local.codecs.contains(codec))
        .copied()
        .ok_or(NegotiationError::NoCodec)?;
    let ours = &local.settled.offered.formats;
    let our_type = |encoding: &str, clock_rate: u32| {
        ours.iter()
            .find(|format| format.encoding == encoding && format.clock_rate == clock_rate)
            .map(|format| format.payload_type)
    };
    let negotiated = Negotiated {
        send: StreamFormat {
            codec,
            payload_type,
            key_payload_type: theirs.keys_of(codec),
        },
        receive: StreamFormat {
            codec,
            payload_type: our_type(codec.encoding(), codec.clock_rate()).unwrap_or(payload_type),
            key_payload_type: theirs
                .any_keys(codec)
                .and_then(|(clock_rate, _)| our_type(telephone_event::ENCODING, clock_rate)),
        },
        rtp: theirs.rtp,
        rtcp: theirs.rtcp,
        direction: both(local.direction, theirs.direction.reversed()),
        security: keys.security,
        ice: agreed_ice(local, &theirs),
        sends_voip_metrics: theirs.wants_voip_metrics == Some(true),
    };
    local.settle(&theirs, &negotiated, keys.tag);
    Ok(negotiated)
}

impl LocalMedia {
    /// Remembers what must not change.
    fn settle(&mut self, theirs: &Theirs, negotiated: &Negotiated, tag: Option<u32>) {
        let settled = &mut self.settled;
        settled.profile = Some(theirs.profile);
        for mapping in &theirs.mapped {
            let is_known = settled.mapped.iter().any(|known| known.0 == mapping.0);
            if !is_known && settled.mapped.len() < MAX_MAPPED {
                settled.mapped.push(mapping.clone());
            }
        }
        settled.security = negotiated.security.clone();
        settled.tag = tag;
        if let Some(ice) = &negotiated.ice {
            let start = self.ice.iter().position(|ours| *ours == ice.local);
            settled.ice = Some(SettledIce {
                remote: ice.remote.clone(),
                start: start.unwrap_or(0),
                is_controlling: ice.is_controlling,
            });
        }
    }

    /// Where who does not check paths sends to: RTP and RTCP. What others see is the likeliest to be reached (RFC 8445 section
    /// 5.1.4).
    fn default_addresses(&self) -> (SocketAddr, SocketAddr) {
        let here = |port| SocketAddr::new(self.address, port);
        match self.mapped {
            Some(mapped) => (mapped.rtp, mapped.rtcp),
            None => (here(self.port), here(self.port.saturating_add(1))),
        }
    }

    /// Whether our descriptions have keys (RFC 4568).
    pub(crate) fn has_keys(&self) -> bool {
        offered_keys(self) == Some(SrtpKeys::Sdes)
    }

    /// What is offered next is at another address of ours. That needs other keys (RFC 4568 section 7.1.4), one for each suite, and
    /// a restart of ICE with other credentials.
    pub(crate) fn move_to(
        &mut self,
        to: SocketAddr,
        mapped: Option<MappedAddresses>,
        keys: Vec<MasterKey>,
        ice: IceCredentials,
    ) {
        (self.address, self.port, self.mapped) = (to.ip(), to.port(), mapped);
        self.protection.sdes = keys;
        if let Security::Sdes { send, .. } = &mut self.settled.security {
            let mut keys = self.protection.sdes.iter();
            if let Some(new) = keys.find(|key| key.suite() == send.suite()) {
                send.clone_from(new);
            }
        }
        if let Some(settled) = &mut self.settled.ice {
            settled.start += 1;
            self.ice.insert(settled.start.min(self.ice.len()), ice);
        }
    }

    /// What `before` has proposed, now that something else was agreed on. Where it is at another address, keys and credentials
    /// are others, too.
    pub(crate) fn proposed_as(
        &self,
        before: &LocalMedia,
        keys: Vec<MasterKey>,
        ice: IceCredentials,
    ) -> LocalMedia {
        let mut proposed = self.clone();
        proposed.version += 1;
        proposed.direction = before.direction;
        if (self.address, self.port) != (before.address, before.port) {
            let there = SocketAddr::new(before.address, before.port);
            proposed.move_to(there, before.mapped, keys, ice);
        }
        proposed
    }
}

impl Format {
    fn of(codec: Codec, payload_type: u8) -> Format {
        Format {
            payload_type,
            encoding: codec.encoding(),
            clock_rate: codec.clock_rate(),
            channels: codec.channels(),
        }
    }

    fn of_keys(clock_rate: u32, payload_type: u8) -> Format {
        Format {
            payload_type,
            encoding: telephone_event::ENCODING,
            clock_rate,
            channels: 1,
        }
    }
}

/// All that we can, with the payload types that they have had in the session so far.
fn offered_formats(local: &LocalMedia) -> Vec<Format> {
    let mut formats: Vec<Format> = Vec::new();
    for codec in &local.codecs {
        let payload_type = match codec.payload_type() {
            Some(payload_type) => payload_type,
            None => payload_type_of(local, &formats, codec.encoding(), codec.clock_rate(), OPUS),
        };
        formats.push(Format::of(*codec, payload_type));
    }
    for (clock_rate, usual) in [(8_000, KEYS), (48_000, KEYS_OF_OPUS)] {
        if local
            .codecs
            .iter()
            .any(|codec| codec.clock_rate() == clock_rate)
        {
            let encoding = telephone_event::ENCODING;
            let keys = payload_type_of(local, &formats, encoding, clock_rate, usual);
            formats.push(Format::of_keys(clock_rate, keys));
        }
    }
    formats
}

/// A payload type means the same for the whole session (RFC 3264 section 8.3.2).
fn payload_type_of(
    local: &LocalMedia,
    formats: &[Format],
    encoding: &str,
    clock_rate: u32,
    usual: u8,
) -> u8 {
    let mapped = &local.settled.mapped;
    let before = mapped
        .iter()
        .find(|(_, known, rate)| known.eq_ignore_ascii_case(encoding) && *rate == clock_rate);
    if let Some((payload_type, _, _)) = before {
        return *payload_type;
    }
    let is_free = |payload_type: &u8| {
        mapped.iter().all(|(known, _, _)| known != payload_type)
            && formats
                .iter()
                .all(|format| format.payload_type != *payload_type)
    };
    std::iter::once(usual)
        .chain(DYNAMIC)
        .find(is_free)
        .unwrap_or(usual)
}

/// What we offer keys by: the way that is in use, once there is one.
fn offered_keys(local: &LocalMedia) -> Option<SrtpKeys> {
    match &local.settled.security {
        Security::Sdes { .. } => Some(SrtpKeys::Sdes),
        Security::Dtls { .. } => Some(SrtpKeys::Dtls),
        Security::None => local.protection.offered,
    }
}

/// The protocol of our offer: the one in use, once there is one. Keys that may be left out are offered without a secure one
/// (RFC 8643 section 3).
fn offered_profile(local: &LocalMedia) -> Profile {
    if let Some(profile) = local.settled.profile {
        return profile;
    }
    match (local.protection.srtp, local.protection.offered) {
        (Srtp::Required, Some(SrtpKeys::Sdes)) => Profile::Savp,
        (Srtp::Required, Some(SrtpKeys::Dtls)) => Profile::UdpTlsSavp,
        // Without keys nobody can answer an offer that requires them.
        (Srtp::Required, None) => Profile::Savp,
        (Srtp::Optional | Srtp::Off, _) => Profile::Avp,
    }
}

/// The lines of our offer: all suites, or the one in use with its key, so that its state goes on (RFC 4568 section 7.1.4).
fn offered_crypto(local: &LocalMedia) -> Vec<Crypto> {
    match (&local.settled.security, offered_keys(local)) {
        (Security::Sdes { send, .. }, _) => vec![Crypto {
            tag: local.settled.tag.unwrap_or(1),
            key: send.clone(),
        }],
        (_, Some(SrtpKeys::Sdes)) => (1..)
            .zip(&local.protection.sdes)
            .map(|(tag, key)| Crypto {
                tag,
                key: key.clone(),
            })
            .collect(),
        _ => Vec::new(),
    }
}

/// What an answer of ours has of keys.
#[derive(Default)]
struct AnsweredKeys {
    crypto: Option<Crypto>,
    remote: Option<MasterKey>,
    setup: Option<Setup>,
}

/// The keys with which an offer's audio can be answered; `None` when it must not be.
fn keys_of_offer(local: &LocalMedia, theirs: &Theirs) -> Option<AnsweredKeys> {
    let srtp = local.protection.srtp;
    if srtp == Srtp::Off {
        // Lines of keys say nothing in a profile without protection (RFC 4568 section 6).
        return (!theirs.profile.is_secure()).then(AnsweredKeys::default);
    }
    // The first one of theirs that we support (RFC 4568 section 5.1.2).
    let sdes = || {
        let ours = |suite| {
            let mut keys = local.protection.sdes.iter();
            keys.find(move |key| key.suite() == suite)
        };
        theirs.crypto.iter().find_map(|line| {
            let key = ours(line.key.suite())?.clone();
            Some(AnsweredKeys {
                crypto: Some(Crypto { tag: line.tag, key }),
                remote: Some(line.key.clone()),
                setup: None,
            })
        })
    };
    let dtls = || {
        let is_client_now = match &local.settled.security {
            Security::Dtls { is_client, .. } => Some(*is_client),
            _ => None,
        };
        let setup = match theirs.setup {
            // We keep our role, once there is one (RFC 5763 section 6.6).
            Some(Setup::ActPass) if is_client_now == Some(false) => Setup::Passive,
            Some(Setup::ActPass | Setup::Passive) => Setup::Active,
            // Active is what is meant without the attribute (RFC 4145 section 4.1).
            Some(Setup::Active) | None => Setup::Passive,
        };
        let has_both = !theirs.fingerprints.is_empty() && local.protection.fingerprint.is_some();
        // RTCP has no handshake of its own with us.
        (has_both && theirs.mux).then(|| AnsweredKeys {
            setup: Some(setup),
            ..AnsweredKeys::default()
        })
    };
    let must = srtp == Srtp::Required || local.settled.security != Security::None;
    match theirs.profile {
        Profile::Savp | Profile::Savpf => sdes(),
        Profile::UdpTlsSavp | Profile::UdpTlsSavpf => dtls(),
        Profile::Avp | Profile::Avpf => sdes()
            .or_else(dtls)
            .or_else(|| (!must).then(AnsweredKeys::default)),
    }
}

/// What the answer to an offer of ours has of keys.
struct AgreedKeys {
    security: Security,
    tag: Option<u32>,
}

/// The keys that an answer agrees on; `None` when it does not agree on what we require (RFC 4568 section 5.1.3).
fn keys_of_answer(local: &LocalMedia, theirs: &Theirs) -> Option<AgreedKeys> {
    let offered = &local.settled.offered;
    if !offered.crypto.is_empty() && theirs.has_crypto {
        // Exactly one line, with a tag and the suite that was offered under it.
        let [answered] = theirs.crypto.as_slice() else {
            return None;
        };
        let ours = offered
            .crypto
            .iter()
            .find(|ours| ours.tag == answered.tag)?;
        let is_same_suite = ours.key.suite() == answered.key.suite();
        // The answerer's key is its own (RFC 4568 section 7.1.2).
        let is_own_key = ours.key.key_and_salt() != answered.key.key_and_salt();
        return (is_same_suite && is_own_key).then(|| AgreedKeys {
            security: Security::Sdes {
                send: ours.key.clone(),
                receive: answered.key.clone(),
            },
            tag: Some(answered.tag),
        });
    }
    // RTCP has no handshake of its own with us.
    if offered.has_fingerprint && !theirs.fingerprints.is_empty() && theirs.mux {
        let is_client = match theirs.setup {
            Some(Setup::Passive) => true,
            Some(Setup::Active) => false,
            // An answer must not leave it open (RFC 5763 section 5).
            Some(Setup::ActPass) | None => return None,
        };
        return Some(AgreedKeys {
            security: Security::Dtls {
                fingerprints: theirs.fingerprints.clone(),
                is_client,
            },
            tag: None,
        });
    }
    (!offered.must_have_keys).then_some(AgreedKeys {
        security: Security::None,
        tag: None,
    })
}

/// Our end of ICE in the answer, and whether their addresses do not fit.
fn answered_ice(
    local: &LocalMedia,
    theirs: &Theirs,
) -> Result<(Option<IceSession>, bool), NegotiationError> {
    let Some(ice) = theirs.ice.as_ref().filter(|_| !local.ice.is_empty()) else {
        return Ok((None, false));
    };
    if ice.is_mismatched {
        return Ok((None, true));
    }
    let start = match &local.settled.ice {
        // Other credentials begin anew (RFC 8445 section 9).
        Some(settled) if settled.remote != ice.credentials => settled.start + 1,
        Some(settled) => settled.start,
        None => 0,
    };
    let credentials = local.ice.get(start);
    let credentials = credentials.ok_or(NegotiationError::TooManyIceRestarts)?;
    // Against one that only answers checks, the full side is controlling (RFC 8445 section 6.1.1).
    let session = ice_session(local, theirs, ice, credentials, ice.is_lite);
    Ok((Some(session), false))
}

/// What is agreed on of ICE by an answer.
fn agreed_ice(local: &LocalMedia, theirs: &Theirs) -> Option<IceSession> {
    let ours = local.settled.offered.ice.as_ref()?;
    let ice = theirs.ice.as_ref().filter(|ice| !ice.is_mismatched)?;
    Some(ice_session(local, theirs, ice, ours, true))
}

fn ice_session(
    local: &LocalMedia,
    theirs: &Theirs,
    ice: &TheirIce,
    ours: &IceCredentials,
    begins_as_controlling: bool,
) -> IceSession {
    let settled = local.settled.ice.as_ref();
    IceSession {
        local: ours.clone(),
        remote: ice.credentials.clone(),
        candidates: ice.candidates.clone(),
        rtcp_candidates: (!theirs.mux).then(|| ice.rtcp_candidates.clone()),
        is_controlling: settled.map_or(begins_as_controlling, |settled| settled.is_controlling),
    }
}

/// Among the media at these places, the first audio over RTP that is not refused and has keys that will do: its place, and
/// the keys.
fn find_audio<T>(
    description: &SessionDescription,
    places: Range<usize>,
    keys: impl Fn(&Theirs) -> Option<T>,
) -> Result<(usize, Theirs, T), NegotiationError> {
    let mut problem = NegotiationError::NoAudio;
    let media = description.media().iter().enumerate();
    for (place, section) in media.filter(|(place, _)| places.contains(place)) {
        match Theirs::read(description, section) {
            None => {}
            Some(Err(error)) => problem = error,
            Some(Ok(theirs)) => match keys(&theirs) {
                Some(keys) => return Ok((place, theirs, keys)),
                None => problem = NegotiationError::NoKeys,
            },
        }
    }
    Err(problem)
}

fn description(local: &LocalMedia) -> SessionDescription {
    let here = Connection::new(local.default_addresses().0.ip());
    SessionDescription::new(&Origin::new(local.session_id, local.version, here), here)
}

fn audio(
    local: &LocalMedia,
    direction: Direction,
    formats: &[Format],
    attributes: &Attributes<'_>,
) -> Section {
    let payload_types: Vec<String> = formats
        .iter()
        .map(|format| format.payload_type.to_string())
        .collect();
    let payload_types = payload_types.join(" ");
    let protocol = attributes.profile.name();
    let (rtp, rtcp) = local.default_addresses();
    let mut audio = Section::media(&Media::new(AUDIO, rtp.port(), protocol, &payload_types));
    if attributes.has_rtcp_port && (attributes.ice.is_some() || local.mapped.is_some()) {
        // RFC 3605: it need not be the next one.
        let rtcp = match rtcp.ip() == rtp.ip() {
            true => rtcp.port().to_string(),
            false => format!("{} {}", rtcp.port(), Connection::new(rtcp.ip())),
        };
        audio.push_attribute("rtcp", Some(&rtcp));
    }
    for format in formats {
        let payload_type = format.payload_type;
        audio.push_rtp_map(&RtpMap {
            payload_type,
            encoding: format.encoding,
            clock_rate: format.clock_rate,
            parameters: (format.channels > 1).then_some("2"),
        });
        if format.encoding == telephone_event::ENCODING {
            audio.push_attribute("fmtp", Some(&format!("{payload_type} 0-15")));
        }
        if format.encoding == Codec::Opus.encoding() {
            audio.push_attribute("fmtp", Some(&format!("{payload_type} useinbandfec=1")));
        }
    }
    audio.push_attribute("ptime", Some("20"));
    audio.set_direction(direction);
    if attributes.mux {
        audio.push_attribute("rtcp-mux", None);
    }
    if attributes.voip_metrics {
        audio.push_attribute("rtcp-xr", Some("voip-metrics"));
    }
    for crypto in attributes.crypto {
        audio.push_attribute("crypto", Some(&crypto.write()));
    }
    if let Some((fingerprint, setup)) = attributes.fingerprint {
        audio.push_attribute("fingerprint", Some(&fingerprint.write()));
        audio.push_attribute("setup", Some(setup.name()));
    }
    if let Some(credentials) = attributes.ice {
        audio.push_attribute("ice-ufrag", Some(&credentials.ufrag));
        audio.push_attribute("ice-pwd", Some(&credentials.password));
        // This is RFC 8445 and not its predecessor (section 10 there).
        audio.push_attribute("ice-options", Some("ice2"));
        let here = SocketAddr::new(local.address, local.port);
        for candidate in Candidate::of_ports(here, local.mapped, attributes.has_rtcp_port) {
            audio.push_attribute("candidate", Some(&candidate));
        }
    }
    if attributes.ice_mismatch {
        audio.push_attribute("ice-mismatch", None);
    }
    audio
}

/// Sound goes one way if both sides want it to.
fn both(ours: Direction, theirs: Direction) -> Direction {
    let sends = |direction| matches!(direction, Direction::SendReceive | Direction::SendOnly);
    let receives = |direction| matches!(direction, Direction::SendReceive | Direction::ReceiveOnly);
    match (
        sends(ours) && sends(theirs),
        receives(ours) && receives(theirs),
    ) {
        (true, true) => Direction::SendReceive,
        (true, false) => Direction::SendOnly,
        (false, true) => Direction::ReceiveOnly,
        (false, false) => Direction::Inactive,
    }
}
