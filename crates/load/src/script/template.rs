//! Messages that are to be written: literal parts, and slots that are filled when it is sent.

use std::sync::Arc;

use sip::Method;

use super::table::Table;
use super::variable::Variable;

/// A message that is to be written, taken apart once: what is always the same, and slots.
#[derive(Clone, Debug)]
pub struct Template {
    parts: Vec<TemplatePart>,
    /// How many of the parts are before the body, the empty line included.
    head: usize,
    start: Start,
    cseq: CSeqSource,
    flags: Flags,
}

/// Where the sequence number of a message comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CSeqSource {
    /// The engine.
    Engine,
    /// It is written out.
    Written(u32),
    /// Something else, such as a variable: it is known when the message has been written.
    Other,
}

/// What the engine wants to know of a template before it writes it.
#[derive(Clone, Copy, Debug, Default)]
struct Flags {
    has_branch: bool,
    has_call_id: bool,
    has_local_tag: bool,
    echoes_to: bool,
    authorizes: bool,
    names_remote_tag: bool,
    uses_last: bool,
    is_stable: bool,
    is_bare: bool,
}

/// What a template's start line says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Start {
    /// It is a request.
    Request(Method),
    /// It is a response.
    Response(u16),
}

/// A part of a message.
#[derive(Clone, Debug)]
pub enum TemplatePart {
    /// Always the same.
    Literal(Box<[u8]>),
    /// Filled when it is sent.
    Slot(Slot),
}

/// A text that a step writes: parts as those of a template.
pub type Text = Vec<TemplatePart>;

/// What is filled in when a message is sent. The name by which [`Template::parse`] knows it is in
/// parentheses.
#[derive(Clone, Debug)]
pub enum Slot {
    /// The Call-ID of the run, on both sides (`call_id`).
    CallId,
    /// The branch of the request's transaction, magic cookie included (`branch`; RFC 3261 section
    /// 8.1.1.7).
    Branch,
    /// Our tag (`local_tag`).
    LocalTag,
    /// `;tag=` and the peer's tag; nothing before it is known (`remote_tag`).
    RemoteTag,
    /// The sequence number of the request: in an ACK or CANCEL that of the INVITE (`cseq`).
    CSeq,
    /// The name of our user (`user`).
    User,
    /// The name of the user at the other end (`peer`).
    Peer,
    /// The number of our user (`user_number`).
    UserNumber,
    /// The number of the user at the other end (`peer_number`).
    PeerNumber,
    /// How many runs this engine had begun when this one began, it included (`call_number`).
    CallNumber,
    /// The domain of the users' addresses of record (`domain`).
    Domain,
    /// Our address and port (`local_address`).
    LocalAddress,
    /// Our address, IPv6 in brackets (`local_ip`).
    LocalIp,
    /// Our port (`local_port`).
    LocalPort,
    /// `4` or `6` (`local_ip_version`).
    LocalIpVersion,
    /// Address and port of the next hop (`remote_address`).
    RemoteAddress,
    /// Address of the next hop, IPv6 in brackets (`remote_ip`).
    RemoteIp,
    /// Port of the next hop (`remote_port`).
    RemotePort,
    /// The transport as a Via names it (`transport`; RFC 3261 section 20.42).
    Transport,
    /// The transport as a URI parameter names it (`transport_parameter`; RFC 3261 section 19.1.1).
    TransportParameter,
    /// The address for media, without brackets (`media_ip`).
    MediaIp,
    /// `4` or `6` (`media_ip_version`).
    MediaIpVersion,
    /// The port for media of this run (`media_port`).
    MediaPort,
    /// A whole line: the source of this run's media (`media_source`; RFC 5576 section 4.1). Nothing where there
    /// are no media.
    MediaSource,
    /// The URI at which our user is reached, without angle brackets (`contact`).
    Contact,
    /// The URI that a request within the dialog is for: the peer's Contact (`target`; RFC 3261 section
    /// 12.2.1.1); before there is one, the peer's address of record.
    Target,
    /// Whole lines: the route set of the dialog, or before there is one the route that the configuration
    /// gives (`routes`). Nothing where it is empty.
    Routes,
    /// Whole lines: the credentials that were asked for (`authorization`). Nothing where none were. With
    /// a name and a password of the script's own, or with those of the user.
    Authorization(Option<Box<Login>>),
    /// For how many seconds to register; 0 to unregister (`expires`).
    Expires,
    /// A whole line of the request that is answered.
    Echo(EchoedField),
    /// The value of From in a request within the dialog: our address and tag (`local_party`).
    LocalParty,
    /// The value of To in a request within the dialog: the peer's address and tag (`remote_party`).
    RemoteParty,
    /// All fields of a name in the last message received, name and all, separated by line ends but
    /// without the last one. Where there is none, the line in which the slot stands is left out from there
    /// on, its end included.
    LastField(Box<str>),
    /// The value of the first field of a name in the last message received; nothing where there is none.
    LastValue(Box<str>),
    /// The Request-URI of the last request received; nothing after a response.
    LastRequestUri,
    /// What is in a variable; nothing where it is not set.
    Variable(Variable),
    /// A column of our user's row in the file of users, counted from 0; nothing where there is none.
    Field(u16),
    /// A column of a row of a table: of the session's own row, or of that whose number, from 0, the text gives. Nothing where there
    /// is none.
    TableField {
        /// The table.
        table: Arc<Table>,
        /// The column, counted from 0.
        column: u16,
        /// Which row.
        row: Option<Text>,
    },
    /// A column of a row of the file of users.
    RowField {
        /// The column, counted from 0.
        column: u16,
        /// Which row, counted from 0.
        row: Text,
    },
    /// A column of the peer's row.
    PeerField(u16),
    /// The length of the body (`content_length`).
    ContentLength,
    /// The number of the step (`step`).
    Step,
    /// The number of the process, which the configuration gives (`process`).
    Process,
    /// Milliseconds since the engine began (`milliseconds`).
    Milliseconds,
    /// A random number of 32 bits (`random`).
    Random,
    /// As many random octets, in base64.
    RandomBase64(u8),
    /// A number and what is added to it. What is no number is left as it is.
    Plus(Box<Slot>, i64),
    /// A text repeated until it has as many octets as the number in a variable says.
    Fill(Box<[u8]>, Variable),
    /// The time of day as SIPp's `[timestamp]` has it.
    Timestamp,
    /// The time of day in whole seconds since 1970.
    UnixSeconds,
    /// The microseconds of the time of day.
    Microseconds,
    /// The time of day as a Date field has it (RFC 3261 section 20.17).
    Date,
}

/// A name and a password of a script's own.
#[derive(Clone, Debug, Default)]
pub struct Login {
    /// The name; the user's own where it is empty.
    pub username: Text,
    /// The password; the user's own where it is empty.
    pub password: Text,
}

/// What a response takes over from the request that it answers (RFC 3261 sections 8.2.6.2 and 12.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EchoedField {
    /// All Via lines (`request_vias`).
    Via,
    /// From (`request_from`).
    From,
    /// To, with our tag where it has none (`request_to`).
    To,
    /// Call-ID (`request_call_id`).
    CallId,
    /// CSeq (`request_cseq`).
    CSeq,
    /// All Record-Route lines (`request_record_routes`).
    RecordRoute,
}

/// Why parts are no template.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// The start line is neither `METHOD URI SIP/2.0` nor `SIP/2.0 CODE REASON`, or its method or code is
    /// not written out.
    #[error("the first line is neither \"METHOD URI SIP/2.0\" nor \"SIP/2.0 CODE REASON\": {0:?}")]
    Start(String),
    /// A slot of a name that is not known.
    #[error("unknown slot {{{0}}}")]
    UnknownSlot(String),
    /// An opening brace without a closing one.
    #[error("\"{{\" without \"}}\": a brace itself is written twice, \"{{{{\"")]
    OpenBrace,
    /// The length of the body occurs too often.
    #[error("the length of the body occurs more than {MOST_LENGTHS} times")]
    TooManyLengths,
}

/// How often the length of the body may occur.
pub(crate) const MOST_LENGTHS: usize = 4;

impl Template {
    /// Begins a template that is made part by part, with line ends as they are given.
    pub fn builder() -> TemplateBuilder {
        TemplateBuilder::default()
    }

    /// What the start line says.
    pub fn start(&self) -> &Start {
        &self.start
    }

    /// The method of a request.
    pub fn method(&self) -> Option<&Method> {
        match &self.start {
            Start::Request(method) => Some(method),
            Start::Response(_) => None,
        }
    }

    /// The status of a response.
    pub fn status(&self) -> Option<u16> {
        match self.start {
            Start::Request(_) => None,
            Start::Response(status) => Some(status),
        }
    }

    /// Where its sequence number comes from.
    pub(crate) fn cseq_source(&self) -> CSeqSource {
        self.cseq
    }

    /// The same request for another URI, with further header fields, which are whole lines.
    pub(crate) fn redirected(&self, uri: &str, fields: &[u8]) -> Template {
        const LINE_END: &[u8] = b"\r\n";
        let Start::Request(method) = &self.start else {
            return self.clone();
        };
        let behind = |part: &TemplatePart| match part {
            TemplatePart::Literal(octets) => memchr::memmem::find(octets, LINE_END).map(|end| {
                octets
                    .get(end + LINE_END.len()..)
                    .unwrap_or_default()
                    .into()
            }),
            TemplatePart::Slot(_) => None,
        };
        // The start line is what it ends with, and all before.
        let ends = self.head().iter().enumerate();
        let mut ends = ends.filter_map(|(at, part)| Some((at, behind(part)?)));
        let Some((at, behind)): Option<(usize, Box<[u8]>)> = ends.next() else {
            return self.clone();
        };
        let line = format!("{} {uri} SIP/2.0\r\n", method.as_str());
        let mut parts = vec![TemplatePart::Literal(
            [line.as_bytes(), fields, &behind].concat().into(),
        )];
        parts.extend(self.parts.iter().skip(at + 1).cloned());
        Template {
            parts,
            head: self.head - at,
            start: self.start.clone(),
            cseq: self.cseq,
            flags: self.flags,
        }
    }

    /// The start line, the header section and the empty line.
    pub(crate) fn head(&self) -> &[TemplatePart] {
        self.parts.get(..self.head).unwrap_or_default()
    }

    /// The body.
    pub(crate) fn body(&self) -> &[TemplatePart] {
        self.parts.get(self.head..).unwrap_or_default()
    }

    /// All parts.
    pub(crate) fn parts(&self) -> &[TemplatePart] {
        &self.parts
    }

    /// Whether its Call-ID is the engine's.
    pub(crate) fn has_call_id(&self) -> bool {
        self.flags.has_call_id
    }

    /// Whether its branch is the engine's.
    pub(crate) fn has_branch(&self) -> bool {
        self.flags.has_branch
    }

    /// Whether its tag is the engine's.
    pub(crate) fn has_local_tag(&self) -> bool {
        self.flags.has_local_tag
    }

    /// Whether it has room for the user's credentials.
    pub(crate) fn authorizes(&self) -> bool {
        self.flags.authorizes
    }

    /// Whether its To is that of the request that it answers, with the engine's tag.
    pub(crate) fn echoes_to(&self) -> bool {
        self.flags.echoes_to
    }

    /// Whether it names the tag of the peer, and so is of a dialog.
    pub(crate) fn names_remote_tag(&self) -> bool {
        self.flags.names_remote_tag
    }

    /// Whether it says something of the last message received.
    pub(crate) fn uses_last(&self) -> bool {
        self.flags.uses_last
    }

    /// Whether writing it once more later in the same dialog gives the same octets.
    pub(crate) fn is_stable(&self) -> bool {
        self.flags.is_stable
    }

    /// Whether it is a 200 with nothing in it but what every response takes from its request, in the usual order.
    pub(crate) fn is_bare(&self) -> bool {
        self.flags.is_bare
    }
}

/// A template in the making.
#[derive(Clone, Debug, Default)]
pub struct TemplateBuilder {
    parts: Vec<TemplatePart>,
}

impl TemplateBuilder {
    /// Adds octets that are always the same.
    pub fn literal(mut self, octets: impl AsRef<[u8]>) -> TemplateBuilder {
        self.push_literal(octets.as_ref());
        self
    }

    /// Adds a slot.
    pub fn slot(mut self, slot: Slot) -> TemplateBuilder {
        self.parts.push(TemplatePart::Slot(slot));
        self
    }

    /// Adds octets that are always the same.
    pub fn push_literal(&mut self, octets: &[u8]) {
        if !octets.is_empty() {
            self.parts.push(TemplatePart::Literal(octets.into()));
        }
    }

    /// Adds a slot.
    pub fn push_slot(&mut self, slot: Slot) {
        self.parts.push(TemplatePart::Slot(slot));
    }

    /// The parts alone, for a text that is no message.
    pub fn into_text(self) -> Text {
        self.parts
    }

    /// The template. Where the empty line is missing that ends the header section, it is added.
    ///
    /// # Errors
    ///
    /// When the start line is not that of a message, or there are two lengths.
    pub fn build(self) -> Result<Template, TemplateError> {
        let mut parts = joined(self.parts);
        let start = start(&parts)?;
        let head = split_head(&mut parts);
        let in_head = parts.get(..head).unwrap_or_default();
        let lengths = in_head
            .iter()
            .filter(|part| matches!(part, TemplatePart::Slot(slot) if slot.is_length()))
            .count();
        if lengths > MOST_LENGTHS {
            return Err(TemplateError::TooManyLengths);
        }
        let cseq = cseq_source(in_head);
        let flags = flags(&parts);
        Ok(Template {
            parts,
            head,
            start,
            cseq,
            flags,
        })
    }
}

/// Neighbouring literals made one.
fn joined(parts: Vec<TemplatePart>) -> Vec<TemplatePart> {
    let mut joined: Vec<TemplatePart> = Vec::with_capacity(parts.len());
    for part in parts {
        match (joined.last_mut(), part) {
            (Some(TemplatePart::Literal(before)), TemplatePart::Literal(octets)) => {
                *before = [&before[..], &octets[..]].concat().into();
            }
            (_, part) => joined.push(part),
        }
    }
    joined
}

/// What the start line says. Its method or its code is in the first part, with the space behind it.
fn start(parts: &[TemplatePart]) -> Result<Start, TemplateError> {
    let Some(TemplatePart::Literal(first)) = parts.first() else {
        return Err(TemplateError::Start(String::new()));
    };
    let text = String::from_utf8_lossy(first);
    let line = text.lines().next().unwrap_or_default();
    let error = || TemplateError::Start(line.to_owned());
    let (word, rest) = line.split_once(' ').ok_or_else(error)?;
    if word == "SIP/2.0" {
        let code = rest.split_whitespace().next().unwrap_or_default();
        let status: u16 = code.parse().map_err(|_| error())?;
        if !(100..700).contains(&status) {
            return Err(error());
        }
        return Ok(Start::Response(status));
    }
    let is_method = |octet: u8| octet.is_ascii_alphanumeric() || b"-.!%*_+`'~".contains(&octet);
    if word.is_empty() || !word.bytes().all(is_method) {
        return Err(error());
    }
    Ok(Start::Request(Method::from_name(word)))
}

/// Cuts the parts behind the empty line, which is added where there is none. Returns how many are before
/// the body.
fn split_head(parts: &mut Vec<TemplatePart>) -> usize {
    const END: &[u8] = b"\r\n\r\n";
    // An empty line that a slot of whole lines stands before begins its part.
    let mut is_behind_lines = false;
    for at in 0..parts.len() {
        match &parts[at] {
            TemplatePart::Slot(slot) => is_behind_lines = slot.is_lines(),
            TemplatePart::Literal(octets) => {
                let end = if is_behind_lines && octets.starts_with(b"\r\n") {
                    Some(2)
                } else {
                    octets
                        .windows(END.len())
                        .position(|window| window == END)
                        .map(|found| found + END.len())
                };
                is_behind_lines = false;
                if let Some(end) = end {
                    let (head, body) = octets.split_at(end);
                    let (head, body) = (Box::from(head), Box::<[u8]>::from(body));
                    parts[at] = TemplatePart::Literal(head);
                    if !body.is_empty() {
                        parts.insert(at + 1, TemplatePart::Literal(body));
                    }
                    return at + 1;
                }
            }
        }
    }
    let missing: &[u8] = match parts.last() {
        Some(TemplatePart::Literal(octets)) if octets.ends_with(b"\r\n") => b"\r\n",
        Some(TemplatePart::Slot(slot)) if slot.is_lines() => b"\r\n",
        _ => END,
    };
    parts.push(TemplatePart::Literal(missing.into()));
    *parts = joined(std::mem::take(parts));
    parts.len()
}

/// Where the number in the CSeq line comes from.
fn cseq_source(parts: &[TemplatePart]) -> CSeqSource {
    const FIELD: &[u8] = b"cseq:";
    let mut source = CSeqSource::Engine;
    for (index, part) in parts.iter().enumerate() {
        let TemplatePart::Literal(octets) = part else {
            continue;
        };
        let lines = octets.split(|octet| *octet == b'\n');
        for line in lines {
            let blank = |octet: &u8| !octet.is_ascii_whitespace();
            let name: Vec<u8> = line
                .iter()
                .copied()
                .filter(blank)
                .take(FIELD.len())
                .collect();
            if !name.eq_ignore_ascii_case(FIELD) {
                continue;
            }
            let value = line.splitn(2, |octet| *octet == b':').nth(1);
            let value = std::str::from_utf8(value.unwrap_or_default()).unwrap_or_default();
            let number = value.split_whitespace().next();
            source = match (number.map(str::parse), parts.get(index + 1)) {
                (Some(Ok(number)), _) => CSeqSource::Written(number),
                (None, Some(TemplatePart::Slot(Slot::CSeq))) => CSeqSource::Engine,
                _ => CSeqSource::Other,
            };
        }
    }
    source
}

fn flags(parts: &[TemplatePart]) -> Flags {
    let slots = || {
        parts.iter().filter_map(|part| match part {
            TemplatePart::Slot(slot) => Some(slot),
            TemplatePart::Literal(_) => None,
        })
    };
    Flags {
        has_branch: slots().any(|slot| matches!(slot, Slot::Branch)),
        has_call_id: slots().any(|slot| matches!(slot, Slot::CallId)),
        has_local_tag: slots().any(|slot| matches!(slot, Slot::LocalTag)),
        echoes_to: slots().any(|slot| matches!(slot, Slot::Echo(EchoedField::To))),
        authorizes: slots().any(|slot| matches!(slot, Slot::Authorization(None))),
        names_remote_tag: slots().any(|slot| matches!(slot, Slot::RemoteTag | Slot::RemoteParty)),
        uses_last: slots().any(Slot::uses_last),
        is_stable: slots().all(Slot::is_stable),
        is_bare: is_bare(parts),
    }
}

fn is_bare(parts: &[TemplatePart]) -> bool {
    let mut outline = Vec::new();
    for part in parts {
        match part {
            TemplatePart::Literal(octets) => {
                let line_ends = |octet: &&u8| matches!(octet, b'\r' | b'\n');
                outline.extend(octets.iter().filter(|octet| !line_ends(octet)));
            }
            TemplatePart::Slot(Slot::Echo(EchoedField::Via)) => outline.push(b'V'),
            TemplatePart::Slot(Slot::Echo(EchoedField::From)) => outline.push(b'F'),
            TemplatePart::Slot(Slot::Echo(EchoedField::To)) => outline.push(b'T'),
            TemplatePart::Slot(Slot::Echo(EchoedField::CallId)) => outline.push(b'I'),
            TemplatePart::Slot(Slot::Echo(EchoedField::CSeq)) => outline.push(b'S'),
            TemplatePart::Slot(_) => return false,
        }
    }
    outline == b"SIP/2.0 200 OKVFTISContent-Length: 0"
}

impl Slot {
    /// Whether it stands for whole lines, with their ends.
    pub(crate) fn is_lines(&self) -> bool {
        matches!(
            self,
            Slot::Routes | Slot::Authorization(_) | Slot::Echo(_) | Slot::MediaSource
        )
    }

    /// Whether it is the length of the body.
    pub(crate) fn is_length(&self) -> bool {
        match self {
            Slot::ContentLength => true,
            Slot::Plus(slot, _) => slot.is_length(),
            _ => false,
        }
    }

    /// Whether it says something of the last message received.
    pub(crate) fn uses_last(&self) -> bool {
        match self {
            Slot::LastField(_)
            | Slot::LastValue(_)
            | Slot::LastRequestUri
            | Slot::Echo(_)
            | Slot::Authorization(Some(_)) => true,
            Slot::Plus(slot, _) => slot.uses_last(),
            Slot::TableField { row: Some(row), .. } | Slot::RowField { row, .. } => row
                .iter()
                .any(|part| matches!(part, TemplatePart::Slot(slot) if slot.uses_last())),
            _ => false,
        }
    }

    /// Whether it says the same later in a dialog.
    fn is_stable(&self) -> bool {
        if let Slot::Plus(slot, _) = self {
            return slot.is_stable();
        }
        !self.uses_last()
            && !matches!(
                self,
                Slot::Variable(_)
                    | Slot::Milliseconds
                    | Slot::Random
                    | Slot::RandomBase64(_)
                    | Slot::Authorization(_)
                    | Slot::Expires
                    | Slot::Fill(..)
                    | Slot::TableField { .. }
                    | Slot::RowField { .. }
                    | Slot::Timestamp
                    | Slot::UnixSeconds
                    | Slot::Microseconds
                    | Slot::Date
            )
    }
}
