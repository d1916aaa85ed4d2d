//! Templates as text: names of slots in braces.

use super::template::{EchoedField, Slot, Template, TemplateBuilder, TemplateError, Text};

impl Template {
    /// Reads a template from text. Slots are names in braces; a brace itself is written twice. Lines end
    /// with LF or CRLF and are written with CRLF. A slot of whole lines ([`Slot::Routes`],
    /// [`Slot::Authorization`], [`Slot::MediaSource`], [`Slot::Echo`]) has a line of its own, of which nothing is left where the
    /// slot is empty. White space at the beginning of the first line is passed over.
    ///
    /// # Errors
    ///
    /// A name that is not known, an open brace, a bad first line.
    pub fn parse(text: &str) -> Result<Template, TemplateError> {
        Template::parse_with(text, |_| None)
    }

    /// As [`parse`](Template::parse), with further names: what `slot` does not know is looked up among the
    /// common ones.
    ///
    /// # Errors
    ///
    /// As for [`parse`](Template::parse).
    pub fn parse_with(
        text: &str,
        slot: impl FnMut(&str) -> Option<Slot>,
    ) -> Result<Template, TemplateError> {
        parse(text, slot)?.build()
    }

    /// Reads a text that is no message, as the value of a variable: white space and line ends stay as they
    /// are. `slot` knows further names.
    ///
    /// # Errors
    ///
    /// A name that is not known, an open brace.
    pub fn parse_text_with(
        text: &str,
        slot: impl FnMut(&str) -> Option<Slot>,
    ) -> Result<Text, TemplateError> {
        parse_plain(text, slot)
    }
}

impl Slot {
    /// The slot that [`Template::parse`] knows by this name.
    pub fn by_name(name: &str) -> Option<Slot> {
        Some(match name {
            "call_id" => Slot::CallId,
            "branch" => Slot::Branch,
            "local_tag" => Slot::LocalTag,
            "remote_tag" => Slot::RemoteTag,
            "cseq" => Slot::CSeq,
            "user" => Slot::User,
            "peer" => Slot::Peer,
            "user_number" => Slot::UserNumber,
            "peer_number" => Slot::PeerNumber,
            "call_number" => Slot::CallNumber,
            "domain" => Slot::Domain,
            "local_address" => Slot::LocalAddress,
            "local_ip" => Slot::LocalIp,
            "local_port" => Slot::LocalPort,
            "local_ip_version" => Slot::LocalIpVersion,
            "remote_address" => Slot::RemoteAddress,
            "remote_ip" => Slot::RemoteIp,
            "remote_port" => Slot::RemotePort,
            "transport" => Slot::Transport,
            "transport_parameter" => Slot::TransportParameter,
            "media_ip" => Slot::MediaIp,
            "media_ip_version" => Slot::MediaIpVersion,
            "media_port" => Slot::MediaPort,
            "media_source" => Slot::MediaSource,
            "contact" => Slot::Contact,
            "target" => Slot::Target,
            "routes" => Slot::Routes,
            "authorization" => Slot::Authorization(None),
            "expires" => Slot::Expires,
            "request_vias" => Slot::Echo(EchoedField::Via),
            "request_from" => Slot::Echo(EchoedField::From),
            "request_to" => Slot::Echo(EchoedField::To),
            "request_call_id" => Slot::Echo(EchoedField::CallId),
            "request_cseq" => Slot::Echo(EchoedField::CSeq),
            "request_record_routes" => Slot::Echo(EchoedField::RecordRoute),
            "local_party" => Slot::LocalParty,
            "remote_party" => Slot::RemoteParty,
            "content_length" => Slot::ContentLength,
            "step" => Slot::Step,
            "process" => Slot::Process,
            "milliseconds" => Slot::Milliseconds,
            "random" => Slot::Random,
            _ => return None,
        })
    }
}

/// Reads the parts of a text.
fn parse(
    text: &str,
    mut slot: impl FnMut(&str) -> Option<Slot>,
) -> Result<TemplateBuilder, TemplateError> {
    let mut builder = TemplateBuilder::default();
    let text = text.trim_start();
    for line in text.split_inclusive('\n') {
        let (content, end) = match line.strip_suffix('\n') {
            Some(content) => (content.strip_suffix('\r').unwrap_or(content), "\r\n"),
            None => (line, ""),
        };
        let is_lines_alone = read_line(&mut builder, content, &mut slot)?;
        if !is_lines_alone {
            builder.push_literal(end.as_bytes());
        }
    }
    Ok(builder)
}

/// Reads the parts of a text that is no message: white space and line ends stay as they are.
fn parse_plain(
    text: &str,
    mut slot: impl FnMut(&str) -> Option<Slot>,
) -> Result<Text, TemplateError> {
    let mut builder = TemplateBuilder::default();
    read_line(&mut builder, text, &mut slot)?;
    Ok(builder.into_text())
}

/// Reads a line without its end. Returns whether it is a slot of whole lines and nothing else.
fn read_line(
    builder: &mut TemplateBuilder,
    line: &str,
    slot: &mut impl FnMut(&str) -> Option<Slot>,
) -> Result<bool, TemplateError> {
    let mut rest = line;
    let mut is_lines_alone = false;
    while let Some(at) = rest.find(['{', '}']) {
        let (before, from) = rest.split_at(at);
        builder.push_literal(before.as_bytes());
        let brace = &from[..1];
        if let Some(after) = from[1..].strip_prefix(brace) {
            builder.push_literal(brace.as_bytes());
            rest = after;
            continue;
        }
        if brace == "}" {
            builder.push_literal(brace.as_bytes());
            rest = &from[1..];
            continue;
        }
        let (name, after) = from[1..].split_once('}').ok_or(TemplateError::OpenBrace)?;
        let found = slot(name)
            .or_else(|| Slot::by_name(name))
            .ok_or_else(|| TemplateError::UnknownSlot(name.to_owned()))?;
        is_lines_alone = found.is_lines() && before.is_empty() && after.trim().is_empty();
        builder.push_slot(found);
        rest = after;
        if is_lines_alone {
            return Ok(true);
        }
    }
    builder.push_literal(rest.as_bytes());
    Ok(is_lines_alone)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::{CSeqSource, Start, TemplatePart};

    fn shown(parts: &[TemplatePart]) -> String {
        parts
            .iter()
            .map(|part| match part {
                TemplatePart::Literal(octets) => String::from_utf8_lossy(octets).into_owned(),
                TemplatePart::Slot(slot) => format!("<{slot:?}>"),
            })
            .collect()
    }

    #[test]
    fn lines_end_with_crlf_and_slots_of_lines_take_theirs() {
        let parts = parse("A {{b}} {user}\n{routes}\nC: {cseq}\r\n", |_| None).unwrap();
        let parts = parts.into_text();
        assert_eq!(shown(&parts), "A {b} <User>\r\n<Routes>C: <CSeq>\r\n");
    }

    #[test]
    fn names_that_are_not_known_and_open_braces_are_errors() {
        assert_eq!(
            Template::parse("OPTIONS {nobody} SIP/2.0\n").unwrap_err(),
            TemplateError::UnknownSlot("nobody".to_owned())
        );
        assert_eq!(
            Template::parse("OPTIONS {user SIP/2.0\n").unwrap_err(),
            TemplateError::OpenBrace
        );
        assert!(matches!(
            Template::parse("{user} sip:a SIP/2.0\n"),
            Err(TemplateError::Start(_))
        ));
        assert!(matches!(
            Template::parse("SIP/2.0 20 OK\n"),
            Err(TemplateError::Start(_))
        ));
    }

    #[test]
    fn the_head_ends_at_the_empty_line() {
        let template = Template::parse("SIP/2.0 200 OK\n{request_vias}\n\nv=0\n\n").unwrap();
        assert_eq!(template.start(), &Start::Response(200));
        assert_eq!(shown(template.head()), "SIP/2.0 200 OK\r\n<Echo(Via)>\r\n");
        assert_eq!(shown(template.body()), "v=0\r\n\r\n");
        let template = Template::parse("BYE sip:a SIP/2.0\nCSeq: 7 BYE\n").unwrap();
        assert_eq!(
            shown(template.head()),
            "BYE sip:a SIP/2.0\r\nCSeq: 7 BYE\r\n\r\n"
        );
        assert_eq!(template.cseq_source(), CSeqSource::Written(7));
        assert!(template.body().is_empty());
    }
}
