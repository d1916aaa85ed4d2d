//! What comes with the program: manual pages, completions, service and package.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use test_support::{require_command, say_skipped};

use super::support::{program_path, tandem};

/// The version of cargo-deb that `scripts/package` installs.
fn cargo_deb_version() -> String {
    let script = fs::read_to_string(root().join("scripts/package")).expect("the script");
    let line = script
        .lines()
        .find_map(|line| line.strip_prefix("cargo_deb_version="));
    line.expect("the script names a version").to_owned()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn output_of(command: &mut Command) -> String {
    let output = command.output().expect("the command runs");
    assert!(
        output.status.success(),
        "{command:?}: {}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).expect("text")
}

fn all_pages() -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    output_of(
        tandem()
            .args(["man", "--output-dir"])
            .arg(directory.path().join("man1")),
    );
    directory
}

#[test]
fn every_command_has_a_manual_page_with_its_examples() {
    let directory = all_pages();
    let page =
        |name: &str| fs::read_to_string(directory.path().join("man1").join(name)).expect("a page");
    assert!(page("tandem.1").contains("tandem\\-proxy(1)"));
    let users = page("tandem-proxy-users.1");
    assert!(users.contains("tandem\\-proxy\\-users\\-add(1)"));
    assert!(users.contains(".SH \"SEE ALSO\"\ntandem\\-proxy(1), tandem(1)"));
    let proxy = page("tandem-proxy.1");
    // As the help has it, in columns.
    assert!(proxy.contains("tandem proxy users add alice \\-\\-realm example.org  "));
    assert!(proxy.contains(".SH \"EXIT STATUS\"\n0 "));
    assert!(proxy.contains("TANDEM_CONFIG"));
}

#[test]
fn mandoc_finds_nothing_wrong_with_the_manual_pages() {
    let Some(mandoc) = require_command("mandoc", "mandoc") else {
        return;
    };
    let directory = all_pages();
    let pages = fs::read_dir(directory.path().join("man1")).expect("the pages");
    let pages = pages.map(|page| page.expect("a page").path());
    let output = Command::new(mandoc)
        .args(["-Tlint", "-Wwarning"])
        .args(pages)
        .output()
        .expect("it runs");
    let report = String::from_utf8_lossy(&output.stdout);
    // The date would be that of the build: there is none.
    let mistakes: Vec<&str> = report
        .lines()
        .filter(|line| !line.contains("missing date"))
        .collect();
    assert!(mistakes.is_empty(), "{mistakes:#?}");
}

#[test]
fn one_page_is_printed_and_a_command_that_does_not_exist_is_told() {
    let page = output_of(tandem().args(["man", "proxy", "users"]));
    assert!(page.contains(".TH TANDEM-PROXY-USERS 1"), "{page}");
    let output = tandem().args(["man", "proxi"]).output().expect("it runs");
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("there is no command proxi"), "{text}");
}

#[test]
fn who_reads_only_the_beginning_breaks_nothing() {
    for arguments in [&["man"][..], &["completions", "zsh"]] {
        let mut child = tandem()
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it runs");
        // Nobody reads any more.
        drop(child.stdout.take());
        let output = child.wait_with_output().expect("it ends");
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && text.is_empty(), "{text}");
    }
}

#[test]
fn shells_read_their_completions() {
    for (shell, package, only_check) in [
        ("bash", "bash", "-n"),
        ("zsh", "zsh", "-n"),
        ("fish", "fish", "--no-execute"),
    ] {
        let script = output_of(tandem().args(["completions", shell]));
        let Some(program) = require_command(shell, package) else {
            continue;
        };
        let file = tempfile::NamedTempFile::new().expect("a file");
        fs::write(file.path(), script).expect("it is written");
        output_of(Command::new(program).arg(only_check).arg(file.path()));
    }
}

#[test]
fn bash_completes_commands_and_options() {
    let Some(bash) = require_command("bash", "bash") else {
        return;
    };
    let complete = |words: &str, word: &str| {
        let script = format!(
            "source <({program} completions bash)
             COMP_WORDS=({words}) COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
             _tandem tandem {word} ''
             echo ${{COMPREPLY[@]}}",
            program = program_path()
        );
        output_of(Command::new(&bash).args(["-c", &script]))
    };
    assert_eq!(complete("tandem pro", "pro"), "proxy\n");
    assert_eq!(complete("tandem proxy us", "us"), "users\n");
    assert_eq!(complete("tandem proxy --met", "--met"), "--metrics\n");
    assert_eq!(complete("tandem completions f", "f"), "fish\n");
}

#[test]
fn the_packaged_configuration_is_sound() {
    let file = root().join("crates/tandem/debian/tandem.toml");
    output_of(tandem().args(["proxy", "check", "--config"]).arg(file));
}

#[test]
fn systemd_finds_nothing_wrong_with_the_service() {
    let Some(analyze) = require_command("systemd-analyze", "systemd") else {
        return;
    };
    let unit = fs::read_to_string(root().join("crates/tandem/debian/tandem-proxy.service"))
        .expect("the unit");
    let directory = tempfile::tempdir().expect("a directory");
    let copy = directory.path().join("tandem-proxy.service");
    fs::write(&copy, unit.replace("/usr/bin/tandem", program_path())).expect("it is written");
    let output = Command::new(analyze)
        .args(["verify", "--man=no"])
        .arg(copy)
        .output()
        .expect("it runs");
    let report = String::from_utf8_lossy(&output.stderr);
    let mistakes: Vec<&str> = report
        .lines()
        .filter(|line| line.contains("tandem-proxy.service"))
        .collect();
    assert!(output.status.success() && mistakes.is_empty(), "{report}");
}

/// In a copy of this system that is thrown away. With the program that the tests have; `scripts/package --check` does the
/// same with the one that is delivered.
#[test]
fn the_package_installs_serves_and_leaves_nothing_behind() {
    let version = cargo_deb_version();
    let has_version = |program: &Path| {
        let output = Command::new(program).arg("--version").output();
        output.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains(&version))
    };
    // target/debug/tandem
    let target = Path::new(program_path()).ancestors().nth(2);
    let target = target.expect("the target directory");
    if !has_version(Path::new("cargo-deb")) && !has_version(&target.join("tools/bin/cargo-deb")) {
        // It takes two minutes of a processor.
        return say_skipped(&format!(
            "cargo-deb {version} is missing; scripts/package installs it"
        ));
    }
    if !nix::unistd::geteuid().is_root() {
        return say_skipped("the package is installed by root only");
    }
    for (command, package) in [
        ("dpkg-shlibdeps", "dpkg-dev"),
        ("strip", "binutils"),
        ("systemd-sysusers", "systemd"),
        ("ip", "iproute2"),
    ] {
        if require_command(command, package).is_none() {
            return;
        }
    }
    let said = output_of(
        Command::new(root().join("scripts/package"))
            .args(["--profile", "dev", "--no-build", "--check"])
            .env("CARGO_TARGET_DIR", target),
    );
    assert!(said.ends_with("package-check: passed\n"), "{said}");
}
