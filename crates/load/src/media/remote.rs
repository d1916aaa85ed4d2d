//! Where a call's media goes, as the other side's session description tells it, and ours.

use std::net::{IpAddr, SocketAddr};

use sip::sdp::{Connection, Direction, Media, Origin, RtpMap, Section, SessionDescription};

use media::g711::{CLOCK_RATE, Law};

/// The profile of SRTP (RFC 3711 section 8).
const SECURE: &str = "RTP/SAVP";

/// The other side of a call's media.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remote {
    /// Where its RTP goes.
    pub rtp: SocketAddr,
    /// Where its RTCP goes.
    pub rtcp: SocketAddr,
    /// The codec to send: the first of the description that is one of G.711's.
    pub codec: Law,
    /// The source that it will send as, if it has said so (`a=ssrc`, RFC 5576 section 4.1).
    pub ssrc: Option<u32>,
    /// Whether it wants to hear something, and not only to be heard.
    pub listens: bool,
    /// Whether its profile is one of SRTP (RFC 3711 section 8): nothing may be sent without keys.
    pub needs_keys: bool,
}

/// Why a description has no media for us.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RemoteError {
    /// It is no session description.
    #[error("the session description is malformed: {0}")]
    Malformed(#[from] sip::sdp::SdpError),
    /// There is no audio in RTP, or it was refused.
    #[error("the session description has no audio over RTP/AVP or RTP/SAVP")]
    NoAudio,
    /// Its address is a name, or missing.
    #[error("the session description has no IP address for its audio")]
    NoAddress,
    /// None of its payload types is 0 or 8.
    #[error("the session description has neither PCMU nor PCMA")]
    NoCodec,
}

impl Remote {
    /// Reads an offer or answer.
    ///
    /// RTCP goes to the port that `a=rtcp` names (RFC 3605), to that of RTP if both sides said
    /// `a=rtcp-mux` (RFC 5761 section 5.1.1; `mux` tells whether we did), otherwise to the next one
    /// (RFC 3550 section 11).
    ///
    /// # Errors
    ///
    /// When there is no audio in it that we can send.
    pub fn read(description: &[u8], mux: bool) -> Result<Remote, RemoteError> {
        let (remote, knows_codec) = Remote::read_any(description, mux)?;
        knows_codec.then_some(remote).ok_or(RemoteError::NoCodec)
    }

    /// The same for audio in any codec, for whoever has packets already; and whether one of them is ours.
    ///
    /// # Errors
    ///
    /// When there is no audio in it.
    pub fn read_any(description: &[u8], mux: bool) -> Result<(Remote, bool), RemoteError> {
        let description = SessionDescription::read(description)?;
        let (section, line) = audio_of(&description).ok_or(RemoteError::NoAudio)?;
        let ip = description
            .connection(section)
            .and_then(|connection| connection.ip())
            .ok_or(RemoteError::NoAddress)?;
        let codec = line.payload_types().find_map(Law::of_payload_type);
        let rtp = SocketAddr::new(ip, line.port);
        let rtcp = if mux && section.attribute("rtcp-mux").is_some() {
            rtp
        } else {
            let named = section.attribute("rtcp").and_then(first_number);
            SocketAddr::new(ip, named.unwrap_or(line.port.saturating_add(1)))
        };
        let listens = matches!(
            description.direction(section),
            Direction::SendReceive | Direction::ReceiveOnly
        );
        let remote = Remote {
            rtp,
            rtcp,
            codec: codec.unwrap_or_default(),
            ssrc: section.attribute("ssrc").and_then(first_number),
            listens,
            needs_keys: line.protocol == SECURE,
        };
        Ok((remote, codec.is_some()))
    }
}

/// The section of a description that is used: the first audio with a profile that we know and that was not refused.
pub(super) fn audio_of(description: &SessionDescription) -> Option<(&Section, Media<'_>)> {
    description.media().iter().find_map(|section| {
        let line = section.media_line()?;
        let is_known = matches!(line.protocol, "RTP/AVP" | SECURE);
        let fits = line.kind == "audio" && is_known && line.port != 0;
        fits.then_some((section, line))
    })
}

/// Our description of a call's media: one codec, both ways, RTCP on the same port if the other side agrees,
/// and the source that we send as.
pub fn describe(address: IpAddr, port: u16, codec: Law, ssrc: u32, session: u64) -> String {
    let here = Connection::new(address);
    let mut description = SessionDescription::new(&Origin::new(session, session, here), here);
    let format = codec.payload_type().to_string();
    let mut audio = Section::media(&Media::rtp_audio(port, &format));
    audio.push_rtp_map(&RtpMap {
        payload_type: codec.payload_type(),
        encoding: codec.encoding(),
        clock_rate: CLOCK_RATE,
        parameters: None,
    });
    audio.push_attribute("ptime", Some("20"));
    audio.push_attribute("rtcp-mux", None);
    // A source needs an attribute of its own to be told (RFC 5576 section 4.1); its name is one.
    audio.push_attribute("ssrc", Some(&format!("{ssrc} cname:{}", cname(address))));
    audio.set_direction(Direction::SendReceive);
    description.push_media(audio);
    String::from_utf8_lossy(&description.to_bytes()).into_owned()
}

/// The name of all our sources (RFC 3550 section 6.5.1): the host's address.
pub(super) fn cname(address: IpAddr) -> String {
    format!("tandem@{address}")
}

fn first_number<T: std::str::FromStr>(value: &str) -> Option<T> {
    value.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWER: &str = "v=0\r\no=- 1 1 IN IP4 192.0.2.1\r\ns=-\r\nc=IN IP4 192.0.2.1\r\nt=0 0\r\n\
                          m=audio 4000 RTP/AVP 96 8 0\r\n";

    fn read(more: &str, mux: bool) -> Remote {
        Remote::read(format!("{ANSWER}{more}").as_bytes(), mux).unwrap()
    }

    #[test]
    fn an_answer_tells_where_media_goes() {
        let remote = read("", true);
        assert_eq!(remote.rtp, "192.0.2.1:4000".parse().unwrap());
        assert_eq!(remote.rtcp, "192.0.2.1:4001".parse().unwrap());
        assert_eq!(remote.codec, Law::Pcma);
        assert_eq!(remote.ssrc, None);
        assert!(remote.listens);
        assert!(!read("a=sendonly\r\n", true).listens);
        assert!(!remote.needs_keys);
        let secure = ANSWER.replace("RTP/AVP", "RTP/SAVP");
        assert!(Remote::read(secure.as_bytes(), true).unwrap().needs_keys);
    }

    #[test]
    fn control_has_a_port_of_its_own_or_not() {
        assert_eq!(read("a=rtcp:5000\r\n", true).rtcp.port(), 5000);
        assert_eq!(read("a=rtcp-mux\r\n", true).rtcp.port(), 4000);
        assert_eq!(read("a=rtcp-mux\r\n", false).rtcp.port(), 4001);
    }

    #[test]
    fn what_we_say_is_understood() {
        let ours = describe("::1".parse().unwrap(), 7000, Law::Pcmu, u32::MAX, 9);
        let remote = Remote::read(ours.as_bytes(), true).unwrap();
        assert_eq!(
            remote,
            Remote {
                rtp: "[::1]:7000".parse().unwrap(),
                rtcp: "[::1]:7000".parse().unwrap(),
                codec: Law::Pcmu,
                ssrc: Some(u32::MAX),
                listens: true,
                needs_keys: false,
            }
        );
    }

    #[test]
    fn what_cannot_be_used_is_said() {
        let error = |text: &str| Remote::read(text.as_bytes(), true).unwrap_err();
        assert!(matches!(error("hello"), RemoteError::Malformed(_)));
        let refused = ANSWER.replace("4000", "0");
        assert_eq!(error(&refused), RemoteError::NoAudio);
        let named = ANSWER.replace("c=IN IP4 192.0.2.1", "c=IN IP4 host.example");
        assert_eq!(error(&named), RemoteError::NoAddress);
        let other = ANSWER.replace("96 8 0", "96 97");
        assert_eq!(error(&other), RemoteError::NoCodec);
    }
}
