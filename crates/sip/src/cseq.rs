//! CSeq (RFC 3261 sections 8.1.1.5 and 20.16).

use crate::Method;
use crate::syntax::{self, is_lws, trim_start};
use crate::violation::Violation;

/// The value of a CSeq field, borrowed from its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CSeq<'a> {
    number: u32,
    method: &'a str,
}

impl<'a> CSeq<'a> {
    /// Parses a value: a number below 2^32, white space, and a method, which may be any text.
    pub fn parse(value: &'a [u8]) -> Option<CSeq<'a>> {
        let number_length = value.iter().position(|&octet| is_lws(octet))?;
        let (number, method) = value.split_at(number_length);
        Some(CSeq {
            number: syntax::number(number)?,
            method: std::str::from_utf8(trim_start(method)).ok()?,
        })
    }

    /// The sequence number.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// The method.
    pub fn method(&self) -> Method {
        Method::from_name(self.method)
    }

    /// The method as written.
    pub(crate) fn method_name(&self) -> &'a str {
        self.method
    }
}

/// A number below 2^31 and the method of the request, where the message is one (section 8.1.1.5).
pub(crate) fn check(value: &[u8], method: Option<&Method>) -> Result<(), Violation> {
    const MALFORMED: Violation = Violation::bad_request("Malformed CSeq");
    let cseq = CSeq::parse(value).ok_or(MALFORMED)?;
    if cseq.number >= 1 << 31 || !syntax::is_token(cseq.method.as_bytes()) {
        return Err(MALFORMED);
    }
    match method {
        Some(method) if method.as_str() != cseq.method => Err(match method {
            // RFC 4475 section 3.1.2.18 prefers this to a 400.
            Method::Other(_) => Violation {
                status: 501,
                reason: "Not Implemented",
            },
            _ => Violation::bad_request("CSeq Method Does Not Match"),
        }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_and_a_method() {
        let parse = |value: &'static str| {
            let cseq = CSeq::parse(value.as_bytes())?;
            Some((cseq.number(), cseq.method_name()))
        };
        assert_eq!(parse("7 INVITE"), Some((7, "INVITE")));
        assert_eq!(parse("0009\r\n\tACK"), Some((9, "ACK")));
        for value in [
            "",
            "7",
            "INVITE",
            " 7 INVITE",
            "99999999999 INVITE",
            "-1 INVITE",
        ] {
            assert_eq!(parse(value), None, "{value}");
        }
        assert_eq!(CSeq::parse(b"7 \xff"), None);
    }

    #[test]
    fn the_method_is_that_of_the_request() {
        let status = |value: &str, method: Option<&Method>| {
            check(value.as_bytes(), method)
                .err()
                .map(|violation| violation.status)
        };
        assert_eq!(status("7 INVITE", Some(&Method::Invite)), None);
        assert_eq!(status("7 FOO", None), None);
        assert_eq!(status("7 ACK", Some(&Method::Invite)), Some(400));
        assert_eq!(status("7 ACK", Some(&Method::from_name("FOO"))), Some(501));
        assert_eq!(
            status("2147483648 INVITE", Some(&Method::Invite)),
            Some(400)
        );
        assert_eq!(status("7 IN VITE", None), Some(400));
    }
}
