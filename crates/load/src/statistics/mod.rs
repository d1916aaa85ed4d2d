//! What the emulated users measured: the metrics of RFC 6076, the published figures, response codes, and
//! all of it over time.

mod delays;
mod earlier;
mod sketch;

pub use delays::{DelaySummary, Delays};
pub use earlier::{CallResults, RegistrationResults};
pub use sketch::Sketch;
