//! The registrar: the way of a REGISTER (RFC 3261 section 10.3). It is read, written to the location store, and answered.
//!
//! `registration` says what a REGISTER asks for, the store what that changes (`update`), `registered` writes the 200.

mod registered;
pub(crate) mod registration;

use std::time::{Duration, Instant, SystemTime};

use sip::transaction::ServerId;
use sip::{Flow, Message, Method, Name};

use super::binding::{AddressOfRecord, Bindings};
use super::clock::Clock;
use super::common::CommonState;
use super::event::Event;
use super::incoming::IncomingRequest;
use super::pending::{PendingQuery, PendingRegister};
use super::query::{Answer, Query};
use super::rejection::{ALLOWED_METHODS, Rejection};
use super::update::{Change, Update};
use registered::OkResponse;
use registration::{RegistrarConfig, Registration};

/// The registrar of one core.
#[derive(Debug)]
pub(crate) struct Registrar {
    config: RegistrarConfig,
    clock: Clock,
}

/// What is registered now that a REGISTER was answered 200.
#[derive(Debug)]
pub(crate) struct Registered {
    /// The flow that it came over.
    pub(crate) flow: Flow,
    pub(crate) address: AddressOfRecord,
    pub(crate) bindings: Bindings,
}

impl Registrar {
    pub(crate) fn new(config: &RegistrarConfig) -> Registrar {
        Registrar {
            config: config.clone(),
            clock: Clock::default(),
        }
    }

    /// Takes notice of the time of day, for those who are to be told it (Date, RFC 3261 section 20.17).
    pub(crate) fn set_wall_clock(&mut self, now: Instant, time: SystemTime) {
        self.clock.set(now, time);
    }

    /// Takes a REGISTER to a domain of ours.
    pub(crate) fn register(
        &mut self,
        common: &mut CommonState,
        now: Instant,
        incoming: IncomingRequest,
    ) {
        let IncomingRequest {
            server,
            arrival: flow,
            received,
            request,
            confirmation,
            ..
        } = incoming;
        let (identity, new_gruus) = (&common.identity, common.gruus.draw());
        let read = self.config.read(&request, &flow, now, identity, new_gruus);
        let registration = match read {
            Ok(registration) => registration,
            Err(rejection) => {
                common.refuse(now, server, &request, &rejection);
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
                let changes = match common.reports_users {
                    true => changes(&update),
                    false => Vec::new(),
                };
                (Query::Update(address.clone(), update), changes)
            }
        };
        let pending = PendingRegister {
            server,
            request,
            flow,
            address,
            changes,
            received,
            confirmation,
            is_outbound,
        };
        let pending = PendingQuery::Register(Box::new(pending));
        if let Err(PendingQuery::Register(pending)) = common.ask(now, query, pending) {
            common.refuse(now, server, &pending.request, &common.overloaded());
        }
    }

    /// Answers a request to this element itself (RFC 3261 sections 8.2.1, 8.2.2.3 and 11.2).
    pub(crate) fn answer(
        &self,
        common: &mut CommonState,
        now: Instant,
        server: ServerId,
        request: &Message,
    ) {
        if request.method() != Some(&Method::Options) {
            common.refuse(now, server, request, &Rejection::method_not_allowed());
            return;
        }
        if let Err(rejection) = self.config.check_extensions(request) {
            common.refuse(now, server, request, &rejection);
            return;
        }
        // No body that we would read, no encoding, no language to choose.
        let response = Message::response_to(request, 200, "OK")
            .with(Name::Allow, ALLOWED_METHODS)
            .with(Name::Accept, "")
            .with(Name::AcceptEncoding, "identity")
            .with(Name::AcceptLanguage, "en")
            .with(Name::Supported, self.config.extensions().join(", "));
        common.respond(now, server, response);
    }

    /// Goes on with a REGISTER when the store has answered: 200 only now that the change is safe.
    ///
    /// Returns what is registered now, where it is known.
    pub(crate) fn complete(
        &mut self,
        common: &mut CommonState,
        now: Instant,
        pending: PendingRegister,
        answer: Answer,
    ) -> Option<Registered> {
        let PendingRegister {
            server,
            request,
            flow,
            address,
            changes,
            received,
            confirmation,
            is_outbound,
        } = pending;
        let none = Answer::Bindings([].into());
        let bindings = match if answer == Answer::Unknown {
            none
        } else {
            answer
        } {
            Answer::Bindings(bindings) => bindings,
            other => {
                if other == Answer::Full {
                    common.statistics.registrations_without_room += 1;
                }
                let rejection = common.store_error(&other);
                common.refuse(now, server, &request, &rejection);
                return None;
            }
        };
        common.statistics.registrations += 1;
        let waited = now.saturating_duration_since(received);
        common.latencies.add_first(&Method::Register, waited);
        common.latencies.add_last(&Method::Register, waited);
        for (contact, expires) in changes {
            let address = address.clone();
            common.report(if expires == Duration::ZERO {
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
        if !bindings.is_empty() {
            common.note_known(&flow);
        }
        let tag = common.tag_for(&request);
        let ok = OkResponse {
            config: &self.config,
            address: &address,
            tag: tag.as_str(),
            is_outbound,
            date: self.clock.date(now),
            confirmation: confirmation.as_deref(),
        };
        let response = ok.make(&request, &bindings, now, &mut common.gruus);
        common.transactions.respond(now, server, response);
        Some(Registered {
            flow,
            address,
            bindings,
        })
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::common::testing::request;
    use crate::core::incoming::Addressee;

    fn registered(answer: impl FnOnce(&Query, Instant) -> Answer) -> (Vec<Message>, bool) {
        let now = Instant::now();
        let (mut common, ..) = CommonState::for_tests(|_| {});
        let mut registrar = Registrar::new(&RegistrarConfig::default());
        let register = request(Method::Register, "sip:example.com");
        let incoming = common.begin_request(now, register, Addressee::Registrar);
        registrar.register(&mut common, now, incoming);
        assert!(common.sent().is_empty());
        let (id, query) = common.poll_query().expect("a question to the store");
        let answer = answer(&query, now);
        let Some(PendingQuery::Register(pending)) = common.take_pending(id) else {
            panic!("a REGISTER waits");
        };
        let registered = registrar.complete(&mut common, now, *pending, answer);
        (common.sent(), registered.is_some())
    }

    #[test]
    fn a_register_is_answered_when_the_store_has_done_what_it_says() {
        let (sent, is_registered) = registered(|query, _| match query {
            Query::Update(_, update) => {
                Answer::Bindings(update.apply(&[]).expect("a first binding").into())
            }
            other => panic!("{other:?}"),
        });
        assert_eq!((sent[0].status(), is_registered), (Some(200), true));
        let contact = sent[0].header(Name::Contact).expect("the binding");
        assert!(contact.starts_with("<sip:alice@192.0.2.9:5060>;expires="));
    }

    #[test]
    fn a_register_that_the_store_does_not_carry_out_is_refused() {
        let (sent, is_registered) = registered(|_, _| Answer::Failed);
        assert_eq!((sent[0].status(), is_registered), (Some(500), false));
        let (sent, is_registered) = registered(|_, _| Answer::Full);
        assert_eq!((sent[0].status(), is_registered), (Some(503), false));
    }
}
