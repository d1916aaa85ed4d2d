//! Other traffic beside the calls, which a part of the network is filled with.

use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use anyhow::{Context, ensure};
use clap::Args;
use load::driver::{Background, BackgroundTotal};
use perf::Bitrate;
use report::{format_count, format_number};
use serde::Serialize;

use crate::usage::refused;

/// What goes on beside the calls.
#[derive(Args, Debug)]
pub(super) struct Traffic {
    /// Send UDP datagrams as background traffic at this rate, such as 50Mbit/s
    #[arg(long, value_name = "BITRATE", value_parser = bitrate, help_heading = "Background")]
    background: Option<Bitrate>,

    /// Source of the datagrams, an address of this host [default: 127.0.0.2, or the one that leads to
    /// --background-to]
    #[arg(long, value_name = "IP[:PORT]", value_parser = address, requires = "background",
          help_heading = "Background")]
    background_from: Option<SocketAddr>,

    /// Destination of the datagrams; counted on arrival if it is this host. The default port on another host is 9
    /// (discard)
    #[arg(long, value_name = "IP[:PORT]", value_parser = address, default_value = "127.0.0.3",
          requires = "background", help_heading = "Background")]
    background_to: SocketAddr,
}

/// What was asked for, for the document.
#[derive(Debug, Serialize)]
pub(super) struct Parameters {
    background_bits_per_second: Option<u64>,
    background_from: Option<String>,
    background_to: Option<String>,
}

impl Traffic {
    /// What a run is told of it, if anything goes on.
    pub(super) fn plan(&self, i_may_test: &[String]) -> anyhow::Result<Option<Background>> {
        let Some(bitrate) = self.background else {
            return Ok(None);
        };
        let to = self.background_to;
        allowed_targets::check(&to.ip().to_string(), to.ip(), i_may_test)
            .context("the background traffic has no destination")?;
        let from = match self.background_from {
            Some(from) => from,
            None => SocketAddr::new(default_source(to.ip())?, 0),
        };
        ensure!(
            from.is_ipv4() == to.is_ipv4(),
            refused(format!(
                "background traffic goes from {} to {}, of which one is IPv4 and the other IPv6: give \
                 --background-from and --background-to of one kind",
                from.ip(),
                to.ip()
            ))
        );
        Ok(Some(Background {
            from,
            to,
            bits_per_second: bitrate.bits_per_second(),
            payload: Background::PAYLOAD,
        }))
    }
}

/// An address of this host that leads there, on loopback another one than that of the calls.
fn default_source(to: IpAddr) -> anyhow::Result<IpAddr> {
    match to {
        IpAddr::V4(to) if to.is_loopback() => Ok(Ipv4Addr::new(127, 0, 0, 2).into()),
        to => udp_net::local_address_towards(to).with_context(|| {
            format!("no address of this host leads to {to}: give --background-from")
        }),
    }
}

impl Parameters {
    pub(super) fn new(background: Option<&Background>) -> Parameters {
        Parameters {
            background_bits_per_second: background.map(|background| background.bits_per_second),
            background_from: background.map(|background| named(background.from)),
            background_to: background.map(|background| named(background.to)),
        }
    }
}

/// An address as it was given: without a port that it did not have.
fn named(address: SocketAddr) -> String {
    match address.port() {
        0 => address.ip().to_string(),
        _ => address.to_string(),
    }
}

/// What goes on, in words: `50.000 Mbit/s of UDP from 127.0.0.2 to 127.0.0.3`.
pub(super) fn in_words(background: &Background) -> String {
    format!(
        "{} Mbit/s of UDP from {} to {}",
        format_number(background.bits_per_second as f64 / 1e6, 3),
        named(background.from),
        named(background.to)
    )
}

/// What became of it, in a line.
pub(super) fn in_short(total: &BackgroundTotal) -> String {
    let mut line = format!(
        "Background  {} datagrams sent in {} s",
        format_count(total.sent),
        format_number(total.time.as_secs_f64(), 2)
    );
    if let Some(rate) = total.bits_per_second() {
        let _ = write!(line, " ({} Mbit/s)", format_number(rate / 1e6, 3));
    }
    if let Some(lost) = total.lost() {
        let _ = write!(line, ", {} of them lost", format_count(lost));
    }
    let unsent = [(total.not_sent, "not sent"), (total.missed, "too late")];
    for (count, what) in unsent.into_iter().filter(|(count, _)| *count > 0) {
        let _ = write!(line, ", {} {what}", format_count(count));
    }
    if let Some(error) = &total.error {
        let _ = write!(line, ": {error}");
    }
    line
}

/// Reads bits a second: `50Mbit/s`, `50M`. A number alone, which hardly anybody means as bits, is no rate.
fn bitrate(text: &str) -> Result<Bitrate, String> {
    if text.parse::<f64>().is_ok_and(|number| number > 0.0) {
        return Err(format!(
            "\"{text}\" has no unit: write {text}Mbit/s, {text}kbit/s or {text}bit/s"
        ));
    }
    let number = text.strip_suffix("bit/s").unwrap_or(text);
    match number.parse::<perf::RateLimit>()? {
        perf::RateLimit::Limited(rate) => Ok(rate),
        perf::RateLimit::Unlimited => {
            Err("background traffic has a rate, such as 50Mbit/s".to_owned())
        }
    }
}

/// Reads an address with or without a port.
fn address(text: &str) -> Result<SocketAddr, String> {
    let wrong = |_| format!("\"{text}\" is not an address: IP or IP:PORT is expected");
    match text.parse::<IpAddr>() {
        Ok(ip) => Ok(SocketAddr::new(ip, 0)),
        Err(_) => text.parse().map_err(wrong),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_line_says_what_was_not_sent_and_why() {
        let total = BackgroundTotal {
            sent: 1000,
            received: Some(990),
            octets: 1_470_000,
            time: Duration::from_secs(2),
            ..BackgroundTotal::default()
        };
        assert_eq!(
            in_short(&total),
            "Background  1,000 datagrams sent in 2.00 s (5.880 Mbit/s), 10 of them lost"
        );
        let refused = BackgroundTotal {
            not_sent: 7,
            missed: 3,
            time: Duration::from_secs(1),
            error: Some("Invalid argument (os error 22)".to_owned()),
            ..BackgroundTotal::default()
        };
        assert_eq!(
            in_short(&refused),
            "Background  0 datagrams sent in 1.00 s (0.000 Mbit/s), 7 not sent, 3 too late: Invalid argument (os \
             error 22)"
        );
    }

    #[test]
    fn it_leaves_from_where_it_can_reach_its_destination() {
        let traffic = |from: Option<&str>, to: &str| Traffic {
            background: Some(bitrate("50Mbit/s").unwrap()),
            background_from: from.map(|from| address(from).unwrap()),
            background_to: address(to).unwrap(),
        };
        let plan = |from, to| traffic(from, to).plan(&[]).map(|plan| plan.unwrap());
        let loopback = plan(None, "127.0.0.3").unwrap();
        assert_eq!(loopback.bits_per_second, 50_000_000);
        assert_eq!(
            in_words(&loopback),
            "50.000 Mbit/s of UDP from 127.0.0.2 to 127.0.0.3"
        );
        let chosen = plan(Some("127.0.0.1:7"), "127.0.0.3:9").unwrap();
        assert_eq!(chosen.from.to_string(), "127.0.0.1:7");
        assert_eq!(chosen.to.to_string(), "127.0.0.3:9");
        let mixed = plan(Some("::1"), "127.0.0.3").unwrap_err().to_string();
        assert!(mixed.contains("of one kind"), "{mixed}");
        let stranger = format!("{:#}", plan(None, "192.0.2.1").unwrap_err());
        assert!(stranger.contains("--i-may-test 192.0.2.1"), "{stranger}");
    }
}
