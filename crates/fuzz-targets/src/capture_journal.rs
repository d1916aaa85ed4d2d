//! A filter and messages that it chooses from: whatever the filter's text, the packets that it takes and those that
//! its opposite takes are all packets, and a journal of them keeps its bounds and can be looked at.

use capture::{Filter, Journal, JournalBounds, Reader, Settings, EventKind};

const BOUNDS: JournalBounds = JournalBounds {
    dialogs: 4,
    octets: 2000,
    messages: 3,
};

/// Feeds the target an input.
pub fn run(input: &[u8]) {
    // A line with the filter, then datagrams with a zero behind each; the first octet of one says whose it is.
    let end = input.iter().position(|octet| *octet == b'\n');
    let (text, rest) = input.split_at(end.unwrap_or(input.len()));
    let file = file(rest.get(1..).unwrap_or_default());
    let all = journal(&file, None);
    let Ok(text) = std::str::from_utf8(text) else {
        return;
    };
    let Ok(filter) = text.parse::<Filter>() else {
        return;
    };
    assert_eq!(text.parse(), Ok(filter.clone()));
    let opposite = format!("not ({text})")
        .parse()
        .expect("what can be said can be denied");
    let chosen = [filter, opposite].map(|filter| journal(&file, Some(filter)));
    assert_eq!(chosen.iter().sum::<u64>(), all);
}

/// How many messages a filter lets through to a journal.
fn journal(file: &[u8], filter: Option<Filter>) -> u64 {
    let settings = Settings {
        filter,
        ..Settings::default()
    };
    let mut reader = Reader::open_with(file, 0, &settings).expect("a file of ours");
    let mut journal = Journal::new(BOUNDS, 1);
    let mut messages = 0;
    while reader
        .step(&mut |event| {
            messages += u64::from(matches!(event.kind, EventKind::Sip { .. }));
            journal.observe(&event);
        })
        .expect("reading from memory does not fail")
    {}
    assert!(journal.dialogs().len() <= BOUNDS.dialogs);
    let numbers: Vec<u64> = journal.dialogs().map(|dialog| dialog.number).collect();
    for number in numbers {
        let dialog = journal.dialog(number).expect("one that is listed");
        assert!(dialog.messages.len() <= BOUNDS.messages);
        assert!(dialog.began() <= dialog.latest());
        assert!(dialog.contains(&dialog.call_id));
        dialog.ladder(None, &journal.rtp(number));
        dialog.first_hop();
        dialog.state.text();
        for message in &dialog.messages {
            assert!(!dialog.text(message).is_empty());
        }
    }
    journal.clear();
    assert_eq!(journal.dialogs().len(), 0);
    messages
}

/// A pcap file of raw IPv4 with these datagrams, a millisecond apart.
fn file(datagrams: &[u8]) -> Vec<u8> {
    const RAW_IP: u32 = 101;
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4, 0x0004_0002, 0, 0, 0xffff, RAW_IP] {
        file.extend_from_slice(&u32::to_le_bytes(word));
    }
    for (number, datagram) in (0_u32..).zip(datagrams.split(|octet| *octet == 0)) {
        let Some((whose, octets)) = datagram.split_first() else {
            continue;
        };
        let udp = u16::try_from(8 + octets.len()).expect("inputs are short");
        let length = 20 + udp;
        for word in [0, number * 1000, length.into(), length.into()] {
            file.extend_from_slice(&word.to_le_bytes());
        }
        let (from, to) = (10 + (whose & 3), 10 + (whose >> 2 & 3));
        file.extend_from_slice(&[0x45, 0]);
        file.extend_from_slice(&length.to_be_bytes());
        file.extend_from_slice(&[0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, from, 10, 0, 0, to]);
        for word in [5060 + u16::from(whose >> 4), 5060, udp, 0] {
            file.extend_from_slice(&word.to_be_bytes());
        }
        file.extend_from_slice(octets);
    }
    file
}
