//! Phones that register while their user is being called (RFC 3261 section 16.5).

use std::sync::Arc;
use std::time::Duration;

use proxy::core::Policy;
use proxy::location::Url;
use sip::{Method, Name, Transport};

use crate::server::phone::{Phone, serve_with};

#[tokio::test]
async fn a_phone_that_registers_during_a_call_is_called_by_every_store() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = Url::sqlite(directory.path().join("users.db").to_str().expect("UTF-8"));
    for url in [Url::memory(), file] {
        let listeners = ["udp:127.0.0.1:0", "tcp:127.0.0.1:0", "sctp:127.0.0.1:0"];
        let server = serve_with(&listeners, |config| {
            config.location.url = url;
            let mut policy = Policy::default();
            policy.forwarding.look_again = Some(Duration::from_millis(100));
            config.policy = Arc::new(policy);
        })
        .await;
        let mut alice = Phone::register(&server, "alice", Transport::Udp).await;
        let mut desk = Phone::register(&server, "bob", Transport::Tcp).await;
        let uri = desk.uri();
        let invite = alice
            .request(Method::Invite, &uri, &uri, "call")
            .with(Name::Contact, format!("<{}>", alice.contact()));
        alice.send(invite);
        let first = desk.request_of(Method::Invite).await;
        desk.send(desk.answer(&first, 180));
        assert_eq!(alice.response("INVITE").await.status(), Some(180));

        // Its Call-ID may lead it to the other worker.
        let mut mobile = Phone::open(&server, "bob", Transport::Sctp)
            .await
            .expect("a flow");
        let mut registration = mobile.registration();
        registration.replace(Name::CallId, "of-the-mobile");
        mobile.send(registration);
        assert_eq!(mobile.response("REGISTER").await.status(), Some(200));
        let second = mobile.request_of(Method::Invite).await;
        assert_eq!(second.request_uri(), Some(mobile.contact().as_str()));
        mobile.send(mobile.answer(&second, 200));
        let ok = alice.response("INVITE, final").await;
        assert_eq!(ok.status(), Some(200));
        alice.send(alice.within(Method::Ack, &ok, true));
        mobile.request_of(Method::Ack).await;
        desk.request_of(Method::Cancel).await;
        assert_eq!(server.statistics().await.proxy.targets_added, 1);
        server.shutdown().await;
    }
}
