//! Offers and answers of voice calls (RFC 3264, RFC 4733 section 7, RFC 5761 section 5.1).

use std::net::{IpAddr, SocketAddr};

use bytes::Bytes;
use media::codec::Codec;
use media::receiver::StreamFormat;
use media::telephone_event;
use sip::sdp::{Connection, Direction, Media, Origin, RtpMap, Section, SessionDescription};

/// The payload types that we give to what has no static one.
const OPUS: u8 = 96;
const KEYS: u8 = 101;
const KEYS_OF_OPUS: u8 = 102;

/// Our side of a call's media.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalMedia {
    /// Our address.
    pub address: IpAddr,
    /// The port of RTP; RTCP is on the next one unless the other side takes both on one.
    pub port: u16,
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
    /// What we do not take has port 0 (RFC 3264 section 6).
    fn section(&self) -> Section {
        Section::media(&Media::new(&self.kind, 0, &self.protocol, &self.formats))
    }
}

impl LocalMedia {
    /// Keeps the places of the media in an offer that was answered.
    pub fn keep_places(&mut self, offer: &[u8]) {
        let Ok(offered) = SessionDescription::read(offer) else {
            return;
        };
        let Ok((place, _)) = find_audio(&offered) else {
            return;
        };
        let others = offered.media().iter().enumerate();
        let others = others.filter(|(index, _)| *index != place);
        self.place = place;
        self.refused = others.filter_map(|(_, section)| refused(section)).collect();
    }
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
}

/// An offer (RFC 3264 section 5).
pub fn offer(local: &LocalMedia) -> Bytes {
    let mut formats: Vec<(u8, &str, u32, u8)> = Vec::new();
    for codec in &local.codecs {
        let payload_type = codec.payload_type().unwrap_or(OPUS);
        formats.push((
            payload_type,
            codec.encoding(),
            codec.clock_rate(),
            codec.channels(),
        ));
    }
    let narrow = local.codecs.iter().any(|codec| codec.clock_rate() == 8_000);
    if narrow {
        formats.push((KEYS, telephone_event::ENCODING, 8_000, 1));
    }
    if local.codecs.contains(&Codec::Opus) {
        formats.push((KEYS_OF_OPUS, telephone_event::ENCODING, 48_000, 1));
    }
    let (before, after) = local.refused.split_at(local.place.min(local.refused.len()));
    let mut description = description(local);
    for media in before {
        description.push_media(media.section());
    }
    description.push_media(audio(local, &formats));
    for media in after {
        description.push_media(media.section());
    }
    description.to_bytes()
}

/// The answer to an offer, and what is agreed on by it (RFC 3264 section 6). Of our codecs the one counts that the other
/// side prefers.
///
/// # Errors
///
/// There is nothing in the offer that we could use.
pub fn answer(local: &LocalMedia, offer: &[u8]) -> Result<(Bytes, Negotiated), NegotiationError> {
    let offered = SessionDescription::read(offer)?;
    let (place, theirs) = find_audio(&offered)?;
    let codec = theirs
        .codecs
        .iter()
        .find(|(codec, _)| local.codecs.contains(codec))
        .ok_or(NegotiationError::NoCodec)?;
    let keys = theirs.keys_of(codec.0);
    let format = StreamFormat {
        codec: codec.0,
        payload_type: codec.1,
        key_payload_type: keys,
    };
    let direction = both(local.direction, theirs.direction.reversed());
    let mut formats = vec![(
        codec.1,
        codec.0.encoding(),
        codec.0.clock_rate(),
        codec.0.channels(),
    )];
    if let Some(keys) = keys {
        formats.push((keys, telephone_event::ENCODING, codec.0.clock_rate(), 1));
    }
    let mut answer = description(local);
    for (index, section) in offered.media().iter().enumerate() {
        if index == place {
            let ours = LocalMedia {
                direction,
                ..local.clone()
            };
            let mut audio = audio(&ours, &formats);
            if !theirs.mux {
                audio = without_mux(&ours, &formats);
            }
            answer.push_media(audio);
        } else if let Some(media) = refused(section) {
            answer.push_media(media.section());
        }
    }
    let negotiated = Negotiated {
        send: format,
        receive: format,
        rtp: theirs.rtp,
        rtcp: theirs.rtcp,
        direction,
    };
    Ok((answer.to_bytes(), negotiated))
}

/// What is agreed on by the answer to our offer.
///
/// # Errors
///
/// There is nothing in the answer that we could use.
pub fn read_answer(local: &LocalMedia, answer: &[u8]) -> Result<Negotiated, NegotiationError> {
    let answered = SessionDescription::read(answer)?;
    let (_, theirs) = find_audio(&answered)?;
    let (codec, payload_type) = theirs
        .codecs
        .iter()
        .find(|(codec, _)| local.codecs.contains(codec))
        .copied()
        .ok_or(NegotiationError::NoCodec)?;
    let our_keys = if codec == Codec::Opus {
        KEYS_OF_OPUS
    } else {
        KEYS
    };
    let keys = theirs.keys_of(codec);
    Ok(Negotiated {
        send: StreamFormat {
            codec,
            payload_type,
            key_payload_type: keys,
        },
        receive: StreamFormat {
            codec,
            payload_type: codec.payload_type().unwrap_or(OPUS),
            key_payload_type: keys.map(|_| our_keys),
        },
        rtp: theirs.rtp,
        rtcp: theirs.rtcp,
        direction: both(local.direction, theirs.direction.reversed()),
    })
}

/// The other side's audio.
struct Theirs {
    /// Those that we know, as they are preferred, with their payload types.
    codecs: Vec<(Codec, u8)>,
    /// Keys: clock rate and payload type.
    keys: Vec<(u32, u8)>,
    rtp: SocketAddr,
    rtcp: SocketAddr,
    mux: bool,
    /// Which way the sound goes, for them.
    direction: Direction,
}

impl Theirs {
    fn keys_of(&self, codec: Codec) -> Option<u8> {
        let fits = |(rate, _): &&(u32, u8)| *rate == codec.clock_rate();
        self.keys
            .iter()
            .find(fits)
            .map(|(_, payload_type)| *payload_type)
    }
}

/// The first audio over RTP that is not refused, and its place among the media.
fn find_audio(description: &SessionDescription) -> Result<(usize, Theirs), NegotiationError> {
    let found = description
        .media()
        .iter()
        .enumerate()
        .find_map(|(place, section)| {
            let line = section.media_line()?;
            let fits = line.kind == "audio"
                && matches!(line.protocol, "RTP/AVP" | "RTP/AVPF")
                && line.port != 0;
            fits.then_some((place, section, line))
        });
    let (place, section, line) = found.ok_or(NegotiationError::NoAudio)?;
    let ip = description
        .connection(section)
        .and_then(|connection| connection.ip())
        .ok_or(NegotiationError::NoAddress)?;
    let (mut codecs, mut keys) = (Vec::new(), Vec::new());
    for payload_type in line.payload_types() {
        match section
            .rtp_maps()
            .find(|map| map.payload_type == payload_type)
        {
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
    let named = section
        .attribute("rtcp")
        .and_then(|value| value.split_whitespace().next()?.parse().ok());
    let stated = description.direction(section);
    // Nothing is to be sent to 0.0.0.0: so calls were held before there were directions (RFC 3264 section 8.4).
    let direction = match ip.is_unspecified() {
        true => both(stated, Direction::SendOnly),
        false => stated,
    };
    let rtp = SocketAddr::new(ip, line.port);
    let rtcp = if mux {
        rtp
    } else {
        SocketAddr::new(ip, named.unwrap_or(line.port.saturating_add(1)))
    };
    Ok((
        place,
        Theirs {
            codecs,
            keys,
            rtp,
            rtcp,
            mux,
            direction,
        },
    ))
}

fn refused(section: &Section) -> Option<RefusedMedia> {
    let line = section.media_line()?;
    Some(RefusedMedia {
        kind: line.kind.to_owned(),
        protocol: line.protocol.to_owned(),
        formats: line.formats().collect::<Vec<_>>().join(" "),
    })
}

fn description(local: &LocalMedia) -> SessionDescription {
    let here = Connection::new(local.address);
    SessionDescription::new(&Origin::new(local.session_id, local.version, here), here)
}

fn audio(local: &LocalMedia, formats: &[(u8, &str, u32, u8)]) -> Section {
    let mut audio = without_mux(local, formats);
    audio.push_attribute("rtcp-mux", None);
    audio
}

fn without_mux(local: &LocalMedia, formats: &[(u8, &str, u32, u8)]) -> Section {
    let payload_types: Vec<String> = formats.iter().map(|format| format.0.to_string()).collect();
    let mut audio = Section::media(&Media::rtp_audio(local.port, &payload_types.join(" ")));
    for (payload_type, encoding, clock_rate, channels) in formats {
        audio.push_rtp_map(&RtpMap {
            payload_type: *payload_type,
            encoding,
            clock_rate: *clock_rate,
            parameters: (*channels > 1).then_some("2"),
        });
        if *encoding == telephone_event::ENCODING {
            audio.push_attribute("fmtp", Some(&format!("{payload_type} 0-15")));
        }
        if *encoding == Codec::Opus.encoding() {
            audio.push_attribute("fmtp", Some(&format!("{payload_type} useinbandfec=1")));
        }
    }
    audio.push_attribute("ptime", Some("20"));
    audio.set_direction(local.direction);
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn local(codecs: &[Codec]) -> LocalMedia {
        LocalMedia {
            address: "192.0.2.1".parse().unwrap(),
            port: 4_000,
            codecs: codecs.to_vec(),
            session_id: 1,
            version: 1,
            direction: Direction::SendReceive,
            refused: Vec::new(),
            place: 0,
        }
    }

    #[test]
    fn two_phones_agree_on_the_codec_that_the_caller_prefers() {
        let caller = local(&[Codec::Opus, Codec::Pcma]);
        let callee = local(&[Codec::Pcmu, Codec::Pcma, Codec::Opus]);
        let offered = offer(&caller);
        let (answered, at_callee) = answer(&callee, &offered).unwrap();
        let at_caller = read_answer(&caller, &answered).unwrap();
        assert_eq!(at_callee.send.codec, Codec::Opus);
        assert_eq!(at_caller.send, at_callee.receive);
        assert_eq!(at_caller.receive, at_callee.send);
        assert_eq!(at_caller.send.key_payload_type, Some(KEYS_OF_OPUS));
        assert_eq!(at_caller.rtcp, at_caller.rtp, "both on one port");
    }

    #[test]
    fn a_held_call_goes_one_way() {
        let holding = LocalMedia {
            direction: Direction::SendOnly,
            ..local(&[Codec::Pcmu])
        };
        let (answered, held) = answer(&local(&[Codec::Pcmu]), &offer(&holding)).unwrap();
        assert_eq!(held.direction, Direction::ReceiveOnly);
        let holder = read_answer(&holding, &answered).unwrap();
        assert_eq!(holder.direction, Direction::SendOnly);
    }

    #[test]
    fn nothing_is_sent_to_an_address_of_zeros() {
        let offered = "v=0\r\no=- 1 1 IN IP4 192.0.2.9\r\ns=-\r\nc=IN IP4 0.0.0.0\r\nt=0 0\r\n\
            m=audio 6000 RTP/AVP 0\r\n";
        let (_, held) = answer(&local(&[Codec::Pcmu]), offered.as_bytes()).unwrap();
        assert_eq!(held.direction, Direction::ReceiveOnly);
    }

    #[test]
    fn what_is_not_taken_is_refused_in_its_place() {
        let offered = "v=0\r\no=- 1 1 IN IP4 192.0.2.9\r\ns=-\r\nc=IN IP4 192.0.2.9\r\nt=0 0\r\n\
            m=video 5000 RTP/AVP 31\r\nm=audio 6000 RTP/AVP 18 0 99\r\na=rtpmap:99 telephone-event/8000\r\na=rtcp:7001\r\n";
        let mut ours = local(&[Codec::Pcmu]);
        let (answered, negotiated) = answer(&ours, offered.as_bytes()).unwrap();
        let text = String::from_utf8(answered.to_vec()).unwrap();
        assert!(
            text.contains("m=video 0 RTP/AVP 31\r\nm=audio 4000 RTP/AVP 0 99\r\n"),
            "{text}"
        );
        assert!(!text.contains("rtcp-mux"), "it was not offered");
        ours.keep_places(offered.as_bytes());
        let again = String::from_utf8(offer(&ours).to_vec()).unwrap();
        assert!(
            again.contains("m=video 0 RTP/AVP 31\r\nm=audio 4000 RTP/AVP 0 "),
            "{again}"
        );
        assert_eq!(negotiated.rtp, "192.0.2.9:6000".parse().unwrap());
        assert_eq!(negotiated.rtcp.port(), 7_001);
        assert_eq!(negotiated.send.key_payload_type, Some(99));
    }

    #[test]
    fn an_offer_without_anything_of_ours_says_so() {
        let offered = offer(&local(&[Codec::G722]));
        assert_eq!(
            answer(&local(&[Codec::Pcmu]), &offered),
            Err(NegotiationError::NoCodec)
        );
        assert!(matches!(
            answer(&local(&[Codec::Pcmu]), b"x"),
            Err(NegotiationError::Read(_))
        ));
    }

    proptest! {
        #[test]
        fn any_offer_is_answered_or_refused(
            lines in prop::collection::vec(prop::sample::select(&[
                "m=audio 6000 RTP/AVP 0 8 96 101", "m=audio 0 RTP/AVP 0", "m=audio 6000 RTP/SAVP 0",
                "m=video 1 RTP/AVP 1", "a=rtpmap:96 opus/48000/2", "a=rtpmap:101 telephone-event/8000",
                "a=rtpmap:0 opus/48000", "a=rtcp:x", "a=rtcp:99999", "a=rtcp-mux", "a=sendonly", "a=inactive",
                "c=IN IP6 ::1", "c=IN IP4 host.example", "a=ptime:0",
            ][..]), 0..12),
        ) {
            let offered = format!(
                "v=0\r\no=- 1 1 IN IP4 192.0.2.9\r\ns=-\r\nc=IN IP4 192.0.2.9\r\nt=0 0\r\n{}\r\n",
                lines.join("\r\n"),
            );
            if let Ok((answered, _)) = answer(&local(&Codec::ALL), offered.as_bytes()) {
                let both = [offered.as_bytes(), &answered].map(|one| SessionDescription::read(one).unwrap());
                prop_assert_eq!(both[0].media().len(), both[1].media().len());
                prop_assert!(read_answer(&local(&Codec::ALL), &answered).is_ok());
            }
        }
    }
}
