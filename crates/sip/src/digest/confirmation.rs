//! Authentication-Info: what a server says when a client has authenticated (RFC 7616 section 3.5).

use std::borrow::Cow;
use std::fmt;

use super::algorithm::Hash;
use super::authorization::Authorization;
use super::credentials::Credentials;
use super::protection::{Protection, protection};
use super::syntax::{DigestError, Quoted, plain_parameters, take};

/// The value of an Authentication-Info header field that proves that the server knows the password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Confirmation<'a> {
    /// The nonce for the next request.
    pub next_nonce: Option<Cow<'a, str>>,
    /// The proof (`rspauth`).
    pub response: Hash,
    /// What the client had given with `qop=auth`.
    pub protection: Protection<'a>,
}

impl<'a> Confirmation<'a> {
    /// Reads the value of a header field. Parameters that are not known are passed over.
    ///
    /// # Errors
    /// Those of [`Authorization::parse`].
    pub fn parse(value: &'a [u8]) -> Result<Confirmation<'a>, DigestError> {
        let mut next_nonce = None;
        let mut response = None;
        let mut qop = None;
        let mut cnonce = None;
        let mut nonce_count = None;
        for parameter in plain_parameters(value)? {
            let parameter = parameter?;
            let value = parameter.value;
            match parameter.name.to_ascii_lowercase().as_str() {
                "nextnonce" => take(&mut next_nonce, value, "nextnonce")?,
                "rspauth" => {
                    let hash =
                        Hash::from_hexadecimal(&value).ok_or(DigestError::Value("rspauth"))?;
                    take(&mut response, hash, "rspauth")?;
                }
                "qop" => take(&mut qop, value, "qop")?,
                "cnonce" => take(&mut cnonce, value, "cnonce")?,
                "nc" => take(&mut nonce_count, value, "nc")?,
                _ => {}
            }
        }
        Ok(Confirmation {
            next_nonce,
            response: response.ok_or(DigestError::Missing("rspauth"))?,
            protection: protection(qop, cnonce, nonce_count)?.ok_or(DigestError::Missing("qop"))?,
        })
    }

    /// Whether the server that answers a request with this authorization knows the password.
    pub fn is_proved_by(
        &self,
        authorization: &Authorization<'_>,
        credentials: &Credentials,
    ) -> bool {
        authorization.protection.as_ref() == Some(&self.protection)
            && authorization.expected(credentials, "") == Some(self.response)
    }
}

impl Authorization<'_> {
    /// What tells the client that the server knows the password too (`rspauth`, RFC 7616 section 3.5).
    /// `None` without a hash for the algorithm, and for clients of RFC 2069, who do not expect it.
    pub fn confirmation(&self, credentials: &Credentials) -> Option<Confirmation<'_>> {
        let protection = self.protection.clone()?;
        Some(Confirmation {
            next_nonce: None,
            response: self.expected(credentials, "")?,
            protection,
        })
    }
}

impl fmt::Display for Confirmation<'_> {
    /// Writes the value of the header field.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(next_nonce) = &self.next_nonce {
            write!(f, "nextnonce={}, ", Quoted(next_nonce))?;
        }
        write!(f, "rspauth=\"{}\", {}", self.response, self.protection)
    }
}
