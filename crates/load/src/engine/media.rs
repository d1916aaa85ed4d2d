//! What an engine tells of its calls to whoever carries their media.

use std::fmt;

use super::Engine;
use crate::record::Party;
use crate::script::{Kind, Script};

/// Who carries the media of an engine's calls. A call is a number that another call may have when it is over.
///
/// An engine has none as a rule: descriptions of calls then name a port at which nobody listens.
pub trait CallMedia: fmt::Debug + Send {
    /// A call begins.
    fn begin(&mut self, call: u32, party: Party);
    /// What the call's own description says.
    fn local(&self, call: u32) -> Option<LocalMedia>;
    /// The other side's description is there, if this is one: the offer or the answer.
    fn describe(&mut self, call: u32, description: &[u8]);
    /// The call is answered: the 2xx has come, or is sent.
    fn answered(&mut self, call: u32);
    /// The callee has the caller's ACK.
    fn acknowledged(&mut self, call: u32);
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

impl Engine {
    /// Has the media of calls carried from now on.
    pub fn set_media(&mut self, media: Box<dyn CallMedia>) {
        self.media = Some(media);
    }

    /// A session has begun.
    pub(super) fn begin_media(&mut self, script: &Script, index: u32, party: Party) {
        if let Some(media) = &mut self.media
            && *script.kind() == Kind::Call
        {
            media.begin(index, party);
        }
    }

    /// A message has come that may describe the other side's media.
    pub(super) fn describe_media(&mut self, index: u32, body: &[u8]) {
        if let Some(media) = &mut self.media
            && !body.is_empty()
        {
            media.describe(index, body);
        }
    }

    pub(super) fn media_answered(&mut self, index: u32) {
        if let Some(media) = &mut self.media {
            media.answered(index);
        }
    }

    pub(super) fn media_acknowledged(&mut self, index: u32) {
        if let Some(media) = &mut self.media {
            media.acknowledged(index);
        }
    }

    pub(super) fn end_media(&mut self, index: u32) {
        if let Some(media) = &mut self.media {
            media.end(index);
        }
    }

    pub(super) fn local_media(&self, index: u32) -> Option<LocalMedia> {
        self.media.as_deref().and_then(|media| media.local(index))
    }
}
