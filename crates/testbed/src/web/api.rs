//! From HTTP to the control of the network.

use std::path::Path;

use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::{Method, Request, Response, StatusCode};
use serde_json::Value;

use super::{REQUEST_TIME, error, json};
use crate::control::{Client, ClientError, Directions, Request as Asked};
use crate::{RuleWords, Words, presets};

/// Longest body of a request, in bytes.
const LONGEST_BODY: usize = 64 << 10;

/// Why a request is not understood.
type Refusal = (StatusCode, String);

/// Answers a request for what is beneath `/api/`.
pub(super) async fn answer(
    control: &Path,
    path: &str,
    request: Request<Incoming>,
) -> Response<Full<Bytes>> {
    let method = request.method().clone();
    let body = Limited::new(request.into_body(), LONGEST_BODY).collect();
    let body = match tokio::time::timeout(REQUEST_TIME, body).await {
        Ok(Ok(body)) => body,
        Ok(Err(refused)) if refused.is::<LengthLimitError>() => {
            let what = format!("a body has at most {LONGEST_BODY} bytes");
            return error(StatusCode::PAYLOAD_TOO_LARGE, &what);
        }
        Ok(Err(broken)) => {
            let what = format!("the body is broken: {broken}");
            return error(StatusCode::BAD_REQUEST, &what);
        }
        Err(_) => {
            let what = format!("a body has {} s to arrive", REQUEST_TIME.as_secs());
            return error(StatusCode::REQUEST_TIMEOUT, &what);
        }
    };
    if path == "presets" && method == Method::GET {
        let presets: Vec<_> = presets().iter().map(crate::Preset::words).collect();
        return json(
            StatusCode::OK,
            &serde_json::to_value(presets).unwrap_or_default(),
        );
    }
    let asked = match understood(&method, path, &body.to_bytes()) {
        Ok(asked) => asked,
        Err((status, text)) => return error(status, &text),
    };
    let control = control.to_owned();
    // The conversation blocks its thread, for microseconds.
    let answer =
        tokio::task::spawn_blocking(move || Client::connect(&control)?.ask::<Value>(&asked));
    match answer.await {
        Ok(Ok(value)) => json(StatusCode::OK, &value),
        Ok(Err(ClientError::Refused(text))) => error(StatusCode::BAD_REQUEST, &text),
        Ok(Err(ClientError::Connection(_))) => {
            error(StatusCode::BAD_GATEWAY, "the network is gone")
        }
        Ok(Err(other)) => error(StatusCode::BAD_GATEWAY, &other.to_string()),
        Err(_) => error(StatusCode::INTERNAL_SERVER_ERROR, "the answer was lost"),
    }
}

/// What a request asks for.
fn understood(method: &Method, path: &str, body: &[u8]) -> Result<Asked, Refusal> {
    let parts: Vec<String> = path.split('/').map(decoded).collect();
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    let replace = method == Method::PUT;
    match (method.as_str(), parts.as_slice()) {
        ("GET", ["network"]) => Ok(Asked::Show),
        ("GET", ["state"]) => Ok(Asked::State),
        ("PUT" | "PATCH", ["links", link, way @ ("both" | "forward" | "backward")]) => {
            Ok(Asked::SetLink {
                link: (*link).to_owned(),
                direction: match *way {
                    "forward" => Directions::Forward,
                    "backward" => Directions::Backward,
                    _ => Directions::Both,
                },
                words: parsed::<Words>(body)?,
                keep: !replace,
            })
        }
        ("POST", ["links", link, "cut"]) => Ok(Asked::Cut {
            link: (*link).to_owned(),
        }),
        ("POST", ["links", link, "heal"]) => Ok(Asked::Heal {
            link: (*link).to_owned(),
        }),
        ("POST", ["rules"]) => Ok(Asked::AddRule {
            rule: parsed::<RuleWords>(body)?,
            first: false,
        }),
        ("PUT" | "PATCH", ["rules", number]) => Ok(Asked::ChangeRule {
            number: rule_number(number)?,
            words: parsed::<Words>(body)?,
            replace,
        }),
        ("DELETE", ["rules", number]) => Ok(Asked::DeleteRule {
            number: rule_number(number)?,
        }),
        (_, ["network" | "state" | "presets" | "rules"] | ["rules", _] | ["links", _, _]) => Err((
            StatusCode::METHOD_NOT_ALLOWED,
            "this cannot be done with it".to_owned(),
        )),
        _ => Err((StatusCode::NOT_FOUND, "there is no such thing".to_owned())),
    }
}

fn rule_number(text: &str) -> Result<u64, Refusal> {
    text.parse()
        .map_err(|_| (StatusCode::NOT_FOUND, "a rule has a number".to_owned()))
}

fn parsed<T: serde::de::DeserializeOwned>(body: &[u8]) -> Result<T, Refusal> {
    serde_json::from_slice(body)
        .map_err(|error| (StatusCode::BAD_REQUEST, format!("invalid body: {error}")))
}

/// A part of a path without its percent signs (RFC 3986 section 2.1).
fn decoded(part: &str) -> String {
    let mut octets = Vec::with_capacity(part.len());
    let mut rest = part.as_bytes();
    while let [first, behind @ ..] = rest {
        let escaped = match rest {
            [b'%', high, low, ..] => {
                let digit = |octet: &u8| char::from(*octet).to_digit(16);
                digit(high)
                    .zip(digit(low))
                    .map(|(high, low)| high * 16 + low)
            }
            _ => None,
        };
        match escaped.and_then(|value| u8::try_from(value).ok()) {
            Some(octet) => {
                octets.push(octet);
                rest = &rest[3..];
            }
            None => {
                octets.push(*first);
                rest = behind;
            }
        }
    }
    String::from_utf8_lossy(&octets).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_say_what_is_asked_for() {
        let ask = |method: &str, path: &str, body: &str| {
            understood(
                &Method::from_bytes(method.as_bytes()).unwrap(),
                path,
                body.as_bytes(),
            )
        };
        assert_eq!(ask("GET", "state", ""), Ok(Asked::State));
        let cut = Asked::Cut {
            link: "left".to_owned(),
        };
        assert_eq!(ask("POST", "links/l%65ft/cut", ""), Ok(cut));
        let set = ask("PATCH", "links/left/forward", r#"{"delay":"5ms"}"#).unwrap();
        assert!(matches!(
            set,
            Asked::SetLink {
                keep: true,
                direction: Directions::Forward,
                ..
            }
        ));
        assert_eq!(
            ask("DELETE", "rules/7", ""),
            Ok(Asked::DeleteRule { number: 7 })
        );
        for (method, path, status) in [
            ("GET", "nothing", StatusCode::NOT_FOUND),
            ("GET", "links/left/middle", StatusCode::METHOD_NOT_ALLOWED),
            ("PUT", "links/left/middle", StatusCode::METHOD_NOT_ALLOWED),
            ("POST", "state", StatusCode::METHOD_NOT_ALLOWED),
            ("DELETE", "rules/x", StatusCode::NOT_FOUND),
            ("POST", "rules", StatusCode::BAD_REQUEST),
        ] {
            assert_eq!(
                ask(method, path, "{").unwrap_err().0,
                status,
                "{method} {path}"
            );
        }
    }

    #[test]
    fn percent_signs_that_escape_nothing_stay() {
        for (text, read) in [
            ("%41b", "Ab"),
            ("%4", "%4"),
            ("%zz", "%zz"),
            ("100%", "100%"),
        ] {
            assert_eq!(decoded(text), read);
        }
    }
}
