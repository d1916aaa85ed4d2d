//! The client's side: Binding requests that keep a flow alive, and their responses (RFC 5626 sections 4.4.2 and 8).

use std::net::{IpAddr, SocketAddr};

use bytes::Buf;

use super::{
    BINDING_ERROR, BINDING_REQUEST, BINDING_SUCCESS, COOKIE, HEADER, XOR_MAPPED_ADDRESS, is_stun,
};

/// The response to a Binding request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BindingResponse {
    /// The transaction ID of the request.
    pub transaction: [u8; 12],
    /// Our address as the server sees it; `None` in an error response.
    pub mapped_address: Option<SocketAddr>,
}

/// A Binding request without attributes (RFC 8489 section 5). The transaction ID is not to be foreseen by others.
pub fn binding_request(transaction: [u8; 12]) -> Vec<u8> {
    [&BINDING_REQUEST[..], &[0, 0], &COOKIE, &transaction].concat()
}

/// Reads the response to a Binding request. `None` for anything else, and for a success response without an address that can
/// be read.
pub fn read_binding_response(datagram: &[u8]) -> Option<BindingResponse> {
    if !is_stun(datagram) {
        return None;
    }
    let (header, mut attributes) = datagram.split_first_chunk::<HEADER>()?;
    let transaction = *header.last_chunk::<12>()?;
    if header.starts_with(&BINDING_ERROR) {
        return Some(BindingResponse {
            transaction,
            mapped_address: None,
        });
    }
    if !header.starts_with(&BINDING_SUCCESS) {
        return None;
    }
    loop {
        let kind = attributes.try_get_u16().ok()?;
        let length = usize::from(attributes.try_get_u16().ok()?);
        let value = attributes.get(..length)?;
        if kind == XOR_MAPPED_ADDRESS {
            return Some(BindingResponse {
                transaction,
                mapped_address: Some(xor_mapped_address(value, header.get(4..)?)?),
            });
        }
        attributes = attributes.get(length.next_multiple_of(4)..)?;
    }
}

/// RFC 8489 section 14.2; the key is the cookie and the transaction ID.
fn xor_mapped_address(value: &[u8], key: &[u8]) -> Option<SocketAddr> {
    let (head, address) = value.split_first_chunk::<4>()?;
    let [_, family, port @ ..] = head;
    let port = u16::from_be_bytes(port.to_owned()) ^ u16::from_be_bytes([COOKIE[0], COOKIE[1]]);
    let octets: Vec<u8> = address
        .iter()
        .zip(key)
        .map(|(octet, key)| octet ^ key)
        .collect();
    let ip = match family {
        1 => IpAddr::from(<[u8; 4]>::try_from(octets).ok()?),
        2 => IpAddr::from(<[u8; 16]>::try_from(octets).ok()?),
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

#[cfg(test)]
mod tests {
    use super::super::answer_binding;
    use super::*;

    #[test]
    fn what_a_server_answers_is_read() {
        let request = binding_request(*b"transactions");
        for source in ["192.0.2.1:32853", "[2001:db8::1]:5060"] {
            let source: SocketAddr = source.parse().expect("an address");
            let answer = answer_binding(&request, source).expect("an answer");
            let response = BindingResponse {
                transaction: *b"transactions",
                mapped_address: Some(source),
            };
            assert_eq!(read_binding_response(&answer), Some(response));
        }
    }

    #[test]
    fn what_is_no_response_is_not_read() {
        let request = binding_request(*b"transactions");
        assert_eq!(read_binding_response(&request), None);
        let source = "192.0.2.1:32853".parse().expect("an address");
        let answer = answer_binding(&request, source).expect("an answer");
        for end in 0..answer.len() {
            assert_eq!(read_binding_response(&answer[..end]), None, "{end}");
        }
        // Another family, and one whose address is too short.
        for (place, octet) in [(25, 3), (25, 2), (21, 0x21)] {
            let mut other = answer.clone();
            other[place] = octet;
            assert_eq!(read_binding_response(&other), None, "{place}");
        }
    }

    #[test]
    fn an_error_is_a_response_without_address() {
        let error = [
            &BINDING_ERROR[..],
            &[0, 8],
            &COOKIE,
            b"transactions\x00\x09\x00\x04\x00\x00\x04\x00",
        ]
        .concat();
        let response = read_binding_response(&error).expect("a response");
        assert_eq!(response.mapped_address, None);
    }
}
