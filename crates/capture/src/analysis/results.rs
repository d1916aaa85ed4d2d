//! What an analysis found.

use std::collections::BTreeMap;

use measures::{Delays, Metrics};

use super::codes::Codes;
use super::losses::Losses;
use super::timeline::Timeline;
use super::{Analysis, KeptCall, Labels};
use crate::m3ua_view::M3uaView;
use crate::sctp_view::SctpView;
use crate::{RtpTotals, Time};

/// What an analysis found.
#[derive(Debug)]
pub struct Results {
    /// When the first message or SCTP packet was captured, if any was: second 0 of sessions.
    pub first: Option<Time>,
    /// When the last one was.
    pub last: Option<Time>,
    /// Messages by what they are.
    pub codes: Codes,
    /// The metrics of RFC 6076.
    pub metrics: Metrics,
    /// Which messages of sessions are missing.
    pub losses: Losses,
    /// Adnan 2012's delays.
    pub delays: Delayed,
    /// Calls by what became of them.
    pub outcomes: BTreeMap<&'static str, u64>,
    /// What happened when.
    pub timeline: Timeline,
    /// SCTP associations.
    pub sctp: SctpView,
    /// M3UA in them.
    pub m3ua: M3uaView,
    /// Associations with M3UA that are drawn because somebody asked for them, from 1 on.
    pub(crate) m3ua_wanted: Vec<usize>,
    /// RTP of all calls.
    pub rtp: RtpTotals,
    /// Users that registered, and those of them that took part in no call.
    pub registered_users: (u64, u64),
    /// Whether a text summary was read: its sessions pair the nth caller with the nth callee.
    pub has_summaries: bool,
    /// What could not be used, and why; nothing where all was well.
    pub remarks: Vec<String>,
    /// The most calls and registrations that were open at a time.
    pub most_open: usize,
    pub(crate) labels: Labels,
    pub(crate) named: Vec<KeptCall>,
    pub(crate) failed: Vec<KeptCall>,
    /// Failed calls that are not drawn because there are so many.
    pub more_failed: u64,
    pub(crate) slowest: Vec<KeptCall>,
}

/// The delays that Adnan 2012 measures, at the server.
#[derive(Clone, Debug)]
pub struct Delayed {
    /// From a REGISTER to its 200.
    pub register: Delays,
    /// From an INVITE's arrival to its being forwarded.
    pub invite: Delays,
    /// From an INVITE to the ACK of the call that it set up.
    pub call_setup: Delays,
}

pub(super) fn of(analysis: Analysis) -> Results {
    let Analysis {
        sip,
        summaries,
        sctp,
        m3ua,
        m3ua_wanted,
        origin: first,
        last,
        ..
    } = analysis;
    let (most_open, refused) = sip.open_counts();
    let counters = sip.counters;
    let mut remarks = Vec::new();
    let mut remark = |count: u64, text: &str| {
        if count > 0 {
            remarks.push(format!("{} {text}", report::format_count(count)));
        }
    };
    remark(counters.unreadable, "messages that cannot be read");
    remark(counters.ungrouped, "messages without Call-ID, CSeq or Via");
    remark(
        counters.partial_calls,
        "calls whose beginning was not captured: they are in no metric",
    );
    remark(
        counters.copies,
        "packets captured twice within a millisecond: counted once",
    );
    remark(counters.omitted, "messages omitted from very long calls");
    remark(
        refused,
        "messages of calls that were not followed because too many were open (--open-calls)",
    );
    remark(
        sip.users.forgotten,
        "registrations not remembered because there were too many users",
    );
    remark(
        summaries.unplaced(),
        "summaries that neither come from port 5060 nor go to it, or of too many users",
    );
    remark(sctp.bad_checksums(), "SCTP packets with a wrong checksum");
    remark(
        sctp.malformed(),
        "SCTP packets with chunks that cannot be read",
    );
    remark(
        sctp.unplaced(),
        "SCTP packets of associations that were not followed because too many were open (--open-associations)",
    );
    remark(
        sctp.repeated_elsewhere(),
        "SCTP packets also in another file: each association is followed in one file",
    );
    remark(m3ua.malformed(), "M3UA messages that cannot be read");
    remark(
        m3ua.unfollowed(),
        "M3UA messages of associations that were not followed because there were too many (--open-associations)",
    );
    remark(
        m3ua.repeated_elsewhere(),
        "M3UA messages also in another file: each association is followed in one file",
    );
    let untracked = m3ua.associations().iter();
    remark(
        untracked.map(|one| one.untracked_requests()).sum(),
        "requests of M3UA whose answers were not looked for any more because too many waited",
    );
    remark(
        sip.rtp.unfollowed,
        "RTP packets of further streams of calls that have too many",
    );
    let mut slowest = sip.kept.slowest;
    slowest.sort_by_key(|(delay, _)| std::cmp::Reverse(*delay));
    Results {
        first,
        last: first.map(|_| last),
        codes: sip.codes,
        metrics: sip.metrics,
        losses: sip.losses,
        delays: sip.delays,
        outcomes: sip.outcomes,
        timeline: sip.timeline,
        sctp,
        m3ua,
        m3ua_wanted,
        rtp: sip.rtp_totals,
        registered_users: sip.users.counts(),
        has_summaries: summaries.has_users(),
        remarks,
        most_open,
        labels: sip.labels,
        named: sip.kept.named,
        failed: sip.kept.failed,
        more_failed: sip.kept.more_failed,
        slowest: slowest.into_iter().map(|(_, call)| call).collect(),
    }
}
