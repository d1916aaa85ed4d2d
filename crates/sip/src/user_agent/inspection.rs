//! What a user agent server looks at before it processes a request (RFC 3261 section 8.2).

use crate::{Message, Method, Name, Uri};

use super::UserAgent;

/// The only kind of body that is understood.
const CONTENT_TYPE: &str = "application/sdp";

impl UserAgent {
    /// Inspects a request in the order of section 8.2: its method, the scheme of its Request-URI, the
    /// extensions that it requires, its body. A CANCEL or ACK is not refused for an extension or a
    /// body. Whether the user is known, and whether the request is one of a dialog, is for the caller
    /// to see.
    ///
    /// # Errors
    ///
    /// The response by which the request is to be refused, the tag being given to its To. (An ACK
    /// is never refused.)
    pub fn inspect(&self, request: &Message, tag: &str) -> Result<(), Box<Message>> {
        let refuse = |status, reason| self.response(request, status, reason, tag);
        match request.method() {
            Some(Method::Ack) => return Ok(()),
            Some(Method::Invite | Method::Bye | Method::Cancel | Method::Options) => {}
            _ => return Err(refuse(405, "Method Not Allowed").into()),
        }
        let uri = request.request_uri().map(Uri::parse);
        if !matches!(uri, Some(Ok(Uri::Sip(_)))) {
            return Err(refuse(416, "Unsupported URI Scheme").into());
        }
        if request.method() == Some(&Method::Cancel) {
            return Ok(());
        }
        if request.contains(Name::Require) {
            let mut response = refuse(420, "Bad Extension");
            // None is understood.
            for option in request.text_values(Name::Require) {
                response.push_back(Name::Unsupported, option);
            }
            return Err(response.into());
        }
        if !request.body().is_empty() && !is_understood(request) {
            let response = refuse(415, "Unsupported Media Type");
            return Err(response.with(Name::Accept, CONTENT_TYPE).into());
        }
        Ok(())
    }
}

/// Whether a body is a session description, plainly written, or need not be understood
/// (Content-Disposition, section 20.11).
fn is_understood(request: &Message) -> bool {
    let (media_type, _) = split_parameters(request.header(Name::ContentType));
    let is_plain = request
        .text_values(Name::ContentEncoding)
        .all(|encoding| encoding.eq_ignore_ascii_case("identity"));
    let (_, parameters) = split_parameters(request.header(Name::ContentDisposition));
    let is_optional = parameters
        .split(';')
        .filter_map(|parameter| parameter.split_once('='))
        .any(|(name, value)| {
            name.trim().eq_ignore_ascii_case("handling")
                && value.trim().eq_ignore_ascii_case("optional")
        });
    is_optional || is_plain && media_type.eq_ignore_ascii_case(CONTENT_TYPE)
}

/// A value and the parameters behind it.
fn split_parameters(value: Option<&str>) -> (&str, &str) {
    let value = value.unwrap_or_default();
    let (value, parameters) = value.split_once(';').unwrap_or((value, ""));
    (value.trim(), parameters)
}
