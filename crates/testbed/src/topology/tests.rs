//! What texts say, and what is wrong with them.

use std::time::Duration;

use proptest::prelude::*;

use super::{MAXIMUM_LINKS, READY_MADE, Topology, ready_made};
use crate::Plan;

const TWO: &str = r#"
[[host]]
name = "a"
sysctl = { "net.ipv4.tcp_congestion_control" = "reno", "net.ipv4.tcp_sack" = 0 }

[[host]]
name = "b"

[[link]]
name = "line"
between = ["a", "b"]
mtu = 1400
both = { delay = "50ms", loss = "1%" }
backward = { delay = "20ms" }

[[rule]]
source = "10.1.0.1"
destination = "any"
link = "line"
duplicate = "1%"
"#;

#[test]
fn a_text_says_what_it_says() {
    let topology = Topology::parse(TWO, &[]).unwrap();
    assert_eq!(topology.nodes.len(), 2);
    let sysctl = &topology.nodes[0].sysctl;
    assert_eq!(sysctl["net.ipv4.tcp_congestion_control"], "reno");
    assert_eq!(sysctl["net.ipv4.tcp_sack"], "0");
    let line = &topology.links[0];
    assert_eq!((line.between, line.mtu), ([0, 1], 1400));
    let [forward, backward] = &line.directions;
    assert_eq!(forward.delay, Duration::from_millis(50));
    assert_eq!(backward.delay, Duration::from_millis(20));
    assert_eq!(backward.loss, forward.loss);
    assert_eq!(topology.rules[0].link.as_deref(), Some("line"));
    assert_eq!(topology.rules[0].destination, None);
}

#[test]
fn parameters_count_what_is_there_several_times() {
    let text = ready_made("dumbbell").unwrap().text;
    for senders in [1, 3, 100] {
        let topology = Topology::parse(text, &[("senders", senders)]).unwrap();
        assert_eq!(topology.nodes.len() as u32, 2 + 2 * senders);
        assert_eq!(topology.links.len() as u32, 1 + 2 * senders);
        assert!(topology.node(&format!("receiver{senders}")).is_some());
    }
    let error = Topology::parse(text, &[("callers", 2)]).unwrap_err();
    assert!(error.to_string().contains("senders"), "{error}");
}

#[test]
fn what_is_wrong_is_told_with_its_line() {
    let host = "[[host]]\nname = \"a\"\n";
    let two = format!("{host}[[host]]\nname = \"b\"\n");
    let link =
        |rest: &str| format!("{two}[[link]]\nname = \"l\"\nbetween = [\"a\", \"b\"]\n{rest}\n");
    for (text, line, named) in [
        ("".to_owned(), None, "[[host]]"),
        ("[[host]\n".to_owned(), Some(1), ""),
        ("[[host]]\nnam = \"a\"\n".to_owned(), Some(2), "nam"),
        ("[[host]]\nname = \"a b\"\n".to_owned(), Some(2), "a b"),
        (format!("{host}{host}"), Some(4), "already"),
        (
            format!("{two}[[link]]\nname = \"l\"\nbetween = [\"a\", \"c\"]\n"),
            Some(7),
            "\"c\"",
        ),
        (
            format!("{two}[[link]]\nname = \"l\"\nbetween = [\"a\", \"a\"]\n"),
            Some(7),
            "itself",
        ),
        (link("mtu = 1000"), Some(8), "1280"),
        (link("both = { delay = \"50\" }"), Some(8), "delay"),
        (link("both = { dely = \"50ms\" }"), Some(8), "dely"),
        (link("both = { loss = 0.1 }"), Some(8), "loss"),
        (link("both = { preset = \"moon\" }"), Some(8), "moon"),
        (
            link("both = { bandwidth = \"trace /etc/passwd\" }"),
            Some(8),
            "/etc/passwd",
        ),
        (
            link("addresses = [[\"10.1.0.2\"], []]"),
            Some(8),
            "10.1.0.2",
        ),
        (
            link("addresses = [[\"127.0.0.1/8\"], []]"),
            Some(8),
            "127.0.0.1",
        ),
        (
            link("addresses = [[\"10.1.0.0/24\"], []]"),
            Some(8),
            "10.1.0.0",
        ),
        (
            link("addresses = [[\"10.1.0.1/24\"], [\"10.2.0.1/24\"]]"),
            Some(8),
            "10.2.0.1",
        ),
        (
            link("addresses = [[\"10.1.0.1/24\"], [\"10.1.0.1/24\"]]"),
            Some(8),
            "10.1.0.1",
        ),
        (
            link("[[link.schedule]]\nfrom = \"1s\"\nuntil = \"1s\"\ndown = true"),
            Some(8),
            "before it has begun",
        ),
        (
            link("schedule = [{ from = \"1s\", dely = \"50ms\" }]"),
            Some(8),
            "dely",
        ),
        (link("count = 2"), Some(6), "{n}"),
        (format!("{host}count = 2\n"), Some(2), "{n}"),
        (
            "[[host]]\nname = \"a{n}\"\ncount = \"many\"\n".to_owned(),
            Some(3),
            "many",
        ),
        (
            "[[host]]\nname = \"a{n}\"\ncount = 4000000000\n".to_owned(),
            Some(3),
            "4000000000",
        ),
        (
            format!("{host}sysctl = {{ \"kernel.panic\" = 1 }}\n"),
            Some(3),
            "kernel.panic",
        ),
        (
            format!("{host}sysctl = {{ \"net...x\" = 1 }}\n"),
            Some(3),
            "net...x",
        ),
        (format!("{host}[[rule]]\nlink = \"l\"\n"), Some(3), "\"l\""),
        (
            format!("{host}[[rule]]\nsource = \"x\"\n"),
            Some(3),
            "\"x\"",
        ),
    ] {
        let error = Topology::parse(&text, &[]).unwrap_err();
        assert_eq!(error.line, line, "{text}: {error}");
        assert!(error.to_string().contains(named), "{text}: {error}");
    }
}

#[test]
fn the_example_of_the_manual_is_a_topology() {
    let manual = include_str!("../../../../docs/net.md");
    let (_, behind) = manual.split_once("```toml\n").unwrap();
    let (text, _) = behind.split_once("```").unwrap();
    let topology = Topology::parse(text, &[("phones", 4)]).unwrap();
    assert_eq!((topology.nodes.len(), topology.links.len()), (6, 5));
    check(&topology);
}

#[test]
fn a_schedule_changes_each_direction_from_what_it_is() {
    let both = "both = { delay = \"5ms\" }\nbackward = { loss = \"1%\" }";
    let text = format!(
        "{}[[link.schedule]]\nfrom = \"10s\"\nuntil = \"20s\"\ndown = true\n\
         [[link.schedule]]\nfrom = \"30s\"\ndelay = \"50ms\"\n",
        "[[host]]\nname = \"a\"\n[[host]]\nname = \"b\"\n\
         [[link]]\nname = \"l\"\nbetween = [\"a\", \"b\"]\n"
            .to_owned()
            + both
            + "\n"
    );
    let topology = Topology::parse(&text, &[]).unwrap();
    let line = &topology.links[0];
    let second = std::time::Duration::from_secs;
    for (direction, schedule) in line.directions.iter().zip(&line.schedules) {
        let changed = link::LinkConfig {
            delay: std::time::Duration::from_millis(50),
            ..direction.clone()
        };
        let expected =
            link::Schedule::new()
                .down(second(10), second(20))
                .config(second(30), None, changed);
        assert_eq!(schedule, &expected);
    }
    assert_ne!(line.schedules[0], line.schedules[1]);
    check(&topology);
}

#[test]
fn files_are_read_beside_the_topology() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("trace.toml");
    std::fs::write(directory.path().join("opportunities"), "1\n5\n9\n").unwrap();
    let text = TWO.replace("loss = \"1%\"", "bandwidth = \"trace opportunities\"");
    std::fs::write(&path, text).unwrap();
    let topology = Topology::read(&path, &[]).unwrap();
    assert!(topology.links[0].directions[0].bottleneck.is_some());
    std::fs::remove_file(directory.path().join("opportunities")).unwrap();
    let error = Topology::read(&path, &[]).unwrap_err();
    assert!(error.to_string().contains("opportunities"), "{error}");
}

#[test]
fn a_long_text_is_refused() {
    let text = format!("{TWO}#{}", "x".repeat(super::MAXIMUM_TEXT));
    assert!(Topology::parse(&text, &[]).is_err());
}

#[test]
fn a_short_text_makes_no_long_list() {
    let text =
        format!("[[host]]\nname = \"h{{n}}\"\ncount = {MAXIMUM_LINKS}\n[[router]]\nname = \"r\"\n");
    assert!(Topology::parse(&text, &[]).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_text_breaks_the_reader(text in "(?s).{0,200}") {
        let _ = Topology::parse(&text, &[]);
    }

    /// Ready-made texts with some octets replaced: whatever is still a topology has a plan.
    #[test]
    fn what_is_read_can_be_planned(
        ready in 0..READY_MADE.len(),
        edits in prop::collection::vec((any::<prop::sample::Index>(), "[a-z0-9\"\\[\\]={}. \n]"), 0..6),
    ) {
        let mut text: Vec<char> = READY_MADE[ready].text.chars().collect();
        for (at, with) in edits {
            let at = at.index(text.len());
            text[at] = with.chars().next().unwrap_or(' ');
        }
        let text: String = text.into_iter().collect();
        if let Ok(topology) = Topology::parse(&text, &[]) {
            check(&topology);
        }
    }
}

/// Every interface has an address that no other one has, and the emulator accepts the network.
fn check(topology: &Topology) {
    let plan = Plan::new(topology.clone()).unwrap();
    let mut addresses: Vec<_> = (0..topology.nodes.len())
        .flat_map(|node| plan.addresses(node))
        .collect();
    let all = addresses.len();
    addresses.sort();
    addresses.dedup();
    assert_eq!(addresses.len(), all);
    let network = emulator::Network::new(&plan.network(), 1, std::time::Instant::now());
    let is_good = matches!(network, Ok(_) | Err(emulator::ConfigError::Rule(_)));
    assert!(is_good, "{:?}", network.err());
}
