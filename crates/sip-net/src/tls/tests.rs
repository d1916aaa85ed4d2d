//! The settings as rustls gets them. What goes over connections is tested in `tests/tls*.rs`.

use std::fs;
use std::path::PathBuf;

use rcgen::{CertificateParams, KeyPair};
use tempfile::TempDir;

use super::*;

struct Files {
    directory: TempDir,
}

impl Files {
    fn new() -> Files {
        Files {
            directory: TempDir::new().expect("a directory"),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// A self-signed certificate for a name.
    fn certificate(&self, name: &str) -> CertificateFiles {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
        let certificate = params.self_signed(&key).expect("a certificate");
        let files = CertificateFiles {
            certificate: self.path(&format!("{name}.pem")),
            key: self.path(&format!("{name}.key")),
        };
        fs::write(&files.certificate, certificate.pem()).expect("written");
        fs::write(&files.key, key.serialize_pem()).expect("written");
        files
    }
}

fn listener(text: &str) -> Listen {
    text.parse().expect("a listener")
}

fn config(certificates: Vec<CertificateFiles>) -> TlsConfig {
    TlsConfig {
        server: TlsServerConfig {
            certificates,
            ..TlsServerConfig::default()
        },
        ..TlsConfig::default()
    }
}

#[test]
fn a_listener_without_a_certificate_is_refused() {
    let refused = Tls::new(TlsConfig::default(), &[listener("tls:127.0.0.1:0")]);
    assert_eq!(
        refused.err(),
        Some(TlsError::NoCertificate(listener("tls:127.0.0.1:0")))
    );
    assert!(Tls::new(TlsConfig::default(), &[listener("tcp:127.0.0.1:0")]).is_ok());
}

#[test]
fn what_is_wrong_with_a_file_is_told() {
    let files = Files::new();
    let good = files.certificate("a.example");
    let other = files.certificate("b.example");
    let listeners = [listener("tls:127.0.0.1:0")];
    let problem = |certificate: PathBuf, key: PathBuf| {
        let config = config(vec![CertificateFiles { certificate, key }]);
        Tls::new(config, &listeners)
            .expect_err("refused")
            .to_string()
    };
    let missing = problem(files.path("none.pem"), good.key.clone());
    assert!(missing.contains("none.pem"), "{missing}");
    let swapped = problem(good.key.clone(), good.certificate.clone());
    assert!(
        swapped.ends_with("a.example.key: no certificate in it"),
        "{swapped}"
    );
    let no_key = problem(good.certificate.clone(), good.certificate.clone());
    assert!(no_key.contains("no private key in it"), "{no_key}");
    let mismatch = problem(good.certificate.clone(), other.key);
    assert!(mismatch.contains("not the certificate's key"), "{mismatch}");
    fs::write(files.path("empty.pem"), "").expect("written");
    let authorities = TlsConfig {
        client: TlsClientConfig {
            authorities: Authorities::File(files.path("empty.pem")),
            ..TlsClientConfig::default()
        },
        ..TlsConfig::default()
    };
    let empty = Tls::new(authorities, &[]).expect_err("refused").to_string();
    assert!(
        empty.ends_with("empty.pem: no certificate in it"),
        "{empty}"
    );
}

#[test]
fn a_listener_may_have_settings_of_its_own() {
    let files = Files::new();
    let (common, own) = (listener("tls:127.0.0.1:0"), listener("wss:127.0.0.1:0"));
    let mut config = config(vec![files.certificate("a.example")]);
    config.listeners.push((
        own,
        TlsServerConfig {
            certificates: Vec::new(),
            ..TlsServerConfig::default()
        },
    ));
    assert!(Tls::new(config.clone(), &[common]).is_ok());
    let refused = Tls::new(config, &[common, own]);
    assert_eq!(refused.err(), Some(TlsError::NoCertificate(own)));
}

#[test]
fn changed_files_are_read_and_broken_ones_left() {
    let files = Files::new();
    let certificate = files.certificate("a.example");
    let listen = listener("tls:127.0.0.1:0");
    let tls = Tls::new(config(vec![certificate.clone()]), &[listen]).expect("good files");
    let first = tls.server_config(listen).expect("a listener");
    assert_eq!(tls.reload_changed(), Ok(false));
    assert!(Arc::ptr_eq(
        &first,
        &tls.server_config(listen).expect("a listener")
    ));

    files.certificate("a.example");
    assert_eq!(tls.reload_changed(), Ok(true));
    let second = tls.server_config(listen).expect("a listener");
    assert!(!Arc::ptr_eq(&first, &second));

    fs::write(&certificate.key, "no key").expect("written");
    assert!(tls.reload_changed().is_err());
    assert!(Arc::ptr_eq(
        &second,
        &tls.server_config(listen).expect("a listener")
    ));
    // It is told once, but to who wants these settings each time.
    assert_eq!(tls.reload_changed(), Ok(false));
    for _ in 0..2 {
        assert!(tls.set(config(vec![certificate.clone()])).is_err());
    }
}

#[test]
fn other_settings_are_taken_over_whole_or_not_at_all() {
    let files = Files::new();
    let (one, other) = (listener("tls:127.0.0.1:0"), listener("wss:127.0.0.1:0"));
    let of = |name: &str| TlsServerConfig {
        certificates: vec![files.certificate(name)],
        ..TlsServerConfig::default()
    };
    let older = TlsConfig {
        listeners: vec![(one, of("a.example")), (other, of("b.example"))],
        ..TlsConfig::default()
    };
    let tls = Tls::new(older.clone(), &[one, other]).expect("good files");
    let shown = |listen| tls.server_config(listen).expect("a listener");
    let before = [shown(one), shown(other)];
    tls.set(older.clone()).expect("the same");
    assert!(Arc::ptr_eq(&before[0], &shown(one)));

    let missing = TlsConfig {
        listeners: vec![
            (one, of("c.example")),
            (
                other,
                TlsServerConfig {
                    certificates: vec![CertificateFiles {
                        certificate: "/nowhere".into(),
                        key: "/nowhere".into(),
                    }],
                    ..TlsServerConfig::default()
                },
            ),
        ],
        ..TlsConfig::default()
    };
    assert!(matches!(tls.set(missing), Err(TlsError::File { .. })));
    assert!(Arc::ptr_eq(&before[0], &shown(one)));

    // One that is not named any more keeps what it has, and its files may go.
    let of_other = &older.listeners[1].1.certificates[0];
    fs::remove_file(&of_other.key).expect("removed");
    let newer = TlsConfig {
        listeners: vec![(one, of("c.example"))],
        ..TlsConfig::default()
    };
    tls.set(newer).expect("good files");
    assert!(!Arc::ptr_eq(&before[0], &shown(one)));
    assert!(Arc::ptr_eq(&before[1], &shown(other)));
    tls.reload().expect("read");
    assert!(Arc::ptr_eq(&before[1], &shown(other)));
    // Named again it is read again.
    assert!(tls.set(older).is_err());
}

#[tokio::test]
async fn other_authorities_are_believed_from_then_on() {
    let files = Files::new();
    let of = |name: &str| {
        let mut config = TlsConfig::default();
        config.client.authorities = Authorities::File(files.certificate(name).certificate);
        config
    };
    let tls = Arc::new(Tls::new(of("a.example"), &[]).expect("read"));
    let first = tls.client_config(Transport::Tls).await.expect("known");
    let mut newer = of("b.example");
    newer.client.insecure = true;
    tls.set(newer).expect("read");
    let second = tls.client_config(Transport::Tls).await.expect("known");
    assert!(!Arc::ptr_eq(&first, &second));
    // What has been proved counts by what was said at the start.
    assert!(!tls.source().config.client.insecure);
    // Those of the system wait until somebody wants them.
    tls.set(TlsConfig::default()).expect("nothing to read");
    assert!(tls.clients().is_none());
}

#[test]
fn a_server_is_asked_for_its_name_or_address() {
    let remote: SocketAddr = "192.0.2.1:5061".parse().expect("an address");
    let name = |text: &str| {
        let peer = Peer {
            name: Some(text.into()),
            ..Peer::default()
        };
        server_name(Some(&peer), remote).to_str().into_owned()
    };
    assert_eq!(name("example.com"), "example.com");
    assert_eq!(name("example.com."), "example.com");
    assert_eq!(name("[2001:db8::1]"), "2001:db8::1");
    assert_eq!(name("not a name"), "192.0.2.1");
    assert_eq!(server_name(None, remote).to_str(), "192.0.2.1");
}

#[test]
fn client_certificates_are_read_as_they_are_written() {
    for text in ["none", "request", "require"] {
        let choice: ClientCertificates = text.parse().expect(text);
        assert_eq!(choice.to_string(), text);
    }
    assert!("Require".parse::<ClientCertificates>().is_err());
}

#[tokio::test]
async fn that_authorities_cannot_be_read_is_remembered_until_files_are_read_again() {
    let files = Files::new();
    let authority = files.certificate("a.example").certificate;
    let mut config = TlsConfig::default();
    config.client.authorities = Authorities::File(authority.clone());
    let tls = Arc::new(Tls::new(config, &[]).expect("read"));
    let first = tls.client_config(Transport::Tls).await.expect("known");
    // As with those of the system, which are read when they are first needed.
    *tls.current.write().expect("not poisoned") = Current::default();
    let whole = fs::read(&authority).expect("it is there");
    fs::write(&authority, "nothing").expect("written");
    let error = tls.client_config(Transport::Tls).await.err();
    assert!(matches!(error, Some(TlsError::File { .. })), "{error:?}");
    fs::write(&authority, whole).expect("written");
    assert_eq!(tls.client_config(Transport::Wss).await.err(), error);
    tls.reload().expect("read");
    let second = tls.client_config(Transport::Tls).await.expect("known");
    assert!(!Arc::ptr_eq(&first, &second));
}
