//! Where a request is for: what has led it here is taken off, and the Request-URI says the rest (RFC 3261 sections 16.3 to
//! 16.5).

use std::time::Instant;

use sip::{Flow, Message, Method, Name, Uri};

use super::Forwarder;
use crate::HostPort;
use crate::core::binding::{AddressOfRecord, Binding, Bindings};
use crate::core::common::CommonState;
use crate::core::gruu::Gruu;
use crate::core::incoming::{Addressee, RequestClass};
use crate::core::loop_detection::Fingerprint;
use crate::core::read_uri::ReadUri;
use crate::core::rejection::{NOT_FOUND, Rejection};
use crate::core::route;
use crate::core::target::{self, Target, Targets};
use crate::core::validation::{self, Verdict};

impl Forwarder {
    /// Checks a request, takes off what led it here, and finds out where it is for.
    pub(crate) fn classify(
        &mut self,
        common: &mut CommonState,
        request: &mut Message,
        arrival: &Flow,
        fingerprint: Fingerprint,
    ) -> Result<RequestClass, Rejection> {
        let mut class = RequestClass {
            addressee: Addressee::Element,
            is_in_dialog: false,
        };
        let uri = request.parse_request_uri();
        match validation::check(request, uri.as_ref(), fingerprint, &common.identity)? {
            Verdict::Process => {}
            Verdict::AnswerOptions => return Ok(class),
        }
        let had_route = request.contains(Name::Route);
        let mut sip_uri = uri.as_ref().and_then(read);
        let is_loose = sip_uri.as_ref().is_some_and(|uri| uri.is_loose);
        let has_maddr = sip_uri.as_ref().is_some_and(|uri| uri.maddr.is_some());
        if !had_route && !is_loose && !has_maddr {
            // Nothing has led it here.
            class.addressee = self.addressee(
                common,
                request,
                sip_uri.as_ref(),
                arrival,
                &route::Preprocessed::default(),
                true,
            )?;
            return Ok(class);
        }
        let mut is_readable = true;
        let has_tag = request.to_tag().is_some();
        let own = route::OwnRoutes {
            identity: &common.identity,
            tokens: &common.tokens,
            known: &self.route_cache,
            marks: &self.dialogs.marks,
        };
        let mut led = route::Preprocessed::default();
        if is_loose || has_maddr {
            led = route::preprocess(request, arrival, own, is_loose)?;
            let uri = request.parse_request_uri();
            is_readable = uri.is_some();
            sip_uri = uri.as_ref().and_then(read);
        }
        let led = route::led_by_routes(request, arrival, own, led)?;
        if !is_readable {
            return Err(validation::UNSUPPORTED_SCHEME);
        }
        let lifetime = common.policy.forwarding.dialog_lifetime;
        class.is_in_dialog =
            had_route && has_tag && self.dialogs.have(request, &led, &common.identity, lifetime);
        // Within a dialog the Routes have led here, and the Request-URI leads on.
        let may_be_routed = !(had_route && has_tag);
        class.addressee = self.addressee(
            common,
            request,
            sip_uri.as_ref(),
            arrival,
            &led,
            may_be_routed,
        )?;
        if class.is_in_dialog {
            self.dialogs.note_request(request);
        }
        if class.is_in_dialog && !led.are_known {
            for route in request.values(Name::Route).take(led.routes) {
                self.route_cache.note(route, arrival.local, &common.tokens);
            }
        }
        for _ in 0..led.routes {
            request.remove_first_value(Name::Route);
        }
        Ok(class)
    }

    /// Where a request is for, beside what has `led` it here. `uri`: its Request-URI, where that is a SIP URI;
    /// `may_be_routed`: static routes are for it.
    fn addressee(
        &self,
        common: &CommonState,
        request: &Message,
        uri: Option<&ReadUri<'_>>,
        arrival: &Flow,
        led: &route::Preprocessed,
        may_be_routed: bool,
    ) -> Result<Addressee, Rejection> {
        let has_route = led.has_others;
        let text = || request.request_uri().unwrap_or_default();
        if let Some(along) = led.along
            && !has_route
        {
            let mut target = Target::as_requested(text(), Some(along.flow));
            target.is_edge = along.is_edge;
            return Ok(Addressee::Requested(target));
        }
        if !has_route && may_be_routed && common.policy.routing.route_for(request).is_some() {
            return Ok(Addressee::Routed);
        }
        let uri = match uri {
            Some(uri) => uri,
            None if has_route => {
                return Ok(Addressee::Requested(Target::as_requested(text(), None)));
            }
            // Nobody here has a telephone number of that kind: the client may try a SIP URI (RFC
            // 3261 section 8.1.3.5).
            None => return Err(validation::UNSUPPORTED_SCHEME),
        };
        let requested = || Ok(Addressee::Requested(Target::at(uri)));
        if uri.maddr.is_some() {
            return requested();
        }
        let has_user = uri.user().is_some_and(|user| !user.is_empty());
        let is_register = request.method() == Some(&Method::Register);
        match common.identity.domain(uri, arrival.local) {
            Some(_) if is_register && has_route => requested(),
            Some(_) if is_register => Ok(Addressee::Registrar),
            Some(domain) if uri.is_gruu || has_user => self
                .user_at(common, uri, domain)
                .map(Addressee::User)
                .ok_or(NOT_FOUND),
            Some(_) => Ok(Addressee::Element),
            None if !common.identity.is_own_address(uri, arrival.local) => requested(),
            // Our own address, but no domain of ours: there are no users.
            None if has_user || is_register => Err(NOT_FOUND),
            None => Ok(Addressee::Element),
        }
    }

    /// Whom of our users a request is for, by its Request-URI.
    pub(crate) fn user_asked_for(
        &self,
        common: &CommonState,
        request: &Message,
        arrival: &Flow,
    ) -> Option<AddressOfRecord> {
        let uri = request.parse_request_uri();
        let uri = uri.as_ref().and_then(read)?;
        self.user_at(common, &uri, common.identity.domain(&uri, arrival.local)?)
    }

    /// The user whom a URI in a domain of ours names.
    fn user_at(
        &self,
        common: &CommonState,
        uri: &ReadUri<'_>,
        domain: &HostPort,
    ) -> Option<AddressOfRecord> {
        match uri.is_gruu {
            true => common.gruus.read(uri, domain).map(|(address, _)| address),
            false => AddressOfRecord::new(uri, domain),
        }
    }

    /// Whether the Request-URI names somebody here: in a domain of ours, or at an address of ours. Where it has a
    /// `maddr` it is its only target (RFC 3261 section 16.5).
    pub(super) fn is_responsible(
        &self,
        common: &CommonState,
        request: &Message,
        arrival: &Flow,
    ) -> bool {
        let uri = request.parse_request_uri();
        uri.as_ref().and_then(read).is_some_and(|uri| {
            uri.maddr.is_none()
                && (common.identity.domain(&uri, arrival.local).is_some()
                    || common.identity.is_own_address(&uri, arrival.local))
        })
    }

    /// The targets of a user's bindings.
    pub(crate) fn targets(&self, now: Instant, request: &Message, bindings: &[Binding]) -> Targets {
        let asked = target::TargetConstraints {
            is_secure: target::is_for_sips(request),
            has_route: request.contains(Name::Route),
            is_for_instance: gruu(request).is_some(),
        };
        target::targets(bindings, now, asked, |connection| {
            !self.closed.contains(&connection)
        })
    }

    /// Those of a user's bindings that a request is for: all, or where the Request-URI is a GRUU those of
    /// its instance. `None` where it is one that is void (RFC 5627 section 6.1).
    pub(crate) fn bindings_meant(
        &self,
        common: &CommonState,
        now: Instant,
        request: &Message,
        arrival: &Flow,
        bindings: Bindings,
    ) -> Option<Bindings> {
        let Some(uri) = gruu(request) else {
            return Some(bindings);
        };
        let Some(domain) = common.identity.domain(&uri, arrival.local) else {
            return Some(bindings);
        };
        let (_, gruu) = common.gruus.read(&uri, domain)?;
        let meant: Bindings = bindings
            .iter()
            .filter(|binding| binding.expires() > now && gruu.is_of(binding))
            .cloned()
            .collect();
        let is_void = meant.is_empty() && matches!(gruu, Gruu::Temporary(_));
        (!is_void).then_some(meant)
    }
}

/// Whether a URI has a parameter that may be `gr`, be it written with escapes. Most have none, which is seen
/// without reading them.
fn may_be_gruu(uri: &[u8]) -> bool {
    memchr::memchr_iter(b';', uri).any(|at| matches!(uri.get(at + 1), Some(b'g' | b'G' | b'%')))
}

/// The Request-URI, where it names one user agent of a user (RFC 5627 section 3.1).
pub(super) fn gruu(request: &Message) -> Option<ReadUri<'_>> {
    if !may_be_gruu(request.request_uri_bytes()?) {
        return None;
    }
    let uri = Uri::parse(request.request_uri()?).ok()?;
    read(&uri).filter(|uri| uri.is_gruu)
}

/// A SIP URI, read.
fn read<'a>(uri: &Uri<'a>) -> Option<ReadUri<'a>> {
    uri.as_sip().map(|uri| ReadUri::from(*uri))
}

/// Why a user with these bindings cannot be reached. Where it is for the scheme of the Contacts, a
/// Warning says so (RFC 5630 section 5.3).
pub(crate) fn unavailable(now: Instant, request: &Message, bindings: &[Binding]) -> Rejection {
    let rejection = Rejection::new(480, "Temporarily Unavailable");
    let is_secure = target::is_for_sips(request);
    let mut current = bindings
        .iter()
        .filter(|binding| binding.expires() > now)
        .peekable();
    if current.peek().is_none()
        || current.any(|binding| target::is_sips(binding.contact()) == is_secure)
    {
        return rejection;
    }
    rejection.with(
        Name::Warning,
        if is_secure {
            "380 proxy \"SIPS Not Allowed\""
        } else {
            "381 proxy \"SIPS Required\""
        },
    )
}
