//! Whether somebody listens to the packets of the loopback interface: tcpdump, Wireshark, `tandem capture live`.
//!
//! A train of datagrams passes the loopback interface in one piece: nothing cuts it, since it never reaches a wire.
//! Whoever listens there with a packet socket (packet(7)) gets it as one datagram of many messages, and would count one
//! of them. So nothing is sent in trains where a packet socket listens. The kernel lists those of a network namespace
//! in /proc/net/packet, a line each behind one that names the columns.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

/// How often it is looked who listens: whoever begins to may get trains for so long.
const INTERVAL: Duration = Duration::from_millis(50);

/// The list of the network namespace that the thread is in, which need not be the one that its process began in.
const LIST: &str = "/proc/thread-self/net/packet";

/// The longest list that is read: 200 sockets. Of more it is supposed that one listens.
const LONGEST_LIST: usize = 16 * 1024;

/// The columns of a line: sk RefCnt Type Proto Iface R Rmem User Inode.
const COLUMNS: usize = 9;
const INTERFACE: usize = 4;
const RUNNING: usize = 5;

/// The number that the kernel gives the loopback interface of every network namespace, and what stands for all.
const LOOPBACK: u32 = 1;
const ALL_INTERFACES: u32 = 0;

/// Looks from time to time who listens.
#[derive(Debug)]
pub struct Taps {
    /// It stays the list of its namespace, whoever reads it.
    list: Option<File>,
    text: Vec<u8>,
    looked: Option<Instant>,
    are_there: bool,
}

impl Taps {
    /// Those of the network namespace that this thread is in.
    pub fn here() -> Taps {
        Taps {
            list: File::open(LIST).ok(),
            text: vec![0; LONGEST_LIST],
            looked: None,
            are_there: true,
        }
    }

    /// Those of a host where nobody listens, for tests.
    #[doc(hidden)]
    pub fn nowhere() -> Taps {
        Taps {
            list: None,
            text: Vec::new(),
            looked: Some(Instant::now() + Duration::from_secs(1 << 30)),
            are_there: false,
        }
    }

    /// Whether somebody listened a moment ago. Where that is not known somebody did.
    pub fn are_there(&mut self, now: Instant) -> bool {
        let is_recent = |looked| now.saturating_duration_since(looked) < INTERVAL;
        if !self.looked.is_some_and(is_recent) {
            self.looked = Some(now);
            self.are_there = self.look().unwrap_or(true);
        }
        self.are_there
    }

    fn look(&mut self) -> io::Result<bool> {
        let list = self.list.as_ref().ok_or(io::ErrorKind::NotFound)?;
        let mut length = 0;
        loop {
            // Nothing is left of the room where the list is too long.
            let room = self.text.get_mut(length..).unwrap_or_default();
            if room.is_empty() {
                return Ok(true);
            }
            match list.read_at(room, length as u64)? {
                0 => break,
                count => length += count,
            }
        }
        Ok(are_listed(self.text.get(..length).unwrap_or_default()))
    }
}

/// Whether a list has a socket that gets what passes the loopback interface. What cannot be understood has.
fn are_listed(list: &[u8]) -> bool {
    let Ok(list) = str::from_utf8(list) else {
        return true;
    };
    let mut lines = list.lines();
    let names = lines.next().map(columns);
    let is_known = names.is_some_and(|names| {
        names.is_some_and(|names| (names[INTERFACE], names[RUNNING]) == ("Iface", "R"))
    });
    !is_known || lines.any(listens)
}

fn listens(line: &str) -> bool {
    let Some(columns) = columns(line) else {
        return true;
    };
    let number = |column: usize| columns[column].parse::<u32>().ok();
    match (number(INTERFACE), number(RUNNING)) {
        (Some(_), Some(0)) => false,
        (Some(interface), Some(_)) => [LOOPBACK, ALL_INTERFACES].contains(&interface),
        _ => true,
    }
}

fn columns(line: &str) -> Option<[&str; COLUMNS]> {
    let mut words = line.split_ascii_whitespace();
    let mut columns = [""; COLUMNS];
    for column in &mut columns {
        *column = words.next()?;
    }
    Some(columns)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NAMES: &str = "sk               RefCnt Type Proto  Iface R Rmem   User   Inode\n";

    fn with(lines: &str) -> bool {
        are_listed(format!("{NAMES}{lines}").as_bytes())
    }

    #[test]
    fn nobody_is_listed() {
        assert!(!with(""));
    }

    #[test]
    fn tcpdump_is_listed() {
        // `tcpdump -i lo`, `tcpdump -i any`, and `tandem capture live -i lo` behind a DHCP client.
        let lo = "ffff88800a3c5000 3      3    0003   1     1 0      0      71234\n";
        let any = "0000000000000000 3      2    0003   0     1 45824  1000   71235\n";
        let dhcp = "ffff88800a3c6000 3      3    0800   2     1 0      0      71000\n";
        assert!(with(lo) && with(any) && with(&format!("{dhcp}{lo}")));
    }

    #[test]
    fn who_hears_nothing_of_the_loopback_interface_does_not_count() {
        let other_interface = "ffff88800a3c6000 3      3    88cc   2     1 0      0      71000\n";
        let not_yet = "ffff88800a3c5000 3      3    0000   0     0 0      0      71234\n";
        assert!(!with(&format!("{other_interface}{not_yet}")));
    }

    #[test]
    fn what_is_not_understood_listens() {
        assert!(are_listed(b""));
        assert!(are_listed(b"\xff"));
        assert!(are_listed(
            b"sk RefCnt Type Proto Device R Rmem User Inode\n"
        ));
        for line in [
            "one\n",
            "\n",
            "0 3 3 0003 lo 1 0 0 7\n",
            "0 3 3 0003 1 yes 0 0 7\n",
            "0 3 3 0003 4294967296 0 0 0 7\n",
            "0 3 3 0003 2 1 0 0",
        ] {
            assert!(with(line), "{line}");
        }
    }

    #[test]
    fn a_list_that_is_missing_or_too_long_listens() {
        let now = Instant::now();
        let file = tempfile::NamedTempFile::new().unwrap();
        let taps = |list: Option<&str>| {
            std::fs::write(file.path(), list.unwrap_or_default()).unwrap();
            let list = list.map(|_| File::open(file.path()).unwrap());
            let mut taps = Taps {
                list,
                ..Taps::here()
            };
            taps.are_there(now)
        };
        assert!(taps(None));
        assert!(!taps(Some(NAMES)));
        let elsewhere = "0 3 3 88cc 2 1 0 0 7\n";
        assert!(!taps(Some(&format!("{NAMES}{elsewhere}"))));
        assert!(taps(Some(&format!(
            "{NAMES}{}",
            elsewhere.repeat(LONGEST_LIST / 20)
        ))));
    }

    #[test]
    fn it_is_looked_again_after_a_while() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut taps = Taps {
            list: Some(File::open(file.path()).unwrap()),
            ..Taps::here()
        };
        let now = Instant::now();
        assert!(taps.are_there(now));
        std::fs::write(file.path(), NAMES).unwrap();
        assert!(taps.are_there(now + INTERVAL / 2));
        assert!(!taps.are_there(now + INTERVAL));
        std::fs::write(file.path(), format!("{NAMES}0 3 3 0003 1 1 0 0 7\n")).unwrap();
        assert!(!taps.are_there(now + INTERVAL));
        assert!(taps.are_there(now + 2 * INTERVAL));
    }

    /// A line of a socket that hears nothing of the loopback interface.
    fn deaf() -> impl Strategy<Value = String> {
        let elsewhere = (2..u32::MAX, Just(1));
        let stopped = (any::<u32>(), Just(0));
        let rest = (any::<u64>(), any::<u16>(), any::<u32>());
        (rest, prop_oneof![elsewhere, stopped]).prop_map(|((socket, protocol, room), place)| {
            let (interface, running) = place;
            format!("{socket:016x} 3 3 {protocol:04x} {interface} {running} {room} 0 7\n")
        })
    }

    proptest! {
        #[test]
        fn whoever_listens_is_found_among_others(
            before in prop::collection::vec(deaf(), 0..20),
            behind in prop::collection::vec(deaf(), 0..20),
            interface in 0..=1_u32,
        ) {
            let (before, behind) = (before.concat(), behind.concat());
            let none = format!("{before}{behind}");
            prop_assert!(!with(&none));
            let listening = format!("0 3 3 0003 {interface} 1 0 0 7\n");
            let all = format!("{before}{listening}{behind}");
            prop_assert!(with(&all));
        }

        /// Whatever stands there, there is an answer.
        #[test]
        fn any_list_is_judged(
            octets in prop::collection::vec(any::<u8>(), 0..400),
            words in "[0-9a-z \n]{0,200}",
        ) {
            are_listed(&octets);
            with(&words);
        }
    }
}
