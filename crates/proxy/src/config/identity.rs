//! Whom we ask who they are, and whom we believe: `[authentication]` and `[trust]`.

use std::time::Duration;

use super::reader::Section;
use crate::core::{AuthenticationPolicy, TrustDomain};

pub(super) fn authentication(file: &Section<'_, '_>, policy: &mut AuthenticationPolicy) {
    file.section("authentication", |section| {
        policy.register = section.get("register", policy.register);
        policy.calls = section.get("calls", policy.calls);
        policy.in_dialogs = section.get("in_dialogs", policy.in_dialogs);
        policy.exempt = section.get("exempt", Vec::new());
        policy.realm = section.optional("realm");
        policy.algorithms = section.get("algorithms", policy.algorithms.clone());
        if policy.algorithms.is_empty() {
            section.problem(
                "algorithms",
                "authentication.algorithms is empty: at least one is needed",
            );
        }
        policy.nonce_lifetime = section.within(
            "nonce_lifetime",
            policy.nonce_lifetime,
            Duration::from_secs(1)..,
            "1s or more",
        );
        policy.maximum_nonces =
            section.within("maximum_nonces", policy.maximum_nonces, 1.., "1 or more");
        policy.allow_without_qop = section.get("allow_without_qop", policy.allow_without_qop);
        policy.may_act_for_others = section.get("may_act_for_others", Vec::new());
        policy.confirm = section.get("confirm", policy.confirm);
    });
}

pub(super) fn trust(file: &Section<'_, '_>, trust: &mut TrustDomain) {
    file.section("trust", |section| {
        trust.addresses = section.get("addresses", Vec::new());
        trust.names = section.get("names", Vec::new());
    });
}
