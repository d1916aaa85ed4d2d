//! `tandem capture live` on a loopback interface of its own, with a terminal and without one.

use std::path::Path;
use std::time::Duration;

use test_support::{Namespace, Peer, require_command, wait_until};

use crate::program::capture::{agree_with_demo, check, json};
use crate::program::support::{program_path, send_signal, tandem};
use crate::program::tmux::Tmux;

/// What a busy machine may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// Makes calls whose true figures it writes to a file.
fn demo(namespace: &Namespace, directory: &Path, transports: &str, calls: &str) {
    let output = namespace
        .command(program_path())
        .args(["demo", "--loss", "0", "--transport", transports])
        .args(["--calls", calls, "--html"])
        .arg(directory.join("demo.html"))
        .arg("--json")
        .arg(directory.join("demo.json"))
        .output()
        .expect("it runs");
    check(&output);
}

#[test]
fn what_is_heard_is_what_was_said() {
    let Some(namespace) = Namespace::new() else {
        return;
    };
    let directory = tempfile::tempdir().expect("a directory");
    let file = |name: &str| directory.path().join(name);
    let mut live = Peer::spawn(
        namespace
            .command(program_path())
            .args(["capture", "live", "-i", "lo", "--json"])
            .arg(file("live.json"))
            .arg("--csv")
            .arg(file("live.csv"))
            .arg("--html")
            .arg(file("live.html")),
    );
    live.wait_for_output("listening on lo", PATIENCE);
    demo(&namespace, directory.path(), "udp,tcp,sctp", "50");
    // The files can be looked at meanwhile.
    for name in ["live.csv", "live.json"] {
        let has_some = || std::fs::metadata(file(name)).is_ok_and(|metadata| metadata.len() > 0);
        assert!(wait_until(PATIENCE, has_some), "{name} is empty");
    }
    send_signal(live.id(), "INT");
    live.wait_for_output("Metrics of RFC 6076", PATIENCE);
    live.wait(PATIENCE);

    let run = json(&file("live.json"))["runs"][0].clone();
    agree_with_demo(&run, &json(&file("demo.json")));
    let csv = std::fs::read_to_string(file("live.csv")).expect("it was written");
    assert_eq!(
        csv.lines().count() as u64,
        1 + run["session_count"].as_u64().unwrap()
    );
    let page = std::fs::read_to_string(file("live.html")).expect("it was written");
    assert!(page.contains("Slowest calls") && page.contains("Responses over time"));
}

#[test]
fn calls_are_browsed_searched_and_saved_in_a_terminal() {
    let (Some(program), Some(namespace)) = (require_command("tmux", "tmux"), Namespace::new())
    else {
        return;
    };
    let directory = tempfile::tempdir().expect("a directory");
    let file = |name: &str| directory.path().join(name);
    let live = format!(
        "{} capture live -i lo --filter udp; echo ended with $?; sleep 600",
        program_path()
    );
    let tmux = Tmux::start(program, file("tmux"), &live, |program| {
        namespace.command(program)
    });
    tmux.wait_for("lo: 0 packets");

    demo(&namespace, directory.path(), "udp", "30");
    let list = tmux.wait_for("INVITE");
    assert!(
        list.contains("REGISTER") && list.contains("user1@"),
        "{list}"
    );

    // All calls of a user, then the messages of one.
    tmux.press(&["/"]);
    tmux.type_text("INVITE sip:user9@");
    tmux.press(&["Enter"]);
    let list = tmux.wait_for("with \"INVITE sip:user9@\"");
    assert!(!list.contains("REGISTER"), "{list}");
    tmux.press(&["Enter"]);
    let ladder = tmux.wait_for("180 Ringing");
    assert!(ladder.contains('▶') && ladder.contains("BYE"), "{ladder}");
    tmux.press(&["Enter"]);
    let message = tmux.wait_for("↑ ↓ scroll");
    assert!(message.contains("INVITE sip:user9@"), "{message}");
    tmux.press(&["Escape"]);
    // Two of them that come at once are another key. The ladder is back when its keys are.
    tmux.wait_for("Enter message");
    tmux.press(&["Escape"]);
    tmux.wait_for("Method");

    // One of them goes to a file.
    tmux.press(&["Space", "s"]);
    tmux.wait_for("Save as: calls.pcapng");
    tmux.press(&["BSpace"; "calls.pcapng".len()]);
    let saved = file("saved.pcapng");
    tmux.type_text(&saved.display().to_string());
    tmux.press(&["Enter"]);
    tmux.wait_for("of 1 call in");
    // The calls are over when some seconds have passed without a further message.
    tmux.press(&["i"]);
    tmux.wait_for("Delays at the server");
    tmux.press(&["End"]);
    tmux.wait_for("Response time");
    tmux.press(&["i", "q"]);
    tmux.wait_for("ended with 0");

    let output = tandem()
        .args(["capture", "analyze"])
        .arg(&saved)
        .arg("--json")
        .arg(file("saved.json"))
        .output()
        .expect("it runs");
    check(&output);
    let run = json(&file("saved.json"))["runs"][0].clone();
    assert_eq!(run["session_count"], 1, "{run}");
    assert_eq!(run["outcomes"]["completed"], 1);
    assert_eq!(
        run["sessions"][0]["to"]
            .as_str()
            .map(|to| to.starts_with("user9@")),
        Some(true)
    );
}

#[test]
fn mistakes_are_explained() {
    for (arguments, status, said) in [
        (&["-i", "nothing0"][..], 1, "there is no interface nothing0"),
        (&["-i", "lo", "--filter", "port"], 2, "needs a value"),
        (&[], 2, "--interface"),
    ] {
        let output = tandem()
            .args(["capture", "live"])
            .args(arguments)
            .output()
            .expect("it runs");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{errors}");
        assert!(errors.contains(said), "{errors}");
    }
}
