//! SIPp's messages as templates: what each keyword stands for.

use super::ScriptReader;
use super::document::Element;
use super::keyword::{self, Keyword, Part};
use crate::scenario::problem::{Problems, hint};
use crate::script::{Action, Login, Slot, Template, TemplateBuilder, TemplatePart, Text, Within};

/// Keywords whose name says all, for people.
const NAMES: [&str; 37] = [
    "service",
    "remote_ip",
    "remote_port",
    "remote_host",
    "transport",
    "local_ip",
    "local_ip_type",
    "local_port",
    "server_ip",
    "media_ip",
    "media_ip_type",
    "media_port",
    "auto_media_port",
    "rtpstream_audio_port",
    "rtpstream_video_port",
    "dynamic_id",
    "timestamp",
    "date",
    "fill",
    "len",
    "call_number",
    "call_id",
    "cseq",
    "branch",
    "pid",
    "msg_index",
    "peer_tag_param",
    "routes",
    "next_url",
    "authentication",
    "clock_tick",
    "sipp_version",
    "userid",
    "last_Request_URI",
    "last_message",
    "last_cseq_number",
    "field0",
];

impl ScriptReader {
    /// The message of a `<send>`, and what has to be done before it can be written.
    pub(super) fn template(&mut self, element: &Element<'_>) -> Option<(Template, Vec<Action>)> {
        let (text, line) = element.text();
        let (text, line) = unindented(text, line);
        let problems = &mut element.file.problems.borrow_mut();
        if text.is_empty() {
            problems.add(line, "<send> has no message: it stands in <![CDATA[ … ]]>");
            return None;
        }
        let parts = keyword::parts(&text, line, problems);
        if parts.iter().any(is_without_encryption) {
            element.remark(
                "SRTP without encryption (NULL_…, UNENCRYPTED_SRTP) is written, and not agreed on",
            );
        }
        let mut before = Vec::new();
        let pieces = self.template_parts(&parts, &mut before, problems);
        let template = builder(pieces).build();
        match template {
            Ok(template) => Some((template, before)),
            Err(error) => {
                problems.add(line, error);
                None
            }
        }
    }

    /// A text with keywords, and what has to be done before it can be written.
    pub(super) fn text(
        &mut self,
        text: &str,
        line: usize,
        problems: &mut Problems,
    ) -> (Text, Vec<Action>) {
        let parts = keyword::parts(text, line, problems);
        let mut before = Vec::new();
        let pieces = self.template_parts(&parts, &mut before, problems);
        (builder(pieces).into_text(), before)
    }

    pub(super) fn template_parts(
        &mut self,
        parts: &[Part],
        before: &mut Vec<Action>,
        problems: &mut Problems,
    ) -> Vec<TemplatePart> {
        let mut pieces = Vec::with_capacity(parts.len());
        for part in parts {
            match part {
                Part::Literal(octets) => {
                    pieces.push(TemplatePart::Literal(octets.as_slice().into()))
                }
                Part::Keyword(keyword) => {
                    pieces.extend(self.template_part(keyword, before, problems))
                }
            }
        }
        pieces
    }

    fn template_part(
        &mut self,
        keyword: &Keyword,
        before: &mut Vec<Action>,
        problems: &mut Problems,
    ) -> Option<TemplatePart> {
        if let Some(text) = self.constant(&keyword.name) {
            return Some(TemplatePart::Literal(text.as_bytes().into()));
        }
        if keyword.name == "file" {
            return match self.file(keyword) {
                Ok(octets) => Some(TemplatePart::Literal(octets.into())),
                Err(message) => {
                    problems.add(keyword.line, message);
                    None
                }
            };
        }
        match self.slot(keyword, before, problems) {
            Ok(slot) => Some(TemplatePart::Slot(slot)),
            Err(message) => {
                problems.add(keyword.line, message);
                None
            }
        }
    }

    /// What a keyword stands for that always stands for the same.
    fn constant(&self, name: &str) -> Option<&str> {
        if name == "sipp_version" {
            return Some(concat!("tandem ", env!("CARGO_PKG_VERSION")));
        }
        // How many users there are is SIPp's alone.
        if name == "users" {
            return Some("-1");
        }
        // As without `-tdmmap`, with which SIPp gives each call a circuit.
        if name == "tdmmap" {
            return Some("0.0.0/0");
        }
        if let Some(constant) = cryptography(name) {
            return Some(constant);
        }
        let mut keywords = self.keywords.iter();
        let found = keywords.find(|(known, _)| known == name)?;
        (!NAMES.contains(&name)).then_some(&found.1)
    }

    fn slot(
        &mut self,
        keyword: &Keyword,
        before: &mut Vec<Action>,
        problems: &mut Problems,
    ) -> Result<Slot, String> {
        let name = keyword.name.as_str();
        if let Some(variable) = name.strip_prefix('$') {
            return Ok(Slot::Variable(self.assembly.variable(variable)));
        }
        if let Some(column) = name.strip_prefix("field") {
            return self.field(column, keyword, before, problems);
        }
        let slot = match name {
            "service" => Slot::Peer,
            "remote_ip" | "remote_host" => Slot::RemoteIp,
            "remote_port" => Slot::RemotePort,
            "transport" => Slot::Transport,
            "local_ip" | "server_ip" => Slot::LocalIp,
            "local_ip_type" => Slot::LocalIpVersion,
            "local_port" => Slot::LocalPort,
            "media_ip" => Slot::MediaIp,
            "media_ip_type" => Slot::MediaIpVersion,
            "media_port" | "auto_media_port" | "rtpstream_audio_port" | "rtpstream_video_port" => {
                Slot::MediaPort
            }
            "len" => Slot::ContentLength,
            "call_number" => Slot::CallNumber,
            "call_id" => Slot::CallId,
            "cseq" => Slot::CSeq,
            "dynamic_id" => Slot::Plus(Box::new(Slot::CallNumber), FIRST_DYNAMIC_ID),
            "timestamp" => Slot::Timestamp,
            "date" => Slot::Date,
            "cryptokeyparams1audio"
            | "cryptokeyparams2audio"
            | "cryptokeyparams1video"
            | "cryptokeyparams2video" => return Ok(self.crypto_key(keyword, before)),
            "fill" => return self.fill(keyword),
            // An offset names the step that made the branch: that of the ACK or CANCEL is the INVITE's.
            "branch" => return Ok(Slot::Branch),
            "pid" => Slot::Process,
            "msg_index" => Slot::Step,
            "peer_tag_param" => Slot::RemoteTag,
            "routes" => Slot::Routes,
            "next_url" => Slot::Target,
            "authentication" => {
                return Ok(Slot::Authorization(self.login(keyword, before, problems)));
            }
            "clock_tick" => Slot::Milliseconds,
            "userid" => Slot::UserNumber,
            "last_Request_URI" => Slot::LastRequestUri,
            "last_message" => {
                let whole = self.extracted(Within::Message, "(?s).*", before);
                return Ok(Slot::Variable(whole));
            }
            "last_cseq_number" => {
                let within = Within::Header {
                    name: "CSeq".to_owned(),
                    occurrence: 0,
                };
                Slot::Variable(self.extracted(within, "^[0-9]+", before))
            }
            _ => return last(name, keyword),
        };
        Ok(match keyword.offset {
            0 => slot,
            offset => Slot::Plus(Box::new(slot), offset),
        })
    }

    /// `[file name=…]`: what is in the file when the scenario is read.
    fn file(&self, keyword: &Keyword) -> Result<Vec<u8>, String> {
        const LONGEST: usize = 60_000;
        let Some([Part::Literal(name)]) = keyword.parameter("name") else {
            return Err("[file] needs a parameter name=…, without keywords".to_owned());
        };
        let octets = self.companions.read(&String::from_utf8_lossy(name))?;
        match octets.len() > LONGEST {
            true => Err(format!("the file of [file] has more than {LONGEST} octets")),
            false => Ok(octets),
        }
    }

    /// A new master key and salt, or with an offset below zero the latest ones of the same name.
    fn crypto_key(&mut self, keyword: &Keyword, before: &mut Vec<Action>) -> Slot {
        // 16 octets of key and 14 of salt (RFC 4568 section 6.1).
        const KEY_AND_SALT_OCTETS: u8 = 30;
        let variable = self.assembly.variable(&format!("key of {}", keyword.name));
        if keyword.offset >= 0 {
            let random = TemplatePart::Slot(Slot::RandomBase64(KEY_AND_SALT_OCTETS));
            let to = builder(vec![random]).into_text();
            before.push(Action::Set { variable, to });
        }
        Slot::Variable(variable)
    }

    /// `[fill text=… variable=…]`.
    fn fill(&mut self, keyword: &Keyword) -> Result<Slot, String> {
        let literal = |name| {
            keyword.parameter(name).map(|parts| match parts {
                [Part::Literal(octets)] => octets.as_slice(),
                _ => &[],
            })
        };
        let name = literal("variable").unwrap_or_default();
        let name = String::from_utf8_lossy(name);
        if name.is_empty() {
            return Err("[fill] needs a parameter variable=…, the length".to_owned());
        }
        let text = literal("text")
            .filter(|text| !text.is_empty())
            .unwrap_or(b"X");
        Ok(Slot::Fill(text.into(), self.assembly.variable(&name)))
    }

    /// `[authentication username=… password=…]`.
    fn login(
        &mut self,
        keyword: &Keyword,
        before: &mut Vec<Action>,
        problems: &mut Problems,
    ) -> Option<Box<Login>> {
        // Others are passed over, as with SIPp.
        if ["username", "password"]
            .iter()
            .all(|name| keyword.parameter(name).is_none())
        {
            return None;
        }
        let mut part = |name| {
            let parts = keyword.parameter(name).unwrap_or_default();
            builder(self.template_parts(parts, before, problems)).into_text()
        };
        Some(Box::new(Login {
            username: part("username"),
            password: part("password"),
        }))
    }

    /// A variable with a part of the last message.
    fn extracted(
        &mut self,
        within: Within,
        pattern: &str,
        before: &mut Vec<Action>,
    ) -> crate::script::Variable {
        let variable = self.assembly.own_variable("of the last message");
        if let Ok(pattern) = crate::scenario::expression::compiled(pattern) {
            before.push(Action::Extract {
                within,
                pattern: pattern.into(),
                into: vec![variable],
                check: None,
            });
        }
        variable
    }
}

/// SIPp numbers what it has to tell apart from here.
const FIRST_DYNAMIC_ID: i64 = 12_000;

/// What stands for parameters of a crypto attribute (RFC 4568 section 6.2): a tag, a suite, or that nothing is encrypted.
fn cryptography(name: &str) -> Option<&'static str> {
    let name = name
        .strip_suffix("audio")
        .or_else(|| name.strip_suffix("video"))?;
    Some(match name {
        "cryptotag1" => "1",
        "cryptotag2" => "2",
        "cryptosuiteaescm128sha1801" | "cryptosuiteaescm128sha1802" => "AES_CM_128_HMAC_SHA1_80",
        "cryptosuiteaescm128sha1321" | "cryptosuiteaescm128sha1322" => "AES_CM_128_HMAC_SHA1_32",
        "cryptosuitenullsha1801" | "cryptosuitenullsha1802" => "NULL_HMAC_SHA1_80",
        "cryptosuitenullsha1321" | "cryptosuitenullsha1322" => "NULL_HMAC_SHA1_32",
        "ueaescm128sha1801" | "ueaescm128sha1802" | "ueaescm128sha1321" | "ueaescm128sha1322" => {
            "UNENCRYPTED_SRTP"
        }
        _ => return None,
    })
}

/// Whether it stands for authentication alone.
fn is_without_encryption(part: &Part) -> bool {
    let Part::Keyword(keyword) = part else {
        return false;
    };
    let names = ["cryptosuitenull", "ueaescm128"];
    names.iter().any(|name| keyword.name.starts_with(name))
}

/// `[last_Via:]`, and what is not known.
fn last(name: &str, keyword: &Keyword) -> Result<Slot, String> {
    let field = name.strip_prefix("last_");
    let is_token = |octet: u8| octet.is_ascii_alphanumeric() || b"-.!%*_+`'~".contains(&octet);
    if let Some(field) = field {
        let (field, is_value) = match field.strip_suffix(".value") {
            Some(field) => (field, true),
            None => (field, false),
        };
        // What no field can be called leaves its line out, as does a field that is not there.
        let name = field.trim_end_matches(':');
        let field = match name.bytes().all(is_token) {
            true => name,
            false => "",
        };
        if name.len() < 256 {
            return Ok(match is_value {
                true => Slot::LastValue(field.into()),
                false => Slot::LastField(field.into()),
            });
        }
    }
    // The names that there are would be too many.
    let hint = hint(&keyword.name, &NAMES);
    let hint = if hint.starts_with("did") {
        hint + " "
    } else {
        String::new()
    };
    Err(format!(
        "[{}] is not a keyword: {hint}its value is given by -key {} VALUE; a literal \
         bracket is written \\x5b",
        keyword.name, keyword.name
    ))
}

/// The text of a message without its indentation, with CRLF, and the line on which it begins.
pub(super) fn unindented(text: &str, line: usize) -> (String, usize) {
    let blank = text
        .lines()
        .take_while(|line| line.trim().is_empty())
        .count();
    let lines = text.trim_end().lines().skip(blank);
    let mut unindented = String::with_capacity(text.len());
    let mut has_body = false;
    for line in lines {
        let line = line.trim();
        has_body |= line.is_empty();
        unindented.push_str(line);
        unindented.push_str("\r\n");
    }
    if !unindented.is_empty() && !has_body {
        unindented.push_str("\r\n");
    }
    (unindented, line + blank)
}

/// Pieces in order. A slot of whole lines has their ends, so the one behind it goes.
pub(super) fn builder(pieces: Vec<TemplatePart>) -> TemplateBuilder {
    let mut builder = Template::builder();
    let mut is_behind_lines = false;
    for piece in pieces {
        match piece {
            TemplatePart::Literal(octets) => {
                let octets = match octets.strip_prefix(b"\r\n") {
                    Some(rest) if is_behind_lines => rest,
                    _ => &octets,
                };
                builder.push_literal(octets);
                is_behind_lines = false;
            }
            TemplatePart::Slot(slot) => {
                is_behind_lines = slot.is_lines();
                builder.push_slot(slot);
            }
        }
    }
    builder
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indentation_and_empty_lines_around_a_message_are_not_its() {
        let (text, line) = unindented("\n\n   A b\n   C: d \n\n     ", 3);
        assert_eq!(text, "A b\r\nC: d\r\n\r\n");
        assert_eq!(line, 5);
        let (text, _) = unindented("\n A b\n\n  v=0\n  s=-\n\n", 1);
        assert_eq!(text, "A b\r\n\r\nv=0\r\ns=-\r\n");
        assert_eq!(unindented(" \n ", 1).0, "");
    }
}
