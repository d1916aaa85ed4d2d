//! Offers and answers in calls that are made or answered (RFC 3264).

use std::net::IpAddr;
use std::time::{Duration, Instant};

use rand::RngExt;
use sip::sdp::Direction;
use ua::CallNumber;

use super::Running;
use crate::event::PhoneEvent;
use crate::ice::IceCredentials;
use crate::negotiation::{LocalMedia, answer, offer, read_answer};

/// After so long another address is offered again, if that was refused.
const MOVE_AGAIN: Duration = Duration::from_secs(15);

impl Running {
    /// Puts a call on hold, or goes on with it.
    pub(super) fn offer_again(
        &mut self,
        now: Instant,
        number: CallNumber,
        hold: bool,
    ) -> Result<(), &'static str> {
        const NOT_READY: &str = "the call is not ready for this";
        let call = self.calls.get(&number).ok_or(NOT_READY)?;
        let mut offered = call.local.clone().ok_or(NOT_READY)?;
        offered.direction = if hold {
            Direction::SendOnly
        } else {
            Direction::SendReceive
        };
        match self.propose(now, number, offered) {
            true => Ok(()),
            false => Err(NOT_READY),
        }
    }

    /// Offers the session at another address of ours. If the call is not ready for that, the next look finds it where it is.
    pub(super) fn offer_at(&mut self, now: Instant, number: CallNumber, address: IpAddr) {
        let (keys, ice) = (self.new_keys(), IceCredentials::new(self.rng.random()));
        let call = self.calls.get(&number);
        let offered = call.and_then(|call| call.local.clone());
        // The way to the other side need not be one of those that are looked at.
        self.transports.addresses_changed();
        if let Some(local) = &offered {
            self.ways.replace(local.address, address);
        }
        if !self.ua.can_offer(number) {
            return;
        }
        let (Some(mut offered), Ok((ports, mapped))) = (offered, self.open_ports(address)) else {
            return;
        };
        offered.move_to(ports.local, mapped, keys, ice);
        if self.propose(now, number, offered)
            && let Some(call) = self.calls.get_mut(&number)
            && let Some(sound) = &call.sound
        {
            call.moves_at = Some(now + MOVE_AGAIN);
            sound.offer_ports(ports);
        }
    }

    /// Offers another session. `false` when the call is not ready for that.
    fn propose(&mut self, now: Instant, number: CallNumber, mut offered: LocalMedia) -> bool {
        let Some(call) = self.calls.get(&number) else {
            return false;
        };
        offered.version += 1;
        let description = offer(&mut offered);
        let description = self.described(&offered, description, call.is_encrypted);
        if self.ua.offer(now, number, description).is_err() {
            return false;
        }
        if let Some(call) = self.calls.get_mut(&number) {
            // Another description with this number must not follow, even when this one is refused (RFC 3264 section 8).
            if let Some(local) = &mut call.local {
                local.version = offered.version;
            }
            call.proposed = Some(offered);
        }
        true
    }

    /// Writes an offer of ours anew that waits since the other side's came first.
    pub(super) fn propose_anew(&mut self, number: CallNumber) {
        let (keys, ice) = (self.new_keys(), IceCredentials::new(self.rng.random()));
        let Some(call) = self.calls.get(&number) else {
            return;
        };
        let (Some(local), Some(before)) = (&call.local, &call.proposed) else {
            return;
        };
        let mut offered = local.proposed_as(before, keys, ice);
        let description = offer(&mut offered);
        let description = self.described(&offered, description, call.is_encrypted);
        if self.ua.replace_offer(number, description).is_ok()
            && let Some(call) = self.calls.get_mut(&number)
        {
            if let Some(local) = &mut call.local {
                local.version = offered.version;
            }
            call.proposed = Some(offered);
        }
    }

    /// The answer to our offer is there; `is_final` when it came with the answer to the call.
    pub(super) fn agree(
        &mut self,
        now: Instant,
        number: CallNumber,
        description: &[u8],
        is_final: bool,
    ) {
        let Some(call) = self.calls.get_mut(&number) else {
            return;
        };
        if !description.is_empty() {
            let agreed = call
                .local
                .as_mut()
                .map(|local| read_answer(local, description));
            match agreed {
                Some(Ok(negotiated)) if is_final => self.begin(number, negotiated),
                Some(Ok(negotiated)) => {
                    call.early = Some(negotiated.clone());
                    if let Some(sound) = &call.sound {
                        sound.start(negotiated);
                    }
                }
                _ if is_final => {
                    let _ = self.ua.hang_up(now, number);
                }
                _ => {}
            }
        } else if is_final && let Some(negotiated) = call.early.take() {
            self.begin(number, negotiated);
        }
    }

    /// The other side offers another session.
    pub(super) fn handle_offer(&mut self, now: Instant, number: CallNumber, description: &[u8]) {
        let Some(call) = self.calls.get_mut(&number) else {
            return;
        };
        let Some(local) = &mut call.local else {
            return;
        };
        // An offer that is refused leaves all as it was, and no number is left out (RFC 3264 section 8).
        let mut anew = local.clone();
        anew.version += 1;
        if description.is_empty() {
            let description = offer(&mut anew);
            *local = anew;
            let _ = self.ua.answer_offer(now, number, description);
            self.propose_anew(number);
            return;
        }
        let offered = description;
        let Ok((description, negotiated)) = answer(&mut anew, offered) else {
            let _ = self
                .ua
                .refuse_offer(now, number, 488, "Not Acceptable Here");
            return;
        };
        *local = anew;
        let held = !matches!(
            negotiated.direction,
            Direction::SendReceive | Direction::SendOnly
        );
        let is_news = std::mem::replace(&mut call.is_held_by_them, held) != held;
        if self.ua.answer_offer(now, number, description).is_ok() {
            self.begin(number, negotiated);
            self.propose_anew(number);
        }
        if is_news {
            self.emit(PhoneEvent::Held {
                call: number.0,
                held,
            });
        }
    }

    /// Our offer of another session was accepted.
    pub(super) fn handle_offer_accepted(
        &mut self,
        now: Instant,
        number: CallNumber,
        description: &[u8],
    ) {
        let Some(known) = self.calls.get_mut(&number) else {
            return;
        };
        let moved = known.moves_to();
        if let Some(proposed) = known.proposed.take() {
            known.is_held_by_us = proposed.direction == Direction::SendOnly;
            known.local = Some(proposed);
        }
        if let (Some(_), Some(sound)) = (moved, &known.sound) {
            sound.ports_answered(true);
            known.moves_at = None;
        }
        self.agree(now, number, description, true);
        let call = number.0;
        self.emit(match moved {
            Some(address) => PhoneEvent::Moved {
                call,
                address: address.to_string(),
            },
            None => PhoneEvent::Changed {
                call,
                accepted: true,
            },
        });
    }

    /// Our offer of another session was refused: all stays as it was (RFC 3261 section 14.1).
    pub(super) fn handle_offer_refused(&mut self, number: CallNumber) {
        let Some(known) = self.calls.get_mut(&number) else {
            return;
        };
        let moved = known.moves_to();
        known.proposed = None;
        match (moved, &known.sound) {
            (Some(_), Some(sound)) => sound.ports_answered(false),
            _ => self.emit(PhoneEvent::Changed {
                call: number.0,
                accepted: false,
            }),
        }
    }
}
