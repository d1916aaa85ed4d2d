//! Requests of ours: they wait for a way, leave, and come again with credentials when they are challenged.

use std::time::Instant;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha12Rng;
use sip::dialog::refreshes_target;
use sip::digest;
use sip::transaction::ClientId;
use sip::user_agent::UserAgent;
use sip::{Message, Name};

use super::{ALLOW, SUPPORTED, Ua};
use crate::account::Register;
use crate::call::{Offer, Stage};
use crate::event::{AccountId, CallNumber, TextNumber, UaEvent};
use crate::route::{Query, QueryId, Route};

/// How often a request is sent again because it was challenged: by a server and by proxies on the way.
const MAX_CHALLENGES: u8 = 4;
/// Questions that are open at one time.
const MAX_PARKED: usize = 1_024;

/// What a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Register(Register),
    Invite(CallNumber),
    /// A re-INVITE or UPDATE.
    Offer(CallNumber),
    Refer(CallNumber),
    Text(TextNumber),
    /// Nobody waits for its outcome: BYE, CANCEL, PRACK, INFO, NOTIFY.
    Other,
}

/// A request that is under way.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) purpose: Purpose,
    pub(super) account: AccountId,
    /// Without Via.
    pub(super) request: Message,
    pub(super) route: Route,
    challenges: u8,
}

/// What waits for a way.
#[derive(Debug)]
pub(super) enum Parked {
    Register(Register),
    Invite {
        call: CallNumber,
    },
    Text {
        text: TextNumber,
        account: AccountId,
        to: String,
        content_type: String,
        body: bytes::Bytes,
    },
    /// A request within a dialog, which is written.
    Written {
        purpose: Purpose,
        account: AccountId,
        request: Message,
    },
    /// An ACK, which makes no transaction.
    Ack {
        call: Option<CallNumber>,
        ack: Message,
    },
}

impl Ua {
    /// Asks for the way to a URI; what is parked goes on with the answer. All that waits for one URI keeps its order: an
    /// INVITE must not overtake the ACK before it.
    pub(super) fn park(&mut self, now: Instant, uri: &str, parked: Parked) {
        let waiting: usize = self.parked.values().map(|(_, waiting)| waiting.len()).sum();
        if waiting >= MAX_PARKED {
            self.unreachable(now, parked);
            return;
        }
        let asked = self.parked.values_mut().find(|(asked, _)| asked == uri);
        if let Some((_, waiting)) = asked {
            waiting.push(parked);
            return;
        }
        let id = QueryId(self.number());
        self.parked.insert(id, (uri.to_owned(), vec![parked]));
        let uri = uri.to_owned();
        self.queries.push_back(Query { id, uri });
    }

    /// The way is known.
    pub(super) fn unpark(&mut self, now: Instant, parked: Parked, route: Route) {
        match parked {
            Parked::Register(register) => self.send_register(now, register, route),
            Parked::Invite { call } => self.send_invite(now, call, route),
            Parked::Text {
                text,
                account,
                to,
                content_type,
                body,
            } => self.send_text_by(now, text, account, &to, &content_type, body, route),
            Parked::Written {
                purpose,
                account,
                request,
            } => self.send(now, purpose, account, request, route, 0),
            Parked::Ack { call, ack } => self.send_ack(now, call, ack, route),
        }
    }

    /// There is no way.
    pub(super) fn unreachable(&mut self, now: Instant, parked: Parked) {
        let purpose = match parked {
            Parked::Register(register) => Purpose::Register(register),
            Parked::Invite { call } => Purpose::Invite(call),
            Parked::Text { text, .. } => Purpose::Text(text),
            Parked::Written { purpose, .. } => purpose,
            Parked::Ack { .. } => Purpose::Other,
        };
        self.fail(now, purpose, 503, "Service Unavailable");
    }

    /// Sends what begins outside of a dialog along the way that the account's requests take first; `skipped` outbound proxies
    /// have failed.
    pub(super) fn park_first_hop(
        &mut self,
        now: Instant,
        account: AccountId,
        uri: &str,
        skipped: usize,
        parked: Parked,
    ) {
        let Some(known) = self.accounts.get(&account) else {
            return self.park(now, uri, parked);
        };
        match known.flow_route(skipped) {
            Some(route) => self.unpark(now, parked, route),
            None => {
                let (next_hop, _) = known.first_hop(uri, skipped);
                self.park(now, &next_hop, parked);
            }
        }
    }

    /// Sends a request within the dialog of a call: BYE for one.
    pub(super) fn send_in_dialog(
        &mut self,
        now: Instant,
        call: CallNumber,
        purpose: Purpose,
        mut request: Message,
    ) {
        let cnonce = self.new_tag();
        let Some(known) = self.calls.get_mut(&call) else {
            return;
        };
        let account = known.account;
        let config = self.accounts.get(&account).map(|account| &account.config);
        if let Some(credentials) = config.and_then(|config| config.credentials.as_ref()) {
            known.proofs.write(&mut request, credentials, &cnonce);
        }
        let Some(next_hop) = known
            .dialog
            .as_ref()
            .map(|dialog| dialog.next_hop().to_owned())
        else {
            return;
        };
        let parked = Parked::Written {
            purpose,
            account,
            request,
        };
        self.park(now, &next_hop, parked);
    }

    /// Sends a request without Via along a way.
    pub(super) fn send(
        &mut self,
        now: Instant,
        purpose: Purpose,
        account: AccountId,
        request: Message,
        route: Route,
        challenges: u8,
    ) {
        if self.is_secret(purpose, &request) && !route.target.transport().is_secure() {
            return self.cannot_be_kept_secret(now, purpose);
        }
        let writer = self.writer(account, &route);
        let mut request = request;
        // We may be reached elsewhere than when the dialog began.
        let is_refresh =
            request.to_tag().is_some() && request.method().is_some_and(refreshes_target);
        if is_refresh && let Some(known) = self.accounts.get(&account) {
            request.replace(Name::Contact, known.contact(writer.contact()));
        }
        let mut with_via = request.clone();
        let branch = self.transactions.new_branch();
        writer.push_via(&mut with_via, &branch);
        if with_via.header(Name::UserAgent).is_none() {
            with_via.push_back(Name::UserAgent, &self.config.product);
        }
        let peer = route.peer.clone();
        let sent = self
            .transactions
            .send_request_to(now, with_via, route.target, peer);
        match sent {
            Ok(transaction) => {
                self.note_invite(purpose, transaction, &request);
                self.sent.insert(
                    transaction,
                    Sent {
                        purpose,
                        account,
                        request,
                        route,
                        challenges,
                    },
                );
            }
            Err(_) => self.fail(now, purpose, 503, "Service Unavailable"),
        }
    }

    /// Whether a request has keys of ours.
    fn is_secret(&self, purpose: Purpose, request: &Message) -> bool {
        let (Purpose::Invite(number) | Purpose::Offer(number)) = purpose else {
            return false;
        };
        let call = self.calls.get(&number);
        call.is_some_and(|call| call.is_secret) && !request.body().is_empty()
    }

    /// A request with keys does not leave along a way without TLS (RFC 4568 section 3), wherever a redirection, a Service-Route
    /// or a Record-Route leads.
    fn cannot_be_kept_secret(&mut self, now: Instant, purpose: Purpose) {
        const STATUS: u16 = 503;
        match purpose {
            Purpose::Invite(number) => {
                self.invite_failed(now, number, STATUS, "No Way Over TLS For Keys");
            }
            Purpose::Offer(number) => {
                let Ok(call) = self.call(number) else {
                    return;
                };
                let offer = std::mem::take(&mut call.offer);
                // Nobody asked for a refresh.
                if let Offer::Sent {
                    is_refresh: false, ..
                } = offer
                {
                    self.emit(UaEvent::OfferRefused {
                        call: number,
                        status: STATUS,
                    });
                }
            }
            _ => {}
        }
    }

    /// A response to a request of ours.
    pub(super) fn handle_response(
        &mut self,
        now: Instant,
        transaction: ClientId,
        response: &Message,
    ) {
        let Some(status) = response.status() else {
            return;
        };
        if status < 200 {
            if let Some(Purpose::Invite(call)) =
                self.sent.get(&transaction).map(|sent| sent.purpose)
            {
                self.handle_progress(now, call, response);
            }
            return;
        }
        let Some(sent) = self.sent.remove(&transaction) else {
            // A further 2xx to an INVITE.
            return self.handle_stray_response(now, response);
        };
        if matches!(status, 401 | 407) && self.answer_challenge(now, &sent, response) {
            return;
        }
        self.handle_final(now, sent, response);
    }

    /// A request of ours failed without a response.
    pub(super) fn handle_failure(
        &mut self,
        now: Instant,
        transaction: ClientId,
        status: u16,
        reason: &str,
    ) {
        if let Some(sent) = self.sent.remove(&transaction) {
            self.fail(now, sent.purpose, status, reason);
        }
    }

    /// Writes messages of an account for a way.
    pub(super) fn writer(&mut self, account: AccountId, route: &Route) -> UserAgent {
        let address_of_record = self
            .accounts
            .get(&account)
            .map(|account| account.config.address_of_record.clone())
            .unwrap_or_default();
        let rng = ChaCha12Rng::from_seed(self.rng.random());
        UserAgent::new(
            address_of_record,
            route.target.transport(),
            route.local,
            rng,
        )
    }

    /// What a request outside of a dialog has beside what [`UserAgent`] writes: the user's name and our extensions.
    pub(super) fn finish_request(&mut self, account: AccountId, request: &mut Message) {
        let known = self.accounts.get(&account);
        if let Some(name) = known.and_then(|account| account.config.display_name.as_deref())
            && let Some(from) = request.header(Name::From).map(str::to_owned)
        {
            let name = name.replace(['"', '\\', '\r', '\n'], "");
            request.replace(Name::From, format!("\"{name}\" {from}"));
        }
        request.replace(Name::Allow, ALLOW);
        request.replace(Name::Supported, SUPPORTED);
    }

    /// The Contact and the Routes of a request outside of a dialog that is no REGISTER (RFC 3608 section 6.1); `skipped`
    /// outbound proxies have failed.
    pub(super) fn address_request(
        &mut self,
        account: AccountId,
        request: &mut Message,
        contact: &str,
        skipped: usize,
    ) {
        let Some(known) = self.accounts.get(&account) else {
            return;
        };
        let uri = request.request_uri().unwrap_or_default();
        let (_, routes) = known.first_hop(uri, skipped);
        for route in routes {
            request.push_back(Name::Route, route);
        }
        request.replace(Name::Contact, known.contact(contact));
    }

    /// Sends a request again with the answers to the challenges in its response (RFC 3261 section 22). `false` when that
    /// would not help.
    fn answer_challenge(&mut self, now: Instant, sent: &Sent, response: &Message) -> bool {
        let known = self.accounts.get(&sent.account);
        let Some(credentials) = known.and_then(|account| account.config.credentials.clone()) else {
            return false;
        };
        let is_cancelled = |number: &CallNumber| match self.calls.get(number).map(|it| &it.stage) {
            Some(Stage::Calling(outgoing)) => outgoing.is_cancelled,
            Some(Stage::Ringing(_) | Stage::Up) | None => true,
        };
        let is_given_up = matches!(&sent.purpose, Purpose::Invite(number) if is_cancelled(number));
        if is_given_up || sent.challenges >= MAX_CHALLENGES {
            return false;
        }
        let mut request = sent.request.clone();
        if sent.challenges == 0 {
            // Credentials that were sent without being asked for may be for a nonce that is gone.
            request.remove_all(Name::Authorization);
            request.remove_all(Name::ProxyAuthorization);
        }
        let account = digest::Account {
            username: &credentials.username,
            password: credentials.password.as_bytes(),
        };
        let cnonce = self.new_tag();
        if !digest::answer(&mut request, response, &account, &cnonce) {
            return false;
        }
        let Some(number) = self.next_cseq(sent.purpose, &request) else {
            return false;
        };
        if let Some((_, method)) = request.cseq() {
            request.replace(Name::CSeq, format!("{number} {method}"));
        }
        let (purpose, route) = (sent.purpose, sent.route.clone());
        let proofs = match purpose {
            Purpose::Register(register) => {
                let known = self.accounts.get_mut(&register.account);
                let flow = known.and_then(|known| known.flows.get_mut(register.flow));
                flow.map(|flow| &mut flow.proofs)
            }
            Purpose::Invite(call) | Purpose::Offer(call) | Purpose::Refer(call) => {
                self.calls.get_mut(&call).map(|call| &mut call.proofs)
            }
            Purpose::Text(_) | Purpose::Other => None,
        };
        if let Some(proofs) = proofs {
            proofs.learn(response);
        }
        self.send(
            now,
            purpose,
            sent.account,
            request,
            route,
            sent.challenges + 1,
        );
        true
    }

    /// The sequence number with which a request is sent again (RFC 3261 section 22.2): that of its dialog or registration
    /// goes on.
    fn next_cseq(&mut self, purpose: Purpose, request: &Message) -> Option<u32> {
        let next = request.cseq_number()?.checked_add(1);
        match purpose {
            Purpose::Register(register) => {
                let account = self.accounts.get_mut(&register.account)?;
                let flow = account.flows.get_mut(register.flow)?;
                flow.series.as_mut()?.skip();
                next
            }
            _ => {
                let in_dialog = self
                    .calls
                    .values_mut()
                    .filter_map(|call| call.dialog.as_mut())
                    .find(|dialog| {
                        request.to_tag().is_some()
                            && request.call_id() == Some(dialog.call_id())
                            && request.from_tag() == Some(dialog.local_tag())
                    });
                match (in_dialog, request.method()) {
                    // The dialog's own count goes on with its next request.
                    (Some(dialog), Some(method)) => dialog.request(method.clone()).cseq_number(),
                    _ => next,
                }
            }
        }
    }
}
