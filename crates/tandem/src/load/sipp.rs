//! The short options of SIPp, whose names have several letters: written as the long ones that they mean.

use std::ffi::{OsStr, OsString};

/// What SIPp calls it, and what it is here. Options of one letter are those of the arguments themselves.
const MEANINGS: [(&str, &str); 23] = [
    ("-au", "--auth-user"),
    ("-ap", "--auth-password"),
    ("-inf", "--users-file"),
    ("-sf", "--scenario"),
    ("-key", "--keyword"),
    ("-set", "--variable"),
    ("-cp", "--control-port"),
    ("-trace_msg", "--trace-messages"),
    ("-trace_err", "--trace-errors"),
    ("-trace_logs", "--trace-logs"),
    ("-trace_stat", "--trace-statistics"),
    ("-trace_counts", "--trace-counts"),
    ("-fd", "--trace-interval"),
    ("-f", "--progress"),
    // The names of what is built in are ours: there is no `uac` or `uas`.
    ("-sn", "--scenario"),
    ("-nr", "--no-retransmit"),
    ("-aa", "--auto-answer"),
    ("-timeout", "--duration"),
    ("-bg", "--detach"),
    ("-3pcc", "--twin"),
    ("-master", "--master"),
    ("-slave", "--slave"),
    ("-slave_cfg", "--peers-file"),
];

/// Times that SIPp has in milliseconds where they have no unit, and what they are here.
const MILLISECONDS: [(&str, &str); 3] = [
    ("-d", "--hold"),
    ("-rp", "--rate-period"),
    ("-recv_timeout", "--receive-timeout"),
];

/// Names of files, each of which belongs to another option.
const FILES: [(&str, &str); 4] = [
    ("-message_file", "--trace-messages="),
    ("-error_file", "--trace-errors="),
    ("-log_file", "--trace-logs="),
    ("-stf", "--trace-statistics="),
];

/// What is about the inside of SIPp and changes nothing here, and how many values each has.
const WITHOUT_EFFECT: [(&str, usize); 23] = [
    ("-bind_local", 0),
    ("-buff_size", 1),
    ("-deadcall_wait", 1),
    ("-error_overwrite", 1),
    ("-log_overwrite", 1),
    ("-max_recv_loops", 1),
    ("-max_sched_loops", 1),
    ("-max_socket", 1),
    ("-mb", 1),
    ("-message_overwrite", 1),
    ("-nostdin", 0),
    ("-rtp_buffsize", 1),
    ("-rtp_threadtasks", 1),
    ("-sendbuffer_warn", 1),
    ("-send_timeout", 1),
    ("-skip_rlimit", 0),
    ("-timer_resol", 1),
    ("-watchdog_interval", 1),
    ("-watchdog_major_maxtriggers", 1),
    ("-watchdog_major_threshold", 1),
    ("-watchdog_minor_maxtriggers", 1),
    ("-watchdog_minor_threshold", 1),
    ("-watchdog_reset", 1),
];

/// The arguments of the program, with SIPp's options of several letters in words that the reader of
/// arguments takes, where the command is `load`.
pub(crate) fn spelled_out(arguments: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut arguments = arguments.into_iter();
    let mut spelled: Vec<OsString> = arguments.by_ref().take(2).collect();
    if spelled.get(1).is_none_or(|command| command != "load") {
        spelled.extend(arguments);
        return spelled;
    }
    while let Some(argument) = arguments.next() {
        if argument == "--" {
            spelled.push(argument);
            break;
        }
        if let Some(values) = found(&WITHOUT_EFFECT, &argument) {
            arguments.by_ref().take(values).for_each(drop);
        } else if let Some(long) = found(&MEANINGS, &argument) {
            spelled.push(long.into());
        } else if let Some(long) = found(&MILLISECONDS, &argument) {
            spelled.push(long.into());
            spelled.extend(arguments.next().map(in_milliseconds));
        } else if let Some(long) = found(&FILES, &argument) {
            let mut whole = OsString::from(long);
            whole.push(arguments.next().unwrap_or_default());
            spelled.push(whole);
        } else {
            spelled.push(argument);
        }
    }
    spelled.extend(arguments);
    spelled
}

/// What a list says of an argument.
fn found<T: Copy>(list: &[(&str, T)], argument: &OsStr) -> Option<T> {
    let mut list = list.iter();
    let found = list.find(|(name, _)| argument == *name)?;
    Some(found.1)
}

/// Gives a number its unit.
fn in_milliseconds(mut time: OsString) -> OsString {
    let is_number = |text: &str| text.bytes().all(|octet| octet.is_ascii_digit());
    if time.to_str().is_some_and(is_number) {
        time.push("ms");
    }
    time
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spelled(arguments: &[&str]) -> Vec<String> {
        spelled_out(arguments.iter().map(OsString::from))
            .into_iter()
            .map(|argument| argument.into_string().unwrap())
            .collect()
    }

    #[test]
    fn options_of_several_letters_are_those_of_sipp() {
        assert_eq!(
            spelled(&[
                "tandem", "load", "calls", "-r", "5", "-au", "alice", "-ap", "secret", "-inf",
                "u.csv"
            ]),
            [
                "tandem",
                "load",
                "calls",
                "-r",
                "5",
                "--auth-user",
                "alice",
                "--auth-password",
                "secret",
                "--users-file",
                "u.csv"
            ]
        );
    }

    #[test]
    fn files_of_traces_belong_to_their_options() {
        assert_eq!(
            spelled(&[
                "tandem",
                "load",
                "calls",
                "-trace_msg",
                "-message_file",
                "m.log",
                "-fd",
                "5"
            ]),
            [
                "tandem",
                "load",
                "calls",
                "--trace-messages",
                "--trace-messages=m.log",
                "--trace-interval",
                "5"
            ]
        );
    }

    #[test]
    fn times_of_sipp_are_in_milliseconds() {
        for (given, expected) in [
            (["-d", "5000"], ["--hold", "5000ms"]),
            (["-d", "5s"], ["--hold", "5s"]),
            (["-rp", "2000"], ["--rate-period", "2000ms"]),
            (["--hold", "5"], ["--hold", "5"]),
        ] {
            let words = ["tandem", "load", "calls"];
            let all = spelled(&[&words[..], &given].concat());
            assert_eq!(all, [&words[..], &expected].concat());
        }
    }

    #[test]
    fn what_changes_nothing_goes_with_its_value() {
        let given = ["-nostdin", "-m", "5", "-max_socket", "9", "-mb", "2048"];
        let words = ["tandem", "load", "calls"];
        let all = spelled(&[&words[..], &given].concat());
        assert_eq!(all, [&words[..], &["-m", "5"]].concat());
        assert_eq!(spelled(&[&words[..], &["-mb"]].concat()), words);
    }

    /// `docs/scenarios.md` says what each option is here.
    #[test]
    fn all_options_are_in_the_documentation() {
        let text = include_str!("../../../../docs/scenarios.md");
        let (_, table) = text.split_once("### Options of SIPp").expect("a table");
        let rows: Vec<&str> = table.lines().filter(|line| line.starts_with('|')).collect();
        let row = |name: &str| {
            let name = format!("`{name}");
            let of_name = |row: &&&str| {
                let options = row.split('|').nth(1).unwrap_or_default();
                let ends = |rest: &str| rest.starts_with([' ', '`']);
                options.split(&name).skip(1).any(ends)
            };
            let found = rows.iter().find(of_name);
            *found.unwrap_or_else(|| panic!("{name} has no row"))
        };
        for (name, long) in MEANINGS.iter().chain(&MILLISECONDS).chain(&FILES) {
            let row = row(name);
            let is_told = row.contains("the same") || row.contains(long.trim_end_matches('='));
            assert!(is_told, "{name}: {row}");
        }
        for (name, _) in WITHOUT_EFFECT {
            assert!(row(name).contains("without effect"), "{name}");
        }
    }

    #[test]
    fn other_commands_and_values_are_left_alone() {
        let proxy = ["tandem", "proxy", "-au"];
        assert_eq!(spelled(&proxy), proxy);
        let behind = ["tandem", "load", "calls", "--", "-au"];
        assert_eq!(spelled(&behind), behind);
    }
}
