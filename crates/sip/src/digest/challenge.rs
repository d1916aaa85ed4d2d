//! WWW-Authenticate and Proxy-Authenticate: what a server wants to know (RFC 7616 section 3.3).

use std::borrow::Cow;
use std::fmt;

use super::algorithm::Algorithm;
use super::authorization::Authorization;
use super::credentials::{Account, Credentials};
use super::protection::Protection;
use super::syntax::{DigestError, Quoted, digest_parameters, take};

/// The value of a WWW-Authenticate or Proxy-Authenticate header field that we could have written, or
/// can answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Challenge<'a> {
    /// Which password is asked for.
    pub realm: Cow<'a, str>,
    /// What the proof is to be made with.
    pub nonce: Cow<'a, str>,
    /// The hash algorithm.
    pub algorithm: Algorithm,
    /// What is to be returned as it is.
    pub opaque: Option<Cow<'a, str>>,
    /// The password may have been right, but the nonce was too old.
    pub is_stale: bool,
    /// Whether `qop=auth` is offered. A server has to; those of RFC 2069 do not know it.
    pub offers_auth: bool,
}

impl<'a> Challenge<'a> {
    /// Reads the value of a header field. Parameters that are not known are passed over.
    ///
    /// # Errors
    /// Those of [`Authorization::parse`], and an algorithm or qualities of protection of which we have
    /// none: such a challenge is to be ignored (RFC 8760 section 2.4).
    pub fn parse(value: &'a [u8]) -> Result<Challenge<'a>, DigestError> {
        let mut realm = None;
        let mut nonce = None;
        let mut algorithm = None;
        let mut opaque = None;
        let mut stale = None;
        let mut qop = None;
        for parameter in digest_parameters(value)? {
            let parameter = parameter?;
            let value = parameter.value;
            match parameter.name.to_ascii_lowercase().as_str() {
                "realm" => take(&mut realm, value, "realm")?,
                "nonce" => take(&mut nonce, value, "nonce")?,
                "algorithm" => {
                    let known = value.parse();
                    let known = known.map_err(|_| DigestError::Unsupported("hash algorithm"))?;
                    take(&mut algorithm, known, "algorithm")?;
                }
                "opaque" => take(&mut opaque, value, "opaque")?,
                "stale" => take(&mut stale, value.eq_ignore_ascii_case("true"), "stale")?,
                "qop" => take(&mut qop, value, "qop")?,
                _ => {}
            }
        }
        let offers_auth = qop.as_ref().is_some_and(|qop| {
            qop.split(',')
                .any(|offered| offered.trim().eq_ignore_ascii_case("auth"))
        });
        if qop.is_some() && !offers_auth {
            return Err(DigestError::Unsupported("quality of protection"));
        }
        Ok(Challenge {
            realm: realm.ok_or(DigestError::Missing("realm"))?,
            nonce: nonce.ok_or(DigestError::Missing("nonce"))?,
            algorithm: algorithm.unwrap_or(Algorithm::Md5),
            opaque,
            is_stale: stale.unwrap_or(false),
            offers_auth,
        })
    }

    /// The answer to this challenge for a request with this method and Request-URI. `count` says which
    /// request it is that is sent with this nonce, the first being 1; `cnonce` is not to be foreseen by
    /// the server.
    pub fn authorize<'b>(
        &'b self,
        account: &Account<'b>,
        method: &str,
        uri: &'b str,
        count: u32,
        cnonce: &'b str,
    ) -> Authorization<'b> {
        let credentials = Credentials::new(account.username, &self.realm, account.password);
        self.authorize_with(account.username, &credentials, method, uri, count, cnonce)
    }

    /// As [`authorize`](Challenge::authorize), by who keeps the hashes of the password for this realm and
    /// need not make them for each request. Without one for the algorithm of the challenge the proof is
    /// wrong.
    pub fn authorize_with<'b>(
        &'b self,
        username: &'b str,
        credentials: &Credentials,
        method: &str,
        uri: &'b str,
        count: u32,
        cnonce: &'b str,
    ) -> Authorization<'b> {
        let protection = self.offers_auth.then(|| Protection {
            cnonce: cnonce.into(),
            nonce_count: format!("{count:08x}").into(),
            qop: "auth".into(),
        });
        let mut authorization = Authorization {
            username: username.into(),
            is_username_hashed: false,
            realm: Cow::Borrowed(&self.realm),
            nonce: Cow::Borrowed(&self.nonce),
            uri: uri.into(),
            algorithm: Some(self.algorithm),
            response: self.algorithm.hash(&[]),
            opaque: self.opaque.as_deref().map(Cow::Borrowed),
            protection,
        };
        if let Some(response) = authorization.expected(credentials, method) {
            authorization.response = response;
        }
        authorization
    }
}

impl fmt::Display for Challenge<'_> {
    /// Writes the value of the header field.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (realm, nonce) = (Quoted(&self.realm), Quoted(&self.nonce));
        write!(f, "Digest realm={realm}, nonce={nonce}")?;
        if let Some(opaque) = &self.opaque {
            write!(f, ", opaque={}", Quoted(opaque))?;
        }
        if self.is_stale {
            f.write_str(", stale=true")?;
        }
        write!(f, ", algorithm={}", self.algorithm)?;
        if self.offers_auth {
            f.write_str(", qop=\"auth\"")?;
        }
        Ok(())
    }
}
