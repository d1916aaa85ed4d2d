//! Addresses of record and their bindings: what a location store keeps.

use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sip::{Flow, Parameters, SipUri};

use super::flow_octets;
use crate::HostPort;
#[cfg(feature = "driver")]
use crate::octets::push_number;

/// The key of a location store: `user@domain`, the user with its escapes decoded, the domain under
/// its canonical name (RFC 3261 section 10.3 step 5). `sip:` and `sips:` mean the same user.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AddressOfRecord(Arc<str>);

/// How long an address of record may be, in octets.
const MAXIMUM_LENGTH: usize = 320;

/// What stands beside the user and the host: the sign between them, brackets, a port.
const ROOM_BESIDE: usize = "@[]:65535".len();

impl AddressOfRecord {
    /// The address of record that a URI in a domain of ours stands for. `None` without a user, or
    /// where it is longer than any that we would store.
    pub(crate) fn new(uri: &SipUri<'_>, domain: &HostPort) -> Option<AddressOfRecord> {
        let written = uri
            .user()
            .filter(|user| !user.is_empty() && user.len() <= MAXIMUM_LENGTH)?;
        let has_escapes = written.contains('%');
        let unescaped = has_escapes
            .then(|| uri.user_unescaped())
            .flatten()
            .and_then(|octets| String::from_utf8(octets).ok())
            .filter(|user| !user.contains(char::is_control));
        // Escapes that make no text, or none that can be shown, stay escapes: two different users must
        // not become one.
        let user = unescaped.as_deref().unwrap_or(written);
        let mut text = String::with_capacity(user.len() + domain.host.len() + ROOM_BESIDE);
        text.push_str(user);
        text.push('@');
        domain.push_to(&mut text);
        (text.len() <= MAXIMUM_LENGTH).then(|| AddressOfRecord(text.into()))
    }

    /// An address of record as a store has written it down: `user@domain`. `None` where it is none,
    /// or longer than any that we would store.
    pub fn from_stored(text: &str) -> Option<AddressOfRecord> {
        let (user, domain) = text.rsplit_once('@')?;
        let is_one = !user.is_empty() && !domain.is_empty() && text.len() <= MAXIMUM_LENGTH;
        is_one.then(|| AddressOfRecord(text.into()))
    }

    /// The text: `user@domain`.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The user, with its escapes decoded.
    pub fn user(&self) -> &str {
        self.0.rsplit_once('@').map_or("", |(user, _)| user)
    }

    /// The domain under its canonical name.
    pub fn domain(&self) -> &str {
        self.0.rsplit_once('@').map_or("", |(_, domain)| domain)
    }
}

impl fmt::Display for AddressOfRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// One contact address of an address of record.
///
/// Texts and the flow share one allocation, since a binding is made for every look-up.
/// [`parts`](Binding::parts) shows all of it, and a binding is made of what that shows.
#[derive(Clone, PartialEq)]
pub struct Binding {
    q: u16,
    /// Where in `octets` the contact, its parameters, the Call-ID, the path and the user agent end;
    /// behind them stands the flow.
    ends: [u16; 5],
    cseq: u32,
    lifetime_seconds: u32,
    reg_id: Option<NonZeroU32>,
    gruus: u64,
    expires: Instant,
    octets: Box<[u8]>,
}

/// All that is known of a binding.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BindingParts<'a> {
    /// The contact URI as it was registered.
    pub contact: &'a str,
    /// The other parameters of the Contact value as they were registered, each with its semicolon:
    /// `+sip.instance` is among them.
    pub parameters: &'a str,
    /// The preference in thousandths (RFC 3261 section 10.2.1.2).
    pub q: u16,
    /// When the binding ends.
    pub expires: Instant,
    /// The interval that was granted, in whole seconds: so long before its end the binding was made or
    /// refreshed.
    pub lifetime: Duration,
    /// The Call-ID of the REGISTER that made or last refreshed it.
    pub call_id: &'a str,
    /// The CSeq number of that REGISTER.
    pub cseq: u32,
    /// Which of the flows of its instance this is (RFC 5626 section 6): the binding is that of the
    /// instance and this number, whatever its contact.
    pub reg_id: Option<NonZeroU32>,
    /// What is in the temporary GRUUs that lead to this instance (RFC 5627 section 5.1), the same in
    /// all its bindings; GRUUs with another number have been invalidated. 0 without an instance.
    pub gruus: u64,
    /// The flow that the REGISTER came over, where it came from the user agent itself and not
    /// through another proxy.
    pub flow: Option<Flow>,
    /// The proxies on the way to the contact, as the value of a Route header field (RFC 3327); empty
    /// where there are none.
    pub path: &'a str,
    /// What the user agent calls itself; empty where it does not say.
    pub user_agent: &'a str,
}

/// All bindings of an address of record, shared with the store.
pub type Bindings = Arc<[Binding]>;

impl Binding {
    /// A binding of these parts. Of a text that is longer than a twelfth of 64 KiB, which is more than a
    /// registrar takes, the rest is cut off.
    pub fn new(parts: &BindingParts<'_>) -> Binding {
        let texts = [
            parts.contact,
            parts.parameters,
            parts.call_id,
            parts.path,
            parts.user_agent,
        ];
        let length: usize = texts.iter().map(|text| text.len()).sum();
        let flow_length = parts.flow.as_ref().map_or(0, flow_octets::length);
        // Exactly, or there would be a second allocation to give the rest back.
        let mut octets = Vec::with_capacity(length + flow_length);
        let mut ends = [0; 5];
        for (end, text) in ends.iter_mut().zip(texts) {
            octets.extend_from_slice(cut(text).as_bytes());
            *end = u16::try_from(octets.len()).unwrap_or(u16::MAX);
        }
        if let Some(flow) = &parts.flow {
            flow_octets::write(&mut octets, flow);
        }
        Binding {
            q: parts.q,
            ends,
            cseq: parts.cseq,
            lifetime_seconds: u32::try_from(parts.lifetime.as_secs()).unwrap_or(u32::MAX),
            reg_id: parts.reg_id,
            gruus: parts.gruus,
            expires: parts.expires,
            octets: octets.into(),
        }
    }

    /// What it was made of.
    pub fn parts(&self) -> BindingParts<'_> {
        BindingParts {
            contact: self.contact(),
            parameters: self.parameters(),
            q: self.q,
            expires: self.expires,
            lifetime: Duration::from_secs(self.lifetime_seconds.into()),
            call_id: self.call_id(),
            cseq: self.cseq,
            reg_id: self.reg_id,
            gruus: self.gruus,
            flow: self.flow(),
            path: self.path(),
            user_agent: self.text(4),
        }
    }

    /// The contact URI as it was registered.
    pub fn contact(&self) -> &str {
        self.text(0)
    }

    /// The other parameters of the Contact value, each with its semicolon.
    pub fn parameters(&self) -> &str {
        self.text(1)
    }

    /// The Call-ID of the REGISTER that made or last refreshed it.
    pub fn call_id(&self) -> &str {
        self.text(2)
    }

    /// The CSeq number of that REGISTER.
    pub fn cseq(&self) -> u32 {
        self.cseq
    }

    /// The proxies on the way to the contact, as the value of a Route header field.
    pub fn path(&self) -> &str {
        self.text(3)
    }

    /// The flow that the REGISTER came over.
    pub fn flow(&self) -> Option<Flow> {
        flow_octets::read(self.octets.get(usize::from(self.ends[4])..)?)
    }

    /// The preference in thousandths.
    pub fn q(&self) -> u16 {
        self.q
    }

    /// When the binding ends.
    pub fn expires(&self) -> Instant {
        self.expires
    }

    /// Which of the flows of its instance this is.
    pub fn reg_id(&self) -> Option<NonZeroU32> {
        self.reg_id
    }

    /// The number in the temporary GRUUs that lead here.
    pub fn gruus(&self) -> u64 {
        self.gruus
    }

    /// The URN of the user agent instance (RFC 5626 section 4.1), without quotation marks and brackets.
    pub fn instance(&self) -> Option<&str> {
        instance(Parameters::parse(self.parameters().as_bytes()))
    }

    /// Orders bindings by the time of their last refresh; the later is the greater.
    pub(crate) fn refreshed(&self) -> impl Ord + use<> {
        // The clock may be younger than a binding: there need be no such instant.
        let lifetime = Duration::from_secs(self.lifetime_seconds.into());
        (self.expires.checked_sub(lifetime), self.expires)
    }

    /// Whether it belongs to this user agent instance.
    pub(crate) fn is_of(&self, instance: &str) -> bool {
        self.instance()
            .is_some_and(|its| is_same_instance(its, instance))
    }

    /// Gives the temporary GRUUs that lead to it another number.
    pub(crate) fn set_gruus(&mut self, gruus: u64) {
        self.gruus = gruus;
    }

    /// Appends all of it, for who keeps bindings as octets; when it ends by a number, whatever that counts from.
    #[cfg(feature = "driver")]
    pub(crate) fn write(&self, written: &mut Vec<u8>, expiry: u64) {
        // Named one by one: what is added to a binding must be kept here too.
        let Binding {
            q,
            ends,
            cseq,
            lifetime_seconds,
            reg_id,
            gruus,
            expires: _,
            octets,
        } = self;
        let mut start = 0;
        for end in ends.map(usize::from) {
            let text = octets.get(start..end).unwrap_or_default();
            push_number(written, text.len() as u64);
            written.extend_from_slice(text);
            start = end;
        }
        push_number(written, (*q).into());
        push_number(written, expiry);
        push_number(written, (*lifetime_seconds).into());
        push_number(written, (*cseq).into());
        push_number(written, reg_id.map_or(0, NonZeroU32::get).into());
        push_number(written, *gruus);
        // A length of one octet, since a flow has no more than a hundred.
        let flow = octets.get(start..).unwrap_or_default();
        written.push(flow.len() as u8);
        written.extend_from_slice(flow);
    }

    /// [`contact`](Binding::contact) as octets.
    pub(crate) fn contact_octets(&self) -> &[u8] {
        self.octets_of(0)
    }

    /// [`parameters`](Binding::parameters) as octets.
    pub(crate) fn parameters_octets(&self) -> &[u8] {
        self.octets_of(1)
    }

    /// [`call_id`](Binding::call_id) as octets.
    #[cfg(feature = "driver")]
    pub(crate) fn call_id_octets(&self) -> &[u8] {
        self.octets_of(2)
    }

    fn text(&self, which: usize) -> &str {
        std::str::from_utf8(self.octets_of(which)).unwrap_or_default()
    }

    fn octets_of(&self, which: usize) -> &[u8] {
        let end = |at: usize| usize::from(self.ends[at]);
        let start = which.checked_sub(1).map_or(0, end);
        self.octets.get(start..end(which)).unwrap_or_default()
    }
}

impl fmt::Debug for Binding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.parts().fmt(f)
    }
}

/// The URN in the `+sip.instance` parameter of a Contact value. RFC 3840 section 9 writes it in angle
/// brackets within quotation marks; `None` where it is not.
pub(crate) fn instance<'a>(parameters: Parameters<'a>) -> Option<&'a str> {
    let value = parameters.get("+sip.instance")?;
    let urn = value.strip_prefix("\"<")?.strip_suffix(">\"")?;
    let is_urn = !urn.is_empty()
        && urn
            .bytes()
            .all(|octet| octet.is_ascii_graphic() && !matches!(octet, b'"' | b'\\' | b'<' | b'>'));
    is_urn.then_some(urn)
}

/// Whether two URNs name the same instance: those of UUIDs in any case (RFC 4122 section 3), all others
/// as they are written (RFC 5626 section 4.1).
pub(crate) fn is_same_instance(one: &str, other: &str) -> bool {
    const UUID: &str = "urn:uuid:";
    let is_uuid = one
        .get(..UUID.len())
        .is_some_and(|scheme| scheme.eq_ignore_ascii_case(UUID));
    one == other || is_uuid && one.eq_ignore_ascii_case(other)
}

/// A text, cut off where it is longer than any that a binding keeps.
fn cut(text: &str) -> &str {
    const LONGEST: usize = (u16::MAX / 12) as usize;
    text.get(..text.floor_char_boundary(LONGEST))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use sip::{ConnectionId, Transport};

    use super::*;

    fn parts() -> BindingParts<'static> {
        BindingParts {
            contact: "sip:bob@192.0.2.9:5070;ob",
            parameters: ";+sip.instance=\"<urn:uuid:00000000-0000-1000-8000-AABBCCDDEEFF>\";reg-id=1",
            q: 700,
            expires: Instant::now() + Duration::from_secs(3600),
            lifetime: Duration::from_secs(3600),
            call_id: "a84b4c76e66710@192.0.2.9",
            cseq: 4_000_000_000,
            reg_id: NonZeroU32::new(1),
            gruus: u64::MAX,
            flow: Some(Flow {
                transport: Transport::Udp,
                local: "192.0.2.1:5060".parse().expect("an address"),
                remote: "198.51.100.9:40000".parse().expect("an address"),
                connection: ConnectionId(1),
                stream: 0,
            }),
            path: "<sip:edge.example.com;lr;ob>",
            user_agent: "Phone 1.0",
        }
    }

    #[test]
    fn a_binding_shows_what_it_was_made_of() {
        let all = parts();
        let nothing = BindingParts {
            parameters: "",
            reg_id: None,
            flow: None,
            path: "",
            user_agent: "",
            ..all
        };
        for parts in [all, nothing] {
            assert_eq!(Binding::new(&parts).parts(), parts);
        }
        assert_eq!(
            Binding::new(&all).instance(),
            Some("urn:uuid:00000000-0000-1000-8000-AABBCCDDEEFF")
        );
        assert_eq!(Binding::new(&nothing).instance(), None);
    }

    #[test]
    fn texts_of_any_length_leave_the_others_whole() {
        let long = "\u{e4}".repeat(40_000);
        let binding = Binding::new(&BindingParts {
            parameters: &long,
            path: &long,
            call_id: &long,
            user_agent: &long,
            ..parts()
        });
        assert_eq!(binding.contact(), parts().contact);
        assert_eq!(binding.flow(), parts().flow);
        assert!(long.starts_with(binding.parameters()));
        assert!(binding.parameters().len() > 5000);
    }

    #[test]
    fn instances_are_urns_in_brackets_in_quotation_marks() {
        let read = |text: &'static str| instance(Parameters::parse(text.as_bytes()));
        assert_eq!(
            read(";x;+SIP.instance=\"<urn:uuid:1>\";y"),
            Some("urn:uuid:1")
        );
        for wrong in [
            ";+sip.instance",
            ";+sip.instance=urn:uuid:1",
            ";+sip.instance=\"urn:uuid:1\"",
            ";+sip.instance=\"<>\"",
            ";+sip.instance=\"<urn:\\\"x>\"",
        ] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
        assert!(is_same_instance("urn:uuid:AB", "URN:UUID:ab"));
        assert!(!is_same_instance("urn:other:AB", "urn:other:ab"));
    }
}
