//! Buffer splitting (Adhari 2011, Dreibholz 2011): each path has an equal share of the buffers, so that what
//! is outstanding on one cannot block the others. By outstanding bytes: what is acknowledged by Gap Ack
//! Blocks counts no more.

use super::scheduler::Candidate;
use crate::{AssociationConfig, BufferSplitting};

/// Whether one of so many paths may have another packet outstanding. `peer_window` is the a_rwnd that the peer
/// said last: what it has room for, and what is outstanding. One packet always may be, for else a small
/// buffer would stop everything.
pub(super) fn has_share(
    path: &Candidate,
    paths: usize,
    peer_window: usize,
    config: &AssociationConfig,
) -> bool {
    let splits = |buffer: BufferSplitting| {
        config.buffer_splitting == buffer || config.buffer_splitting == BufferSplitting::Both
    };
    let fits = |buffer: usize| path.flight + path.packet <= buffer / paths.max(1);
    let fits_send = !splits(BufferSplitting::Send) || fits(config.send_buffer);
    let fits_receive = !splits(BufferSplitting::Receive) || fits(peer_window);
    path.flight == 0 || (fits_send && fits_receive)
}

#[cfg(test)]
mod tests {
    use super::super::scheduler::tests::candidate;
    use super::*;

    #[test]
    fn each_path_has_its_share_of_either_buffer() {
        let allowed = |splitting, flight, peer_window| {
            let config = AssociationConfig::default()
                .send_buffer(40_000)
                .buffer_splitting(splitting);
            let path = Candidate {
                flight,
                ..candidate(0)
            };
            has_share(&path, 2, peer_window, &config)
        };
        let packet = candidate(0).packet;
        assert!(allowed(BufferSplitting::None, 100_000, 0));
        assert!(allowed(BufferSplitting::Send, 20_000 - packet, 0));
        assert!(!allowed(BufferSplitting::Send, 20_001 - packet, 1 << 20));
        assert!(allowed(BufferSplitting::Receive, 30_000, 80_000));
        assert!(!allowed(BufferSplitting::Receive, 30_000, 60_000));
        assert!(!allowed(BufferSplitting::Both, 30_000, 80_000));
        assert!(!allowed(BufferSplitting::Both, 15_000, 20_000));
        assert!(allowed(BufferSplitting::Both, 15_000, 40_000));
        assert!(allowed(BufferSplitting::Both, 0, 0), "one packet always");
    }
}
