//! The answering side of the handshake (RFC 9260 sections 5.1 and 5.2): INIT is answered without
//! keeping anything, and COOKIE ECHO makes an association, or belongs to one.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rand::Rng;
use timer_wheel::Index;

use super::Endpoint;
use super::associations::PeerKey;
use super::input::ReceivedPacket;
use crate::association::Association;
use crate::association::address_reconfiguration::is_insecure;
use crate::association::addresses::{AddressRules, Families, as_parameters, write_own};
use crate::association::authentication::{AuthFault, Authentication, Declaration, Declarations};
use crate::association::capabilities::{Capabilities, announce};
use crate::association::cookie::{Cookie, CookieOrigin, CookieSigner, TieTags};
use crate::association::setup::{SetupParameters, write_declarations};
use crate::packet::{
    AuthenticatedPart, Cause, CauseBuffer, Chunk, ChunkType, CommonHeader, Init, InitFault,
    Parameter, ParameterBuffer, Protection, Tsn,
};
use crate::replies::ReplyAddress;
use crate::{AssociationState, ErrorDetectionMethod, PathAddress};

/// What our INIT ACK says of us, and where it goes.
struct InitAckContents {
    to: PathAddress,
    tag: u32,
    initial_tsn: Tsn,
    offered: Capabilities,
    /// RANDOM, CHUNKS and HMAC-ALGO.
    declaration: Option<Declaration>,
    error_detection: Option<ErrorDetectionMethod>,
    a_rwnd: u32,
    tie_tags: TieTags,
}

/// The answer to an INIT.
enum InitOutcome {
    /// It is answered as this says.
    InitAck(InitAckContents),
    /// It would add these addresses to the association (section 5.2.2).
    NewAddresses(Vec<IpAddr>),
    /// It gets no INIT ACK.
    Nothing,
}

/// What section 5.2.4, Table 12, does with a COOKIE ECHO whose peer has an association.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CookieAction {
    /// (A): the peer restarted.
    Restart,
    /// (B): both sides opened at the same time.
    Collision,
    /// (D): the cookie is that of this association.
    Confirm,
    /// (C), or a row that is not in the table.
    Discard,
}

/// A packet with a COOKIE ECHO whose cookie is ours.
struct CookieEchoPacket<'p> {
    received: ReceivedPacket<'p>,
    /// There is an AUTH chunk in front of it, and it is right.
    authenticated: bool,
    /// To the peer that the cookie names.
    reply_address: ReplyAddress,
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
        if !self.rate_limits.allow_init(now, &self.config) {
            self.statistics.drops.init_rate += 1;
            return;
        }
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
        let rules = AddressRules::new(
            from.remote,
            &self.local_addresses,
            &self.host_addresses,
            self.config.association.max_peer_addresses,
        );
        let mut parameters = match SetupParameters::read(
            init.parameters,
            self.config.association.extensions,
            &rules,
        ) {
            Ok(parameters) => parameters,
            Err(fault) => {
                self.statistics.drops.init += 1;
                let mut causes = CauseBuffer::new();
                fault.push_to(&mut causes);
                self.replies.abort(address, false, &causes);
                return;
            }
        };
        parameters.agree_on_error_detection(self.config.association.alternate_error_detection);
        if is_insecure(parameters.extensions, &self.config.association) {
            self.statistics.drops.init += 1;
            let cause = Cause::ProtocolViolation(b"ASCONF without AUTH");
            self.replies.abort_because(address, &cause);
            return;
        }
        self.statistics.drops.addresses += parameters.peer.left_out;
        let outcome = match self.association_of_init(from, header.source_port, &parameters) {
            Some(index) => self.handle_known_init(now, from, index, &parameters),
            None => InitOutcome::InitAck(InitAckContents {
                to: from,
                tag: self.new_tag(now),
                initial_tsn: Tsn(self.rng.next_u32()),
                offered: Capabilities::offered(&self.config.association),
                declaration: Declaration::offered(&self.config.association, &mut self.rng),
                error_detection: self.config.association.alternate_error_detection,
                a_rwnd: self.config.association.a_rwnd,
                tie_tags: TieTags::default(),
            }),
        };
        match outcome {
            InitOutcome::InitAck(contents) => {
                self.answer_init(now, from, header, init, contents, &parameters)
            }
            InitOutcome::NewAddresses(added) => {
                self.statistics.drops.init += 1;
                self.statistics.drops.restart_with_new_addresses += 1;
                let added = as_parameters(&added);
                let cause = Cause::RestartWithNewAddresses(added.parameters());
                self.replies.abort_because(address, &cause);
            }
            InitOutcome::Nothing => {}
        }
    }

    /// The association that any of the addresses in an INIT names (section 5.1.2 D). An address that
    /// an association claims without having proved it names nobody: else whoever claims it could
    /// keep its owner out (RFC 5062 section 2).
    fn association_of_init(
        &self,
        from: PathAddress,
        port: u16,
        parameters: &SetupParameters<'_>,
    ) -> Option<Index> {
        let listed = parameters.peer.addresses.iter().copied();
        std::iter::once(from.remote)
            .chain(listed)
            .find_map(|remote| {
                let address = PathAddress { remote, ..from };
                let index = self.associations.by_peer(&PeerKey::new(address, port))?;
                let association = self.associations.get(index)?;
                association.has_confirmed(remote).then_some(index)
            })
    }

    /// What becomes of an INIT that belongs to an association.
    fn handle_known_init(
        &mut self,
        now: Instant,
        from: PathAddress,
        index: Index,
        parameters: &SetupParameters<'_>,
    ) -> InitOutcome {
        let Some((association, config)) = self.associations.get_mut(index) else {
            return InitOutcome::Nothing;
        };
        let state = association.state();
        let listed = parameters.peer.addresses.iter().copied();
        let (known, added): (Vec<IpAddr>, Vec<IpAddr>) = std::iter::once(from.remote)
            .chain(listed)
            .partition(|remote| association.address_of(*remote).is_some());
        match state {
            // Section 9.2: the SHUTDOWN COMPLETE was lost.
            AssociationState::ShutdownAckSent => {
                self.with(now, index, |association, context| {
                    association.repeat_shutdown_ack(false, context);
                });
                InitOutcome::Nothing
            }
            // Section 5.2.1: only to an address that both the user and the INIT named, and with the
            // same parameters as in our own INIT.
            AssociationState::CookieWait => {
                let to = match known.first() {
                    Some(remote) if *remote != from.remote => association.address_of(*remote),
                    Some(_) => Some(from),
                    None => None,
                };
                to.map_or(InitOutcome::Nothing, |to| {
                    InitOutcome::InitAck(InitAckContents {
                        to,
                        tag: association.local_tag(),
                        initial_tsn: association.local_initial_tsn(),
                        offered: Capabilities::offered(config),
                        declaration: association.declaration(),
                        error_detection: config.alternate_error_detection,
                        a_rwnd: config.a_rwnd,
                        tie_tags: TieTags::default(),
                    })
                })
            }
            _ if !added.is_empty() => InitOutcome::NewAddresses(added),
            AssociationState::CookieEchoed => InitOutcome::InitAck(InitAckContents {
                to: from,
                tag: association.local_tag(),
                initial_tsn: association.local_initial_tsn(),
                offered: Capabilities::offered(config),
                declaration: association.declaration(),
                error_detection: config.alternate_error_detection,
                a_rwnd: config.a_rwnd,
                tie_tags: association.populate_tie_tags(&mut self.rng),
            }),
            // Section 5.2.2: a new tag, and the tie-tags of the association.
            _ => {
                let a_rwnd = config.a_rwnd;
                let offered = Capabilities {
                    outbound_streams: association.outbound_streams(),
                    ..Capabilities::offered(config)
                };
                let declaration = association.new_declaration(config, &mut self.rng);
                let error_detection = config.alternate_error_detection;
                let tie_tags = association.populate_tie_tags(&mut self.rng);
                InitOutcome::InitAck(InitAckContents {
                    to: from,
                    tag: self.new_tag(now),
                    initial_tsn: Tsn(self.rng.next_u32()),
                    offered,
                    declaration,
                    error_detection,
                    a_rwnd,
                    tie_tags,
                })
            }
        }
    }

    fn answer_init(
        &mut self,
        now: Instant,
        from: PathAddress,
        header: &CommonHeader,
        init: &Init<'_>,
        contents: InitAckContents,
        parameters: &SetupParameters<'_>,
    ) {
        let cookie = self.sign_cookie(now, from, header, init, &contents, parameters);
        let address = self.reply_address(contents.to, header.source_port, init.initiate_tag);
        let local = &self.local_addresses;
        let max = self.replies.max_packet();
        let agreed = agreed(&contents, init, parameters);
        let address = ReplyAddress {
            protection: Protection {
                zero_checksum: agreed.extensions.zero_checksum,
                ..Protection::default()
            },
            ..address
        };
        self.replies.push(address, |writer| {
            let parameters = init_ack_parameters(&cookie, &contents, parameters, local, max);
            writer.chunk(&Chunk::InitAck(Init {
                initiate_tag: contents.tag,
                a_rwnd: contents.a_rwnd,
                // Section 3.3.3: not more than the peer allows.
                outbound_streams: agreed.outbound_streams,
                inbound_streams: contents.offered.inbound_streams,
                initial_tsn: contents.initial_tsn,
                parameters: parameters.parameters(),
            }))
        });
    }

    fn sign_cookie(
        &mut self,
        now: Instant,
        from: PathAddress,
        header: &CommonHeader,
        init: &Init<'_>,
        contents: &InitAckContents,
        parameters: &SetupParameters<'_>,
    ) -> Vec<u8> {
        let longest_life = self.config.longest_cookie_life();
        let signer = self
            .signer
            .get_or_insert_with(|| CookieSigner::new(now, longest_life, &mut self.rng));
        // Section 3.3.2.1.3: a longer life is granted within bounds, for it helps replays.
        let life = parameters.life_span_increment.map(|milliseconds| {
            let increment = Duration::from_millis(milliseconds.into());
            (self.config.valid_cookie_life + increment).min(longest_life)
        });
        let other_addresses = std::iter::once(from.remote)
            .chain(parameters.peer.addresses.iter().copied())
            .filter(|remote| *remote != contents.to.remote)
            .collect();
        let capabilities = agreed(contents, init, parameters);
        let declarations = contents
            .declaration
            .as_ref()
            .zip(parameters.declaration.as_ref())
            .filter(|_| capabilities.extensions.authentication)
            .map(|(local, peer)| {
                Box::new(Declarations {
                    local: local.clone(),
                    peer: peer.clone(),
                })
            });
        let cookie = Cookie {
            created: signer.time(now),
            life,
            local_tag: contents.tag,
            peer_tag: init.initiate_tag,
            local_initial_tsn: contents.initial_tsn,
            peer_initial_tsn: init.initial_tsn,
            peer_a_rwnd: init.a_rwnd,
            capabilities,
            declarations,
            tie_tags: contents.tie_tags,
            source: contents.to.into(),
            other_addresses,
        };
        let (local_port, peer_port) = (header.destination_port, header.source_port);
        signer.sign(now, &cookie, local_port, peer_port, &mut self.rng)
    }

    /// A COOKIE ECHO (sections 5.1.5 and 5.2.4).
    pub(super) fn handle_cookie_echo(&mut self, received: ReceivedPacket<'_>) {
        let ReceivedPacket {
            now, from, parsed, ..
        } = received;
        let header = parsed.header();
        if !self.rate_limits.allow_cookie_echo(now, &self.config) {
            self.statistics.drops.cookie_rate += 1;
            return;
        }
        let echo = parsed.chunks().find_map(|chunk| match chunk {
            Ok(Chunk::CookieEcho(echo)) => Some(echo),
            _ => None,
        });
        let Some(echo) = echo else {
            self.statistics.drops.malformed += 1;
            return;
        };
        let verified = self
            .signer
            .as_ref()
            .and_then(|signer| signer.verify(now, echo.cookie, origin(*from, &header)).ok());
        let (Some(signer), Some(cookie)) = (&self.signer, verified) else {
            self.statistics.drops.cookie_not_authentic += 1;
            return;
        };
        let staleness = signer.staleness(now, &cookie, self.config.valid_cookie_life);
        let existing = self
            .associations
            .by_tag(cookie.local_tag)
            .or_else(|| self.association_of_cookie(&cookie, &header));
        let action = existing
            .and_then(|index| self.associations.get(index))
            .map(|association| cookie_action(association, &cookie));
        let keys = existing
            .and_then(|index| self.associations.get(index)?.authentication())
            .map_or(&self.shared_keys, Authentication::shared_keys);
        let mut by_cookie = cookie.authentication(keys);
        // Of two that open at the same time, each has the other's INIT ACK to an INIT of its own, and the
        // key that belongs to the cookie is not that of the association: it would never come up.
        let verifier = existing.filter(|index| {
            let association = self.associations.get(*index);
            action != Some(CookieAction::Collision)
                || !association.is_some_and(Association::is_opening)
        });
        let Some(authenticated) =
            self.authenticate_cookie(received, &cookie, verifier, by_cookie.as_mut())
        else {
            return;
        };
        let received = CookieEchoPacket {
            received,
            authenticated,
            reply_address: ReplyAddress {
                protection: protection_of(&cookie, by_cookie.as_ref()),
                ..self.reply_address(*from, header.source_port, cookie.peer_tag)
            },
        };
        if let Some(staleness) = staleness
            && action != Some(CookieAction::Confirm)
        {
            self.refuse_stale_cookie(received, staleness);
            return;
        }
        match (existing, action) {
            (Some(index), Some(action)) => {
                self.apply_cookie(received, &cookie, index, action);
            }
            _ => self.accept(received, &cookie, by_cookie),
        }
    }

    /// The association with the peer that an address in a cookie names.
    fn association_of_cookie(&self, cookie: &Cookie, header: &CommonHeader) -> Option<Index> {
        cookie.addresses().find_map(|remote| {
            let address = PathAddress {
                local: None,
                remote,
                encapsulation_port: cookie.source.encapsulation_port,
            };
            let key = PeerKey::new(address, header.source_port);
            let index = self.associations.by_peer(&key)?;
            let association = self.associations.get(index)?;
            association.has_confirmed(remote).then_some(index)
        })
    }

    /// A valid cookie of a peer with which there is no association: there is one now.
    fn accept(
        &mut self,
        received: CookieEchoPacket<'_>,
        cookie: &Cookie,
        authentication: Option<Authentication>,
    ) {
        let ReceivedPacket {
            now,
            from,
            packet,
            parsed,
        } = received.received;
        let header = parsed.header();
        let address = received.reply_address;
        if self.remembered_tags.contains(now, cookie.local_tag) {
            self.statistics.drops.cookie_unexpected += 1;
            // The association has ended, and if the peer still waits for its COOKIE ACK, it missed
            // that. To a late copy the ABORT does no harm: the peer has that tag no more.
            self.replies.abort(address, false, &CauseBuffer::new());
            return;
        }
        if self.associations.len() >= self.config.max_associations {
            self.statistics.drops.too_many_associations += 1;
            self.replies.abort_because(address, &Cause::OutOfResource);
            return;
        }
        let id = self.associations.next_id();
        let config = Arc::clone(&self.association_config);
        let (_, _, endpoint_context) = self.split(now);
        let mut context = endpoint_context.with(&config);
        let port = header.source_port;
        let association =
            Association::accept(id, *from, port, cookie, authentication, &mut context);
        let index = self.associations.insert(association, config);
        let authenticated = received.authenticated;
        self.with(now, index, |association, context| {
            association.handle_after_cookie_echo(*from, packet, parsed, authenticated, context);
        });
    }

    /// A valid cookie of a peer with which there is an association.
    fn apply_cookie(
        &mut self,
        received: CookieEchoPacket<'_>,
        cookie: &Cookie,
        index: Index,
        action: CookieAction,
    ) {
        let CookieEchoPacket {
            received,
            authenticated,
            ..
        } = received;
        if action == CookieAction::Discard {
            self.statistics.drops.cookie_unexpected += 1;
            return;
        }
        self.with(received.now, index, |association, context| {
            match action {
                CookieAction::Restart
                    if association.state() == AssociationState::ShutdownAckSent =>
                {
                    association.repeat_shutdown_ack(true, context);
                    return;
                }
                CookieAction::Restart => association.restart(cookie, context),
                CookieAction::Collision => association.collide(cookie, context),
                CookieAction::Confirm => association.confirm(context),
                CookieAction::Discard => return,
            }
            association.handle_after_cookie_echo(
                *received.from,
                received.packet,
                received.parsed,
                authenticated,
                context,
            );
        });
    }

    /// Looks whether a COOKIE ECHO is authenticated (RFC 4895 section 6.3): by the association that
    /// is there, or else by what the cookie says. `None` when the packet is to be dropped.
    fn authenticate_cookie(
        &mut self,
        received: ReceivedPacket<'_>,
        cookie: &Cookie,
        existing: Option<Index>,
        by_cookie: Option<&mut Authentication>,
    ) -> Option<bool> {
        let ReceivedPacket {
            now, from, parsed, ..
        } = received;
        // An AUTH chunk behind the COOKIE ECHO has nothing to do with it.
        let part = parsed
            .authenticated_part()
            .filter(AuthenticatedPart::is_all);
        let existing = existing.filter(|index| {
            let association = self.associations.get(*index);
            association.is_some_and(Association::authenticates)
        });
        let Some(part) = part else {
            let is_required = match (existing, by_cookie) {
                (Some(index), _) => self.associations.get(index).is_some_and(|association| {
                    association.requires_authentication(ChunkType::COOKIE_ECHO)
                }),
                (None, Some(by_cookie)) => by_cookie.requires(ChunkType::COOKIE_ECHO),
                (None, None) => false,
            };
            self.statistics.drops.not_authenticated += u64::from(is_required);
            return (!is_required).then_some(false);
        };
        let verified = match (existing, by_cookie) {
            (Some(index), _) => self
                .with(now, index, |association, context| {
                    association.verify(*from, &part, context)
                })
                .unwrap_or(false),
            (None, Some(by_cookie)) => self.verify_by_cookie(received, cookie, by_cookie, &part),
            // One of an extension that we do not have: nothing behind it is looked at.
            (None, None) => {
                self.statistics.drops.chunks += 1;
                false
            }
        };
        verified.then_some(true)
    }

    fn verify_by_cookie(
        &mut self,
        received: ReceivedPacket<'_>,
        cookie: &Cookie,
        by_cookie: &mut Authentication,
        part: &AuthenticatedPart<'_>,
    ) -> bool {
        let Err(fault) = by_cookie.verify(part) else {
            return true;
        };
        self.statistics.drops.not_authentic += 1;
        if let AuthFault::UnsupportedHmac(hmac_identifier) = fault {
            let port = received.parsed.header().source_port;
            let address = ReplyAddress {
                protection: protection_of(cookie, Some(by_cookie)),
                ..self.reply_address(*received.from, port, cookie.peer_tag)
            };
            self.replies.error(
                address,
                &Cause::UnsupportedHmacIdentifier { hmac_identifier },
            );
        }
        false
    }

    fn refuse_stale_cookie(&mut self, received: CookieEchoPacket<'_>, staleness: Duration) {
        self.statistics.drops.cookie_stale += 1;
        let address = received.reply_address;
        // Rounded up: 0 would say nothing (section 3.3.10.3).
        let staleness = staleness.as_nanos().div_ceil(1000);
        let staleness = u32::try_from(staleness).unwrap_or(u32::MAX);
        self.replies
            .error(address, &Cause::StaleCookie { staleness });
    }
}

/// How what answers a cookie is protected.
fn protection_of(cookie: &Cookie, authentication: Option<&Authentication>) -> Protection {
    Protection {
        signer: authentication.and_then(Authentication::signer).cloned(),
        zero_checksum: cookie.capabilities.extensions.zero_checksum,
    }
}

/// Table 12.
fn cookie_action(association: &Association, cookie: &Cookie) -> CookieAction {
    let local_matches = cookie.local_tag == association.local_tag();
    let peer_matches = cookie.peer_tag == association.peer_tag();
    let no_tie_tags = cookie.tie_tags == TieTags::default();
    let tie_tags_match = !no_tie_tags && cookie.tie_tags == association.tie_tags();
    match (local_matches, peer_matches) {
        (true, true) => CookieAction::Confirm,
        (true, false) => CookieAction::Collision,
        // The addresses were looked at when the INIT came, but that may be long ago.
        (false, false) if tie_tags_match => {
            let is_new = |remote| association.address_of(remote).is_none();
            if cookie.addresses().any(is_new) {
                CookieAction::Discard
            } else {
                CookieAction::Restart
            }
        }
        // (C) among them: our own cookie was faster.
        _ => CookieAction::Discard,
    }
}

fn origin(from: PathAddress, header: &CommonHeader) -> CookieOrigin {
    CookieOrigin {
        local_port: header.destination_port,
        peer_port: header.source_port,
        local_tag: header.verification_tag,
        from: from.into(),
    }
}

/// What our INIT ACK and the INIT agree on.
fn agreed(
    contents: &InitAckContents,
    init: &Init<'_>,
    parameters: &SetupParameters<'_>,
) -> Capabilities {
    let SetupParameters {
        extensions,
        adaptation_code_point,
        ..
    } = *parameters;
    contents
        .offered
        .agreed_with(init, extensions, adaptation_code_point)
}

/// The State Cookie, our addresses, and what was not recognized in the INIT as far as it fits
/// (section 3.2.2) into a packet of `max` bytes.
fn init_ack_parameters(
    cookie: &[u8],
    contents: &InitAckContents,
    init: &SetupParameters<'_>,
    local: &[IpAddr],
    max: usize,
) -> ParameterBuffer {
    let mut parameters = ParameterBuffer::new();
    // The cookie is shorter than any parameter may be.
    let _ = parameters.push(&Parameter::StateCookie(cookie));
    announce(contents.offered, &mut parameters);
    write_declarations(
        contents.declaration.as_ref(),
        contents
            .error_detection
            .filter(|_| contents.offered.extensions.zero_checksum),
        &mut parameters,
    );
    let room = |parameters: &ParameterBuffer| {
        let fixed = CommonHeader::LENGTH + 4 + 16;
        let length = parameters.parameters().as_bytes().len().next_multiple_of(4);
        max.saturating_sub(fixed + length)
    };
    let families = init.supported.unwrap_or(Families::ALL);
    let left = room(&parameters);
    write_own(&mut parameters, local, contents.to.remote, families, left);
    for tlv in &init.unrecognized {
        if 4 + tlv.bytes().len().next_multiple_of(4) > room(&parameters) {
            break;
        }
        let _ = parameters.push(&Parameter::UnrecognizedParameter(tlv.bytes()));
    }
    parameters
}
