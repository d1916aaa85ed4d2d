//! The view on a screen in memory.

use std::net::{IpAddr, Ipv4Addr};

use capture::{
    Carrier, Endpoint, Event, EventKind, JournalBounds, Options, Packets, Settings, Time,
};

use super::*;

struct Fixture {
    view: View,
    journal: Journal,
    analysis: Analysis,
    chunks: Option<ChunkArrows>,
}

impl Fixture {
    /// Two calls: user1 to user2 answered, user3 to user4 busy.
    fn new() -> Fixture {
        let mut fixture = Fixture {
            view: View::new("lo"),
            journal: Journal::new(JournalBounds::default(), 1),
            analysis: Analysis::new(&Options::default()),
            chunks: None,
        };
        for (call, from, to, last) in [(1, 1, 2, "200 OK"), (2, 3, 4, "486 Busy Here")] {
            let message = |start: &str| {
                format!(
                    "{start}\r\nVia: SIP/2.0/UDP a;branch=z9hG4bK{call}\r\nFrom: <sip:user{from}@x>;tag=1\r\n\
                     To: <sip:user{to}@x>\r\nCall-ID: call-{call}\r\nCSeq: 1 INVITE\r\n\
                     Subject: a\u{1b}[2Jb\r\n\r\n"
                )
            };
            fixture.see((1, 2), &message("INVITE sip:x SIP/2.0"));
            fixture.see((2, 1), &message("SIP/2.0 180 Ringing"));
            fixture.see((2, 1), &message(&format!("SIP/2.0 {last}")));
        }
        fixture
    }

    fn see(&mut self, (from, to): (u8, u8), text: &str) {
        let end = |host| Endpoint {
            address: IpAddr::V4(Ipv4Addr::new(10, 0, 0, host)),
            port: 5060,
        };
        let event = Event {
            time: Time(1_000_000_000),
            file: 0,
            packet: 1,
            source: end(from),
            destination: end(to),
            kind: EventKind::Sip {
                carrier: Carrier::Udp,
                octets: text.as_bytes(),
                cut: false,
            },
        };
        self.analysis.observe(&event, &mut |_| {});
        self.journal.observe(&event);
    }

    fn press(&mut self, keys: &[Key]) {
        for key in keys {
            assert_eq!(
                self.view.press(*key, &mut self.journal),
                Wish::GoOn,
                "{key:?}"
            );
        }
    }

    fn type_text(&mut self, text: &str) {
        for letter in text.chars() {
            self.press(&[Key::Letter(letter)]);
        }
    }

    fn picture(&mut self, width: u16, height: u16) -> String {
        let area = Rect::new(0, 0, width, height);
        let mut buffer = Buffer::empty(area);
        let besides = Besides {
            analysis: &self.analysis,
            chunks: self.chunks.as_ref(),
            captured: (6, 0),
        };
        self.view.draw(&self.journal, besides, area, &mut buffer);
        let rows = buffer.content.chunks(usize::from(width).max(1));
        let lines = rows.map(|row| row.iter().map(|cell| cell.symbol()).collect::<String>());
        lines.collect::<Vec<_>>().join("\n")
    }
}

#[test]
fn a_call_is_found_opened_and_read() {
    let mut fixture = Fixture::new();
    let list = fixture.picture(140, 20);
    for text in [
        "user1@x",
        "user4@x",
        "standing",
        "refused 486",
        "10.0.0.1:5060",
        "INVITE",
    ] {
        assert!(list.contains(text), "{text}: {list}");
    }
    fixture.press(&[Key::Down, Key::Enter]);
    let ladder = fixture.picture(140, 30);
    assert!(
        ladder.contains("user3@x → user4@x") && ladder.contains("486 Busy Here"),
        "{ladder}"
    );
    assert!(ladder.contains('▶') && ladder.contains('◀'), "{ladder}");
    fixture.press(&[Key::Last, Key::Enter]);
    let message = fixture.picture(140, 30);
    assert!(message.contains("SIP/2.0 486 Busy Here"), "{message}");
    assert!(
        !message.contains('\u{1b}') && message.contains("a\u{fffd}[2Jb"),
        "{message}"
    );
    fixture.press(&[Key::Back, Key::Back]);
    assert!(fixture.picture(140, 20).contains("user1@x"));
    assert_eq!(
        fixture.view.press(Key::Letter('q'), &mut fixture.journal),
        Wish::Quit
    );
}

#[test]
fn chunks_are_shown_between_the_messages() {
    // As an interface hands it over: the header of Linux cooked capture v2, IPv4, an SCTP packet with a SACK chunk.
    let octets = [
        &[8, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0][..],
        &[
            0x45, 0, 0, 48, 0, 0, 0, 0, 64, 132, 0, 0, 10, 0, 0, 4, 10, 0, 0, 3,
        ],
        &[0x13, 0xc4, 0x13, 0xc4, 0, 0, 0, 7, 0, 0, 0, 0],
        &[3, 0, 0, 16, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0],
    ]
    .concat();
    let mut fixture = Fixture::new();
    fixture.picture(140, 20);
    fixture.press(&[Key::Down, Key::Enter]);
    assert!(!fixture.picture(140, 30).contains("SACK"));
    let mut chunks = ChunkArrows::latest();
    let way = |ends: [u8; 2], octets: &[u8]| {
        let mut octets = octets.to_vec();
        (octets[35], octets[39]) = (ends[0], ends[1]);
        octets
    };
    let mut packets = Packets::new(&Settings::default());
    // One of this call, and one between others.
    for octets in [way([1, 2], &octets), way([4, 3], &octets)] {
        packets.read(Time(1_000_000_000), &octets, &mut |event| {
            chunks.observe(&event)
        });
    }
    fixture.chunks = Some(chunks);
    let ladder = fixture.picture(140, 30);
    assert_eq!(ladder.matches("SACK").count(), 1, "{ladder}");
    // What is pointed at are messages.
    fixture.press(&[Key::Last, Key::Enter]);
    let message = fixture.picture(140, 30);
    assert!(message.contains("SIP/2.0 486 Busy Here"), "{message}");
}

#[test]
fn a_search_lists_what_has_it() {
    let mut fixture = Fixture::new();
    fixture.press(&[Key::Letter('/')]);
    fixture.type_text("busy herx");
    fixture.press(&[Key::Erase, Key::Letter('e'), Key::Enter]);
    let list = fixture.picture(140, 20);
    assert!(
        !list.contains("user1@x") && list.contains("user3@x"),
        "{list}"
    );
    // What comes later is found, too.
    fixture.see((2, 1), "SIP/2.0 486 Busy Here\r\nCall-ID: call-1\r\n\r\n");
    assert!(fixture.picture(140, 20).contains("user1@x"));
    fixture.press(&[Key::Back]);
    assert!(fixture.picture(140, 20).contains("user1@x"));
}

/// What a file says.
fn read_again(path: &Path) -> Journal {
    let file = std::fs::File::open(path).expect("it was written");
    let mut reader = capture::Reader::open(file, 0).expect("a capture");
    let mut again = Journal::new(JournalBounds::default(), 1);
    while reader
        .step(&mut |event| again.observe(&event))
        .expect("it is whole")
    {}
    again
}

#[test]
fn a_selection_is_saved_and_read_again() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("calls.pcapng");
    let mut fixture = Fixture::new();
    fixture.picture(140, 20);
    fixture.press(&[Key::Down, Key::Letter(' '), Key::Letter('s')]);
    for _ in 0.."calls.pcapng".len() {
        fixture.press(&[Key::Erase]);
    }
    fixture.type_text(&path.display().to_string());
    fixture.press(&[Key::Enter]);
    let picture = fixture.picture(140, 20);
    assert!(
        picture.contains("saved 3 messages of 1 call in"),
        "{picture}"
    );
    let again = read_again(&path);
    let dialogs: Vec<&Dialog> = again.dialogs().collect();
    assert_eq!(dialogs.len(), 1);
    assert_eq!(
        (&*dialogs[0].call_id, dialogs[0].messages.len()),
        ("call-2", 3)
    );

    // What is there is not written over.
    fixture.press(&[Key::Letter('s')]);
    fixture.press(&[Key::Clear]);
    fixture.type_text(&path.display().to_string());
    fixture.press(&[Key::Enter]);
    assert!(
        fixture.view.note.contains("a file of this name exists"),
        "{}",
        fixture.view.note
    );
}

#[test]
fn figures_and_small_windows_are_shown() {
    let mut fixture = Fixture::new();
    fixture.press(&[Key::Letter('i')]);
    let figures = fixture.picture(140, 60);
    assert!(
        figures.contains("SIP messages") && figures.contains("486"),
        "{figures}"
    );
    // A minute later the call that was refused is over.
    fixture.analysis.pass(Time(61_000_000_000), &mut |session| {
        assert_eq!(session.outcome.status(), Some(486));
    });
    let figures = fixture.picture(140, 60);
    assert!(
        figures.contains("Calls") && figures.contains("refused"),
        "{figures}"
    );
    fixture.press(&[
        Key::PageDown,
        Key::PageUp,
        Key::Last,
        Key::First,
        Key::Letter('i'),
    ]);
    for (width, height) in [
        (0, 0),
        (1, 1),
        (39, 5),
        (40, 6),
        (41, 7),
        (80, 16),
        (300, 200),
    ] {
        for key in [
            Key::Enter,
            Key::Enter,
            Key::Back,
            Key::Letter('i'),
            Key::Back,
        ] {
            fixture.picture(width, height);
            fixture.press(&[key]);
        }
        fixture.press(&[Key::Back]);
    }
    fixture.press(&[Key::Enter, Key::Letter('c')]);
    assert!(!fixture.picture(140, 20).contains("user1"));
    fixture.press(&[
        Key::Enter,
        Key::Down,
        Key::PageUp,
        Key::Letter(' '),
        Key::Last,
    ]);
    fixture.press(&[Key::Letter('p')]);
    assert!(fixture.view.is_paused() && fixture.picture(80, 16).contains("paused"));
}

#[test]
fn a_small_terminal_shows_whole_addresses_and_states() {
    let mut fixture = Fixture::new();
    let list = fixture.picture(80, 24);
    for text in [
        "10.0.0.1:5060",
        "10.0.0.2:5060",
        "refused 486",
        "user1@x",
        "user4@x",
    ] {
        assert!(list.contains(text), "{text}: {list}");
    }
    // What would be cut gives way: seconds first.
    assert!(!list.contains("Seconds"), "{list}");
    assert!(fixture.picture(140, 24).contains("Seconds"));
}

#[test]
fn the_list_is_sorted_filtered_and_has_the_columns_that_are_chosen() {
    let mut fixture = Fixture::new();
    let first_of = |picture: &str| picture.lines().nth(2).unwrap_or_default().to_owned();
    assert!(first_of(&fixture.picture(140, 20)).contains("user1@x"));
    // By number, the last one first.
    fixture.press(&[Key::Letter('z')]);
    let list = fixture.picture(140, 20);
    assert!(
        first_of(&list).contains("user3@x") && list.contains("▼#"),
        "{list}"
    );
    // By From, which is three columns on.
    fixture.press(&[Key::Letter('z')]);
    fixture.press(&[Key::Letter('>'); 3]);
    let list = fixture.picture(140, 20);
    assert!(
        first_of(&list).contains("user1@x") && list.contains("▲From"),
        "{list}"
    );

    fixture.press(&[Key::Letter('f')]);
    fixture.type_text("state:486 address:10.0.0.1");
    fixture.press(&[Key::Enter]);
    let list = fixture.picture(140, 20);
    assert!(
        !list.contains("user1@x") && list.contains("user3@x"),
        "{list}"
    );
    fixture.press(&[Key::Letter('f')]);
    fixture.type_text(" colour:red");
    fixture.press(&[Key::Enter]);
    assert!(
        fixture.view.note.contains("colour:red"),
        "{}",
        fixture.view.note
    );
    fixture.press(&[Key::Back]);
    assert!(fixture.picture(140, 20).contains("user1@x"));

    // The Call-ID is the sixth of all.
    fixture.press(&[Key::Letter('t')]);
    fixture.press(&[Key::Down; 5]);
    let columns = fixture.picture(140, 20);
    assert!(
        columns.contains("[ ] Call-ID") && columns.contains("[x] From"),
        "{columns}"
    );
    fixture.press(&[Key::Letter(' '), Key::Back]);
    assert!(fixture.picture(160, 20).contains("call-2"));
}

#[test]
fn two_messages_are_compared_and_keys_are_explained() {
    let mut fixture = Fixture::new();
    fixture.picture(140, 30);
    fixture.press(&[Key::Down, Key::Enter, Key::Down, Key::Letter('d')]);
    assert!(fixture.picture(140, 30).contains("marked"));
    fixture.press(&[Key::Last, Key::Letter('d')]);
    let difference = fixture.picture(140, 30);
    for line in [
        "- SIP/2.0 180 Ringing",
        "+ SIP/2.0 486 Busy Here",
        "  Call-ID: call-2",
    ] {
        assert!(difference.contains(line), "{line}: {difference}");
    }
    // The message stands beside the ladder, or beneath it.
    fixture.press(&[Key::Back]);
    let row = |picture: &str| {
        let has_both = |line: &&str| line.contains("user3@x → user4@x") && line.contains("#1");
        picture.lines().any(|line| has_both(&line))
    };
    assert!(row(&fixture.picture(140, 30)));
    let narrow = fixture.picture(80, 24);
    assert!(
        !row(&narrow) && narrow.contains("486 Busy Here"),
        "{narrow}"
    );
    fixture.press(&[Key::Letter('?')]);
    assert!(fixture.picture(80, 30).contains("turn the order round"));
    fixture.press(&[Key::Letter('?'), Key::Back]);
    assert!(fixture.picture(140, 20).contains("user1@x"));
}

/// A packet as an interface hands it over: the header of Linux cooked capture v2, and IPv4 from one host to another.
fn packet([from, to]: [u8; 2], protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut octets = vec![8, 0, 0, 0, 0, 0, 0, 1, 0, 1];
    octets.extend([0; 10]);
    let [high, low] = (20 + payload.len() as u16).to_be_bytes();
    octets.extend([0x45, 0, high, low, 0, 0, 0, 0, 64, protocol, 0, 0]);
    octets.extend([10, 0, 0, from, 10, 0, 0, to]);
    octets.extend(payload);
    octets
}

impl Fixture {
    /// Packets that come a second after the others.
    fn capture(&mut self, packets: &[Vec<u8>]) {
        let mut reader = Packets::new(&Settings::default());
        for octets in packets {
            reader.read(Time(2_000_000_000), octets, &mut |event| {
                self.analysis.observe(&event, &mut |_| {});
                self.journal.observe(&event);
            });
        }
    }
}

#[test]
fn m3ua_is_listed_drawn_and_read() {
    // A DATA chunk with PPID 3 between ports 2905 and 2904: the message is an ASP Up, and its acknowledgement.
    let message = |ports: [u8; 2], tsn: u8, message_type: u8| {
        [
            &[0x0b, ports[0], 0x0b, ports[1], 0, 0, 0, 7, 0, 0, 0, 0][..],
            &[0, 3, 0, 24, 0, 0, 0, tsn, 0, 0, 0, 0, 0, 0, 0, 3],
            &[1, 0, 3, message_type, 0, 0, 0, 8],
        ]
        .concat()
    };
    let mut fixture = Fixture::new();
    fixture.capture(&[
        packet([1, 2], 132, &message([0x58, 0x59], 1, 1)),
        packet([2, 1], 132, &message([0x59, 0x58], 1, 4)),
    ]);
    let list = fixture.picture(140, 20);
    for text in ["M3UA", "10.0.0.1:2904", "10.0.0.2:2905", "ASP inactive"] {
        assert!(list.contains(text), "{text}: {list}");
    }
    fixture.press(&[Key::Last, Key::Enter]);
    let ladder = fixture.picture(140, 30);
    assert!(
        ladder.contains("ASPUP ACK") && ladder.contains('▶'),
        "{ladder}"
    );
    // Beside the ladder, the message that is pointed at, with its octets.
    assert!(ladder.contains("0000  01 00 03 01 00 00 00 08"), "{ladder}");
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("m3ua.pcapng");
    fixture.press(&[Key::Letter('s'), Key::Clear]);
    fixture.type_text(&path.display().to_string());
    fixture.press(&[Key::Enter]);
    let saved = &fixture.view.note;
    assert!(
        saved.starts_with("saved 2 messages of 1 association in"),
        "{saved}"
    );
    let saved = read_again(&path);
    let dialogs: Vec<&Dialog> = saved.dialogs().collect();
    let labels = dialogs.iter().flat_map(|dialog| &dialog.messages);
    let labels: Vec<&str> = labels.map(|message| &*message.label).collect();
    assert_eq!((dialogs.len(), labels.len()), (1, 2), "{labels:?}");
    assert!(
        !dialogs[0].is_sip() && labels[1].starts_with("ASPUP ACK"),
        "{labels:?}"
    );
    // It is found by what the messages are called.
    fixture.press(&[Key::Back, Key::Letter('/')]);
    fixture.type_text("aspup ack");
    fixture.press(&[Key::Enter]);
    let found = fixture.picture(140, 20);
    assert!(
        found.contains("M3UA") && !found.contains("user1@x"),
        "{found}"
    );
}

#[test]
fn the_rtp_streams_of_a_call_are_shown() {
    let mut fixture = Fixture::new();
    fixture.press(&[Key::Letter('r')]);
    fixture.picture(140, 20);
    fixture.press(&[Key::Back, Key::Enter, Key::Letter('r')]);
    assert!(fixture.picture(140, 20).contains("No RTP"));
    fixture.press(&[Key::Back, Key::Back]);
    let sdp = "v=0\r\no=- 1 1 IN IP4 10.0.0.2\r\ns=-\r\nc=IN IP4 10.0.0.2\r\nt=0 0\r\nm=audio 6000 RTP/AVP 0\r\n";
    fixture.see(
        (2, 1),
        &format!(
            "SIP/2.0 200 OK\r\nVia: SIP/2.0/UDP a;branch=z9hG4bK1\r\nFrom: <sip:user1@x>;tag=1\r\nTo: <sip:user2@x>\r\n\
             Call-ID: call-1\r\nCSeq: 1 INVITE\r\nContent-Type: application/sdp\r\n\r\n{sdp}"
        ),
    );
    // Two packets of PCMU from port 4000 to port 6000, between which one is missing.
    let rtp = |sequence: u8| {
        let header = [0x0f, 0xa0, 0x17, 0x70, 0, 20, 0, 0];
        let rtp = [0x80, 0, 0, sequence, 0, 0, 0, 160, 0xab, 0xcd, 0, 1];
        packet([1, 2], 17, &[&header[..], &rtp].concat())
    };
    fixture.capture(&[rtp(1), rtp(3)]);
    fixture.press(&[Key::First, Key::Enter]);
    let ladder = fixture.picture(160, 30);
    assert!(ladder.contains("RTP PCMU 2 lost 33.3%"), "{ladder}");
    fixture.press(&[Key::Letter('r')]);
    let streams = fixture.picture(160, 30);
    for text in [
        "10.0.0.1:4000",
        "10.0.0.2:6000",
        "abcd0001",
        "PCMU",
        "33.33",
    ] {
        assert!(streams.contains(text), "{text}: {streams}");
    }
}
