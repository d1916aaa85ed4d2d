//! Adnan 2012's own samples give Adnan 2012's own table.

use std::fmt::Write as _;

use capture::{Analysis, Milestone, Options, Reader, Results, Session};

const SAMPLE: &str = include_str!("published/wireshark_summary_sample.txt");
const TIMESTAMPS: &str = include_str!("published/timestamps_100_sessions.txt");

fn analyze(text: &str) -> (Vec<Session>, Results) {
    let mut reader = Reader::open(text.as_bytes(), 0).expect("a summary");
    let mut analysis = Analysis::new(&Options::default());
    let mut sessions = Vec::new();
    let on_event = &mut |event: capture::Event<'_>| {
        analysis.observe(&event, &mut |session| sessions.push(session.clone()));
    };
    while reader.step(on_event).expect("it reads") {}
    let results = analysis.finish(&mut |session| sessions.push(session.clone()));
    (sessions, results)
}

/// The times of a session in microseconds, 0 for what was not seen, as in Adnan 2012.
fn row(session: &Session) -> [i64; 10] {
    Milestone::ALL.map(|milestone| {
        session
            .timestamps
            .get(milestone)
            .map_or(0, |time| time.0 / 1000)
    })
}

/// Figures 7 and 21: four callers and two callees, each with a message or none of interest.
#[test]
fn the_sample_of_summaries() {
    let (sessions, results) = analyze(SAMPLE);
    let rows: Vec<[i64; 10]> = sessions.iter().map(row).collect();
    assert_eq!(
        rows,
        [
            [0, 0, 0, 188_134, 0, 0, 0, 0, 0, 3_868_286],
            [0, 0, 0, 3_867_944, 0, 0, 0, 0, 3_868_515, 0],
            [0, 0, 3_868_161, 0, 0, 0, 0, 0, 0, 0],
            [0, 0, 0, 0, 3_868_620, 0, 0, 0, 0, 0],
        ]
    );
    assert_eq!(&*sessions[0].from, "192.168.1.4:56329");
    assert_eq!(&*sessions[1].to, "192.168.1.7:43355");
    // The INVITE of 60596 is the one that went to 43355: both are for client139.
    let invite = results.delays.invite.milliseconds();
    assert_eq!((invite.count, invite.mean), (1, Some(0.354)));
}

/// Figure 22: summaries with the times of its hundred sessions give its table again.
#[test]
fn the_table_of_a_hundred_sessions() {
    let expected: Vec<[i64; 10]> = TIMESTAMPS
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| {
            let mut numbers = line.split_whitespace().skip(1).map(microseconds);
            std::array::from_fn(|_| numbers.next().expect("ten times"))
        })
        .collect();
    assert_eq!(expected.len(), 100);

    let (sessions, results) = analyze(&summaries_of(&expected));
    let rows: Vec<[i64; 10]> = sessions.iter().map(row).collect();
    assert_eq!(rows, expected);

    // As a spreadsheet over the printed table has them.
    let setup = results.delays.call_setup.milliseconds();
    assert_eq!(setup.count, 96);
    assert!((setup.min.unwrap() - 138.454).abs() < 1e-6, "{setup:?}");
    assert!(
        (setup.mean.unwrap() - 253.762_906_25).abs() < 1e-6,
        "{setup:?}"
    );
    assert!((setup.max.unwrap() - 444.698).abs() < 1e-6, "{setup:?}");
    let missing = |milestone| {
        let losses = results.losses.by_message();
        losses
            .iter()
            .find(|loss| loss.milestone == milestone)
            .unwrap()
            .missing
    };
    assert_eq!(missing(Milestone::Register1), 1);
    assert_eq!(missing(Milestone::Ack), 4);
    // The first packet of the capture has the time 0: it is the REGISTER that the table seems to lack.
    assert_eq!(missing(Milestone::Register2), 0);
    assert_eq!(results.losses.missing_messages(), 9);
    assert_eq!(results.losses.lost_sessions(), 4);
}

fn microseconds(number: &str) -> i64 {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let fraction: i64 = format!("{fraction:0<6}").parse().expect("digits");
    whole.parse::<i64>().expect("digits") * 1_000_000 + fraction
}

/// What Wireshark would have printed.
fn summaries_of(rows: &[[i64; 10]]) -> String {
    const SERVER: (&str, u16) = ("192.168.1.2", 5060);
    let mut packets = Vec::new();
    for (number, row) in rows.iter().enumerate() {
        let caller = ("192.168.1.4", 20_000 + number as u16);
        let callee = ("192.168.1.7", 30_000 + number as u16);
        let register = "Request: REGISTER sip:192.168.1.2";
        let invite =
            format!("Request: INVITE sip:client{number}@192.168.1.2, with session description");
        let ok = "Status: 200 OK    (1 bindings)";
        let sdp_ok = "Status: 200 OK, with session description";
        let messages = [
            (caller, SERVER, register),
            (SERVER, caller, ok),
            (caller, SERVER, &invite),
            (SERVER, caller, "Status: 180 Ringing"),
            (SERVER, caller, sdp_ok),
            (caller, SERVER, "Request: ACK sip:client@192.168.1.2"),
            (callee, SERVER, register),
            (SERVER, callee, ok),
            (SERVER, callee, &invite),
            (callee, SERVER, sdp_ok),
        ];
        for (at, (message, time)) in messages.into_iter().zip(row).enumerate() {
            if *time != 0 || (number, at) == (0, 6) {
                packets.push((*time, message.0, message.1, message.2.to_owned()));
            }
        }
        if row[0] == 0 {
            // A user of whom nothing else was captured.
            let after = rows[number - 1][0] + 1;
            packets.push((after, SERVER, caller, "Status: 100 Giving a try".to_owned()));
        }
    }
    packets.sort_by_key(|(time, ..)| *time);
    let mut text = String::new();
    for (number, (time, source, destination, info)) in packets.iter().enumerate() {
        let number = number + 1;
        let seconds = format!("{}.{:06}", time / 1_000_000, time % 1_000_000);
        let name = |port: u16| match port {
            5060 => "sip".to_owned(),
            other => other.to_string(),
        };
        let _ = write!(
            text,
            "No.     Time        Source                Destination           Protocol Info\n\
             {number:>7} {seconds:<11} {:<21} {:<21} SIP      {info}\n\n\
             Frame {number} (500 bytes on wire, 500 bytes captured)\n\
             Ethernet II, Src: A (00:00:00:00:00:01), Dst: B (00:00:00:00:00:02)\n\
             Internet Protocol, Src: {} ({}), Dst: {} ({})\n\
             User Datagram Protocol, Src Port: {} ({}), Dst Port: {} ({})\n\n",
            source.0,
            destination.0,
            source.0,
            source.0,
            destination.0,
            destination.0,
            name(source.1),
            source.1,
            name(destination.1),
            destination.1,
        );
    }
    text
}
