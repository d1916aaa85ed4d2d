//! From messages to calls, delays and losses.

mod addresses;
mod call;
mod codes;
mod correlation;
mod exchange;
mod fields;
mod kept;
mod labels;
mod losses;
mod message;
mod method_code;
mod metrics;
mod open_exchanges;
mod registration;
mod results;
mod session;
mod sip_exchanges;
mod summary;
mod timeline;
mod users;
mod values;

use std::collections::BTreeMap;

use ahash::RandomState;

use crate::m3ua_view::M3uaView;
use crate::sctp_view::{Ending, SctpView};
use crate::{Event, EventKind, RtpTotals, Time};

pub use codes::{Codes, Count, Transactions};
pub(crate) use kept::KeptCall;
pub(crate) use labels::Labels;
pub use losses::{Loss, Losses};
pub use measures::{DelaySummary, Delays, Metrics, MetricsSummary};
pub use results::{Delayed, Results};
pub use session::{Milestone, Outcome, Session, Timestamps};
pub use timeline::{Step, Timeline};
pub(crate) use values::is_session_description;

use sip_exchanges::SipExchanges;
use summary::Summaries;

/// What to analyse, and how much to remember.
#[derive(Clone, Debug)]
pub struct Options {
    /// Calls and registrations that may be open at a time; messages of others are counted, no more.
    pub most_open: usize,
    /// Users whose registration is remembered for their calls.
    pub most_users: usize,
    /// SCTP associations that are followed at a time, beside as many that are kept to be told of one by one.
    pub most_associations: usize,
    /// A header field by which the legs of a call that a B2BUA carries on belong together, beside Session-ID (RFC 7989),
    /// X-Call-ID and X-CID: both have the same value in it, or the second one the first one's Call-ID.
    pub correlate_by: Option<String>,
    /// Whether failed calls and the slowest ones are kept to be drawn.
    pub keep_worst: bool,
    /// Failed calls that are kept to be drawn; the first ones.
    pub most_failed: usize,
    /// Call-IDs of which all messages are kept to be drawn; `m3ua:N` is the Nth association with M3UA.
    pub ladders: Vec<String>,
    /// How point codes are written, and how long they are in SCCP addresses.
    pub point_codes: m3ua::Variant,
    /// Keys of hashes; they change nothing that is shown.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            most_open: 200_000,
            most_users: 1_000_000,
            most_associations: 10_000,
            correlate_by: None,
            keep_worst: false,
            most_failed: 100,
            ladders: Vec::new(),
            point_codes: m3ua::Variant::default(),
            seed: 0,
        }
    }
}

/// Judges what is seen in a capture, in the order of time. Its memory is bounded by the calls that are
/// open at a time and the users that have registered, not by the length of the capture.
#[derive(Debug)]
pub struct Analysis {
    sip: SipExchanges,
    summaries: Summaries,
    sctp: SctpView,
    m3ua: M3uaView,
    /// Associations with M3UA that are drawn because somebody asked for them, from 1 on.
    m3ua_wanted: Vec<usize>,
    /// File, number and association of the last SCTP packet: messages come after the packet that completes them.
    last_sctp: (usize, u64, Option<usize>),
    origin: Option<Time>,
    last: Time,
}

impl Analysis {
    /// Nothing was seen yet.
    pub fn new(options: &Options) -> Analysis {
        let seed = options.seed;
        let hasher = RandomState::with_seeds(seed, !seed, seed.rotate_left(32), 0x7461_6e64);
        let m3ua_wanted: Vec<usize> = options
            .ladders
            .iter()
            .filter_map(|name| name.strip_prefix("m3ua:")?.parse().ok())
            .collect();
        Analysis {
            m3ua: M3uaView::new(
                hasher.clone(),
                options.most_associations,
                options.point_codes,
                options.keep_worst || !m3ua_wanted.is_empty(),
            ),
            m3ua_wanted,
            last_sctp: (0, 0, None),
            sip: SipExchanges::new(options, hasher.clone()),
            summaries: Summaries::new(hasher.clone(), options.most_users),
            sctp: SctpView::new(hasher, options.most_associations),
            origin: None,
            last: Time(i64::MIN),
        }
    }

    /// Takes the next event; `each` gets the sessions that are over now.
    #[inline]
    pub fn observe(&mut self, event: &Event<'_>, each: &mut dyn FnMut(&Session)) {
        match &event.kind {
            EventKind::Warning(_) => return,
            EventKind::Rtp(packet) => {
                // Nearly any datagram may be one: only those of calls count.
                if self.sip.rtp.observe(event, packet) {
                    self.last = self.last.max(event.time);
                }
                return;
            }
            _ => {}
        }
        self.origin.get_or_insert(match event.kind {
            // Its times count from the beginning of the capture already.
            EventKind::SipSummary { .. } => Time(0),
            _ => event.time,
        });
        self.last = self.last.max(event.time);
        match &event.kind {
            EventKind::Sip {
                carrier, octets, ..
            } => self.sip.observe(event, carrier, octets, self.last, each),
            EventKind::SipSummary { summary, .. } => {
                self.summaries.observe(event, summary, &mut self.sip);
            }
            EventKind::Sctp(packet) => {
                let place = self.sctp.observe(event, packet);
                self.last_sctp = (event.file, event.packet, place);
                let association = place.and_then(|place| self.sctp.associations().get(place));
                if let (Some(place), Some(association)) = (place, association)
                    && matches!(association.ending, Ending::Shutdown | Ending::Aborted)
                {
                    self.m3ua.end(place, event);
                }
            }
            EventKind::M3ua { sender, octets, .. } => {
                let (file, packet, place) = self.last_sctp;
                let place = place.filter(|_| (file, packet) == (event.file, event.packet));
                self.m3ua.observe(event, *sender, octets, place);
            }
            EventKind::Rtp(_) | EventKind::Warning(_) => {}
        }
    }

    /// So late is it, and nothing else was seen: what is over by now is judged. Whoever reads a file need not tell.
    pub fn pass(&mut self, now: Time, each: &mut dyn FnMut(&Session)) {
        self.sip.pass(now, each);
    }

    /// When the capture began, as far as anything was seen: second 0 of its sessions.
    #[inline]
    pub fn origin(&self) -> Option<Time> {
        self.origin
    }

    /// Messages by what they are, so far.
    pub fn codes(&self) -> &Codes {
        &self.sip.codes
    }

    /// The metrics of RFC 6076 of what is over.
    pub fn metrics(&self) -> &Metrics {
        &self.sip.metrics
    }

    /// Adnan 2012's delays of what is over.
    pub fn delays(&self) -> &Delayed {
        &self.sip.delays
    }

    /// Which messages of sessions that are over are missing.
    pub fn losses(&self) -> &Losses {
        &self.sip.losses
    }

    /// SCTP associations, so far.
    pub fn sctp(&self) -> &SctpView {
        &self.sctp
    }

    /// When the last message was seen.
    pub(crate) fn last(&self) -> Time {
        self.last
    }

    /// M3UA, so far.
    pub fn m3ua(&self) -> &M3uaView {
        &self.m3ua
    }

    /// The RTP of calls that are over.
    pub fn rtp_totals(&self) -> &RtpTotals {
        &self.sip.rtp_totals
    }

    /// How many calls have ended how.
    pub fn outcomes(&self) -> &BTreeMap<&'static str, u64> {
        &self.sip.outcomes
    }

    /// Judges what is still open, since nothing more is to be seen.
    pub fn finish(mut self, each: &mut dyn FnMut(&Session)) -> Results {
        self.sip.finish(self.last, each);
        self.summaries.finish(&mut self.sip, each);
        results::of(self)
    }
}
