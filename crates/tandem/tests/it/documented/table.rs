//! What becomes of each command that stands in a text: it is run, shortened where it would take long, or only
//! parsed, with the reason.

/// Whether a command is run.
#[derive(Debug)]
pub(super) enum How {
    Run,
    /// Only parsed, because of this.
    Parsed(#[expect(dead_code, reason = "for readers of the table")] &'static str),
}

/// A command as it stands in a text, and how it is run.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) command: &'static str,
    pub(super) how: How,
    /// Parts of it that are replaced by others.
    change: &'static [(&'static str, &'static str)],
    /// What is appended.
    more: &'static str,
    /// Servers that run meanwhile, with what they print when they are up.
    pub(super) servers: &'static [(&'static str, &'static str)],
    /// Commands that are run before.
    pub(super) before: &'static [&'static str],
    /// It is interrupted when it has printed this.
    pub(super) up: Option<&'static str>,
    pub(super) status: i32,
    pub(super) input: Option<&'static str>,
    /// It reads a capture of calls.
    pub(super) needs_calls: bool,
}

impl Entry {
    const fn change(mut self, change: &'static [(&'static str, &'static str)]) -> Entry {
        self.change = change;
        self
    }

    const fn more(mut self, more: &'static str) -> Entry {
        self.more = more;
        self
    }

    const fn beside(mut self, servers: &'static [(&'static str, &'static str)]) -> Entry {
        self.servers = servers;
        self
    }

    const fn after(mut self, before: &'static [&'static str]) -> Entry {
        self.before = before;
        self
    }

    const fn until(mut self, up: &'static str) -> Entry {
        self.up = Some(up);
        self
    }

    const fn status(mut self, status: i32) -> Entry {
        self.status = status;
        self
    }

    const fn input(mut self, input: &'static str) -> Entry {
        self.input = Some(input);
        self
    }

    const fn with_calls(mut self) -> Entry {
        self.needs_calls = true;
        self
    }

    /// What is run.
    pub(super) fn command_line(&self) -> String {
        let mut line = self.command.to_owned();
        for (from, to) in self.change {
            assert!(line.contains(from), "{}: has no {from}", self.command);
            line = line.replace(from, to);
        }
        line.push_str(self.more);
        line
    }

    /// Whether networks have to be taken down after it.
    pub(super) fn brings_networks_up(&self) -> bool {
        let begins = |line: &&str| line.starts_with("tandem net up");
        self.before.iter().any(begins) || begins(&self.command)
    }
}

const fn run(command: &'static str) -> Entry {
    Entry {
        command,
        how: How::Run,
        change: &[],
        more: "",
        servers: &[],
        before: &[],
        up: None,
        status: 0,
        input: None,
        needs_calls: false,
    }
}

const fn parsed(command: &'static str, because: &'static str) -> Entry {
    let mut entry = run(command);
    entry.how = How::Parsed(because);
    entry
}

const PROXY: &[(&str, &str)] = &[("tandem proxy", "SCTP is encapsulated in UDP on")];
const ECHO: &[(&str, &str)] = &[("tandem sctp listen --service echo", "= endpoint")];
const DAYTIME: &[(&str, &str)] = &[("tandem sctp listen --service daytime", "= endpoint")];
const DISCARD: &[(&str, &str)] = &[("tandem sctp listen --service discard", "= endpoint")];
const PERF: &[(&str, &str)] = &[("tandem perf server", "listening on sctp")];
const ROUTER: &[&str] = &["tandem net up router"];
const ROUTER_WITH_RULE: &[&str] = &[
    "tandem net up router",
    "tandem net rule add client server --drop 10%",
];
const MULTIHOMED: &[&str] = &["tandem net up multihomed"];
const CUT: &[&str] = &[
    "tandem net up multihomed",
    "tandem net link cut upper-client",
];

const ELSEWHERE: &str = "it needs another host";
const LONG: &str = "it takes minutes";
const SERVED_BY_USERS: &str = "its other half runs on another host";

/// All of them.
pub(super) const TABLE: &[Entry] = &[
    // tandem demo
    run("tandem demo").more(" --seconds 1 --loss 0 --users 2"),
    run("tandem demo --pcap calls.pcapng").more(" --seconds 1 --loss 0 --users 2"),
    run("tandem demo --transport udp,sctp --loss 0,2,5 --delay 25ms --seconds 30")
        .change(&[("0,2,5", "0"), ("--seconds 30", "--seconds 1")]),
    run("tandem demo --calls 1000 --loss 0 --json results.json").change(&[("1000", "50")]),
    run("tandem demo --rate 50 --associations per-user").more(" --seconds 1 --loss 0"),
    // tandem m3ua
    parsed("tandem m3ua sg --config sg.toml", "needs a configuration"),
    parsed(
        "tandem m3ua as --config asp1.toml --send 1000/s --to 2-45-3 --si isup",
        "needs a configuration, and a gateway",
    ),
    run("tandem m3ua perf --rate 10000/s --duration 10s --fail-over").change(&[("10000/s", "1000/s"), ("10s", "1s")]),
    // tandem sctp
    parsed("tandem phone sip:bob@127.0.0.1 --listen udp:127.0.0.1:5070 --answer --echo", "waits for a call"),
    parsed(
        "tandem phone sip:alice@127.0.0.1 --dial sip:bob@127.0.0.1:5070 --play hello.wav --record reply.wav",
        "needs somebody to call; run by the tests of the phone",
    ),
    parsed("tandem phone sip:alice@127.0.0.1 --answer --echo", "waits for a call"),
    parsed("tandem phone sip:alice@127.0.0.1 --expect menu.toml", "needs a scenario, and somebody to call"),
    parsed("tandem phone", "is a screen, and needs a terminal"),
    parsed(
        "tandem phone sip:alice@example.org --via 'sip:10.0.0.1;transport=sctp' --register --answer",
        "needs a registrar",
    ),
    parsed(
        "tandem phone sip:alice@example.org --via 'sip:10.0.0.1;transport=sctp' --register --password-file secret --answer",
        "needs a registrar",
    ),
    parsed(
        "tandem phone sip:alice@example.org --register --control /tmp/phone.sock --json",
        "needs a registrar",
    ),
    run("tandem sctp listen").until("= endpoint"),
    run("tandem sctp listen --service echo").until("= endpoint"),
    run("tandem sctp listen --service discard").until("= endpoint"),
    run("tandem sctp listen --port 9000 --service echo").until("= endpoint"),
    run("tandem sctp listen --port 9000 --service echo --set sack_delay=0s").until("= endpoint"),
    run("tandem sctp listen --port 9000 --encapsulation-port 19007 --service echo").until("= endpoint"),
    run("tandem sctp listen --over ip --service discard --pcap listen.pcapng").until("= endpoint"),
    run("tandem sctp listen --address 192.0.2.1 --address 198.51.100.1")
        .after(&["ip address add 192.0.2.1/24 dev lo", "ip address add 198.51.100.1/24 dev lo"])
        .until("= endpoint"),
    run("tandem sctp listen --set rto_mn=1s").status(2),
    run("tandem sctp connect --set help"),
    run("tandem sctp connect 127.0.0.1:9000").beside(ECHO).input("hello\n"),
    run("printf 'one\\n/stream 3 two\\n' | tandem sctp connect 127.0.0.1:9000").beside(ECHO),
    run("tandem sctp connect 127.0.0.1:9000 --reconnect </dev/null")
        .beside(DAYTIME)
        .until("association=2"),
    run("tandem sctp connect 127.0.0.1:9000 --service discard --reconnect")
        .beside(DAYTIME)
        .until("association=2"),
    run(
        "tandem sctp connect 127.0.0.1:9000 --set rto_initial=1s --set rto_min=1s --set rto_max=2s \
         --set valid_cookie_life=10s --set path_max_retrans=5 --set association_max_retrans=10 \
         --set max_init_retransmits=8 --set hb_interval=30s --set sack_delay=200ms \
         --set nodelay=true --set bundling=false --set a_rwnd=65536",
    )
    .beside(ECHO)
    .input("hello\n"),
    parsed(
        "tandem sctp connect 10.9.1.2,10.9.2.2:9000 --over ip --set rto_min=300ms --set rto_initial=300ms \
         --set path_max_retrans=2 --set hb_interval=1s",
        ELSEWHERE,
    ),
    parsed(
        "tandem sctp connect 127.0.0.1:13 --encapsulation-port 19004 --peer-encapsulation-port 19003",
        "its peer is usrsctp, to which the tests of interoperation talk",
    ),
    parsed("tandem sctp connect example.org:9000 --streams 100 --ppid 46", ELSEWHERE),
    parsed(
        "tandem sctp connect 192.0.2.1:9 --set cmt=true --set path_scheduler=ecf --set buffer_splitting=none",
        ELSEWHERE,
    ),
    parsed("tandem sctp connect '192.0.2.1,[2001:db8::1]:9000' --set path_max_retrans=2", ELSEWHERE),
    // tandem flood
    run("tandem flood init 127.0.0.1:9000").beside(DISCARD).more(" --count 200"),
    run("tandem flood cookie 127.0.0.1:9000 --count 5000 --rate 2500 --pid $!")
        .change(&[("5000", "200"), ("$!", "$$")])
        .beside(DISCARD),
    run("tandem flood replay 127.0.0.1:9000").beside(DISCARD).more(" --count 200"),
    run("tandem flood cookie 127.0.0.1:9000 --count 50000 --rate 5000 --json cookie.json")
        .change(&[("50000", "200")])
        .beside(DISCARD),
    parsed(
        "tandem net exec client -- tandem flood init 10.2.0.2:9000 --over ip",
        "`tandem lab run flood --on net` does it, with the listener on the other host",
    ),
    parsed(
        "tandem net exec client -- tandem flood replay 10.2.0.2:9000 --over ip",
        "`tandem lab run flood --on net` does it, with the listener on the other host",
    ),
    // tandem capture
    run("tandem capture analyze calls.pcap").with_calls(),
    run("tandem capture analyze calls.pcap --html calls.html").with_calls(),
    run("tandem capture analyze calls.pcapng --html calls.html").with_calls(),
    run("tandem capture analyze calls.pcap --html calls.html --csv sessions.csv --json calls.json").with_calls(),
    run("tandem capture analyze calls.pcap --csv sessions.csv --decimal-comma").with_calls(),
    run("tandem capture analyze server.pcap caller.pcap callee.pcap").with_calls(),
    run("tandem capture analyze calls.pcap --ladder 3c2675f1@192.0.2.1 --chunks")
        .change(&[("3c2675f1@192.0.2.1", "\"$(cat call-id)\"")])
        .with_calls(),
    run("tandem capture analyze calls.pcap --ladder 1-4711@10.0.0.1 --chunks")
        .change(&[("1-4711@10.0.0.1", "\"$(cat call-id)\"")])
        .with_calls(),
    parsed("tandem capture analyze signalling.pcap --ladder m3ua:1", "needs a capture of M3UA: program/capture_m3ua.rs makes one"),
    run("ssh server tcpdump -w - port 5060 | tandem capture analyze -")
        .change(&[("ssh server tcpdump -w - port 5060", "cat calls.pcap")])
        .with_calls(),
    parsed("tandem capture view calls.pcap", "is a screen, and needs a terminal"),
    parsed("tandem capture view server.pcap caller.pcap callee.pcap", "is a screen, and needs a terminal"),
    run("tandem capture live --hep udp:0.0.0.0:9060").change(&[("udp:0.0.0.0:9060", "udp:127.0.0.1:0")]).until("listening on"),
    run("tandem capture live -i eth0").change(&[("eth0", "lo")]).until("listening on"),
    run("tandem capture live -i any --filter 'port 5060 and not host 10.0.0.9'").until("listening on"),
    run("tandem capture live -i eth0 --duration 10min --html calls.html > tables.txt")
        .change(&[("eth0", "lo"), ("10min", "1s")]),
    // tandem lab
    run("tandem lab list"),
    parsed("tandem lab run all", LONG),
    parsed("tandem lab run all --quick --html lab/", LONG),
    parsed("tandem lab run all --quick --json results.json --html lab/", LONG),
    run("tandem lab run failover --html failover.html").more(" --quick"),
    parsed("tandem lab run fairness --on net", LONG),
    parsed("tandem lab run calls-during-path-failure --on net --html cut.html", LONG),
    // tandem load
    run("tandem load calls --via 127.0.0.1 --users 1000 --rate 100")
        .change(&[("1000", "5")])
        .more(" -m 20 --no-screen")
        .beside(PROXY),
    run("tandem load calls --via 127.0.0.1 --users 1000 --rate 500")
        .change(&[("1000", "5")])
        .more(" -m 20")
        .beside(PROXY),
    run("tandem load calls --via 127.0.0.1 -r 100")
        .more(" -m 20")
        .beside(PROXY),
    run("tandem load calls --via 127.0.0.1 --users 1000 --rate 100 --duration 30s")
        .change(&[("1000", "5"), ("30s", "1s")])
        .beside(PROXY),
    run("tandem load calls --via 127.0.0.1 --users 1000 --rate 200 --duration 5s --html calls.html")
        .change(&[("1000", "5"), ("5s", "1s")])
        .beside(PROXY),
    run("tandem load calls --via 127.0.0.1 -r 500 -m 10000 --html calls.html")
        .change(&[("10000", "50")])
        .beside(PROXY),
    run("tandem load calls --via 127.0.0.1 -r 500 -m 10000 -d 5000 --transport tcp --html calls.html")
        .change(&[("10000", "50"), ("-d 5000", "-d 50")])
        .beside(PROXY),
    parsed(
        "tandem load calls --via 'sips:proxy.example;transport=sctp' --auth user%d:secret --hold 30s",
        ELSEWHERE,
    ),
    parsed("tandem load calls --via 10.0.0.1 --role callees --users 1000", SERVED_BY_USERS),
    parsed("tandem load calls --via 10.0.0.1 --role callers --users 1000 --ramp 1000/60s", SERVED_BY_USERS),
    parsed(
        "tandem load calls --direct --role callers --via 127.0.0.1:5070 -s service -r 100 -m 1000",
        "its peer is SIPp, to which the tests of interoperation talk",
    ),
    run("tandem load calls --direct --users 20 -r 20 -m 40 --hold 2s --media tone")
        .change(&[("-m 40", "-m 5"), ("2s", "500ms")]),
    run("tandem load calls --via 127.0.0.1 --hold 10s --media tone")
        .change(&[("10s", "500ms")])
        .more(" -m 3")
        .beside(PROXY),
    run("tandem load calls --via 127.0.0.1 --scenario rfc3665-3.8").more(" -m 3").beside(PROXY),
    run("tandem load register --via 127.0.0.1 --users 10000 --rate 500")
        .change(&[("10000", "20")])
        .beside(PROXY),
    run("tandem load register --via 127.0.0.1 --users 100 --cycles 50 --rate 200")
        .change(&[("100", "20"), ("50", "2")])
        .beside(PROXY),
    run("tandem load register --via 127.0.0.1 --users 100 --cycles 50 --rate 200 --csv registrations.csv")
        .change(&[("100", "20"), ("50", "2")])
        .beside(PROXY),
    parsed(
        "tandem load register --via 10.0.0.1 --users 100000 --rate 2000 --expires 10min --keep-alive 1h",
        ELSEWHERE,
    ),
    parsed(
        "tandem load register --via proxy.example --users-file users.csv -t tls --connections per-user",
        ELSEWHERE,
    ),
    run("tandem load options --via 127.0.0.1 -r 1 -m 5").change(&[("-r 1 ", "-r 50 ")]).beside(PROXY),
    run("tandem load options --via 127.0.0.1 --rate 2000 --duration 10s --html options.html")
        .change(&[("2000", "100"), ("10s", "1s")])
        .beside(PROXY),
    run("tandem load options --via 127.0.0.1 --to-users --users 100")
        .change(&[("100", "5")])
        .more(" -m 5")
        .beside(PROXY),
    // Nobody of that name is registered here.
    run("tandem load options --via 127.0.0.1 -s alice").more(" -m 2").status(1).beside(PROXY),
    run("tandem load message --via 127.0.0.1 -s alice -r 1 -m 10")
        .change(&[("-r 1 ", "-r 50 ")])
        .status(1)
        .beside(PROXY),
    run("tandem load message --via 127.0.0.1 --users 1000 --rate 500 --duration 1min")
        .change(&[("1000", "5"), ("1min", "1s"), ("500", "50")])
        .beside(PROXY),
    parsed("tandem load capacity --via 127.0.0.1 --start 500 --sessions 5000", LONG),
    parsed("tandem load capacity --via 127.0.0.1 --start 1000 --sessions 10000 --html capacity.html", LONG),
    parsed("tandem load capacity --via 127.0.0.1 --of registrations --start 2000 --sessions 20000", LONG),
    parsed("tandem load capacity --via 10.0.0.1 --ladder 10,100,200,400,500,600,800,1000 --repeat 5", LONG),
    parsed("tandem load capacity --via 10.0.0.1 --ladder --background 50Mbit/s --background-to 10.0.0.3", LONG),
    parsed(
        "tandem load capacity --via 10.0.0.1 --ladder --repeat 1 --background 50Mbit/s --background-to 10.0.0.3",
        LONG,
    ),
    parsed(
        "tandem load capacity --via 10.0.0.1 --ladder --repeat 1 --background 75Mbit/s --background-to 10.0.0.3",
        LONG,
    ),
    parsed("tandem load capacity --via 10.0.0.1 --sipstone --start 500 --redirected moved", LONG),
    parsed(
        "tandem load calls --direct --role callers --via 127.0.0.1:5071 -s b --scenario 3pcc-C-B.xml --twin 127.0.0.1:7000",
        "SIPp is the other side in a test of its own",
    ),
    parsed(
        "tandem load calls --direct --role callers --via 127.0.0.1:5070 -s a --scenario 3pcc-C-A.xml --twin 127.0.0.1:7000 -m 100",
        "SIPp is the other side in a test of its own",
    ),
    // tandem net
    run("tandem net up router"),
    run("tandem net up two-hosts"),
    run("tandem net up multihomed"),
    run("tandem net up dumbbell --set senders=4"),
    run("tandem net up office.toml --name office"),
    run("tandem net up router --foreground").until("Ctrl-C takes it down"),
    run("tandem net exec client -- ping -c 3 server").change(&[("-c 3", "-c 1")]).after(ROUTER),
    run("tandem net exec client -- bash").after(ROUTER).input("exit\n"),
    parsed(
        "tandem net exec server -- tandem perf server --listen tcp:0.0.0.0",
        "it runs until its terminal interrupts it",
    ),
    run("tandem net exec client -- tandem perf client tcp:server --seconds 5")
        .change(&[("5", "0.2")])
        .after(&[
            "tandem net up router",
            "tandem net exec server -- tandem perf server --listen tcp:0.0.0.0 >listen 2>&1 &
             while ! grep -q listening listen; do sleep 0.05; done",
        ]),
    parsed(
        "tandem net exec server -- tandem sctp listen --over ip --service echo",
        "it runs until its terminal interrupts it",
    ),
    parsed(
        "tandem net exec server -- tandem sctp listen --service echo --address 10.2.0.2 --address 10.4.0.2",
        "it runs until its terminal interrupts it",
    ),
    run("tandem net exec client -- tandem sctp connect 10.2.0.2,10.4.0.2:9000 --over ip")
        .after(&[
            "tandem net up multihomed",
            "tandem net exec server -- tandem sctp listen --over ip --service echo >listen 2>&1 &
             while ! grep -q endpoint listen; do sleep 0.05; done",
        ])
        .input("one\n"),
    run("tandem net exec client -- tandem sctp connect 10.2.0.2,10.4.0.2:9000 --address 10.1.0.2 --address 10.3.0.2")
        .after(&[
            "tandem net up multihomed",
            "tandem net exec server -- tandem sctp listen --service echo --address 10.2.0.2 --address 10.4.0.2 \
             >listen 2>&1 &
             while ! grep -q endpoint listen; do sleep 0.05; done",
        ])
        .input("one\n"),
    run("tandem net rule add client server --delay 50ms --drop 10%").after(ROUTER),
    run(
        "tandem net rule add 10.1.0.2 10.2.0.2 --delay 50ms --jitter 5ms --drop 10% --duplicate 1% \
         --bandwidth 100kB/s --queue 32kB",
    )
    .after(ROUTER),
    run("tandem net rule add client server --protocol udp --port 5060 --drop 20%").after(ROUTER),
    run("tandem net rule add any any --link left --preset satellite").after(ROUTER),
    run("tandem net rule add any server --trace lte.down --queue 200p").after(ROUTER),
    run("tandem net rule change 1 --delay 100ms").after(ROUTER_WITH_RULE),
    run("tandem net rule delete client server").after(ROUTER_WITH_RULE),
    run("tandem net rule list").after(ROUTER),
    run("tandem net rule watch").after(ROUTER).until("left").status(130),
    run("tandem net web").after(ROUTER).until("token="),
    run("tandem net down").after(ROUTER),
    run("tandem net link list").after(ROUTER),
    run("tandem net link set left --delay 20ms --bandwidth 10Mbit/s").after(ROUTER),
    run("tandem net link set left --forward --preset wifi-50").after(ROUTER),
    run("tandem net link set left --trace lte.up --queue 200p").after(ROUTER),
    run("tandem net link cut upper-client").after(MULTIHOMED),
    run("tandem net link heal upper-client").after(CUT),
    parsed("tandem net rule add SOURCE DESTINATION [OPTIONS]", "it is a synopsis"),
    // tandem perf
    run("tandem perf server").until("listening on sctp"),
    parsed("tandem perf -s", "listens on all addresses"),
    run("tandem perf client sctp:10.0.0.1,10.1.0.1 --cmt olia --path-scheduler ecf --buffer-splitting both")
        .change(&[("sctp:10.0.0.1,10.1.0.1", "sctp:127.0.0.1")])
        .more(" --seconds 0.5")
        .beside(PERF),
    parsed("tandem perf -c 192.168.1.7 -t 5 -P 4 -R", ELSEWHERE),
    run("tandem perf server --listen udp:0.0.0.0 --listen tcp:0.0.0.0 --listen sctp:0.0.0.0").until("listening on sctp"),
    run("tandem perf server --listen tcp:0.0.0.0 --listen udp:0.0.0.0 --listen sctp:0.0.0.0").until("listening on sctp"),
    run("tandem perf server --listen sctp:10.0.0.1,10.1.0.1:9000 --over ip")
        .after(&["ip address add 10.0.0.1/24 dev lo", "ip address add 10.1.0.1/24 dev lo"])
        .until("listening on sctp"),
    run("tandem perf server --one-off --listen tcp:127.0.0.1:0").until("listening on tcp"),
    run("tandem perf client sctp:127.0.0.1").more(" --seconds 0.5").beside(PERF),
    run("tandem perf client sctp:127.0.0.1 --seconds 3").change(&[("--seconds 3", "--seconds 0.5")]).beside(PERF),
    run("tandem perf client sctp:127.0.0.1 --seconds 1 --json result.json").beside(PERF),
    run("tandem perf client udp:127.0.0.1 --bitrate 50M --size 172 --seconds 2")
        .change(&[("--seconds 2", "--seconds 0.5")])
        .beside(PERF),
    run("tandem perf client udp:127.0.0.1 --bitrate 100M --size 1400").more(" --seconds 0.5").beside(PERF),
    run("tandem perf client udp:127.0.0.1 --bitrate unlimited --count 1000000")
        .change(&[("1000000", "1000")])
        .beside(PERF),
    parsed(
        "tandem perf client sctp:10.0.0.1,10.1.0.1:5211 --over ip --size 200 --streams 16 --seconds 60",
        ELSEWHERE,
    ),
    parsed("tandem perf client tcp:192.168.1.7 --reverse --parallel 4 --json tcp.json", ELSEWHERE),
    parsed("tandem perf client udp:192.168.1.7 --bitrate 50M --size 172", ELSEWHERE),
    run("tandem perf sweep").more(" --seconds 0.1 --sizes 64,1K"),
    run("tandem perf sweep --html sweep.html").more(" --seconds 0.1 --sizes 64"),
    run("tandem perf sweep --html sweep.html --json sweep.json").more(" --seconds 0.1 --sizes 64"),
    run("tandem perf sweep --sizes 64,1K,64K --seconds 10").change(&[("10", "0.1")]),
    run("tandem perf sweep --over ip").more(" --seconds 0.1 --sizes 64"),
    run("tandem perf associations --count 10000").change(&[("10000", "100")]),
    run("tandem perf associations --count 100000 --json associations.json").change(&[("100000", "100")]),
    run("tandem perf streams --count 10000").change(&[("10000", "100")]),
    // tandem proxy
    run("tandem proxy").until("SCTP is encapsulated"),
    run("tandem proxy --config tandem.toml").until("listening on"),
    run("tandem proxy --listen udp:0.0.0.0:5060 --domain example.org --advertise sip.example.org").until("listening on"),
    run("tandem proxy --listen udp:0.0.0.0:5060 --listen tcp:0.0.0.0:5060 --domain example.org").until("listening on"),
    run("tandem proxy --listen sctp:192.0.2.1:5060")
        .after(&["ip address add 192.0.2.1/24 dev lo"])
        .until("listening on"),
    run("tandem proxy --pcap sip.pcapng").until("listening on"),
    parsed("TANDEM_LOG=sip_net=debug tandem proxy", "it logs nothing until there are messages"),
    run("tandem proxy check --config tandem.toml"),
    parsed("tandem proxy test plugins/closed.lua", "the script is an example"),
    parsed("tandem proxy test fraud.lua", "the script is an example"),
    run("tandem proxy users add alice --realm example.org").input("secret\n"),
    run("tandem proxy users add alice --config tandem.toml").input("secret\n"),
    run("printf %s \"$PASSWORD\" | tandem proxy users add alice --realm example.org --store sqlite:/srv/sip.db")
        .change(&[("/srv/sip.db", "sip.db")]),
    run("tandem proxy users list --json")
        .after(&["echo secret | tandem proxy users add alice --realm example.org"]),
    // tandem traffic
    run("tandem traffic send udp").more(" --seconds 0.5"),
    run("tandem traffic send udp --seconds 3").change(&[("3", "0.5")]),
    run("tandem traffic send udp --encryption none,aes-256-gcm,chacha20-poly1305,des-cfb --size 64,200,1400 --rate 2k --count 1500 --repeat 2")
        .change(&[("1500", "50"), ("64,200,1400", "64")]),
    run("tandem traffic send udp --encryption none,aes-256-gcm,chacha20-poly1305,des-cfb --html cost.html")
        .more(" --seconds 0.2"),
    run("tandem traffic send udp --encryption none,aes-256-gcm,des-cfb --repeat 5 --seconds 3 --json cost.json")
        .change(&[("--repeat 5 --seconds 3", "--repeat 2 --seconds 0.2")]),
    run("tandem traffic send sctp --pattern random-on-off:1s,1.35s --rate 50 --seconds 60")
        .change(&[("60", "0.5")]),
    parsed("tandem traffic send tcp:192.168.1.7 --size 64,512,1400 --rate unlimited --count 100000 --echo 0", ELSEWHERE),
    parsed("tandem traffic send udp:192.168.1.7 --rate 50 --size 172 --payload voice.wav", ELSEWHERE),
    parsed("tandem traffic send udp:192.168.1.7 --rate 50 --size 212 --payload voice.ulaw", ELSEWHERE),
    parsed("tandem traffic send udp:192.168.1.7 --size 212 --rate 50 --payload voice.ulaw", ELSEWHERE),
    run("tandem traffic receive").until("listening on sctp"),
    run("tandem traffic receive --listen udp:0.0.0.0").until("listening on"),
    run("tandem traffic receive --listen udp:0.0.0.0 --listen tcp:0.0.0.0").until("listening on tcp"),
    run("tandem traffic receive --listen udp:0.0.0.0 --listen tcp:0.0.0.0 --listen sctp:0.0.0.0").until("listening on sctp"),
    run("tandem traffic receive --listen udp:[::] --one-off").until("listening on"),
    // The namespace has no interface whose speed is known.
    run("tandem traffic link").status(1),
    run("tandem traffic link --link-speed 100M"),
    run("tandem traffic link -i eth0 --size 172,1200 -6")
        .change(&[("eth0", "lo")])
        .status(1),
    // tandem man, tandem completions
    run("tandem man --output-dir ~/.local/share/man/man1"),
    run("tandem completions bash > ~/.local/share/bash-completion/completions/tandem")
        .after(&["mkdir -p .local/share/bash-completion/completions"]),
    run("tandem completions zsh > ~/.zfunc/_tandem").after(&["mkdir .zfunc"]),
    run("tandem completions fish > ~/.config/fish/completions/tandem.fish")
        .after(&["mkdir -p .config/fish/completions"]),
    parsed("tandem completions fish | source", "it needs the shell fish"),
    parsed("source <(tandem completions bash)", "it needs the shell bash"),
    parsed("tandem man | man -l -", "it shows a page in a pager"),
    parsed("tandem man proxy users | man -l -", "it shows a page in a pager"),
];
