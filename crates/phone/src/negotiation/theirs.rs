//! What a description of the other side says of its audio.

use std::net::{IpAddr, SocketAddr};

use media::codec::Codec;
use media::sdes::Crypto;
use media::telephone_event;
use sip::sdp::{Direction, Section, SessionDescription};

use super::{Fingerprint, NegotiationError, Profile, Setup};
use crate::ice::{Candidate, Component, IceCredentials};

/// Candidates that are looked at.
const MAX_CANDIDATES: usize = 32;
/// Payload types that are looked at: there are no more (RFC 3550 section 5.1).
const MAX_PAYLOAD_TYPES: usize = 128;
/// Keys and fingerprints that are looked at.
const MAX_KEYS: usize = 32;

/// The other side's audio.
pub(super) struct Theirs {
    pub(super) profile: Profile,
    /// Those that we know, as they are preferred, with their payload types.
    pub(super) codecs: Vec<(Codec, u8)>,
    /// Keys: clock rate and payload type.
    pub(super) keys: Vec<(u32, u8)>,
    /// All that payload types mean: encoding and clock rate.
    pub(super) mapped: Vec<(u8, String, u32)>,
    pub(super) rtp: SocketAddr,
    pub(super) rtcp: SocketAddr,
    pub(super) mux: bool,
    /// Which way the sound goes, for them.
    pub(super) direction: Direction,
    /// Whether there are lines of `a=crypto`, and those of them that we support.
    pub(super) has_crypto: bool,
    pub(super) crypto: Vec<Crypto>,
    pub(super) fingerprints: Vec<Fingerprint>,
    pub(super) setup: Option<Setup>,
    pub(super) ice: Option<TheirIce>,
    /// Whether it wants metrics of voice; `None` when it does not speak of extended reports.
    pub(super) wants_voip_metrics: Option<bool>,
}

/// The other side's end of ICE.
pub(super) struct TheirIce {
    pub(super) credentials: IceCredentials,
    pub(super) candidates: Vec<Candidate>,
    /// Of RTCP on a port of its own.
    pub(super) rtcp_candidates: Vec<Candidate>,
    pub(super) is_lite: bool,
    /// The address of the description is none of the candidates: something on the way changed it (RFC 8839 section 4.2.5).
    pub(super) is_mismatched: bool,
}

impl Theirs {
    /// The payload type of keys at the clock rate of a codec.
    pub(super) fn keys_of(&self, codec: Codec) -> Option<u8> {
        let (clock_rate, payload_type) = self.any_keys(codec)?;
        (clock_rate == codec.clock_rate()).then_some(payload_type)
    }

    /// The clock rate and payload type of keys beside a codec: at another rate than its own if need be. Some phones send keys
    /// at 8 kHz alone, whatever the codec, although both should have one rate (RFC 4733 section 2.1).
    pub(super) fn any_keys(&self, codec: Codec) -> Option<(u32, u8)> {
        let fits = |(clock_rate, _): &&(u32, u8)| *clock_rate == codec.clock_rate();
        let keys = self.keys.iter().find(fits).or(self.keys.first());
        keys.copied()
    }

    /// The audio of a section; `None` when it is none over RTP, or refused.
    pub(super) fn read(
        description: &SessionDescription,
        section: &Section,
    ) -> Option<Result<Theirs, NegotiationError>> {
        let line = section.media_line()?;
        if line.kind != "audio" || line.port == 0 {
            return None;
        }
        let profile = Profile::named(line.protocol)?;
        let connection = description.connection(section);
        let Some(ip) = connection.and_then(|connection| connection.ip()) else {
            return Some(Err(NegotiationError::NoAddress));
        };
        let (mut codecs, mut keys, mut mapped) = (Vec::new(), Vec::new(), Vec::new());
        for payload_type in line.payload_types().take(MAX_PAYLOAD_TYPES) {
            let map = section
                .rtp_maps()
                .find(|map| map.payload_type == payload_type);
            if let Some(map) = &map {
                mapped.push((
                    payload_type,
                    map.encoding.to_ascii_lowercase(),
                    map.clock_rate,
                ));
            }
            match map {
                Some(map) if map.encoding.eq_ignore_ascii_case(telephone_event::ENCODING) => {
                    keys.push((map.clock_rate, payload_type));
                }
                Some(map) => {
                    let codec = Codec::of_rtpmap(map.encoding, map.clock_rate);
                    codecs.extend(codec.map(|codec| (codec, payload_type)));
                }
                None => {
                    let codec = Codec::of_payload_type(payload_type);
                    codecs.extend(codec.map(|codec| (codec, payload_type)));
                }
            }
        }
        let mux = section.attribute("rtcp-mux").is_some();
        let named = section.attribute("rtcp").and_then(read_rtcp);
        let stated = description.direction(section);
        // Nothing is to be sent to 0.0.0.0: so calls were held before there were directions (RFC 3264 section 8.4).
        let direction = match ip.is_unspecified() {
            true => super::both(stated, Direction::SendOnly),
            false => stated,
        };
        let rtp = SocketAddr::new(ip, line.port);
        let rtcp = if mux {
            rtp
        } else {
            let next = (line.port.saturating_add(1), None);
            let (port, other) = named.unwrap_or(next);
            SocketAddr::new(other.unwrap_or(ip), port)
        };
        let values = |name| values(section, name);
        // An attribute of the medium counts more than one of the session (RFC 8122 section 5, RFC 4145 section 4.1).
        let either = |name| {
            let session = description.session().attribute(name);
            section.attribute(name).or(session)
        };
        let mut fingerprints: Vec<Fingerprint> = values("fingerprint")
            .filter_map(Fingerprint::read)
            .take(MAX_KEYS)
            .collect();
        if fingerprints.is_empty() {
            let of_session = self::values(description.session(), "fingerprint");
            fingerprints.extend(of_session.filter_map(Fingerprint::read).take(MAX_KEYS));
        }
        let metrics = values("rtcp-xr").map(|formats| {
            formats
                .split_ascii_whitespace()
                .any(|one| one == "voip-metrics")
        });
        Some(Ok(Theirs {
            profile,
            codecs,
            keys,
            mapped,
            rtp,
            rtcp,
            mux,
            direction,
            has_crypto: values("crypto").next().is_some(),
            crypto: values("crypto")
                .filter_map(Crypto::read)
                .take(MAX_KEYS)
                .collect(),
            fingerprints,
            setup: either("setup").and_then(Setup::named),
            ice: read_ice(description, section, rtp),
            wants_voip_metrics: metrics.reduce(|one, other| one || other),
        }))
    }
}

/// The value of `a=rtcp`: a port, and an address if that is not the one of RTP (RFC 3605 section 2.1).
fn read_rtcp(value: &str) -> Option<(u16, Option<IpAddr>)> {
    let mut words = value.split_ascii_whitespace();
    let port = words.next()?.parse().ok()?;
    // Behind the types of network and address.
    Some((port, words.nth(2).and_then(|address| address.parse().ok())))
}

fn read_ice(
    description: &SessionDescription,
    section: &Section,
    default: SocketAddr,
) -> Option<TheirIce> {
    let either = |name| {
        let session = description.session().attribute(name);
        section.attribute(name).or(session)
    };
    let credentials = IceCredentials::read(either("ice-ufrag")?, either("ice-pwd")?)?;
    let of_component = |component| -> Vec<Candidate> {
        values(section, "candidate")
            .filter_map(|value| Candidate::read(value, component))
            .take(MAX_CANDIDATES)
            .collect()
    };
    let candidates = of_component(Component::Rtp);
    let is_among = candidates
        .iter()
        .any(|candidate| candidate.address() == default);
    Some(TheirIce {
        credentials,
        is_lite: either("ice-lite").is_some(),
        // Those that tell candidates later have no address yet (RFC 8840 section 4.3).
        is_mismatched: !is_among && !candidates.is_empty() && !default.ip().is_unspecified(),
        candidates,
        rtcp_candidates: of_component(Component::Rtcp),
    })
}

fn values<'a>(section: &'a Section, name: &'a str) -> impl Iterator<Item = &'a str> {
    section
        .attributes()
        .filter(move |attribute| attribute.name == name)
        .filter_map(|attribute| attribute.text())
}
