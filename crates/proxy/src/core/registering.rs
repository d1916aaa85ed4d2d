//! The way of a REGISTER through the registrar (RFC 3261 section 10.3): read, written to the location
//! store, and answered.

use std::time::{Duration, Instant};

use sip::transaction::ServerId;
use sip::{Contact, Expires, Flow, Message, Method, Name, PlainRegister};

use super::binding::{AddressOfRecord, Binding, BindingParts, Bindings};
use super::event::Event;
use super::forward::path_value;
use super::proxy::{Proxy, Waiting};
use super::query::{Answer, Query};
use super::registered::Registered;
use super::registrar::{Registration, is_first_hop, supports};
use super::rejection::Rejection;
use super::update::{Change, Update};

/// A REGISTER whose answer a location store has to give.
#[derive(Debug)]
pub(super) struct Registering {
    server: Answering,
    request: Asked,
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

/// How a REGISTER is answered.
#[derive(Clone, Copy, Debug)]
pub(super) enum Answering {
    Transaction(ServerId),
    /// It repeats one that was answered 200, of which no response is kept: it is told what is registered.
    Repetition,
}

/// A REGISTER that waits.
#[derive(Debug)]
pub(super) enum Asked {
    Message(Message),
    /// One that was read at a glance.
    Plain(PlainRegister),
}

impl Registering {
    /// The length of the request.
    pub(super) fn octets(&self) -> usize {
        match &self.request {
            Asked::Message(request) => request.wire_length(),
            Asked::Plain(register) => register.octets().len(),
        }
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
        let registration = match self.read_registration(&request, &flow, now) {
            Ok(registration) => registration,
            Err(rejection) => {
                self.refuse(now, server, &request, &rejection);
                return;
            }
        };
        let request = (Asked::Message(request), confirmation);
        let server = Answering::Transaction(server);
        self.ask_store(now, received, (server, flow), request, registration);
    }

    /// [`repeat_register`](Proxy::repeat_register) for one that was read as a whole this time.
    pub(super) fn repeat_read_register(&mut self, now: Instant, flow: Flow, request: &Message) {
        // Since it was answered, REGISTERs have to prove who sends them, and to repeat one is no proof.
        if self.policy.authentication.register {
            return;
        }
        // It was read at a glance the first time, so it can be.
        if let Ok(register) = PlainRegister::read(request.to_bytes())
            && let Ok(registration) = self.read_registration(request, &flow, now)
        {
            self.repeat_register(now, flow, register, registration);
        }
    }

    /// Answers a REGISTER again that asks for this and was answered 200 before.
    pub(super) fn repeat_register(
        &mut self,
        now: Instant,
        flow: Flow,
        register: PlainRegister,
        registration: Registration,
    ) {
        let request = (Asked::Plain(register), None);
        // Nothing is changed a second time.
        let registration = Registration {
            update: None,
            ..registration
        };
        self.ask_store(
            now,
            now,
            (Answering::Repetition, flow),
            request,
            registration,
        );
    }

    /// Has the location store do what a REGISTER asks for.
    pub(super) fn ask_store(
        &mut self,
        now: Instant,
        received: Instant,
        (server, flow): (Answering, Flow),
        (request, confirmation): (Asked, Option<String>),
        registration: Registration,
    ) {
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
            self.refuse_asked(
                now,
                server,
                (registering.request, &flow),
                &self.overloaded(),
            );
        }
    }

    /// Refuses a REGISTER that has waited.
    fn refuse_asked(
        &mut self,
        now: Instant,
        server: Answering,
        (request, flow): (Asked, &Flow),
        rejection: &Rejection,
    ) {
        // Who has been answered 200 is not told otherwise, and asks again.
        let Answering::Transaction(server) = server else {
            return;
        };
        let request = match request {
            Asked::Message(request) => Some(request),
            Asked::Plain(register) => register.message(flow),
        };
        if let Some(request) = request {
            self.refuse(now, server, &request, rejection);
        }
    }

    fn read_registration(
        &mut self,
        request: &Message,
        flow: &Flow,
        now: Instant,
    ) -> Result<Registration, Rejection> {
        if let Some(registration) = self.read_familiar(request, flow, now) {
            return Ok(registration);
        }
        let new_gruus = self.gruus.draw();
        let identity = &self.identity;
        let registration = self
            .registrar
            .read(request, flow, now, identity, new_gruus)?;
        self.note_domain(request, flow, &registration.address);
        Ok(registration)
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
                self.refuse_asked(now, server, (request, &flow), &rejection);
                return;
            }
        };
        match server {
            Answering::Transaction(_) => {
                self.statistics.registrations += 1;
                let waited = now.saturating_duration_since(received);
                self.latencies.add_first(&Method::Register, waited);
                self.latencies.add_last(&Method::Register, waited);
            }
            Answering::Repetition if !is_as_asked(&request, &bindings) => return,
            Answering::Repetition => {}
        }
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
        self.keep_alive(now, &flow, &address, &bindings);
        if !bindings.is_empty() {
            self.note_known(&flow);
        }
        let tag = match &request {
            Asked::Message(request) => self.tag_for(request),
            Asked::Plain(register) => {
                self.tag_of(Some(register.call_id()), Some(register.cseq_number()))
            }
        };
        let registered = Registered {
            config: &self.registrar,
            address: &address,
            tag: tag.as_str(),
            is_outbound,
            date: self.clock.date(now),
            confirmation: confirmation.as_deref(),
        };
        let length = Registered::length(request_length, &bindings);
        match (&request, server) {
            (Asked::Message(request), Answering::Transaction(server)) => {
                let gruus = &mut self.gruus;
                self.transactions
                    .respond_written(now, server, (200, length), |octets| {
                        registered.write(octets, request, &bindings, now, gruus);
                    });
            }
            (Asked::Plain(register), Answering::Transaction(server)) => {
                self.transactions
                    .answer_register(now, (server, register), length, |octets| {
                        registered.write_plain(octets, (register, &flow), &bindings, now);
                    });
            }
            (Asked::Plain(register), Answering::Repetition) => {
                self.transactions
                    .answer_register_again(&flow, register, length, |octets| {
                        registered.write_plain(octets, (register, &flow), &bindings, now);
                    });
            }
            // Those that are read as a whole have transactions that keep the response.
            (Asked::Message(_), Answering::Repetition) => {}
        }
    }
}

/// Whether the bindings are as a REGISTER has left them that comes again. Where another one has come between, its user
/// agent does not wait for an answer to this one any more.
fn is_as_asked(request: &Asked, bindings: &Bindings) -> bool {
    let Asked::Plain(register) = request else {
        return false;
    };
    let contact = register.contact();
    let mut same = bindings
        .iter()
        .map(Binding::parts)
        .filter(|parts| parts.contact == contact);
    let made = |parts: BindingParts<'_>| {
        (parts.call_id, parts.cseq) == (register.call_id(), register.cseq_number())
    };
    match register.expires() {
        Expires::Seconds(0) => same.next().is_none(),
        _ => same.any(made),
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
