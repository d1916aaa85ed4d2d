//! The length of what we answer to a source that nobody has proved.

use sip::{Message, Name};

/// Adds one of several values of a field to a response, unless it becomes longer than it may be; but the first one always.
/// Returns whether it is there.
pub(crate) fn add_within(
    response: &mut Message,
    name: Name<'_>,
    value: String,
    longest: usize,
) -> bool {
    let longer = response.clone().with(name, value);
    let may = longer.wire_length() <= longest || !response.contains(name);
    if may {
        *response = longer;
    }
    may
}
