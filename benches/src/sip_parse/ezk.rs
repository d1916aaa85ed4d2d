//! ezk-sip-types.

use anyhow::{Context, anyhow};
use bytes::Bytes;
use ezk_sip_types::msg::{Line, MessageLine, PullParser, RequestLine};
use ezk_sip_types::parse::Parse;
use ezk_sip_types::print::AppendCtx;
use ezk_sip_types::uri::SipUri;
use ezk_sip_types::{Headers, Name};

use super::{RECORD_ROUTE, REQUEST_URI, VIA};

pub(super) fn forward(invite: &Bytes) -> anyhow::Result<Vec<u8>> {
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
        let (_, Line { name, value }) =
            Line::parse(invite, text).map_err(|error| anyhow!("{error}"))?;
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
