//! What a test is to do, as the client asks for it and the server agrees to it.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use sctp_net::{BufferSplitting, CongestionControl, PathScheduler, Profile, StreamScheduler};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{Bitrate, Protocol};

/// The largest message of each transport, and most of everything else that a client may ask for.
pub mod limits {
    /// Largest TCP write, bytes.
    pub const MAX_TCP_SIZE: usize = 1 << 20;
    /// Largest SCTP user message, bytes.
    pub const MAX_SCTP_SIZE: usize = 1 << 20;
    /// Largest UDP payload over IPv4, bytes.
    pub const MAX_UDP_SIZE: usize = 65_507;
    /// Room for what is written into each datagram, bytes.
    pub const MIN_UDP_SIZE: usize = crate::flow::udp::HEADER_BYTES;
    /// Flows of a test.
    pub const MAX_PARALLEL: usize = 128;
    /// A flow's window, bytes.
    pub const MAX_WINDOW: usize = 1 << 26;
    /// The windows of all flows of a test together, bytes.
    pub const MAX_WINDOWS: usize = 1 << 28;
    /// Length of a test, seconds: a week.
    pub const MAX_SECONDS: f64 = 604_800.0;
}

/// UDP's rate unless told otherwise, as UDP itself would never slow down: 1 Mbit/s.
pub const DEFAULT_UDP_BITS_PER_SECOND: u64 = 1_000_000;

/// What ends a test.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Limit {
    /// So many seconds of sending.
    Seconds(f64),
    /// So many messages, over all flows together.
    Count(u64),
}

/// What a test is to do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TestParameters {
    /// Over what.
    pub protocol: Protocol,
    /// Message size, bytes: of a datagram, a write, or a user message.
    pub size: usize,
    /// What ends it.
    pub limit: Limit,
    /// User data a second over all flows together; `None` for as fast as it goes.
    pub bitrate: Option<Bitrate>,
    /// SCTP streams, which take turns with messages.
    pub streams: u16,
    /// Sockets, connections or associations side by side.
    pub parallel: usize,
    /// Whether SCTP messages may overtake each other.
    pub unordered: bool,
    /// Whether small messages leave at once (no Nagle algorithm).
    pub nodelay: bool,
    /// Whether the server sends and the client receives.
    pub reverse: bool,
    /// Send and receive buffer of each flow, bytes; `None` for the transport's own choice.
    pub window: Option<usize>,
    /// The scheduler of SCTP streams (RFC 8260); `None` for the default one.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        serialize_with = "to_name",
        deserialize_with = "from_name"
    )]
    pub scheduler: Option<StreamScheduler>,
    /// The timers and the loss recovery of SCTP; `None` for those of RFC 9260.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        serialize_with = "to_name",
        deserialize_with = "from_name"
    )]
    pub profile: Option<Profile>,
    /// The congestion controller of SCTP; `None` for the default one.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        serialize_with = "to_name",
        deserialize_with = "from_name"
    )]
    pub congestion: Option<CongestionControl>,
    /// SCTP sends over all paths at a time, with this congestion controller; `None`: over one.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        serialize_with = "to_name",
        deserialize_with = "from_name"
    )]
    pub cmt: Option<CongestionControl>,
    /// Which of several paths of SCTP takes the next packet; `None` for the default one.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        serialize_with = "to_name",
        deserialize_with = "from_name"
    )]
    pub path_scheduler: Option<PathScheduler>,
    /// Which buffers of SCTP the paths share; `None` for the default.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        serialize_with = "to_name",
        deserialize_with = "from_name"
    )]
    pub buffer_splitting: Option<BufferSplitting>,
    /// Whether SCTP messages of different streams are interleaved (RFC 8260).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub interleave: bool,
    /// After which time SCTP messages are given up (RFC 3758); `None`: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lifetime: Option<Duration>,
    /// The type of service of IPv4 or the traffic class of IPv6 of packets with data, over TCP and from the client over UDP;
    /// `None` for the system's choice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tos: Option<u8>,
    /// How much of its beginning is left out of the result, of the time that [`Limit::Seconds`] has; nothing for `None`.
    #[serde(skip)]
    pub omit: Option<Duration>,
}

impl TestParameters {
    /// A test of ten seconds with messages of 1024 bytes, and nothing unusual.
    pub fn new(protocol: Protocol) -> TestParameters {
        TestParameters {
            protocol,
            size: 1024,
            limit: Limit::Seconds(10.0),
            bitrate: match protocol {
                Protocol::Udp => Bitrate::new(DEFAULT_UDP_BITS_PER_SECOND),
                Protocol::Tcp | Protocol::Sctp => None,
            },
            streams: 1,
            parallel: 1,
            unordered: false,
            nodelay: false,
            reverse: false,
            window: None,
            scheduler: None,
            profile: None,
            congestion: None,
            cmt: None,
            path_scheduler: None,
            buffer_splitting: None,
            interleave: false,
            lifetime: None,
            tos: None,
            omit: None,
        }
    }

    /// How many seconds of the beginning are left out of the result.
    pub fn omit_seconds(&self) -> f64 {
        self.omit.unwrap_or_default().as_secs_f64()
    }

    /// Whether it makes sense. The server asks too: what it gets may come from anyone.
    ///
    /// # Errors
    ///
    /// Says what does not.
    pub fn check(&self) -> Result<(), String> {
        let (least, most) = match self.protocol {
            Protocol::Udp => (limits::MIN_UDP_SIZE, limits::MAX_UDP_SIZE),
            Protocol::Tcp => (1, limits::MAX_TCP_SIZE),
            Protocol::Sctp => (1, limits::MAX_SCTP_SIZE),
        };
        if !(least..=most).contains(&self.size) {
            return Err(format!(
                "a message over {} has from {least} to {most} bytes, not {}",
                self.protocol, self.size
            ));
        }
        match self.limit {
            Limit::Seconds(seconds) if !(0.001..=limits::MAX_SECONDS).contains(&seconds) => {
                return Err(format!(
                    "a test takes from 0.001 to {} seconds, not {seconds}",
                    limits::MAX_SECONDS
                ));
            }
            Limit::Count(0) => return Err("a test without a message".into()),
            Limit::Seconds(_) | Limit::Count(_) => {}
        }
        if !(1..=limits::MAX_PARALLEL).contains(&self.parallel) {
            return Err(format!(
                "from 1 to {} flows run side by side, not {}",
                limits::MAX_PARALLEL,
                self.parallel
            ));
        }
        if self.streams == 0 {
            return Err("an association without a stream".into());
        }
        if self.protocol != Protocol::Sctp && (self.streams > 1 || self.unordered) {
            return Err(format!(
                "{} has no streams and no unordered messages: those are sctp's",
                self.protocol
            ));
        }
        let is_extended = self.scheduler.is_some()
            || self.profile.is_some()
            || self.congestion.is_some()
            || self.cmt.is_some()
            || self.interleave
            || self.lifetime.is_some();
        if self.protocol != Protocol::Sctp && is_extended {
            return Err(format!(
                "{} has no scheduler, profile, congestion controller, cmt, interleaving or lifetime of messages: \
                 those are sctp's",
                self.protocol
            ));
        }
        if self.cmt.is_some() && self.congestion.is_some() {
            return Err("cmt names the congestion controller already".into());
        }
        if self.cmt.is_none() && (self.path_scheduler.is_some() || self.buffer_splitting.is_some())
        {
            return Err("several paths are used at a time only with cmt".into());
        }
        if self.protocol == Protocol::Udp && self.nodelay {
            return Err("udp holds nothing back: nodelay is for tcp and sctp".into());
        }
        if self.protocol == Protocol::Sctp && self.tos.is_some() {
            return Err("a type of service is for tcp and udp".into());
        }
        match (self.limit, self.omit) {
            (Limit::Count(_), Some(_)) => {
                return Err("the beginning of a test can be omitted that ends after a time".into());
            }
            (Limit::Seconds(seconds), Some(omit)) if omit.as_secs_f64() >= seconds => {
                return Err("a test is longer than what is omitted of it".into());
            }
            _ => {}
        }
        if let Some(window) = self.window {
            let least = match self.protocol {
                Protocol::Sctp => self.size.max(1500),
                Protocol::Tcp | Protocol::Udp => 1500,
            };
            if !(least..=limits::MAX_WINDOW).contains(&window) {
                return Err(format!(
                    "a window for these messages has from {least} to {} bytes, not {window}",
                    limits::MAX_WINDOW
                ));
            }
            if window.saturating_mul(self.parallel) > limits::MAX_WINDOWS {
                return Err(format!(
                    "{} windows of {window} bytes are more than {} bytes together",
                    self.parallel,
                    limits::MAX_WINDOWS
                ));
            }
        }
        Ok(())
    }

    /// How many of the test's messages a flow sends: all of them, dealt out.
    pub(crate) fn share_of(&self, flow: usize) -> Option<u64> {
        match self.limit {
            Limit::Seconds(_) => None,
            Limit::Count(count) => {
                let flows = self.parallel.max(1) as u64;
                Some(count / flows + u64::from((flow as u64) < count % flows))
            }
        }
    }
}

fn to_name<T: fmt::Display, S: Serializer>(
    value: &Option<T>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let name = value.as_ref().map(T::to_string);
    name.serialize(serializer)
}

fn from_name<'de, T: FromStr<Err: fmt::Display>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    let name = Option::<String>::deserialize(deserializer)?;
    let value = name.map(|name| name.parse()).transpose();
    value.map_err(serde::de::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_make_sense() {
        for protocol in Protocol::ALL {
            let parameters = TestParameters::new(protocol);
            assert_eq!(parameters.check(), Ok(()));
            assert_eq!(parameters.bitrate.is_some(), protocol == Protocol::Udp);
        }
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        let refused = |change: fn(&mut TestParameters)| {
            let mut parameters = TestParameters::new(Protocol::Sctp);
            change(&mut parameters);
            parameters.check().unwrap_err()
        };
        assert!(refused(|test| test.size = 0).contains("1048576 bytes"));
        assert!(refused(|test| test.size = usize::MAX).contains("1048576 bytes"));
        assert!(refused(|test| test.limit = Limit::Count(0)).contains("message"));
        for seconds in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e9] {
            let mut parameters = TestParameters::new(Protocol::Tcp);
            parameters.limit = Limit::Seconds(seconds);
            assert!(parameters.check().unwrap_err().contains("seconds"));
        }
        assert!(refused(|test| test.parallel = 0).contains("side by side"));
        assert!(refused(|test| test.parallel = 129).contains("side by side"));
        assert!(refused(|test| test.streams = 0).contains("stream"));
        assert!(refused(|test| test.window = Some(1000)).contains("window"));
        assert!(refused(|test| test.window = Some(usize::MAX)).contains("window"));
        assert!(
            refused(|test| {
                test.window = Some(limits::MAX_WINDOW);
                test.parallel = 5;
            })
            .contains("together")
        );
        assert!(
            refused(|test| {
                test.size = 65_536;
                test.window = Some(65_535);
            })
            .contains("65536")
        );
    }

    #[test]
    fn what_belongs_to_sctp_is_sctp_s() {
        for protocol in [Protocol::Udp, Protocol::Tcp] {
            let mut parameters = TestParameters::new(protocol);
            parameters.streams = 2;
            assert!(parameters.check().unwrap_err().contains("streams"));
            parameters.streams = 1;
            parameters.unordered = true;
            assert!(parameters.check().unwrap_err().contains("unordered"));
            parameters.unordered = false;
            parameters.interleave = true;
            assert!(parameters.check().unwrap_err().contains("interleaving"));
        }
        let mut udp = TestParameters::new(Protocol::Udp);
        udp.nodelay = true;
        assert!(udp.check().unwrap_err().contains("nodelay"));
        udp.nodelay = false;
        udp.size = 65_508;
        assert!(udp.check().unwrap_err().contains("65507"));
    }

    #[test]
    fn what_extensions_do_is_asked_for_only_where_it_is_wanted() {
        let mut parameters = TestParameters::new(Protocol::Sctp);
        let plain = serde_json::to_string(&parameters).unwrap();
        for name in [
            "scheduler",
            "profile",
            "congestion",
            "cmt",
            "path_scheduler",
            "buffer_splitting",
            "interleave",
            "lifetime",
        ] {
            assert!(!plain.contains(name), "{plain}");
        }
        parameters.scheduler = Some(StreamScheduler::WeightedFairQueueing);
        parameters.profile = Some(Profile::Signalling);
        parameters.congestion = Some(CongestionControl::Cubic);
        parameters.interleave = true;
        parameters.lifetime = Some(Duration::from_millis(200));
        let mut on_all_paths = TestParameters::new(Protocol::Sctp);
        on_all_paths.path_scheduler = Some(PathScheduler::Ecf);
        assert!(on_all_paths.check().unwrap_err().contains("cmt"));
        on_all_paths.cmt = Some(CongestionControl::Olia);
        on_all_paths.buffer_splitting = Some(BufferSplitting::Both);
        assert_eq!(on_all_paths.check(), Ok(()));
        for parameters in [
            parameters,
            on_all_paths,
            serde_json::from_str(&plain).unwrap(),
        ] {
            let text = serde_json::to_string(&parameters).unwrap();
            assert_eq!(
                serde_json::from_str::<TestParameters>(&text).unwrap(),
                parameters
            );
        }
        let wrong = plain.replacen('{', r#"{"scheduler":"any","#, 1);
        assert!(serde_json::from_str::<TestParameters>(&wrong).is_err());
        let wrong = plain.replacen('{', r#"{"congestion":"any","#, 1);
        assert!(serde_json::from_str::<TestParameters>(&wrong).is_err());
    }

    #[test]
    fn messages_are_dealt_out() {
        let mut parameters = TestParameters::new(Protocol::Tcp);
        parameters.limit = Limit::Count(10);
        parameters.parallel = 4;
        let shares: Vec<u64> = (0..4)
            .filter_map(|flow| parameters.share_of(flow))
            .collect();
        assert_eq!(shares, [3, 3, 2, 2]);
        parameters.limit = Limit::Seconds(1.0);
        assert_eq!(parameters.share_of(0), None);
    }
}
