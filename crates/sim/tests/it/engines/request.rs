//! What a user asks of an engine that takes an extension of SCTP.

use sctp::{
    AddressChange, AssociationId, Endpoint, LocalAddressState, StreamReset, StreamScheduler,
};
use std::net::IpAddr;
use std::time::Instant;

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Request {
    ResetStreams(StreamReset),
    ResetAssociation,
    /// So many more outgoing and incoming ones.
    AddStreams(u16, u16),
    Schedule(StreamScheduler),
    /// The weight or priority of a stream.
    SetStreamValue(u16, u16),
    ChangeAddresses(Vec<AddressChange>),
    /// Adds an address, and deletes all others.
    MoveTo(IpAddr),
    /// Sets a shared key to the secret that both sides know; without an association, of those to come.
    SetKey(u16),
    SetActiveKey(u16),
    DeactivateKey(u16),
    DeleteKey(u16),
}

impl Request {
    /// Asks an engine for it; what it refuses, it says.
    pub(crate) fn make(
        &self,
        endpoint: &mut Endpoint,
        now: Instant,
        association: Option<AssociationId>,
    ) -> Result<(), String> {
        let secret = |key: u16| [&b"secret"[..], &key.to_be_bytes()].concat();
        let id = association.ok_or("no association");
        let changes_addresses = matches!(self, Request::ChangeAddresses(_) | Request::MoveTo(_));
        let ours = association.and_then(|id| endpoint.local_addresses(id));
        let is_settled =
            |(_, state): &(IpAddr, LocalAddressState)| *state == LocalAddressState::Usable;
        if changes_addresses && !ours.iter().flatten().all(is_settled) {
            // Of this user: what is asked for next would count before the peer has answered.
            return Err("other addresses are being changed".into());
        }
        match self {
            Request::ResetStreams(reset) => said(endpoint.reset_streams(now, id?, reset.clone())),
            Request::ResetAssociation => said(endpoint.reset_association(now, id?)),
            Request::AddStreams(outgoing, incoming) => {
                said(endpoint.add_streams(now, id?, *outgoing, *incoming))
            }
            Request::Schedule(scheduler) => {
                said(endpoint.set_stream_scheduler(now, id?, *scheduler))
            }
            Request::SetStreamValue(stream, value) => {
                said(endpoint.set_stream_value(now, id?, *stream, *value))
            }
            Request::ChangeAddresses(changes) => said(endpoint.change_addresses(now, id?, changes)),
            Request::MoveTo(address) => {
                let id = id?;
                let ours = endpoint.local_addresses(id).unwrap_or_default();
                let others = ours
                    .into_iter()
                    .filter(|(ours, state)| ours != address && *state == LocalAddressState::Usable);
                let mut changes = vec![AddressChange::Add(*address)];
                changes.extend(others.map(|(ours, _)| AddressChange::Delete(ours)));
                said(endpoint.change_addresses(now, id, &changes))
            }
            Request::SetKey(key) => {
                said(endpoint.set_shared_key(now, association, *key, &secret(*key)))
            }
            Request::SetActiveKey(key) => said(endpoint.set_active_key(now, association, *key)),
            Request::DeactivateKey(key) => said(endpoint.deactivate_key(now, association, *key)),
            Request::DeleteKey(key) => said(endpoint.delete_key(now, association, *key)),
        }
    }
}

fn said<E: ToString>(result: Result<(), E>) -> Result<(), String> {
    result.map_err(|error| error.to_string())
}
