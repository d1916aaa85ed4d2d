//! Core: capture files to SIP messages, SCTP packets, M3UA and RTP, and from there to calls, delays and losses.
//!
//! A [`Reader`] goes through one file, packet by packet, and hands over its [`Event`]s; [`Packets`] does the same with packets
//! of an interface. [`Merge`] reads several files in order of time, by the offsets of their clocks ([`Clocks`]).
//!
//! Each layer is a file or folder, and hands what it found to the next one (`layers`): `input`, `file` or `text`, then `link`,
//! `ip`, then `tcp` with its contents (`content`, `tls`, `websocket`), `sctp`, or `pdu`. What is incomplete (fragments,
//! segments, frames) waits in tables whose size is bounded by [`Limits`]; what gives way becomes a [`Warning`].
//!
//! [`Analysis`] keeps a compact exchange, which is a list of messages, for each open Call-ID, and evaluates it when it is over:
//! memory is bounded by the number of open calls, not by the size of the file. `rtp` follows the media of these calls,
//! [`SctpView`] associations, [`M3uaView`] the M3UA in them, and [`Output`] shows the results of all.
#![forbid(unsafe_code)]

mod analysis;
mod association_name;
mod channel;
mod chunks;
mod clock;
mod content;
mod event;
mod event_sink;
mod file;
mod filter;
mod hep;
mod input;
mod ip;
mod journal;
mod layers;
mod link;
mod m3ua_text;
mod m3ua_view;
mod merge;
mod output;
mod packets;
mod pdu;
mod reader;
mod rtp;
mod sctp;
mod sctp_view;
mod secure_streams;
mod settings;
mod start_line;
mod tcp;
mod tls;
mod tunnel;
mod websocket;

pub use analysis::{
    Analysis, Codes, Count, DelaySummary, Delayed, Delays, Loss, Losses, Metrics, MetricsSummary,
    Milestone, Options, Outcome, Results, Session, Step, Timeline, Timestamps, Transactions,
};
pub use association_name::{AssociationEnd, AssociationName};
pub use chunks::ChunkArrows;
pub use clock::{ClockOffset, Clocks};
pub use event::{
    Carrier, Endpoint, Event, EventKind, SctpPacket, SipSummary, SummaryStart, Time, UserMessage,
    Warning,
};
pub use filter::{Filter, FilterError};
pub use journal::{Dialog, DialogState, Journal, JournalBounds, Recorded};
pub use m3ua_view::{
    M3uaAssociation, M3uaTransactions, M3uaView, SignallingState, StateChange, UnansweredRequest,
    UserMessageKind, UserMessages,
};
pub use merge::{Merge, MergeError};
pub use output::{
    Blocks, Figures, FileSummary, JsonDocument, Output, SessionTable, rtp_table, time_of_day,
};
pub use packets::Packets;
pub use reader::{Counts, OpenError, PassedOver, Reader};
pub use rtp::{RtpStream, RtpTotals};
pub use sctp_view::{
    Association, Beginning, Change, ChangeOutcome, ChangeRequest, Direction, Ending, Path,
    RoundTrips, SctpTotals, SctpView, Streams,
};
pub use settings::{Limits, Settings};
pub use tls::KeyLog;
