//! What a phone remembers from one run to the next: the URIs that were called, and the name of the device.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// URIs that are remembered.
pub(crate) const MAX_HISTORY: usize = 100;
/// The longest file that is read, in octets.
const MAX_OCTETS: u64 = 1 << 20;

/// A directory with what is remembered. Only this user can read it.
#[derive(Clone, Debug)]
pub struct Memory {
    directory: PathBuf,
}

impl Memory {
    /// Where it is kept: `tandem` in the user's directory of state (XDG Base Directory Specification). `None` without a home.
    pub fn default_directory() -> Option<PathBuf> {
        let absolute = |name| {
            let path = std::env::var_os(name).map(PathBuf::from);
            path.filter(|path| path.is_absolute())
        };
        let state = absolute("XDG_STATE_HOME");
        let state = state.or_else(|| Some(absolute("HOME")?.join(".local/state")))?;
        Some(state.join("tandem"))
    }

    /// Opens the directory, or makes it.
    ///
    /// # Errors
    ///
    /// It cannot be made.
    pub fn open(directory: &Path) -> io::Result<Memory> {
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(0o700).create(directory)?;
        let directory = directory.to_owned();
        Ok(Memory { directory })
    }

    /// The instance ID of this device, made when it is asked for first (RFC 5626 section 4.1).
    ///
    /// # Errors
    ///
    /// It cannot be read or written.
    pub fn instance(&self) -> io::Result<String> {
        let path = self.directory.join("phone-instance");
        let is_there = |kind| kind == io::ErrorKind::AlreadyExists;
        if !path.exists() {
            let new = self.write_beside("phone-instance", &format!("{}\n", new_instance()))?;
            // Unlike a rename, a link does not replace what another phone has made meanwhile.
            let linked = std::fs::hard_link(&new, &path);
            std::fs::remove_file(&new)?;
            linked.or_else(|error| is_there(error.kind()).then_some(()).ok_or(error))?;
        }
        let text = read(&path)?;
        match is_instance(text.trim()) {
            true => Ok(text.trim().to_owned()),
            false => {
                let problem = format!("{}: it is no URN", path.display());
                Err(io::Error::new(io::ErrorKind::InvalidData, problem))
            }
        }
    }

    /// The URIs that were called, the latest one last; none where they cannot be read.
    pub fn history(&self) -> Vec<String> {
        let text = read(&self.directory.join("phone-history")).unwrap_or_default();
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let excess = lines.len().saturating_sub(MAX_HISTORY);
        lines.into_iter().skip(excess).collect()
    }

    /// Remembers that a URI was called.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub fn remember(&self, uri: &str) -> io::Result<()> {
        let mut history = self.history();
        history.retain(|known| known != uri);
        history.push(uri.replace(['\r', '\n'], ""));
        let excess = history.len().saturating_sub(MAX_HISTORY);
        let lines: String = (history.iter().skip(excess))
            .map(|uri| format!("{uri}\n"))
            .collect();
        let new = self.write_beside("phone-history", &lines)?;
        std::fs::rename(&new, self.directory.join("phone-history"))
    }

    /// Writes a file under a name of its own, so that under the right name only whole files are read.
    fn write_beside(&self, name: &str, text: &str) -> io::Result<PathBuf> {
        let new = format!("{name}.{}", std::process::id());
        let new = self.directory.join(new);
        let mut options = OpenOptions::new();
        let options = options.write(true).create(true).truncate(true).mode(0o600);
        options.open(&new)?.write_all(text.as_bytes())?;
        Ok(new)
    }
}

/// A new instance ID: a random UUID (RFC 5626 section 4.1).
pub fn new_instance() -> String {
    let random = rand::random::<u128>();
    // Version 4 of the variant of RFC 9562 section 4.1.
    let bits = random & !(0xf << 76 | 0x3 << 62) | 0x4 << 76 | 0x2 << 62;
    let hex = format!("{bits:032x}");
    let part = |from: usize, to: usize| hex.get(from..to).unwrap_or_default();
    format!(
        "urn:uuid:{}-{}-{}-{}-{}",
        part(0, 8),
        part(8, 12),
        part(12, 16),
        part(16, 20),
        part(20, 32)
    )
}

/// Whether a text can be an instance ID: it stands between quotes and angle brackets.
pub(crate) fn is_instance(text: &str) -> bool {
    let is_sign = |octet: u8| octet.is_ascii_graphic() && !b"<>\"\\".contains(&octet);
    text.starts_with("urn:") && text.len() < 256 && text.bytes().all(is_sign)
}

fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?
        .take(MAX_OCTETS)
        .read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn calls_are_remembered_each_once_and_the_latest_ones_only() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("new");
        let memory = Memory::open(&path).unwrap();
        assert!(memory.history().is_empty());
        for number in 0..150 {
            memory.remember(&format!("sip:{number}@h")).unwrap();
        }
        memory.remember("sip:100@h").unwrap();
        let history = Memory::open(&path).unwrap().history();
        assert_eq!(history.len(), MAX_HISTORY);
        assert_eq!(history.last().unwrap(), "sip:100@h");
        assert_eq!(history[0], "sip:50@h");
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(
            (mode(&path), mode(&path.join("phone-history"))),
            (0o700, 0o600)
        );
    }

    #[test]
    fn the_instance_stays_the_same() {
        let directory = tempfile::tempdir().unwrap();
        let memory = Memory::open(directory.path()).unwrap();
        let instance = memory.instance().unwrap();
        assert!(is_instance(&instance), "{instance}");
        assert_eq!(instance.len(), "urn:uuid:".len() + 36);
        assert_eq!(instance.as_bytes()[23], b'4');
        assert_eq!(memory.instance().unwrap(), instance);
        let files = std::fs::read_dir(directory.path()).unwrap().count();
        assert_eq!(files, 1, "nothing else is left");
        std::fs::write(directory.path().join("phone-instance"), "x\" y").unwrap();
        assert!(memory.instance().is_err());
    }
}
