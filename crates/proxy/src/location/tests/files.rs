//! What can be wrong with a file, and what must not be lost with one.

use std::fs::{self, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use rusqlite::Connection;
use sip::digest::Credentials;

use super::super::sqlite::count_entries;
use super::*;
use crate::core::FORMER_CONNECTION;

struct Scratch {
    directory: tempfile::TempDir,
}

impl Scratch {
    fn new() -> Scratch {
        Scratch {
            directory: tempfile::tempdir().expect("a directory"),
        }
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("new/a.db")
    }

    fn open(&self) -> Worker {
        Worker::new(&in_file(&self.path()))
    }

    /// Writes a file with bindings in it.
    fn fill(&self, users: u32) {
        let mut worker = self.open();
        for user in 0..users {
            let answer = worker.register(&format!("u{user}"), 1, CONTACT, Instant::now());
            assert_eq!(count(&answer), Some(1));
        }
    }

    /// Makes a file as the first version wrote them.
    fn make_of_older_version(&self) -> Connection {
        fs::create_dir(self.directory.path().join("new")).expect("made");
        let connection = Connection::open(self.path()).expect("a database");
        connection
            .execute_batch(include_str!("../sqlite/schema_1.sql"))
            .expect("tables");
        connection
            .execute_batch("PRAGMA application_id = 1416520813; PRAGMA user_version = 1")
            .expect("set");
        connection
    }

    /// What is said when it cannot be opened.
    fn complaint(&self) -> String {
        let mut rng = ChaCha12Rng::seed_from_u64(1);
        let error = Store::open(&in_file(&self.path()), &mut rng).expect_err("it does not open");
        let text = error.to_string();
        assert!(text.contains(&*self.path().to_string_lossy()), "{text}");
        assert_eq!(text.lines().count(), 1, "{text}");
        text
    }
}

const CONTACT: &str = "<sip:a@127.0.0.1:5062>;expires=3000";

#[test]
fn what_was_answered_is_there_when_the_file_is_opened_again() {
    let scratch = Scratch::new();
    scratch.fill(100);
    let mut worker = scratch.open();
    assert_eq!(worker.counts(), (100, 100));
    let now = Instant::now();
    let Answer::Bindings(bindings) = worker.look_up("u42", now) else {
        panic!("a user who is registered");
    };
    let parts = bindings[0].parts();
    assert_eq!(parts.contact, "sip:a@127.0.0.1:5062");
    let left = parts.expires.duration_since(now).as_secs();
    assert!((2900..=3000).contains(&left), "{left}");
    let flow = parts.flow.expect("the flow stays");
    assert_eq!(flow.connection, FORMER_CONNECTION);
    assert_eq!(flow.local, worker.registering.address);
    // A user agent that goes on counting is served, one that repeats itself is not.
    let repeated = worker.register("u42", 1, CONTACT, now);
    assert!(matches!(repeated, Answer::Refused(_)));
    assert_eq!(count(&worker.register("u42", 2, CONTACT, now)), Some(1));
}

/// Registers 50 users 300 times, so many times without waiting for the answers.
fn register_again_and_again(worker: &mut Worker, at_once: u32) {
    let now = Instant::now();
    for from in (1..=300).step_by(at_once as usize) {
        for cseq in from..from + at_once {
            for user in 0..50 {
                let user = format!("u{user}");
                let (id, address, update) = worker.registering.update(&user, cseq, CONTACT, now);
                worker
                    .handle
                    .submit(now, id, StoreQuery::Update(address, update));
            }
        }
        for _ in 0..50 * at_once {
            assert_eq!(count(&worker.next().1), Some(1));
        }
    }
}

#[test]
fn what_is_superseded_does_not_stay_in_the_file() {
    // An address of record may change many times in one transaction.
    for at_once in [1, 100] {
        let scratch = Scratch::new();
        let mut worker = scratch.open();
        let now = Instant::now();
        // One user does not come again, and is in the way of what is removed.
        worker.register("once", 1, CONTACT, now);
        register_again_and_again(&mut worker, at_once);
        drop(worker);
        let entries = count_entries(&scratch.path());
        assert!(entries < 11_000, "{entries} entries for 51 bindings");
        let mut worker = scratch.open();
        assert_eq!(worker.counts(), (51, 51));
        for user in ["once", "u0", "u49"] {
            assert_eq!(count(&worker.look_up(user, now)), Some(1), "{user}");
        }
        assert!(matches!(
            worker.register("u7", 300, CONTACT, now),
            Answer::Refused(_)
        ));
    }
}

/// What is damaged under a running proxy keeps nobody from registering.
#[test]
fn a_row_that_cannot_be_read_stops_no_registrations() {
    let scratch = Scratch::new();
    let mut worker = scratch.open();
    worker.register("once", 1, CONTACT, Instant::now());
    let other = Connection::open(scratch.path()).expect("a connection");
    let damaged = other.execute("UPDATE log SET entries = x'ff' WHERE id = 1", ());
    assert_eq!(damaged.expect("written"), 1);
    // So often that it would be removed.
    register_again_and_again(&mut worker, 100);
    assert_eq!(worker.store.statistics().failed_updates, 0);
    drop(worker);
    let rest = other.execute("DELETE FROM log WHERE id = 1", ());
    assert_eq!(rest.expect("written"), 1);
    drop(other);
    assert_eq!(count_entries(&scratch.path()), 15_000);
    assert_eq!(scratch.open().counts(), (50, 50));
}

/// What was written with a row for each binding is there, and from now on in the log.
#[test]
fn a_file_of_an_older_version_is_taken_over() {
    let scratch = Scratch::new();
    let connection = scratch.make_of_older_version();
    let wall = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let wall = wall.expect("after 1970").as_millis() as i64;
    let add = |entry: i64, place: i64, address: &str, state: i64, contact: Option<&str>| {
        connection
            .execute(
                "INSERT INTO bindings VALUES (?,?,?,?,';x',700,?,3600,'call',5,NULL,0,
                    'UDP 127.0.0.1:5060 127.0.0.1:9','','Phone')",
                (
                    entry << 16 | place,
                    address,
                    state,
                    contact,
                    wall + 3_000_000,
                ),
            )
            .expect("a row")
    };
    for entry in 1..=1500 {
        let user = format!("u{}@example.com", entry % 1000);
        add(
            entry,
            0,
            &user,
            0,
            Some(&format!("sip:a@127.0.0.1:{entry}")),
        );
    }
    add(1501, 0, "u1@example.com", 2, None);
    add(1502, 0, "u2@example.com", 1, None);
    add(1503, 0, "u3@example.com", 0, Some("sip:one@127.0.0.1"));
    add(1503, 1, "u3@example.com", 0, Some("sip:other@127.0.0.1"));
    drop(connection);
    for _ in 0..2 {
        let mut worker = scratch.open();
        assert_eq!(worker.counts(), (999, 999));
        let now = Instant::now();
        assert_eq!(worker.look_up("u1", now), Answer::Unknown);
        assert_eq!(count(&worker.look_up("u2", now)), Some(0));
        assert_eq!(count(&worker.look_up("u3", now)), Some(2));
        let Answer::Bindings(bindings) = worker.look_up("u400", now) else {
            panic!("a user who is registered");
        };
        let parts = bindings[0].parts();
        assert_eq!(
            (parts.contact, parts.parameters, parts.q, parts.call_id),
            ("sip:a@127.0.0.1:1400", ";x", 700, "call")
        );
        assert_eq!(
            parts.flow.map(|flow| flow.connection),
            Some(FORMER_CONNECTION)
        );
        let left = parts.expires.saturating_duration_since(now).as_secs();
        assert!((2900..=3000).contains(&left), "{left}");
    }
}

/// The running proxy would go on writing as its version does.
#[test]
fn users_of_a_file_of_an_older_version_are_not_changed_while_a_proxy_runs_on_it() {
    let scratch = Scratch::new();
    let proxy = scratch.make_of_older_version();
    // As a proxy opens it.
    proxy
        .pragma_update(None, "journal_mode", "wal")
        .expect("set");
    let before = fs::read(scratch.path()).expect("a file");
    let lock = fs::File::create(scratch.directory.path().join("new/a.db-lock")).expect("a file");
    lock.lock().expect("nobody has it");
    let error = UserDatabase::open(&url(&scratch.path())).expect_err("it is in use");
    let text = error.to_string();
    assert!(
        text.contains("schema 1") && text.contains("restart that proxy"),
        "{text}"
    );
    assert_eq!(text.lines().count(), 1, "{text}");
    let version = proxy.pragma_query_value(None, "user_version", |row| row.get::<_, i64>(0));
    assert_eq!(version.expect("a number"), 1);
    assert_eq!(fs::read(scratch.path()).expect("a file"), before);

    // With nobody on it it is taken over.
    drop((lock, proxy));
    let users = UserDatabase::open(&url(&scratch.path())).expect("it opens");
    let alice = User::new("alice", "example.com", b"secret");
    assert!(users.put(&alice).expect("written"));
    // The lock is not kept.
    assert_eq!(scratch.open().store.statistics().users, 1);
}

#[test]
fn the_seed_of_keys_stays_and_is_not_that_of_others() {
    let (one, other) = (Scratch::new(), Scratch::new());
    let open = |scratch: &Scratch, seed| {
        let mut rng = ChaCha12Rng::seed_from_u64(seed);
        let store = Store::open(&in_file(&scratch.path()), &mut rng);
        store.expect("it opens").seed()
    };
    let seed = open(&one, 1);
    assert_eq!(open(&one, 2), seed);
    assert_ne!(open(&other, 3), seed);
}

#[test]
fn nobody_else_can_read_the_file() {
    let scratch = Scratch::new();
    let _worker = scratch.open();
    let mode = |path: &Path| {
        fs::metadata(path)
            .expect("it is there")
            .permissions()
            .mode()
            & 0o777
    };
    assert_eq!(mode(&scratch.path()), 0o600);
    assert_eq!(mode(scratch.path().parent().expect("a directory")), 0o700);
    let log = scratch.path().with_extension("db-wal");
    assert_eq!(mode(&log), 0o600);
}

#[test]
fn a_file_has_one_store_at_a_time() {
    let scratch = Scratch::new();
    let worker = scratch.open();
    assert!(scratch.complaint().contains("in use"));
    drop(worker);
    scratch.open();
}

#[test]
fn a_file_that_is_something_else_is_left_alone() {
    let scratch = Scratch::new();
    let directory = scratch.directory.path().join("new");
    fs::create_dir(&directory).expect("made");
    let text = "Dear diary,\n".repeat(1000);
    fs::write(scratch.path(), &text).expect("written");
    assert!(scratch.complaint().contains("not a database of Tandem"));
    assert_eq!(fs::read_to_string(scratch.path()).expect("a text"), text);

    fs::remove_file(scratch.path()).expect("removed");
    let connection = Connection::open(scratch.path()).expect("a database");
    connection
        .execute_batch("CREATE TABLE recipes (name TEXT)")
        .expect("a table");
    drop(connection);
    assert!(scratch.complaint().contains("not a database of Tandem"));
}

#[test]
fn a_file_of_a_newer_version_is_left_alone() {
    let scratch = Scratch::new();
    scratch.fill(1);
    let connection = Connection::open(scratch.path()).expect("a database");
    connection
        .pragma_update(None, "user_version", 99)
        .expect("set");
    drop(connection);
    let text = scratch.complaint();
    assert!(text.contains("newer version (schema 99"), "{text}");
}

#[test]
fn a_damaged_file_is_told_and_not_served_from() {
    let scratch = Scratch::new();
    scratch.fill(1000);
    let whole = fs::read(scratch.path()).expect("a file");
    assert!(whole.len() > 60_000, "{}", whole.len());
    let damage = |from: usize, to: usize| {
        let mut damaged = whole.clone();
        damaged[from..to].fill(0xa5);
        fs::write(scratch.path(), damaged).expect("written");
        scratch.complaint()
    };
    for (from, to) in [(0, 100), (4096, 60_000), (whole.len() / 2, whole.len())] {
        let text = damage(from, to);
        assert!(
            text.contains("damaged") || text.contains("not a database"),
            "{text}"
        );
    }
    // Cut off.
    fs::write(scratch.path(), &whole[..whole.len() / 2]).expect("written");
    assert!(scratch.complaint().contains("damaged"));
    // Back from a copy.
    fs::write(scratch.path(), &whole).expect("written");
    assert_eq!(scratch.open().counts(), (1000, 1000));
}

/// Any octet of the file may be another one: it is opened or complained of, and never worse.
#[test]
fn damage_anywhere_harms_nothing_else() {
    let scratch = Scratch::new();
    scratch.fill(100);
    let whole = fs::read(scratch.path()).expect("a file");
    for position in (0..whole.len()).step_by(97) {
        fs::write(scratch.path(), &whole).expect("written");
        let mut file = OpenOptions::new()
            .write(true)
            .open(scratch.path())
            .expect("a file");
        file.seek(SeekFrom::Start(position as u64)).expect("there");
        file.write_all(&[!whole[position]]).expect("written");
        drop(file);
        let mut rng = ChaCha12Rng::seed_from_u64(1);
        if let Ok(store) = Store::open(&in_file(&scratch.path()), &mut rng) {
            assert!(store.statistics().bindings <= 100);
        }
    }
}

#[test]
fn changes_fail_while_the_file_cannot_be_written_and_are_made_again_after() {
    let scratch = Scratch::new();
    let mut worker = scratch.open();
    let now = Instant::now();
    worker.register("alice", 1, CONTACT, now);
    let other = Connection::open(scratch.path()).expect("a connection");
    other.execute_batch("BEGIN IMMEDIATE").expect("locked");
    assert_eq!(worker.register("alice", 2, "*", now), Answer::Failed);
    assert_eq!(worker.register("bob", 1, CONTACT, now), Answer::Failed);
    // Nothing of it can be seen.
    assert_eq!(count(&worker.look_up("alice", now)), Some(1));
    assert_eq!(worker.look_up("bob", now), Answer::Unknown);
    other.execute_batch("ROLLBACK").expect("unlocked");
    assert_eq!(count(&worker.register("alice", 3, "*", now)), Some(0));
    assert_eq!(count(&worker.register("bob", 2, CONTACT, now)), Some(1));
    let statistics = worker.store.statistics();
    assert_eq!((statistics.updates, statistics.failed_updates), (3, 2));
    drop((worker, other));
    assert_eq!(scratch.open().counts(), (2, 1));
}

#[test]
fn a_running_store_sees_users_come_and_go() {
    let scratch = Scratch::new();
    let users = UserDatabase::open(&url(&scratch.path())).expect("it opens");
    let alice = User::new("alice", "example.com", b"secret");
    assert!(users.put(&alice).expect("written"));
    let mut worker = scratch.open();
    assert_eq!(credentials(&mut worker, "alice"), Some(alice.credentials));

    let changed = User::new("alice", "example.com", b"another");
    assert!(!users.put(&changed).expect("written"));
    let bob = User::new("bob", "example.com", b"secret");
    assert!(users.put(&bob).expect("written"));
    eventually(|| credentials(&mut worker, "bob") == Some(bob.credentials));
    assert_eq!(credentials(&mut worker, "alice"), Some(changed.credentials));
    assert_eq!(users.list().expect("read"), [changed, bob]);

    assert!(users.remove("example.com", "alice").expect("written"));
    assert!(!users.remove("example.com", "alice").expect("written"));
    eventually(|| credentials(&mut worker, "alice").is_none());
    assert_eq!(worker.store.statistics().users, 1);
}

fn credentials(worker: &mut Worker, username: &str) -> Option<Credentials> {
    let (id, _, _) = worker.registering.update("x", 1, "*", Instant::now());
    let query = StoreQuery::Credentials {
        realm: "example.com".into(),
        username: username.into(),
    };
    match worker.ask(Instant::now(), id, query) {
        Answer::Credentials(credentials) => credentials.map(|credentials| *credentials),
        other => panic!("credentials expected: {other:?}"),
    }
}

fn eventually(mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(30), "it never came");
        std::thread::sleep(Duration::from_millis(50));
    }
}
