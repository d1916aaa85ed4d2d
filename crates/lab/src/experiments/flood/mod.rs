//! KTH 2004, test 2, and SCTP thesis 2011, section 6.3: what becomes of a listener that is flooded with
//! INITs, with cookies of peers that vanish, and with cookies of others.

mod net;
mod sim;
mod world;

use std::time::Duration;

use flood::Kind;
use sctp::EndpointConfig;
use serde_json::{Value, json};

use crate::context::Context;
use crate::experiment::{About, Experiment, On};
use crate::outcome::Outcome;
use crate::published::stated;

/// The experiment.
pub(super) struct Flood;

const KINDS: [Kind; 3] = [Kind::Init, Kind::Cookie, Kind::Replay];

impl Experiment for Flood {
    fn name(&self) -> &'static str {
        "flood"
    }

    fn source(&self) -> &'static str {
        "KTH 2004, test 2, SCTP thesis 2011 section 6.3"
    }

    fn title(&self) -> &'static str {
        "A listener under floods of INITs, cookies and replays"
    }

    fn about(&self) -> About {
        About {
            topology: "A listener, an attacker with many addresses and a client, 10 ms from each other; on net each \
                       behind a router, the client 5 ms away, and forged addresses lead to silence.",
            runs: "INITs from forged addresses; INITs with a COOKIE ECHO for each INIT ACK, from peers that are \
                   never heard of again; one association that is ended, and its cookie again and again: as it \
                   was, altered by a bit, from other ports. A real client opens an association every few \
                   seconds, on net every 50 ms, and ends it. On net the listener is `tandem sctp listen` in a process \
                   of its own, in UDP and over IP, and the kernel's TCP listener (1024 connections may wait) stands \
                   under a flood of forged SYNs, without and with SYN cookies. Each flood has a network of its \
                   own.",
            measures: "Associations that the listener holds, over time; how often the client gets in, and how \
                       long that takes. On net also memory and processor time, and for TCP the connections that \
                       wait for the third packet.",
            law: "The listener keeps nothing for an INIT (RFC 9260 section 5.1.3). A peer that vanishes is \
                  given up when Association.Max.Retrans heartbeats in a row and one more were not answered \
                  (8.1), each sent after HB.interval and the RTO, half of that more or less (8.3), which \
                  doubles (8.2, 6.3.3); while the path counts as potentially failed after the RTO alone (RFC 7829 \
                  section 3.2): so the associations held are no more than the rate of the flood times that. A cookie that is altered, or comes from another port, or for the second time \
                  after its association has ended, opens nothing (5.1.5, 5.2.4).",
            check: "On the virtual clock: the number of associations against rate times the shortest and the \
                    longest life that the jitter of heartbeats allows; the client gets in each time, in four times \
                    the delay. On net: in the second half of floods of INITs and replays the listener's memory does \
                    not grow by 14 bytes a packet, the least that tells one peer from another (address, port, tag \
                    and TSN); each association of a peer that vanished lives as long as the law says, for which \
                    HB.interval is 300 ms, the RTO 200 ms and Association.Max.Retrans 2, give or take how late the \
                    machine woke a thread that slept meanwhile; the client gets in each time. KTH 2004's \
                    findings about TCP are looked for at the kernel's listener: it keeps clients out when more than \
                    half of them do not get in.",
        }
    }

    fn on(&self) -> &'static [On] {
        &[On::Sim, On::Net]
    }

    fn run(&self, on: On, context: &Context) -> anyhow::Result<Outcome> {
        match on {
            On::Sim => sim::run(context),
            On::Net => net::run(context),
        }
    }
}

/// The shortest and the longest life of an association whose peer has vanished at once: heartbeats until
/// Association.Max.Retrans is exceeded (RFC 9260 section 8.1).
///
/// An idle path gets one each RTO, half of that more or less, and HB.interval (8.3); the RTO doubles with each
/// that was not answered within it (8.2, 6.3.3). Between PotentiallyFailed.Max.Retrans and Path.Max.Retrans errors
/// one goes out each RTO (RFC 7829 section 3.2, rule 5), as soon as it is known that the last one is lost. When
/// the path becomes inactive the interval begins anew.
fn lives(config: &EndpointConfig) -> (Duration, Duration) {
    let failures = config.association.association_max_retrans + 1;
    let rto = |number: u32| {
        let doubled = 1_u32.checked_shl(number - 1).unwrap_or(u32::MAX);
        config
            .association
            .path
            .rto_initial
            .saturating_mul(doubled)
            .min(config.association.path.rto_max)
    };
    let first_errors = match config.association.path.potentially_failed {
        true => config.association.path.potentially_failed_max_retrans + 1,
        false => u32::MAX,
    };
    let (mut shortest, mut longest) = (Duration::ZERO, Duration::ZERO);
    for errors in 0..failures {
        // Of the RTO before the heartbeat that was lost last, and the one after it.
        let (before, after) = (rto(errors.max(1)), rto(errors + 1));
        if (first_errors..=config.association.path.path_max_retrans).contains(&errors) {
            shortest += before;
            longest += before;
            continue;
        }
        shortest += config.association.path.hb_interval + before / 2;
        longest += config.association.path.hb_interval + after * 3 / 2;
        if errors == config.association.path.path_max_retrans + 1 {
            shortest += before;
            longest += before;
        }
    }
    // The last one counts as lost once its RTO has passed.
    (shortest + rto(failures), longest + rto(failures))
}

/// What the publications found.
fn published() -> Value {
    json!({
        "document_001": "INIT and COOKIE ECHO at full rate: memory of the listener levels off at 102 MByte, since \
                         associations are dropped; it is not brought down",
        "document_001_listener_memory_mbyte": stated("flood", "memory of the listener"),
        "document_001_listener_processor_percent": stated("flood", "processor of the listener"),
        "document_003": "the state cookie keeps the listener from reserving anything for forged INITs; a flood of SYNs \
                         fills TCP's queue, and the listener serves nobody",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lives_are_those_of_the_rfcs_default_parameters() {
        // One heartbeat after HB.interval and about a second; five more when their RTOs of 1, 2, 4, 8 and 16 s
        // have passed; one that is lost after 32 s; and five, the first after 30 s and 15 to 90 s (an RTO of 32 or
        // 60 s), the others after 30 s and 30 to 90 s; 60 s after the last the association is given up.
        let (shortest, longest) = lives(&EndpointConfig::default());
        let early = 30_500 + 31_000 + 32_000 + 30_000 + 16_000 + 4 * 60_000 + 60_000;
        let late = 31_500 + 31_000 + 32_000 + 120_000 + 4 * 120_000 + 60_000;
        assert_eq!(shortest, Duration::from_millis(early));
        assert_eq!(longest, Duration::from_millis(late));
    }

    #[test]
    fn without_quick_failover_each_heartbeat_comes_after_its_interval() {
        let config = EndpointConfig::default()
            .potentially_failed(false)
            .association_max_retrans(2);
        let (shortest, longest) = lives(&config);
        assert_eq!(
            shortest,
            Duration::from_millis(90_000 + 500 + 500 + 1000 + 4000)
        );
        assert_eq!(
            longest,
            Duration::from_millis(90_000 + 1500 + 3000 + 6000 + 4000)
        );
    }
}
