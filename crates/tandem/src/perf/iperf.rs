//! The options of iperf3, so that its users need not learn others: `tandem perf -s`, `tandem perf -c HOST -t 5 -R`.

use std::ffi::OsString;

use crate::output_style::is_style;

/// What stands for an option of iperf3.
#[derive(Clone, Copy)]
enum Meaning {
    Server,
    Client,
    Port,
    Bind,
    Udp,
    Sctp,
    /// Without a value, the same option of ours.
    Flag(&'static str),
    /// With a value, the same option of ours.
    Value(&'static str),
    Bitrate,
    Interval,
    Json,
}

/// The short and the long form (iperf3(1)).
const OPTIONS: [(&str, &str, Meaning); 20] = [
    ("-s", "--server", Meaning::Server),
    ("-c", "--client", Meaning::Client),
    ("-p", "--port", Meaning::Port),
    ("-B", "--bind", Meaning::Bind),
    ("-u", "--udp", Meaning::Udp),
    ("", "--sctp", Meaning::Sctp),
    ("-t", "--time", Meaning::Value("--seconds")),
    ("-P", "--parallel", Meaning::Value("--parallel")),
    ("-l", "--length", Meaning::Value("--size")),
    ("-w", "--window", Meaning::Value("--window")),
    ("-b", "--bitrate", Meaning::Bitrate),
    ("-R", "--reverse", Meaning::Flag("--reverse")),
    ("-N", "--no-delay", Meaning::Flag("--nodelay")),
    ("-1", "--one-off", Meaning::Flag("--one-off")),
    ("-i", "--interval", Meaning::Interval),
    ("-J", "--json", Meaning::Json),
    ("-h", "--help", Meaning::Flag("--help")),
    ("", "--bidir", Meaning::Flag("--bidir")),
    ("-O", "--omit", Meaning::Value("--omit")),
    ("-S", "--tos", Meaning::Value("--tos")),
];

/// The arguments of the program with those of iperf3 behind `perf` in our words. Where `perf` is followed by a command of
/// ours, nothing changes.
///
/// # Errors
///
/// Why an option cannot be done.
pub(crate) fn spelled_out(arguments: Vec<OsString>) -> Result<Vec<OsString>, String> {
    let words: Option<Vec<&str>> = arguments.iter().map(|word| word.to_str()).collect();
    let Some([program, "perf", options @ ..]) = words.as_deref() else {
        return Ok(arguments);
    };
    let is_theirs = |first: &&str| {
        let is_ours =
            ["-h", "--help", "-V", "--version"].contains(first) || is_style(first).is_some();
        first.starts_with('-') && !is_ours
    };
    if !first_of(options).as_ref().is_some_and(is_theirs) {
        return Ok(arguments);
    }
    let ours = translated(options)?;
    let all = [*program, "perf"].map(OsString::from).into_iter();
    Ok(all.chain(ours.into_iter().map(OsString::from)).collect())
}

/// The first one that is not of the style of the output.
fn first_of<'o>(options: &[&'o str]) -> Option<&'o str> {
    let mut options = options.iter();
    while let Some(option) = options.next() {
        match is_style(option) {
            None => return Some(option),
            Some(true) => _ = options.next(),
            Some(false) => {}
        }
    }
    None
}

fn translated(options: &[&str]) -> Result<Vec<String>, String> {
    let (mut host, mut is_server, mut port, mut bind) = (None, false, None, None);
    let (mut protocol, mut rest) = ("tcp", Vec::new());
    let mut options = options.iter();
    while let Some(option) = options.next() {
        if let Some(has_value) = is_style(option) {
            rest.push((*option).to_owned());
            if has_value {
                rest.extend(options.next().map(|value| (*value).to_owned()));
            }
            continue;
        }
        let (meaning, attached) = meaning_of(option)?;
        let mut value = || {
            attached
                .or_else(|| options.next().copied())
                .map(str::to_owned)
                .ok_or_else(|| format!("{option} needs a value"))
        };
        match meaning {
            Meaning::Server => is_server = true,
            Meaning::Client => host = Some(value()?),
            Meaning::Port => port = Some(value()?),
            Meaning::Bind => bind = Some(value()?),
            Meaning::Udp => protocol = "udp",
            Meaning::Sctp => protocol = "sctp",
            Meaning::Flag(ours) => rest.push(ours.to_owned()),
            Meaning::Value(ours) => rest.extend([ours.to_owned(), value()?]),
            Meaning::Bitrate => {
                let rate = value()?;
                let unlimited = || "unlimited".to_owned();
                let rate = if rate == "0" { unlimited() } else { rate };
                rest.extend(["--bitrate".to_owned(), rate]);
            }
            Meaning::Interval => {
                let interval = value()?;
                if interval.parse::<f64>() != Ok(1.0) {
                    return Err(format!("{option} {interval}: intervals are of one second"));
                }
            }
            Meaning::Json => rest.push("--iperf3-json".to_owned()),
        }
    }
    let with_port = |place: String| match &port {
        Some(port) => format!("{place}:{port}"),
        None => place,
    };
    match (host, is_server) {
        (Some(host), false) => {
            if let Some(address) = bind {
                if protocol != "sctp" {
                    return Err("-B of a client is for --sctp: others choose by the route".into());
                }
                rest.extend(["--address".to_owned(), address]);
            }
            let target = with_port(format!("{protocol}:{}", bracketed(&host)));
            Ok(["client".to_owned(), target]
                .into_iter()
                .chain(rest)
                .collect())
        }
        (None, true) => {
            // As iperf3 does, on all addresses.
            let address = bracketed(bind.as_deref().unwrap_or("0.0.0.0"));
            let listeners = ["udp", "tcp", "sctp"].map(|protocol| {
                let place = with_port(format!("{protocol}:{address}"));
                ["--listen".to_owned(), place]
            });
            let listeners = listeners.into_iter().flatten();
            Ok(std::iter::once("server".to_owned())
                .chain(listeners)
                .chain(rest)
                .collect())
        }
        (Some(_), true) => Err("-s and -c exclude each other".to_owned()),
        (None, false) => Err("-s begins a server, -c HOST a client".to_owned()),
    }
}

/// What an option means, and the value that is attached to it: `-t5`, `--time=5`.
fn meaning_of(option: &str) -> Result<(Meaning, Option<&str>), String> {
    for (short, long, meaning) in OPTIONS {
        if option == short || option == long {
            return Ok((meaning, None));
        }
        let after = |name: &str| option.strip_prefix(name).filter(|_| !name.is_empty());
        if let Some(value) = after(long).and_then(|rest| rest.strip_prefix('=')) {
            return Ok((meaning, Some(value)));
        }
        let has_value = !matches!(
            meaning,
            Meaning::Server | Meaning::Udp | Meaning::Sctp | Meaning::Flag(_) | Meaning::Json
        );
        if let Some(value) = after(short).filter(|_| has_value) {
            return Ok((meaning, Some(value)));
        }
    }
    Err(format!(
        "{option} is no option of iperf3 that is known here"
    ))
}

fn bracketed(host: &str) -> String {
    match host.contains(':') && !host.starts_with('[') {
        true => format!("[{host}]"),
        false => host.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spelled(line: &str) -> Result<String, String> {
        let words = line.split(' ').map(OsString::from).collect();
        let words = spelled_out(words)?;
        Ok(words
            .join(&OsString::from(" "))
            .into_string()
            .expect("UTF-8"))
    }

    #[test]
    fn options_of_iperf3_are_understood() {
        for (theirs, ours) in [
            ("t perf -c host", "t perf client tcp:host"),
            (
                "t perf -u -c ::1 -p 5201 -b 0 -l 1400",
                "t perf client udp:[::1]:5201 --bitrate unlimited --size 1400",
            ),
            (
                "t perf --client h --sctp -B 10.0.0.1 -t5 --parallel=4 -R -i 1",
                "t perf client sctp:h --seconds 5 --parallel 4 --reverse --address 10.0.0.1",
            ),
            (
                "t perf --color never --quiet -c h",
                "t perf client tcp:h --color never --quiet",
            ),
            (
                "t perf -c h -J --bidir -O 1 -S 0x10 --quiet",
                "t perf client tcp:h --iperf3-json --bidir --omit 1 --tos 0x10 --quiet",
            ),
            (
                "t perf -s -1 -p 7",
                "t perf server --listen udp:0.0.0.0:7 --listen tcp:0.0.0.0:7 --listen sctp:0.0.0.0:7 --one-off",
            ),
            // Ours, and those of other commands.
            ("t perf client tcp:h", "t perf client tcp:h"),
            ("t perf --help", "t perf --help"),
            ("t load -s x", "t load -s x"),
            ("t perf", "t perf"),
        ] {
            assert_eq!(spelled(theirs).as_deref(), Ok(ours), "{theirs}");
        }
    }

    #[test]
    fn what_cannot_be_done_is_told() {
        for (wrong, reason) in [
            ("t perf -s -c h", "exclude"),
            ("t perf -R", "-s begins"),
            ("t perf -c", "needs a value"),
            ("t perf -c h -i 2", "one second"),
            ("t perf -c h -B 10.0.0.1", "-B"),
            ("t perf -c h --colour", "--colour"),
        ] {
            let error = spelled(wrong).expect_err(wrong);
            assert!(error.contains(reason), "{wrong}: {error}");
        }
    }
}
