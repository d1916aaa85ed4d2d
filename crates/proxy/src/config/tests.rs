use super::*;

fn read(text: &str) -> Result<Settings, ConfigError> {
    Settings::read(Path::new("tandem.toml"), text)
}

#[track_caller]
fn refused(text: &str) -> Vec<String> {
    let error = read(text).expect_err("it is refused");
    error.to_string().lines().map(str::to_owned).collect()
}

fn example() -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tandem.example.toml");
    std::fs::read_to_string(file).expect("the example is there")
}

/// The example as it is when every setting in it is made to count: those without a default stand
/// behind a `#` without a space.
fn whole_example() -> String {
    let uncommented = |line: &str| match line.strip_prefix('#') {
        Some(setting) if !setting.is_empty() && !setting.starts_with([' ', '#']) => {
            setting.to_owned()
        }
        _ => line.to_owned(),
    };
    let lines: Vec<String> = example().lines().map(uncommented).collect();
    lines.join("\n")
}

#[test]
fn an_empty_file_is_a_configuration() {
    let settings = read("").expect("nothing is wrong");
    let default = ProxyConfig::default();
    assert_eq!(settings.proxy.registrar, default.registrar);
    assert_eq!(settings.proxy.policy, default.policy);
    assert_eq!(settings.proxy.transactions, default.transactions);
    assert_eq!(settings.proxy.transports.limits, default.transports.limits);
    assert_eq!(settings.proxy.records, RecordsSettings::default());
    assert_eq!(settings.shutdown, ShutdownSettings::default());
}

#[test]
fn the_example_says_what_is_so_anyway() {
    let settings = read(&example()).expect("nothing is wrong");
    for key in &settings.keys {
        assert_eq!(key.value, key.default, "{}", key.path);
        assert_eq!(
            key.is_set,
            key.default.is_some(),
            "a key with a default stands in the example with that: {}",
            key.path
        );
    }
}

#[test]
fn the_example_has_every_key_with_a_line_that_describes_it() {
    let settings = read(&whole_example()).expect("nothing is wrong");
    // Of several tables of a list one has to have the key.
    let of_any = |path: &str| -> String {
        let parts = path.split('[').map(|part| match part.split_once(']') {
            Some((_, rest)) => rest,
            None => part,
        });
        parts.collect()
    };
    let set: Vec<String> = settings
        .keys
        .iter()
        .filter(|key| key.is_set)
        .map(|key| of_any(&key.path))
        .collect();
    for key in &settings.keys {
        let path = of_any(&key.path);
        assert!(set.contains(&path), "{path} is missing in the example");
    }
    let live: Vec<String> = settings
        .keys
        .iter()
        .filter(|key| key.is_live)
        .map(|key| of_any(&key.path))
        .collect();
    let text = whole_example();
    let (mut before, mut table) = ("", "");
    for line in text.lines() {
        if line.starts_with('[') {
            table = line.trim_matches(['[', ']']);
        }
        let name = line.split_once(" = ").map(|(name, _)| name);
        if let Some(name) = name.filter(|name| !name.contains(' ')) {
            assert!(before.starts_with("# "), "nothing describes: {line}");
            let path = match table {
                "" => name.to_owned(),
                table => format!("{table}.{name}"),
            };
            let is_marked = before.starts_with("# [live]");
            let is_live = live.contains(&path);
            assert_eq!(
                is_marked, is_live,
                "is {path} taken over while the server runs?"
            );
        }
        before = line;
    }
}

#[test]
fn unknown_keys_are_named_with_what_was_meant() {
    assert_eq!(
        refused("domain = []\n[limits]\nbrust = \"1s\"\n[limits.connections]\ncolour = 1\n")[..2],
        [
            "tandem.toml:1: unknown key \"domain\": did you mean \"domains\"?",
            "tandem.toml:3: unknown key \"limits.brust\": did you mean \"burst\"?",
        ]
    );
    let [line] = &refused("[metrics]\ncolour = 1\n")[..] else {
        panic!("one line")
    };
    assert_eq!(
        line,
        "tandem.toml:2: unknown key \"metrics.colour\": [metrics] knows listen, hosts"
    );
}

#[test]
fn bad_values_are_told_all_at_once_with_what_is_allowed() {
    let lines = refused(
        "domains = \"example.org\"
[registrar]
minimum_expires = 60
maximum_bindings = 0
[[listener]]
transport = \"pigeon\"
address = \"0.0.0.0\"
[[listener]]
transport = \"udp\"
[sctp]
encapsulation_port = 70000
stream_policy = \"any\"
[metrics]
listen = true
[limits]
connections = 5
",
    );
    let expected = [
        (
            "1",
            "domains = \"example.org\"",
            "a list in brackets, each a host",
        ),
        ("3", "registrar.minimum_expires = 60", "such as \"30s\""),
        ("4", "registrar.maximum_bindings = 0", "1 or more"),
        ("6", "listener[0].transport = \"pigeon\"", "\"tls-sctp\""),
        ("7", "listener[0].address = \"0.0.0.0\"", "with a port"),
        ("8", "[listener[1]] needs a key \"address\"", ""),
        ("11", "sctp.encapsulation_port = 70000", "from 0 to 65535"),
        ("12", "sctp.stream_policy = \"any\"", "one of \"unordered\""),
        ("14", "metrics.listen = true", "an IP address with a port"),
        (
            "16",
            "limits.connections = 5",
            "a table, [limits.connections]",
        ),
    ];
    assert_eq!(lines.len(), expected.len(), "{lines:#?}");
    for (line, (number, found, allowed)) in lines.iter().zip(expected) {
        assert!(
            line.starts_with(&format!("tandem.toml:{number}: ")),
            "{line}"
        );
        assert!(line.contains(found) && line.contains(allowed), "{line}");
    }
}

#[test]
fn what_is_no_toml_is_named_with_its_line() {
    let lines = refused("domains = []\n[sctp\n");
    assert_eq!(lines.len(), 1);
    assert!(lines[0].starts_with("tandem.toml:2: "), "{lines:?}");
    let lines = refused("workers = 1\nworkers = 2\n");
    assert!(lines[0].starts_with("tandem.toml:2: "), "{lines:?}");
}

#[test]
fn addresses_that_associations_use_together_have_to_make_sense() {
    let listener = "[[listener]]\ntransport = \"sctp\"\naddress = \"192.0.2.1:5060\"\n";
    for (addresses, problem) in [
        ("\"192.0.2.1\"", "names only 192.0.2.1"),
        ("\"192.0.2.1\", \"192.0.2.1\"", "names 192.0.2.1 twice"),
        ("\"192.0.2.1\", \"::\"", "addresses = :: is not allowed"),
        ("\"192.0.2.2\", \"192.0.2.3\"", "no address of a listener"),
    ] {
        let lines = refused(&format!("{listener}[sctp]\naddresses = [{addresses}]\n"));
        assert_eq!(lines.len(), 1, "{lines:?}");
        let is_told = lines[0].starts_with("tandem.toml:5: ") && lines[0].contains(problem);
        assert!(is_told, "{lines:?}");
    }
    let together = "[sctp]\naddresses = [\"192.0.2.1\", \"2001:db8::1\"]\n";
    let settings = read(&format!("{listener}{together}")).expect("nothing is wrong");
    assert_eq!(settings.proxy.transports.sctp_addresses[0].len(), 2);
}

#[test]
fn the_profile_of_sctp_is_that_of_signalling_unless_another_is_named() {
    let rto_min = |text: &str| {
        let settings = read(text).expect("nothing is wrong");
        settings.proxy.transports.sctp.association.path.rto_min
    };
    let [signalling, rfc9260] = [200, 1000].map(std::time::Duration::from_millis);
    assert_eq!(rto_min(""), signalling);
    assert_eq!(rto_min("[sctp]\nprofile = \"signalling\"\n"), signalling);
    assert_eq!(rto_min("[sctp]\nprofile = \"rfc9260\"\n"), rfc9260);
    let lines = refused("[sctp]\nprofile = \"SIP\"\n");
    assert!(lines[0].contains("one of \"signalling\""), "{lines:?}");
}

#[test]
fn associations_take_other_addresses_of_their_peers_where_that_is_set() {
    for (text, expected) in [
        ("", false),
        ("[sctp]\naddress_reconfiguration = true\n", true),
    ] {
        let transports = read(text).expect("nothing is wrong").proxy.transports;
        let extensions = transports.sctp.association.extensions;
        assert_eq!(extensions.address_reconfiguration, expected);
    }
}

#[test]
fn settings_arrive() {
    let settings = read(
        "domains = [\"example.org\", \"192.0.2.1:5070\"]
advertise = \"sip.example.org\"
[[listener]]
transport = \"sctp\"
address = \"[::1]:5060\"
[registrar]
default_expires = \"10min\"
[forwarding]
mode = \"redirect\"
relay = \"anybody\"
ring_time = \"0s\"
look_again = \"0s\"
[location]
synchronous = \"normal\"
[keep_alive]
method = \"options\"
[limits]
requests_per_second_per_source = 5
unauthenticated_per_second_per_source = 0
",
    )
    .expect("nothing is wrong");
    let proxy = &settings.proxy;
    assert_eq!(proxy.domains[1].port, Some(5070));
    assert_eq!(
        proxy.transports.listeners,
        ["sctp:[::1]:5060".parse().expect("a listener")]
    );
    assert_eq!(proxy.registrar.default_expires.as_secs(), 600);
    assert_eq!(proxy.policy.forwarding.mode, crate::core::Mode::Redirect);
    assert_eq!(proxy.policy.forwarding.relay, crate::core::Relay::Anybody);
    assert_eq!(proxy.policy.forwarding.ring_time, None);
    assert_eq!(proxy.policy.forwarding.look_again, None);
    assert_eq!(proxy.location.synchronous.name(), "normal");
    let keep_alive = &proxy.policy.keep_alive;
    assert_eq!(
        keep_alive.method,
        Some(crate::core::KeepAliveMethod::Options)
    );
    let overload = &proxy.policy.overload;
    assert_eq!(overload.requests_per_second_per_source, Some(5));
    assert_eq!(overload.unauthenticated_per_second_per_source, None);
}

#[test]
fn a_listener_has_as_many_certificates_as_it_needs() {
    let listener = "[[listener]]\ntransport = \"tls\"\naddress = \"192.0.2.1:5061\"\n";
    let own = "certificate = \"a.pem\"\nkey = \"a.key\"\n";
    let further = "[[listener.certificates]]\ncertificate = \"b.pem\"\nkey = \"b.key\"\n\
                   [[listener.certificates]]\ncertificate = \"c.pem\"\nkey = \"c.key\"\n";
    let names = |text: &str| -> Vec<String> {
        let settings = read(&format!("{listener}{text}")).expect("nothing is wrong");
        let (_, tls) = settings
            .proxy
            .transports
            .tls
            .listeners
            .first()
            .expect("one")
            .clone();
        let names = tls.certificates.iter().map(|files| {
            let stem = files.certificate.with_extension("");
            assert_eq!(files.key, stem.with_extension("key"));
            stem.display().to_string()
        });
        names.collect()
    };
    assert_eq!(names(own), ["a"]);
    assert_eq!(names(&format!("{own}{further}")), ["a", "b", "c"]);
    assert_eq!(names(further), ["b", "c"]);
    for (text, expected) in [
        ("", "needs a certificate"),
        ("certificate = \"a.pem\"\n", "needs a certificate"),
        (
            "[[listener.certificates]]\ncertificate = \"b.pem\"\n",
            "[listener[0].certificates[0]] needs a key \"key\"",
        ),
    ] {
        let lines = refused(&format!("{listener}{text}"));
        assert!(
            lines.iter().any(|line| line.contains(expected)),
            "{lines:?}"
        );
    }
    let plain = listener.replace("tls", "tcp").replace("5061", "5060");
    assert!(!refused(&format!("{plain}{further}")).is_empty());
}

#[test]
fn intervals_and_routes_that_make_no_sense_are_told() {
    for (key, expected) in [
        ("default_expires = \"0s\"", "registrar.default_expires"),
        (
            "default_expires = \"2h\"\nmaximum_expires = \"1h\"",
            "registrar.default_expires",
        ),
        (
            "service_route = [\"edge.example.org\"]",
            "registrar.service_route",
        ),
        (
            "service_route = [\"sip:edge.example.org;lr\"]",
            "in brackets",
        ),
    ] {
        let error = read(&format!("[registrar]\n{key}\n")).expect_err("no sense");
        assert!(error.to_string().contains(expected), "{error}");
    }
    let error = read("[forwarding]\nlook_again = \"50ms\"\n").expect_err("too often");
    let expected = "forwarding.look_again = \"50ms\" is not allowed: \"0s\", or 100ms to 1min";
    assert!(error.to_string().contains(expected), "{error}");
    let route = "[registrar]\nservice_route = [\"<sip:edge.example.org;lr>\"]\n";
    assert_eq!(
        read(route)
            .expect("sound")
            .proxy
            .registrar
            .service_route
            .len(),
        1
    );
}

#[test]
fn what_can_never_work_is_told() {
    let udp = "[[listener]]\ntransport = \"udp\"\naddress = \"127.0.0.1:0\"\n";
    for (text, expected) in [
        (
            "[websocket]\npath = \"sip\"\n",
            "tandem.toml:2: websocket.path",
        ),
        (
            "[websocket]\norigins = [\"https://example.org/\"]\n",
            "tandem.toml:2: websocket.origins",
        ),
        (
            "[location]\nstore = \"memory:\"\n[authentication]\nregister = true\n",
            "tandem.toml:2: location.store has no users",
        ),
        (
            &format!(
                "{udp}[[route]]\ndomain = \"example.net\"\nto = \"sip:gw.example;transport=tls\"\n"
            ),
            "tandem.toml:6: route[0].to = \"sip:gw.example;transport=tls\" goes over tls",
        ),
        (
            &format!(
                "{udp}[[route]]\ndomain = \"example.net\"\ngroup = \"g\"\n[group.g]\n\
                 members = [{{ uri = \"sip:192.0.2.1;transport=tcp\" }}]\n"
            ),
            "group.g.members[0].uri",
        ),
        (
            "[[route]]\ndomain = \"example.net\"\nto = \"sip:192.0.2.1;transport=tcp\"\n\
             addresses = [\"198.51.100.1\"]\n",
            "tandem.toml:4: route[0].addresses: to = \"sip:192.0.2.1;transport=tcp\" cannot have",
        ),
        (
            "[[route]]\ndomain = \"example.net\"\nto = \"sip:192.0.2.1;transport=sctp\"\n\
             addresses = [\"gw.example\"]\n",
            "tandem.toml:4: route[0].addresses = [\"gw.example\"] is not allowed: a list in brackets, each an IP address",
        ),
    ] {
        let error = read(text).expect_err("it cannot work").to_string();
        assert!(error.contains(expected), "{error}");
    }
    let web = "[websocket]\npath = \"/sip\"\norigins = [\"https://example.org:8443\"]\n";
    assert!(read(web).is_ok());
}

#[test]
fn a_level_that_is_none_is_told() {
    for level in ["info", "warn,sip_net=debug", "proxy::driver=trace", "off"] {
        let text = format!("[log]\nlevel = \"{level}\"\n");
        let settings = read(&text).expect("nothing is wrong");
        assert_eq!(settings.log.level.as_deref(), Some(level));
    }
    for level in [
        "verbose",
        "info==",
        "",
        "=info",
        "sip_net=all",
        "sip net=debug",
    ] {
        let error = read(&format!("[log]\nlevel = \"{level}\"\n")).expect_err("no level");
        let error = error.to_string();
        assert!(
            error.contains(":2: log.level") && error.contains("warn, info"),
            "{error}"
        );
    }
}

#[test]
fn changes_are_told_by_when_they_take_effect() {
    let older = read("domains = [\"a.example\"]\n").expect("nothing is wrong");
    let newer = read(
        "domains = [\"b.example\"]\n[limits]\nrequests_per_second = 7\n[[listener]]\n\
         transport = \"udp\"\naddress = \"127.0.0.1:0\"\n",
    )
    .expect("nothing is wrong");
    let changes = older.changes(&newer);
    assert_eq!(changes.at_once, ["limits.requests_per_second"]);
    assert_eq!(
        changes.at_restart,
        [
            "domains",
            "listener[0].address",
            "listener[0].client_certificates",
            "listener[0].transport"
        ]
    );
    assert_eq!(newer.changes(&older).at_restart.len(), 4);
    assert!(older.changes(&older.clone()).is_empty());
    // What was not taken over stays to be told.
    let running = older.reloaded(newer.clone());
    assert_eq!(running.changes(&newer).at_once, [""; 0]);
    assert_eq!(running.changes(&newer).at_restart.len(), 4);
    assert!(running.changes(&older).at_restart.is_empty());
}

#[test]
fn what_a_listener_shows_is_exchanged_at_once_or_waits_for_it() {
    let listening = |port: u16, name: &str| {
        let text = format!(
            "[[listener]]\ntransport = \"tls\"\naddress = \"127.0.0.1:{port}\"\n\
             certificate = \"{name}.pem\"\nkey = \"{name}.key\"\n"
        );
        read(&text).expect("nothing is wrong")
    };
    let older = listening(5061, "a");
    let changes = older.changes(&listening(5061, "b"));
    assert_eq!(
        changes.at_once,
        ["listener[0].certificate", "listener[0].key"]
    );
    assert_eq!(changes.at_restart, [""; 0]);
    let changes = older.changes(&listening(5062, "b"));
    assert_eq!(changes.at_once, [""; 0]);
    assert_eq!(
        changes.at_restart,
        [
            "listener[0].address",
            "listener[0].certificate",
            "listener[0].key"
        ]
    );
    let running = older.reloaded(listening(5062, "b"));
    assert_eq!(running.changes(&listening(5062, "b")), changes);
    assert!(running.changes(&older).is_empty());
    assert_eq!(running.changes(&listening(5061, "b")).at_once.len(), 2);
}

#[test]
fn a_route_that_leads_nowhere_has_no_other_mistake() {
    let problems = refused(
        "[[route]]\ndomain = \"example.net\"\nprefix = \"+49\"\nmethod = \"INVITE\"\nmode = \"stateless\"\n\
         [[route]]\ndomain = \"example.com\"\ngroup = \"carriers\"\n",
    );
    assert_eq!(
        problems,
        ["tandem.toml:1: a route needs one of two keys: to = \"sip:...\" or group = \"NAME\""]
    );
    let problems = refused(
        "[[route]]\ndomain = \"example.net\"\nto = \"sip:192.0.2.1\"\n\
         [[route]]\ndomain = \"example.com\"\ngroup = \"carriers\"\n",
    );
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(problems[0].starts_with("tandem.toml:6: route[1].group: "));
}

#[test]
fn numbers_out_of_bounds_are_told_with_what_is_expected() {
    assert_eq!(
        refused("workers = -1\n[location]\ntimeout = \"50ms\"\n"),
        [
            "tandem.toml:1: workers = -1 is not allowed: a whole number from 0 on is expected",
            "tandem.toml:3: location.timeout = \"50ms\" is not allowed: 100ms or more is expected",
        ]
    );
}
