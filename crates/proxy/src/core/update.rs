//! What a REGISTER changes: the rules of RFC 3261 section 10.3 steps 6 and 7 about existing bindings,
//! with those of RFC 5626 section 6 and RFC 5627 section 5.1.

use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use sip::{Flow, Uri};

use super::binding::{Binding, BindingParts};

/// What a REGISTER asks a location store to change. The store reads the bindings, calls
/// [`apply`](Update::apply) and writes the result, as one step that nothing else comes between.
#[derive(Clone, Debug, PartialEq)]
pub struct Update {
    pub(crate) change: Change,
    pub(crate) call_id: Box<str>,
    pub(crate) cseq: u32,
    pub(crate) flow: Option<Flow>,
    pub(crate) path: Box<str>,
    pub(crate) user_agent: Box<str>,
    pub(crate) received: Instant,
    pub(crate) maximum_bindings: usize,
    /// What an instance gets whose temporary GRUUs are invalidated, or that had none.
    pub(crate) new_gruus: u64,
}

/// The two kinds of change.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Change {
    /// `Contact: *`.
    RemoveAll,
    /// These contacts, in this order.
    Contacts(Vec<ContactChange>),
}

/// What happens to one contact address.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ContactChange {
    pub(crate) uri: Box<str>,
    pub(crate) parameters: Box<str>,
    pub(crate) q: u16,
    pub(crate) instance: Option<Box<str>>,
    /// Only with an instance, and where the rules of RFC 5626 apply.
    pub(crate) reg_id: Option<NonZeroU32>,
    /// Zero: the binding goes.
    pub(crate) lifetime: Duration,
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
            Change::RemoveAll => {
                if bindings.iter().any(|binding| self.is_late(binding)) {
                    return Err(UpdateError::OutOfOrder);
                }
                bindings.clear();
            }
            Change::Contacts(contacts) => {
                if contacts.iter().any(|contact| {
                    bindings
                        .iter()
                        .any(|binding| contact.is_for(binding) && self.is_late(binding))
                }) {
                    return Err(UpdateError::OutOfOrder);
                }
                for contact in contacts {
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

    /// The binding after a change that refreshes the only one that there is, and does nothing else: what
    /// [`apply`](Update::apply) makes of it. `None` where it takes more to find out.
    #[cfg(feature = "driver")]
    pub(crate) fn refresh(&self, only: &Standing<'_>) -> Option<Binding> {
        let Change::Contacts(contacts) = &self.change else {
            return None;
        };
        let [contact] = contacts.as_slice() else {
            return None;
        };
        let is_late = self.cseq <= only.cseq && only.call_id == self.call_id.as_bytes();
        let is_refreshed = contact.instance.is_none()
            && contact.reg_id.is_none()
            && !only.has_reg_id
            && contact.lifetime > Duration::ZERO
            && only.expires > self.received
            && only.contact == contact.uri.as_bytes()
            && !is_late;
        is_refreshed.then(|| self.binding(contact, 0))
    }

    fn apply_contact(&self, contact: &ContactChange, bindings: &mut Vec<Binding>) {
        let place = bindings.iter().position(|binding| contact.is_for(binding));
        if contact.lifetime == Duration::ZERO {
            if let Some(place) = place {
                bindings.remove(place);
            }
            return;
        }
        let binding = self.binding(contact, self.gruus(contact, bindings));
        if let Some(instance) = &contact.instance {
            for other in bindings.iter_mut().filter(|other| other.is_of(instance)) {
                other.set_gruus(binding.gruus());
            }
        }
        match place.and_then(|place| bindings.get_mut(place)) {
            Some(existing) => *existing = binding,
            None => bindings.push(binding),
        }
    }

    /// The binding of a contact.
    fn binding(&self, contact: &ContactChange, gruus: u64) -> Binding {
        Binding::new(&BindingParts {
            contact: &contact.uri,
            parameters: &contact.parameters,
            q: contact.q,
            expires: self.received + contact.lifetime,
            lifetime: contact.lifetime,
            call_id: &self.call_id,
            cseq: self.cseq,
            flow: self.flow,
            reg_id: contact.reg_id,
            gruus,
            path: &self.path,
            user_agent: &self.user_agent,
        })
    }

    /// The number in the temporary GRUUs of a contact's instance. It stays for as long as the instance
    /// has a binding and registers with the same Call-ID; another Call-ID than that of the last REGISTER
    /// for the instance, or for this flow of it, invalidates all GRUUs that there are (RFC 5627 section
    /// 5.1).
    fn gruus(&self, contact: &ContactChange, bindings: &[Binding]) -> u64 {
        let Some(instance) = &contact.instance else {
            return 0;
        };
        let of_instance = || bindings.iter().filter(|binding| binding.is_of(instance));
        let last = of_instance()
            .filter(|binding| contact.reg_id.is_none() || binding.reg_id() == contact.reg_id)
            .max_by_key(|binding| binding.refreshed());
        match (last, of_instance().next()) {
            (Some(last), _) if last.call_id() != &*self.call_id => self.new_gruus,
            (_, Some(any)) => any.gruus(),
            (_, None) => self.new_gruus,
        }
    }

    /// Whether a binding was made by the same user agent with a later request.
    fn is_late(&self, binding: &Binding) -> bool {
        binding.call_id() == &*self.call_id && self.cseq <= binding.cseq()
    }
}

impl ContactChange {
    /// Whether a binding is the one of this contact: that of the same flow of the same instance (RFC
    /// 5626 section 6), else by the comparison of URIs.
    fn is_for(&self, binding: &Binding) -> bool {
        if self.reg_id.is_some() || binding.reg_id().is_some() {
            let is_same = |mine: &str| binding.is_of(mine);
            return self.reg_id == binding.reg_id()
                && self.instance.as_deref().is_some_and(is_same);
        }
        if self.uri.as_bytes() == binding.contact_octets() {
            return true;
        }
        match (Uri::parse(&self.uri), Uri::parse(binding.contact())) {
            (Ok(mine), Ok(its)) => mine.is_equivalent(&its),
            _ => false,
        }
    }
}
