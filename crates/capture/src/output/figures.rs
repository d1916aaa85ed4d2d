//! The times of a session as text.

use report::FixedPoint;

use crate::{Milestone, Session, Time};

/// The times and delays of a session as text, with points: written once for all files that a session goes to. Whole
/// numbers of nanoseconds make them, for a floating-point number has fewer digits than a time.
#[derive(Clone, Debug)]
pub struct Figures {
    /// Seconds since the capture began, in the order of [`Milestone::ALL`].
    timestamps: [Option<FixedPoint>; Milestone::ALL.len()],
    /// Seconds since 1970.
    pub(super) began: FixedPoint,
    /// Milliseconds, as are those that follow.
    pub(super) register_delay_1: Option<FixedPoint>,
    pub(super) register_delay_2: Option<FixedPoint>,
    pub(super) invite_delay: Option<FixedPoint>,
    pub(super) call_setup_delay: Option<FixedPoint>,
    pub(super) session_request_delay: Option<FixedPoint>,
    pub(super) session_disconnect_delay: Option<FixedPoint>,
    /// Seconds.
    pub(super) session_duration: Option<FixedPoint>,
}

impl Figures {
    /// Those of a session in a capture that began at `origin`.
    pub fn of(session: &Session, origin: Time) -> Figures {
        let seconds = |nanoseconds| FixedPoint::new(nanoseconds, 9, b'.');
        let milliseconds =
            |delay: Option<i64>| delay.map(|nanoseconds| FixedPoint::new(nanoseconds, 6, b'.'));
        Figures {
            timestamps: Milestone::ALL.map(|milestone| {
                let time = session.timestamps.get(milestone)?;
                Some(seconds(time - origin))
            }),
            began: seconds(session.began.0),
            register_delay_1: milliseconds(session.register_delay_1()),
            register_delay_2: milliseconds(session.register_delay_2()),
            invite_delay: milliseconds(session.invite_delay()),
            call_setup_delay: milliseconds(session.call_setup_delay()),
            session_request_delay: milliseconds(session.session_request_delay),
            session_disconnect_delay: milliseconds(session.session_disconnect_delay),
            session_duration: session.session_duration.map(seconds),
        }
    }

    pub(super) fn timestamp(&self, milestone: Milestone) -> Option<&FixedPoint> {
        self.timestamps[milestone as usize].as_ref()
    }
}
