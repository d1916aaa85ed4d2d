//! The page of a network, and the HTTP interface beneath it.
//!
//! | request | does |
//! |---|---|
//! | `GET /` | the page |
//! | `GET /api/network` | what the network is ([`Description`](crate::control::Description)) |
//! | `GET /api/state` | how links and rules are now ([`State`](crate::control::State)) |
//! | `GET /api/presets` | lines with known figures |
//! | `PUT /api/links/NAME/both`, `…/forward`, `…/backward` | treats packets as the words of the body say; `PATCH` leaves what they do not tell |
//! | `POST /api/links/NAME/cut`, `…/heal` | cuts a link, heals it |
//! | `POST /api/rules` | adds the rule of the body; the answer has its `number` |
//! | `PUT /api/rules/NUMBER` | lets a rule do what the words of the body say; `PATCH` leaves what they do not tell |
//! | `DELETE /api/rules/NUMBER` | deletes a rule |
//!
//! Everything beneath `/api` needs the header `Authorization: Bearer TOKEN`, and answers JSON: what was asked for, or
//! `{"error": "…"}`. It is on loopback alone.

mod api;
mod page;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use http_listener::{HttpListener, Limits, host};
use hyper::body::{Bytes, Incoming};
use hyper::header::{AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use subtle::ConstantTimeEq;

const LIMITS: Limits = Limits {
    connections: 32,
    connections_per_peer: 16,
    header_time: REQUEST_TIME,
    // A page that is open makes a new one.
    connection_time: Duration::from_secs(600),
};

/// How long the header of a request may take to arrive, and how long its body.
const REQUEST_TIME: Duration = Duration::from_secs(10);

/// The page of a network, ready to be served.
#[derive(Debug)]
pub struct Web {
    listener: HttpListener,
    site: Arc<Site>,
}

/// What all connections share.
#[derive(Debug)]
struct Site {
    control: PathBuf,
    token: String,
    /// The address, as requests name it.
    host: String,
}

/// The page cannot be served there.
#[derive(Debug, thiserror::Error)]
pub enum WebError {
    /// Others could reach the address.
    #[error(
        "{0} is not an address of loopback: the page changes the network, and is for this machine only"
    )]
    NotLoopback(SocketAddr),
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {error}")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// Why.
        error: io::Error,
    },
}

impl Web {
    /// Listens on an address of loopback, for the network that is controlled by that socket. Port 0 lets the system
    /// choose.
    ///
    /// # Errors
    ///
    /// It is none of loopback, or is in use.
    pub async fn bind(address: SocketAddr, control: PathBuf) -> Result<Web, WebError> {
        if !address.ip().is_loopback() {
            return Err(WebError::NotLoopback(address));
        }
        let failed = |error| WebError::Bind { address, error };
        let listener = HttpListener::bind(address).await.map_err(failed)?;
        let random: u128 = rand::random();
        let token = format!("{random:032x}");
        Ok(Web {
            listener,
            site: Arc::new(Site {
                control,
                token,
                host: match address.ip() {
                    IpAddr::V4(address) => address.to_string(),
                    IpAddr::V6(address) => format!("[{address}]"),
                },
            }),
        })
    }

    /// Where the page is, with the token: who knows this address may change the network.
    pub fn url(&self) -> String {
        format!("http://{}/?token={}", self.address(), self.site.token)
    }

    /// The address that is listened on.
    pub fn address(&self) -> SocketAddr {
        self.listener.address()
    }

    /// What a program sends as `Authorization: Bearer TOKEN`.
    pub fn token(&self) -> &str {
        &self.site.token
    }

    /// Serves until it is dropped.
    pub async fn serve(self) {
        let site = self.site;
        let answer = move |request| {
            let site = Arc::clone(&site);
            async move { site.answer(request).await }
        };
        self.listener.serve(LIMITS, answer).await;
    }
}

impl Site {
    async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        if !self.is_named(&request) {
            return error(
                StatusCode::FORBIDDEN,
                "this page is served to localhost only",
            );
        }
        let path = request.uri().path();
        if path == "/" {
            return match *request.method() {
                Method::GET | Method::HEAD => page::response(),
                _ => error(StatusCode::METHOD_NOT_ALLOWED, "only GET is allowed"),
            };
        }
        let Some(path) = path.strip_prefix("/api/").map(str::to_owned) else {
            return error(StatusCode::NOT_FOUND, "only / and /api/ exist");
        };
        if !self.is_authorized(&request) {
            let what =
                "the token is missing or wrong: open the address that tandem net web printed";
            return error(StatusCode::UNAUTHORIZED, what);
        }
        api::answer(&self.control, &path, request).await
    }

    fn is_authorized(&self, request: &Request<Incoming>) -> bool {
        let given = request.headers().get(AUTHORIZATION);
        let given = given.and_then(|value| value.as_bytes().strip_prefix(b"Bearer "));
        // The time that it takes tells nothing of the token.
        given.is_some_and(|given| given.ct_eq(self.token.as_bytes()).into())
    }

    /// Whether a request was meant for this machine by its name: a page of somebody else whose name leads here says
    /// another one.
    fn is_named(&self, request: &Request<Incoming>) -> bool {
        let own = ["127.0.0.1", "localhost", "[::1]", &self.host];
        host(request).is_some_and(|name| own.contains(&name))
    }
}

fn json(status: StatusCode, body: &serde_json::Value) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body.to_string())));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    let kind = HeaderValue::from_static("application/json");
    headers.insert(CONTENT_TYPE, kind);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

fn error(status: StatusCode, text: &str) -> Response<Full<Bytes>> {
    json(status, &serde_json::json!({ "error": text }))
}
