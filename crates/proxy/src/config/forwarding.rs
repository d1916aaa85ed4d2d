//! What becomes of requests: `[forwarding]`.

use std::time::Duration;

use super::reader::Section;
use crate::core::{Forking, Mode, Policy};

pub(super) const MODES: [(&str, Mode); 3] = [
    ("stateful", Mode::Stateful),
    ("stateless", Mode::Stateless),
    ("redirect", Mode::Redirect),
];

const FORKING: [(&str, Forking); 3] = [
    ("by-preference", Forking::ByPreference),
    ("parallel", Forking::Parallel),
    ("sequential", Forking::Sequential),
];

pub(super) fn read(file: &Section<'_, '_>, policy: &mut Policy) {
    file.section("forwarding", |section| forwarding(section, policy));
}

fn forwarding(section: &Section<'_, '_>, policy: &mut Policy) {
    let forwarding = &mut policy.forwarding;
    forwarding.mode = section.one_of("mode", forwarding.mode, &MODES);
    forwarding.forking = section.one_of("forking", forwarding.forking, &FORKING);
    let ring_time = section.get("ring_time", forwarding.ring_time.unwrap_or_default());
    forwarding.ring_time = (ring_time > Duration::ZERO).then_some(ring_time);
    forwarding.recursion = section.get("recursion", forwarding.recursion);
    forwarding.maximum_targets = section.within(
        "maximum_targets",
        forwarding.maximum_targets,
        1..,
        "1 or more",
    );
}
