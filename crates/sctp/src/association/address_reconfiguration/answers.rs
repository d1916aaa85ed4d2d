//! The peer's changes (RFC 5061 sections 5.2 to 5.4): its ASCONFs are processed, and answered by
//! ASCONF-ACKs.

use std::collections::VecDeque;
use std::net::IpAddr;

use crate::association::addresses::AddressRules;
use crate::association::encoded_chunk::EncodedChunk;
use crate::association::path::Path;
use crate::association::path_id::PathId;
use crate::association::{Association, Context};
use crate::packet::{
    Asconf, AsconfAck, Cause, CauseBuffer, Chunk, ChunkType, ErrorCauseIndication, Packet,
    Parameter, ParameterBuffer, ParameterType, Parameters, SequenceNumber, Tlv,
};
use crate::replies::ReplyAddress;
use crate::{PathAddress, PathChange};

/// Answers that are kept. A peer has one packet with ASCONFs outstanding, and few of them in it.
const MAX_CACHED: usize = 16;

/// Bytes of an Error Cause Indication without any parameter in its cause.
const BARE_ERROR: usize = 4 + 4 + 4;

/// The ASCONF-ACKs that were sent last: a retransmitted ASCONF gets the same answer (section 5.2, rules
/// E1 to E4).
#[derive(Debug, Default)]
pub(super) struct AnswerCache {
    answers: VecDeque<(SequenceNumber, EncodedChunk)>,
}

impl AnswerCache {
    fn get(&self, number: SequenceNumber) -> Option<&EncodedChunk> {
        let mut answers = self.answers.iter();
        let (_, answer) = answers.find(|(cached, _)| *cached == number)?;
        Some(answer)
    }

    fn push(&mut self, number: SequenceNumber, answer: EncodedChunk) {
        if self.answers.len() >= MAX_CACHED {
            self.answers.pop_front();
        }
        self.answers.push_back((number, answer));
    }
}

/// The responses to the requests of one ASCONF.
struct Responses {
    parameters: ParameterBuffer,
    /// Bytes for more of them.
    room: usize,
    /// A request has failed: from now on no response means failure (section 5.1, rule A7).
    has_failed: bool,
    /// Rule F11: an address was not added or deleted, so the following ones are not, either.
    refuses_changes: bool,
}

/// Why a request fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Refusal {
    LastAddress,
    ResourceShortage,
    SourceAddress,
    NoAuthorization,
    Unresolvable,
    Unrecognized,
}

impl Refusal {
    /// The cause that holds `request`.
    fn cause<'a>(self, request: &'a [u8]) -> Cause<'a> {
        let parameters = Parameters::new(request);
        match self {
            Refusal::LastAddress => Cause::RequestToDeleteLastIpAddress(parameters),
            Refusal::ResourceShortage => Cause::OperationRefusedDueToResourceShortage(parameters),
            Refusal::SourceAddress => Cause::RequestToDeleteSourceIpAddress(parameters),
            Refusal::NoAuthorization => Cause::RequestRefusedNoAuthorization(parameters),
            Refusal::Unresolvable => Cause::UnresolvableAddress(request),
            Refusal::Unrecognized => Cause::UnrecognizedParameters(parameters),
        }
    }
}

impl Responses {
    fn new(room: usize) -> Responses {
        Responses {
            parameters: ParameterBuffer::new(),
            room,
            has_failed: false,
            refuses_changes: false,
        }
    }

    /// Whether there is room to say what came of another request. Without it, those that are left are not
    /// processed: they count as failed (rule A7). An error has room as long as none was said.
    fn has_room(&self) -> bool {
        self.room >= BARE_ERROR
    }

    fn succeeded(&mut self, correlation_id: u32) {
        if self.has_failed {
            self.push(&Parameter::SuccessIndication { correlation_id }, 8);
        }
    }

    /// The whole request goes back where there is room for it.
    fn failed(&mut self, correlation_id: u32, refusal: Refusal, request: &[u8]) {
        self.has_failed = true;
        let padded = request.len().next_multiple_of(4);
        let (copied, size) = if BARE_ERROR + padded <= self.room {
            (request, BARE_ERROR + padded)
        } else {
            (&[][..], BARE_ERROR)
        };
        let mut causes = CauseBuffer::new();
        if causes.push(&refusal.cause(copied)).is_ok() {
            let error = ErrorCauseIndication {
                correlation_id,
                causes: causes.causes(),
            };
            self.push(&Parameter::ErrorCauseIndication(error), size);
        }
    }

    fn push(&mut self, response: &Parameter<'_>, size: usize) {
        self.room = self.room.saturating_sub(size);
        // It is as short as a packet.
        let _ = self.parameters.push(response);
    }
}

impl Association {
    /// Whether a packet from an address that is none of the peer's holds an ASCONF of this association: its
    /// verification tag is right, and its lookup address is one of the peer's, or is left open (sections
    /// 4.1.1 and 5.2, rules D2 and D2-ext).
    pub(in crate::association) fn has_foreign_asconf(&self, parsed: &Packet<'_>) -> bool {
        let is_ours = |asconf: Asconf<'_>| {
            asconf
                .address()
                .is_some_and(|address| address.is_unspecified() || self.path_to(address).is_some())
        };
        self.address_reconfiguration.is_some()
            && parsed
                .chunks()
                .raw()
                .flatten()
                .filter(|raw| raw.chunk_type() == ChunkType::ASCONF)
                .any(|raw| matches!(Chunk::read(raw), Ok(Chunk::Asconf(asconf)) if is_ours(asconf)))
    }

    /// Takes in an ASCONF that came from `from`.
    pub(in crate::association) fn handle_asconf(
        &mut self,
        from: PathAddress,
        asconf: Asconf<'_>,
        context: &mut Context<'_>,
    ) {
        let may_send_requests = self.may_send_requests();
        let Some(reconfiguration) = self
            .address_reconfiguration
            .as_mut()
            .filter(|_| may_send_requests && asconf.address().is_some())
        else {
            context.statistics.drops.chunks += 1;
            return;
        };
        let number = asconf.sequence_number;
        let expected = reconfiguration.peer_number.next();
        if number < expected {
            // Rule E2.
            match reconfiguration.cache.get(number).cloned() {
                Some(answer) => self.answer_asconf(from, answer, context),
                None => context.statistics.drops.chunks += 1,
            }
            return;
        }
        if number != expected {
            // Rule E5.
            context.statistics.drops.chunks += 1;
            return;
        }
        reconfiguration.peer_number = number;
        let responses = self.process_asconf(from, asconf, context);
        let answer = EncodedChunk::new(&Chunk::AsconfAck(AsconfAck {
            sequence_number: number,
            responses: responses.parameters(),
        }));
        let (Ok(answer), Some(reconfiguration)) = (answer, &mut self.address_reconfiguration)
        else {
            return;
        };
        reconfiguration.cache.push(number, answer.clone());
        self.answer_asconf(from, answer, context);
    }

    /// Rules V1 to V3.
    fn process_asconf(
        &mut self,
        from: PathAddress,
        asconf: Asconf<'_>,
        context: &mut Context<'_>,
    ) -> ParameterBuffer {
        // What every path carries, less an AUTH: the answer may go where nothing is known yet.
        const AUTH_SIZE: usize = 64;
        let least = self.paths.iter().map(Path::pmdcs).min().unwrap_or(0);
        let mut responses = Responses::new(least.saturating_sub(AsconfAck::OVERHEAD + AUTH_SIZE));
        for tlv in asconf.requests().raw() {
            let Ok(request) = tlv else {
                context.statistics.drops.chunks += 1;
                break;
            };
            if !responses.has_room()
                || !self.process_request(from, request, &mut responses, context)
            {
                break;
            }
        }
        self.send_due_heartbeats(context);
        responses.parameters
    }

    /// Processes one parameter of an ASCONF; `false` when those after it are to be left alone.
    fn process_request(
        &mut self,
        from: PathAddress,
        request: Tlv<'_>,
        responses: &mut Responses,
        context: &mut Context<'_>,
    ) -> bool {
        let correlation_id = correlation_id(request);
        let is_change = matches!(
            ParameterType(request.type_field()),
            ParameterType::ADD_IP_ADDRESS | ParameterType::DELETE_IP_ADDRESS
        );
        if is_change && responses.refuses_changes {
            return true;
        }
        let outcome = match Parameter::read(request) {
            Ok(Parameter::AddIpAddress(request)) => {
                self.add_peer_address(request.address, from, context)
            }
            Ok(Parameter::DeleteIpAddress(request)) => {
                self.delete_peer_address(request.address, from, context)
            }
            Ok(Parameter::SetPrimaryAddress(request)) => {
                self.set_primary_for_peer(request.address, from, context)
            }
            // Section 4.2.6: it says nothing in an ASCONF.
            Ok(Parameter::AdaptationLayerIndication { .. }) => return true,
            Ok(_) => {
                // Rule V2.
                let action = ParameterType(request.type_field()).unrecognized_action();
                if action.report {
                    responses.failed(correlation_id, Refusal::Unrecognized, request.bytes());
                }
                return !action.stop;
            }
            Err(_) => Err(Refusal::Unresolvable),
        };
        match outcome {
            Ok(()) => responses.succeeded(correlation_id),
            Err(refusal) => {
                responses.refuses_changes |= is_change;
                responses.failed(correlation_id, refusal, request.bytes());
            }
        }
        true
    }

    /// Section 4.2.1; rules F9 and F14.
    fn add_peer_address(
        &mut self,
        address: IpAddr,
        from: PathAddress,
        context: &mut Context<'_>,
    ) -> Result<(), Refusal> {
        let address = or_source(address, from);
        if self.path_to(address).is_some() {
            return Ok(());
        }
        let max = context.config.max_peer_addresses;
        let ours = self.local_addresses.usable();
        if !AddressRules::new(from.remote, ours, context.host_addresses, max).allow(address) {
            return Err(Refusal::NoAuthorization);
        }
        self.add_paths(&[address], from, context);
        let path_id = self.path_to(address).ok_or(Refusal::ResourceShortage)?;
        if self.sends_heartbeats()
            && let Some(path) = self.paths.get_mut(path_id)
        {
            path.start_heartbeats(context.now, context.rng, context.config);
        }
        self.report_path_change(path_id, PathChange::Added, context);
        Ok(())
    }

    /// Section 4.2.2; rules F7, F8, F12 and F13. An address that is none of the peer's needs no
    /// deletion.
    fn delete_peer_address(
        &mut self,
        address: IpAddr,
        from: PathAddress,
        context: &mut Context<'_>,
    ) -> Result<(), Refusal> {
        let source = self.path_to(from.remote);
        if address.is_unspecified() {
            let source = source.ok_or(Refusal::LastAddress)?;
            let others = self.paths.iter().map(Path::id);
            let others: Vec<PathId> = others.filter(|path| *path != source).collect();
            for path in others {
                self.remove_path(path, context);
            }
            return Ok(());
        }
        let Some(path) = self.path_to(address) else {
            return Ok(());
        };
        if self.paths.len() == 1 {
            return Err(Refusal::LastAddress);
        }
        if source == Some(path) {
            return Err(Refusal::SourceAddress);
        }
        self.remove_path(path, context);
        Ok(())
    }

    /// Sections 4.2.4 and 5.4. An address that is not confirmed gets data as soon as it is.
    fn set_primary_for_peer(
        &mut self,
        address: IpAddr,
        from: PathAddress,
        context: &mut Context<'_>,
    ) -> Result<(), Refusal> {
        let path = self
            .path_to(or_source(address, from))
            .ok_or(Refusal::Unresolvable)?;
        self.make_primary(path, context);
        self.choose_current();
        self.begin_burst();
        Ok(())
    }

    /// Section 5.2, rules V4, E6 and E7: the answer goes to where the ASCONF came from, even if that is
    /// none of the peer's addresses. One for which there is no room any more waits until the ASCONF comes
    /// again.
    fn answer_asconf(
        &mut self,
        from: PathAddress,
        answer: EncodedChunk,
        context: &mut Context<'_>,
    ) {
        match self.path_to(from.remote) {
            Some(path) => {
                let room = self.paths.get(path).map_or(0, Path::pmdcs);
                if !self.pending.answer(path, answer, room) {
                    context.statistics.drops.answers += 1;
                }
            }
            None => {
                let address = ReplyAddress {
                    to: from,
                    local_port: context.local_port,
                    peer_port: self.peer_port,
                    verification_tag: self.peer_tag,
                    protection: self.protection(),
                };
                context.replies.push(address, |writer| answer.write(writer));
            }
        }
    }
}

/// The address of a request: the unspecified one stands for the source of the packet.
fn or_source(address: IpAddr, from: PathAddress) -> IpAddr {
    if address.is_unspecified() {
        from.remote
    } else {
        address
    }
}

/// The ASCONF-Request Correlation ID of a parameter of any type; 0 when it is too short to have one.
fn correlation_id(request: Tlv<'_>) -> u32 {
    request
        .value()
        .first_chunk()
        .map_or(0, |id| u32::from_be_bytes(*id))
}
