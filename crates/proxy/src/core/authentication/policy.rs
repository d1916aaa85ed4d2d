//! What an operator says about authentication.

use std::net::IpAddr;
use std::time::Duration;

use sip::digest::Algorithm;

use crate::core::routing::AddressRange;

/// Who has to say who it is, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthenticationPolicy {
    /// Whether a REGISTER is answered 401 until it proves to come from the user in its To.
    pub register: bool,
    /// Whether other requests of our users are answered 407 until they prove to come from the user in
    /// their From, and those of nobody (`anonymous.invalid`) until they prove to come from any of our
    /// users. Strangers can still call our users. ACK and CANCEL are never challenged (RFC 3261 section
    /// 22.1).
    pub calls: bool,
    /// Whether that is so for requests within dialogs that have begun through us too, and not only for
    /// all others.
    pub in_dialogs: bool,
    /// Who is never asked: trunks, other servers of ours. Neighbours in the trust domain are not asked
    /// either, but when they register.
    pub exempt: Vec<AddressRange>,
    /// The realm of all users; `None` takes the name of each user's domain. Passwords are stored with the
    /// realm hashed into them: when it changes, they are void.
    pub realm: Option<String>,
    /// The hash algorithms that are offered and taken, the most preferred first (RFC 8760 section 2.3).
    pub algorithms: Vec<Algorithm>,
    /// How long after it was given out a nonce is good. A client is not asked for the password again when
    /// its nonce has become too old, but has to send its request twice.
    pub nonce_lifetime: Duration,
    /// With how many nonces the counts used are remembered, by each worker. When there are more that are
    /// good, the oldest are good no longer.
    pub maximum_nonces: usize,
    /// Whether clients of RFC 2069 are served, who do not know `qop`. Each nonce is good once then.
    pub allow_without_qop: bool,
    /// Users who may register and call for others, such as gateways, and vouch for strangers (RFC 3261
    /// section 22.1).
    pub may_act_for_others: Vec<String>,
    /// Whether a 200 to a REGISTER proves that we know the password too (Authentication-Info, RFC 7616
    /// section 3.5).
    pub confirm: bool,
}

impl Default for AuthenticationPolicy {
    /// Nobody is asked.
    fn default() -> AuthenticationPolicy {
        AuthenticationPolicy {
            register: false,
            calls: false,
            in_dialogs: false,
            exempt: Vec::new(),
            realm: None,
            algorithms: vec![Algorithm::Sha256, Algorithm::Md5],
            nonce_lifetime: Duration::from_secs(300),
            maximum_nonces: 100_000,
            allow_without_qop: false,
            may_act_for_others: Vec::new(),
            confirm: false,
        }
    }
}

impl AuthenticationPolicy {
    /// Whether requests from an address are not challenged.
    pub(crate) fn is_exempt(&self, address: IpAddr) -> bool {
        self.exempt.iter().any(|range| range.contains(address))
    }
}
