//! Where requests go: next hops, members of groups, names.

use std::fmt;

use metrics_listener::{Labels, Page};
use sip_net::resolve::{HopFailure, HopHealth};

use super::transport_name;
use crate::core::{MemberHealth, MemberState};
use crate::driver::Snapshot;

/// How many next hops that have failed are shown.
const MAXIMUM_SUSPECTS: usize = 64;

impl Snapshot {
    pub(super) fn next_hops(&self, page: &mut Page<'_>) -> fmt::Result {
        let statistics = &self.report.statistics;
        page.counter(
            "tandem_next_hop_failures",
            "Next hops that did not serve a request: silent, 503, no connection",
            statistics.next_hops_failed,
        )?;
        page.counter(
            "tandem_failovers",
            "Requests sent to another next hop after a failure",
            statistics.failovers,
        )?;
        page.counter(
            "tandem_targets_added",
            "Contacts that registered while a call was ringing, to be called too",
            statistics.targets_added,
        )?;
        page.counters(
            "tandem_probes",
            "OPTIONS sent to members of groups",
            [
                (vec![("result", "sent")], statistics.probes_sent),
                (vec![("result", "failed")], statistics.probes_failed),
            ],
        )
    }

    pub(super) fn members(&self, page: &mut Page<'_>) -> fmt::Result {
        let members = &self.report.members;
        fn labels(member: &MemberHealth) -> Labels<'_> {
            vec![("group", &member.group), ("member", &member.uri)]
        }
        page.gauges(
            "tandem_member_up",
            "1 while a member of a group gets requests",
            members.iter().map(|member| {
                let is_up = member.state == MemberState::Up;
                (labels(member), f64::from(u8::from(is_up)))
            }),
        )?;
        page.counters(
            "tandem_member_chosen",
            "How many times a member was the first choice",
            members.iter().map(|member| (labels(member), member.chosen)),
        )?;
        page.counters(
            "tandem_member_failures",
            "Requests and probes that failed at a member",
            members.iter().map(|member| (labels(member), member.failed)),
        )
    }

    pub(super) fn names(&self, page: &mut Page<'_>) -> fmt::Result {
        let names = &self.names;
        page.counters(
            "tandem_dns_answers",
            "Next hops asked for, by where the answer came from",
            [
                (vec![("source", "cache")], names.answered_from_cache),
                (vec![("source", "servers")], names.answered_by_servers),
            ],
        )?;
        page.counters(
            "tandem_dns_lookups",
            "Questions to name servers",
            [
                (vec![("result", "asked")], names.lookups),
                (vec![("result", "unreachable")], names.unreachable),
            ],
        )?;
        page.gauge(
            "tandem_dns_cached",
            "Sets of records that are remembered",
            names.cached as f64,
        )?;
        page.gauge(
            "tandem_suspects",
            "Next hops that have failed and are tried after all others",
            self.suspects.len() as f64,
        )?;
        // Those that have failed most; their number has a bound, as that of all series has.
        let mut worst: Vec<&HopHealth> = self.suspects.iter().collect();
        worst.sort_by_key(|hop| (std::cmp::Reverse(hop.failures), hop.remote));
        worst.truncate(MAXIMUM_SUSPECTS);
        let addresses: Vec<String> = worst.iter().map(|hop| hop.remote.to_string()).collect();
        let shown = || worst.iter().zip(&addresses);
        page.gauges(
            "tandem_suspect_failures",
            "Consecutive failures of a next hop that is tried after all others",
            shown().map(|(hop, address)| (suspect(hop, address), f64::from(hop.failures))),
        )?;
        page.gauges(
            "tandem_suspect_seconds",
            "How much longer it is",
            shown().map(|(hop, address)| (suspect(hop, address), hop.left.as_secs_f64())),
        )
    }
}

fn suspect<'a>(hop: &HopHealth, address: &'a str) -> Labels<'a> {
    vec![
        ("transport", transport_name(hop.transport)),
        ("address", address),
        ("trouble", failure_name(hop.failure)),
    ]
}

fn failure_name(failure: HopFailure) -> &'static str {
    match failure {
        HopFailure::Silent => "silent",
        HopFailure::Unavailable => "unavailable",
        HopFailure::Unreachable => "unreachable",
    }
}
