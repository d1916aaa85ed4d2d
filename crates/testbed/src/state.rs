//! Which networks are up on this machine: a directory for each, which its process holds locked.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::topology::check_name;

/// How long somebody else may be about to look at a place, or to delete it.
const TIMEOUT: Duration = Duration::from_secs(1);

/// How often is looked whether that is over.
const LOOK: Duration = Duration::from_millis(1);

/// Longest path of a Unix socket (unix(7)), its final zero included.
const LONGEST_SOCKET_PATH: usize = 108;

/// The directory with everything that is known of the networks of a user.
#[derive(Debug, Clone)]
pub struct Directory {
    path: PathBuf,
}

/// The place of a network, held locked by the process that runs it. Dropping it deletes what is there.
#[derive(Debug)]
pub struct NetworkDirectory {
    path: PathBuf,
    lock: File,
}

/// A network that is up, or that was up when its process died.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// Its name.
    pub name: String,
    /// Whether its process is there.
    pub is_up: bool,
    /// What its process wrote down; `None` when it did not come to it.
    pub record: Option<Record>,
}

/// What the process of a network writes down of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The process.
    pub process: u32,
    /// Tells the network from all others, also later ones of the same name.
    pub id: String,
}

/// Something about the directory of networks is wrong.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// A name that cannot be one.
    #[error("{0}")]
    Name(String),
    /// A network of that name is up.
    #[error("a network {0} is already up: tandem net down {0} stops it, --name sets another name")]
    Taken(String),
    /// There is no network of that name.
    #[error("there is no network {name}: {known}")]
    Unknown {
        /// The name.
        name: String,
        /// Which there are.
        known: String,
    },
    /// Several are up, and none was named.
    #[error("several networks are up ({0}): select one with --net")]
    Several(String),
    /// None is up.
    #[error("no network is up: tandem net up router starts one")]
    None,
    /// The directory belongs to somebody else, or others may write there.
    #[error("{0} is not this user's own directory (mode 700): remove it, or set XDG_RUNTIME_DIR")]
    NotOwn(PathBuf),
    /// A socket cannot have such a long path.
    #[error("{0} is too long for a socket: set XDG_RUNTIME_DIR to a shorter path")]
    TooLong(PathBuf),
    /// A file cannot be read or written.
    #[error("{}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
}

impl Directory {
    /// The directory of this user: in `$XDG_RUNTIME_DIR`, else `/run/tandem` for root, and in `/tmp` for others.
    ///
    /// # Errors
    ///
    /// It cannot be made, or is not this user's own.
    pub fn of_user() -> Result<Directory, StateError> {
        let runtime = std::env::var_os("XDG_RUNTIME_DIR").filter(|path| !path.is_empty());
        if let Some(runtime) = runtime {
            return Directory::at(PathBuf::from(runtime).join("tandem"));
        }
        let user = nix::unistd::geteuid().as_raw();
        // Root of a user namespace alone cannot write there.
        if user == 0
            && let Ok(directory) = Directory::at(PathBuf::from("/run/tandem"))
        {
            return Ok(directory);
        }
        // It is the same one before and after the user has become root there.
        let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
        let user = outer_user(user, &map);
        Directory::at(PathBuf::from(format!("/tmp/tandem-{user}")))
    }

    /// A directory somewhere.
    ///
    /// # Errors
    ///
    /// It cannot be made, or is not this user's own.
    pub fn at(path: PathBuf) -> Result<Directory, StateError> {
        let failed = |error| StateError::File {
            path: path.clone(),
            error,
        };
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&path)
            .map_err(failed)?;
        let metadata = fs::symlink_metadata(&path).map_err(failed)?;
        let is_own = metadata.is_dir()
            && metadata.uid() == nix::unistd::geteuid().as_raw()
            && metadata.mode() & 0o077 == 0;
        if !is_own {
            return Err(StateError::NotOwn(path));
        }
        Ok(Directory { path })
    }

    /// The directory of networks that are within other programs, which nobody else controls.
    ///
    /// # Errors
    ///
    /// As [`Directory::at`].
    pub fn inside(&self) -> Result<Directory, StateError> {
        Directory::at(self.path.join(INSIDE))
    }

    /// Takes the place of a network of that name. What a dead process left there is deleted; its programs are
    /// for [`Directory::sweep`] to end.
    ///
    /// # Errors
    ///
    /// The name is none or is taken, or there is trouble with files.
    pub fn take(&self, name: &str) -> Result<NetworkDirectory, StateError> {
        check_name(name).map_err(StateError::Name)?;
        let path = self.path.join(name);
        if path.join(CONTROL).as_os_str().len() >= LONGEST_SOCKET_PATH {
            return Err(StateError::TooLong(path));
        }
        let place = self
            .lock(name)?
            .ok_or_else(|| StateError::Taken(name.to_owned()))?;
        place.clear()?;
        Ok(place)
    }

    /// All networks, those of dead processes included, by name.
    ///
    /// # Errors
    ///
    /// The directory cannot be read.
    pub fn networks(&self) -> Result<Vec<Known>, StateError> {
        let failed = |error| StateError::File {
            path: self.path.clone(),
            error,
        };
        let mut networks = Vec::new();
        for entry in fs::read_dir(&self.path).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            let lock = File::open(entry.path().join(LOCK));
            let Ok(lock) = lock else { continue };
            networks.push(Known {
                is_up: matches!(lock.try_lock_shared(), Err(TryLockError::WouldBlock)),
                record: read_record(&entry.path()),
                name,
            });
        }
        networks.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(networks)
    }

    /// The network of that name that is up; without a name, the only one.
    ///
    /// # Errors
    ///
    /// There is none, or more than one.
    pub fn find(&self, name: Option<&str>) -> Result<Known, StateError> {
        let up: Vec<Known> = self
            .networks()?
            .into_iter()
            .filter(|network| network.is_up)
            .collect();
        let names: Vec<&str> = up.iter().map(|network| network.name.as_str()).collect();
        let names = names.join(", ");
        match (name, up.as_slice()) {
            (Some(name), up) => up
                .iter()
                .find(|network| network.name == name)
                .cloned()
                .ok_or_else(|| StateError::Unknown {
                    name: name.chars().take(60).collect(),
                    known: if names.is_empty() {
                        "none is up".to_owned()
                    } else {
                        format!("up are {names}")
                    },
                }),
            (None, []) => Err(StateError::None),
            (None, [one]) => Ok(one.clone()),
            (None, _) => Err(StateError::Several(names)),
        }
    }

    /// The socket by which a network is controlled.
    pub fn control(&self, name: &str) -> PathBuf {
        self.path.join(name).join(CONTROL)
    }

    /// The file with the names of a network's hosts.
    pub fn hosts(&self, name: &str) -> PathBuf {
        self.path.join(name).join(HOSTS)
    }

    /// Deletes what is left of a network whose process died, after `end` has ended its programs. Nothing happens
    /// to one that is up. Whether something was deleted.
    ///
    /// # Errors
    ///
    /// Something cannot be deleted.
    pub fn sweep(&self, name: &str, end: impl FnOnce(&Record)) -> Result<bool, StateError> {
        let Some(place) = self.lock(name)? else {
            return Ok(false);
        };
        if let Some(record) = read_record(&place.path) {
            end(&record);
        }
        drop(place);
        Ok(true)
    }

    /// Locks the place of a network; `None` when its process has it.
    fn lock(&self, name: &str) -> Result<Option<NetworkDirectory>, StateError> {
        let path = self.path.join(name);
        let file = path.join(LOCK);
        let failed = |error| StateError::File {
            path: file.clone(),
            error,
        };
        let end = Instant::now() + TIMEOUT;
        loop {
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(&path)
                .map_err(failed)?;
            let lock = OpenOptions::new()
                .create(true)
                .truncate(false)
                .write(true)
                .open(&file);
            let lock = match lock {
                Ok(lock) => lock,
                // Whoever had it has deleted the directory meanwhile.
                Err(error) if error.kind() == io::ErrorKind::NotFound && Instant::now() < end => {
                    std::thread::sleep(LOOK);
                    continue;
                }
                Err(error) => return Err(failed(error)),
            };
            match lock.try_lock() {
                Ok(()) => {}
                // Somebody who looks which networks are up (`networks`) shares the lock for a moment.
                Err(TryLockError::WouldBlock)
                    if lock.try_lock_shared().is_ok() && Instant::now() < end =>
                {
                    drop(lock);
                    std::thread::sleep(LOOK);
                    continue;
                }
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(error)) => return Err(failed(error)),
            }
            // Whoever had it may have deleted the file before the lock was free.
            let locked = lock.metadata().map_err(failed)?.ino();
            if fs::metadata(&file).is_ok_and(|metadata| metadata.ino() == locked) {
                return Ok(Some(NetworkDirectory { path, lock }));
            }
        }
    }
}

/// No network's name begins with a dot.
const INSIDE: &str = ".inside";
const LOCK: &str = "lock";
const CONTROL: &str = "control";
const HOSTS: &str = "hosts";
const RECORD: &str = "process";

impl NetworkDirectory {
    /// Writes down which process runs the network.
    ///
    /// # Errors
    ///
    /// It cannot be written.
    pub fn record(&self, record: &Record) -> Result<(), StateError> {
        let text = serde_json::to_string(record).map_err(io::Error::other);
        let path = self.path.join(RECORD);
        text.and_then(|text| fs::write(&path, text))
            .map_err(|error| StateError::File { path, error })
    }

    /// The path of the socket by which the network is controlled.
    pub fn control(&self) -> PathBuf {
        self.path.join(CONTROL)
    }

    /// The path of the file with the names of hosts.
    pub fn hosts(&self) -> PathBuf {
        self.path.join(HOSTS)
    }

    /// Deletes what a dead process left.
    fn clear(&self) -> Result<(), StateError> {
        for name in [CONTROL, HOSTS, RECORD] {
            let path = self.path.join(name);
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(StateError::File { path, error });
                }
                _ => {}
            }
        }
        Ok(())
    }
}

impl Drop for NetworkDirectory {
    fn drop(&mut self) {
        // The lock goes last: until then nobody else can have taken the place.
        let _ = fs::remove_dir_all(&self.path);
        let _ = self.lock.unlock();
    }
}

/// What a user is called outside of the user namespace with that map (user_namespaces(7)): lines of a first user
/// inside, the first outside, and how many there are.
fn outer_user(user: u32, map: &str) -> u32 {
    let outer = map.lines().find_map(|line| {
        let mut numbers = line.split_whitespace().map(str::parse::<u32>);
        let mut next = || numbers.next()?.ok();
        let (inside, outside, count) = (next()?, next()?, next()?);
        let index = user.checked_sub(inside).filter(|index| *index < count)?;
        outside.checked_add(index)
    });
    outer.unwrap_or(user)
}

fn read_record(place: &Path) -> Option<Record> {
    let text = fs::read_to_string(place.join(RECORD)).ok()?;
    serde_json::from_str(&text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory() -> (tempfile::TempDir, Directory) {
        let parent = tempfile::tempdir().unwrap();
        let directory = Directory::at(parent.path().join("tandem")).unwrap();
        (parent, directory)
    }

    #[test]
    fn a_place_is_taken_once_and_gone_afterwards() {
        let (_parent, directory) = directory();
        let place = directory.take("router").unwrap();
        assert!(matches!(
            directory.take("router"),
            Err(StateError::Taken(name)) if name == "router"
        ));
        assert!(directory.find(None).unwrap().is_up);
        let other = directory.take("other").unwrap();
        assert!(matches!(directory.find(None), Err(StateError::Several(_))));
        assert_eq!(directory.find(Some("other")).unwrap().name, "other");
        drop((place, other));
        assert!(matches!(directory.find(None), Err(StateError::None)));
        assert_eq!(directory.networks().unwrap(), []);
    }

    #[test]
    fn what_a_dead_process_left_is_swept() {
        let (parent, directory) = directory();
        let left = parent.path().join("tandem/router");
        fs::create_dir(&left).unwrap();
        fs::write(left.join(LOCK), "").unwrap();
        fs::write(left.join(RECORD), r#"{"process":1,"id":"7"}"#).unwrap();
        let known = directory.networks().unwrap();
        assert_eq!((known.len(), known[0].is_up), (1, false));
        let mut ended = None;
        let swept = directory.sweep("router", |record| ended = Some(record.id.clone()));
        assert!(swept.unwrap());
        assert_eq!(ended.as_deref(), Some("7"));
        assert!(!left.exists());

        let _place = directory.take("router").unwrap();
        assert!(!directory.sweep("router", |_| ()).unwrap());
        assert!(left.exists());
    }

    #[test]
    fn who_looks_is_in_nobodys_way() {
        use std::sync::atomic::{AtomicBool, Ordering};
        let (_parent, directory) = directory();
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    let _ = directory.networks();
                }
            });
            let taken: Result<Vec<()>, StateError> = (0..200)
                .map(|_| directory.take("router").map(drop))
                .collect();
            is_over.store(true, Ordering::Relaxed);
            taken.unwrap();
        });
    }

    #[test]
    fn a_user_is_the_same_within_a_namespace() {
        let own = "         0       1000          1\n";
        let whole = "         0          0 4294967295\n";
        let several = "0 1000 1\n1 100000 65536\n";
        assert_eq!(outer_user(0, own), 1000);
        assert_eq!(outer_user(1000, whole), 1000);
        assert_eq!(outer_user(7, several), 100_006);
        assert_eq!(outer_user(7, own), 7);
        assert_eq!(outer_user(7, "nonsense\n"), 7);
    }

    #[test]
    fn a_name_leads_nowhere_else() {
        let (_parent, directory) = directory();
        for name in ["", "..", "a/b", "-x", &"x".repeat(40)] {
            assert!(matches!(directory.take(name), Err(StateError::Name(_))));
        }
    }

    #[test]
    fn a_directory_that_others_may_write_to_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("tandem");
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(matches!(Directory::at(path), Err(StateError::NotOwn(_))));
    }
}
