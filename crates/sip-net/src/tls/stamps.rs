//! Whether files have changed.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// What can be seen of files without reading them.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Stamps(Vec<(PathBuf, Option<Stamp>)>);

#[derive(Debug, PartialEq, Eq)]
struct Stamp {
    seconds: i64,
    nanoseconds: i64,
    bytes: u64,
    /// A file that was moved over another may have the same age.
    inode: u64,
}

impl Stamps {
    pub(super) fn of<'a>(files: impl Iterator<Item = &'a Path>) -> Stamps {
        Stamps(files.map(|path| (path.to_owned(), stamp(path))).collect())
    }
}

/// `None` where there is no such file.
fn stamp(path: &Path) -> Option<Stamp> {
    let metadata = fs::metadata(path).ok()?;
    Some(Stamp {
        seconds: metadata.mtime(),
        nanoseconds: metadata.mtime_nsec(),
        bytes: metadata.len(),
        inode: metadata.ino(),
    })
}
