//! The handshake after our INIT (RFC 9260 sections 5.1 and 5.2), and restarts and collisions that a cookie proves.

use std::time::Duration;

use super::PacketOnPath;
use crate::association::address_reconfiguration::{AddressReconfiguration, is_insecure};
use crate::association::addresses::AddressRules;
use crate::association::capabilities::{Capabilities, accepts_zero_checksum};
use crate::association::cookie::Cookie;
use crate::association::local_addresses::LocalAddresses;
use crate::association::path::Path;
use crate::association::receiver::Receiver;
use crate::association::setup::{ParameterFault, SetupParameters};
use crate::association::{Association, Context};
use crate::packet::{Cause, CauseBuffer, Init, InitFault, ParameterType, Tsn, TypeList};
use crate::replies::ReplyAddress;
use crate::{AssociationState, CannotStartCause, Event};

impl Association {
    /// Section 5.2.4, action A: the peer has restarted.
    pub(crate) fn restart(&mut self, cookie: &Cookie, context: &mut Context<'_>) {
        let config = context.config;
        self.local_tag = cookie.local_tag;
        self.peer_tag = cookie.peer_tag;
        self.tie_tags = Default::default();
        self.local_initial_tsn = cookie.local_initial_tsn;
        self.setup = None;
        self.shutdown = Default::default();
        self.pending = Default::default();
        self.control = Default::default();
        self.begin_re_configuration(cookie.peer_initial_tsn);
        self.extensions = cookie.capabilities.extensions;
        // The INIT ACK declared it anew (RFC 9653 section 5.3).
        self.accepts_zero_checksum = accepts_zero_checksum(config);
        self.adaptation_code_point = cookie.capabilities.adaptation_code_point;
        self.address_reconfiguration = AddressReconfiguration::agreed(
            cookie.capabilities.extensions,
            cookie.local_initial_tsn,
            cookie.peer_initial_tsn,
        );
        self.report_failed_messages(context);
        self.receiver.restart(
            cookie.peer_initial_tsn,
            cookie.capabilities.inbound_streams,
            self.extensions.interleaving,
            config,
        );
        self.report_aborted_delivery(context);
        let was_refused = self.sender.restart(
            cookie.local_initial_tsn,
            cookie.capabilities.outbound_streams,
            cookie.peer_a_rwnd,
        );
        self.sender.agree_on(self.extensions);
        self.receiver.agree_on(self.extensions, config);
        self.error_count = 0;
        // The INIT ACK told the peer of the endpoint's.
        self.local_addresses = LocalAddresses::new(context.local_addresses);
        self.restart_paths(cookie, context);
        // Packets on the new paths have room for what the peer asks for.
        self.authenticate_by(cookie.declarations.as_deref(), context);
        self.state = AssociationState::Established;
        self.start_heartbeats(context);
        self.begin_burst();
        if was_refused {
            context.events.push_back(Event::Writable { id: self.id });
        }
        context.events.push_back(Event::Restart {
            id: self.id,
            outbound_streams: cookie.capabilities.outbound_streams,
            inbound_streams: cookie.capabilities.inbound_streams,
        });
        self.report_missing_authentication(context);
        self.report_adaptation_layer(context);
    }

    /// Section 5.2.4, action B: both sides opened at the same time.
    pub(crate) fn collide(&mut self, cookie: &Cookie, context: &mut Context<'_>) {
        self.peer_tag = cookie.peer_tag;
        if !self.is_opening() {
            // The Random Number goes the way of the tag (RFC 4895 section 6.1).
            if self.extensions.authentication && cookie.declarations.is_some() {
                self.authenticate_by(cookie.declarations.as_deref(), context);
            }
            return;
        }
        // What went out with our COOKIE ECHO was thrown away with it.
        self.sender
            .send_again(self.routing.current, &mut self.paths);
        self.learn_peer(
            cookie.peer_initial_tsn,
            cookie.capabilities,
            cookie.peer_a_rwnd,
            context,
        );
        self.authenticate_by(cookie.declarations.as_deref(), context);
        self.combine_paths(cookie, context);
        self.enter_established(context);
    }

    /// Section 5.2.4, action D: the cookie is that of this very association.
    pub(crate) fn confirm(&mut self, context: &mut Context<'_>) {
        if self.state == AssociationState::CookieEchoed {
            self.sender
                .send_again(self.routing.current, &mut self.paths);
            self.enter_established(context);
        }
    }

    pub(super) fn handle_init_ack(
        &mut self,
        received: PacketOnPath<'_>,
        init: &Init<'_>,
        context: &mut Context<'_>,
    ) {
        if self.state != AssociationState::CookieWait {
            context.statistics.drops.chunks += 1;
            return;
        }
        match init.check() {
            Ok(()) => {}
            Err(InitFault::ZeroInitiateTag) => {
                // The peer's tag is unknown, so the ABORT reflects the one that came.
                if let Some(address) = self.reply_address(self.reply_path(received.path), context) {
                    let address = ReplyAddress {
                        verification_tag: received.header.verification_tag,
                        ..address
                    };
                    context.replies.abort(address, true, &CauseBuffer::new());
                }
                self.refuse_init_ack("INIT ACK with Initiate Tag 0", context);
                return;
            }
            Err(InitFault::SmallWindow) => {
                // Section 3.3.3: answered, but the state stays as it is.
                if let Some(address) = self.reply_address(self.reply_path(received.path), context) {
                    let address = ReplyAddress {
                        verification_tag: init.initiate_tag,
                        ..address
                    };
                    context
                        .replies
                        .abort_because(address, &Cause::InvalidMandatoryParameter);
                }
                return;
            }
            Err(InitFault::NoOutboundStreams | InitFault::NoInboundStreams) => {
                self.peer_tag = init.initiate_tag;
                self.send_abort(&Cause::InvalidMandatoryParameter, context);
                self.refuse_init_ack("INIT ACK without streams", context);
                return;
            }
        }
        self.peer_tag = init.initiate_tag;
        let source = self.paths.get(received.path).map(Path::address);
        let Some(source) = source else {
            return;
        };
        let rules = AddressRules::new(
            source.remote,
            self.local_addresses.usable(),
            context.host_addresses,
            context.config.max_peer_addresses,
        );
        let mut parameters =
            match SetupParameters::read(init.parameters, context.config.extensions, &rules) {
                Ok(parameters) => parameters,
                Err(fault) => {
                    self.abort_set_up_for(&fault, received, context);
                    return;
                }
            };
        parameters.agree_on_error_detection(context.config.alternate_error_detection);
        if is_insecure(parameters.extensions, context.config) {
            // RFC 5061 section 6: no COOKIE ECHO.
            self.refuse_init_ack("INIT ACK with ASCONF and without AUTH", context);
            return;
        }
        let Some(cookie) = parameters.cookie else {
            let missing = [ParameterType::STATE_COOKIE.to_be_bytes()];
            self.send_abort(
                &Cause::MissingMandatoryParameter(TypeList::new(&missing)),
                context,
            );
            self.refuse_init_ack("INIT ACK without State Cookie", context);
            return;
        };
        let cookie = received.packet.slice_ref(cookie);
        let errors = parameters.unrecognized_cause(self.max_error_bytes());
        if let Some(rtt) = self
            .setup
            .as_ref()
            .and_then(|setup| setup.answered(context.now))
            && let Some(path) = self.paths.get_mut(received.path)
        {
            path.measure(context.now, rtt, context.config);
        }
        // As many streams to send on as our INIT said: the settings may have changed since.
        let offered = Capabilities {
            outbound_streams: self.sender.streams(),
            ..Capabilities::offered(context.config)
        };
        let agreed = offered.agreed_with(
            init,
            parameters.extensions,
            parameters.adaptation_code_point,
        );
        self.learn_peer(init.initial_tsn, agreed, init.a_rwnd, context);
        if let Some(authentication) = &mut self.authentication {
            authentication.agree(parameters.declaration.take());
        }
        self.auth_changed();
        if let Some(setup) = &mut self.setup {
            setup.echo_cookie(cookie, errors);
        }
        context.statistics.drops.addresses += parameters.peer.left_out;
        self.learn_addresses(source, &parameters.peer.addresses, context);
        self.state = AssociationState::CookieEchoed;
    }

    /// Takes over what the peer said in INIT ACK or cookie.
    fn learn_peer(
        &mut self,
        initial_tsn: Tsn,
        agreed: Capabilities,
        a_rwnd: u32,
        context: &mut Context<'_>,
    ) {
        self.extensions = agreed.extensions;
        self.adaptation_code_point = agreed.adaptation_code_point;
        self.begin_re_configuration(initial_tsn);
        self.sender.agree_on(agreed.extensions);
        self.address_reconfiguration =
            AddressReconfiguration::agreed(agreed.extensions, self.local_initial_tsn, initial_tsn);
        self.receiver = Receiver::new(
            initial_tsn,
            agreed.inbound_streams,
            agreed.extensions.interleaving,
            context.config,
        );
        self.receiver.agree_on(agreed.extensions, context.config);
        for message in self.sender.learn_peer(a_rwnd, agreed.outbound_streams) {
            context.events.push_back(Event::SendFailed {
                id: self.id,
                info: message.info,
                payload: message.rest,
                was_sent: false,
            });
        }
    }

    fn abort_set_up_for(
        &mut self,
        fault: &ParameterFault<'_>,
        received: PacketOnPath<'_>,
        context: &mut Context<'_>,
    ) {
        let mut causes = CauseBuffer::new();
        fault.push_to(&mut causes);
        if let Some(address) = self.reply_address(self.reply_path(received.path), context) {
            context.replies.abort(address, false, &causes);
        }
        self.refuse_init_ack("INIT ACK with an impossible parameter", context);
    }

    fn refuse_init_ack(&mut self, reason: &'static str, context: &mut Context<'_>) {
        self.cannot_start(CannotStartCause::ProtocolViolation { reason }, context);
    }

    pub(super) fn handle_cookie_ack(
        &mut self,
        received: PacketOnPath<'_>,
        context: &mut Context<'_>,
    ) {
        if self.state != AssociationState::CookieEchoed {
            return;
        }
        self.choose_primary_by_answer(received.path);
        let current = self.routing.current;
        let rtt = self
            .setup
            .as_ref()
            .and_then(|setup| setup.answered(context.now));
        if let Some(path) = self.paths.get_mut(current) {
            if let Some(rtt) = rtt {
                path.measure(context.now, rtt, context.config);
            }
            if path.flight() > 0 {
                path.start_t3_rtx(context.now);
            }
        }
        self.enter_established(context);
    }

    /// Section 5.2.6: begins again, and asks for a cookie that lives longer.
    pub(super) fn handle_stale_cookie(&mut self, context: &mut Context<'_>) {
        if self.state != AssociationState::CookieEchoed {
            context.statistics.drops.chunks += 1;
            return;
        }
        self.sender
            .send_again(self.routing.current, &mut self.paths);
        let Some(setup) = &mut self.setup else {
            return;
        };
        let rtt = setup.answered(context.now).unwrap_or_default();
        if setup.begin_again(rtt + Duration::from_secs(1), context.config) {
            self.state = AssociationState::CookieWait;
            self.peer_tag = 0;
        } else {
            self.cannot_start(CannotStartCause::TimedOut, context);
        }
    }

    /// Bytes of error causes that fit into a packet.
    fn max_error_bytes(&self) -> usize {
        self.paths
            .get(self.routing.current)
            .map_or(0, |path| path.pmdcs().saturating_sub(4))
    }
}
