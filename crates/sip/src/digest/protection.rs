//! What a client adds to its authorization with `qop=auth` (RFC 7616 section 3.4).

use std::borrow::Cow;
use std::fmt;

use super::response::Protected;
use super::syntax::{DigestError, Quoted};

/// What a client adds with `qop=auth`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Protection<'a> {
    /// The client's nonce.
    pub cnonce: Cow<'a, str>,
    /// How many requests the client has sent with the server's nonce: `nc` as it is written, up to
    /// eight hexadecimal digits.
    pub nonce_count: Cow<'a, str>,
    /// `auth`, in whatever case.
    pub qop: Cow<'a, str>,
}

impl Protection<'_> {
    /// The number in `nc`.
    pub fn count(&self) -> u32 {
        u32::from_str_radix(&self.nonce_count, 16).unwrap_or(0)
    }

    pub(super) fn as_protected(&self) -> Protected<'_> {
        Protected {
            nonce_count: &self.nonce_count,
            cnonce: &self.cnonce,
            qop: &self.qop,
        }
    }
}

impl fmt::Display for Protection<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cnonce = Quoted(&self.cnonce);
        write!(
            f,
            "qop={}, cnonce={cnonce}, nc={}",
            self.qop, self.nonce_count
        )
    }
}

/// The parameters of `qop=auth`: all three, or none.
pub(super) fn protection<'a>(
    qop: Option<Cow<'a, str>>,
    cnonce: Option<Cow<'a, str>>,
    nonce_count: Option<Cow<'a, str>>,
) -> Result<Option<Protection<'a>>, DigestError> {
    let Some(qop) = qop else {
        return Ok(None);
    };
    if !qop.eq_ignore_ascii_case("auth") {
        return Err(DigestError::Unsupported("quality of protection"));
    }
    let nonce_count = nonce_count.ok_or(DigestError::Missing("nc"))?;
    let is_count = (1..=8).contains(&nonce_count.len())
        && nonce_count.bytes().all(|octet| octet.is_ascii_hexdigit());
    if !is_count {
        return Err(DigestError::Value("nc"));
    }
    Ok(Some(Protection {
        cnonce: cnonce.ok_or(DigestError::Missing("cnonce"))?,
        nonce_count,
        qop,
    }))
}
