//! What becomes of requests: `[forwarding]` and `[messages]`.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::reader::Section;
use crate::ProxyConfig;
use crate::core::{Forking, LONGEST_LIFETIME, Mode, Policy, Relay};

pub(super) const MODES: [(&str, Mode); 3] = [
    ("stateful", Mode::Stateful),
    ("stateless", Mode::Stateless),
    ("redirect", Mode::Redirect),
];

const RELAY: [(&str, Relay); 3] = [
    ("users", Relay::Users),
    ("neighbours", Relay::Neighbours),
    ("anybody", Relay::Anybody),
];

const FORKING: [(&str, Forking); 3] = [
    ("by-preference", Forking::ByPreference),
    ("parallel", Forking::Parallel),
    ("sequential", Forking::Sequential),
];

/// What is shorter would ask the store for nothing else; what is longer finds nobody in time, and an entry for each call
/// is kept for so long.
const LOOK_AGAIN: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(60);

pub(super) fn read(file: &Section<'_, '_>, policy: &mut Policy) {
    file.section("forwarding", |section| forwarding(section, policy));
}

/// What waits for the next start: `[messages]`.
pub(super) fn at_start(file: &Section<'_, '_>, proxy: &mut ProxyConfig) {
    file.section("messages", |section| {
        proxy.maximum_datagram = section.within(
            "maximum_datagram",
            proxy.maximum_datagram,
            ..=65_507,
            "65507 or less",
        );
        proxy.timer_c = section.within(
            "timer_c",
            proxy.timer_c,
            Duration::from_secs(181)..,
            "more than 3min",
        );
    });
}

fn forwarding(section: &Section<'_, '_>, policy: &mut Policy) {
    let forwarding = &mut policy.forwarding;
    forwarding.mode = section.one_of("mode", forwarding.mode, &MODES);
    forwarding.relay = section.one_of("relay", forwarding.relay, &RELAY);
    forwarding.forking = section.one_of("forking", forwarding.forking, &FORKING);
    let ring_time = section.get("ring_time", forwarding.ring_time.unwrap_or_default());
    forwarding.ring_time = (ring_time > Duration::ZERO).then_some(ring_time);
    let look_again = section.get("look_again", forwarding.look_again.unwrap_or_default());
    if !look_again.is_zero() && !LOOK_AGAIN.contains(&look_again) {
        section.refuse("look_again", "\"0s\", or 100ms to 1min");
    }
    forwarding.look_again = (!look_again.is_zero()).then_some(look_again);
    forwarding.recursion = section.get("recursion", forwarding.recursion);
    forwarding.maximum_targets = section.within(
        "maximum_targets",
        forwarding.maximum_targets,
        1..,
        "1 or more",
    );
    forwarding.dialog_lifetime = section.within(
        "dialog_lifetime",
        forwarding.dialog_lifetime,
        ..=LONGEST_LIFETIME,
        "365 days or less",
    );
}
