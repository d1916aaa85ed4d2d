//! Addresses of record and their bindings: what a location store keeps, and the rules by which a
//! REGISTER changes it (RFC 3261 section 10.3 steps 6 and 7).

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sip::{Flow, SipUri, Uri};

use crate::HostPort;

/// The key of a location store: `user@domain`, the user with its escapes decoded, the domain under
/// its canonical name (RFC 3261 section 10.3 step 5). `sip:` and `sips:` mean the same user.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AddressOfRecord(Arc<str>);

/// How long an address of record may be, in octets.
const MAXIMUM_LENGTH: usize = 320;

impl AddressOfRecord {
    /// The address of record that a URI in a domain of ours stands for. `None` without a user, or
    /// where it is longer than any that we would store.
    pub(crate) fn new(uri: &SipUri<'_>, domain: &HostPort) -> Option<AddressOfRecord> {
        let written = uri
            .user()
            .filter(|user| !user.is_empty() && user.len() <= MAXIMUM_LENGTH)?;
        let unescaped = uri
            .user_unescaped()
            .and_then(|octets| String::from_utf8(octets).ok());
        // Escapes that make no text stay escapes: two different users must not become one.
        let user = unescaped.as_deref().unwrap_or(written);
        let text = format!("{user}@{domain}");
        (text.len() <= MAXIMUM_LENGTH).then(|| AddressOfRecord(text.into()))
    }

    /// The text: `user@domain`.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for AddressOfRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// One contact address of an address of record.
#[derive(Clone, Debug, PartialEq)]
pub struct Binding {
    /// The contact URI as it was registered.
    pub contact: Box<str>,
    /// The other parameters of the Contact value as they were registered, each with its semicolon.
    pub parameters: Box<str>,
    /// The preference in thousandths (RFC 3261 section 10.2.1.2).
    pub q: u16,
    /// When the binding ends.
    pub expires: Instant,
    /// The Call-ID of the REGISTER that made or last refreshed it.
    pub call_id: Arc<str>,
    /// The CSeq number of that REGISTER.
    pub cseq: u32,
    /// The flow that the REGISTER came over, where it came from the user agent itself and not
    /// through another proxy.
    pub flow: Option<Flow>,
}

/// All bindings of an address of record, shared with the store.
pub type Bindings = Arc<[Binding]>;

/// What a REGISTER asks a location store to change. The store reads the bindings, calls
/// [`apply`](Update::apply) and writes the result, as one step that nothing else comes between.
#[derive(Clone, Debug, PartialEq)]
pub struct Update {
    pub(crate) change: Change,
    pub(crate) call_id: Arc<str>,
    pub(crate) cseq: u32,
    pub(crate) flow: Option<Flow>,
    pub(crate) received: Instant,
    pub(crate) maximum_bindings: usize,
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
    /// Zero: the binding goes.
    pub(crate) lifetime: Duration,
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
        let mut bindings: Vec<Binding> = current
            .iter()
            .filter(|binding| binding.expires > self.received)
            .cloned()
            .collect();
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
                if bindings.len() > self.maximum_bindings && bindings.len() > current.len() {
                    return Err(UpdateError::TooManyBindings);
                }
            }
        }
        Ok(bindings)
    }

    fn apply_contact(&self, contact: &ContactChange, bindings: &mut Vec<Binding>) {
        let place = bindings.iter().position(|binding| contact.is_for(binding));
        if contact.lifetime == Duration::ZERO {
            if let Some(place) = place {
                bindings.remove(place);
            }
            return;
        }
        let binding = Binding {
            contact: contact.uri.clone(),
            parameters: contact.parameters.clone(),
            q: contact.q,
            expires: self.received + contact.lifetime,
            call_id: Arc::clone(&self.call_id),
            cseq: self.cseq,
            flow: self.flow,
        };
        match place.and_then(|place| bindings.get_mut(place)) {
            Some(existing) => *existing = binding,
            None => bindings.push(binding),
        }
    }

    /// Whether a binding was made by the same user agent with a later request.
    fn is_late(&self, binding: &Binding) -> bool {
        binding.call_id == self.call_id && self.cseq <= binding.cseq
    }
}

impl ContactChange {
    /// Whether a binding is the one of this contact, by the comparison of URIs.
    fn is_for(&self, binding: &Binding) -> bool {
        match (Uri::parse(&self.uri), Uri::parse(&binding.contact)) {
            (Ok(mine), Ok(its)) => mine.is_equivalent(&its),
            _ => self.uri == binding.contact,
        }
    }
}
