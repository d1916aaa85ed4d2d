//! The way of a REGISTER through the registrar (RFC 3261 section 10.3): read, written to the location
//! store, and answered.

use std::time::{Duration, Instant};

use sip::transaction::ServerId;
use sip::{Contact, Flow, Message, Method, Name};

use super::binding::AddressOfRecord;
use super::event::Event;
use super::forward::path_value;
use super::proxy::{Proxy, Waiting};
use super::query::{Answer, Query};
use super::registered::Registered;
use super::registrar::{Registration, is_first_hop, supports};
use super::update::{Change, Update};

/// A REGISTER whose answer a location store has to give.
#[derive(Debug)]
pub(super) struct Registering {
    server: ServerId,
    request: Message,
    flow: Flow,
    address: AddressOfRecord,
    /// The contacts that it changes, with the intervals granted, zero for those removed; for the log.
    changes: Vec<(String, Duration)>,
    /// When the request came.
    received: Instant,
    /// What shows the user agent that we know the password too.
    confirmation: Option<String>,
    /// Whether the rules of RFC 5626 are applied to it, and its user agent knows them.
    is_outbound: bool,
}

impl Registering {
    /// The length of the request.
    pub(super) fn octets(&self) -> usize {
        self.request.wire_length()
    }
}

impl Proxy {
    /// Takes a REGISTER to a domain of ours.
    pub(super) fn register(
        &mut self,
        now: Instant,
        received: Instant,
        server: ServerId,
        flow: Flow,
        request: Message,
        confirmation: Option<String>,
    ) {
        let (identity, new_gruus) = (&self.identity, self.gruus.draw());
        let read = self
            .registrar
            .read(&request, &flow, now, identity, new_gruus);
        let registration = match read {
            Ok(registration) => registration,
            Err(rejection) => {
                self.refuse(now, server, &request, &rejection);
                return;
            }
        };
        let Registration {
            address,
            update,
            is_outbound,
        } = registration;
        let (query, changes) = match update {
            None => (Query::Lookup(address.clone()), Vec::new()),
            Some(update) => {
                let changes = match self.tells_of_users {
                    true => changes(&update),
                    false => Vec::new(),
                };
                (Query::Update(address.clone(), update), changes)
            }
        };
        let registering = Registering {
            server,
            request,
            flow,
            address,
            changes,
            received,
            confirmation,
            is_outbound,
        };
        if let Err(Waiting::Register(registering)) =
            self.ask(now, query, Waiting::Register(Box::new(registering)))
        {
            self.refuse(now, server, &registering.request, &self.overloaded());
        }
    }

    /// Goes on with a REGISTER when the store has answered: 200 only now that the change is safe.
    pub(super) fn complete_registration(
        &mut self,
        now: Instant,
        registering: Registering,
        answer: Answer,
    ) {
        let request_length = registering.octets();
        let Registering {
            server,
            request,
            flow,
            address,
            changes,
            received,
            confirmation,
            is_outbound,
        } = registering;
        let none = Answer::Bindings([].into());
        let bindings = match if answer == Answer::Unknown {
            none
        } else {
            answer
        } {
            Answer::Bindings(bindings) => bindings,
            other => {
                if other == Answer::Full {
                    self.statistics.registrations_without_room += 1;
                }
                let rejection = self.store_error(&other);
                self.refuse(now, server, &request, &rejection);
                return;
            }
        };
        self.statistics.registrations += 1;
        let waited = now.saturating_duration_since(received);
        self.latencies.add_first(&Method::Register, waited);
        self.latencies.add_last(&Method::Register, waited);
        for (contact, expires) in changes {
            let address = address.clone();
            self.report(if expires == Duration::ZERO {
                Event::Unregistered {
                    address,
                    contact,
                    flow,
                }
            } else {
                Event::Registered {
                    address,
                    contact,
                    flow,
                    expires,
                }
            });
        }
        self.keep_alives
            .handle_registered(now, &flow, &address, &bindings);
        if !bindings.is_empty() {
            self.note_known(&flow);
        }
        let tag = self.tag_for(&request);
        let registered = Registered {
            config: &self.registrar,
            address: &address,
            tag: tag.as_str(),
            is_outbound,
            date: self.clock.date(now),
            confirmation: confirmation.as_deref(),
        };
        let length = Registered::length(request_length, &bindings);
        let gruus = &mut self.gruus;
        self.transactions
            .respond_written(now, server, (200, length), |octets| {
                registered.write(octets, &request, &bindings, now, gruus);
            });
    }
}

impl Proxy {
    /// Puts us on the path to a user agent that registers elsewhere through us and wants to be reached
    /// along its flow (RFC 5626 section 5.1). Only the first proxy on its way can do that.
    pub(super) fn add_path(&self, request: &mut Message, arrival: &Flow) {
        let wants_flow = request
            .contacts()
            .flatten()
            .any(|contact| matches!(contact, Contact::Address(contact) if contact.parameters().contains("reg-id")));
        if !wants_flow || !is_first_hop(request) || !supports(request, "path") {
            return;
        }
        if let Some(side) = self.side_toward(arrival) {
            request.push_front(Name::Path, path_value(&side, &self.tokens));
        }
    }
}

/// The contacts of an update, for the log.
fn changes(update: &Update) -> Vec<(String, Duration)> {
    match &update.change {
        Change::RemoveAll { .. } => vec![("*".to_owned(), Duration::ZERO)],
        Change::Contacts(contacts) => contacts
            .iter()
            .map(|contact| {
                let interval = contact.expires().saturating_duration_since(update.received);
                (contact.contact().to_owned(), interval)
            })
            .collect(),
    }
}
