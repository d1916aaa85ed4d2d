//! Challenges that were answered, for further requests with the same Call-ID (RFC 3261 section 22.3).

use sip::digest::{self, Challenge};
use sip::{Message, Name};

use crate::config::Credentials;

/// Realms on the way of one dialog or registration.
const MAX_REALMS: usize = 8;

/// The latest challenge of each realm.
#[derive(Clone, Debug, Default)]
pub(crate) struct Proofs(Vec<Proof>);

#[derive(Clone, Debug)]
struct Proof {
    is_of_proxy: bool,
    /// The value of the header field.
    challenge: Vec<u8>,
    realm: String,
    /// Requests that its nonce was used for.
    count: u32,
}

impl Proofs {
    /// The challenges of this response have just been answered.
    pub(crate) fn learn(&mut self, response: &Message) {
        for (name, is_of_proxy) in [
            (Name::WwwAuthenticate, false),
            (Name::ProxyAuthenticate, true),
        ] {
            let mut realms: Vec<String> = Vec::new();
            for value in response.headers(name) {
                let Ok(challenge) = Challenge::parse(value) else {
                    continue;
                };
                let realm = challenge.realm.clone().into_owned();
                // The first one of a realm was answered.
                if realms.contains(&realm) {
                    continue;
                }
                self.0
                    .retain(|known| known.is_of_proxy != is_of_proxy || known.realm != realm);
                if self.0.len() < MAX_REALMS {
                    self.0.push(Proof {
                        is_of_proxy,
                        challenge: value.to_vec(),
                        realm: realm.clone(),
                        count: 1,
                    });
                }
                realms.push(realm);
            }
        }
    }

    /// Writes credentials into a request, so that it need not be challenged.
    pub(crate) fn write(&mut self, request: &mut Message, credentials: &Credentials, cnonce: &str) {
        let account = digest::Account {
            username: &credentials.username,
            password: credentials.password.as_bytes(),
        };
        for proof in &mut self.0 {
            let Ok(challenge) = Challenge::parse(&proof.challenge) else {
                continue;
            };
            proof.count = proof.count.saturating_add(1);
            let (Some(method), Some(uri)) = (request.method(), request.request_uri()) else {
                return;
            };
            let authorization = challenge
                .authorize(&account, method.as_str(), uri, proof.count, cnonce)
                .to_string();
            let name = match proof.is_of_proxy {
                true => Name::ProxyAuthorization,
                false => Name::Authorization,
            };
            request.push_back(name, authorization);
        }
    }
}
