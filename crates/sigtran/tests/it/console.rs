//! Processes by hand: commands, and the lines that answer.

use std::time::Duration;

use m3ua::message::ServiceIndicator;
use sigtran::Configuration;
use sigtran::console::{Line, Options, Traffic, run};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// A console that runs.
pub(crate) struct Console {
    commands: mpsc::Sender<String>,
    lines: mpsc::UnboundedReceiver<Line>,
    end: JoinHandle<()>,
}

impl Console {
    pub(crate) fn start(configuration: String, options: Options) -> Console {
        let configuration = Configuration::read(&configuration).expect("a configuration");
        let (commands, typed) = mpsc::channel(4);
        let (say, lines) = mpsc::unbounded_channel();
        let end = tokio::spawn(async move {
            run(&configuration, options, typed, say)
                .await
                .expect("it starts");
        });
        Console {
            commands,
            lines,
            end,
        }
    }

    pub(crate) async fn command(&self, command: &str) {
        self.commands
            .send(command.to_owned())
            .await
            .expect("it runs");
    }

    /// Waits for a line that has this in it.
    pub(crate) async fn until(&mut self, text: &str) -> String {
        let found = async {
            loop {
                let (Line::Output(line) | Line::Refusal(line)) =
                    self.lines.recv().await.expect("it runs");
                if line.contains(text) {
                    return line;
                }
            }
        };
        let found = tokio::time::timeout(Duration::from_secs(20), found).await;
        found.unwrap_or_else(|_| panic!("no line with {text}"))
    }

    pub(crate) async fn quit(self) {
        self.command("/quit").await;
        self.end.await.expect("no panic");
    }
}

/// Two IPSPs with one association, which the second one opens.
fn ipsp(
    own: &str,
    other: &str,
    port: u16,
    peer_port: u16,
    connect: bool,
    ports: [u16; 2],
) -> String {
    let [encapsulation_port, peer_encapsulation_port] = ports;
    format!(
        r#"
        [sctp]
        addresses = ["127.0.0.1"]
        port = {port}
        encapsulation_port = {encapsulation_port}
        [[peer]]
        name = "other"
        role = "ipsp-single"
        address = "127.0.0.1:{peer_port}"
        encapsulation_port = {peer_encapsulation_port}
        connect = {connect}
        [[application_server]]
        name = "both"
        served_by = "both"
        peers = ["other"]
        routing_context = 5
        dpc = ["{own}", "{other}"]
        "#
    )
}

#[tokio::test]
async fn two_servers_talk() {
    let ports = [test_support::free_udp_port(), test_support::free_udp_port()];
    let [first, second] = ports;
    let mut one = Console::start(
        ipsp("1-1-1", "2-2-2", 3101, 3102, false, [first, second]),
        Options::default(),
    );
    let traffic = Traffic {
        rate: 2_000.0,
        to: "1-1-1".to_owned(),
        user: ServiceIndicator::ISUP,
        count: Some(100),
    };
    let mut two = Console::start(
        ipsp("2-2-2", "1-1-1", 3102, 3101, true, [second, first]),
        Options {
            traffic: Some(traffic),
            quiet: false,
        },
    );
    one.until("* AS both AS-ACTIVE").await;
    two.until("* SELF other ASP-ACTIVE as=both").await;
    // Traffic begins when its destination can be reached: none of it is dropped.
    for _ in 0..100 {
        one.until("< other opc=2-2-2 dpc=1-1-1").await;
    }
    two.command("/status").await;
    let counts = two.until("= COUNTS sent=100 ").await;
    assert!(counts.contains(" dropped=0"), "{counts}");
    one.command("/send 2-2-2 hello").await;
    one.until("= SENT").await;
    let line = two.until("< other").await;
    assert_eq!(line, "< other opc=1-1-1 dpc=2-2-2 sls=0 octets=5 SCCP");
    one.command("/send 9-9-9 x").await;
    one.until("! \"9-9-9\" is no itu point code").await;
    one.command("/jump").await;
    one.until("! /jump is not a command").await;
    two.command("/inactive both").await;
    one.until("* ASP other ASP-INACTIVE as=both").await;
    two.command("/active").await;
    one.until("* ASP other ASP-ACTIVE as=both").await;
    two.command("/down other").await;
    one.until("* ASP other ASP-DOWN").await;
    two.command("/up").await;
    one.until("* ASP other ASP-INACTIVE").await;
    one.command("/status").await;
    let status = one.until("= PEER other association=up").await;
    assert!(status.contains("= COUNTS "), "{status}");
    two.quit().await;
    one.until("* RELEASED other cause=\"shut down\"").await;
    one.quit().await;
}
