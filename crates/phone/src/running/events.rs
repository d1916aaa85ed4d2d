//! What the user agent tells.

use std::time::{Duration, Instant};

use bytes::Bytes;
use media::tones::Tone;
use ua::{AccountId, CallNumber, EndReason, RegistrationState, UaEvent};

use super::{PhoneCall, Running};
use crate::command::Command;
use crate::event::PhoneEvent;
use crate::sound::CallSound;

/// How long the tone of a call that failed is heard.
const END_TONE: Duration = Duration::from_secs(3);

impl Running {
    pub(super) fn handle_event(&mut self, event: UaEvent) {
        let now = Instant::now();
        match event {
            UaEvent::Registration { account, state } => self.handle_registration(account, state),
            UaEvent::Bindings { account, contacts } => self.emit(PhoneEvent::Bindings {
                account: self.number_of(account),
                contacts,
            }),
            UaEvent::BindingsFailed {
                account,
                status,
                reason,
            } => self.emit(PhoneEvent::BindingsFailed {
                account: self.number_of(account),
                status,
                reason,
            }),
            UaEvent::Incoming {
                call,
                account,
                from,
                display_name,
                offer,
                replaces,
                is_secure,
            } => {
                if self.does_not_disturb && replaces.is_none() {
                    let _ = self.ua.refuse(now, call, 486, "Busy Here");
                    return;
                }
                self.emit(PhoneEvent::Incoming {
                    call: call.0,
                    account: self.number_of(account),
                    from,
                    display_name,
                });
                let mut known = PhoneCall::new(account, is_secure);
                (known.is_incoming, known.offered) = (true, offer);
                self.handle_incoming_call(now, call, known, replaces.is_some());
            }
            UaEvent::Progress {
                call,
                status,
                reason,
                description,
            } => {
                self.emit(PhoneEvent::Progress {
                    call: call.0,
                    status,
                    reason,
                });
                self.handle_progress(now, call, status, &description);
            }
            UaEvent::Answered { call, description } => self.agree(now, call, &description, true),
            UaEvent::Established { call, description } if !description.is_empty() => {
                self.agree(now, call, &description, true);
                self.propose_anew(call);
            }
            UaEvent::Established { call, .. } => {
                // Our offer was in the answer to the call, and nothing has answered it (RFC 3261 section 13.2.1).
                if self.calls.get(&call).is_some_and(|call| !call.is_up) {
                    let _ = self.ua.hang_up(now, call);
                }
            }
            UaEvent::Offer { call, description } => self.handle_offer(now, call, &description),
            UaEvent::OfferAccepted { call, description } => {
                self.handle_offer_accepted(now, call, &description);
            }
            UaEvent::OfferRefused { call, .. } => self.handle_offer_refused(call),
            UaEvent::Key { call, key } => self.emit(PhoneEvent::Key { call: call.0, key }),
            UaEvent::TransferRequested { call, target, .. } => {
                if let Some(known) = self.calls.get_mut(&call) {
                    known.transfer_target = Some(target.clone());
                }
                self.emit(PhoneEvent::TransferRequested {
                    call: call.0,
                    target,
                });
                if self.config.accepts_transfers {
                    self.handle_command(Command::AcceptTransfer { call: Some(call.0) });
                } else if !self.config.is_attended {
                    let _ = self.ua.refuse_transfer(now, call);
                }
            }
            UaEvent::TransferProgress { call, status } => {
                self.emit(PhoneEvent::TransferProgress {
                    call: call.0,
                    status,
                });
                // The other side is served (RFC 5589 section 6.1).
                if (200..300).contains(&status) {
                    let _ = self.ua.hang_up(now, call);
                }
            }
            UaEvent::Text {
                account,
                from,
                body,
                ..
            } => self.emit(PhoneEvent::Text {
                account: self.number_of(account),
                from,
                text: String::from_utf8_lossy(&body).into_owned(),
            }),
            UaEvent::TextSent { status, .. } => self.emit(PhoneEvent::TextSent { status }),
            UaEvent::MessagesWaiting { account, waiting } => {
                self.emit(PhoneEvent::MessagesWaiting {
                    account: self.number_of(account),
                    waiting,
                })
            }
            UaEvent::Ended { call, reason } => self.handle_end(call, &reason),
        }
    }

    fn handle_registration(&mut self, account: AccountId, state: RegistrationState) {
        let account = self.number_of(account);
        self.emit(match state {
            RegistrationState::Registered { expires, flows } => PhoneEvent::Registered {
                account,
                expires,
                flows,
            },
            RegistrationState::FlowFailed { flow, flows } => PhoneEvent::FlowFailed {
                account,
                flow,
                flows,
            },
            RegistrationState::Unregistered => PhoneEvent::Unregistered { account },
            RegistrationState::Failed { status, reason } => PhoneEvent::RegistrationFailed {
                account,
                status,
                reason,
            },
        });
    }

    /// A call came that may ring; `is_replacement`: in the place of one that is up, which is not news to the user.
    fn handle_incoming_call(
        &mut self,
        now: Instant,
        number: CallNumber,
        call: PhoneCall,
        is_replacement: bool,
    ) {
        let is_second = self.calls.values().any(|call| call.is_up);
        self.calls.insert(number, call);
        if self.config.answers || is_replacement {
            self.handle_command(Command::Answer {
                call: Some(number.0),
            });
            return;
        }
        let tone = if is_second {
            Tone::CallWaiting
        } else {
            Tone::Ringback
        };
        self.speaker.tone(number.0, Some(tone), None);
        let _ = self.ua.ring(now, number, Bytes::new());
    }

    /// Our call is alerted at the other side, or there is sound before its answer.
    fn handle_progress(
        &mut self,
        now: Instant,
        number: CallNumber,
        status: u16,
        description: &[u8],
    ) {
        // Sound of the other side says what is to be heard.
        let call = self.calls.get(&number);
        let has_sound = call.is_some_and(|call| call.early.is_some());
        if !description.is_empty() {
            self.speaker.tone(number.0, None, None);
        } else if status == 180 && !has_sound {
            self.speaker.tone(number.0, Some(Tone::Ringback), None);
        }
        self.agree(now, number, description, false);
    }

    fn handle_end(&mut self, number: CallNumber, reason: &EndReason) {
        let call = self.calls.remove(&number);
        if let Some(sound) = call.as_ref().and_then(|call| call.sound.as_ref()) {
            self.conference.leave(sound.id);
        }
        let quality = call.and_then(|call| {
            let quality = call.sound.map(CallSound::stop);
            quality.filter(|_| call.is_up)
        });
        // One's own hanging up needs no tone.
        let tone = match reason {
            EndReason::Refused {
                status: 486 | 600, ..
            } => Some(Tone::Busy),
            EndReason::Refused { .. } => Some(Tone::Congestion),
            _ => None,
        };
        self.speaker.tone(number.0, tone, Some(END_TONE));
        let (reason, status) = match reason {
            EndReason::Local => ("local", None),
            EndReason::Remote => ("remote", None),
            EndReason::Refused { status, .. } => ("refused", Some(*status)),
            EndReason::Replaced => ("replaced", None),
            EndReason::Timeout => ("timeout", None),
        };
        self.emit(PhoneEvent::Ended {
            call: number.0,
            reason,
            status,
            quality,
        });
    }
}
