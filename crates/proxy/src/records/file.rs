//! A file of lines that is set aside when it is long.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// A file that grows to a length, then becomes `FILE.1`, the one of that name `FILE.2`, and so on.
#[derive(Debug)]
pub(super) struct RotatedFile {
    path: PathBuf,
    maximum_octets: u64,
    kept: u32,
    file: BufWriter<File>,
    octets: u64,
    /// Where it could not be set aside: the length at which that is tried again.
    retry_at: u64,
}

impl RotatedFile {
    /// Goes on with a file, or begins it.
    pub(super) fn open(path: &Path, maximum_octets: u64, kept: u32) -> io::Result<RotatedFile> {
        let (file, octets) = append_to(path)?;
        Ok(RotatedFile {
            path: path.to_owned(),
            maximum_octets,
            kept,
            file,
            octets,
            retry_at: 0,
        })
    }

    /// Adds a line, which brings its own end. It may stay in memory until the next flush.
    ///
    /// # Errors
    /// The line cannot be written.
    pub(super) fn write_line(&mut self, line: &[u8]) -> io::Result<()> {
        self.file.write_all(line)?;
        self.octets += line.len() as u64;
        Ok(())
    }

    /// Sets the file aside where a line of this length would make it too long. Where that is not possible it
    /// grows on, and the next attempt is made when it has grown by a tenth of the length.
    ///
    /// # Errors
    /// It cannot be set aside: a file cannot be renamed or opened.
    pub(super) fn make_room(&mut self, length: usize) -> io::Result<()> {
        let longer = self.octets.saturating_add(length as u64);
        if self.octets == 0 || longer <= self.maximum_octets || longer < self.retry_at {
            return Ok(());
        }
        let result = self.set_aside();
        self.retry_at = match result {
            Ok(()) => 0,
            Err(_) => longer.saturating_add(self.maximum_octets / 10),
        };
        result
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }

    /// Goes on with the file that has the name now.
    pub(super) fn reopen(&mut self) -> io::Result<()> {
        // What cannot be written to the old file is lost; the new one shall be opened anyway.
        let flushed = self.file.flush();
        (self.file, self.octets) = append_to(&self.path)?;
        flushed
    }

    fn set_aside(&mut self) -> io::Result<()> {
        self.file.flush()?;
        if self.kept == 0 {
            self.file.get_ref().set_len(0)?;
            self.octets = 0;
            return Ok(());
        }
        for number in (1..self.kept).rev() {
            let (from, to) = (self.numbered(number), self.numbered(number + 1));
            match std::fs::rename(from, to) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        std::fs::rename(&self.path, self.numbered(1))?;
        (self.file, self.octets) = append_to(&self.path)?;
        Ok(())
    }

    fn numbered(&self, number: u32) -> PathBuf {
        let mut name = OsString::from(&self.path);
        name.push(format!(".{number}"));
        name.into()
    }
}

fn append_to(path: &Path) -> io::Result<(BufWriter<File>, u64)> {
    // For its owner alone: it says who calls whom.
    let file = OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .open(path)?;
    let octets = file.metadata()?.len();
    Ok((BufWriter::new(file), octets))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(directory: &Path, name: &str) -> Option<String> {
        std::fs::read_to_string(directory.join(name)).ok()
    }

    #[test]
    fn it_keeps_so_many_files_of_such_a_length() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("calls");
        let mut file = RotatedFile::open(&path, 8, 2).expect("it opens");
        for line in ["one\n", "two\n", "three\n", "four\n", "five\n"] {
            file.make_room(line.len()).expect("set aside");
            file.write_line(line.as_bytes()).expect("written");
        }
        file.flush().expect("written");
        let read = |name| read(directory.path(), name);
        assert_eq!(read("calls").as_deref(), Some("five\n"));
        assert_eq!(read("calls.1").as_deref(), Some("four\n"));
        assert_eq!(read("calls.2").as_deref(), Some("three\n"));
        assert_eq!(read("calls.3"), None);
    }

    #[test]
    fn its_owner_alone_may_read_it() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("calls");
        let mut file = RotatedFile::open(&path, 1, 1).expect("it opens");
        file.write_line(b"one\n").expect("written");
        file.make_room(1).expect("set aside");
        for name in ["calls", "calls.1"] {
            let metadata = std::fs::metadata(directory.path().join(name)).expect("there");
            assert_eq!(metadata.permissions().mode() & 0o777, 0o600, "{name}");
        }
    }

    #[test]
    fn what_cannot_be_set_aside_grows_on() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("calls");
        // A directory that is not empty cannot be replaced by a file.
        std::fs::create_dir_all(directory.path().join("calls.1/full")).expect("made");
        let mut file = RotatedFile::open(&path, 20, 1).expect("it opens");
        let mut failures = 0;
        for _ in 0..10 {
            failures += usize::from(file.make_room(6).is_err());
            file.write_line(b"a line").expect("written");
        }
        file.flush().expect("written");
        assert_eq!(failures, 7);
        std::fs::remove_dir_all(directory.path().join("calls.1")).expect("removed");
        file.make_room(6).expect("set aside");
        assert_eq!(
            read(directory.path(), "calls.1").as_deref(),
            Some("a line".repeat(10).as_str())
        );
    }

    #[test]
    fn a_file_that_was_there_goes_on_and_one_moved_away_is_begun_anew() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("calls");
        std::fs::write(&path, "old\n").expect("written");
        let mut file = RotatedFile::open(&path, 1000, 2).expect("it opens");
        file.write_line(b"new\n").expect("written");
        std::fs::rename(&path, directory.path().join("moved")).expect("moved");
        file.reopen().expect("it opens");
        file.write_line(b"newer\n").expect("written");
        file.flush().expect("written");
        assert_eq!(
            read(directory.path(), "moved").as_deref(),
            Some("old\nnew\n")
        );
        assert_eq!(read(directory.path(), "calls").as_deref(), Some("newer\n"));
    }
}
