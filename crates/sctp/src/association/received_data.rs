//! What the chunks with user data, DATA and I-DATA, say to the receiving half.

use bytes::Bytes;

use super::message_key::MessageKey;
use crate::packet::{Data, Fragment, IData, Mid, Tsn};

/// A chunk with user data that has arrived.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReceivedData<'a> {
    /// It is an I-DATA chunk.
    pub(crate) interleaved: bool,
    /// The I bit.
    pub(crate) immediate: bool,
    /// The U bit.
    pub(crate) unordered: bool,
    /// The B bit.
    pub(crate) beginning: bool,
    /// The E bit.
    pub(crate) ending: bool,
    pub(crate) tsn: Tsn,
    pub(crate) stream: u16,
    /// The MID. Of a DATA chunk: a number whose low 16 bits are the SSN.
    pub(crate) mid: Mid,
    /// The FSN; 0 in DATA chunks, which have none.
    pub(crate) fsn: u32,
    /// The PPID; 0 in I-DATA chunks that are not the first of their message.
    pub(crate) ppid: u32,
    pub(crate) user_data: &'a [u8],
}

impl ReceivedData<'_> {
    /// The user data as a part of the packet's own buffer, without copying.
    pub(crate) fn user_data_in(&self, packet: &Bytes) -> Bytes {
        packet.slice_ref(self.user_data)
    }

    /// The message that it belongs to.
    pub(crate) fn message(&self) -> MessageKey {
        MessageKey {
            stream: self.stream,
            unordered: self.unordered,
            mid: self.mid,
        }
    }
}

impl<'a> From<&Data<'a>> for ReceivedData<'a> {
    fn from(data: &Data<'a>) -> ReceivedData<'a> {
        ReceivedData {
            interleaved: false,
            immediate: data.immediate,
            unordered: data.unordered,
            beginning: data.beginning,
            ending: data.ending,
            tsn: data.tsn,
            stream: data.stream,
            mid: Mid(data.ssn.0.into()),
            fsn: 0,
            ppid: data.ppid,
            user_data: data.user_data,
        }
    }
}

impl<'a> From<&IData<'a>> for ReceivedData<'a> {
    fn from(data: &IData<'a>) -> ReceivedData<'a> {
        // RFC 8260 section 2.1: the FSN of the first fragment is implicitly 0.
        let (fsn, ppid) = match data.fragment {
            Fragment::First { ppid } => (0, ppid),
            Fragment::Later { fsn } => (fsn, 0),
        };
        ReceivedData {
            interleaved: true,
            immediate: data.immediate,
            unordered: data.unordered,
            beginning: data.beginning(),
            ending: data.ending,
            tsn: data.tsn,
            stream: data.stream,
            mid: data.mid,
            fsn,
            ppid,
            user_data: data.user_data,
        }
    }
}
