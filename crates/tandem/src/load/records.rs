//! A line of CSV for each call, registration or request.

use std::fmt::{self, Display, Write as _};
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Context;
use load::record::{Attempt, CallId, Outcome, Party, Record};
use report::{CsvRecord, Decimal};

/// Bundles of records that may wait to be written. Workers wait when there are more: nothing is lost, and
/// the lateness shows it.
const WAITING: usize = 1024;

/// A thread that writes records to a file.
#[derive(Debug)]
pub(super) struct RecordFile {
    path: PathBuf,
    thread: JoinHandle<std::io::Result<()>>,
}

impl RecordFile {
    /// Makes the file. What is sent is written, until nobody can send any more. Times are counted from the
    /// start of the run.
    pub(super) fn create(
        path: &Path,
        origin: Instant,
    ) -> anyhow::Result<(RecordFile, SyncSender<Vec<Record>>)> {
        let file =
            File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
        let (sender, receiver) = sync_channel::<Vec<Record>>(WAITING);
        let write = move || {
            let mut file = BufWriter::with_capacity(1 << 16, file);
            file.write_all(HEADER.as_bytes())?;
            let mut lines = String::new();
            for records in receiver {
                lines.clear();
                for record in &records {
                    push_line(&mut lines, record, origin);
                }
                file.write_all(lines.as_bytes())?;
            }
            file.flush()
        };
        let thread = std::thread::Builder::new()
            .name("records".to_owned())
            .spawn(write)
            .context("cannot start a thread")?;
        let records = RecordFile {
            path: path.to_owned(),
            thread,
        };
        Ok((records, sender))
    }

    /// Waits until all is written. Everybody who could send has to be gone.
    pub(super) fn finish(self) -> anyhow::Result<()> {
        let written = self.thread.join();
        match written {
            Ok(written) => written.with_context(|| format!("cannot write {}", self.path.display())),
            Err(_) => anyhow::bail!("cannot write {}", self.path.display()),
        }
    }
}

/// The columns (RFC 4180 section 2 has CRLF at the end). A registration or request leaves those of a call
/// empty. `due` and `begun` are counted from the start of the run, what follows from `begun`.
const HEADER: &str = "kind,side,user,peer,call_id,due_s,begun_s,late_ms,outcome,status,invited_ms,\
    first_provisional_ms,ringing_ms,answered_ms,acknowledged_ms,bye_ms,bye_answered_ms,bye_status,ended_ms,\
    retransmissions,authentications\r\n";

fn push_line(line: &mut String, record: &Record, origin: Instant) {
    let attempt = record.attempt();
    let mut answered = None;
    let kind = match record {
        // What is known of a call before its end is in its last record, too.
        Record::Established(_) => return,
        Record::Call(_) => "call",
        Record::Registration(record) => {
            answered = record.answered;
            match record.is_refresh {
                true => "refresh",
                false => "registration",
            }
        }
        Record::Request(record) => {
            answered = record.answered;
            record.method.as_str()
        }
    };
    let side = match attempt.party {
        Party::Caller => "caller",
        Party::Callee => "callee",
    };
    let seconds = |time: Instant| time.saturating_duration_since(origin).as_secs_f64();
    // Writing to a string does not fail.
    let _ = write!(
        line,
        "{kind},{side},{},{},{},{:.6},{:.6},{},{},{}",
        attempt.user,
        attempt.peer,
        Field(&attempt.call_id),
        seconds(attempt.due),
        seconds(attempt.begun),
        Milliseconds(Some(attempt.lateness())),
        Reason(attempt),
        Optional(attempt.status),
    );
    let (times, bye_status) = match record {
        Record::Call(call) => (
            [
                Some(call.invited),
                call.first_provisional,
                call.progress,
                call.answered,
                call.acknowledged,
                call.bye,
                call.bye_answered,
            ],
            call.bye_status,
        ),
        _ => ([None, None, None, answered, None, None, None], None),
    };
    for time in times {
        let _ = write!(line, ",{}", Milliseconds(time));
    }
    let _ = write!(
        line,
        ",{},{},{},{}\r\n",
        Optional(bye_status),
        Milliseconds(Some(attempt.ended)),
        attempt.retransmissions,
        attempt.authentications
    );
}

/// Why an attempt ended.
struct Reason<'a>(&'a Attempt);

impl Display for Reason<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.outcome {
            Outcome::Completed => f.write_str("completed"),
            Outcome::Failed(failure) => write!(f, "{failure}"),
            Outcome::Unfinished => f.write_str("unfinished"),
        }
    }
}

struct Milliseconds(Option<Duration>);

impl Display for Milliseconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(time) => write!(f, "{:.3}", time.as_secs_f64() * 1e3),
            None => Ok(()),
        }
    }
}

struct Optional<T>(Option<T>);

impl<T: Display> Display for Optional<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(value) => value.fmt(f),
            None => Ok(()),
        }
    }
}

/// A peer writes what it likes into a Call-ID.
struct Field<'a>(&'a CallId);

impl Display for Field<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CallId::Other(text) = self.0 else {
            return self.0.fmt(f);
        };
        let mut field = Vec::new();
        CsvRecord::new(&mut field, Decimal::Point).text(text);
        f.write_str(&String::from_utf8_lossy(&field))
    }
}

#[cfg(test)]
mod tests {
    use load::record::{CallRecord, Failure};
    use load::script::ScriptId;

    use super::*;

    fn call(origin: Instant) -> CallRecord {
        CallRecord {
            attempt: Attempt {
                script: ScriptId(0),
                party: Party::Caller,
                user: 1,
                peer: 3,
                call_id: CallId::Other("a,\"b".into()),
                due: origin + Duration::from_secs(1),
                begun: origin + Duration::from_micros(1_000_250),
                ended: Duration::from_millis(20),
                outcome: Outcome::Failed(Failure::Refused),
                status: Some(486),
                retransmissions: 2,
                authentications: 1,
                timers: Vec::new(),
            },
            first_invited: Duration::ZERO,
            invited: Duration::ZERO,
            reached: None,
            first_provisional: Some(Duration::from_micros(1500)),
            progress: None,
            answered: Some(Duration::from_millis(2)),
            acknowledged: None,
            bye: None,
            is_bye_from_peer: false,
            bye_answered: None,
            bye_status: None,
            is_setup_recorded: false,
        }
    }

    #[test]
    fn a_record_is_a_line() {
        let origin = Instant::now();
        let mut line = String::new();
        push_line(&mut line, &Record::Established(call(origin)), origin);
        assert_eq!(line, "");
        push_line(&mut line, &Record::Call(call(origin)), origin);
        assert_eq!(
            line,
            "call,caller,1,3,\"a,\"\"b\",1.000000,1.000250,0.250,refused,486,0.000,1.500,,2.000,,,,,20.000,2,1\r\n"
        );
        // The quoted field has one comma more.
        assert_eq!(line.matches(',').count(), HEADER.matches(',').count() + 1);
    }

    #[test]
    fn what_a_peer_wrote_is_no_formula() {
        let origin = Instant::now();
        for (call_id, written) in [
            ("=1+\t1", "'=1+ 1"),
            ("-HYPERLINK(\"a\")", "\"'-HYPERLINK(\"\"a\"\")\""),
            ("+a@b", "+a@b"),
        ] {
            let mut call = call(origin);
            call.attempt.call_id = CallId::Other(call_id.into());
            let mut line = String::new();
            push_line(&mut line, &Record::Call(call), origin);
            let begins = format!("call,caller,1,3,{written},1.000000,");
            assert!(line.starts_with(&begins), "{line}");
        }
    }

    #[test]
    fn what_is_sent_is_in_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("calls.csv");
        let origin = Instant::now();
        let (file, sender) = RecordFile::create(&path, origin).unwrap();
        sender.send(vec![Record::Call(call(origin)); 3]).unwrap();
        drop(sender);
        file.finish().unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text.lines().count(), 4);
    }
}
