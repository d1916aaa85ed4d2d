//! Authorization and Proxy-Authorization: what a client says of who it is (RFC 7616 section 3.4).

use std::borrow::Cow;
use std::fmt;

use super::algorithm::{Algorithm, Hash};
use super::credentials::Credentials;
use super::protection::{Protection, protection};
use super::response::response;
use super::syntax::{DigestError, Quoted, digest_parameters, take};
use crate::syntax;

/// The value of an Authorization or Proxy-Authorization header field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authorization<'a> {
    /// Who the client says it is.
    pub username: Cow<'a, str>,
    /// Whether the name is hashed (`userhash`, RFC 7616 section 3.4.4).
    pub is_username_hashed: bool,
    /// Where the name belongs to.
    pub realm: Cow<'a, str>,
    /// The server's nonce.
    pub nonce: Cow<'a, str>,
    /// The Request-URI with which the request left the client.
    pub uri: Cow<'a, str>,
    /// The hash algorithm: MD5 where none is named, `None` where it is one that we do not have.
    pub algorithm: Option<Algorithm>,
    /// The proof. It is empty where the client has had no challenge (RFC 8760 section 2.7).
    pub response: Hash,
    /// What the server gave to be returned.
    pub opaque: Option<Cow<'a, str>>,
    /// What `qop=auth` adds; `None` from clients of RFC 2069.
    pub protection: Option<Protection<'a>>,
}

impl<'a> Authorization<'a> {
    /// Reads the value of a header field. Parameters that are not known are passed over.
    ///
    /// # Errors
    /// Another scheme than Digest; a parameter that is missing, malformed or there twice; another
    /// quality of protection than `auth`. An algorithm that is not known is no error.
    pub fn parse(value: &'a [u8]) -> Result<Authorization<'a>, DigestError> {
        let mut username = None;
        let mut realm = None;
        let mut nonce = None;
        let mut uri = None;
        let mut algorithm = None;
        let mut response = None;
        let mut opaque = None;
        let mut qop = None;
        let mut cnonce = None;
        let mut nonce_count = None;
        let mut user_hash = None;
        for parameter in digest_parameters(value)? {
            let parameter = parameter?;
            let value = parameter.value;
            match parameter.name.to_ascii_lowercase().as_str() {
                "username" => take(&mut username, value, "username")?,
                "username*" => take(&mut username, extended(&value)?.into(), "username")?,
                "realm" => take(&mut realm, value, "realm")?,
                "nonce" => take(&mut nonce, value, "nonce")?,
                "uri" => take(&mut uri, value, "uri")?,
                "algorithm" => take(&mut algorithm, value.parse().ok(), "algorithm")?,
                "response" => {
                    let hash =
                        Hash::from_hexadecimal(&value).ok_or(DigestError::Value("response"))?;
                    take(&mut response, hash, "response")?;
                }
                "opaque" => take(&mut opaque, value, "opaque")?,
                "qop" => take(&mut qop, value, "qop")?,
                "cnonce" => take(&mut cnonce, value, "cnonce")?,
                "nc" => take(&mut nonce_count, value, "nc")?,
                "userhash" => {
                    take(
                        &mut user_hash,
                        value.eq_ignore_ascii_case("true"),
                        "userhash",
                    )?;
                }
                _ => {}
            }
        }
        Ok(Authorization {
            username: username.ok_or(DigestError::Missing("username"))?,
            is_username_hashed: user_hash.unwrap_or(false),
            realm: realm.ok_or(DigestError::Missing("realm"))?,
            nonce: nonce.ok_or(DigestError::Missing("nonce"))?,
            uri: uri.ok_or(DigestError::Missing("uri"))?,
            algorithm: algorithm.unwrap_or(Some(Algorithm::Md5)),
            response: response.ok_or(DigestError::Missing("response"))?,
            opaque,
            protection: protection(qop, cnonce, nonce_count)?,
        })
    }

    /// Whether the sender of a request with this method knows the password. Never without a hash for the
    /// algorithm that it has used. The time that this takes does not depend on what is wrong.
    pub fn is_proved_by(&self, credentials: &Credentials, method: &str) -> bool {
        self.expected(credentials, method) == Some(self.response)
    }

    /// The hash that a request with this method should have; that of a response where it is empty.
    pub(super) fn expected(&self, credentials: &Credentials, method: &str) -> Option<Hash> {
        let algorithm = self.algorithm?;
        let a1 = credentials.get(algorithm)?;
        let protected = self.protection.as_ref().map(Protection::as_protected);
        Some(response(
            algorithm,
            a1,
            &self.nonce,
            protected,
            method,
            &self.uri,
        ))
    }
}

impl fmt::Display for Authorization<'_> {
    /// Writes the value of the header field.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Digest username={}, realm={}, nonce={}, uri={}, response=\"{}\"",
            Quoted(&self.username),
            Quoted(&self.realm),
            Quoted(&self.nonce),
            Quoted(&self.uri),
            self.response
        )?;
        if let Some(algorithm) = self.algorithm {
            write!(f, ", algorithm={algorithm}")?;
        }
        if let Some(protection) = &self.protection {
            write!(f, ", {protection}")?;
        }
        if let Some(opaque) = &self.opaque {
            write!(f, ", opaque={}", Quoted(opaque))?;
        }
        if self.is_username_hashed {
            f.write_str(", userhash=true")?;
        }
        Ok(())
    }
}

/// The text of an extended value in UTF-8 (`username*`, RFC 5987 section 3.2).
fn extended(value: &str) -> Result<String, DigestError> {
    const ERROR: DigestError = DigestError::Value("username*");
    let (charset, rest) = syntax::split_once(value, b'\'').ok_or(ERROR)?;
    let (_language, encoded) = syntax::split_once(rest, b'\'').ok_or(ERROR)?;
    if !charset.eq_ignore_ascii_case("UTF-8") {
        return Err(ERROR);
    }
    let mut octets = Vec::with_capacity(encoded.len());
    let mut rest = encoded.as_bytes();
    while let [octet, tail @ ..] = rest {
        rest = tail;
        octets.push(match (octet, tail) {
            (b'%', [high, low, tail @ ..]) => {
                rest = tail;
                let digit = |octet: u8| char::from(octet).to_digit(16).ok_or(ERROR);
                u8::try_from(digit(*high)? << 4 | digit(*low)?).map_err(|_| ERROR)?
            }
            (b'%', _) => return Err(ERROR),
            _ => *octet,
        });
    }
    String::from_utf8(octets).map_err(|_| ERROR)
}
