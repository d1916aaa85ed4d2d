//! The services, on either side.

use super::{connect, field, listen};

/// A message comes back on its stream, with its PPID and its order flag, whoever serves.
#[test]
fn echo_sends_back_what_came_as_it_came() {
    for echo_listens in [true, false] {
        let (served, typed): (&[&str], &[&str]) = (&["--service", "echo"], &["--ppid", "46"]);
        let mut listener = listen(if echo_listens { served } else { typed });
        let mut connector = connect(&listener, if echo_listens { typed } else { served });
        let typist = if echo_listens {
            &mut connector
        } else {
            &mut listener
        };
        typist.type_line("plain");
        typist.type_line("/stream 3 third");
        typist.type_line("/unordered /stream 7 loose");
        typist.type_line("/stream 3 again");

        let plain = typist.line("text=\"plain\"");
        assert_eq!(
            (field(&plain, "stream"), field(&plain, "ppid")),
            ("0", "46")
        );
        assert_eq!(
            (field(&plain, "unordered"), field(&plain, "bytes")),
            ("false", "5")
        );
        let loose = typist.line("text=\"loose\"");
        assert_eq!(
            (field(&loose, "stream"), field(&loose, "unordered")),
            ("7", "true")
        );
        let again = typist.line("text=\"again\"");
        assert_eq!((field(&again, "stream"), field(&again, "ssn")), ("3", "1"));
        assert_eq!(typist.count("\n< "), 4);

        connector.end_input();
        assert_eq!(connector.status(), Some(0));
        listener.end_input();
        assert_eq!(listener.status(), Some(0));
        let echo = if echo_listens { &listener } else { &connector };
        assert_eq!(echo.count("\n< "), 0, "what is echoed is not printed");
    }
}

#[test]
fn print_shows_what_comes_on_either_side() {
    let mut listener = listen(&[]);
    let mut connector = connect(&listener, &[]);
    connector.type_line("to the listener");
    listener.wait_for("text=\"to the listener\"");
    listener.type_line("to the connector");
    connector.wait_for("text=\"to the connector\"");
    connector.end_input();
    assert_eq!(connector.status(), Some(0));
    listener.wait_for("* SHUTDOWN_COMP");
}

#[test]
fn discard_counts_on_either_side() {
    for discard_listens in [true, false] {
        let (served, typed): (&[&str], &[&str]) = (&["--service", "discard"], &[]);
        let mut listener = listen(if discard_listens { served } else { typed });
        let mut connector = connect(&listener, if discard_listens { typed } else { served });
        let typist = if discard_listens {
            &mut connector
        } else {
            &mut listener
        };
        for _ in 0..10 {
            typist.type_line("12345");
        }
        typist.type_line("/shutdown");
        assert_eq!(connector.status(), Some(0));
        let discard = if discard_listens {
            &mut listener
        } else {
            &mut connector
        };
        let line = discard.line("= discarded ");
        assert_eq!(
            (field(&line, "messages"), field(&line, "bytes")),
            ("10", "50")
        );
        assert_eq!(discard.count("\n< "), 0);
    }
}

/// The listener sends and shuts down; so does a connector.
#[test]
fn daytime_sends_once_and_shuts_down() {
    let mut listener = listen(&["--service", "daytime"]);
    for _ in 0..2 {
        let mut connector = connect(&listener, &[]);
        assert_eq!(connector.status(), Some(0));
        let line = connector.line("\"20");
        assert!(
            line.starts_with("< ") && line.ends_with("Z\\r\\n\""),
            "{line}"
        );
        assert_eq!(connector.count("* SHUTDOWN_EVENT"), 1);
        assert_eq!(connector.count("* SHUTDOWN_COMP"), 1);
    }
    listener.wait_for_times("* SHUTDOWN_COMP", 2);

    let mut listener = listen(&[]);
    let mut connector = connect(&listener, &["--service", "daytime", "--ppid", "7"]);
    assert_eq!(connector.status(), Some(0));
    let line = listener.line("Z\\r\\n\"");
    assert_eq!(field(&line, "ppid"), "7");
}

#[test]
fn talker_sends_once_and_stays() {
    for talker_listens in [true, false] {
        let (served, typed): (&[&str], &[&str]) = (&["--service", "talker"], &[]);
        let mut listener = listen(if talker_listens { served } else { typed });
        let mut connector = connect(&listener, if talker_listens { typed } else { served });
        let (talker, other) = if talker_listens {
            (&mut listener, &mut connector)
        } else {
            (&mut connector, &mut listener)
        };
        other.wait_for("hello, this is tandem");
        other.type_line("are you there?");
        talker.wait_for("text=\"are you there?\"");
        talker.type_line("yes");
        other.wait_for("text=\"yes\"");
        connector.end_input();
        assert_eq!(connector.status(), Some(0));
        listener.wait_for("* SHUTDOWN_COMP");
    }
}

/// Lines go to the first association, to the one that is named, and to the next when it has ended.
#[test]
fn a_listener_serves_many() {
    let mut listener = listen(&[]);
    let mut connectors: Vec<_> = (0..4)
        .map(|number| {
            let connector = connect(&listener, &[]);
            listener.wait_for_times("* COMM_UP", number + 1);
            connector
        })
        .collect();
    let ids: Vec<String> = listener
        .peer
        .output()
        .lines()
        .filter(|line| line.starts_with("* COMM_UP"))
        .map(|line| field(line, "association").to_owned())
        .collect();
    for (number, connector) in connectors.iter_mut().enumerate() {
        connector.type_line(&format!("I am {number}"));
        listener.wait_for(&format!("text=\"I am {number}\""));
    }

    listener.type_line("first");
    connectors[0].wait_for("text=\"first\"");
    listener.type_line(&format!("/use {}", ids[2]));
    listener.type_line("third");
    connectors[2].wait_for("text=\"third\"");
    listener.type_line("/use 12345");
    listener.wait_for("! there is no association 12345");
    listener.type_line("/associations");
    listener.wait_for_times("= association ", 4);
    assert_eq!(listener.count("current=true"), 1);

    listener.type_line("/shutdown");
    assert_eq!(connectors[2].status(), Some(0));
    listener.wait_for("* SHUTDOWN_COMP");
    listener.type_line("who is next?");
    connectors[0].wait_for("text=\"who is next?\"");
    // All that are left are shut down with the listener.
    listener.signal("TERM");
    assert_eq!(listener.status(), Some(0));
    for number in [0, 1, 3] {
        assert_eq!(connectors[number].status(), Some(0));
    }
}
