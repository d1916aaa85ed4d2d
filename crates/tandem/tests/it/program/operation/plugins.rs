//! Plugins of the running program: three of them under `tandem load` and SIPp, a script that is exchanged while a call rings,
//! what `check` and `test` say.

use std::path::Path;
use std::process::Command;

use test_support::{Peer, free_udp_port, require_command};

use super::sip::Phone;
use super::watching::{get, value};
use super::{PATIENCE, configuration, eventually, start};
use crate::program::support::{Proxy, tandem};

/// Two that are shipped, and one that changes messages in both directions.
const PLUGINS: &str = r#"
[metrics]
listen = "127.0.0.1:0"
[[plugin]]
file = "SHIPPED/call_limit.lua"
settings = { limit = 1000000 }
[[plugin]]
file = "SHIPPED/office_hours.lua"
settings = { users = { office = "sip:voicemail@192.0.2.80" } }
[[plugin]]
file = "mark.lua"
"#;

const MARK: &str = r#"
function on_route(request)
  request:set_header("X-Mark", tandem.location("sip:nobody@127.0.0.1") and "known" or "unknown")
  if request.method == "INVITE" and not request.in_dialog then tandem.count("calls") end
end
function on_branch(branch) branch:set_header("X-Branch", branch.target) end
function on_reply(response) response:set_header("X-Reply", response.status) end
function on_dialog_end() tandem.count("ends") end
"#;

/// A proxy with the three plugins.
fn start_with_plugins(directory: &Path) -> Proxy {
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../proxy/plugins");
    let more = PLUGINS.replace("SHIPPED", &shipped.display().to_string());
    std::fs::write(directory.join("mark.lua"), MARK).expect("written");
    let file = directory.join("tandem.toml");
    std::fs::write(&file, configuration(&more)).expect("written");
    let mut proxy = start(&file);
    proxy.peer.wait_for_output("metrics on http://", PATIENCE);
    proxy
}

/// So many calls have begun and ended, as the plugins have counted them, and no hook has failed.
fn assert_counted(proxy: &Proxy, calls: f64) {
    let count = |name: &str| {
        let (_, metrics) = get(proxy, "/metrics");
        let series = format!("tandem_plugin_count_total{{plugin=\"mark\",name=\"{name}\"}}");
        value(&metrics, &series)
    };
    assert_eq!(count("calls"), Some(calls));
    eventually("all calls have ended", || count("ends") == Some(calls));
    let (_, metrics) = get(proxy, "/metrics");
    let errors = metrics
        .lines()
        .filter(|line| line.starts_with("tandem_plugin_errors_total{"));
    for line in errors {
        assert!(line.ends_with(" 0"), "{line}: {}", proxy.peer.output());
    }
}

#[test]
fn load_goes_through_three_plugins() {
    let directory = tempfile::tempdir().expect("a directory");
    let proxy = start_with_plugins(directory.path());
    let output = tandem()
        .args(["load", "calls", "--transport", "udp", "--via"])
        .arg(format!("127.0.0.1:{}", proxy.port("udp")))
        .args(["--users", "10", "-r", "200", "-m", "300", "--no-screen"])
        .output()
        .expect("it runs");
    // A schedule that a busy machine has not kept is no failure of the proxy.
    let code = output.status.code();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(matches!(code, Some(0 | 3)), "{text}");
    assert_counted(&proxy, 300.0);
}

#[test]
fn sipp_calls_through_three_plugins() {
    let Some(program) = require_command("sipp", "sip-tester") else {
        return;
    };
    let directory = tempfile::tempdir().expect("a directory");
    let proxy = start_with_plugins(directory.path());
    let scenarios = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sipp");
    let sipp = |file: &str, arguments: &[&str]| {
        Peer::spawn(
            Command::new(&program)
                .arg(format!("127.0.0.1:{}", proxy.port("udp")))
                .arg("-sf")
                .arg(scenarios.join(file))
                .args(["-i", "127.0.0.1", "-p", &free_udp_port().to_string()])
                .args(["-mp", &free_udp_port().to_string()])
                .args(["-nostdin", "-timeout", "60", "-timeout_error"])
                .args(arguments)
                .current_dir(directory.path())
                .env("TERM", "dumb"),
        )
    };
    let answers = scenarios.join("callee.xml");
    let answers = answers.to_str().expect("a UTF-8 path");
    let _callee = sipp("callee-register.xml", &["-m", "1", "-oocsf", answers]);
    let registered = || proxy.peer.output().contains("registered user=\"callee@");
    eventually("the callee has registered", registered);
    let mut caller = sipp("caller.xml", &["-s", "callee", "-m", "100", "-r", "50"]);
    let status = caller.wait(4 * PATIENCE);
    assert!(status.success(), "not every call came about: {status}");
    assert_counted(&proxy, 100.0);
}

/// Written beside the file and moved there.
fn replace(file: &Path, text: &str) {
    let new = file.with_extension("new");
    std::fs::write(&new, text).expect("written");
    std::fs::rename(&new, file).expect("moved");
}

#[test]
fn a_script_is_exchanged_while_a_call_rings() {
    let directory = tempfile::tempdir().expect("a directory");
    let script = |said: &str| {
        format!(
            "function on_request(request)
               if request.method == 'MESSAGE' then request:reply(480, '{said}') end
             end
             function on_reply(response) response:set_header('X-Reply', '{said}') end"
        )
    };
    let plugin = directory.path().join("said.lua");
    std::fs::write(&plugin, script("old")).expect("written");
    let file = directory.path().join("tandem.toml");
    let text = configuration("[[plugin]]\nfile = \"said.lua\"\n");
    std::fs::write(&file, text).expect("written");
    let mut proxy = start(&file);
    let (caller, callee) = (Phone::new(&proxy, "alice"), Phone::new(&proxy, "bob"));
    assert_eq!(callee.register("r1"), 200);
    let contact = format!("Contact: <sip:alice@{}>\r\n", caller.address());
    let bob = "<sip:bob@127.0.0.1>";
    caller.request("INVITE", "sip:bob@127.0.0.1", bob, "c1", &contact);
    let invite = callee.receive_one("INVITE ");
    let other = Phone::new(&proxy, "carol");
    let said = |call: &str| {
        let response = other.ask("MESSAGE", "sip:bob@127.0.0.1", "bob", call, "");
        response
            .text()
            .lines()
            .next()
            .unwrap_or_default()
            .to_owned()
    };
    assert_eq!(said("m1"), "SIP/2.0 480 old");

    // One that is wrong changes nothing, and the log says where.
    replace(&plugin, "function on_request(\n\nend");
    proxy.peer.wait_for_output("said.lua:3: ", PATIENCE);
    assert_eq!(said("m2"), "SIP/2.0 480 old");

    replace(&plugin, &script("new"));
    proxy.peer.wait_for_output("reloaded changed=", PATIENCE);
    assert_eq!(said("m3"), "SIP/2.0 480 new");
    // The call that rings is answered.
    callee.answer(&invite, "200 OK");
    let answer = caller.receive_one("SIP/2.0 200");
    assert!(answer.text().contains("X-Reply: new"), "{}", answer.text());
    caller.within("ACK", &answer);
    callee.receive_one("ACK ");
    caller.within("BYE", &answer);
    let bye = callee.receive_one("BYE ");
    callee.answer(&bye, "200 OK");
    caller.receive_one("SIP/2.0 200");
}

#[test]
fn check_shows_mistakes_and_doubts_and_test_runs_tests() {
    let directory = tempfile::tempdir().expect("a directory");
    let write = |name: &str, text: &str| {
        std::fs::write(directory.path().join(name), text).expect("written");
    };
    let run = |arguments: &[&str]| {
        let output = tandem()
            .arg("proxy")
            .args(arguments)
            .current_dir(directory.path())
            .output()
            .expect("it runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned()
            + &String::from_utf8_lossy(&output.stderr);
        (output.status.code(), text)
    };
    write(
        "tandem.toml",
        &configuration("[[plugin]]\nfile = \"x.lua\"\n"),
    );
    write(
        "x.lua",
        "function on_request(request)\n  requets:reply(480)\nend\n",
    );
    let (code, text) = run(&["check", "--config", "tandem.toml"]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("x.lua:2: warning: requets"), "{text}");
    write(
        "x.lua",
        "function on_request(request)\n  request:reply(480\nend\n",
    );
    let (code, text) = run(&["check", "--config", "tandem.toml"]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("x.lua:3: "), "{text}");

    write(
        "x.lua",
        "function on_request(request) request:reply(480) end",
    );
    write(
        "x_test.lua",
        "function test_one() assert(simulate():send('OPTIONS sip:bob@example.com')[1].status == 480) end
         function test_two() error('as it should') end",
    );
    let (code, text) = run(&["test", "x.lua"]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("x: test_one ... ok"), "{text}");
    assert!(
        text.contains("x: test_two ... FAILED: x_test.lua:2: as it should"),
        "{text}"
    );
}

/// Who lets in everybody is told so, and what to do; who listens on loopback is not.
#[test]
fn a_server_that_is_open_to_anybody_says_so() {
    const WARNING: &str = "anybody who reaches this server may register and call as anybody";
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("tandem.toml");
    let said = |text: &str| {
        std::fs::write(&file, text).expect("written");
        let mut command = tandem();
        command.arg("proxy").arg("--config").arg(&file);
        let mut peer = Peer::spawn(&mut command);
        peer.wait_for_output("metrics on http://", PATIENCE);
        peer.output().matches(WARNING).count()
    };
    let more = "[metrics]\nlisten = \"127.0.0.1:0\"\n";
    let here = configuration(more);
    let everywhere = here.replace("\"127.0.0.1:0\"\n[location]", "\"0.0.0.0:0\"\n[location]");
    assert_ne!(here, everywhere);
    assert_eq!(said(&here), 0);
    assert_eq!(said(&everywhere), 1);
    let database = format!("sqlite:{}", directory.path().join("x.db").display());
    let asking = everywhere.replace("memory:", &database);
    let asking = format!("{asking}[authentication]\nregister = true\ncalls = true\n");
    assert_eq!(said(&asking), 0);
}
