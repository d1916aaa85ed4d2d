//! The figures that the published measurements of the generator this one replaces are printed in: delays
//! of REGISTER, INVITE and call set-up, and what was lost.

use std::time::Duration;

use serde::Serialize;

use crate::record::{CallRecord, Outcome, RegistrationRecord};
use measures::{DelaySummary, Delays};

/// Those figures, seen by the users.
///
/// The published ones are taken at the server, from captures; the same from a capture is what `tandem
/// capture analyze` gives. Seen by the users they include the way to the server and back.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Published {
    /// From a REGISTER to its 200.
    pub register_delay: Delays,
    /// From an INVITE at its caller, the one with credentials where these were asked for, to the same at its
    /// callee: what the server takes to process it, and
    /// twice a way over the network. Only where one engine plays both.
    pub invite_delay: Delays,
    /// From an INVITE to the ACK of the call that it set up; as from a capture, from the one with credentials
    /// where these were asked for.
    pub call_setup_delay: Delays,
    /// Registrations that did not succeed.
    pub lost_registers: u64,
    /// INVITEs that did not come to the callee, as far as one can tell: nothing but a 100 came back, or a
    /// 408 from somebody on the way.
    pub lost_invites: u64,
    /// Sessions that were not set up and acknowledged.
    lost: u64,
    /// Others in which a 180 came.
    rang: u64,
    /// Others in which none did.
    did_not_ring: u64,
}

/// The figures in numbers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PublishedSummary {
    /// REGISTER delay.
    pub register_delay_ms: DelaySummary,
    /// INVITE delay.
    pub invite_delay_ms: DelaySummary,
    /// Call set-up delay.
    pub call_setup_delay_ms: DelaySummary,
    /// Lost REGISTERs.
    pub lost_registers: u64,
    /// Lost INVITEs.
    pub lost_invites: u64,
    /// Lost sessions.
    pub lost_sessions: u64,
}

impl Published {
    /// Sessions with a message (INVITE, 180, 200, ACK) that did not reach whom it was for. A callee who
    /// never rings loses no 180: where none came in any session, it counts for nothing.
    pub fn lost_sessions(&self) -> u64 {
        let without_ringing = if self.rang > 0 { self.did_not_ring } else { 0 };
        self.lost + without_ringing
    }

    /// Counts a registration.
    pub(super) fn add_registration(&mut self, record: &RegistrationRecord) {
        match (record.attempt.status, record.answered) {
            (Some(200..=299), Some(answered)) => self.register_delay.record(answered),
            (None, _) if record.attempt.outcome == Outcome::Unfinished => {}
            _ => self.lost_registers += 1,
        }
    }

    /// Counts a session that has ended, or was not set up.
    pub(super) fn add_session(&mut self, record: &CallRecord) {
        let status = record.attempt.status;
        let since_invite = |time: Duration| time.checked_sub(record.invited);
        if let Some(taken) = record.reached.and_then(since_invite) {
            self.invite_delay.record(taken);
        }
        match (status, record.acknowledged) {
            (None, _) if record.attempt.outcome == Outcome::Unfinished => return,
            (Some(200..=299), Some(acknowledged)) => {
                let taken = since_invite(acknowledged).unwrap_or_default();
                self.call_setup_delay.record(taken);
                if record.progress.is_some() {
                    self.rang += 1;
                } else {
                    self.did_not_ring += 1;
                }
            }
            _ => self.lost += 1,
        }
        let is_silent = record.reached.is_none() && record.progress.is_none();
        self.lost_invites += u64::from(is_silent && matches!(status, None | Some(408)));
    }

    /// Adds those of others.
    pub fn merge(&mut self, other: &Published) {
        let Published {
            register_delay,
            invite_delay,
            call_setup_delay,
            lost_registers,
            lost_invites,
            lost,
            rang,
            did_not_ring,
        } = other;
        self.register_delay.merge(register_delay);
        self.invite_delay.merge(invite_delay);
        self.call_setup_delay.merge(call_setup_delay);
        self.lost_registers += lost_registers;
        self.lost_invites += lost_invites;
        self.lost += lost;
        self.rang += rang;
        self.did_not_ring += did_not_ring;
    }

    /// Everything in numbers.
    pub fn summary(&self) -> PublishedSummary {
        PublishedSummary {
            register_delay_ms: self.register_delay.milliseconds(),
            invite_delay_ms: self.invite_delay.milliseconds(),
            call_setup_delay_ms: self.call_setup_delay.milliseconds(),
            lost_registers: self.lost_registers,
            lost_invites: self.lost_invites,
            lost_sessions: self.lost_sessions(),
        }
    }
}
