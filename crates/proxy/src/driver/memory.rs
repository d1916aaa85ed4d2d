//! How the process gets its memory from the kernel.

/// Keeps the kernel from giving this process memory in pages of 2 MiB, however little of them is used.
///
/// Whoever serves calls, or makes them, keeps many small things for very different times, each size in a place of its own:
/// large pages would make it twice as large as what it keeps, and each is emptied before it is given, which takes as long
/// as a hundred messages. To be called at the beginning, by a program that does nothing else; where the kernel does not
/// know how, nothing changes.
pub fn use_small_pages() {
    if let Err(error) = nix::sys::prctl::set_thp_disable(true) {
        tracing::debug!(%error, "large pages stay");
    }
}
