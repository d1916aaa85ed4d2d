//! Registrations (RFC 3261 section 10, RFC 3327, RFC 3608).

use std::time::{Duration, Instant};

use sip::user_agent::Registration;
use sip::{Contact, Message, Name, Uri};

use super::sending::{Parked, Purpose};
use super::{RegistrationState, Ua};
use crate::config::AccountConfig;
use crate::event::{AccountId, UaEvent};
use crate::route::Route;

/// After a failure it is tried again after this time, then after twice as long each time (RFC 5626 section 4.5).
const FIRST_RETRY: Duration = Duration::from_secs(30);
const LAST_RETRY: Duration = Duration::from_secs(1_800);
/// Routes that a registrar may tell.
const MAX_SERVICE_ROUTES: usize = 8;

/// An account.
#[derive(Debug)]
pub(super) struct Account {
    pub(super) config: AccountConfig,
    series: Option<Registration>,
    /// Whether it is to be registered.
    is_wanted: bool,
    due: Option<Instant>,
    failures: u32,
    /// The interval that the registrar asks for at least (RFC 3261 section 10.2.8).
    least_expires: u32,
    /// The values of Service-Route (RFC 3608).
    pub(super) service_route: Vec<String>,
}

impl Account {
    pub(super) fn new(config: AccountConfig) -> Account {
        Account {
            config,
            series: None,
            is_wanted: false,
            due: None,
            failures: 0,
            least_expires: 0,
            service_route: Vec::new(),
        }
    }

    /// When the registration is to be renewed or tried again.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// A REGISTER is sent again with the next number of its series.
    pub(super) fn skip_sequence_number(&mut self) {
        if let Some(series) = &mut self.series {
            series.skip();
        }
    }
}

impl Ua {
    /// Registers an account and keeps it registered; also one that is registered already.
    pub fn register(&mut self, now: Instant, account: AccountId) {
        let Some(known) = self.accounts.get_mut(&account) else {
            return;
        };
        known.is_wanted = true;
        let expires = known.config.expires.max(known.least_expires);
        self.ask_registrar(now, account, expires);
    }

    /// Takes the registration of an account back.
    pub fn unregister(&mut self, now: Instant, account: AccountId) {
        let Some(known) = self.accounts.get_mut(&account) else {
            return;
        };
        known.is_wanted = false;
        known.due = None;
        self.ask_registrar(now, account, 0);
    }

    /// The registration is to be renewed, or tried again.
    pub(super) fn renew_registration(&mut self, now: Instant, account: AccountId) {
        if let Some(known) = self.accounts.get_mut(&account) {
            known.due = None;
            if known.is_wanted {
                self.register(now, account);
            }
        }
    }

    pub(super) fn send_register(
        &mut self,
        now: Instant,
        account: AccountId,
        expires: u32,
        route: Route,
    ) {
        let mut writer = self.writer(account, &route);
        let Some(known) = self.accounts.get_mut(&account) else {
            return;
        };
        let Some(registrar) = registrar(&known.config.address_of_record) else {
            return self.registration_failed(now, account, 416, "Unsupported URI Scheme");
        };
        let series = known
            .series
            .get_or_insert_with(|| writer.registration(registrar));
        let mut request = writer.register(series, expires);
        self.finish_request(account, &mut request);
        self.send(now, Purpose::Register(account), account, request, route, 0);
    }

    pub(super) fn handle_registered(
        &mut self,
        now: Instant,
        account: AccountId,
        sent: &Message,
        response: &Message,
    ) {
        let status = response.status().unwrap_or(0);
        let Some(known) = self.accounts.get_mut(&account) else {
            return;
        };
        if status == 423 {
            // Interval Too Brief.
            let least = response
                .header(Name::MinExpires)
                .and_then(|value| value.trim().parse().ok());
            let is_news = |least: &u32| known.is_wanted && *least > known.least_expires;
            if let Some(least) = least.filter(is_news) {
                known.least_expires = least;
                return self.register(now, account);
            }
        }
        if !(200..300).contains(&status) {
            let reason = response.reason().unwrap_or_default().to_owned();
            return self.registration_failed(now, account, status, &reason);
        }
        known.failures = 0;
        known.service_route = response
            .text_values(Name::ServiceRoute)
            .take(MAX_SERVICE_ROUTES)
            .map(str::to_owned)
            .collect();
        let asked = sent.expires().unwrap_or(0);
        if !known.is_wanted || asked == 0 {
            let state = RegistrationState::Unregistered;
            return self.emit(UaEvent::Registration { account, state });
        }
        let expires = granted(sent, response).unwrap_or(asked).max(1);
        // In time for a few retransmissions.
        let early = (expires / 10).clamp(1, 30);
        known.due = Some(now + Duration::from_secs(u64::from(expires - early.min(expires / 2))));
        let state = RegistrationState::Registered { expires };
        self.emit(UaEvent::Registration { account, state });
    }

    pub(super) fn registration_failed(
        &mut self,
        now: Instant,
        account: AccountId,
        status: u16,
        reason: &str,
    ) {
        let Some(known) = self.accounts.get_mut(&account) else {
            return;
        };
        if known.is_wanted {
            let factor = 1_u32.checked_shl(known.failures.min(8)).unwrap_or(1);
            known.due = Some(now + (FIRST_RETRY * factor).min(LAST_RETRY));
            known.failures += 1;
        }
        let state = RegistrationState::Failed {
            status,
            reason: reason.to_owned(),
        };
        self.emit(UaEvent::Registration { account, state });
    }

    fn ask_registrar(&mut self, now: Instant, account: AccountId, expires: u32) {
        let Some(known) = self.accounts.get(&account) else {
            return;
        };
        let outbound = known.config.outbound_proxy.clone();
        match outbound.or_else(|| registrar(&known.config.address_of_record)) {
            Some(uri) => self.park(now, &uri, Parked::Register { account, expires }),
            None => self.registration_failed(now, account, 416, "Unsupported URI Scheme"),
        }
    }
}

/// The registrar of an address of record: its URI without user (RFC 3261 section 10.2).
fn registrar(address_of_record: &str) -> Option<String> {
    let uri = Uri::parse(address_of_record).ok()?;
    let uri = uri.as_sip()?;
    let scheme = if uri.is_secure() { "sips" } else { "sip" };
    let text = uri.without_headers();
    let rest = match text.split_once('@') {
        Some((_, rest)) => rest,
        None => text.split_once(':')?.1,
    };
    Some(format!("{scheme}:{rest}"))
}

/// For how long the registrar has bound the contact of a REGISTER, in seconds.
fn granted(sent: &Message, response: &Message) -> Option<u32> {
    let ours = |message: &Message| {
        message
            .contacts()
            .flatten()
            .find_map(|contact| match contact {
                Contact::Address(address) => Some(address.uri().to_owned()),
                Contact::All => None,
            })
    };
    let ours = ours(sent)?;
    let of_contact = response
        .contacts()
        .flatten()
        .find_map(|contact| match contact {
            Contact::Address(address) if address.uri() == ours => {
                address.parameter("expires")?.parse().ok()
            }
            _ => None,
        });
    of_contact.or_else(|| response.expires())
}
