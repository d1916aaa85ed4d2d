//! Who may have a request brought where. We carry what is for our users, what static routes say, and what
//! belongs to dialogs that have begun through us; all else only for those whom the policy names, so that
//! strangers cannot hide behind us from other strangers, or call at our expense.

use sip::{Flow, Message, Method, Name};

use super::demand::{ClaimedSender, ProofDemand};
use crate::core::common::CommonState;
use crate::core::incoming::{Addressee, RequestClass};
use crate::core::policy::Relay;

/// Whether a request is carried.
#[derive(Debug)]
pub(crate) enum Entitlement {
    /// It is.
    Free,
    /// It is when its sender has proved this.
    ByProof(ProofDemand),
    /// It is not.
    None,
}

/// Whether a request is brought to where it is class.
pub(crate) fn entitlement(
    common: &CommonState,
    request: &Message,
    arrival: &Flow,
    class: &RequestClass,
) -> Entitlement {
    let policy = &common.policy.authentication;
    let is_exempt = || policy.is_exempt(arrival.remote.ip());
    let addressee = &class.addressee;
    match addressee {
        Addressee::Element => return Entitlement::Free,
        Addressee::Registrar if !policy.register || is_exempt() => return Entitlement::Free,
        Addressee::Registrar => {
            let sender = ClaimedSender::of(&common.identity, request.to());
            return by_proof(common, request, sender, true);
        }
        _ => {}
    }
    let relay = common.policy.forwarding.relay;
    let is_relayed = !class.is_in_dialog && is_for_others(request, addressee);
    let is_limited = is_relayed && relay != Relay::Anybody;
    let is_asked = policy.calls && (policy.in_dialogs || !class.is_in_dialog);
    if !is_limited && !is_asked || is_exempt() || common.trust.is_trusted(arrival) {
        return Entitlement::Free;
    }
    if is_limited && relay == Relay::Neighbours {
        return Entitlement::None;
    }
    let sender = ClaimedSender::of(&common.identity, request.from());
    let is_user = matches!(sender, ClaimedSender::User(_));
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
    if matches!(sender, ClaimedSender::Stranger) && policy.may_act_for_others.is_empty() {
        return Entitlement::None;
    }
    by_proof(common, request, sender, false)
}

fn by_proof(
    common: &CommonState,
    request: &Message,
    sender: ClaimedSender,
    is_registrar: bool,
) -> Entitlement {
    // Without a realm there are no passwords.
    ProofDemand::new(
        &common.policy.authentication,
        &common.identity,
        request,
        sender,
        is_registrar,
    )
    .map_or(Entitlement::None, Entitlement::ByProof)
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
