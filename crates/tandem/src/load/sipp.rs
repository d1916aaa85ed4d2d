//! The short options of SIPp, whose names have several letters: written as the long ones that they mean.

use std::ffi::{OsStr, OsString};

/// What SIPp calls it, and what it is here. Options of one letter are those of the arguments themselves.
const MEANINGS: [(&str, &str); 19] = [
    ("-au", "--auth-user"),
    ("-ap", "--auth-password"),
    ("-inf", "--users-file"),
    ("-sf", "--scenario"),
    ("-key", "--keyword"),
    ("-cp", "--control-port"),
    ("-trace_msg", "--trace-messages"),
    ("-trace_err", "--trace-errors"),
    ("-trace_logs", "--trace-logs"),
    ("-trace_stat", "--trace-statistics"),
    ("-trace_counts", "--trace-counts"),
    ("-fd", "--trace-interval"),
    // The names of what is built in are ours: there is no `uac` or `uas`.
    ("-sn", "--scenario"),
    ("-nr", "--no-retransmit"),
    ("-bg", "--detach"),
    ("-3pcc", "--twin"),
    ("-master", "--master"),
    ("-slave", "--slave"),
    ("-slave_cfg", "--peers-file"),
];

/// Times that SIPp has in milliseconds where they have no unit, and what they are here.
const MILLISECONDS: [(&str, &str); 2] = [("-d", "--hold"), ("-rp", "--rate-period")];

/// Names of files, each of which belongs to another option.
const FILES: [(&str, &str); 4] = [
    ("-message_file", "--trace-messages="),
    ("-error_file", "--trace-errors="),
    ("-log_file", "--trace-logs="),
    ("-stf", "--trace-statistics="),
];

/// The arguments of the program, with SIPp's options of several letters in words that the reader of
/// arguments takes, where the command is `load`.
pub(crate) fn spelled_out(arguments: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = arguments.into_iter().collect();
    if arguments.get(1).is_none_or(|command| command != "load") {
        return arguments;
    }
    let options = arguments
        .iter_mut()
        .skip(2)
        .take_while(|argument| argument.as_os_str() != OsStr::new("--"));
    let mut file_of = None;
    let mut is_milliseconds = false;
    for argument in options {
        if std::mem::take(&mut is_milliseconds) {
            in_milliseconds(argument);
            continue;
        }
        if let Some((_, long)) = MILLISECONDS.iter().find(|(short, _)| argument == short) {
            *argument = OsString::from(long);
            is_milliseconds = true;
            continue;
        }
        if let Some(option) = std::mem::replace(
            &mut file_of,
            FILES
                .iter()
                .find_map(|(short, long)| (*argument == **short).then_some(*long)),
        ) {
            let mut whole = OsString::from(option);
            whole.push(&*argument);
            *argument = whole;
            file_of = None;
            continue;
        }
        let meaning = MEANINGS.iter().find(|(short, _)| argument == short);
        if let Some((_, long)) = meaning {
            *argument = OsString::from(long);
        }
    }
    let mut is_behind = false;
    arguments.retain(|argument| {
        is_behind |= argument == "--";
        is_behind || !FILES.iter().any(|(short, _)| argument == short)
    });
    arguments
}

/// Gives a number its unit.
fn in_milliseconds(time: &mut OsString) {
    let is_number = |text: &str| text.bytes().all(|octet| octet.is_ascii_digit());
    if time.to_str().is_some_and(is_number) {
        time.push("ms");
    }
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
    fn other_commands_and_values_are_left_alone() {
        let proxy = ["tandem", "proxy", "-au"];
        assert_eq!(spelled(&proxy), proxy);
        let behind = ["tandem", "load", "calls", "--", "-au"];
        assert_eq!(spelled(&behind), behind);
    }
}
