//! Control chunks that wait to be sent once: answers to what the peer has sent, and reports of its errors.

use bytes::Bytes;

use super::encoded_chunk::EncodedChunk;
use super::path_id::PathId;
use crate::packet::{
    Causes, Chunk, DoesNotFit, Heartbeat, OperationError, PacketWriter, Parameters,
};

/// What is kept free for a SHUTDOWN or SHUTDOWN ACK beside other chunks, in bytes.
const SHUTDOWN_SIZE: usize = 8;

/// The chunks that wait, in the order in which they leave: path and chunk of each.
#[derive(Debug, Default)]
pub(super) struct Pending(Vec<(PathId, PendingChunk)>);

#[derive(Debug)]
enum PendingChunk {
    CookieAck,
    /// With these parameters.
    HeartbeatAck(Bytes),
    /// An ERROR with these causes. There is one at most.
    Error(Vec<u8>),
    /// The answer to a request.
    Answer(EncodedChunk),
}

impl Pending {
    /// A COOKIE ACK is to go out on `path`.
    pub(super) fn cookie_ack(&mut self, path: PathId) {
        self.0
            .retain(|(_, chunk)| !matches!(chunk, PendingChunk::CookieAck));
        self.insert(path, PendingChunk::CookieAck);
    }

    /// A HEARTBEAT ACK with these parameters is to go out on `path`, if everything that waits
    /// still fits in a packet with `max_bytes` for chunks. `false` when it does not, or `max_acks`
    /// wait.
    pub(super) fn heartbeat_ack(
        &mut self,
        path: PathId,
        parameters: Bytes,
        max_bytes: usize,
        max_acks: usize,
    ) -> bool {
        let acks = self.0.iter().filter(|(_, chunk)| chunk.is_heartbeat_ack());
        let chunk = PendingChunk::HeartbeatAck(parameters);
        let room = acks.count() < max_acks && self.size() + chunk.size() <= max_bytes;
        if room {
            self.insert(path, chunk);
        }
        room
    }

    /// This chunk is to go out once on `path`, if everything that waits still fits in a packet with
    /// `max_bytes` for chunks. `false` when it does not.
    pub(super) fn answer(&mut self, path: PathId, chunk: EncodedChunk, max_bytes: usize) -> bool {
        let room = self.size() + chunk.size() <= max_bytes;
        if room {
            self.insert(path, PendingChunk::Answer(chunk));
        }
        room
    }

    /// These causes are to go out in an ERROR on `path`, if everything that waits still fits in a
    /// packet with `max` bytes for chunks. `false` when it does not.
    pub(super) fn error(&mut self, path: PathId, causes: Causes<'_>, max: usize) -> bool {
        let size = self.size();
        let causes = causes.as_bytes();
        let waiting = self.0.iter_mut().find_map(|(_, chunk)| match chunk {
            PendingChunk::Error(waiting) => Some(waiting),
            _ => None,
        });
        if let Some(waiting) = waiting {
            let room = size + causes.len().next_multiple_of(4) <= max;
            if room {
                waiting.resize(waiting.len().next_multiple_of(4), 0);
                waiting.extend_from_slice(causes);
            }
            return room;
        }
        let chunk = PendingChunk::Error(causes.to_vec());
        let room = size + chunk.size() <= max;
        if room {
            self.insert(path, chunk);
        }
        room
    }

    /// Whether a COOKIE ACK, a HEARTBEAT ACK or an answer to a request waits for `path`.
    pub(super) fn answers_on(&self, path: PathId) -> bool {
        let mut on_path = self.0.iter().filter(|(other, _)| *other == path);
        on_path.any(|(_, chunk)| !chunk.is_error())
    }

    /// Whether nothing waits.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether an ERROR waits.
    pub(super) fn has_errors(&self) -> bool {
        self.0.iter().any(|(_, chunk)| chunk.is_error())
    }

    /// The HEARTBEATs that came on `path` are not to be answered.
    pub(super) fn forget_heartbeat_acks(&mut self, path: PathId) {
        self.0
            .retain(|(other, chunk)| *other != path || !chunk.is_heartbeat_ack());
    }

    /// The path was removed. HEARTBEATs that came on it are not to be answered; everything else goes out on
    /// the path `next`.
    pub(super) fn forget_path(&mut self, path: PathId, next: PathId) {
        self.forget_heartbeat_acks(path);
        for (waiting, _) in &mut self.0 {
            if *waiting == path {
                *waiting = next;
            }
        }
    }

    /// Bytes of the chunks that wait. They stay within a packet: one packet, whatever is in it,
    /// gets no more than one in answer (section 12.4).
    pub(super) fn size(&self) -> usize {
        let chunks = self.0.iter().map(|(_, chunk)| chunk.size());
        chunks.sum::<usize>() + SHUTDOWN_SIZE
    }

    /// The path of the first chunk that may go out. `has_source` says whether we can send on a path, and
    /// `is_open` whether more than answers to what came from there may go on it.
    pub(super) fn path(
        &self,
        has_source: impl Fn(PathId) -> bool,
        is_open: impl Fn(PathId) -> bool,
    ) -> Option<PathId> {
        self.0
            .iter()
            .find(|(path, chunk)| match chunk {
                PendingChunk::Error(_) => is_open(*path),
                _ => has_source(*path),
            })
            .map(|(path, _)| *path)
    }

    /// Writes what is to go out on `path`, as much as fits. `is_open` is as in [`Self::path`].
    pub(super) fn write(&mut self, path: PathId, is_open: bool, writer: &mut PacketWriter<'_>) {
        let mut fits = true;
        self.0.retain(|(other, chunk)| {
            if *other != path || (chunk.is_error() && !is_open) {
                return true;
            }
            fits = fits && chunk.write(writer).is_ok();
            !fits
        });
    }

    fn insert(&mut self, path: PathId, chunk: PendingChunk) {
        let position = self
            .0
            .partition_point(|(_, other)| other.rank() <= chunk.rank());
        self.0.insert(position, (path, chunk));
    }
}

impl PendingChunk {
    fn is_heartbeat_ack(&self) -> bool {
        matches!(self, PendingChunk::HeartbeatAck(_))
    }

    fn is_error(&self) -> bool {
        matches!(self, PendingChunk::Error(_))
    }

    /// Its place in the order in which chunks leave: a COOKIE ACK comes first in its packet (section 5.1).
    fn rank(&self) -> u8 {
        match self {
            PendingChunk::CookieAck => 0,
            PendingChunk::HeartbeatAck(_) => 1,
            PendingChunk::Error(_) => 2,
            PendingChunk::Answer(_) => 3,
        }
    }

    /// Bytes that it takes up in a packet.
    fn size(&self) -> usize {
        let chunk_size = |value_length: usize| (4 + value_length).next_multiple_of(4);
        match self {
            PendingChunk::CookieAck => chunk_size(0),
            PendingChunk::HeartbeatAck(parameters) => chunk_size(parameters.len()),
            PendingChunk::Error(causes) => chunk_size(causes.len()),
            PendingChunk::Answer(chunk) => chunk.size(),
        }
    }

    fn write(&self, writer: &mut PacketWriter<'_>) -> Result<(), DoesNotFit> {
        match self {
            PendingChunk::CookieAck => writer.chunk(&Chunk::CookieAck),
            PendingChunk::HeartbeatAck(parameters) => {
                writer.chunk(&Chunk::HeartbeatAck(Heartbeat {
                    parameters: Parameters::new(parameters),
                }))
            }
            PendingChunk::Error(causes) => writer.chunk(&Chunk::Error(OperationError {
                causes: Causes::new(causes),
            })),
            PendingChunk::Answer(chunk) => chunk.write(writer),
        }
    }
}
