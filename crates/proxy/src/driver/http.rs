//! A worker's way to servers that plugins ask over HTTP.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::Request;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use tokio::sync::mpsc;

use crate::core::{Answer, HttpRequest, HttpResponse, QueryId};

/// Asks over HTTP. Connections are kept for the next request.
pub(super) struct HttpClient {
    /// It is made when it is needed: that takes reading the authorities of the system.
    client: Option<Client<HttpsConnector<HttpConnector>, Full<Bytes>>>,
    timeout: Duration,
    sender: mpsc::Sender<(QueryId, Answer)>,
    receiver: mpsc::Receiver<(QueryId, Answer)>,
}

/// How many answers wait to be taken.
const ANSWER_QUEUE: usize = 256;

/// How long a response may be.
const LONGEST_RESPONSE: usize = 1 << 20;

type AnyError = Box<dyn std::error::Error + Send + Sync>;

impl HttpClient {
    /// A client whose requests end after `timeout`, when nobody waits for them any more. Their number is bounded by that, and
    /// by the core, which asks only so much at a time.
    pub(super) fn new(timeout: Duration) -> HttpClient {
        let (sender, receiver) = mpsc::channel(ANSWER_QUEUE);
        HttpClient {
            client: None,
            timeout,
            sender,
            receiver,
        }
    }

    /// Asks; the answer comes through [`next`](HttpClient::next).
    pub(super) fn ask(&mut self, id: QueryId, request: HttpRequest) {
        let client = self.client.get_or_insert_with(new_client).clone();
        let (sender, timeout) = (self.sender.clone(), self.timeout);
        tokio::spawn(async move {
            let response = async {
                let url = request.url.clone();
                let response = match fetch(&client, request).await {
                    Ok(response) => Answer::Http(response),
                    Err(error) => {
                        tracing::debug!(url = ?url, error = %error, "no answer over HTTP");
                        Answer::Failed
                    }
                };
                // Without a receiver the server has stopped.
                let _ = sender.send((id, response)).await;
            };
            // Whoever has asked has given up by then.
            let _ = tokio::time::timeout(timeout, response).await;
        });
    }

    /// The next answer.
    pub(super) async fn next(&mut self) -> Option<(QueryId, Answer)> {
        self.receiver.recv().await
    }

    /// The next answer, if there is one now.
    pub(super) fn next_now(&mut self) -> Option<(QueryId, Answer)> {
        self.receiver.try_recv().ok()
    }
}

impl fmt::Debug for HttpClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpClient").finish_non_exhaustive()
    }
}

fn new_client() -> Client<HttpsConnector<HttpConnector>, Full<Bytes>> {
    // Without authorities no server can be verified, and plain HTTP is left.
    let connector = match HttpsConnectorBuilder::new().with_native_roots() {
        Ok(connector) => connector,
        Err(error) => {
            tracing::warn!(%error, "there are no authorities of the system: https fails");
            HttpsConnectorBuilder::new().with_tls_config(
                rustls::ClientConfig::builder()
                    .with_root_certificates(rustls::RootCertStore::empty())
                    .with_no_client_auth(),
            )
        }
    };
    let connector = connector.https_or_http().enable_http1().build();
    Client::builder(TokioExecutor::new()).build(connector)
}

async fn fetch(
    client: &Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    request: HttpRequest,
) -> Result<HttpResponse, AnyError> {
    let mut builder = Request::builder()
        .method(&*request.method)
        .uri(&*request.url)
        .header("User-Agent", "tandem");
    for (name, value) in &request.fields {
        builder = builder.header(&**name, &**value);
    }
    let request = builder.body(Full::new(request.body))?;
    let response = client.request(request).await?;
    let status = response.status().as_u16();
    let body = Limited::new(response.into_body(), LONGEST_RESPONSE);
    let body = body.collect().await?.to_bytes();
    Ok(HttpResponse { status, body })
}
