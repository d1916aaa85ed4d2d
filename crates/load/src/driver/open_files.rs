//! Descriptors: each connection takes one.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Descriptors that the program needs beside its connections.
const OTHERS: u64 = 512;

/// Lets this process have so many connections, as far as the system allows: its hard limit is another's to
/// raise.
pub(super) fn allow(connections: u64) {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else {
        return;
    };
    let wanted = connections.saturating_add(OTHERS);
    if soft >= wanted {
        return;
    }
    // Beyond the hard limit only with a privilege.
    if setrlimit(Resource::RLIMIT_NOFILE, wanted, hard.max(wanted)).is_err() {
        setrlimit(Resource::RLIMIT_NOFILE, wanted.min(hard), hard).ok();
    }
}
