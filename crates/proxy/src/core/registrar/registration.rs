//! The registrar: what a REGISTER asks for (RFC 3261 section 10.3). The rules about existing bindings are
//! [`Update::apply`]'s, the 200 is `registered`'s.

use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use sip::{Contact, Flow, Message, Name, NameAddr, Parameter, Parameters, Uri};

use crate::core::binding::{AddressOfRecord, Binding, BindingParts, instance};
use crate::core::identity::Identity;
use crate::core::rejection::Rejection;
use crate::core::update::{Change, Update};

/// The registrar's settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegistrarConfig {
    /// The interval of a contact that asks for none.
    pub default_expires: Duration,
    /// A shorter interval is answered 423, unless it is an hour or more (RFC 3261 section 10.3).
    pub minimum_expires: Duration,
    /// A longer interval is cut to this one.
    pub maximum_expires: Duration,
    /// Bindings of one address of record.
    pub maximum_bindings: usize,
    /// Whether a Path is taken from user agents that do not say that they know of it; else such a
    /// REGISTER is answered 420 (RFC 3327 section 5.3).
    pub path_without_support: bool,
    /// The proxies that user agents are to send their requests through, each a Route value with its
    /// angle brackets (RFC 3608).
    pub service_route: Vec<String>,
    /// Whether bindings are kept by instance and flow for user agents that want it (RFC 5626).
    pub outbound: bool,
    /// How often such user agents are to send keep-alives (Flow-Timer, RFC 5626 section 5.4); `None`
    /// leaves it to them.
    pub flow_timer: Option<Duration>,
    /// Whether user agents are given URIs that lead to themselves alone (GRUUs, RFC 5627).
    pub gruu: bool,
}

impl Default for RegistrarConfig {
    fn default() -> RegistrarConfig {
        RegistrarConfig {
            default_expires: Duration::from_secs(3600),
            minimum_expires: Duration::from_secs(60),
            maximum_expires: Duration::from_secs(7200),
            maximum_bindings: 16,
            path_without_support: false,
            service_route: Vec::new(),
            outbound: true,
            flow_timer: None,
            gruu: true,
        }
    }
}

/// What a REGISTER asks for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Registration {
    pub(crate) address: AddressOfRecord,
    /// The change; `None` asks for the list of bindings as they are (RFC 3261 section 10.2.3).
    pub(crate) update: Option<Update>,
    /// Whether the rules of RFC 5626 are applied to it, and its user agent knows them.
    pub(crate) is_outbound: bool,
}

/// What a REGISTER asks for one of its contacts.
#[derive(Clone, Debug)]
struct Asks<'a> {
    uri: &'a str,
    /// Those that are stored, each with its semicolon.
    parameters: String,
    q: u16,
    /// Only with an instance, and where the rules of RFC 5626 apply.
    reg_id: Option<NonZeroU32>,
    /// What it gets. Zero: the binding goes.
    lifetime: Duration,
}

impl Asks<'_> {
    fn instance(&self) -> Option<&str> {
        instance(Parameters::parse(self.parameters.as_bytes()))
    }
}

/// How many octets of a contact URI, its parameters, or a Call-ID are stored.
const MAXIMUM_STORED_LENGTH: usize = 1024;

/// How many octets of a Path are stored.
const MAXIMUM_PATH_LENGTH: usize = 4096;

/// How many octets of what a user agent calls itself are stored.
const MAXIMUM_USER_AGENT_LENGTH: usize = 64;

/// An interval of an hour is never too brief (RFC 3261 section 10.3 step 7).
const NEVER_TOO_BRIEF: Duration = Duration::from_secs(3600);

/// What a malformed interval counts as (RFC 3261 section 10.2.1.1).
const MALFORMED_INTERVAL: u32 = 3600;

/// The parameters of a contact that are not stored: what is said in other ways, and what a user agent
/// cannot say (RFC 5627 section 5.1).
const NOT_STORED: [&str; 4] = ["expires", "q", "pub-gruu", "temp-gruu"];

impl RegistrarConfig {
    /// Reads a REGISTER to a domain of ours: steps 2 and 5 to 7 of RFC 3261 section 10.3. `new_gruus` is
    /// for the temporary GRUUs of instances that get new ones.
    pub(crate) fn read(
        &self,
        request: &Message,
        flow: &Flow,
        now: Instant,
        identity: &Identity,
        new_gruus: u64,
    ) -> Result<Registration, Rejection> {
        self.check_extensions(request)?;
        let address = address_of_record(request, flow, identity)?;
        let path = self.path(request)?;
        let mut contacts = Vec::new();
        let mut all = false;
        for contact in request.contacts() {
            match contact.map_err(|_| MALFORMED_CONTACT)? {
                Contact::All => all = true,
                Contact::Address(_) if contacts.len() == self.maximum_bindings => {
                    return Err(TOO_MANY_CONTACTS);
                }
                Contact::Address(contact) => {
                    let asks = self.read_contact(request, &contact)?;
                    let is_loop = asks.instance().is_some()
                        && asks.lifetime > Duration::ZERO
                        && !leads_elsewhere(asks.uri, &address, flow, identity);
                    if is_loop {
                        return Err(LOOP);
                    }
                    contacts.push(asks);
                }
            }
        }
        let is_outbound = self.apply_outbound_rules(request, &path, &mut contacts)?;
        let update = match (all, contacts.is_empty()) {
            (false, true) => {
                return Ok(Registration {
                    address,
                    update: None,
                    is_outbound: false,
                });
            }
            (false, false) => {
                // Through another proxy the flow leads to that proxy, and its Path to the user agent.
                let flow = is_first_hop(request).then_some(*flow);
                self.bind(request, flow, now, (&contacts, &path.join(","), new_gruus))?
            }
            (true, true) if request.expires() == Some(0) => {
                let (call_id, cseq) = order(request)?;
                let call_id = call_id.into();
                self.update(Change::RemoveAll { call_id, cseq }, now, new_gruus)
            }
            (true, _) => return Err(MALFORMED_WILDCARD),
        };
        Ok(Registration {
            address,
            update: Some(update),
            is_outbound,
        })
    }

    /// What a location store is asked for contacts, with a Path and what is for new temporary GRUUs.
    fn bind(
        &self,
        request: &Message,
        flow: Option<Flow>,
        now: Instant,
        (contacts, path, new_gruus): (&[Asks<'_>], &str, u64),
    ) -> Result<Update, Rejection> {
        let (call_id, cseq) = order(request)?;
        let user_agent = request.header(Name::UserAgent).unwrap_or_default();
        let user_agent_length = user_agent.floor_char_boundary(MAXIMUM_USER_AGENT_LENGTH);
        let binding = |contact: &Asks<'_>| {
            Binding::new(&BindingParts {
                contact: contact.uri,
                parameters: &contact.parameters,
                q: contact.q,
                expires: now + contact.lifetime,
                lifetime: contact.lifetime,
                call_id,
                cseq,
                reg_id: contact.reg_id,
                gruus: 0,
                flow,
                path,
                user_agent: user_agent.get(..user_agent_length).unwrap_or_default(),
            })
        };
        let contacts = contacts.iter().map(binding).collect();
        Ok(self.update(Change::Contacts(contacts), now, new_gruus))
    }

    fn update(&self, change: Change, now: Instant, new_gruus: u64) -> Update {
        Update {
            change,
            received: now,
            maximum_bindings: self.maximum_bindings,
            new_gruus,
        }
    }

    /// The option tags of the extensions that are known here.
    pub(crate) fn extensions(&self) -> Vec<&'static str> {
        let optional = [(self.outbound, "outbound"), (self.gruu, "gruu")];
        let optional = optional.into_iter().filter(|(is_known, _)| *is_known);
        std::iter::once("path")
            .chain(optional.map(|(_, tag)| tag))
            .collect()
    }

    /// The extensions that a client requires of whoever answers have to be known here (RFC 3261 sections 8.2.2.3 and 10.3
    /// step 2).
    pub(crate) fn check_extensions(&self, request: &Message) -> Result<(), Rejection> {
        if !request.contains(Name::Require) {
            return Ok(());
        }
        let known = self.extensions();
        let is_known = |tag: &str| known.iter().any(|known| tag.eq_ignore_ascii_case(known));
        let unknown: Vec<&str> = request
            .text_values(Name::Require)
            .filter(|tag| !is_known(tag))
            .collect();
        if unknown.is_empty() {
            return Ok(());
        }
        Err(Rejection::bad_extension(unknown.join(", ")))
    }

    /// The Path of a REGISTER (RFC 3327 section 5.3), each value one that can stand in a Route.
    fn path(&self, request: &Message) -> Result<Vec<String>, Rejection> {
        let mut path = Vec::new();
        let mut length = 0;
        for value in request.values(Name::Path) {
            let address = NameAddr::parse(value).map_err(|_| MALFORMED_PATH)?;
            // Without a display name, so that it is easily read again.
            let mut text = format!("<{}>", address.uri());
            append_parameters(&mut text, address.parameters());
            length += text.len() + 1;
            if !matches!(address.parse_uri(), Ok(Uri::Sip(_))) || length > MAXIMUM_PATH_LENGTH {
                return Err(MALFORMED_PATH);
            }
            path.push(text);
        }
        if !path.is_empty() && !self.path_without_support && !supports(request, "path") {
            return Err(Rejection::bad_extension("path".to_owned()));
        }
        Ok(path)
    }

    /// Decides whether the contacts of a REGISTER are flows of an instance (RFC 5626 section 6), and
    /// takes the reg-id off those that are not. Returns whether the response is to say so.
    fn apply_outbound_rules(
        &self,
        request: &Message,
        path: &[String],
        contacts: &mut [Asks<'_>],
    ) -> Result<bool, Rejection> {
        if contacts.iter().all(|contact| contact.reg_id.is_none()) {
            return Ok(false);
        }
        let is_supported = supports(request, "outbound");
        // The first hop is named first, which is at the end: each proxy puts itself before the others.
        let is_possible = is_first_hop(request) || path.last().is_some_and(|first| has_ob(first));
        if !(self.outbound && is_possible) {
            if self.outbound && is_supported {
                return Err(Rejection::new(439, "First Hop Lacks Outbound Support"));
            }
            for contact in contacts {
                contact.reg_id = None;
            }
            return Ok(false);
        }
        let added = contacts
            .iter()
            .filter(|contact| contact.lifetime > Duration::ZERO)
            .count();
        if added > 1 {
            return Err(Rejection::new(400, "Several Contacts With Reg-Id"));
        }
        Ok(is_supported)
    }

    fn read_contact<'a>(
        &self,
        request: &Message,
        contact: &NameAddr<'a>,
    ) -> Result<Asks<'a>, Rejection> {
        contact.parse_uri().map_err(|_| MALFORMED_CONTACT)?;
        let mut parameters = String::new();
        let stored = contact.parameters().filter(|parameter| {
            NOT_STORED
                .iter()
                .all(|name| !parameter.name.eq_ignore_ascii_case(name))
        });
        append_parameters(&mut parameters, stored);
        if contact.uri().len() > MAXIMUM_STORED_LENGTH || parameters.len() > MAXIMUM_STORED_LENGTH {
            return Err(Rejection::new(400, "Contact Too Long"));
        }
        // Without an instance it means nothing (RFC 5626 section 6).
        let has_instance = instance(contact.parameters()).is_some();
        Ok(Asks {
            uri: contact.uri(),
            parameters,
            q: contact.q(),
            reg_id: has_instance.then(|| reg_id(contact)).flatten(),
            lifetime: self.lifetime(request, contact)?,
        })
    }

    /// The interval that a contact gets (RFC 3261 section 10.3 step 7).
    fn lifetime(&self, request: &Message, contact: &NameAddr<'_>) -> Result<Duration, Rejection> {
        let requested = if contact.parameters().contains("expires") {
            Some(contact.expires().unwrap_or(MALFORMED_INTERVAL))
        } else if request.contains(Name::Expires) {
            Some(request.expires().unwrap_or(MALFORMED_INTERVAL))
        } else {
            None
        };
        let Some(seconds) = requested else {
            return Ok(self.default_expires);
        };
        let requested = Duration::from_secs(seconds.into());
        let is_too_brief = requested > Duration::ZERO
            && requested < self.minimum_expires
            && requested < NEVER_TOO_BRIEF;
        if is_too_brief {
            return Err(Rejection::interval_too_brief(
                self.minimum_expires.as_secs(),
            ));
        }
        Ok(requested.min(self.maximum_expires))
    }
}

/// The Call-ID and the CSeq number of a REGISTER, where they can be stored.
fn order(request: &Message) -> Result<(&str, u32), Rejection> {
    let call_id = request
        .call_id()
        .filter(|call_id| call_id.len() <= MAXIMUM_STORED_LENGTH)
        .ok_or(Rejection::new(400, "Call-ID Too Long"))?;
    let cseq = request
        .cseq_number()
        .ok_or(Rejection::new(400, "Malformed CSeq"))?;
    Ok((call_id, cseq))
}

/// Writes parameters behind a value.
fn append_parameters<'a>(text: &mut String, parameters: impl Iterator<Item = Parameter<'a>>) {
    for parameter in parameters {
        text.push(';');
        text.push_str(parameter.name);
        if let Some(value) = parameter.value {
            text.push('=');
            text.push_str(value);
        }
    }
}

/// Whether a request names an extension as one that its sender knows.
pub(crate) fn supports(request: &Message, tag: &str) -> bool {
    [Name::Supported, Name::Require].into_iter().any(|name| {
        request
            .text_values(name)
            .any(|other| other.eq_ignore_ascii_case(tag))
    })
}

/// Whether a request came from the user agent itself, and not through another proxy.
pub(crate) fn is_first_hop(request: &Message) -> bool {
    request.has_one_via()
}

/// Whether a Path value has the `ob` parameter in its URI (RFC 5626 section 5.1).
fn has_ob(value: &str) -> bool {
    let Ok(address) = NameAddr::parse(value.as_bytes()) else {
        return false;
    };
    matches!(address.parse_uri(), Ok(Uri::Sip(uri)) if uri.parameters().contains("ob"))
}

/// The `reg-id` parameter of a contact: 1 to 2^31 - 1 (RFC 5626 section 10).
fn reg_id(contact: &NameAddr<'_>) -> Option<NonZeroU32> {
    let digits = contact.parameter("reg-id")?;
    let is_number = digits.bytes().all(|octet| octet.is_ascii_digit());
    let number: NonZeroU32 = digits.parse().ok()?;
    (is_number && number.get() < 1 << 31).then_some(number)
}

/// Whether a contact with an instance is a SIP URI that leads to another place than its own address of
/// record, whether it is written as that or as one of its GRUUs (RFC 5627 section 5.1).
fn leads_elsewhere(
    contact: &str,
    address: &AddressOfRecord,
    flow: &Flow,
    identity: &Identity,
) -> bool {
    let Ok(Uri::Sip(uri)) = Uri::parse(contact) else {
        return false;
    };
    let Some(domain) = identity.domain(&uri.into(), flow.local) else {
        return true;
    };
    // A temporary GRUU does not show whose it is.
    let is_hidden = uri.parameter("gr") == Some("");
    !is_hidden && AddressOfRecord::new(&uri, domain).as_ref() != Some(address)
}

/// Step 5: the address of record is that of To, in a domain of ours. It need not be the domain of the
/// Request-URI, which may be another name of the registrar, as in RFC 3665 section 2.1.
fn address_of_record(
    request: &Message,
    flow: &Flow,
    identity: &Identity,
) -> Result<AddressOfRecord, Rejection> {
    let to = request.to().ok_or(Rejection::new(400, "Malformed To"))?;
    let Ok(Uri::Sip(uri)) = to.parse_uri() else {
        // RFC 4475 section 3.3.4.
        return Err(Rejection::new(400, "No SIP URI In To"));
    };
    let domain = identity.domain(&uri.into(), flow.local).ok_or(NOT_FOUND)?;
    AddressOfRecord::new(&uri, domain).ok_or(NOT_FOUND)
}

const LOOP: Rejection = Rejection::new(403, "Contact Leads To Itself");
const MALFORMED_PATH: Rejection = Rejection::new(400, "Malformed Path");
const NOT_FOUND: Rejection = Rejection::new(404, "Not Found");
const MALFORMED_CONTACT: Rejection = Rejection::new(400, "Malformed Contact");
const MALFORMED_WILDCARD: Rejection = Rejection::new(400, "Wildcard Contact Needs Expires 0 Alone");
pub(crate) const TOO_MANY_CONTACTS: Rejection = Rejection::new(403, "Too Many Contacts");
