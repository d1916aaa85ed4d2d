//! The HTTP listener of those who watch: `/metrics`, `/healthz`, `/readyz`, and documents of the server.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use http_listener::{HttpListener, Limits, host, is_address_or_localhost};
use hyper::body::Incoming;
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue, REFRESH};
use hyper::{Method, Request, Response, StatusCode};

/// What is watched: a handle that is cheap to clone.
pub trait Observed: Clone + Send + Sync + 'static {
    /// All metrics, in the text format of OpenMetrics 1.0 ([`write`](crate::write)).
    fn metrics(&self) -> impl Future<Output = String> + Send;

    /// Whether new work may be sent here.
    ///
    /// # Errors
    /// Why not, in a few words.
    fn readiness(&self) -> impl Future<Output = Result<(), &'static str>> + Send;

    /// Another document, by its path; none: there is no such.
    fn document(&self, path: &str) -> impl Future<Output = Option<Document>> + Send {
        let _ = path;
        std::future::ready(None)
    }
}

/// A document of a server beside its metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// Its media type.
    pub media_type: &'static str,
    /// What is in it.
    pub content: String,
    /// After how many seconds a browser asks for it again.
    pub refresh: Option<u32>,
}

const LIMITS: Limits = Limits {
    connections: 16,
    connections_per_peer: 8,
    header_time: Duration::from_secs(10),
    connection_time: Duration::from_secs(60),
};

/// The media type of OpenMetrics text, which Prometheus reads.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The address cannot be listened on.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address} for metrics: {error}")]
pub struct BindError {
    address: SocketAddr,
    error: io::Error,
}

/// A listening socket that serves nobody yet.
#[derive(Debug)]
pub struct MetricsListener {
    listener: HttpListener,
    /// The names by which it may be asked, beside addresses and `localhost`.
    hosts: Vec<String>,
}

impl MetricsListener {
    /// Listens, for requests to an address, to `localhost`, or to one of these names.
    ///
    /// # Errors
    /// The address is in use, is none of this host's, or needs a privilege.
    pub async fn bind(
        address: SocketAddr,
        hosts: Vec<String>,
    ) -> Result<MetricsListener, BindError> {
        let failed = |error| BindError { address, error };
        let listener = HttpListener::bind(address).await.map_err(failed)?;
        Ok(MetricsListener { listener, hosts })
    }

    /// The address, with the port that the system chose.
    pub fn address(&self) -> SocketAddr {
        self.listener.address()
    }

    /// Serves until it is dropped.
    pub async fn serve(self, observed: impl Observed) {
        let hosts: Arc<[String]> = self.hosts.into();
        let answer = move |request: Request<Incoming>| {
            let (observed, hosts) = (observed.clone(), hosts.clone());
            async move { answer(&request, &hosts, &observed).await }
        };
        self.listener.serve(LIMITS, answer).await;
    }
}

async fn answer(
    request: &Request<Incoming>,
    hosts: &[String],
    observed: &impl Observed,
) -> Response<Full<Bytes>> {
    let is_own = |name: &str| {
        is_address_or_localhost(name) || hosts.iter().any(|own| own.eq_ignore_ascii_case(name))
    };
    // Who sends no Host is no browser.
    if !host(request).is_none_or(is_own) {
        let what = "this Host is not served: ask by address, by localhost, or by a name in metrics.hosts\n";
        return text(StatusCode::FORBIDDEN, what);
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let mut response = text(StatusCode::METHOD_NOT_ALLOWED, "only GET is allowed\n");
        let allowed = HeaderValue::from_static("GET, HEAD");
        response.headers_mut().insert(ALLOW, allowed);
        return response;
    }
    match request.uri().path() {
        "/metrics" => {
            let mut response = text(StatusCode::OK, observed.metrics().await);
            let kind = HeaderValue::from_static(OPEN_METRICS);
            response.headers_mut().insert(CONTENT_TYPE, kind);
            response
        }
        // That this is said is enough.
        "/healthz" => text(StatusCode::OK, "ok\n"),
        "/readyz" => match observed.readiness().await {
            Ok(()) => text(StatusCode::OK, "ready\n"),
            Err(reason) => text(StatusCode::SERVICE_UNAVAILABLE, format!("{reason}\n")),
        },
        path => match observed.document(path).await {
            Some(document) => document.into_response(),
            None => text(
                StatusCode::NOT_FOUND,
                "there is no such page; there are /metrics, /healthz and /readyz\n",
            ),
        },
    }
}

impl Document {
    fn into_response(self) -> Response<Full<Bytes>> {
        let mut response = text(StatusCode::OK, self.content);
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(self.media_type));
        if let Some(seconds) = self.refresh {
            headers.insert(REFRESH, HeaderValue::from(seconds));
        }
        response
    }
}

fn text(status: StatusCode, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    headers.insert(CONTENT_TYPE, plain);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
