//! The answering side of the handshake (RFC 9260 sections 5.1 and 5.2): INIT is answered without
//! keeping anything, and COOKIE ECHO makes an association, or meets one.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rand::Rng;

use super::associations::{Index, PeerKey};
use super::{Arrived, Endpoint};
use crate::association::Association;
use crate::association::cookie::{COOKIE_LENGTH, Cookie, CookieOrigin, CookieSigner, TieTags};
use crate::association::setup::SetupParameters;
use crate::packet::{
    Cause, CauseBuffer, Chunk, CommonHeader, Init, InitFault, Parameter, ParameterBuffer, Tlv, Tsn,
};
use crate::{AssociationState, PathAddress};

/// What our INIT ACK says of us.
struct Offer {
    tag: u32,
    initial_tsn: Tsn,
    outbound_streams: u16,
    tie_tags: TieTags,
}

/// What section 5.2.4, Table 12, does with a COOKIE ECHO that meets an association.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    /// (A): the peer restarted.
    Restart,
    /// (B): both sides opened at the same time.
    Collision,
    /// (D): the cookie is that of this association.
    Confirm,
    /// (C), or a row that is not in the table.
    Discard,
}

impl Endpoint {
    /// An INIT (sections 5.1 B, 5.2.1 and 5.2.2).
    pub(super) fn handle_init(
        &mut self,
        now: Instant,
        from: PathAddress,
        header: &CommonHeader,
        init: &Init<'_>,
    ) {
        let address = self.reply_address(from, header.source_port, init.initiate_tag);
        match init.check() {
            Ok(()) => {}
            Err(InitFault::ZeroInitiateTag) => {
                self.statistics.drops.init += 1;
                return;
            }
            Err(
                InitFault::SmallWindow | InitFault::NoOutboundStreams | InitFault::NoInboundStreams,
            ) => {
                self.statistics.drops.init += 1;
                self.replies
                    .abort_because(address, &Cause::InvalidMandatoryParameter);
                return;
            }
        }
        let parameters = match SetupParameters::read(init.parameters) {
            Ok(parameters) => parameters,
            Err(fault) => {
                self.statistics.drops.init += 1;
                let mut causes = CauseBuffer::new();
                fault.push_to(&mut causes);
                self.replies.abort(address, false, &causes);
                return;
            }
        };
        let existing = self
            .associations
            .by_peer(&PeerKey::new(from, header.source_port));
        let Some(offer) = self.offer(now, existing) else {
            return;
        };
        let cookie = self.sign_cookie(now, from, header, init, &offer, &parameters);
        let config = &self.config;
        let max = self.replies.max_packet();
        self.replies.push(address, |writer| {
            let parameters = init_ack_parameters(&cookie, &parameters.unrecognized, max);
            writer.chunk(&Chunk::InitAck(Init {
                initiate_tag: offer.tag,
                a_rwnd: config.a_rwnd,
                outbound_streams: offer.outbound_streams,
                inbound_streams: config.max_inbound_streams,
                initial_tsn: offer.initial_tsn,
                parameters: parameters.parameters(),
            }))
        });
    }

    /// What we say of ourselves in an INIT ACK, by the association that there is with that peer;
    /// `None` when the INIT is to be left without INIT ACK.
    fn offer(&mut self, now: Instant, existing: Option<Index>) -> Option<Offer> {
        let known = existing.and_then(|index| {
            let association = self.associations.get(index)?;
            Some((index, association.state()))
        });
        match known {
            None => Some(Offer {
                tag: self.new_tag(now),
                initial_tsn: Tsn(self.rng.next_u32()),
                outbound_streams: self.config.outbound_streams,
                tie_tags: TieTags::default(),
            }),
            // Section 9.2: the SHUTDOWN COMPLETE was lost.
            Some((index, AssociationState::ShutdownAckSent)) => {
                self.with(now, index, |association, context| {
                    association.repeat_shutdown_ack(false, context);
                });
                None
            }
            // Section 5.2.1: the same parameters as in our own INIT.
            Some((
                index,
                state @ (AssociationState::CookieWait | AssociationState::CookieEchoed),
            )) => {
                let outbound_streams = self.config.outbound_streams;
                let (association, _) = self.associations.get_mut(index)?;
                Some(Offer {
                    tag: association.local_tag(),
                    initial_tsn: association.local_initial_tsn(),
                    outbound_streams,
                    tie_tags: if state == AssociationState::CookieEchoed {
                        association.populate_tie_tags(&mut self.rng)
                    } else {
                        TieTags::default()
                    },
                })
            }
            // Section 5.2.2: a new tag, and the tie-tags of the association.
            Some((index, _)) => {
                let tag = self.new_tag(now);
                let initial_tsn = Tsn(self.rng.next_u32());
                let (association, _) = self.associations.get_mut(index)?;
                Some(Offer {
                    tag,
                    initial_tsn,
                    outbound_streams: association.outbound_streams(),
                    tie_tags: association.populate_tie_tags(&mut self.rng),
                })
            }
        }
    }

    fn sign_cookie(
        &mut self,
        now: Instant,
        from: PathAddress,
        header: &CommonHeader,
        init: &Init<'_>,
        offer: &Offer,
        parameters: &SetupParameters<'_>,
    ) -> [u8; COOKIE_LENGTH] {
        let signer = self
            .signer
            .get_or_insert_with(|| CookieSigner::new(now, &mut self.rng));
        // Section 3.3.2.1.3: a longer life is granted within bounds, for it helps replays.
        let increment = parameters
            .life_span_increment
            .map_or(Duration::ZERO, |milliseconds| {
                Duration::from_millis(milliseconds.into())
            });
        let cookie = Cookie {
            created: signer.time(now),
            life: (self.config.valid_cookie_life + increment)
                .min(self.config.longest_cookie_life()),
            local_tag: offer.tag,
            peer_tag: init.initiate_tag,
            local_initial_tsn: offer.initial_tsn,
            peer_initial_tsn: init.initial_tsn,
            peer_a_rwnd: init.a_rwnd,
            outbound_streams: offer.outbound_streams.min(init.inbound_streams),
            inbound_streams: init.outbound_streams.min(self.config.max_inbound_streams),
            tie_tags: offer.tie_tags,
        };
        signer.sign(now, &cookie, origin(from, header), &mut self.rng)
    }

    /// A COOKIE ECHO (sections 5.1.5 and 5.2.4).
    pub(super) fn handle_cookie_echo(&mut self, arrived: Arrived<'_>) {
        let Arrived {
            now, from, parsed, ..
        } = arrived;
        let header = parsed.header();
        let Some(Ok(Chunk::CookieEcho(echo))) = parsed.chunks().next() else {
            self.statistics.drops.malformed += 1;
            return;
        };
        let verified = self
            .signer
            .as_ref()
            .and_then(|signer| signer.verify(echo.cookie, origin(from, &header)).ok())
            .filter(|cookie| cookie.local_tag == header.verification_tag);
        let (Some(signer), Some(cookie)) = (&self.signer, verified) else {
            self.statistics.drops.cookie_not_authentic += 1;
            return;
        };
        let staleness = signer.staleness(now, &cookie);
        let existing = self.associations.by_tag(cookie.local_tag).or_else(|| {
            self.associations
                .by_peer(&PeerKey::new(from, header.source_port))
        });
        let action = existing
            .and_then(|index| self.associations.get(index))
            .map(|association| action_for(association, &cookie));
        if let Some(staleness) = staleness
            && action != Some(Action::Confirm)
        {
            self.refuse_stale_cookie(from, &header, &cookie, staleness);
            return;
        }
        match (existing, action) {
            (Some(index), Some(action)) => {
                self.meet(arrived, &cookie, index, action);
            }
            _ => self.accept(arrived, &cookie),
        }
    }

    /// A valid cookie of a peer with which there is no association: there is one now.
    fn accept(&mut self, arrived: Arrived<'_>, cookie: &Cookie) {
        let Arrived {
            now,
            from,
            packet,
            parsed,
        } = arrived;
        let header = parsed.header();
        if self.remembered_tags.contains(now, cookie.local_tag) {
            self.statistics.drops.cookie_unexpected += 1;
            // The association has ended, and if the peer still waits for its COOKIE ACK, it missed
            // that. To a late copy the ABORT does no harm: the peer has that tag no more.
            let aborts = parsed
                .chunks()
                .any(|chunk| matches!(chunk, Ok(Chunk::Abort(_))));
            if !aborts {
                let address = self.reply_address(from, header.source_port, cookie.peer_tag);
                self.replies.abort(address, false, &CauseBuffer::new());
            }
            return;
        }
        if self.associations.len() >= self.config.max_associations {
            self.statistics.drops.too_many_associations += 1;
            let address = self.reply_address(from, header.source_port, cookie.peer_tag);
            self.replies.abort_because(address, &Cause::OutOfResource);
            return;
        }
        let id = self.associations.next_id();
        let config = Arc::clone(&self.config);
        let (_, _, lent) = self.lend(now);
        let mut context = lent.with(&config);
        let association = Association::accept(id, from, header.source_port, cookie, &mut context);
        let index = self.associations.insert(association, config);
        self.with(now, index, |association, context| {
            association.handle_after_cookie_echo(from, packet, parsed, context);
        });
    }

    /// A valid cookie of a peer with which there is an association.
    fn meet(&mut self, arrived: Arrived<'_>, cookie: &Cookie, index: Index, action: Action) {
        if action == Action::Discard {
            self.statistics.drops.cookie_unexpected += 1;
            return;
        }
        self.with(arrived.now, index, |association, context| {
            match action {
                Action::Restart if association.state() == AssociationState::ShutdownAckSent => {
                    association.repeat_shutdown_ack(true, context);
                    return;
                }
                Action::Restart => association.restart(cookie, context),
                Action::Collision => association.collide(cookie, context),
                Action::Confirm => association.confirm(context),
                Action::Discard => return,
            }
            association.handle_after_cookie_echo(
                arrived.from,
                arrived.packet,
                arrived.parsed,
                context,
            );
        });
    }

    fn refuse_stale_cookie(
        &mut self,
        from: PathAddress,
        header: &CommonHeader,
        cookie: &Cookie,
        staleness: Duration,
    ) {
        self.statistics.drops.cookie_stale += 1;
        let address = self.reply_address(from, header.source_port, cookie.peer_tag);
        let staleness = u32::try_from(staleness.as_micros()).unwrap_or(u32::MAX);
        self.replies
            .error(address, &Cause::StaleCookie { staleness });
    }
}

/// Table 12.
fn action_for(association: &Association, cookie: &Cookie) -> Action {
    let local_matches = cookie.local_tag == association.local_tag();
    let peer_matches = cookie.peer_tag == association.peer_tag();
    let no_tie_tags = cookie.tie_tags == TieTags::default();
    let tie_tags_match = !no_tie_tags && cookie.tie_tags == association.tie_tags();
    match (local_matches, peer_matches) {
        (true, true) => Action::Confirm,
        (true, false) => Action::Collision,
        (false, false) if tie_tags_match => Action::Restart,
        // (C) among them: our own cookie was faster.
        _ => Action::Discard,
    }
}

fn origin(from: PathAddress, header: &CommonHeader) -> CookieOrigin {
    CookieOrigin {
        local_port: header.destination_port,
        peer_port: header.source_port,
        from,
    }
}

/// The State Cookie, and what was not recognized in the INIT as far as it fits (section 3.2.2).
fn init_ack_parameters(cookie: &[u8], unrecognized: &[Tlv<'_>], max: usize) -> ParameterBuffer {
    let mut parameters = ParameterBuffer::new();
    // The cookie is shorter than any parameter may be.
    let _ = parameters.push(&Parameter::StateCookie(cookie));
    let fixed = CommonHeader::LENGTH + 4 + 16;
    for tlv in unrecognized {
        let length = parameters.parameters().as_bytes().len().next_multiple_of(4);
        if fixed + length + 4 + tlv.bytes().len().next_multiple_of(4) > max {
            break;
        }
        let _ = parameters.push(&Parameter::UnrecognizedParameter(tlv.bytes()));
    }
    parameters
}
