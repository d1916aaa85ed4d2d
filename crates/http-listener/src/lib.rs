//! Driver: a small HTTP listener for those who watch, which few connections cannot stall.
//!
//! Anybody who reaches it may open connections and send half a request. So there are few slots, each peer has a share
//! of them, headers have to come in time, and where all slots are taken the connection that has waited longest for a
//! request gives way. [`host`] tells requests that a page of somebody else has made a browser send (DNS rebinding).
#![forbid(unsafe_code)]

mod slots;

use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::HOST;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};

use slots::{ConnectionSlot, ConnectionSlots};

/// What a listener bears.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// How many connections are served at a time.
    pub connections: usize,
    /// How many of them one peer may have: an IPv4 address, or an IPv6 prefix of 64 bits.
    pub connections_per_peer: usize,
    /// How long the header of a request may take to arrive.
    pub header_time: Duration,
    /// How long a connection may last.
    pub connection_time: Duration,
}

/// A listening socket that serves nobody yet.
#[derive(Debug)]
pub struct HttpListener {
    listener: TcpListener,
    address: SocketAddr,
}

impl HttpListener {
    /// Listens. Port 0 lets the system choose.
    ///
    /// # Errors
    ///
    /// The address is in use, is none of this host's, or needs a privilege.
    pub async fn bind(address: SocketAddr) -> io::Result<HttpListener> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        Ok(HttpListener { listener, address })
    }

    /// The address, with the port that the system chose.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until it is dropped.
    pub async fn serve<A, F>(self, limits: Limits, answer: A)
    where
        A: Fn(Request<Incoming>) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Response<Full<Bytes>>> + Send + 'static,
    {
        let slots = Arc::new(ConnectionSlots::new(limits));
        loop {
            match self.listener.accept().await {
                Ok((stream, peer)) => {
                    // Where nobody gives way, dropping it closes it.
                    let Some(slot) = slots.take(peer.ip()) else {
                        continue;
                    };
                    let answer = answer.clone();
                    tokio::spawn(async move {
                        tokio::select! {
                            // It is closed in any case; why is of no interest.
                            _ = tokio::time::timeout(
                                limits.connection_time,
                                converse(stream, limits, &slot, answer),
                            ) => {}
                            () = slot.displaced() => {}
                        }
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, address = %self.address, "cannot accept a connection");
                    // Out of descriptors: some will be free soon.
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }
}

async fn converse<A, F>(
    stream: TcpStream,
    limits: Limits,
    slot: &ConnectionSlot,
    answer: A,
) -> Result<(), hyper::Error>
where
    A: Fn(Request<Incoming>) -> F,
    F: Future<Output = Response<Full<Bytes>>>,
{
    let service = service_fn(|request| {
        let answered = answer(request);
        async {
            let _busy = slot.busy();
            Ok::<_, Infallible>(answered.await)
        }
    });
    hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_time)
        .serve_connection(TokioIo::new(stream), service)
        .await
}

/// By which name a request wants to be served: its Host, without the port. A page of somebody else whose name leads
/// here has a browser send that name. `None`: there is no Host, which no browser leaves out.
pub fn host<B>(request: &Request<B>) -> Option<&str> {
    let host = request.headers().get(HOST)?.to_str().unwrap_or_default();
    Some(match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|digit| digit.is_ascii_digit()) => name,
        _ => host,
    })
}

/// Whether a host is an address, or a name of loopback: nobody else can make these lead here.
pub fn is_address_or_localhost(host: &str) -> bool {
    let inside = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'));
    let is_address = match inside {
        Some(inside) => inside.parse::<Ipv6Addr>().is_ok(),
        None => host.parse::<Ipv4Addr>().is_ok(),
    };
    is_address || host.eq_ignore_ascii_case("localhost")
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[test]
    fn the_host_of_a_request_is_told_from_its_port() {
        let named = |host: &str| {
            let request = Request::builder().header(HOST, host).body(());
            super::host(&request.expect("a request")).map(str::to_owned)
        };
        for (host, name) in [
            ("localhost", "localhost"),
            ("example.org:9090", "example.org"),
            ("[::1]:80", "[::1]"),
            ("[::1]", "[::1]"),
        ] {
            assert_eq!(named(host).as_deref(), Some(name));
        }
        assert_eq!(super::host(&Request::new(())), None);
    }

    #[test]
    fn addresses_and_localhost_are_no_names_of_others() {
        for own in [
            "localhost",
            "LocalHost",
            "127.0.0.1",
            "192.0.2.1",
            "[::1]",
            "[2001:db8::1]",
        ] {
            assert!(is_address_or_localhost(own), "{own}");
        }
        for foreign in [
            "example.org",
            "localhost.example.org",
            "",
            "127.0.0.1.example.org",
            "[x]",
            "::1",
        ] {
            assert!(!is_address_or_localhost(foreign), "{foreign}");
        }
    }

    const LIMITS: Limits = Limits {
        connections: 4,
        connections_per_peer: 3,
        header_time: Duration::from_secs(60),
        connection_time: Duration::from_secs(60),
    };

    async fn listening() -> SocketAddr {
        let address = "127.0.0.1:0".parse().expect("an address");
        let listener = HttpListener::bind(address).await.expect("a port");
        let address = listener.address();
        let served = Arc::new(AtomicUsize::new(0));
        tokio::spawn(listener.serve(LIMITS, move |_| {
            let number = served.fetch_add(1, Relaxed);
            async move { Response::new(Full::new(Bytes::from(format!("{number}\n")))) }
        }));
        address
    }

    async fn ask(address: SocketAddr) -> String {
        let mut stream = TcpStream::connect(address).await.expect("it listens");
        let request = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        stream.write_all(request).await.expect("it reads");
        let mut answer = String::new();
        stream
            .read_to_string(&mut answer)
            .await
            .expect("it answers");
        answer
    }

    /// More half requests than there are slots, from as many addresses as one likes: whoever asks is answered.
    #[tokio::test]
    async fn half_requests_stall_nobody() {
        let address = listening().await;
        let mut stalling = Vec::new();
        for number in 0..40_u8 {
            let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
            let source = SocketAddr::from(([127, 0, 0, 1 + number % 7], 0));
            socket.bind(source).expect("an address of loopback");
            let mut stream = socket.connect(address).await.expect("it listens");
            // One that has been displaced takes nothing.
            let _ = stream.write_all(b"GET / HTTP/1.1\r\nHost: localh").await;
            stalling.push(stream);
        }
        for _ in 0..3 {
            assert!(ask(address).await.starts_with("HTTP/1.1 200"));
        }
        // The oldest ones have given way.
        let first = stalling.first_mut().expect("a connection");
        let mut octets = [0; 1];
        let read = tokio::time::timeout(Duration::from_secs(10), first.read(&mut octets)).await;
        assert!(matches!(read, Ok(Ok(0) | Err(_))));
    }
}
