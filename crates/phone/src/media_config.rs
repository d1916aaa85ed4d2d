//! How media are protected, found and missed, and cleared of echoes: `[media]` of `phone.toml`, and options of the same names.

use std::str::FromStr;
use std::time::Duration;

use serde::Deserialize;

/// Whether media are protected by SRTP (RFC 3711).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Srtp {
    /// Never; an offer of nothing else is refused.
    Off,
    /// When the other side can: it is offered opportunistically (RFC 8643), and any offer is answered in kind.
    #[default]
    Optional,
    /// Always; an offer or answer without is refused.
    Required,
}

/// By what the keys of SRTP that we offer are agreed on. Offers of both kinds are answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SrtpKeys {
    /// In the session description (RFC 4568): whoever reads the signalling knows them.
    #[default]
    Sdes,
    /// By a DTLS handshake between the media (RFC 5763).
    Dtls,
}

/// How media are protected, found and missed.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MediaConfig {
    /// Whether media are protected.
    pub srtp: Srtp,
    /// What is offered for that.
    pub srtp_keys: SrtpKeys,
    /// Keys are offered in session descriptions over signalling that is not encrypted, too.
    pub sdes_in_clear: bool,
    /// Paths are checked by ICE (RFC 8445) when the other side does it, too.
    pub ice: bool,
    /// The STUN server that is asked where our ports are seen from outside (RFC 8489), a name or an address, with its port if
    /// that is not 3478.
    pub stun: Option<String>,
    /// What a sound card plays is taken out of what its microphone captures.
    pub echo_cancellation: bool,
    /// Seconds without a packet of the other side after which the call is told of; 0: never.
    pub rtp_timeout: u64,
    /// Such a call is hung up.
    pub rtp_timeout_hangup: bool,
}

impl Default for MediaConfig {
    fn default() -> MediaConfig {
        MediaConfig {
            srtp: Srtp::default(),
            srtp_keys: SrtpKeys::default(),
            sdes_in_clear: false,
            ice: false,
            stun: None,
            echo_cancellation: true,
            rtp_timeout: 30,
            rtp_timeout_hangup: false,
        }
    }
}

impl MediaConfig {
    /// How long a call may be without packets of the other side.
    pub(crate) fn silence(&self) -> Option<Duration> {
        (self.rtp_timeout > 0).then(|| Duration::from_secs(self.rtp_timeout))
    }

    /// What is offered over signalling that is encrypted, or is not. `None`: no keys.
    pub(crate) fn offered_keys(&self, signalling_is_encrypted: bool) -> Option<SrtpKeys> {
        let may = match (self.srtp, self.srtp_keys) {
            (Srtp::Off, _) => false,
            // Fingerprints are no secret.
            (_, SrtpKeys::Dtls) => true,
            (_, SrtpKeys::Sdes) => signalling_is_encrypted || self.sdes_in_clear,
        };
        may.then_some(self.srtp_keys)
    }

    /// Media have to be protected, and no keys may be offered for that.
    pub(crate) fn cannot_offer_keys(&self, signalling_is_encrypted: bool) -> bool {
        self.srtp == Srtp::Required && self.offered_keys(signalling_is_encrypted).is_none()
    }
}

impl FromStr for Srtp {
    type Err = String;

    fn from_str(text: &str) -> Result<Srtp, String> {
        match text {
            "off" => Ok(Srtp::Off),
            "optional" => Ok(Srtp::Optional),
            "required" => Ok(Srtp::Required),
            _ => Err(format!("\"{text}\" is none of off, optional and required")),
        }
    }
}

impl FromStr for SrtpKeys {
    type Err = String;

    fn from_str(text: &str) -> Result<SrtpKeys, String> {
        match text {
            "sdes" => Ok(SrtpKeys::Sdes),
            "dtls" => Ok(SrtpKeys::Dtls),
            _ => Err(format!("\"{text}\" is neither sdes nor dtls")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_in_descriptions_need_encrypted_signalling() {
        let config = MediaConfig::default();
        assert_eq!(config.offered_keys(true), Some(SrtpKeys::Sdes));
        assert_eq!(config.offered_keys(false), None);
        assert!(!config.cannot_offer_keys(false), "it goes without");
        let told = MediaConfig {
            sdes_in_clear: true,
            ..MediaConfig::default()
        };
        assert_eq!(told.offered_keys(false), Some(SrtpKeys::Sdes));
        let dtls = MediaConfig {
            srtp_keys: SrtpKeys::Dtls,
            ..MediaConfig::default()
        };
        assert_eq!(dtls.offered_keys(false), Some(SrtpKeys::Dtls));
        let off = MediaConfig {
            srtp: Srtp::Off,
            ..told
        };
        assert_eq!(off.offered_keys(true), None);
    }

    #[test]
    fn settings_and_options_have_the_same_words() {
        let text = "srtp = \"required\"\nsrtp_keys = \"dtls\"\nice = true\nrtp_timeout = 0\necho_cancellation = false";
        let config: MediaConfig = toml::from_str(text).unwrap();
        assert_eq!("required".parse(), Ok(config.srtp));
        assert_eq!("dtls".parse(), Ok(config.srtp_keys));
        assert!(config.ice && config.silence().is_none() && !config.echo_cancellation);
        assert!(MediaConfig::default().echo_cancellation);
        assert!("must".parse::<Srtp>().is_err() && "zrtp".parse::<SrtpKeys>().is_err());
        assert!(toml::from_str::<MediaConfig>("srtp = \"must\"").is_err());
        assert!(toml::from_str::<MediaConfig>("zrtp = true").is_err());
    }
}
