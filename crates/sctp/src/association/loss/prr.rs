//! Proportional Rate Reduction (RFC 6937): how much may be sent in a recovery, so that the flight goes down
//! to the new window evenly, and not by half a round trip of silence. The state of one path, in bytes.

/// A recovery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Prr {
    /// RecoverFS: what was in flight when it began, lost chunks included.
    recover_fs: usize,
    /// prr_delivered.
    delivered: usize,
    /// prr_out.
    out: usize,
    /// What may be sent until the next SACK (sndcnt).
    allowance: usize,
}

impl Prr {
    /// A recovery begins with that much in flight.
    pub(crate) fn new(recover_fs: usize) -> Prr {
        Prr {
            recover_fs: recover_fs.max(1),
            delivered: 0,
            out: 0,
            allowance: 0,
        }
    }

    /// A SACK has acknowledged so many bytes; `flight` is the pipe, `pmdcs` the MSS (section 3).
    pub(crate) fn acknowledged(
        &mut self,
        acknowledged: usize,
        flight: usize,
        ssthresh: usize,
        pmdcs: usize,
    ) {
        self.delivered = self.delivered.saturating_add(acknowledged);
        self.allowance = if flight > ssthresh {
            let share = self.delivered as u128 * ssthresh as u128;
            let may_be_out = share.div_ceil(self.recover_fs as u128);
            usize::try_from(may_be_out)
                .unwrap_or(usize::MAX)
                .saturating_sub(self.out)
        } else {
            // PRR-SSRB: slow start, at most, up to the new window.
            let limit = self.delivered.saturating_sub(self.out).max(acknowledged) + pmdcs;
            limit.min(ssthresh - flight)
        };
    }

    /// Whether one more packet may be sent.
    pub(crate) fn allows(&self) -> bool {
        self.allowance > 0
    }

    /// So many bytes are sent.
    pub(crate) fn sent(&mut self, bytes: usize) {
        self.out = self.out.saturating_add(bytes);
        self.allowance = self.allowance.saturating_sub(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PMDCS: usize = 1000;

    /// The first example of section 5, where the window is halved: one packet leaves for every second one
    /// that arrives.
    #[test]
    fn one_packet_leaves_for_every_second_one_that_arrives() {
        let mut prr = Prr::new(20 * PMDCS);
        let mut flight = 19 * PMDCS;
        let mut sent = Vec::new();
        for _ in 0..18 {
            flight -= PMDCS;
            prr.acknowledged(PMDCS, flight, 10 * PMDCS, PMDCS);
            let mut now = 0;
            while prr.allows() {
                prr.sent(PMDCS);
                flight += PMDCS;
                now += 1;
            }
            sent.push(now);
        }
        assert_eq!(sent.iter().sum::<i32>(), 9, "{sent:?}");
        assert!(sent.iter().all(|packets| *packets <= 1), "{sent:?}");
        assert_eq!(flight, 10 * PMDCS);
    }

    /// The second one: most was lost. It goes back to the window by slow start.
    #[test]
    fn slow_start_leads_back_to_the_window() {
        let mut prr = Prr::new(20 * PMDCS);
        let mut flight = 4 * PMDCS;
        for _ in 0..20 {
            flight -= PMDCS;
            prr.acknowledged(PMDCS, flight, 10 * PMDCS, PMDCS);
            let mut packets = 0;
            while prr.allows() {
                prr.sent(PMDCS);
                flight += PMDCS;
                packets += 1;
            }
            assert!(packets <= 2);
        }
        assert_eq!(flight, 10 * PMDCS);
    }
}
