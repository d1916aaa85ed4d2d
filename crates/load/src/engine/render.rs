//! Rendering templates.

use std::time::Duration;

use rand::Rng;
use rand_chacha::ChaCha12Rng;
use sip::{Name, tag_of};

use super::authentication::Challenged;
use super::config::EngineConfig;
use super::connections::ConnectionText;
use super::identity::{Identity, NOBODY, SessionId, write_decimal};
use super::media::LocalMedia;
use super::received::Received;
use super::session::{Session, route_set};
use super::text::{MAXIMUM_VALUE, add, number, write_base64, write_date, write_timestamp};
use super::time::Time;
use super::writing::{write_contact, write_line, write_vias};
use crate::record::Party;
use crate::script::{
    EchoedField, Kind, Login, MOST_LENGTHS, Slot, StepNumber, Template, TemplatePart,
};

/// The values that fill the slots of a template.
#[derive(Clone, Copy)]
pub(super) struct RenderContext<'a> {
    pub(super) session: &'a Session,
    pub(super) id: SessionId,
    pub(super) kind: &'a Kind,
    pub(super) identity: &'a Identity,
    pub(super) config: &'a EngineConfig,
    pub(super) connection: &'a ConnectionText,
    /// The last message received.
    pub(super) last: Option<&'a Received<'a>>,
    /// The request that is answered.
    pub(super) answered: Option<&'a Received<'a>>,
    pub(super) cseq: u32,
    pub(super) branch: u16,
    pub(super) step: StepNumber,
    pub(super) now: Time,
    pub(super) media: Option<LocalMedia>,
}

/// The values of a session that rendering needs.
#[derive(Clone, Copy)]
pub(super) struct SessionContext<'a> {
    pub(super) kind: &'a Kind,
    pub(super) id: SessionId,
    pub(super) media: Option<LocalMedia>,
    pub(super) now: Time,
}

/// State that rendering changes.
pub(super) struct RenderState<'a> {
    pub(super) rng: &'a mut ChaCha12Rng,
    /// The challenges that credentials answer.
    pub(super) challenges: &'a mut Vec<Challenged>,
}

/// The most digits that a length has.
const LENGTH_DIGITS: usize = 5;

/// The most octets that a message has: what a datagram can carry.
pub(super) const MAXIMUM_MESSAGE: usize = 65_000;

/// Writes a message behind what the buffer has.
pub(super) fn write_message(
    template: &Template,
    context: &RenderContext<'_>,
    state: &mut RenderState<'_>,
    out: &mut Vec<u8>,
) {
    let start = out.len();
    let lengths = write_parts(template.head(), context, state, out, start);
    let body_at = out.len();
    write_parts(template.body(), context, state, out, start);
    let length = (out.len() - body_at) as i64;
    // From behind, so that places before stay where they are.
    for (length_at, offset) in lengths.into_iter().rev().flatten() {
        insert_length(out, length_at, length.saturating_add(offset));
    }
}

/// Writes a text behind what the buffer has.
pub(super) fn write_text(
    text: &[TemplatePart],
    context: &RenderContext<'_>,
    state: &mut RenderState<'_>,
    out: &mut Vec<u8>,
) {
    let start = out.len();
    let lengths = write_parts(text, context, state, out, start);
    if lengths.iter().any(Option::is_some) {
        // A command has a body as a message has.
        const END: &[u8] = b"\r\n\r\n";
        let written = out.get(start..).unwrap_or_default();
        let head = memchr::memmem::find(written, END).map(|end| end + END.len());
        let length = head.map_or(0, |head| written.len() - head) as i64;
        for (length_at, offset) in lengths.into_iter().rev().flatten() {
            insert_length(out, length_at, length.saturating_add(offset));
        }
    }
}

/// Puts the length of the body where room was left for it, and closes the gap.
fn insert_length(out: &mut Vec<u8>, length_at: usize, length: i64) {
    let mut digits = Vec::with_capacity(LENGTH_DIGITS);
    write_decimal(length.unsigned_abs(), &mut digits);
    if length < 0 {
        digits.insert(0, b'-');
    }
    let digits = digits.get(..LENGTH_DIGITS).unwrap_or(&digits);
    if let Some(place) = out.get_mut(length_at..length_at + digits.len()) {
        place.copy_from_slice(digits);
    }
    let gap_end = length_at + LENGTH_DIGITS;
    let gap_start = length_at + digits.len();
    if gap_end <= out.len() {
        out.copy_within(gap_end.., gap_start);
        out.truncate(out.len() - (gap_end - gap_start));
    }
}

/// Where room was left for the length of the body, and what is added to it.
type Lengths = [Option<(usize, i64)>; MOST_LENGTHS];

/// Writes parts. Returns where room was left for the length of the body.
fn write_parts(
    parts: &[TemplatePart],
    context: &RenderContext<'_>,
    state: &mut RenderState<'_>,
    out: &mut Vec<u8>,
    start: usize,
) -> Lengths {
    let mut lengths = Lengths::default();
    let mut free = 0;
    // The rest of a line is left out.
    let mut is_skipping = false;
    for part in parts {
        match part {
            TemplatePart::Literal(octets) if is_skipping => {
                if let Some(end) = memchr::memchr(b'\n', octets) {
                    is_skipping = false;
                    out.extend_from_slice(octets.get(end + 1..).unwrap_or_default());
                }
            }
            TemplatePart::Literal(octets) => out.extend_from_slice(octets),
            TemplatePart::Slot(_) if is_skipping => {}
            TemplatePart::Slot(slot) if slot.is_length() => {
                let offset = match slot {
                    Slot::Plus(_, offset) => *offset,
                    _ => 0,
                };
                if let Some(place) = lengths.get_mut(free) {
                    *place = Some((out.len(), offset));
                    free += 1;
                    out.extend_from_slice(&[b' '; LENGTH_DIGITS]);
                }
            }
            TemplatePart::Slot(Slot::LastField(name)) => {
                if !context.write_last_field(name, out) {
                    let written = out.get(start..).unwrap_or_default();
                    let line = memchr::memrchr(b'\n', written).map_or(0, |end| end + 1);
                    out.truncate(start + line);
                    is_skipping = true;
                }
            }
            TemplatePart::Slot(Slot::Authorization(login)) => {
                context.write_authorization(login.as_deref(), state, out, start);
            }
            TemplatePart::Slot(Slot::Random) => write_decimal(state.rng.next_u32().into(), out),
            TemplatePart::Slot(Slot::RandomBase64(octets)) => {
                let random: Vec<u8> = (0..*octets).map(|_| state.rng.next_u32() as u8).collect();
                write_base64(&random, out);
            }
            TemplatePart::Slot(slot) => context.write_slot(slot, out),
        }
    }
    lengths
}

impl<'a> RenderContext<'a> {
    /// The values of a session without a message that is answered, with the numbers of its last request.
    pub(super) fn of(
        session: &'a Session,
        session_context: SessionContext<'a>,
        (identity, config): (&'a Identity, &'a EngineConfig),
        connection: &'a ConnectionText,
    ) -> RenderContext<'a> {
        let SessionContext {
            kind,
            id,
            media,
            now,
        } = session_context;
        RenderContext {
            session,
            id,
            kind,
            identity,
            config,
            connection,
            last: None,
            answered: None,
            cseq: session.cseq,
            branch: session.branches,
            step: session.step,
            now,
            media,
        }
    }
}

impl RenderContext<'_> {
    fn write_slot(&self, slot: &Slot, out: &mut Vec<u8>) {
        let directory = &self.config.directory;
        let connection = self.connection;
        match slot {
            Slot::CallId => self.write_call_id(out),
            Slot::Branch => self.identity.write_branch(self.id, self.branch, out),
            Slot::LocalTag => self.identity.write_tag(self.id, out),
            Slot::RemoteTag => self.write_remote_tag(out),
            Slot::CSeq => write_decimal(self.cseq.into(), out),
            Slot::User => self.write_user(out),
            Slot::Peer => directory.write_name(self.session.peer_number, out),
            Slot::UserNumber => write_decimal(self.session.user_number.into(), out),
            Slot::PeerNumber => write_decimal(self.session.peer_number.into(), out),
            Slot::CallNumber => write_decimal(self.session.number, out),
            Slot::Domain => out.extend_from_slice(self.config.domain.as_bytes()),
            Slot::LocalAddress => out.extend_from_slice(connection.local().as_bytes()),
            Slot::LocalIp => out.extend_from_slice(connection.local_ip().as_bytes()),
            Slot::LocalPort => write_decimal(connection.connection.local.port().into(), out),
            Slot::LocalIpVersion | Slot::MediaIpVersion => out.push(connection.ip_version()),
            Slot::RemoteAddress => out.extend_from_slice(connection.remote().as_bytes()),
            Slot::RemoteIp => out.extend_from_slice(connection.remote_ip().as_bytes()),
            Slot::RemotePort => write_decimal(connection.connection.remote.port().into(), out),
            Slot::Transport => {
                out.extend_from_slice(connection.connection.transport.via_name().as_bytes());
            }
            Slot::TransportParameter => {
                let name = connection.connection.transport.uri_parameter();
                out.extend_from_slice(name.as_bytes());
            }
            Slot::MediaIp => out.extend_from_slice(connection.media_ip().as_bytes()),
            Slot::MediaPort => write_decimal(self.media_port().into(), out),
            Slot::MediaSource => self.write_media_source(out),
            Slot::Contact => self.write_contact(out),
            Slot::Target => self.write_target(out),
            Slot::Routes => self.write_routes(out),
            Slot::Expires => {
                let expires = self.config.registration.expires.as_secs();
                let expires = if self.session.notes.is_unregistering {
                    0
                } else {
                    self.session
                        .notes
                        .expires
                        .map_or(expires, |least| expires.max(least.into()))
                };
                write_decimal(expires, out);
            }
            Slot::Echo(field) => self.write_echo(*field, out),
            Slot::LocalParty => self.write_local_party(out),
            Slot::RemoteParty => self.write_remote_party(out),
            Slot::LastValue(name) => {
                let mut found = None;
                if let Some(last) = self.last {
                    last.each_named(name, |value| found = found.or(Some(value)));
                }
                out.extend_from_slice(found.unwrap_or_default());
            }
            Slot::LastRequestUri => {
                let uri = self.last.and_then(Received::uri);
                out.extend_from_slice(uri.unwrap_or_default());
            }
            Slot::Variable(variable) => {
                let variables = self.session.extra.as_deref().map(|extra| &extra.variables);
                let value = variables.and_then(|all| all.get(usize::from(variable.0)));
                if let Some(Some(value)) = value {
                    out.extend_from_slice(value);
                }
            }
            Slot::Field(column) => self.write_field(self.session.user_number, *column, out),
            Slot::PeerField(column) => self.write_field(self.session.peer_number, *column, out),
            Slot::Step => write_decimal(self.step.0.into(), out),
            Slot::Process => write_decimal(self.config.process.into(), out),
            Slot::Milliseconds => write_decimal(self.now.milliseconds(), out),
            Slot::Plus(slot, offset) => {
                let begin = out.len();
                self.write_slot(slot, out);
                add(*offset, begin, out);
            }
            Slot::Fill(text, variable) => {
                let length = self.session.variable(*variable).and_then(number);
                let length = length.unwrap_or(0.0).max(0.0) as usize;
                out.extend(text.iter().cycle().take(length.min(MAXIMUM_VALUE)));
            }
            Slot::TableField { table, column, row } => {
                let field = match row {
                    None => table.field(self.session.number, self.session.user_number, *column),
                    Some(row) => self
                        .row_number(row, out)
                        .and_then(|row| table.field_at(row, *column)),
                };
                out.extend_from_slice(field.unwrap_or_default().as_bytes());
            }
            Slot::RowField { column, row } => {
                // Users are counted from 1.
                let user = self.row_number(row, out).map(|row| row.saturating_add(1));
                if let Some(Ok(user)) = user.map(u32::try_from) {
                    self.write_field(user, *column, out);
                }
            }
            Slot::Timestamp => write_timestamp(self.time_of_day(), out),
            Slot::UnixSeconds => write_decimal(self.time_of_day().as_secs(), out),
            Slot::Microseconds => write_decimal(self.time_of_day().subsec_micros().into(), out),
            Slot::Date => write_date(self.time_of_day(), out),
            // These are written where the buffer or the random numbers are at hand that they need.
            Slot::LastField(_)
            | Slot::Authorization(_)
            | Slot::ContentLength
            | Slot::Random
            | Slot::RandomBase64(_) => {}
        }
    }

    /// The number that a text says. Nothing is written.
    fn row_number(&self, row: &[TemplatePart], out: &mut Vec<u8>) -> Option<u64> {
        let begin = out.len();
        for part in row {
            match part {
                TemplatePart::Literal(octets) => out.extend_from_slice(octets),
                TemplatePart::Slot(slot) => self.write_slot(slot, out),
            }
        }
        let row = out.get(begin..).and_then(number);
        out.truncate(begin);
        row.map(|row| row as u64)
    }

    fn time_of_day(&self) -> Duration {
        let since_start = self.now.since(Time::START);
        self.config.time_of_day.saturating_add(since_start)
    }

    fn write_call_id(&self, out: &mut Vec<u8>) {
        let session = self.session;
        if !session.dialog.call_id.is_empty() {
            out.extend_from_slice(session.dialog.get(session.dialog.call_id));
        } else if *self.kind == Kind::Registration && session.user != NOBODY {
            self.identity.write_registration_call_id(session.user, out);
        } else {
            self.identity.write_call_id(self.id, out);
        }
    }

    fn write_remote_tag(&self, out: &mut Vec<u8>) {
        let tag = self.session.dialog.remote_tag;
        if !tag.is_empty() {
            out.extend_from_slice(b";tag=");
            out.extend_from_slice(self.session.dialog.get(tag));
        }
    }

    fn write_user(&self, out: &mut Vec<u8>) {
        if self.session.user_number == 0 {
            out.extend_from_slice(b"tandem");
        } else {
            let directory = &self.config.directory;
            directory.write_name(self.session.user_number, out);
        }
    }

    /// A source needs an attribute to be told; its name is one (RFC 5576 section 4.1).
    fn write_media_source(&self, out: &mut Vec<u8>) {
        if let Some(media) = self.media {
            out.extend_from_slice(b"a=ssrc:");
            write_decimal(media.source.into(), out);
            out.extend_from_slice(b" cname:tandem@");
            out.extend_from_slice(self.connection.media_ip().as_bytes());
            out.extend_from_slice(b"\r\n");
        }
    }

    fn media_port(&self) -> u16 {
        if let Some(media) = self.media {
            return media.port;
        }
        let ports = u32::from(self.config.media_ports.max(1));
        let place = (self.session.user_number % ports) as u16;
        self.config.media_port.wrapping_add(place.wrapping_mul(2))
    }

    fn write_contact(&self, out: &mut Vec<u8>) {
        let directory = &self.config.directory;
        write_contact(directory, self.session.user_number, self.connection, out);
    }

    /// The Request-URI within a dialog: the peer's Contact, but where the first proxy is a strict router (RFC 3261
    /// section 12.2.1.1).
    fn write_target(&self, out: &mut Vec<u8>) {
        let dialog = &self.session.dialog;
        match dialog.is_strict {
            true => {
                let proxy = route_set::first_uri(dialog.get(dialog.routes));
                out.extend_from_slice(proxy.unwrap_or_default());
            }
            false => self.write_remote_target(out),
        }
    }

    fn write_remote_target(&self, out: &mut Vec<u8>) {
        let target = self.session.dialog.target;
        if target.is_empty() {
            self.write_address(self.session.peer_number, out);
        } else {
            out.extend_from_slice(self.session.dialog.get(target));
        }
    }

    /// The address of record of a user.
    fn write_address(&self, number: u32, out: &mut Vec<u8>) {
        out.extend_from_slice(b"sip:");
        self.config.directory.write_name(number, out);
        out.push(b'@');
        out.extend_from_slice(self.config.domain.as_bytes());
    }

    fn write_routes(&self, out: &mut Vec<u8>) {
        let dialog = &self.session.dialog;
        if dialog.is_strict {
            let routes = dialog.get(dialog.routes);
            out.extend_from_slice(route_set::without_first(routes));
            out.extend_from_slice(b"Route: <");
            self.write_remote_target(out);
            out.extend_from_slice(b">\r\n");
        } else if !dialog.routes.is_empty() {
            out.extend_from_slice(dialog.get(dialog.routes));
        } else if dialog.remote_tag.is_empty() {
            for route in &self.config.routes {
                out.extend_from_slice(b"Route: ");
                out.extend_from_slice(route.as_bytes());
                out.extend_from_slice(b"\r\n");
            }
        }
    }

    fn write_local_party(&self, out: &mut Vec<u8>) {
        let dialog = &self.session.dialog;
        match self.session.party {
            Party::Caller if !dialog.from.is_empty() => {
                out.extend_from_slice(dialog.get(dialog.from));
            }
            Party::Caller => {
                out.push(b'<');
                self.write_address(self.session.user_number, out);
                out.extend_from_slice(b">;tag=");
                self.identity.write_tag(self.id, out);
            }
            Party::Callee => {
                let to = dialog.get(dialog.to);
                out.extend_from_slice(to);
                if tag_of(to).is_none() {
                    out.extend_from_slice(b";tag=");
                    self.identity.write_tag(self.id, out);
                }
            }
        }
    }

    fn write_remote_party(&self, out: &mut Vec<u8>) {
        let dialog = &self.session.dialog;
        match self.session.party {
            Party::Caller if !dialog.to.is_empty() => {
                out.extend_from_slice(dialog.get(dialog.to));
                self.write_remote_tag(out);
            }
            Party::Caller => {
                out.push(b'<');
                self.write_address(self.session.peer_number, out);
                out.push(b'>');
                self.write_remote_tag(out);
            }
            Party::Callee => out.extend_from_slice(dialog.get(dialog.from)),
        }
    }

    fn write_echo(&self, field: EchoedField, out: &mut Vec<u8>) {
        let Some(request) = self.answered else {
            return;
        };
        match field {
            EchoedField::Via => write_vias(request, Some(self.connection), out),
            EchoedField::RecordRoute => {
                request.each_field(Name::RecordRoute, &request.record_routes, |value| {
                    write_line("Record-Route", value, out);
                });
            }
            EchoedField::From => write_line("From", request.from, out),
            EchoedField::To => {
                out.extend_from_slice(b"To: ");
                out.extend_from_slice(request.to);
                if request.tag_of_to().is_none() {
                    out.extend_from_slice(b";tag=");
                    self.identity.write_tag(self.id, out);
                }
                out.extend_from_slice(b"\r\n");
            }
            EchoedField::CallId => write_line("Call-ID", request.call_id, out),
            EchoedField::CSeq => write_line("CSeq", request.cseq_value, out),
        }
    }

    /// Writes all fields of a name; returns whether there are any.
    fn write_last_field(&self, name: &str, out: &mut Vec<u8>) -> bool {
        let Some(last) = self.last else {
            return false;
        };
        let mut is_first = true;
        last.each_named(name, |value| {
            if !is_first {
                out.extend_from_slice(b"\r\n");
            }
            is_first = false;
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(b": ");
            out.extend_from_slice(value);
        });
        !is_first
    }

    fn write_field(&self, number: u32, column: u16, out: &mut Vec<u8>) {
        let listed = self.config.directory.listed(number);
        let field = listed.and_then(|listed| listed.fields.get(usize::from(column)));
        out.extend_from_slice(field.map_or(&[], String::as_bytes));
    }

    /// Writes the credentials that were asked for. The request line has been written: it says the method
    /// and the URI that they are for.
    fn write_authorization(
        &self,
        login: Option<&Login>,
        state: &mut RenderState<'_>,
        out: &mut Vec<u8>,
        start: usize,
    ) {
        let challenge = self.last.filter(|last| last.is_challenge);
        if let (Some(login), Some(challenge)) = (login, challenge) {
            self.log_in(login, challenge, state, out);
        }
        if state.challenges.is_empty() {
            return;
        }
        let line = out.get(start..).unwrap_or_default();
        let mut words = line.split(|octet| matches!(octet, b' ' | b'\r'));
        let mut word = || {
            let word = words.next().unwrap_or_default();
            String::from_utf8_lossy(word).into_owned()
        };
        let (method, uri) = (word(), word());
        for challenged in state.challenges.iter_mut() {
            let cnonce = state.rng.next_u64();
            challenged.write(&method, &uri, cnonce, out);
        }
    }

    /// Takes in challenges with a name and a password of the script's own.
    fn log_in(
        &self,
        login: &Login,
        response: &Received<'_>,
        state: &mut RenderState<'_>,
        out: &mut Vec<u8>,
    ) {
        let known = self.config.directory.login(self.session.user_number);
        let (mut username, mut password) = known.unwrap_or_default();
        let at = out.len();
        for (text, place) in [
            (&login.username, &mut username),
            (&login.password, &mut password),
        ] {
            if !text.is_empty() {
                for part in text {
                    match part {
                        TemplatePart::Literal(octets) => out.extend_from_slice(octets),
                        TemplatePart::Slot(slot) => self.write_slot(slot, out),
                    }
                }
                *place = String::from_utf8_lossy(out.get(at..).unwrap_or_default()).into_owned();
                out.truncate(at);
            }
        }
        super::authentication::learn(state.challenges, response, &username, &password);
    }
}
