//! Pictures in memory.

use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::TestBackend;

use super::*;

fn screen() -> PhoneScreen {
    let accounts = ["sip:alice@example.org", "sip:sales@example.net"];
    let contacts = vec![Contact {
        name: "Bob".to_owned(),
        uri: "sip:robert@example.org".to_owned(),
    }];
    PhoneScreen::new(&accounts.map(str::to_owned), contacts, Vec::new(), false)
}

/// What a terminal of 80x24 shows.
fn picture(screen: &PhoneScreen, now: Instant) -> String {
    let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
    terminal
        .draw(|frame| {
            let area = frame.area();
            screen.draw(now, area, frame.buffer_mut());
        })
        .unwrap();
    let buffer = terminal.backend().buffer().clone();
    let line = |y| (0..80).map(|x| buffer[(x, y)].symbol()).collect::<String>();
    (0..24).map(line).collect::<Vec<_>>().join("\n")
}

fn press(screen: &mut PhoneScreen, keys: &str) -> Wish {
    let mut last = Wish::None;
    for key in keys.chars() {
        last = screen.press(match key {
            '\n' => Key::Enter,
            '\t' => Key::Tab,
            letter => Key::Letter(letter),
        });
    }
    last
}

fn call_is_up(screen: &mut PhoneScreen, now: Instant, call: u64) {
    let to = format!("sip:user{call}@example.org");
    screen.tell(now, &PhoneEvent::Dialing { call, to });
    let codec = "opus".to_owned();
    screen.tell(now, &PhoneEvent::Answered { call, codec });
}

#[test]
fn a_call_is_shown_with_its_measures() {
    let (mut screen, now) = (screen(), Instant::now());
    let expires = 600;
    screen.tell(
        now,
        &PhoneEvent::Registered {
            account: 0,
            expires,
            flows: 1,
        },
    );
    call_is_up(&mut screen, now, 7);
    let quality = CallQuality {
        lost: 0.012,
        jitter_ms: 4.4,
        round_trip_ms: Some(31.0),
        heard_db: -30.0,
        sent_db: -96.0,
        mos: 4.2,
        ..CallQuality::default()
    };
    screen.tell(now, &PhoneEvent::Quality { call: 7, quality });
    let picture = picture(&screen, now + Duration::from_secs(83));
    for part in [
        "> sip:alice@example.org  registered for 600 s",
        "  sip:sales@example.net  not registered",
        ">  1:23  up                     sip:user7@example.org",
        "opus  out ·········· in █████····· loss 1.2% jitter 4 rtt 31 mos 4.2",
        "? help",
    ] {
        assert!(picture.contains(part), "{part}:\n{picture}");
    }
}

#[test]
fn keys_do_what_they_do_in_baresip() {
    let (mut screen, now) = (screen(), Instant::now());
    call_is_up(&mut screen, now, 7);
    let call = Some(7);
    for (key, command) in [
        ("x", Command::Hold { call }),
        ("X", Command::Resume { call }),
        ("m", Command::Mute { call, on: true }),
        ("m", Command::Mute { call, on: false }),
        ("+", Command::Volume { call, db: 3.0 }),
        (
            "#",
            Command::Keys {
                call,
                keys: "#".to_owned(),
            },
        ),
        (
            "r200\n",
            Command::Transfer {
                call,
                to: "sip:200@example.org".to_owned(),
            },
        ),
        ("b", Command::Hangup { call }),
    ] {
        assert_eq!(press(&mut screen, key), Wish::Command(command), "{key}");
    }
    assert_eq!(press(&mut screen, "j"), Wish::None, "with whom?");
    call_is_up(&mut screen, now, 9);
    let join = Command::Join { call: 9, with: 7 };
    assert_eq!(press(&mut screen, "j"), Wish::Command(join));
    assert_eq!(screen.press(Key::Up), Wish::None);
    let hang_up = Command::Hangup { call };
    assert_eq!(screen.press(Key::Escape), Wish::Command(hang_up));
    assert_eq!(press(&mut screen, "q"), Wish::Quit);
}

#[test]
fn a_setting_is_turned_from_what_the_phone_says_it_is() {
    let (mut screen, now) = (screen(), Instant::now());
    let asked = |on| Wish::Command(Command::DoNotDisturb { on });
    assert_eq!(press(&mut screen, "N"), asked(true));
    assert_eq!(press(&mut screen, "N"), asked(true), "it is not yet so");
    let settings = PhoneEvent::Settings {
        do_not_disturb: true,
        auto_answer: false,
        conference: false,
    };
    screen.tell(now, &settings);
    assert!(picture(&screen, now).contains("do not disturb"));
    assert_eq!(press(&mut screen, "N"), asked(false));
}

#[test]
fn a_call_that_comes_is_answered() {
    let (mut screen, now) = (screen(), Instant::now());
    let incoming = PhoneEvent::Incoming {
        call: 3,
        account: 0,
        from: "sip:carol@example.org".to_owned(),
        display_name: Some("Carol\u{1b}[2J".to_owned()),
    };
    screen.tell(now, &incoming);
    let shown = picture(&screen, now);
    assert!(shown.contains("is calling"), "{shown}");
    assert!(
        !shown.contains('\u{1b}'),
        "a name does not steer the terminal"
    );
    let answer = Command::Answer { call: Some(3) };
    assert_eq!(screen.press(Key::Enter), Wish::Command(answer));
}

#[test]
fn a_line_is_completed_from_history_and_contacts() {
    let (mut screen, now) = (screen(), Instant::now());
    let dial = |to: &str, account| {
        let to = to.to_owned();
        Wish::Command(Command::Dial { account, to })
    };
    assert_eq!(
        press(&mut screen, "dbob\n"),
        dial("sip:robert@example.org", 0)
    );
    assert_eq!(
        press(&mut screen, "dBo\t\n"),
        dial("sip:robert@example.org", 0)
    );
    assert_eq!(
        press(&mut screen, "\t\n12\n"),
        dial("sip:12@example.net", 1)
    );
    for (call, to) in [(1, "sip:anna@example.org"), (2, "sip:andy@example.org")] {
        let to = to.to_owned();
        screen.tell(now, &PhoneEvent::Dialing { call, to });
    }
    assert_eq!(
        press(&mut screen, "dan\t\n"),
        dial("sip:andy@example.org", 1)
    );
    assert_eq!(
        press(&mut screen, "dan\t\t\n"),
        dial("sip:anna@example.org", 1)
    );
    press(&mut screen, "dxyz\t");
    assert!(picture(&screen, now).contains("call: xyz"));
}

#[test]
fn the_help_fits_and_every_size_is_drawn() {
    let (mut screen, now) = (screen(), Instant::now());
    call_is_up(&mut screen, now, 1);
    press(&mut screen, "?");
    let shown = picture(&screen, now);
    assert!(
        shown.contains("do not disturb") && shown.contains("Any key leads back."),
        "{shown}"
    );
    press(&mut screen, " ");
    for call in 2..20 {
        call_is_up(&mut screen, now, call);
    }
    for (width, height) in [(1, 1), (40, 10), (41, 11), (300, 3), (200, 60)] {
        let area = Rect::new(0, 0, width, height);
        screen.draw(now, area, &mut Buffer::empty(area));
    }
    assert!(picture(&screen, now).contains("user19"));
}

#[test]
fn a_path_that_failed_is_shown_until_it_works_again() {
    let (mut screen, now) = (screen(), Instant::now());
    call_is_up(&mut screen, now, 1);
    let path = |works| PhoneEvent::Path {
        peer: "192.0.2.1:5060".to_owned(),
        address: "198.51.100.1".to_owned(),
        works,
    };
    screen.tell(now, &path(false));
    let shown = picture(&screen, now);
    assert!(shown.contains("[path to 198.51.100.1 failed]"), "{shown}");
    assert!(shown.contains("sip:user1@example.org"), "the call goes on");
    screen.tell(now, &path(true));
    let shown = picture(&screen, now);
    assert!(!shown.contains("[path to"), "{shown}");
    // Or until its association is over; another one has paths of its own.
    screen.tell(now, &path(false));
    let removed = |peer: &str| PhoneEvent::PathRemoved {
        peer: peer.to_owned(),
        address: "198.51.100.1".to_owned(),
    };
    screen.tell(now, &removed("192.0.2.9:5060"));
    assert!(picture(&screen, now).contains("[path to 198.51.100.1 failed]"));
    screen.tell(now, &removed("192.0.2.1:5060"));
    assert!(!picture(&screen, now).contains("[path to"));
}

#[test]
fn uris_of_an_earlier_run_complete_a_line() {
    let history = vec!["sip:carol@example.com".to_owned()];
    let accounts = ["sip:alice@example.org".to_owned()];
    let mut screen = PhoneScreen::new(&accounts, Vec::new(), history, true);
    let shown = picture(&screen, Instant::now());
    assert!(shown.contains("[answers at once]"), "{shown}");
    let to = "sip:carol@example.com".to_owned();
    let dialed = press(&mut screen, "dca\t\n");
    assert_eq!(dialed, Wish::Command(Command::Dial { account: 0, to }));
}
