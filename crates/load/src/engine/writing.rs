//! Writing without templates: parts of messages, and the CANCEL and ACK of an INVITE.

use sip::{Method, Name, list_values};

use super::connections::ConnectionText;
use super::directory::Directory;
use super::identity::write_decimal;
use super::received::Received;

/// The address at which a user is reached by a connection.
pub(super) fn write_contact(
    directory: &Directory,
    user_number: u32,
    connection: &ConnectionText,
    out: &mut Vec<u8>,
) {
    out.extend_from_slice(b"sip:");
    if user_number != 0 {
        directory.write_name(user_number, out);
        out.push(b'@');
    }
    out.extend_from_slice(connection.local().as_bytes());
    out.extend_from_slice(b";transport=");
    let transport = connection.connection.transport;
    out.extend_from_slice(transport.uri_parameter().as_bytes());
}

/// Copies the Via fields of a request into its response. The topmost one tells where the request came from, where
/// that is another address than it says (RFC 3261 section 18.2.1) or its sender wants to know (RFC 3581 section 4).
pub(super) fn write_vias(
    request: &Received<'_>,
    source: Option<&ConnectionText>,
    out: &mut Vec<u8>,
) {
    let via = request.top_via.as_ref();
    let mut noted = source.and_then(|source| via?.with_source(source.connection.remote));
    request.each_field(Name::Via, &request.vias, |value| {
        out.extend_from_slice(b"Via: ");
        match noted.take() {
            Some(noted) => {
                out.extend_from_slice(&noted);
                for value in list_values(value).skip(1) {
                    out.extend_from_slice(b", ");
                    out.extend_from_slice(value);
                }
            }
            None => out.extend_from_slice(value),
        }
        out.extend_from_slice(b"\r\n");
    });
}

pub(super) fn write_line(name: &str, value: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

/// Writes a request that follows from the INVITE as it was sent: the CANCEL (RFC 3261 section 9.1), or the
/// ACK to a final response other than 2xx (section 17.1.1.3). Request-URI, topmost Via, From, Call-ID,
/// sequence number and Route are those of the INVITE; so is To, but in the ACK, where it is that of the
/// response. Returns whether the INVITE is such that it could be done.
pub(super) fn write_follower(
    invite: &[u8],
    method: &Method,
    to: Option<&[u8]>,
    out: &mut Vec<u8>,
) -> bool {
    let Ok(invite) = Received::read(invite) else {
        return false;
    };
    let (Some(uri), Some(via)) = (invite.uri(), invite.vias.first()) else {
        return false;
    };
    let name = method.as_str().as_bytes();
    out.extend_from_slice(name);
    out.push(b' ');
    out.extend_from_slice(uri);
    out.extend_from_slice(b" SIP/2.0\r\n");
    write_line("Via", via, out);
    out.extend_from_slice(b"Max-Forwards: 70\r\n");
    invite.each_named("Route", |value| write_line("Route", value, out));
    write_line("From", invite.from, out);
    write_line("To", to.unwrap_or(invite.to), out);
    write_line("Call-ID", invite.call_id, out);
    out.extend_from_slice(b"CSeq: ");
    write_decimal(invite.cseq.into(), out);
    out.push(b' ');
    out.extend_from_slice(name);
    out.extend_from_slice(b"\r\nContent-Length: 0\r\n\r\n");
    true
}

/// The fields of credentials.
const CREDENTIALS: [&str; 2] = ["Authorization", "Proxy-Authorization"];

/// Gives the ACK to a 2xx, written from `start` on, the credentials of its INVITE (RFC 3261 sections
/// 13.2.2.4 and 22.1), as they stand: an ACK cannot be challenged. One that has some is left alone.
pub(super) fn copy_credentials(invite: &[u8], start: usize, out: &mut Vec<u8>) {
    let ack = out.get(start..).unwrap_or_default();
    let (Ok(invite), Ok(written)) = (Received::read(invite), Received::read(ack)) else {
        return;
    };
    let mut has_any = false;
    let mut lines = Vec::new();
    for name in CREDENTIALS {
        written.each_named(name, |_| has_any = true);
        invite.each_named(name, |value| write_line(name, value, &mut lines));
    }
    let head_end = memchr::memmem::find(ack, b"\r\n\r\n");
    if let (false, Some(head_end)) = (has_any, head_end) {
        let at = start + head_end + 2;
        out.splice(at..at, lines);
    }
}
