//! The chunks (RFC 9260, sections 3.2 and 3.3, and the extensions), one file for each that has fields.

mod abort;
mod asconf;
mod auth;
mod cookie_echo;
mod data;
mod forward_tsn;
mod heartbeat;
mod i_data;
mod i_forward_tsn;
mod init;
mod nr_sack;
mod operation_error;
mod pad;
mod re_config;
mod sack;
mod shutdown;

pub use abort::Abort;
pub use asconf::{Asconf, AsconfAck};
pub use auth::Auth;
pub use cookie_echo::CookieEcho;
pub use data::Data;
pub use forward_tsn::{ForwardTsn, SkippedSsn, SkippedSsns};
pub use heartbeat::Heartbeat;
pub use i_data::{Fragment, IData};
pub use i_forward_tsn::{IForwardTsn, SkippedMid, SkippedMids};
pub use init::Init;
pub use nr_sack::NrSack;
pub use operation_error::OperationError;
pub use pad::Pad;
pub use re_config::ReConfig;
pub use sack::{GapAckBlock, GapAckBlocks, Sack, TsnList};
pub use shutdown::{Shutdown, ShutdownComplete};

use super::chunk_type::ChunkType;
use super::tlv::{Tlv, Tlvs};
use super::{DoesNotFit, FormatError, FormatErrorKind, PacketWriter};
use bytes::BufMut;
use std::iter::FusedIterator;

/// One chunk, read. Flag bits and fields that are reserved are left out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Chunk<'a> {
    /// Payload Data (section 3.3.1).
    Data(Data<'a>),
    /// Initiation (section 3.3.2).
    Init(Init<'a>),
    /// Initiation Acknowledgement (section 3.3.3): the same fields as INIT.
    InitAck(Init<'a>),
    /// Selective Acknowledgement (section 3.3.4).
    Sack(Sack<'a>),
    /// Heartbeat Request (section 3.3.5).
    Heartbeat(Heartbeat<'a>),
    /// Heartbeat Acknowledgement (section 3.3.6).
    HeartbeatAck(Heartbeat<'a>),
    /// Abort Association (section 3.3.7).
    Abort(Abort<'a>),
    /// Shutdown Association (section 3.3.8).
    Shutdown(Shutdown),
    /// Shutdown Acknowledgement (section 3.3.9).
    ShutdownAck,
    /// Operation Error (section 3.3.10).
    Error(OperationError<'a>),
    /// Cookie Echo (section 3.3.11).
    CookieEcho(CookieEcho<'a>),
    /// Cookie Acknowledgement (section 3.3.12).
    CookieAck,
    /// Shutdown Complete (section 3.3.13).
    ShutdownComplete(ShutdownComplete),
    /// Authentication (RFC 4895, section 5.1).
    Auth(Auth<'a>),
    /// Non-Renegable Selective Acknowledgement (draft-natarajan-tsvwg-sctp-nrsack).
    NrSack(NrSack<'a>),
    /// Payload Data of interleaved messages (RFC 8260, section 2.1).
    IData(IData<'a>),
    /// Address Configuration Acknowledgement (RFC 5061, section 4.1.2).
    AsconfAck(AsconfAck<'a>),
    /// Re-configuration (RFC 6525, section 3.1).
    ReConfig(ReConfig<'a>),
    /// Padding (RFC 4820, section 3): to be ignored.
    Pad(Pad<'a>),
    /// Forward Cumulative TSN (RFC 3758, section 3.2).
    ForwardTsn(ForwardTsn<'a>),
    /// Address Configuration Change (RFC 5061, section 4.1.1).
    Asconf(Asconf<'a>),
    /// Forward Cumulative TSN for interleaved messages (RFC 8260, section 2.3.1).
    IForwardTsn(IForwardTsn<'a>),
    /// A chunk of a type that is not known here.
    Other(RawChunk<'a>),
}

/// A chunk as it lies in the packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RawChunk<'a>(Tlv<'a>);

/// Walks the chunks of a packet.
#[derive(Clone, Debug)]
pub struct ChunkIterator<'a>(Tlvs<'a>);

impl<'a> Chunk<'a> {
    /// Reads the value by its type.
    ///
    /// # Errors
    ///
    /// When the value does not hold the fields that the type prescribes. What follows the
    /// prescribed fields of a type without variable part is ignored.
    pub fn read(raw: RawChunk<'a>) -> Result<Chunk<'a>, FormatError<'a>> {
        let (flags, value) = (raw.flags(), raw.value());
        let chunk = match raw.chunk_type() {
            ChunkType::DATA => Data::read(flags, value).map(Chunk::Data),
            ChunkType::INIT => Init::read(value).map(Chunk::Init),
            ChunkType::INIT_ACK => Init::read(value).map(Chunk::InitAck),
            ChunkType::SACK => Sack::read(flags, value).map(Chunk::Sack),
            ChunkType::HEARTBEAT => Some(Chunk::Heartbeat(Heartbeat::read(value))),
            ChunkType::HEARTBEAT_ACK => Some(Chunk::HeartbeatAck(Heartbeat::read(value))),
            ChunkType::ABORT => Some(Chunk::Abort(Abort::read(flags, value))),
            ChunkType::SHUTDOWN => Shutdown::read(value).map(Chunk::Shutdown),
            ChunkType::SHUTDOWN_ACK => Some(Chunk::ShutdownAck),
            ChunkType::ERROR => Some(Chunk::Error(OperationError::read(value))),
            ChunkType::COOKIE_ECHO => Some(Chunk::CookieEcho(CookieEcho { cookie: value })),
            ChunkType::COOKIE_ACK => Some(Chunk::CookieAck),
            ChunkType::SHUTDOWN_COMPLETE => {
                Some(Chunk::ShutdownComplete(ShutdownComplete::read(flags)))
            }
            ChunkType::AUTH => Auth::read(value).map(Chunk::Auth),
            ChunkType::NR_SACK => NrSack::read(flags, value).map(Chunk::NrSack),
            ChunkType::I_DATA => IData::read(flags, value).map(Chunk::IData),
            ChunkType::ASCONF_ACK => AsconfAck::read(value).map(Chunk::AsconfAck),
            ChunkType::RE_CONFIG => Some(Chunk::ReConfig(ReConfig::read(value))),
            ChunkType::PAD => Some(Chunk::Pad(Pad {
                padding_data: value,
            })),
            ChunkType::FORWARD_TSN => ForwardTsn::read(value).map(Chunk::ForwardTsn),
            ChunkType::ASCONF => Asconf::read(value).map(Chunk::Asconf),
            ChunkType::I_FORWARD_TSN => IForwardTsn::read(value).map(Chunk::IForwardTsn),
            _ => Some(Chunk::Other(raw)),
        };
        chunk.ok_or(FormatError::new(
            FormatErrorKind::MalformedValue,
            raw.bytes(),
        ))
    }

    /// The type of this chunk.
    pub fn chunk_type(&self) -> ChunkType {
        match self {
            Chunk::Data(_) => ChunkType::DATA,
            Chunk::Init(_) => ChunkType::INIT,
            Chunk::InitAck(_) => ChunkType::INIT_ACK,
            Chunk::Sack(_) => ChunkType::SACK,
            Chunk::Heartbeat(_) => ChunkType::HEARTBEAT,
            Chunk::HeartbeatAck(_) => ChunkType::HEARTBEAT_ACK,
            Chunk::Abort(_) => ChunkType::ABORT,
            Chunk::Shutdown(_) => ChunkType::SHUTDOWN,
            Chunk::ShutdownAck => ChunkType::SHUTDOWN_ACK,
            Chunk::Error(_) => ChunkType::ERROR,
            Chunk::CookieEcho(_) => ChunkType::COOKIE_ECHO,
            Chunk::CookieAck => ChunkType::COOKIE_ACK,
            Chunk::ShutdownComplete(_) => ChunkType::SHUTDOWN_COMPLETE,
            Chunk::Auth(_) => ChunkType::AUTH,
            Chunk::NrSack(_) => ChunkType::NR_SACK,
            Chunk::IData(_) => ChunkType::I_DATA,
            Chunk::AsconfAck(_) => ChunkType::ASCONF_ACK,
            Chunk::ReConfig(_) => ChunkType::RE_CONFIG,
            Chunk::Pad(_) => ChunkType::PAD,
            Chunk::ForwardTsn(_) => ChunkType::FORWARD_TSN,
            Chunk::Asconf(_) => ChunkType::ASCONF,
            Chunk::IForwardTsn(_) => ChunkType::I_FORWARD_TSN,
            Chunk::Other(raw) => raw.chunk_type(),
        }
    }

    pub(super) fn write(&self, writer: &mut PacketWriter<'_>) -> Result<(), DoesNotFit> {
        match self {
            Chunk::Data(data) => writer.data(data),
            Chunk::Init(init) => init.write(ChunkType::INIT, writer),
            Chunk::InitAck(init) => init.write(ChunkType::INIT_ACK, writer),
            Chunk::Sack(sack) => writer.sack(
                sack.cumulative_tsn_ack,
                sack.a_rwnd,
                sack.packets,
                sack.gap_ack_blocks.iter(),
                sack.duplicate_tsns.iter(),
            ),
            Chunk::Heartbeat(heartbeat) => heartbeat.write(ChunkType::HEARTBEAT, writer),
            Chunk::HeartbeatAck(heartbeat) => heartbeat.write(ChunkType::HEARTBEAT_ACK, writer),
            Chunk::Abort(abort) => abort.write(writer),
            Chunk::Shutdown(shutdown) => shutdown.write(writer),
            Chunk::ShutdownAck => writer.append(ChunkType::SHUTDOWN_ACK, 0, 0, |_| {}),
            Chunk::Error(error) => error.write(writer),
            Chunk::CookieEcho(cookie_echo) => cookie_echo.write(writer),
            Chunk::CookieAck => writer.append(ChunkType::COOKIE_ACK, 0, 0, |_| {}),
            Chunk::ShutdownComplete(complete) => complete.write(writer),
            Chunk::Auth(auth) => auth.write(writer),
            Chunk::NrSack(nr_sack) => writer.nr_sack(
                nr_sack.cumulative_tsn_ack,
                nr_sack.a_rwnd,
                nr_sack.packets,
                nr_sack.gap_ack_blocks.iter(),
                nr_sack.nr_gap_ack_blocks.iter(),
                nr_sack.duplicate_tsns.iter(),
            ),
            Chunk::IData(data) => writer.i_data(data),
            Chunk::AsconfAck(asconf_ack) => asconf_ack.write(writer),
            Chunk::ReConfig(re_config) => re_config.write(writer),
            Chunk::Pad(pad) => pad.write(writer),
            Chunk::ForwardTsn(forward_tsn) => {
                writer.forward_tsn(forward_tsn.new_cumulative_tsn, forward_tsn.skipped.iter())
            }
            Chunk::Asconf(asconf) => asconf.write(writer),
            Chunk::IForwardTsn(forward_tsn) => {
                writer.i_forward_tsn(forward_tsn.new_cumulative_tsn, forward_tsn.skipped.iter())
            }
            Chunk::Other(raw) => raw.write(writer),
        }
    }
}

impl<'a> RawChunk<'a> {
    /// Takes the item as a chunk.
    pub fn new(tlv: Tlv<'a>) -> RawChunk<'a> {
        RawChunk(tlv)
    }

    /// The type.
    pub fn chunk_type(&self) -> ChunkType {
        let [chunk_type, _] = self.0.type_field().to_be_bytes();
        ChunkType(chunk_type)
    }

    /// The flags, with the reserved bits.
    pub fn flags(&self) -> u8 {
        let [_, flags] = self.0.type_field().to_be_bytes();
        flags
    }

    /// What the length field says: header and value, without padding.
    pub fn length(&self) -> u16 {
        self.0.length()
    }

    /// The value, without padding.
    pub fn value(&self) -> &'a [u8] {
        self.0.value()
    }

    /// Header and value, without padding: what an Unrecognized Chunk Type cause sends back.
    pub fn bytes(&self) -> &'a [u8] {
        self.0.bytes()
    }

    fn write(&self, writer: &mut PacketWriter<'_>) -> Result<(), DoesNotFit> {
        writer.append(
            self.chunk_type(),
            self.flags(),
            self.value().len(),
            |buffer| buffer.put_slice(self.value()),
        )
    }
}

impl<'a> ChunkIterator<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> ChunkIterator<'a> {
        ChunkIterator(Tlvs::new(bytes))
    }

    /// Walks the rest without looking into the values.
    pub fn raw(
        self,
    ) -> impl FusedIterator<Item = Result<RawChunk<'a>, FormatError<'a>>> + Clone + use<'a> {
        self.0.map(|item| item.map(RawChunk))
    }
}

impl<'a> Iterator for ChunkIterator<'a> {
    type Item = Result<Chunk<'a>, FormatError<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        let item = self.0.next()?;
        Some(item.and_then(|tlv| Chunk::read(RawChunk(tlv))))
    }
}

impl FusedIterator for ChunkIterator<'_> {}

/// T bit of ABORT and SHUTDOWN COMPLETE (sections 3.3.7 and 3.3.13).
const TAG_REFLECTED: u8 = 0x01;
