//! Every option of every command with a value that makes no sense.

use clap::{Arg, Command, CommandFactory};

/// Kinds of values, as help names them, that may be any text: names, files, and what is read later, where a mistake is told
/// as the parser tells it.
const FREE: [&str; 41] = [
    "PORT[-PORT]",
    "CMD",
    "COMMAND",
    "CSV",
    "DIR",
    "FILE",
    "HOST",
    "IFACE",
    "KEYS",
    "LINK",
    "NAME",
    "NAME|all",
    "PASS",
    "PASSWORD",
    "PATH",
    "PATTERN",
    "POINT-CODE",
    "PROTOCOL",
    "SCRIPT",
    "TIME …",
    "SHARE …",
    "RATE …",
    "BYTES …",
    "URI",
    "USER",
    "NAME=NUMBER",
    "NAME=VALUE",
    "tone|FILE.wav",
    "VALUE",
    "NUMBER|SOURCE",
    "DESTINATION",
    "CALL-ID",
    "FILTER",
    "TEXT",
    "ADDRESS",
    "EXPRESSION",
    "USER-PATTERN:PASS",
    "NET",
    "TOPOLOGY",
    "REALM",
    "HOST[:PORT]",
];

/// No number, time, address, target or name of anything.
const NONSENSE: &str = "\u{1}?";

fn each(command: &Command, names: &[String], visit: &mut impl FnMut(&[String], &Arg)) {
    for argument in command.get_arguments() {
        visit(names, argument);
    }
    for child in command
        .get_subcommands()
        .filter(|child| child.get_name() != "help")
    {
        let names = [names, &[child.get_name().to_owned()]].concat();
        each(child, &names, visit);
    }
}

/// What an argument is called in messages and help.
fn value_name(argument: &Arg) -> String {
    let names = argument.get_value_names().unwrap_or_default();
    names.first().map_or_else(String::new, ToString::to_string)
}

#[test]
fn an_option_with_a_wrong_value_is_named_and_ends_with_2() {
    let mut program = crate::Arguments::command();
    program.build();
    let (mut tried, mut wrong) = (0, Vec::new());
    each(&program, &["tandem".to_owned()], &mut |names, argument| {
        let takes_value = argument.get_action().takes_values();
        let Some(long) = argument.get_long().filter(|_| takes_value) else {
            return;
        };
        let value = format!("--{long}={NONSENSE}");
        let words = names.iter().cloned().chain([value]);
        let is_free = FREE.contains(&value_name(argument).as_str())
            // A keyword has two values.
            || argument.get_num_args().is_some_and(|count| count.min_values() > 1);
        match crate::Arguments::command().try_get_matches_from(words) {
            Err(error) => {
                let text = error.to_string();
                let is_named = text.contains(&format!("--{long}"));
                // What is free may lack what it needs beside it, or be a file that is not there.
                if error.exit_code() != 2 || (!is_free && !is_named) {
                    wrong.push(format!("{} --{long}: {text}", names.join(" ")));
                }
                tried += usize::from(!is_free);
            }
            Ok(_) if is_free => {}
            Ok(_) => wrong.push(format!(
                "{} --{long} <{}> takes anything",
                names.join(" "),
                value_name(argument)
            )),
        }
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(tried > 150, "{tried} options were tried");
}

/// Times are written alike everywhere.
#[test]
fn every_time_takes_seconds_and_units() {
    let mut program = crate::Arguments::command();
    program.build();
    let (mut tried, mut wrong) = (0, Vec::new());
    each(&program, &["tandem".to_owned()], &mut |names, argument| {
        let Some(long) = argument
            .get_long()
            .filter(|_| value_name(argument) == "TIME")
        else {
            return;
        };
        for time in ["5", "0.5", "3s", "500ms", "2min"] {
            let words = names.iter().cloned().chain([format!("--{long}={time}")]);
            let result = crate::Arguments::command().try_get_matches_from(words);
            let refused = result.err().map(|error| error.to_string());
            if refused.is_some_and(|text| text.contains("invalid value")) {
                wrong.push(format!("{} --{long} {time}", names.join(" ")));
            }
            tried += 1;
        }
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(tried > 100, "{tried} times were tried");
}

/// Options whose names say a time have one.
#[test]
fn what_is_called_a_time_is_one() {
    let mut program = crate::Arguments::command();
    program.build();
    let mut wrong = Vec::new();
    each(&program, &["tandem".to_owned()], &mut |names, argument| {
        let long = argument.get_long().unwrap_or_default();
        let is_time = [
            "seconds", "duration", "hold", "interval", "settle", "linger",
        ]
        .contains(&long);
        if is_time && value_name(argument) != "TIME" {
            wrong.push(format!("{} --{long}", names.join(" ")));
        }
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
