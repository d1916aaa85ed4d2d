//! What the demo is asked for.

use std::time::Duration;

use serde::{Serialize, Serializer};
use sip::Transport;
use sip_net::Profile;

/// How long a request waits for its response.
const TIMER_F: Duration = Duration::from_secs(32);

/// What to run and how.
#[derive(Clone, Debug, Serialize)]
pub struct Options {
    /// Callers, and as many callees.
    pub users: u32,
    /// When a run is over.
    #[serde(flatten)]
    pub end: End,
    /// Calls begun per second by all callers together, whether or not earlier ones have ended (an open
    /// loop). Without it each caller begins its next call when its last one has ended (a closed loop).
    pub rate: Option<f64>,
    /// Who shares a connection to the proxy.
    pub associations: Associations,
    /// Packet losses to run at, in percent of the packets of each direction.
    #[serde(rename = "loss_percent")]
    pub loss: Vec<f64>,
    /// Delay of each packet between users and proxy, each way.
    #[serde(rename = "delay_ms", serialize_with = "in_milliseconds")]
    pub delay: Duration,
    /// Transports to run over.
    #[serde(serialize_with = "by_name")]
    pub transports: Vec<Transport>,
    /// Timers and loss recovery that SCTP runs with, one after the other.
    #[serde(serialize_with = "by_name")]
    pub profiles: Vec<Profile>,
    /// Decides which packets are lost.
    #[serde(skip)]
    pub seed: u64,
}

impl Options {
    /// Whether there is anything to run.
    ///
    /// # Errors
    /// What to change on the command line.
    pub fn check(&self) -> Result<(), String> {
        if super::plan(self).is_empty() {
            return Err(
                "nothing to run: TCP runs at 0 % loss only; add 0 to --loss, or udp or sctp to --transport"
                    .to_owned(),
            );
        }
        if self.delay * 2 >= TIMER_F {
            return Err(format!(
                "--delay {:?} leaves no request answered in time: after {TIMER_F:?} SIP gives up (RFC 3261 section 17.1.2.2); milliseconds are written as 20ms",
                self.delay
            ));
        }
        Ok(())
    }
}

impl Default for Options {
    fn default() -> Options {
        Options {
            users: 8,
            end: End::Seconds(15.0),
            rate: None,
            associations: Associations::Shared,
            loss: vec![0.0, 5.0, 10.0, 20.0, 30.0],
            delay: Duration::ZERO,
            transports: vec![Transport::Udp, Transport::Tcp, Transport::Sctp],
            profiles: vec![Profile::Signalling, Profile::Rfc9260],
            seed: 1,
        }
    }
}

/// When a run is over.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum End {
    /// After so many seconds of calling; calls then under way are left unfinished.
    Seconds(f64),
    /// When so many calls have ended.
    Calls(u64),
}

/// Who shares a connection to the proxy: an SCTP association, a TCP connection or a UDP socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Associations {
    /// All users of a side share one, with a stream each over SCTP.
    Shared,
    /// Each user has its own.
    PerUser,
}

fn in_milliseconds<S: Serializer>(delay: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(delay.as_secs_f64() * 1e3)
}

fn by_name<S: Serializer>(values: &[impl ToString], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(values.iter().map(ToString::to_string))
}
