//! Our own changes (RFC 5061 sections 5.1 and 5.3): ASCONFs that we send, and the ASCONF-ACKs that
//! answer them.

use std::collections::VecDeque;
use std::net::IpAddr;

use bytes::BytesMut;

use crate::association::addresses::is_unicast;
use crate::association::control_queue::RequestKind;
use crate::association::encoded_chunk::EncodedChunk;
use crate::association::local_addresses::LocalAddresses;
use crate::association::path::Path;
use crate::association::{Association, Context, Destination};
use crate::packet::{
    AddressRequest, Asconf, AsconfAck, Cause, CauseCode, Chunk, ChunkType, CommonHeader,
    ErrorCauseIndication, PacketWriter, Parameter, ParameterBuffer, Parameters, SequenceNumber,
};
use crate::{
    AddressChange, AddressChangeError, AddressChangeRefusal, AssociationState, Event,
    LocalAddressState,
};

/// What the peer was asked for and has not answered.
#[derive(Debug)]
pub(super) struct AskedChanges {
    /// Of the next ASCONF.
    next_number: SequenceNumber,
    /// Of the next request in one.
    next_correlation_id: u32,
    /// ASCONFs that are outstanding or wait, in their order.
    asconfs: VecDeque<AskedAsconf>,
    /// Kinds of requests that the peer does not understand (rules A9, F3a and F3b).
    not_understood: NotUnderstood,
}

/// The contents of an ASCONF.
#[derive(Debug)]
struct AskedAsconf {
    number: SequenceNumber,
    /// The correlation ID of the first change; those of the others follow.
    first_correlation_id: u32,
    changes: Vec<AddressChange>,
    /// It goes next from an address that it adds, although another one may be the source of packets.
    from_added: bool,
}

#[derive(Debug, Clone, Copy, Default)]
struct NotUnderstood {
    add_and_delete: bool,
    set_primary: bool,
}

type Outcome = Result<(), AddressChangeRefusal>;

impl AskedChanges {
    /// Nothing was asked for yet; the first ASCONF has that number.
    pub(super) fn new(first: SequenceNumber) -> AskedChanges {
        AskedChanges {
            next_number: first,
            next_correlation_id: 1,
            asconfs: VecDeque::new(),
            not_understood: NotUnderstood::default(),
        }
    }

    fn understands(&self, change: AddressChange) -> bool {
        match change {
            AddressChange::Add(_) | AddressChange::Delete(_) => !self.not_understood.add_and_delete,
            AddressChange::SetPeerPrimary(_) => !self.not_understood.set_primary,
        }
    }

    /// The next ASCONF (rules A1 and A2), and its chunk.
    fn asconf(
        &self,
        lookup: IpAddr,
        changes: &[AddressChange],
    ) -> Result<(AskedAsconf, EncodedChunk), AddressChangeError> {
        let asked = AskedAsconf {
            number: self.next_number,
            first_correlation_id: self.next_correlation_id,
            changes: changes.to_vec(),
            from_added: false,
        };
        let mut parameters = ParameterBuffer::new();
        let mut fits = parameters.push(&Parameter::from(lookup));
        for (change, correlation_id) in changes.iter().zip(self.next_correlation_id..) {
            let request = |address| AddressRequest {
                correlation_id,
                address,
            };
            fits = fits.and(parameters.push(&match *change {
                AddressChange::Add(address) => Parameter::AddIpAddress(request(address)),
                AddressChange::Delete(address) => Parameter::DeleteIpAddress(request(address)),
                AddressChange::SetPeerPrimary(address) => {
                    Parameter::SetPrimaryAddress(request(address))
                }
            }));
        }
        let chunk = EncodedChunk::new(&Chunk::Asconf(Asconf {
            sequence_number: self.next_number,
            parameters: parameters.parameters(),
        }));
        match (fits, chunk) {
            (Ok(()), Ok(chunk)) => Ok((asked, chunk)),
            _ => Err(AddressChangeError::TooManyChanges),
        }
    }

    /// Our addresses as they are once all ASCONFs that wait have been sent: those that are being deleted,
    /// and the others.
    fn addresses_before_next(&self, local: &LocalAddresses) -> (Vec<IpAddr>, Vec<IpAddr>) {
        let (mut deleting, mut known) = (Vec::new(), Vec::new());
        for (address, state) in local.states() {
            match state {
                LocalAddressState::Deleting => deleting.push(address),
                _ => known.push(address),
            }
        }
        let waiting = self.asconfs.iter().skip(1);
        for change in waiting.flat_map(|asconf| &asconf.changes) {
            match *change {
                AddressChange::Add(address) => known.push(address),
                AddressChange::Delete(address) => {
                    known.retain(|other| *other != address);
                    deleting.push(address);
                }
                AddressChange::SetPeerPrimary(_) => {}
            }
        }
        (deleting, known)
    }

    /// That ASCONF is queued.
    fn push(&mut self, asked: AskedAsconf) {
        self.next_number = self.next_number.next();
        self.next_correlation_id = self
            .next_correlation_id
            .wrapping_add(asked.changes.len() as u32);
        self.asconfs.push_back(asked);
    }
}

impl AskedAsconf {
    /// What the responses of an ASCONF-ACK say of each change (rules A6 to A8): before the first failure
    /// no response means success, and after it failure.
    fn outcomes(&self, responses: Parameters<'_>) -> Vec<Outcome> {
        let mut answers = vec![None; self.changes.len()];
        let mut answer = |correlation_id: u32, outcome| {
            let index = correlation_id.wrapping_sub(self.first_correlation_id) as usize;
            if let Some(answer) = answers.get_mut(index) {
                *answer = Some(outcome);
            }
        };
        for response in responses.iter().flatten() {
            match response {
                Parameter::SuccessIndication { correlation_id } => answer(correlation_id, Ok(())),
                Parameter::ErrorCauseIndication(error) => {
                    answer(error.correlation_id, Err(refusal(error)));
                }
                _ => {}
            }
        }
        let mut has_failed = false;
        answers
            .into_iter()
            .map(|answer| {
                let outcome = answer.unwrap_or(if has_failed {
                    Err(AddressChangeRefusal::NotReached)
                } else {
                    Ok(())
                });
                has_failed |= outcome.is_err();
                outcome
            })
            .collect()
    }
}

/// Why the peer refuses; a response without a readable cause has code 0, which is none.
fn refusal(error: ErrorCauseIndication<'_>) -> AddressChangeRefusal {
    let cause = error.causes.iter().raw().flatten().next();
    AddressChangeRefusal::Refused(CauseCode(cause.map_or(0, |cause| cause.type_field())))
}

impl Association {
    /// Asks the peer for changes of our addresses, all in one chunk.
    pub(crate) fn change_addresses(
        &mut self,
        changes: &[AddressChange],
        context: &mut Context<'_>,
    ) -> Result<(), AddressChangeError> {
        if self.state == AssociationState::Closed {
            return Err(AddressChangeError::UnknownAssociation);
        }
        if !self.may_send_requests() {
            return Err(AddressChangeError::NotEstablished);
        }
        let changes: Vec<AddressChange> = changes.iter().copied().map(canonical).collect();
        let told: Vec<IpAddr> = self
            .paths
            .iter()
            .filter_map(|path| path.address().local)
            .collect();
        for address in told {
            self.local_addresses.learn(address);
        }
        let Some(reconfiguration) = &mut self.address_reconfiguration else {
            return Err(AddressChangeError::NotSupported);
        };
        let asked = &mut reconfiguration.asked;
        if !changes.iter().all(|change| asked.understands(*change)) {
            return Err(AddressChangeError::NotSupported);
        }
        let (deleting, known) = asked.addresses_before_next(&self.local_addresses);
        // The ASCONF that deletes it is sent again until it is answered, and must not come from there: the
        // peer may have done it.
        if changes.iter().any(
            |change| matches!(change, AddressChange::Add(address) if deleting.contains(address)),
        ) {
            return Err(AddressChangeError::AlreadyLocal);
        }
        // Section 5.3.2: an address by which the peer finds the association, before this chunk is
        // processed.
        let lookup = known.first().copied();
        let lookup = lookup.unwrap_or(std::net::Ipv4Addr::UNSPECIFIED.into());
        check(&changes, known, context.config.max_peer_addresses)?;
        let (asconf, chunk) = asked.asconf(lookup, &changes)?;
        // Section 5.1.1, rule C5.
        let room = self.paths.get(self.routing.current).map_or(0, Path::pmdcs);
        if chunk.size() > room
            || self
                .control
                .push(RequestKind::AddressConfiguration, chunk)
                .is_err()
        {
            return Err(AddressChangeError::TooManyChanges);
        }
        asked.push(asconf);
        if asked.asconfs.len() == 1 {
            self.begin_changes(context);
        }
        Ok(())
    }

    /// The changes of the ASCONF that leaves next take effect on where packets come from. Those behind it
    /// do not yet: the peer does not know of them.
    fn begin_changes(&mut self, context: &mut Context<'_>) {
        let asked = self.address_reconfiguration.as_ref();
        let Some(asconf) = asked.and_then(|own| own.asked.asconfs.front()) else {
            return;
        };
        let changes = asconf.changes.clone();
        self.pin_sources();
        for change in changes {
            match change {
                AddressChange::Add(address) => self.local_addresses.begin_to_add(address),
                AddressChange::Delete(address) => self.local_addresses.begin_to_delete(address),
                AddressChange::SetPeerPrimary(_) => {}
            }
        }
        self.update_sources(context);
    }

    /// An ASCONF was not answered. The addresses that packets come from may be gone: every other time it goes from
    /// one that it adds (section 5.3, rule F1), in a packet of its own.
    pub(in crate::association) fn alternate_asconf_source(&mut self) {
        let asked = self.address_reconfiguration.as_mut();
        if let Some(asconf) = asked.and_then(|own| own.asked.asconfs.front_mut()) {
            asconf.from_added = !asconf.from_added;
        }
    }

    /// The packet with the ASCONF that is due, if that is to come from an address that it adds.
    pub(in crate::association) fn asconf_from_added_address(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut BytesMut,
    ) -> Option<Destination> {
        const KIND: RequestKind = RequestKind::AddressConfiguration;
        let asconf = self.address_reconfiguration.as_ref()?.asked.asconfs.front();
        asconf.filter(|asconf| asconf.from_added)?;
        let path_id = self.path_of_due(KIND)?;
        let path = self.paths.get(path_id)?;
        let local = self.local_addresses.added_for(path.address().remote)?;
        let auth_length = self.auth_length_for(&[ChunkType::ASCONF]);
        let size = path
            .mtu()
            .max(CommonHeader::LENGTH + auth_length + self.largest_request(path_id).unwrap_or(0));
        let mut writer = PacketWriter::new(
            buffer,
            context.local_port,
            self.peer_port,
            self.peer_tag,
            size,
        )
        .protected_by(self.protection());
        self.write_request(KIND, path_id, &mut writer, context);
        let mut destination = self.transmit(path_id, writer.seal(), context)?;
        destination.path.local = Some(local);
        Some(destination)
    }

    /// Takes in an ASCONF-ACK.
    pub(in crate::association) fn handle_asconf_ack(
        &mut self,
        ack: AsconfAck<'_>,
        context: &mut Context<'_>,
    ) {
        let may_send_requests = self.may_send_requests();
        let Some(reconfiguration) = self
            .address_reconfiguration
            .as_mut()
            .filter(|_| may_send_requests)
        else {
            context.statistics.drops.chunks += 1;
            return;
        };
        let asked = &mut reconfiguration.asked;
        match asked.asconfs.front() {
            Some(asconf) if asconf.number == ack.sequence_number => {
                let outcomes = asconf.outcomes(ack.responses);
                let answered = asked.asconfs.pop_front();
                self.request_answered(RequestKind::AddressConfiguration, context);
                if let Some(asconf) = answered {
                    self.conclude_changes(&asconf.changes, outcomes, context);
                }
                self.begin_changes(context);
            }
            // Rule F0.
            None if ack.sequence_number >= asked.next_number => self.end_with_abort(
                &Cause::IllegalAsconfAck,
                "acknowledged an ASCONF that was never sent",
                context,
            ),
            _ => context.statistics.drops.chunks += 1,
        }
    }

    /// The peer has reported a chunk that it does not recognize. If that is an ASCONF, it gets no more of
    /// them (rule A9).
    pub(in crate::association) fn chunk_not_recognized(
        &mut self,
        chunk: &[u8],
        context: &mut Context<'_>,
    ) {
        if chunk.first() != Some(&ChunkType::ASCONF.0) {
            return;
        }
        let Some(reconfiguration) = &mut self.address_reconfiguration else {
            return;
        };
        let asked = &mut reconfiguration.asked;
        asked.not_understood = NotUnderstood {
            add_and_delete: true,
            set_primary: true,
        };
        let unanswered = std::mem::take(&mut asked.asconfs);
        self.control.clear(RequestKind::AddressConfiguration);
        for asconf in unanswered {
            let refused = Err(AddressChangeRefusal::NotSupported);
            let outcomes = vec![refused; asconf.changes.len()];
            self.conclude_changes(&asconf.changes, outcomes, context);
        }
    }

    fn conclude_changes(
        &mut self,
        changes: &[AddressChange],
        outcomes: Vec<Outcome>,
        context: &mut Context<'_>,
    ) {
        // Section 5.3: a deleted address is held no longer than two RTOs.
        let rto = self.paths.get(self.routing.current).map(Path::rto);
        let heard_until = context.now + rto.unwrap_or_default() * 2;
        for (change, outcome) in changes.iter().zip(outcomes) {
            match *change {
                AddressChange::Add(address) => {
                    self.local_addresses.end_adding(address, outcome.is_ok());
                }
                AddressChange::Delete(address) => {
                    self.local_addresses
                        .end_deleting(address, outcome.is_ok(), heard_until);
                }
                AddressChange::SetPeerPrimary(_) => {}
            }
            self.note_not_understood(*change, outcome);
            context.events.push_back(Event::AddressChangeAnswered {
                id: self.id,
                change: *change,
                outcome,
            });
        }
        self.update_sources(context);
    }

    /// Rules F3a and F3b: what the peer does not understand, it is not asked for again.
    fn note_not_understood(&mut self, change: AddressChange, outcome: Outcome) {
        let unrecognized = AddressChangeRefusal::Refused(CauseCode::UNRECOGNIZED_PARAMETERS);
        if outcome == Err(unrecognized)
            && let Some(reconfiguration) = &mut self.address_reconfiguration
        {
            let not_understood = &mut reconfiguration.asked.not_understood;
            match change {
                AddressChange::Add(_) | AddressChange::Delete(_) => {
                    not_understood.add_and_delete = true;
                }
                AddressChange::SetPeerPrimary(_) => not_understood.set_primary = true,
            }
        }
    }
}

/// An IPv4 address is told as such (RFC 9260 section 3.3.2.1.2).
fn canonical(change: AddressChange) -> AddressChange {
    match change {
        AddressChange::Add(address) => AddressChange::Add(address.to_canonical()),
        AddressChange::Delete(address) => AddressChange::Delete(address.to_canonical()),
        AddressChange::SetPeerPrimary(address) => {
            AddressChange::SetPeerPrimary(address.to_canonical())
        }
    }
}

/// Whether the changes can be asked for, one after another, when `ours` are our addresses before.
fn check(
    changes: &[AddressChange],
    mut ours: Vec<IpAddr>,
    max: usize,
) -> Result<(), AddressChangeError> {
    for (index, change) in changes.iter().enumerate() {
        let before = changes.get(..index).unwrap_or_default();
        match *change {
            AddressChange::Add(address) => {
                if !is_unicast(address) {
                    return Err(AddressChangeError::InvalidAddress);
                }
                // One that is deleted with the same chunk has not been answered, either.
                if ours.contains(&address) || before.contains(&AddressChange::Delete(address)) {
                    return Err(AddressChangeError::AlreadyLocal);
                }
                if ours.len() >= max {
                    return Err(AddressChangeError::TooManyAddresses);
                }
                ours.push(address);
            }
            AddressChange::Delete(address) => {
                // One that is added with the same chunk is none yet.
                if !ours.contains(&address) || before.contains(&AddressChange::Add(address)) {
                    return Err(AddressChangeError::NotLocal);
                }
                if ours.len() == 1 {
                    return Err(AddressChangeError::LastAddress);
                }
                ours.retain(|other| *other != address);
            }
            AddressChange::SetPeerPrimary(address) => {
                // Section 5.4.
                if !ours.contains(&address) {
                    return Err(AddressChangeError::NotLocal);
                }
            }
        }
    }
    Ok(())
}
