//! What a link is told of a packet.

/// A packet, as far as the link is concerned. A number of bytes is one, of the first class, whose
/// sender knows nothing of explicit congestion notification.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Packet {
    /// Its size, all headers included that the driver counts.
    pub bytes: usize,
    /// Whether it may be marked instead of dropped: it is ECN-capable (RFC 3168, section 5).
    pub ecn_capable: bool,
    /// Which class of traffic it belongs to, see [`crate::Link::with_classes`]; 0 is the first.
    pub class: usize,
}

impl From<usize> for Packet {
    fn from(bytes: usize) -> Packet {
        Packet {
            bytes,
            ecn_capable: false,
            class: 0,
        }
    }
}
