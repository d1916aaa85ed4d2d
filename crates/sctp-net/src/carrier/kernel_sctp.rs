//! Whether the kernel has an SCTP of its own, which raw IP does not go well with.

use std::io;
use std::path::Path;

/// Refuses raw IP where the kernel has SCTP loaded: it hears our packets too, finds none of its own
/// associations for them, and answers them with ABORT.
pub(super) fn refuse_beside_kernel_sctp() -> io::Result<()> {
    if kernel_has_sctp() {
        return Err(io::Error::new(io::ErrorKind::AddrNotAvailable, EXPLANATION));
    }
    Ok(())
}

/// Whether the kernel has an SCTP of its own loaded, beside which a stack right on IP
/// ([`Stack::raw`](crate::Stack::raw)) is refused unless it is kept away.
pub fn kernel_has_sctp() -> bool {
    // What the module shows when it is there. To ask for a socket instead would load it.
    ["/proc/thread-self/net/sctp", "/sys/module/sctp"]
        .iter()
        .any(|path| Path::new(path).exists())
}

/// The rules drop what the kernel itself sends. Its packets have no user, those of programs have one; the
/// kernel's ABORTs must be dropped on their way out, since a packet that is dropped on its way in
/// reaches no raw socket either.
const EXPLANATION: &str = "\
SCTP over IP: this kernel has its own SCTP loaded and would abort our associations.
Ways out:
  --over kernel   use the kernel's SCTP
  --over udp      use SCTP in UDP (RFC 6951)
  or keep the kernel from answering, and say so with --kernel-kept-away:
    iptables  -A OUTPUT -p sctp -m owner ! --uid-owner 0-4294967294 -j DROP
    ip6tables -A OUTPUT -p sctp -m owner ! --uid-owner 0-4294967294 -j DROP
  or, with nftables:
    nft add table inet tandem
    nft add chain inet tandem output '{ type filter hook output priority 0; }'
    nft add rule inet tandem output meta l4proto sctp meta skuid 0-4294967294 accept
    nft add rule inet tandem output meta l4proto sctp drop";
