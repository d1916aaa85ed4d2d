//! What tells transactions apart (RFC 3261 sections 17.1.3 and 17.2.3).
//!
//! A key is the parts that have to be equal, one behind the other, each after its length: one piece
//! of memory a transaction, and no two sets of parts make the same key.

use crate::{Host, Message, Method, Name, Via};

/// Which rules made a server transaction's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rules {
    /// A branch with the magic cookie names the transaction.
    Rfc3261,
    /// All the header fields that RFC 2543 had for it.
    Rfc2543,
}

/// Writes the key of a client transaction: the branch, and the method, since a CANCEL shares the
/// branch of what it cancels.
///
/// Branches are compared octet for octet, though tokens are said to have no case: clients that count
/// in base64 mean two transactions by two spellings, and nobody respells a branch.
pub(super) fn write_client_key(key: &mut Vec<u8>, branch: &str, method: &str) {
    key.clear();
    write_part(key, method.as_bytes());
    write_part(key, branch.as_bytes());
}

/// Writes the key of the server transaction that a request of this method would belong to, were it
/// of that method: of an ACK or CANCEL, that of the INVITE. Returns the rules that were used; `None`
/// where the request has not got what they ask for.
pub(super) fn write_server_key(
    key: &mut Vec<u8>,
    request: &Message,
    method: &Method,
) -> Option<Rules> {
    let via = request.top_via()?;
    match write_via_key(key, &via, method) {
        Some(()) => Some(Rules::Rfc3261),
        None => {
            // The To tag is left out, since that of an ACK is the response's. It is looked at
            // where an ACK comes; no other request could differ in it alone.
            write_part(key, request.values(Name::Via).next()?);
            write_part(key, request.request_uri()?.as_bytes());
            write_part(key, request.call_id()?.as_bytes());
            let from_tag = request.from_tag();
            write_part(key, from_tag.unwrap_or_default().as_bytes());
            let number = request.cseq_number()?;
            write_part(key, &number.to_be_bytes());
            Some(Rules::Rfc2543)
        }
    }
}

/// Writes the key of a request with this Via on top by the rules of RFC 3261. `None` where its branch does not keep to
/// them; the method is written nonetheless.
pub(super) fn write_via_key(key: &mut Vec<u8>, via: &Via<'_>, method: &Method) -> Option<()> {
    key.clear();
    write_part(key, method.as_str().as_bytes());
    if !via.names_transaction() {
        return None;
    }
    write_part(key, via.branch()?.as_bytes());
    write_host(key, via.host());
    let port = via.port().map(u16::to_be_bytes);
    write_part(key, port.as_ref().map_or(&[], |octets| octets));
    Some(())
}

fn write_part(key: &mut Vec<u8>, part: &[u8]) {
    // No message is longer than this can tell.
    key.extend_from_slice(&(part.len() as u32).to_be_bytes());
    key.extend_from_slice(part);
}

/// Each kind of host begins with a letter of its own: a name may have the octets of an address.
fn write_host(key: &mut Vec<u8>, host: Host<'_>) {
    let mut write = |kind: u8, octets: &[u8]| {
        key.push(kind);
        write_part(key, octets);
    };
    match host {
        Host::Name(name) => {
            write(b'n', name.as_bytes());
            let start = key.len() - name.len();
            key[start..].make_ascii_lowercase();
        }
        Host::Address(std::net::IpAddr::V4(address)) => write(b'4', &address.octets()),
        Host::Address(std::net::IpAddr::V6(address)) => write(b'6', &address.octets()),
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    const INVITE: &str = "INVITE sip:bob@example.com SIP/2.0\r\n\
        Via: SIP/2.0/UDP host.example.com:5062;branch=z9hG4bK1\r\n\
        From: <sip:alice@example.com>;tag=a\r\n\
        To: <sip:bob@example.com>\r\n\
        Call-ID: 1@host\r\n\
        CSeq: 7 INVITE\r\n\r\n";

    fn key_of(text: &str) -> (Vec<u8>, Rules) {
        let request = Message::read(Bytes::from(text.to_owned())).expect("a message");
        let mut key = vec![1, 2, 3];
        let rules = write_server_key(&mut key, &request, &Method::Invite).expect("a key");
        (key, rules)
    }

    fn changed(from: &str, to: &str) -> String {
        assert!(INVITE.contains(from));
        INVITE.replace(from, to)
    }

    #[test]
    fn branch_and_sent_by_make_the_key() {
        let original = key_of(INVITE);
        assert_eq!(original.1, Rules::Rfc3261);
        for (from, to) in [
            ("host.example.com", "HOST.example.COM"),
            ("tag=a", "tag=b"),
            ("1@host", "2@host"),
            ("7 INVITE", "8 INVITE"),
            ("INVITE sip:bob", "INVITE sip:carol"),
            ("branch=", "x=y;branch="),
        ] {
            assert_eq!(key_of(&changed(from, to)), original, "{to}");
        }
        for (from, to) in [
            ("z9hG4bK1", "z9hG4bK2"),
            ("host.example.com", "other.example.com"),
            (":5062", ":5060"),
            (":5062", ""),
        ] {
            assert_ne!(key_of(&changed(from, to)), original, "{to}");
        }
    }

    #[test]
    fn without_the_cookie_the_old_rules_hold() {
        for branch in ["branch=1", "x=y", "branch=z9hG4bK"] {
            let old = |text: &str| text.replace("branch=z9hG4bK1", branch);
            let original = key_of(&old(INVITE));
            assert_eq!(original.1, Rules::Rfc2543);
            assert_eq!(key_of(&old(&changed("7 INVITE", "7 ACK"))), original);
            let answered = changed("bob@example.com>\r\n", "bob@example.com>;tag=b\r\n");
            assert_eq!(key_of(&old(&answered)), original);
            for (from, to) in [
                ("tag=a", "tag=b"),
                ("1@host", "2@host"),
                ("7 INVITE", "8 INVITE"),
                ("INVITE sip:bob", "INVITE sip:carol"),
                (":5062", ":5060"),
            ] {
                assert_ne!(key_of(&old(&changed(from, to))), original, "{to}");
            }
        }
    }

    #[test]
    fn parts_do_not_run_into_each_other() {
        let mut one = Vec::new();
        let mut other = Vec::new();
        write_client_key(&mut one, "1a", "X");
        write_client_key(&mut other, "a", "X1");
        assert_ne!(one, other);
    }

    #[test]
    fn a_name_is_no_address_of_the_same_octets() {
        for (name, address) in [
            ("abcd", "97.98.99.100"),
            (
                "abcdefghijklmnop",
                "[6162:6364:6566:6768:696a:6b6c:6d6e:6f70]",
            ),
        ] {
            let of = |host: &str| key_of(&changed("host.example.com", host)).0;
            assert_ne!(of(name), of(address), "{name}");
        }
    }

    #[test]
    fn a_request_without_via_has_no_key() {
        let text = INVITE.replace("Via:", "Trail:");
        let request = Message::read(Bytes::from(text)).expect("a message");
        let rules = write_server_key(&mut Vec::new(), &request, &Method::Invite);
        assert_eq!(rules, None);
    }
}
