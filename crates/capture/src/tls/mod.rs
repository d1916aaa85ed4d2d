//! TLS connections deciphered with the secrets that their ends have logged.

mod cbc;
mod cipher;
mod key_log;

use bytes::{Buf, Bytes, BytesMut};

use cipher::{Opener, Suite};

pub use key_log::KeyLog;

/// The longest record: 2¹⁴ octets and what encryption may add (RFC 5246 section 6.2.3).
const LONGEST_RECORD: usize = (1 << 14) + 2048;

/// What comes out of a TLS connection.
#[derive(Debug)]
pub(crate) enum Opened {
    /// Octets of the application.
    Octets(Vec<u8>),
    /// The secrets of the connection are not known, so nothing comes out of it.
    NoSecrets,
    /// The cipher suite of the connection, of this number, is not known here in its version, so nothing comes out of it.
    OtherSuite(u16),
    /// Nothing more comes out of it.
    Lost(&'static str),
}

/// A TLS connection.
pub(crate) struct Tls {
    /// What the ClientHello had, and which direction it went.
    client: Option<([u8; 32], usize)>,
    halves: [Half; 2],
    /// Whether nothing comes out of it any more.
    closed: bool,
}

/// One direction.
#[derive(Default)]
struct Half {
    received: BytesMut,
    protection: Protection,
}

/// How the records of a direction are protected.
#[derive(Default)]
enum Protection {
    #[default]
    None,
    /// TLS 1.3: the keys in use first, then those that will follow.
    Tls13(Vec<Opener>),
    /// TLS 1.2: the keys, and whether they are in use yet.
    Tls12(Box<Opener>, bool),
}

/// A record as it came.
struct Record {
    header: [u8; 5],
    body: Bytes,
}

impl Tls {
    /// Whether a connection begins as one of TLS does: with a handshake record.
    pub(crate) fn begins(octets: &[u8]) -> bool {
        matches!(octets, [HANDSHAKE, 3, 0..=4, ..])
    }

    pub(crate) fn new() -> Tls {
        Tls {
            client: None,
            halves: [Half::default(), Half::default()],
            closed: false,
        }
    }

    /// How many octets it holds.
    pub(crate) fn held(&self) -> usize {
        let halves = self.halves.iter();
        halves.map(|half| half.received.capacity()).sum()
    }

    /// Takes in what came next in a direction.
    pub(crate) fn push(
        &mut self,
        from: usize,
        octets: &[u8],
        keys: &KeyLog,
        opened: &mut dyn FnMut(Opened),
    ) {
        if self.closed {
            return;
        }
        self.halves[from].received.extend_from_slice(octets);
        while !self.closed {
            match next_record(&mut self.halves[from].received) {
                Ok(Some(record)) => self.read(from, &record, keys, opened),
                Ok(None) => break,
                Err(reason) => self.close(Opened::Lost(reason), opened),
            }
        }
        let received = &mut self.halves[from].received;
        if received.is_empty() {
            *received = BytesMut::new();
        }
    }

    /// Octets are missing: where the next record begins is not known any more.
    pub(crate) fn gap(&mut self, opened: &mut dyn FnMut(Opened)) {
        if !self.closed {
            let reason = "TLS cannot be decrypted after missing octets";
            self.close(Opened::Lost(reason), opened);
        }
    }

    fn close(&mut self, last: Opened, opened: &mut dyn FnMut(Opened)) {
        *self = Tls {
            closed: true,
            ..Tls::new()
        };
        opened(last);
    }

    fn read(
        &mut self,
        from: usize,
        record: &Record,
        keys: &KeyLog,
        opened: &mut dyn FnMut(Opened),
    ) {
        let kind = record.header[0];
        let body = &record.body[..];
        match &mut self.halves[from].protection {
            Protection::Tls13(openers) if kind == APPLICATION_DATA => {
                let (position, content) = openers
                    .iter_mut()
                    .map(|opener| opener.open_tls13(record.header, body))
                    .enumerate()
                    .find(|(_, content)| content.is_some())
                    .unwrap_or_default();
                // Whoever uses later keys will not use earlier ones again.
                openers.drain(..position);
                match content {
                    Some((APPLICATION_DATA, content)) => opened(Opened::Octets(content)),
                    Some((HANDSHAKE, content)) if content.first() == Some(&KEY_UPDATE) => {
                        if let Some(opener) = openers.first_mut() {
                            opener.update();
                        }
                    }
                    Some(_) => {}
                    None => self.close(Opened::Lost("a TLS record does not fit its key"), opened),
                }
            }
            Protection::Tls12(_, in_use @ false) if kind == CHANGE_CIPHER_SPEC => *in_use = true,
            Protection::Tls12(opener, true) => match opener.open_tls12(record.header, body) {
                Some(content) if kind == APPLICATION_DATA => opened(Opened::Octets(content)),
                Some(_) => {}
                None => self.close(Opened::Lost("a TLS record does not fit its key"), opened),
            },
            _ if kind == HANDSHAKE => self.read_handshake(from, body, keys, opened),
            _ => {}
        }
    }

    /// Reads the first handshake message of a record in the clear.
    fn read_handshake(
        &mut self,
        from: usize,
        body: &[u8],
        keys: &KeyLog,
        opened: &mut dyn FnMut(Opened),
    ) {
        // Type, length and version come before the random number (RFC 8446 section 4.1).
        let Some(&random) = body.get(6..).and_then(|rest| rest.first_chunk::<32>()) else {
            return;
        };
        match body.first() {
            Some(&CLIENT_HELLO) => {
                self.client = Some((random, from));
                if keys.secrets(&random).is_none() {
                    self.close(Opened::NoSecrets, opened);
                }
            }
            Some(&SERVER_HELLO) if random != HELLO_RETRY_REQUEST => {
                if let Err(last) = self.read_server_hello(from, body, random, keys) {
                    self.close(last, opened);
                }
            }
            _ => {}
        }
    }

    /// Makes the keys, now that the suite is known.
    fn read_server_hello(
        &mut self,
        from: usize,
        body: &[u8],
        server_random: [u8; 32],
        keys: &KeyLog,
    ) -> Result<(), Opened> {
        const NO_KEYS: Opened =
            Opened::Lost("the key log does not have all secrets of a TLS connection");
        let lost = Opened::Lost;
        let (client_random, client) = self.client.ok_or(lost("TLS without a ClientHello"))?;
        let secrets = keys.secrets(&client_random).ok_or(NO_KEYS)?;
        let hello = ServerHello::read(body).ok_or(lost("a ServerHello that is cut"))?;
        let suite = Suite::of(hello.suite).ok_or(Opened::OtherSuite(hello.suite))?;
        let protections = if hello.version == TLS_1_3 {
            let openers = |end: usize| {
                let secrets = [&secrets.handshake[end], &secrets.application[end]];
                let openers = secrets
                    .into_iter()
                    .flatten()
                    .filter_map(|secret| Opener::tls13(suite, secret));
                Protection::Tls13(openers.collect())
            };
            [openers(0), openers(1)]
        } else if hello.version != TLS_1_2 {
            // What the keys are made with is another hash before.
            return Err(Opened::OtherSuite(hello.suite));
        } else {
            let master = secrets.master.as_deref().ok_or(NO_KEYS)?;
            let then_macs = hello.encrypts_then_macs;
            Opener::tls12(suite, master, &client_random, &server_random, then_macs)
                .ok_or(NO_KEYS)?
                .map(|opener| Protection::Tls12(Box::new(opener), false))
        };
        let [of_client, of_server] = protections;
        if client == from {
            return Err(lost("TLS whose client answers itself"));
        }
        self.halves[client].protection = of_client;
        self.halves[from].protection = of_server;
        Ok(())
    }
}

/// Takes a record off the front. `None` when it is not whole.
fn next_record(received: &mut BytesMut) -> Result<Option<Record>, &'static str> {
    let Some(&header) = received.first_chunk::<5>() else {
        return Ok(None);
    };
    let [kind, major, _, high, low] = header;
    let length = usize::from(u16::from_be_bytes([high, low]));
    if !(CHANGE_CIPHER_SPEC..=HEARTBEAT).contains(&kind) || major != 3 || length > LONGEST_RECORD {
        return Err("invalid record in a TLS connection");
    }
    if received.len() < header.len() + length {
        return Ok(None);
    }
    received.advance(header.len());
    let body = received.split_to(length).freeze();
    Ok(Some(Record { header, body }))
}

/// What a ServerHello says of how records will be (RFC 8446 section 4.1.3).
struct ServerHello {
    suite: u16,
    version: u16,
    /// RFC 7366.
    encrypts_then_macs: bool,
}

impl ServerHello {
    /// `None` where it is cut.
    fn read(body: &[u8]) -> Option<ServerHello> {
        // After the header of the message.
        let mut rest = body.get(4..)?;
        let version = rest.try_get_u16().ok()?;
        let _random = rest.split_off(..32)?;
        let session_id_length = rest.try_get_u8().ok()?;
        let _session_id = rest.split_off(..usize::from(session_id_length))?;
        let mut hello = ServerHello {
            suite: rest.try_get_u16().ok()?,
            version,
            encrypts_then_macs: false,
        };
        // After the compression method and their length come the extensions, if there are any.
        let mut extensions = rest.get(3..).unwrap_or_default();
        while let (Ok(kind), Ok(length)) = (extensions.try_get_u16(), extensions.try_get_u16()) {
            match kind {
                SUPPORTED_VERSIONS => {
                    let mut value = extensions;
                    hello.version = value.try_get_u16().ok()?;
                }
                ENCRYPT_THEN_MAC => hello.encrypts_then_macs = true,
                _ => {}
            }
            extensions = extensions.get(usize::from(length)..).unwrap_or_default();
        }
        Some(hello)
    }
}

// Types of records.
const CHANGE_CIPHER_SPEC: u8 = 20;
const HANDSHAKE: u8 = 22;
const APPLICATION_DATA: u8 = 23;
const HEARTBEAT: u8 = 24;

// Types of handshake messages.
const CLIENT_HELLO: u8 = 1;
const SERVER_HELLO: u8 = 2;
const KEY_UPDATE: u8 = 24;

// Extensions.
const ENCRYPT_THEN_MAC: u16 = 22;
const SUPPORTED_VERSIONS: u16 = 43;

// Versions.
const TLS_1_2: u16 = 0x0303;
const TLS_1_3: u16 = 0x0304;

/// The random number of a ServerHello that asks for another ClientHello (RFC 8446 section 4.1.3).
const HELLO_RETRY_REQUEST: [u8; 32] = [
    0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11, 0xbe, 0x1d, 0x8c, 0x02, 0x1e, 0x65, 0xb8, 0x91,
    0xc2, 0xa2, 0x11, 0x16, 0x7a, 0xbb, 0x8c, 0x5e, 0x07, 0x9e, 0x09, 0xe2, 0xc8, 0xa8, 0x33, 0x9c,
];
