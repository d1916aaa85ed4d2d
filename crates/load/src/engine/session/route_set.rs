//! The route set of a dialog (RFC 3261 sections 12.1.1 and 12.1.2) as lines of Route.

use sip::{Name, list_values};

use crate::engine::received::{Received, address_uri};

/// Writes the route set that a request gives its callee: in the order of Record-Route (section 12.1.1).
pub(in crate::engine) fn write_of_callee(request: &Received<'_>, out: &mut Vec<u8>) {
    request.each_field(Name::RecordRoute, &request.record_routes, |value| {
        for route in list_values(value) {
            write_route(route, out);
        }
    });
}

/// Writes the route set that a response gives its caller: reversed (section 12.1.2).
pub(in crate::engine) fn write_of_caller(response: &Received<'_>, out: &mut Vec<u8>) {
    let mut routes: Vec<&[u8]> = Vec::new();
    response.each_field(Name::RecordRoute, &response.record_routes, |value| {
        routes.extend(list_values(value));
    });
    for route in routes.iter().rev() {
        write_route(route, out);
    }
}

/// Whether the first of some lines of Route is a strict router, which has no parameter lr (section 12.2.1.1).
pub(in crate::engine) fn is_strict(routes: &[u8]) -> bool {
    let Some(uri) = first_uri(routes) else {
        return false;
    };
    let mut parameters = uri.split(|octet| matches!(octet, b';' | b'?')).skip(1);
    !parameters.any(|parameter| {
        let name = parameter.split(|octet| *octet == b'=').next();
        name.is_some_and(|name| name.eq_ignore_ascii_case(b"lr"))
    })
}

/// The URI of the first of some lines of Route.
pub(in crate::engine) fn first_uri(routes: &[u8]) -> Option<&[u8]> {
    let first = routes.split(|octet| *octet == b'\r').next();
    first.and_then(address_uri)
}

/// The lines of Route behind the first one.
pub(in crate::engine) fn without_first(routes: &[u8]) -> &[u8] {
    let rest = memchr::memchr(b'\n', routes).map_or(routes.len(), |end| end + 1);
    routes.get(rest..).unwrap_or_default()
}

fn write_route(route: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(b"Route: ");
    out.extend_from_slice(route);
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_first_route_without_lr_is_strict() {
        for (routes, strict) in [
            ("Route: <sip:p;lr>\r\nRoute: <sip:q>\r\n", false),
            ("Route: <sip:p;LR=on>\r\n", false),
            (
                "Route: <sip:p;transport=tcp>\r\nRoute: <sip:q;lr>\r\n",
                true,
            ),
            ("Route: <sip:p>;lr\r\n", true),
            ("", false),
        ] {
            assert_eq!(is_strict(routes.as_bytes()), strict, "{routes}");
        }
        let routes = b"Route: <sip:p>\r\nRoute: <sip:q>\r\n";
        assert_eq!(first_uri(routes), Some(&b"sip:p"[..]));
        assert_eq!(without_first(routes), b"Route: <sip:q>\r\n");
        assert_eq!(without_first(b""), b"");
    }
}
