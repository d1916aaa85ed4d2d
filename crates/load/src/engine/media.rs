//! The media of calls: the engine reports their beginning, description and end to a carrier of media.

use std::fmt;

use crate::record::Party;
use crate::script::MediaAction;

/// Carries the media of an engine's calls. A call is a number that another call may have when it is over.
///
/// An engine has none as a rule: descriptions of calls then name a port at which nobody listens.
pub trait CallMedia: fmt::Debug + Send {
    /// A call begins.
    fn begin(&mut self, call: u32, party: Party);
    /// The port and source for the call's own description.
    fn local(&self, call: u32) -> Option<LocalMedia>;
    /// The other side's description is there, if this is one: the offer or the answer.
    fn describe(&mut self, call: u32, description: &[u8]);
    /// Our own description is in a message that is sent: the offer or the answer.
    fn describe_own(&mut self, call: u32, description: &[u8]);
    /// The call is answered, and both descriptions are there: the 2xx has come, or is sent, or the ACK that has the answer.
    fn answered(&mut self, call: u32);
    /// The callee has the caller's ACK.
    fn acknowledged(&mut self, call: u32);
    /// The script of the call does this.
    fn act(&mut self, call: u32, action: &MediaAction);
    /// The call is over: the BYE was sent or has come, or it failed. May be said more than once.
    fn end(&mut self, call: u32);
}

/// Where media of a call come to, and what they are sent as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalMedia {
    /// The port of RTP, at the address of the call's connection.
    pub port: u16,
    /// The source that is sent as (SSRC, RFC 3550 section 3).
    pub source: u32,
}

/// The media of an engine's calls; none where nobody carries them.
#[derive(Debug, Default)]
pub(super) struct Media(Option<Box<dyn CallMedia>>);

impl Media {
    pub(super) fn carried_by(carrier: Box<dyn CallMedia>) -> Media {
        Media(Some(carrier))
    }

    pub(super) fn begin(&mut self, call: u32, party: Party) {
        if let Some(carrier) = &mut self.0 {
            carrier.begin(call, party);
        }
    }

    pub(super) fn local(&self, call: u32) -> Option<LocalMedia> {
        self.0.as_deref()?.local(call)
    }

    /// A message has come whose body may describe the other side's media.
    pub(super) fn describe(&mut self, call: u32, body: &[u8]) {
        if let Some(carrier) = &mut self.0
            && !body.is_empty()
        {
            carrier.describe(call, body);
        }
    }

    /// A message is sent whose body may describe our media. Tells whether it does.
    pub(super) fn describe_own(&mut self, call: u32, message: &[u8]) -> bool {
        let Some(carrier) = &mut self.0 else {
            return false;
        };
        let end = memchr::memmem::find(message, b"\r\n\r\n").map(|at| at + 4);
        let body = end.and_then(|end| message.get(end..)).unwrap_or_default();
        if !body.is_empty() {
            carrier.describe_own(call, body);
        }
        !body.is_empty()
    }

    pub(super) fn answered(&mut self, call: u32) {
        if let Some(carrier) = &mut self.0 {
            carrier.answered(call);
        }
    }

    pub(super) fn acknowledged(&mut self, call: u32) {
        if let Some(carrier) = &mut self.0 {
            carrier.acknowledged(call);
        }
    }

    pub(super) fn act(&mut self, call: u32, action: &MediaAction) {
        if let Some(carrier) = &mut self.0 {
            carrier.act(call, action);
        }
    }

    pub(super) fn end(&mut self, call: u32) {
        if let Some(carrier) = &mut self.0 {
            carrier.end(call);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    /// Notes the reports.
    #[derive(Clone, Debug, Default)]
    struct Carrier(Arc<Mutex<Vec<String>>>);

    impl Carrier {
        fn note(&self, text: String) {
            self.0.lock().unwrap().push(text);
        }
    }

    impl CallMedia for Carrier {
        fn begin(&mut self, call: u32, party: Party) {
            self.note(format!("begin {call} {party:?}"));
        }
        fn local(&self, call: u32) -> Option<LocalMedia> {
            (call == 1).then_some(LocalMedia {
                port: 4000,
                source: 7,
            })
        }
        fn describe(&mut self, call: u32, description: &[u8]) {
            self.note(format!("describe {call} {}", description.len()));
        }
        fn describe_own(&mut self, call: u32, description: &[u8]) {
            self.note(format!("describe own {call} {}", description.len()));
        }
        fn answered(&mut self, call: u32) {
            self.note(format!("answered {call}"));
        }
        fn acknowledged(&mut self, call: u32) {
            self.note(format!("acknowledged {call}"));
        }
        fn act(&mut self, call: u32, action: &MediaAction) {
            self.note(format!("act {call} {action:?}"));
        }
        fn end(&mut self, call: u32) {
            self.note(format!("end {call}"));
        }
    }

    fn tell(media: &mut Media) {
        media.begin(1, Party::Callee);
        media.describe(1, b"");
        media.describe(1, b"v=0");
        media.describe_own(1, b"BYE sip:a SIP/2.0\r\n\r\n");
        media.describe_own(1, b"INVITE sip:a SIP/2.0\r\n\r\nv=0\r\n");
        media.answered(1);
        media.acknowledged(1);
        media.act(1, &MediaAction::Pause);
        media.end(1);
    }

    #[test]
    fn the_carrier_is_told_of_a_call_and_not_of_empty_bodies() {
        let carrier = Carrier::default();
        let mut media = Media::carried_by(Box::new(carrier.clone()));
        tell(&mut media);
        let told = carrier.0.lock().unwrap().join(", ");
        assert_eq!(
            told,
            "begin 1 Callee, describe 1 3, describe own 1 5, answered 1, acknowledged 1, act 1 Pause, end 1"
        );
        assert_eq!(media.local(1).map(|local| local.port), Some(4000));
        assert_eq!(media.local(2), None);
        let mut none = Media::default();
        tell(&mut none);
        assert_eq!(none.local(1), None);
    }
}
