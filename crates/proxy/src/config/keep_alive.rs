//! How the way to phones behind NATs is kept open: `[keep_alive]`.

use std::time::Duration;

use super::reader::Section;
use crate::core::{KeepAliveMethod, KeepAlivePolicy};

pub(super) fn read(file: &Section<'_, '_>, policy: &mut KeepAlivePolicy) {
    file.section("keep_alive", |section| {
        policy.method = section.one_of(
            "method",
            policy.method,
            &[
                ("none", None),
                ("line-ends", Some(KeepAliveMethod::LineEnds)),
                ("options", Some(KeepAliveMethod::Options)),
            ],
        );
        policy.interval = section.within(
            "interval",
            policy.interval,
            Duration::from_secs(1)..,
            "1s or more",
        );
        policy.maximum_flows = section.get("maximum_flows", policy.maximum_flows);
    });
}
