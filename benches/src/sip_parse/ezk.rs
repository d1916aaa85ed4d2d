//! ezk-sip-types.

use std::hint::black_box;

use anyhow::{Context, anyhow, ensure};
use bytes::Bytes;
use ezk_sip_types::header::HeaderParse;
use ezk_sip_types::header::typed::{CSeq, Contact, FromTo, Routing, Via};
use ezk_sip_types::msg::{Line, MessageLine, PullParser, RequestLine};
use ezk_sip_types::parse::Parse;
use ezk_sip_types::print::AppendCtx;
use ezk_sip_types::uri::SipUri;
use ezk_sip_types::{Headers, Name};

use super::{RECORD_ROUTE, REQUEST_URI, VIA};

pub(super) fn forward(invite: &Bytes) -> anyhow::Result<Vec<u8>> {
    forward_after(|_| Ok(()), invite)
}

pub(super) fn check_and_forward(invite: &Bytes) -> anyhow::Result<Vec<u8>> {
    forward_after(check, invite)
}

/// Parses the values that a proxy has to check.
fn check(field: &Line) -> anyhow::Result<()> {
    // To compare with a `Name` is to compare with all its spellings.
    match field.name.as_print_str() {
        "Via" => check_values::<Via>(field),
        "From" | "To" => check_values::<FromTo>(field),
        "Contact" => check_values::<Contact>(field),
        "Route" | "Record-Route" => check_values::<Routing>(field),
        "CSeq" => check_values::<CSeq>(field),
        _ => Ok(()),
    }
}

/// Parses value by value: a list that `Headers` parses ends at a malformed value without an error.
fn check_values<T: HeaderParse>(field: &Line) -> anyhow::Result<()> {
    let mut rest = field.value.as_str();
    loop {
        let parsed = T::parse(field.value.as_ref(), rest);
        let (behind, header) = parsed.map_err(|error| anyhow!("{error}"))?;
        black_box(&header);
        match behind.trim_start().strip_prefix(',') {
            Some(next) => rest = next.trim_start(),
            None => {
                ensure!(behind.trim_start().is_empty(), "{behind:?} is left");
                return Ok(());
            }
        }
    }
}

/// The request as it is forwarded, after each of its fields has passed a check.
fn forward_after(
    check: impl Fn(&Line) -> anyhow::Result<()>,
    invite: &Bytes,
) -> anyhow::Result<Vec<u8>> {
    let mut parser = PullParser::new(invite, 0);
    let first = line(parser.next())?;
    let (_, start) = MessageLine::parse(invite)(first).map_err(|error| anyhow!("{error}"))?;
    let MessageLine::Request(RequestLine { method, .. }) = start else {
        anyhow::bail!("no request");
    };
    let mut headers = Headers::with_capacity(20);
    // Values of one name are kept in their order: what goes in front goes in first.
    headers.insert(Name::VIA, VIA);
    headers.insert(Name::RECORD_ROUTE, RECORD_ROUTE);
    let mut is_routed = false;
    for next in parser.by_ref() {
        let text = line(Some(next))?;
        let (_, field) = Line::parse(invite, text).map_err(|error| anyhow!("{error}"))?;
        check(&field)?;
        let Line { name, value } = field;
        if name == Name::ROUTE && !is_routed {
            is_routed = true;
        } else if name == Name::MAX_FORWARDS {
            let hops: u32 = value.trim().parse().context("Max-Forwards")?;
            headers.insert(name, hops - 1);
        } else {
            headers.insert(name, value);
        }
    }
    let (_, uri) = SipUri::parse(&Bytes::from_static(REQUEST_URI.as_bytes()))(REQUEST_URI)
        .map_err(|error| anyhow!("{error}"))?;
    let start = MessageLine::Request(RequestLine { method, uri });
    let head = format!("{}\r\n{headers}\r\n", start.default_print_ctx());
    let mut octets = head.into_bytes();
    octets.extend_from_slice(&invite[parser.head_end()..]);
    Ok(octets)
}

fn line<E: std::fmt::Debug>(next: Option<Result<&[u8], E>>) -> anyhow::Result<&str> {
    let octets = next.context("no line")?;
    let octets = octets.map_err(|error| anyhow!("{error:?}"))?;
    Ok(std::str::from_utf8(octets)?)
}
