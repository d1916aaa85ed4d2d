//! The HTTP listener of those who watch: `/metrics`, `/healthz`, `/readyz`.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use super::snapshot::Observer;

/// How many connections are served at a time; others wait.
const MAXIMUM_CONNECTIONS: usize = 16;

/// How long a connection may stay open, and a request take to arrive: whoever holds one must not shut
/// out others.
const CONNECTION_TIME: Duration = Duration::from_secs(60);
const REQUEST_TIME: Duration = Duration::from_secs(10);

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
    listener: TcpListener,
    address: SocketAddr,
}

impl MetricsListener {
    /// Listens.
    ///
    /// # Errors
    /// The address is in use, is none of this host's, or needs a privilege.
    pub async fn bind(address: SocketAddr) -> Result<MetricsListener, BindError> {
        let failed = |error| BindError { address, error };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(MetricsListener { listener, address })
    }

    /// The address, with the port that the system chose.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until it is dropped.
    pub async fn serve(self, observer: Observer) {
        let free = Arc::new(Semaphore::new(MAXIMUM_CONNECTIONS));
        loop {
            let Ok(place) = Arc::clone(&free).acquire_owned().await else {
                return;
            };
            match self.listener.accept().await {
                Ok((stream, _)) => {
                    let observer = observer.clone();
                    tokio::spawn(async move {
                        // It is closed in any case; why is of no interest.
                        let _ =
                            tokio::time::timeout(CONNECTION_TIME, converse(stream, observer)).await;
                        drop(place);
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection for metrics");
                    // Out of descriptors: some will be free soon.
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }
}

async fn converse(stream: TcpStream, observer: Observer) -> Result<(), hyper::Error> {
    let service = service_fn(move |request| {
        let observer = observer.clone();
        async move { Ok::<_, Infallible>(answer(&request, &observer).await) }
    });
    hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(REQUEST_TIME)
        .serve_connection(TokioIo::new(stream), service)
        .await
}

async fn answer(request: &Request<Incoming>, observer: &Observer) -> Response<Full<Bytes>> {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let mut response = text(StatusCode::METHOD_NOT_ALLOWED, "only GET is allowed\n");
        let allowed = HeaderValue::from_static("GET, HEAD");
        response.headers_mut().insert(ALLOW, allowed);
        return response;
    }
    match request.uri().path() {
        "/metrics" => {
            let mut response = text(StatusCode::OK, observer.metrics().await);
            let kind = HeaderValue::from_static(OPEN_METRICS);
            response.headers_mut().insert(CONTENT_TYPE, kind);
            response
        }
        "/healthz" => text(StatusCode::OK, "ok\n"),
        "/readyz" => match observer.readiness() {
            Ok(()) => text(StatusCode::OK, "ready\n"),
            Err(reason) => text(StatusCode::SERVICE_UNAVAILABLE, format!("{reason}\n")),
        },
        _ => text(
            StatusCode::NOT_FOUND,
            "only /metrics, /healthz and /readyz exist\n",
        ),
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
