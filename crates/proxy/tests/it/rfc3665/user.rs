//! A user agent that says what the RFC has it say, with the Vias, Routes and digest answers that the run
//! demands.

use sip::digest::{Account, Challenge};
use sip::{Message, Method, Name};

use super::stage::PASSWORDS;
use crate::common::values;

/// What a user agent knows.
#[derive(Default)]
pub(crate) struct User {
    pub(crate) heard: Vec<Message>,
    pub(crate) said: Vec<Message>,
    /// The route set of its dialog, and the remote target.
    pub(crate) routes: Vec<String>,
    pub(crate) remote_target: String,
    /// The challenges that it has got, each with how often it has answered.
    pub(crate) challenges: Vec<(Vec<u8>, u32)>,
    pub(crate) registrations: u32,
}

impl User {
    pub(crate) fn asks(&mut self, mut message: Message) -> Message {
        let is_in_dialog = message.to().is_some_and(|to| to.tag().is_some());
        let is_acknowledgement = message.method() == Some(&Method::Ack);
        let failure = self.heard.last().filter(|heard| {
            is_acknowledgement && heard.status().is_some_and(|status| status >= 300)
        });
        if let Some(failure) = failure {
            // By the way of the INVITE (RFC 3261 section 17.1.1.3).
            let invite = self
                .said
                .iter()
                .rfind(|said| said.method() == Some(&Method::Invite));
            let invite = invite.expect("an INVITE");
            message.replace(Name::To, values(failure, Name::To).remove(0));
            for name in [Name::Via, Name::Route] {
                message.remove_all(name);
                for value in values(invite, name) {
                    message.push_back(name, value);
                }
            }
        } else if is_in_dialog {
            message.remove_all(Name::Route);
            for route in &self.routes {
                message.push_back(Name::Route, route);
            }
            // The RFC leaves the transport of the Contact out.
            message.set_request_uri(&self.remote_target);
        }
        let given = match message.method() {
            Some(Method::Register) => {
                self.registrations += 1;
                let cseq = format!("{} REGISTER", self.registrations);
                message.replace(Name::CSeq, cseq);
                Name::Authorization
            }
            _ => Name::ProxyAuthorization,
        };
        let answers = message.contains(given);
        message.remove_all(given);
        if answers {
            self.authorize(&mut message, given);
        }
        message
    }

    /// Answers all challenges. Whom a challenge knows is known by its From.
    pub(crate) fn authorize(&mut self, message: &mut Message, given: Name<'_>) {
        let from = message.from().expect("From").uri().to_owned();
        let (_, user) = from.split_once(':').expect("a scheme");
        let (user, _) = user.split_once('@').expect("a user");
        let (_, password) = PASSWORDS
            .iter()
            .find(|(name, _)| *name == user)
            .expect("a password");
        let account = Account {
            username: user,
            password: password.as_bytes(),
        };
        for (challenge, count) in &mut self.challenges {
            *count += 1;
            let challenge = Challenge::parse(challenge).expect("a challenge");
            let method = message.method().expect("a method").clone();
            let uri = message.request_uri().expect("a URI").to_owned();
            let answer = challenge
                .authorize(&account, method.as_str(), &uri, *count, "cnonce")
                .to_string();
            message.push_back(given, answer);
        }
    }

    pub(crate) fn replies(&self, original: &Message) -> Message {
        let (_, method) = original.cseq().expect("a CSeq");
        let request = self
            .heard
            .iter()
            .rfind(|heard| heard.method() == Some(&method))
            .expect("a request to answer");
        let status = original.status().expect("a status");
        let mut reply = Message::response_to(request, status, original.reason().unwrap_or(""));
        reply.set_to_tag(original.to().and_then(|to| to.tag()).unwrap_or("unknown"));
        if status < 300 {
            for route in values(request, Name::RecordRoute) {
                reply.push_back(Name::RecordRoute, route);
            }
        }
        for contact in values(original, Name::Contact) {
            reply.push_back(Name::Contact, contact);
        }
        if !original.body().is_empty() {
            reply = reply.with_body("application/sdp", original.body().to_vec());
        }
        reply
    }

    pub(crate) fn hears(&mut self, message: Message) {
        let routes = values(&message, Name::RecordRoute);
        if let Some(Ok(sip::Contact::Address(contact))) = message.contacts().next() {
            self.remote_target = contact.uri().to_owned();
        }
        match (message.method(), message.status()) {
            (Some(Method::Invite), _) => self.routes = routes,
            (None, Some(200)) if matches!(message.cseq(), Some((_, Method::Invite))) => {
                self.routes = routes.into_iter().rev().collect();
            }
            (None, Some(401 | 407)) => {
                for name in [Name::WwwAuthenticate, Name::ProxyAuthenticate] {
                    for challenge in message.headers(name) {
                        self.challenges.push((challenge.to_vec(), 0));
                    }
                }
            }
            _ => {}
        }
        self.heard.push(message);
    }
}
