//! Dialogs (RFC 3261 section 12): what two user agents remember of each other.

mod answer;

use crate::{Contact, Message, Method, Name, NameAddr, NameAddrError, Uri};

pub use answer::{AnswerRetransmitter, Retransmission};

/// One side's state of a dialog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dialog {
    call_id: String,
    local_tag: String,
    /// `None` for a peer that keeps to RFC 2543 and gives none.
    remote_tag: Option<String>,
    local_uri: String,
    remote_uri: String,
    /// The value of the Contact field that we have sent.
    local_contact: Option<String>,
    /// Where the peer is reached.
    remote_target: String,
    /// URIs of proxies on the way to the peer, nearest first.
    route_set: Vec<String>,
    local_sequence: Option<u32>,
    remote_sequence: Option<u32>,
    is_early: bool,
    is_secure: bool,
}

/// A request within a dialog whose sequence number is lower than that of an earlier one: it is
/// rejected with 500 (RFC 3261 section 12.2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("CSeq is lower than that of an earlier request")]
pub struct OutOfOrder;

impl Dialog {
    /// The user agent client's side (section 12.1.2), made of its request and a response to it.
    ///
    /// `None` where these make no dialog: the response is not a 2xx, nor a provisional one with a To
    /// tag, or a field is missing that names the dialog. Where the response has no Contact that is
    /// of use, as with many provisional ones, the peer is reached by the Request-URI.
    pub fn uac(request: &Message, response: &Message) -> Option<Dialog> {
        let (from, to) = (request.from()?, response.to()?);
        let is_early = makes_early_dialog(response)?;
        let mut route_set = uris(response.record_routes());
        route_set.reverse();
        let request_uri = request.request_uri()?;
        Some(Dialog {
            call_id: request.call_id()?.to_owned(),
            local_tag: from.tag()?.to_owned(),
            remote_tag: to.tag().map(str::to_owned),
            local_uri: from.uri().to_owned(),
            remote_uri: to.uri().to_owned(),
            local_contact: request.header(Name::Contact).map(str::to_owned),
            remote_target: contact_uri(response).unwrap_or_else(|| request_uri.to_owned()),
            route_set,
            local_sequence: Some(request.cseq()?.0),
            remote_sequence: None,
            is_early,
            is_secure: is_sips(request_uri),
        })
    }

    /// The user agent server's side (section 12.1.1), made of a request and the response that it is
    /// about to send.
    ///
    /// `None` where these make no dialog: the response is not a 2xx, nor a provisional one, or has no
    /// To tag, or the request says by no Contact where its sender is reached.
    pub fn uas(request: &Message, response: &Message) -> Option<Dialog> {
        let (from, to) = (request.from()?, response.to()?);
        let is_early = makes_early_dialog(response)?;
        Some(Dialog {
            call_id: request.call_id()?.to_owned(),
            local_tag: to.tag()?.to_owned(),
            remote_tag: from.tag().map(str::to_owned),
            local_uri: to.uri().to_owned(),
            remote_uri: from.uri().to_owned(),
            local_contact: response.header(Name::Contact).map(str::to_owned),
            remote_target: contact_uri(request)?,
            route_set: uris(request.record_routes()),
            local_sequence: None,
            remote_sequence: Some(request.cseq()?.0),
            is_early,
            is_secure: is_sips(request.request_uri()?),
        })
    }

    /// Call-ID.
    pub fn call_id(&self) -> &str {
        &self.call_id
    }

    /// Our tag.
    pub fn local_tag(&self) -> &str {
        &self.local_tag
    }

    /// The peer's tag; `None` where it keeps to RFC 2543 and has none.
    pub fn remote_tag(&self) -> Option<&str> {
        self.remote_tag.as_deref()
    }

    /// Where the peer is reached.
    pub fn remote_target(&self) -> &str {
        &self.remote_target
    }

    /// The URIs of the proxies on the way to the peer, nearest first.
    pub fn route_set(&self) -> &[String] {
        &self.route_set
    }

    /// Whether only provisional responses have been seen.
    pub fn is_early(&self) -> bool {
        self.is_early
    }

    /// Whether the dialog was begun by a request to a SIPS URI: our Contact has to be one too.
    pub fn is_secure(&self) -> bool {
        self.is_secure
    }

    /// The URI that requests are sent to (section 8.1.2), unless there is an outbound proxy.
    pub fn next_hop(&self) -> &str {
        self.route_set.first().unwrap_or(&self.remote_target)
    }

    /// Whether a message that came belongs to this dialog (section 12): a request of the peer, or a
    /// response to ours.
    pub fn matches(&self, message: &Message) -> bool {
        let (local, remote) = if message.is_request() {
            (message.to(), message.from())
        } else {
            (message.from(), message.to())
        };
        let (Some(local), Some(remote)) = (local, remote) else {
            return false;
        };
        message.call_id() == Some(&self.call_id)
            && local.tag() == Some(&self.local_tag)
            && remote.tag() == self.remote_tag()
    }

    /// A new request within the dialog (section 12.2.1.1), BYE for one, without Via. One that
    /// refreshes the target carries the Contact that the dialog was made with.
    pub fn request(&mut self, method: Method) -> Message {
        let number = self
            .local_sequence
            .map_or(1, |number| number.saturating_add(1));
        self.local_sequence = Some(number);
        let mut request = self.follow(&method, number);
        if refreshes_target(&method)
            && let Some(contact) = &self.local_contact
        {
            request.push_back(Name::Contact, contact);
        }
        request
    }

    /// The ACK to a 2xx (section 13.2.2.4), without Via: with the number and the credentials of the
    /// INVITE that is acknowledged.
    pub fn ack(&self, invite: &Message) -> Message {
        let number = invite.cseq().map_or(0, |(number, _)| number);
        let mut ack = self.follow(&Method::Ack, number);
        for name in [Name::Authorization, Name::ProxyAuthorization] {
            ack.copy_fields(invite, name);
        }
        ack
    }

    /// Takes in a 2xx to a request of ours.
    ///
    /// The first one to the INVITE that made the dialog confirms it, and its Record-Route fields are
    /// the route set from then on (section 13.2.2.4). Any to a request that refreshes the target
    /// brings the target up to date (section 12.2.1.2). Other responses change nothing; whether a
    /// final one ends an early dialog is for the caller to say.
    pub fn handle_response(&mut self, response: &Message) {
        let (Some(200..300), Some((_, method))) = (response.status(), response.cseq()) else {
            return;
        };
        if !refreshes_target(&method) {
            return;
        }
        // An UPDATE that is answered in an early dialog does not confirm it.
        if self.is_early && method == Method::Invite {
            self.is_early = false;
            self.route_set = uris(response.record_routes());
            self.route_set.reverse();
        }
        self.refresh_target(response);
    }

    /// Checks the sequence number of a request that came, and remembers it (section 12.2.2). ACK and
    /// CANCEL have that of another request and pass.
    ///
    /// # Errors
    ///
    /// The request is out of order and is to be answered with 500.
    pub fn handle_request(&mut self, request: &Message) -> Result<(), OutOfOrder> {
        let Some((number, method)) = request.cseq() else {
            return Ok(());
        };
        if matches!(method, Method::Ack | Method::Cancel) {
            return Ok(());
        }
        if self.remote_sequence.is_some_and(|remote| number < remote) {
            return Err(OutOfOrder);
        }
        self.remote_sequence = Some(number);
        Ok(())
    }

    /// Takes in that a request which came is accepted (section 12.2.2): one that refreshes the target
    /// changes where the peer is reached.
    pub fn accept_request(&mut self, request: &Message) {
        if request.method().is_some_and(refreshes_target) {
            self.refresh_target(request);
        }
    }

    /// Takes in that we have sent the 2xx for which there had been a provisional response.
    pub fn confirm(&mut self) {
        self.is_early = false;
    }

    fn refresh_target(&mut self, message: &Message) {
        if let Some(uri) = contact_uri(message) {
            self.remote_target = uri;
        }
    }

    /// What all requests of the dialog have in common.
    fn follow(&self, method: &Method, number: u32) -> Message {
        let (request_uri, routes) = self.way();
        let mut request = Message::request(method.clone(), request_uri);
        request.push_back(Name::MaxForwards, "70");
        for route in routes {
            request.push_back(Name::Route, format!("<{route}>"));
        }
        let address = |uri: &str, tag: Option<&str>| match tag {
            Some(tag) => format!("<{uri}>;tag={tag}"),
            None => format!("<{uri}>"),
        };
        let from = address(&self.local_uri, Some(&self.local_tag));
        request.push_back(Name::From, from);
        let to = address(&self.remote_uri, self.remote_tag());
        request.push_back(Name::To, to);
        request.push_back(Name::CallId, &self.call_id);
        request.push_back(Name::CSeq, format!("{number} {method}"));
        request
    }

    /// The Request-URI and the Route values (section 12.2.1.1). A first proxy without `lr` is a
    /// strict router: it is addressed in the Request-URI, and the peer in the last Route.
    fn way(&self) -> (&str, Vec<&str>) {
        let routes = self.route_set.iter().map(String::as_str);
        match self.route_set.first() {
            Some(first) if !is_loose_router(first) => {
                let routes = routes.skip(1).chain([self.remote_target.as_str()]);
                (in_request_line(first).unwrap_or(first), routes.collect())
            }
            _ => (&self.remote_target, routes.collect()),
        }
    }
}

/// Whether the response makes an early dialog, or else a confirmed one; `None` where it makes none.
fn makes_early_dialog(response: &Message) -> Option<bool> {
    let has_tag = response.to()?.tag().is_some();
    match response.status()? {
        101..200 if has_tag => Some(true),
        200..300 => Some(false),
        _ => None,
    }
}

/// Whether a request of this method changes where its sender is reached: INVITE (RFC 3261 section
/// 12.2), UPDATE (RFC 3311), SUBSCRIBE and NOTIFY (RFC 6665) and REFER (RFC 3515).
pub fn refreshes_target(method: &Method) -> bool {
    matches!(
        method,
        Method::Invite | Method::Update | Method::Subscribe | Method::Notify | Method::Refer
    )
}

/// The URI by which the sender of a message is reached, as it may stand in a request line.
fn contact_uri(message: &Message) -> Option<String> {
    match message.contacts().next()? {
        Ok(Contact::Address(address)) => in_request_line(address.uri()).map(str::to_owned),
        Ok(Contact::All) | Err(_) => None,
    }
}

/// A SIP or SIPS URI without what may not stand in a request line (section 19.1.1, Table 1).
fn in_request_line(uri: &str) -> Option<&str> {
    Some(Uri::parse(uri).ok()?.as_sip()?.without_headers())
}

fn is_loose_router(uri: &str) -> bool {
    Uri::parse(uri).is_ok_and(|uri| {
        uri.as_sip()
            .is_some_and(|uri| uri.parameters().contains("lr"))
    })
}

fn is_sips(uri: &str) -> bool {
    Uri::parse(uri).is_ok_and(|uri| uri.as_sip().is_some_and(|uri| uri.is_secure()))
}

/// The URIs of a list of routes; what is no address is left out.
fn uris<'a>(routes: impl Iterator<Item = Result<NameAddr<'a>, NameAddrError>>) -> Vec<String> {
    routes
        .flatten()
        .map(|route| route.uri().to_owned())
        .collect()
}

#[cfg(test)]
mod tests;
