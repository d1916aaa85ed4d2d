//! Options of how media are protected, found and missed.

use clap::Args;
use phone::{MediaConfig, Srtp, SrtpKeys};

use crate::values::duration;

/// They are named as in `[media]` of `phone.toml`, and count more.
#[derive(Args, Debug)]
pub(crate) struct MediaArguments {
    /// Protect media by SRTP: off, optional (when the other side can) or required [default: optional]
    #[arg(long, value_name = "off|optional|required")]
    srtp: Option<Srtp>,

    /// Offer keys of SRTP in the session description (sdes), or by a handshake between the media (dtls); both are answered
    /// [default: sdes]
    #[arg(long, value_name = "sdes|dtls")]
    srtp_keys: Option<SrtpKeys>,

    /// Offer keys in session descriptions over signalling that is not encrypted, too
    #[arg(long)]
    sdes_in_clear: bool,

    /// Check paths by ICE when the other side does it, too
    #[arg(long)]
    ice: bool,

    /// Ask this STUN server where our ports are seen from outside, such as stun.example.org or 192.0.2.1:3478
    #[arg(long, value_name = "HOST[:PORT]")]
    stun: Option<String>,

    /// Leave the echo of the speaker in what a microphone captures
    #[arg(long)]
    no_echo_cancellation: bool,

    /// Report a call in which no RTP or RTCP has arrived for so long, in whole seconds; 0: never [default: 30]
    #[arg(long, value_name = "TIME", value_parser = whole_seconds)]
    rtp_timeout: Option<u64>,

    /// Hang up a call that --rtp-timeout reports
    #[arg(long)]
    rtp_timeout_hangup: bool,
}

/// Reads a time, and rounds it up: 0 has a meaning of its own.
fn whole_seconds(text: &str) -> Result<u64, String> {
    let time = duration(text)?;
    Ok(time.as_secs() + u64::from(time.subsec_nanos() > 0))
}

impl MediaArguments {
    /// Changes what the settings say.
    pub(crate) fn apply(&self, media: &mut MediaConfig) {
        media.srtp = self.srtp.unwrap_or(media.srtp);
        media.srtp_keys = self.srtp_keys.unwrap_or(media.srtp_keys);
        media.sdes_in_clear |= self.sdes_in_clear;
        media.ice |= self.ice;
        media.stun = self.stun.clone().or(media.stun.take());
        media.echo_cancellation &= !self.no_echo_cancellation;
        media.rtp_timeout = self.rtp_timeout.unwrap_or(media.rtp_timeout);
        media.rtp_timeout_hangup |= self.rtp_timeout_hangup;
    }
}
