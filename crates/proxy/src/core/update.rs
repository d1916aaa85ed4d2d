//! What a REGISTER changes: the rules of RFC 3261 section 10.3 steps 6 and 7 about existing bindings,
//! with those of RFC 5626 section 6 and RFC 5627 section 5.1.

use std::time::Instant;

use sip::Uri;

use super::binding::{Binding, Bindings};

/// What a REGISTER asks a location store to change. The store reads the bindings, calls
/// [`apply`](Update::apply) and writes the result, as one step that nothing else comes between.
#[derive(Clone, Debug, PartialEq)]
pub struct Update {
    pub(crate) change: Change,
    pub(crate) received: Instant,
    pub(crate) maximum_bindings: usize,
    /// What an instance gets whose temporary GRUUs are invalidated, or that had none.
    pub(crate) new_gruus: u64,
}

/// The two kinds of change.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Change {
    /// `Contact: *`, of a REGISTER with this Call-ID and this CSeq number.
    RemoveAll { call_id: Box<str>, cseq: u32 },
    /// These contacts, in this order, each as it is to be bound; one that [ends](Update::removes) when it begins goes.
    /// Their numbers for temporary GRUUs are given to them as the update is made.
    Contacts(Bindings),
}

/// What tells whether an update refreshes a binding and does nothing else: as a store has it.
#[cfg(feature = "driver")]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Standing<'a> {
    pub(crate) contact: &'a [u8],
    pub(crate) call_id: &'a [u8],
    pub(crate) cseq: u32,
    pub(crate) has_reg_id: bool,
    pub(crate) expires: Instant,
}

/// Why a store does not make a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UpdateError {
    /// A REGISTER that was sent later has been served already (RFC 3261 section 10.3 step 7).
    #[error("out of order")]
    OutOfOrder,
    /// The address of record would have more bindings than allowed.
    #[error("too many contacts for one address of record")]
    TooManyBindings,
}

impl Update {
    /// The bindings after the change. Those that have expired are not among them.
    ///
    /// # Errors
    /// The change is made whole or not at all.
    pub fn apply(&self, current: &[Binding]) -> Result<Vec<Binding>, UpdateError> {
        self.apply_to(current.to_vec())
    }

    /// [`apply`](Update::apply), for who has no use for the bindings as they were.
    ///
    /// # Errors
    /// Those of [`apply`](Update::apply).
    pub fn apply_to(&self, current: Vec<Binding>) -> Result<Vec<Binding>, UpdateError> {
        let count = current.len();
        let mut bindings = current;
        bindings.retain(|binding| binding.expires() > self.received);
        match &self.change {
            Change::RemoveAll { call_id, cseq } => {
                if bindings
                    .iter()
                    .any(|binding| is_late(call_id, *cseq, binding))
                {
                    return Err(UpdateError::OutOfOrder);
                }
                bindings.clear();
            }
            Change::Contacts(contacts) => {
                if contacts.iter().any(|contact| {
                    let (call_id, cseq) = (contact.call_id(), contact.cseq());
                    bindings
                        .iter()
                        .any(|binding| is_for(contact, binding) && is_late(call_id, cseq, binding))
                }) {
                    return Err(UpdateError::OutOfOrder);
                }
                for contact in contacts.iter() {
                    self.apply_contact(contact, &mut bindings);
                }
                // Only a change that adds is refused: what is there may always be refreshed.
                if bindings.len() > self.maximum_bindings && bindings.len() > count {
                    return Err(UpdateError::TooManyBindings);
                }
            }
        }
        Ok(bindings)
    }

    /// Whether a contact of the change is one whose binding goes: it asked for an interval of zero.
    pub(crate) fn removes(&self, contact: &Binding) -> bool {
        contact.expires() <= self.received
    }

    /// The bindings after a change that refreshes the only one that there is, and does nothing else: what
    /// [`apply`](Update::apply) makes of it. `None` where it takes more to find out.
    #[cfg(feature = "driver")]
    pub(crate) fn refresh(&self, only: &Standing<'_>) -> Option<Bindings> {
        let Change::Contacts(contacts) = &self.change else {
            return None;
        };
        let [contact] = &**contacts else {
            return None;
        };
        let is_late = contact.cseq() <= only.cseq && contact.call_id_octets() == only.call_id;
        let is_refreshed = contact.reg_id().is_none()
            && !only.has_reg_id
            && !self.removes(contact)
            && only.expires > self.received
            && contact.contact_octets() == only.contact
            && !is_late
            && contact.instance().is_none();
        is_refreshed.then(|| contacts.clone())
    }

    fn apply_contact(&self, contact: &Binding, bindings: &mut Vec<Binding>) {
        let place = bindings.iter().position(|binding| is_for(contact, binding));
        if self.removes(contact) {
            if let Some(place) = place {
                bindings.remove(place);
            }
            return;
        }
        let mut binding = contact.clone();
        if let Some(instance) = contact.instance() {
            let gruus = self.gruus(contact, instance, bindings);
            binding.set_gruus(gruus);
            for other in bindings.iter_mut().filter(|other| other.is_of(instance)) {
                other.set_gruus(gruus);
            }
        }
        match place.and_then(|place| bindings.get_mut(place)) {
            Some(existing) => *existing = binding,
            None => bindings.push(binding),
        }
    }

    /// The number in the temporary GRUUs of a contact's instance. It stays for as long as the instance
    /// has a binding and registers with the same Call-ID; another Call-ID than that of the last REGISTER
    /// for the instance, or for this flow of it, invalidates all GRUUs that there are (RFC 5627 section
    /// 5.1).
    fn gruus(&self, contact: &Binding, instance: &str, bindings: &[Binding]) -> u64 {
        let of_instance = || bindings.iter().filter(|binding| binding.is_of(instance));
        let last = of_instance()
            .filter(|binding| contact.reg_id().is_none() || binding.reg_id() == contact.reg_id())
            .max_by_key(|binding| binding.refreshed());
        match (last, of_instance().next()) {
            (Some(last), _) if last.call_id() != contact.call_id() => self.new_gruus,
            (_, Some(any)) => any.gruus(),
            (_, None) => self.new_gruus,
        }
    }
}

/// Whether a binding was made by the same user agent with a later request than one with this Call-ID and CSeq number.
fn is_late(call_id: &str, cseq: u32, binding: &Binding) -> bool {
    binding.call_id() == call_id && cseq <= binding.cseq()
}

/// Whether a binding is the one of a contact: that of the same flow of the same instance (RFC 5626 section 6), else by
/// the comparison of URIs.
fn is_for(contact: &Binding, binding: &Binding) -> bool {
    if contact.reg_id().is_some() || binding.reg_id().is_some() {
        let is_same = |mine: &str| binding.is_of(mine);
        return contact.reg_id() == binding.reg_id() && contact.instance().is_some_and(is_same);
    }
    if contact.contact_octets() == binding.contact_octets() {
        return true;
    }
    match (Uri::parse(contact.contact()), Uri::parse(binding.contact())) {
        (Ok(mine), Ok(its)) => mine.is_equivalent(&its),
        _ => false,
    }
}
