//! The client's side: answering the challenges of a response (RFC 3261 sections 22.2 and 22.3, RFC 8760
//! section 2.4).

use crate::{Message, Name};

use super::authorization::Authorization;
use super::challenge::Challenge;
use super::credentials::Account;

/// Puts into a request the answers to the challenges of the 401 or 407 to it: of each realm to the first
/// challenge that we understand. The request takes another CSeq number and branch before it is sent
/// again; that is left to the caller. `cnonce` is not to be foreseen by the server.
///
/// Returns whether sending it again can help: not where the server has refused this very password, and
/// not where it does not ask for any that could be given.
pub fn answer(
    request: &mut Message,
    response: &Message,
    account: &Account<'_>,
    cnonce: &str,
) -> bool {
    let mut answered = false;
    for (asked, given) in [
        (Name::WwwAuthenticate, Name::Authorization),
        (Name::ProxyAuthenticate, Name::ProxyAuthorization),
    ] {
        // Those that need no further look.
        let mut realms = Vec::new();
        for value in response.headers(asked) {
            let Ok(challenge) = Challenge::parse(value) else {
                continue;
            };
            if realms.contains(&challenge.realm) {
                continue;
            }
            if is_refused(request, given, &challenge) {
                realms.push(challenge.realm);
                continue;
            }
            let (Some(method), Some(uri)) = (request.method(), request.request_uri()) else {
                return false;
            };
            let authorization = challenge
                .authorize(account, method.as_str(), uri, 1, cnonce)
                .to_string();
            remove_realm(request, given, &challenge.realm);
            request.push_back(given, authorization);
            realms.push(challenge.realm);
            answered = true;
        }
    }
    answered
}

/// Whether a challenge comes because the password was wrong: the request has had an answer to one of
/// this realm and algorithm, and its nonce was not too old (RFC 3261 section 22.1).
fn is_refused(request: &Message, given: Name<'_>, challenge: &Challenge<'_>) -> bool {
    !challenge.is_stale
        && request
            .headers(given)
            .filter_map(|value| Authorization::parse(value).ok())
            .any(|sent| {
                sent.realm == challenge.realm && sent.algorithm == Some(challenge.algorithm)
            })
}

/// Takes the credentials for a realm off a request.
fn remove_realm(request: &mut Message, given: Name<'_>, realm: &str) {
    request.retain(given, |value| {
        Authorization::parse(value).map_or(true, |sent| sent.realm != realm)
    });
}
