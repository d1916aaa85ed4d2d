//! Who may have a request brought where. We carry what is for our users, what static routes say, and what
//! belongs to dialogs that have begun through us; all else only for those whom the policy names, so that
//! strangers cannot hide behind us from other strangers, or call at our expense.

use sip::{Flow, Message, Method, Name};

use super::authentication::{Demand, Speaker};
use super::policy::Relay;
use super::proxy::Proxy;
use super::rejection::Rejection;
use super::requests::{Addressee, Bound};

/// Whether a request is carried.
#[derive(Debug)]
pub(super) enum Entitlement {
    /// It is.
    Free,
    /// It is when its sender has proved this.
    ByProof(Demand),
    /// It is not.
    None,
}

impl Proxy {
    /// Whether a request is brought to where it is bound.
    pub(super) fn entitlement(
        &self,
        request: &Message,
        arrival: &Flow,
        bound: &Bound,
    ) -> Entitlement {
        let policy = &self.policy.authentication;
        let is_exempt = || policy.is_exempt(arrival.remote.ip());
        let addressee = &bound.addressee;
        match addressee {
            Addressee::Element => return Entitlement::Free,
            Addressee::Registrar if !policy.register || is_exempt() => return Entitlement::Free,
            Addressee::Registrar => {
                let speaker = self.speaker(request.to());
                return self.by_proof(request, speaker, true);
            }
            _ => {}
        }
        let relay = self.policy.forwarding.relay;
        let is_relayed = !bound.is_in_dialog && is_for_others(request, addressee);
        let is_limited = is_relayed && relay != Relay::Anybody;
        let is_asked = policy.calls && (policy.in_dialogs || !bound.is_in_dialog);
        if !is_limited && !is_asked || is_exempt() || self.is_trusted(arrival) {
            return Entitlement::Free;
        }
        if is_limited && relay == Relay::Neighbours {
            return Entitlement::None;
        }
        let speaker = self.speaker(request.from());
        let is_user = matches!(speaker, Speaker::User(_));
        if !policy.calls {
            return match is_user {
                true => Entitlement::Free,
                false => Entitlement::None,
            };
        }
        // Strangers call users of ours; and each other, where that is allowed.
        let is_open = is_for_user(request, addressee) || is_relayed && !is_limited;
        if !is_user && is_open {
            return Entitlement::Free;
        }
        // These cannot be repeated with credentials (RFC 3261 section 22.1). An ACK to a 2xx is within
        // a dialog, and a CANCEL finds the transaction of what it is to cancel.
        if let Some(Method::Ack | Method::Cancel) = request.method() {
            return match is_limited {
                true => Entitlement::None,
                false => Entitlement::Free,
            };
        }
        if matches!(speaker, Speaker::Stranger) && policy.may_act_for_others.is_empty() {
            return Entitlement::None;
        }
        self.by_proof(request, speaker, false)
    }

    /// Why a request is refused whose sender may not use us, which is counted.
    pub(super) fn deny_relay(&mut self) -> Rejection {
        self.statistics.relays_denied += 1;
        Rejection::new(403, "Relaying Denied")
    }

    fn by_proof(&self, request: &Message, speaker: Speaker, is_registrar: bool) -> Entitlement {
        // Without a realm there are no passwords.
        self.demand(request, speaker, is_registrar)
            .map_or(Entitlement::None, Entitlement::ByProof)
    }
}

/// Whether a request is for somebody who has registered here, or along a flow that a registrar was given
/// as a Path (RFC 5626 section 5.3).
fn is_for_user(request: &Message, addressee: &Addressee) -> bool {
    match addressee {
        Addressee::User(_) => !request.contains(Name::Route),
        Addressee::Requested(target) => target.is_edge,
        Addressee::Registrar | Addressee::Element | Addressee::Routed => false,
    }
}

/// Whether the next hop of a request is of its sender's choice. That of one for a user of ours is where
/// its Route is not ours.
fn is_for_others(request: &Message, addressee: &Addressee) -> bool {
    match addressee {
        Addressee::User(_) => request.contains(Name::Route),
        Addressee::Requested(target) => !target.is_edge,
        Addressee::Registrar | Addressee::Element | Addressee::Routed => false,
    }
}
