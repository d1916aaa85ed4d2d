//! Finds what of a packet an AUTH chunk authenticates (RFC 4895, section 5.1).

use super::{Auth, Chunk, ChunkType, Packet};

/// The AUTH chunk of a packet with all that is behind it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AuthenticatedPart<'a> {
    /// The chunk; `None` when it is malformed, or when there is another one behind it, which there
    /// must not be.
    pub(crate) auth: Option<Auth<'a>>,
    /// The packet without this part.
    pub(crate) before: Packet<'a>,
    /// The bytes of this part, to the end of the packet.
    pub(crate) bytes: &'a [u8],
}

impl AuthenticatedPart<'_> {
    /// Whether there is nothing in front of it.
    pub(crate) fn is_all(&self) -> bool {
        self.before.body.is_empty()
    }
}

impl<'a> Packet<'a> {
    /// The part from the first AUTH chunk on; `None` when there is no such chunk. The framing of the
    /// chunks has been checked.
    pub(crate) fn authenticated_part(&self) -> Option<AuthenticatedPart<'a>> {
        let mut at: usize = 0;
        let mut chunks = self.chunks().raw().flatten();
        while let Some(raw) = chunks.next() {
            if raw.chunk_type() != ChunkType::AUTH {
                at += usize::from(raw.length()).next_multiple_of(4);
                continue;
            }
            let is_only = chunks.all(|other| other.chunk_type() != ChunkType::AUTH);
            let auth = match Chunk::read(raw) {
                Ok(Chunk::Auth(auth)) if is_only => Some(auth),
                _ => None,
            };
            let (body, bytes) = self.body.split_at_checked(at)?;
            return Some(AuthenticatedPart {
                auth,
                before: Packet { body, ..*self },
                bytes,
            });
        }
        None
    }
}
