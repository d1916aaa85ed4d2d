//! The page itself: one document, which asks nobody but this server for anything.

use http_body_util::Full;
use hyper::Response;
use hyper::body::Bytes;
use hyper::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS,
};

const PAGE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// The page, with a policy under which nothing else than its own script and style can act.
pub(super) fn response() -> Response<Full<Bytes>> {
    let random: u128 = rand::random();
    let nonce = format!("{random:032x}");
    let page = PAGE
        .replace("{{nonce}}", &nonce)
        .replace("{{style}}", STYLE)
        .replace("{{script}}", SCRIPT);
    let policy = format!(
        "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; img-src data:; \
         connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    );
    let mut response = Response::new(Full::new(Bytes::from(page)));
    let headers = response.headers_mut();
    let mut insert = |name: HeaderName, value: &'static str| {
        headers.insert(name, HeaderValue::from_static(value));
    };
    insert(CONTENT_TYPE, "text/html; charset=utf-8");
    insert(CACHE_CONTROL, "no-store");
    insert(REFERRER_POLICY, "no-referrer");
    insert(X_CONTENT_TYPE_OPTIONS, "nosniff");
    // Digits and letters only: it is a value.
    if let Ok(policy) = HeaderValue::from_str(&policy) {
        headers.insert(CONTENT_SECURITY_POLICY, policy);
    }
    response
}
