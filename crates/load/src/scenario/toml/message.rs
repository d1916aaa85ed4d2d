//! Messages that steps send: from a method or a status with what differs from the usual, or written out.

use sip::Method;

use super::step::ScriptReader;
use super::table::{Table, Value};
use crate::scenario::reason::reason;
use crate::script::{Login, Slot, Template, TemplateError, Text};

/// Fields that a request has anyway, in their order, with their lines; those that depend on the method have
/// none here. A slot may stand for several fields of a line each.
const REQUEST: [(&str, &str); 9] = [
    (
        "Via",
        "Via: SIP/2.0/{transport} {local_address};branch={branch}",
    ),
    ("Max-Forwards", "Max-Forwards: 70"),
    ("Route", "{routes}"),
    ("From", ""),
    ("To", ""),
    ("Call-ID", "Call-ID: {call_id}"),
    ("CSeq", ""),
    ("Contact", "Contact: <{contact}>"),
    ("Authorization", "{authorization}"),
];

/// The same of a response.
const RESPONSE: [(&str, &str); 7] = [
    ("Via", "{request_vias}"),
    ("Record-Route", "{request_record_routes}"),
    ("From", "{request_from}"),
    ("To", "{request_to}"),
    ("Call-ID", "{request_call_id}"),
    ("CSeq", "{request_cseq}"),
    ("Contact", "Contact: <{contact}>"),
];

/// An offer or answer of one stream of G.711.
const SESSION: &str = "\
v=0
o=tandem 1 {milliseconds} IN IP{media_ip_version} {media_ip}
s=-
c=IN IP{media_ip_version} {media_ip}
t=0 0
m=audio {media_port} RTP/AVP 0 8
a=rtpmap:0 PCMU/8000
a=rtpmap:8 PCMA/8000
";

/// The header section in the making: lines with the names of their fields.
struct Fields {
    lines: Vec<(String, String)>,
    without: Vec<String>,
}

impl ScriptReader {
    /// A request by its method.
    pub(super) fn request(&mut self, table: &Table<'_, '_>, method: &Method) -> Option<Template> {
        let is_registration = *method == Method::Register;
        let uri = match table.value("uri") {
            Some(uri) => self.line(&uri)?,
            None if is_registration => "sip:{domain}".to_owned(),
            None => "{target}".to_owned(),
        };
        let login = self.login(table);
        let (from, to) = match (is_registration, &self.first_method) {
            (true, _) => (
                "<sip:{user}@{domain}>;tag={local_tag}",
                "<sip:{user}@{domain}>",
            ),
            // Who is called speaks of both as the request did that began the run.
            (false, Some(_)) => ("{local_party}", "{remote_party}"),
            (false, None) => (
                "<sip:{user}@{domain}>;tag={local_tag}",
                "<sip:{peer}@{domain}>{remote_tag}",
            ),
        };
        let mut fields = Fields::new();
        for (name, line) in REQUEST {
            let line = match name {
                "From" => format!("From: {from}"),
                "To" => format!("To: {to}"),
                "CSeq" => format!("CSeq: {{cseq}} {method}"),
                // RFC 3261 section 20, table 2: a BYE has none, an ACK needs none.
                "Contact" if matches!(method, Method::Ack | Method::Bye) => continue,
                _ => line.to_owned(),
            };
            fields.add(name, line);
        }
        if is_registration {
            fields.add("Expires", "Expires: {expires}".to_owned());
        }
        self.message(table, format!("{method} {uri} SIP/2.0"), fields, login)
    }

    /// A response by its status.
    pub(super) fn response(&mut self, table: &Table<'_, '_>, status: u16) -> Option<Template> {
        let reason = match table.value("reason") {
            Some(reason) => self.line(&reason)?,
            None => reason(status).to_owned(),
        };
        let mut fields = Fields::new();
        for (name, line) in RESPONSE {
            // RFC 3261 section 12.1.1: a dialog is made by 2xx, and by 101 to 199.
            let is_of_dialog = matches!(name, "Record-Route" | "Contact");
            if !is_of_dialog || (101..300).contains(&status) {
                fields.add(name, line.to_owned());
            }
        }
        self.message(table, format!("SIP/2.0 {status} {reason}"), fields, None)
    }

    /// A message that is written out.
    pub(super) fn whole_message(&mut self, table: &Table<'_, '_>) -> Option<Template> {
        let value = table.value("message")?;
        let login = self.login(table);
        self.template(&value, value.text()?, login)
    }

    /// A text with slots.
    pub(super) fn text(&mut self, value: &Value<'_, '_>) -> Option<Text> {
        let text = value.text()?;
        let pieces = Template::parse_text_with(text, |name| self.slot(name, None));
        pieces.map_err(|error| complain(value, text, &error)).ok()
    }

    fn message(
        &mut self,
        table: &Table<'_, '_>,
        start: String,
        mut fields: Fields,
        login: Option<Login>,
    ) -> Option<Template> {
        let mut is_sound = true;
        if let Some(headers) = table.value("headers") {
            for entry in headers.entries() {
                let name = entry.key();
                let is_token =
                    |octet: u8| octet.is_ascii_alphanumeric() || b"-.!%*_+`'~".contains(&octet);
                if name.is_empty() || !name.bytes().all(is_token) {
                    entry.problem(format_args!("\"{name}\" is not a name of a header field"));
                    is_sound = false;
                    continue;
                }
                let mut lines = Vec::new();
                for value in entry.each() {
                    match self.line(&value) {
                        Some(value) => lines.push(format!("{name}: {value}")),
                        None => is_sound = false,
                    }
                }
                fields.set(name, lines);
            }
        }
        if let Some(without) = table.value("without") {
            for value in without.each() {
                fields
                    .without
                    .extend(value.text().map(str::to_ascii_lowercase));
            }
        }
        let content = self.content(table, &mut fields, &mut is_sound);
        let value = table.value("send")?;
        if !is_sound {
            return None;
        }
        let mut text = format!("{start}\n");
        for line in fields.into_lines() {
            text.push_str(&line);
            text.push('\n');
        }
        text.push_str("Content-Length: {content_length}\n\n");
        text.push_str(content.unwrap_or_default());
        self.template(&value, &text, login)
    }

    /// The body, whose type becomes a field.
    fn content<'r>(
        &mut self,
        table: &Table<'r, '_>,
        fields: &mut Fields,
        is_sound: &mut bool,
    ) -> Option<&'r str> {
        let is_session = table.flag("sdp", false);
        let body = table.value("body");
        let body = match (body, is_session) {
            (None, false) => return None,
            (None, true) => {
                fields.set(
                    "Content-Type",
                    vec!["Content-Type: application/sdp".to_owned()],
                );
                return Some(SESSION);
            }
            (Some(body), true) => {
                body.problem("\"sdp = true\" is a body already");
                *is_sound = false;
                return None;
            }
            (Some(body), false) => body,
        };
        let Some(parts) = body.table("a body") else {
            *is_sound = false;
            return None;
        };
        let media_type = parts.text("type");
        let text = parts.text("text");
        parts.finish();
        match (media_type, text) {
            (Some(media_type), Some(text))
                if media_type.contains('/') && is_one_line(media_type) =>
            {
                let line = format!("Content-Type: {media_type}");
                fields.set("Content-Type", vec![line]);
                // Slots are read with the whole message; here is the place to say where they stand.
                *is_sound &= parts
                    .value("text")
                    .is_none_or(|value| self.text(&value).is_some());
                Some(text)
            }
            _ => {
                body.problem("a body is { type = \"text/plain\", text = \"…\" }");
                *is_sound = false;
                None
            }
        }
    }

    /// A text that stays on a line, with its slots.
    fn line(&mut self, value: &Value<'_, '_>) -> Option<String> {
        let text = value.text()?;
        if !is_one_line(text) {
            value.problem("a line end within a header field would begin another one");
            return None;
        }
        self.text(value)?;
        Some(text.to_owned())
    }

    fn login(&mut self, table: &Table<'_, '_>) -> Option<Login> {
        let mut part = |key| {
            let value = table.value(key)?;
            self.text(&value)
        };
        let (username, password) = (part("username"), part("password"));
        if username.is_none() && password.is_none() {
            return None;
        }
        Some(Login {
            username: username.unwrap_or_default(),
            password: password.unwrap_or_default(),
        })
    }

    fn template(
        &mut self,
        value: &Value<'_, '_>,
        text: &str,
        login: Option<Login>,
    ) -> Option<Template> {
        let template = Template::parse_with(text, |name| self.slot(name, login.as_ref()));
        template.map_err(|error| complain(value, text, &error)).ok()
    }

    /// Names of slots beside the common ones.
    fn slot(&mut self, name: &str, login: Option<&Login>) -> Option<Slot> {
        if self.names.contains_key(name) {
            return Some(Slot::Variable(self.assembly.variable(name)));
        }
        if let Some(name) = name.strip_prefix("header.") {
            return Some(Slot::LastValue(name.into()));
        }
        if let Some(column) = name.strip_prefix("field.") {
            return column.parse().ok().map(Slot::Field);
        }
        if let Some(column) = name.strip_prefix("peer_field.") {
            return column.parse().ok().map(Slot::PeerField);
        }
        match (name, login) {
            ("authorization", Some(login)) => {
                Some(Slot::Authorization(Some(Box::new(login.clone()))))
            }
            _ => None,
        }
    }
}

impl Fields {
    fn new() -> Fields {
        Fields {
            lines: Vec::new(),
            without: Vec::new(),
        }
    }

    fn add(&mut self, name: &str, line: String) {
        self.lines.push((name.to_ascii_lowercase(), line));
    }

    /// Puts these lines where the field stands, or behind all others.
    fn set(&mut self, name: &str, lines: Vec<String>) {
        let name = name.to_ascii_lowercase();
        let place = self.lines.iter().position(|(known, _)| *known == name);
        self.lines.retain(|(known, _)| *known != name);
        let place = place.unwrap_or(self.lines.len());
        let lines = lines.into_iter().map(|line| (name.clone(), line));
        self.lines.splice(place..place, lines);
    }

    fn into_lines(self) -> impl Iterator<Item = String> {
        let without = self.without;
        self.lines
            .into_iter()
            .filter(move |(name, _)| !without.contains(name))
            .map(|(_, line)| line)
    }
}

fn is_one_line(text: &str) -> bool {
    !text.contains(['\r', '\n'])
}

/// Says what is wrong with a template, on the line of the slot where it is about one.
fn complain(value: &Value<'_, '_>, text: &str, error: &TemplateError) {
    let at = match error {
        TemplateError::UnknownSlot(name) => text.find(&format!("{{{name}}}")),
        TemplateError::OpenBrace => text.rfind('{'),
        _ => None,
    };
    let before = text.get(..at.unwrap_or_default()).unwrap_or_default();
    let line = value.text_line() + before.matches('\n').count();
    match error {
        TemplateError::UnknownSlot(name) => value.problem_at(
            line,
            format_args!(
                "{{{name}}} is not known: it is neither a slot nor a variable that a step assigns; a brace \
                 itself is written twice, {{{{"
            ),
        ),
        error => value.problem_at(line, error),
    }
}
