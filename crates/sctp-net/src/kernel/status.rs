//! The status and counters of an association, as the kernel reports them.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::OnceLock;
use std::time::Duration;

use nix::time::{ClockId, clock_getres};
use sctp::{
    AssociationState, AssociationStatistics, AssociationStatus, CongestionControl, Extensions,
    PathAddress, PathError, PathState, PathStatus,
};

use super::calls::{get_option, set_option};
use super::layout::{
    ALIGNED_STORAGE, Fields, SCTP_GET_ASSOC_STATS, SCTP_GET_LOCAL_ADDRS, SCTP_GET_PEER_ADDR_INFO,
    SCTP_GET_PEER_ADDRS, SCTP_PRIMARY_ADDR, SCTP_STATUS, STORAGE, Structure,
};
use super::options::storage;
use super::socket::Socket;

/// An association by its socket and the kernel's name.
#[derive(Clone, Copy, Debug)]
pub(super) struct AssociationQuery<'a> {
    pub(super) socket: &'a Socket,
    pub(super) association: i32,
}

/// How many addresses of one side are listed.
const MAX_ADDRESSES: usize = 256;

/// Bytes of the largest address.
const ADDRESS: usize = size_of::<libc::sockaddr_in6>();

impl AssociationQuery<'_> {
    /// A snapshot. Values that the kernel does not report are zero.
    pub(super) fn status(self) -> Option<AssociationStatus> {
        let question = Structure::new(48 + STORAGE).with(0, self.association.to_ne_bytes());
        let answer = self.ask(SCTP_STATUS, question).ok()?;
        let fields = Fields(&answer);
        let (primary, _) = fields.address(28)?;
        let peers = self.peers();
        let listed = self.locals().into_iter().map(|local| local.ip());
        Some(AssociationStatus {
            state: state(fields.i32(4)?),
            peer_port: primary.port(),
            outbound_streams: fields.u16(18)?,
            inbound_streams: fields.u16(16)?,
            extensions: Extensions::NONE,
            peer_rwnd: fields.u32(8)?,
            outstanding_bytes: 0,
            send_buffer_bytes: self.send_buffer_bytes(),
            receive_buffer_bytes: 0,
            unacknowledged_chunks: usize::from(fields.u16(12)?),
            unsent_messages: 0,
            pending_receipt: usize::from(fields.u16(14)?),
            local_addresses: listed.collect(),
            primary: primary.ip(),
            paths: peers
                .into_iter()
                .filter_map(|peer| self.path(peer))
                .collect(),
        })
    }

    /// The counters.
    pub(super) fn statistics(self) -> Option<AssociationStatistics> {
        let behind = ALIGNED_STORAGE + STORAGE;
        let question = Structure::new(behind + 120).with(0, self.association.to_ne_bytes());
        let answer = self.ask(SCTP_GET_ASSOC_STATS, question).ok()?;
        let counter = |number: usize| Fields(&answer).u64(behind + 8 * number);
        Some(AssociationStatistics {
            packets_sent: counter(3)?,
            packets_received: counter(4)?,
            data_chunks_sent: counter(9)? + counter(11)?,
            data_chunks_received: counter(10)? + counter(12)?,
            // The kernel does not report the cause.
            retransmitted_by_timeout: counter(5)?,
            retransmitted_fast: 0,
            duplicates_received: counter(7)?,
            ..AssociationStatistics::default()
        })
    }

    /// Our addresses, as the peer was told.
    pub(super) fn locals(self) -> Vec<SocketAddr> {
        self.addresses(SCTP_GET_LOCAL_ADDRS)
    }

    /// The peer's addresses.
    pub(super) fn peers(self) -> Vec<SocketAddr> {
        self.addresses(SCTP_GET_PEER_ADDRS)
    }

    /// Makes a path the primary one.
    pub(super) fn set_primary(self, remote: IpAddr) -> Result<(), PathError> {
        let peer = self.peer(remote)?;
        let path = self.path(peer).ok_or(PathError::UnknownPath)?;
        if path.state == PathState::Unconfirmed {
            return Err(PathError::NotConfirmed);
        }
        let primary = Structure::new(4 + STORAGE)
            .with(0, self.association.to_ne_bytes())
            .with_bytes(4, &storage(Some(peer)));
        let done = set_option(self.fd(), SCTP_PRIMARY_ADDR, primary.as_bytes());
        done.map_err(|_| PathError::UnknownPath)
    }

    /// The peer's address as the kernel knows it.
    pub(super) fn peer(self, remote: IpAddr) -> Result<SocketAddr, PathError> {
        let peers = self.peers();
        if peers.is_empty() {
            return Err(PathError::UnknownAssociation);
        }
        let peer = peers.into_iter().find(|peer| peer.ip() == remote);
        peer.ok_or(PathError::UnknownPath)
    }

    fn path(self, peer: SocketAddr) -> Option<PathStatus> {
        let question = Structure::new(24 + STORAGE)
            .with(0, self.association.to_ne_bytes())
            .with_bytes(4, &storage(Some(peer)));
        let answer = self.ask(SCTP_GET_PEER_ADDR_INFO, question).ok()?;
        let number = |offset| Fields(&answer).u32(4 + STORAGE + offset);
        let ticks = number(8)?;
        let headers = if peer.is_ipv4() { 20 } else { 40 };
        Some(PathStatus {
            address: PathAddress {
                local: None,
                remote: peer.ip(),
                encapsulation_port: None,
            },
            state: match number(0)? {
                0 => PathState::Inactive,
                1 => PathState::PotentiallyFailed,
                2 => PathState::Active,
                _ => PathState::Unconfirmed,
            },
            srtt: (ticks > 0).then(|| tick() * ticks),
            rto: Duration::from_millis(number(12)?.into()),
            // Linux has the one of the RFC alone.
            congestion_control: CongestionControl::Rfc9260,
            cwnd: number(4)? as usize,
            ssthresh: 0,
            mtu: (number(16)? as usize).saturating_sub(headers),
            error_count: 0,
            outstanding_bytes: 0,
        })
    }

    fn addresses(self, option: i32) -> Vec<SocketAddr> {
        const HEADER: usize = 8;
        let question = Structure::new(HEADER + MAX_ADDRESSES * ADDRESS)
            .with(0, self.association.to_ne_bytes());
        let Ok(answer) = self.ask(option, question) else {
            return Vec::new();
        };
        let fields = Fields(&answer);
        let count = fields.u32(4).unwrap_or(0) as usize;
        fields.addresses(HEADER, count.min(MAX_ADDRESSES))
    }

    /// What the socket holds for the peer, the kernel's own overhead included: nothing when all that was sent is
    /// acknowledged.
    fn send_buffer_bytes(self) -> usize {
        /// The number of `SK_MEMINFO_WMEM_QUEUED` among the answers.
        const QUEUED: usize = 5;
        let mut answer = [0; 64];
        let length = get_option(self.fd(), libc::SOL_SOCKET, libc::SO_MEMINFO, &mut answer);
        let answer = answer.get(..length.unwrap_or(0)).unwrap_or_default();
        Fields(answer).u32(4 * QUEUED).unwrap_or(0) as usize
    }

    fn ask(self, option: i32, question: Structure) -> io::Result<Vec<u8>> {
        let mut bytes = question.into_bytes();
        let length = get_option(self.fd(), libc::IPPROTO_SCTP, option, &mut bytes)?;
        bytes.truncate(length);
        Ok(bytes)
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn state(number: i32) -> AssociationState {
    match number {
        2 => AssociationState::CookieWait,
        3 => AssociationState::CookieEchoed,
        4 => AssociationState::Established,
        5 => AssociationState::ShutdownPending,
        6 => AssociationState::ShutdownSent,
        7 => AssociationState::ShutdownReceived,
        8 => AssociationState::ShutdownAckSent,
        _ => AssociationState::Closed,
    }
}

/// The kernel's unit of round-trip times, which the resolution of its coarse clock tells.
fn tick() -> Duration {
    const USUAL: Duration = Duration::from_millis(4);
    static TICK: OnceLock<Duration> = OnceLock::new();
    *TICK
        .get_or_init(|| clock_getres(ClockId::CLOCK_MONOTONIC_COARSE).map_or(USUAL, Duration::from))
}
