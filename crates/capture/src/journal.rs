//! The messages of calls as they come, to be looked at one by one: what a screen shows.

use std::borrow::Cow;
use std::collections::VecDeque;

use ahash::RandomState;
use bytes::Bytes;
use hashbrown::HashMap;
use m3ua::message::Kind;
use m3ua::{AspState, Variant};
use report::{Arrow, ArrowKind, Ladder};
use sip::{Message, Name};

use crate::analysis::is_session_description;
use crate::association_name::{AssociationEnd, AssociationName};
use crate::chunks::ChunkArrows;
use crate::output::{Columns, stream_label};
use crate::rtp::RtpStreams;
use crate::{Carrier, Endpoint, Event, EventKind, RtpStream, Time, UserMessage, m3ua_text};

/// Calls, registrations and everything else that SIP does, each under its Call-ID, and associations with M3UA, with all messages
/// whole. Where a bound is reached the oldest one goes.
#[derive(Debug)]
pub struct Journal {
    dialogs: VecDeque<Dialog>,
    /// The number of each dialog by its Call-ID.
    numbers: HashMap<Box<str>, u64, RandomState>,
    /// The number of each association with M3UA.
    associations: HashMap<AssociationName, u64, RandomState>,
    rtp: RtpStreams,
    point_codes: Variant,
    next_number: u64,
    octets: usize,
    bounds: JournalBounds,
    left_out: u64,
}

/// How much a [`Journal`] keeps.
#[derive(Clone, Copy, Debug)]
pub struct JournalBounds {
    /// Call-IDs.
    pub dialogs: usize,
    /// Octets of messages.
    pub octets: usize,
    /// Messages of one Call-ID; later ones are counted only.
    pub messages: usize,
}

/// What was seen under one Call-ID, or on one association with M3UA.
#[derive(Debug)]
pub struct Dialog {
    /// Its number, in the order of the first messages.
    pub number: u64,
    /// The Call-ID; empty for M3UA.
    pub call_id: Box<str>,
    /// The method of its first request, or that the first response was to; `M3UA`.
    pub method: Box<str>,
    /// The URI in From; the end of the association that sent the first message.
    pub from: Box<str>,
    /// The URI in To; the other end.
    pub to: Box<str>,
    /// How far it has come.
    pub state: DialogState,
    /// The messages, in the order in which they came.
    pub messages: Vec<Recorded>,
    /// Messages beyond those that are kept.
    pub left_out: u64,
    association: Option<AssociationName>,
    point_codes: Variant,
}

/// How far a dialog has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DialogState {
    /// A request waits for its final response.
    Waiting,
    /// A call rings.
    Ringing,
    /// A call stands.
    Standing,
    /// A call was ended, or another request answered with 2xx.
    Completed,
    /// The caller gave up.
    Cancelled,
    /// It was refused with this status code.
    Refused(u16),
    /// The state of the ASP of an association with M3UA, as the last acknowledgement has it.
    Asp(AspState),
}

/// A message as it was seen.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// When.
    pub time: Time,
    /// The number of its packet.
    pub packet: u64,
    /// Who sent it.
    pub source: Endpoint,
    /// Whom it was sent to.
    pub destination: Endpoint,
    /// What carried it.
    pub carrier: Carrier,
    /// All of it.
    pub octets: Bytes,
    /// Method, or status code and reason phrase; of M3UA the message in a line.
    pub label: Box<str>,
    /// What kind of arrow it is.
    pub kind: ArrowKind,
    /// The same octets went the same way before.
    pub is_repeated: bool,
}

impl Default for JournalBounds {
    fn default() -> JournalBounds {
        JournalBounds {
            dialogs: 20_000,
            octets: 256 << 20,
            messages: 1000,
        }
    }
}

impl Journal {
    /// With nothing in it. `seed` makes the hashes of Call-IDs unpredictable and changes nothing else.
    pub fn new(bounds: JournalBounds, seed: u64) -> Journal {
        let hasher = RandomState::with_seeds(seed, !seed, 7, 11);
        Journal {
            dialogs: VecDeque::new(),
            numbers: HashMap::with_hasher(hasher.clone()),
            associations: HashMap::with_hasher(hasher.clone()),
            rtp: RtpStreams::new(hasher),
            point_codes: Variant::default(),
            next_number: 1,
            octets: 0,
            bounds,
            left_out: 0,
        }
    }

    /// Writes the point codes of M3UA as this network does.
    #[must_use]
    pub fn with_point_codes(mut self, variant: Variant) -> Journal {
        self.point_codes = variant;
        self
    }

    /// Takes note of a message of SIP or M3UA, or of a packet of RTP of a call; everything else is passed over, and so is a SIP message that
    /// has no Call-ID.
    pub fn observe(&mut self, event: &Event<'_>) {
        match event.kind {
            EventKind::Sip {
                carrier, octets, ..
            } => self.observe_sip(event, carrier, octets),
            EventKind::M3ua {
                message,
                sender,
                octets,
            } => self.observe_m3ua(event, message, sender, octets),
            EventKind::Rtp(packet) => {
                self.rtp.observe(event, &packet);
            }
            EventKind::SipSummary { .. } | EventKind::Sctp(_) | EventKind::Warning(_) => {}
        }
    }

    fn observe_sip(&mut self, event: &Event<'_>, carrier: Carrier, octets: &[u8]) {
        let Ok(message) = Message::read(Bytes::copy_from_slice(octets)) else {
            return;
        };
        let Some(call_id) = message.call_id() else {
            return;
        };
        let number = match self.numbers.get(call_id) {
            Some(number) => *number,
            None => self.open(call_id, &message),
        };
        let label = label(&message);
        if has_session_description(&message) {
            self.rtp.learn(number, octets);
        }
        if let Some(dialog) = self.dialog_mut(number) {
            dialog.advance(&message);
        }
        let kind = match message.status() {
            None => ArrowKind::Request,
            Some(100..=299) => ArrowKind::Good,
            Some(_) => ArrowKind::Bad,
        };
        self.push(number, event, carrier, octets, (label, kind));
    }

    fn observe_m3ua(
        &mut self,
        event: &Event<'_>,
        place: UserMessage,
        sender: AssociationEnd,
        octets: &[u8],
    ) {
        let read = m3ua_text::read(octets);
        let number = match self.associations.get(&sender.association) {
            Some(number) => *number,
            None => {
                let [from, to] = [event.source, event.destination].map(|end| end.to_string());
                let number = self.add("M3UA", (from, to));
                self.associations.insert(sender.association, number);
                if let Some(dialog) = self.dialog_mut(number) {
                    dialog.association = Some(sender.association);
                }
                number
            }
        };
        let (label, kind) = match &read {
            Ok(message) => (
                m3ua_text::in_short(message, self.point_codes).into(),
                m3ua_text::arrow_kind(message),
            ),
            Err(error) => (format!("M3UA: {error}").into(), ArrowKind::Bad),
        };
        let state = read.ok().and_then(|message| match message.kind() {
            Kind::AspUpAck | Kind::AspInactiveAck => Some(AspState::Inactive),
            Kind::AspActiveAck => Some(AspState::Active),
            Kind::AspDownAck => Some(AspState::Down),
            _ => None,
        });
        if let (Some(state), Some(dialog)) = (state, self.dialog_mut(number)) {
            dialog.state = DialogState::Asp(state);
        }
        let carrier = Carrier::Sctp(Some(place));
        self.push(number, event, carrier, octets, (label, kind));
    }

    /// Adds a message to a dialog, and lets the oldest ones go where there is too much.
    fn push(
        &mut self,
        number: u64,
        event: &Event<'_>,
        carrier: Carrier,
        octets: &[u8],
        (label, kind): (Box<str>, ArrowKind),
    ) {
        let recorded = Recorded {
            time: event.time,
            packet: event.packet,
            source: event.source,
            destination: event.destination,
            carrier,
            octets: Bytes::copy_from_slice(octets),
            label,
            kind,
            is_repeated: false,
        };
        let most = self.bounds.messages;
        let Some(dialog) = self.dialog_mut(number) else {
            return;
        };
        self.octets += dialog.push(recorded, most);
        while self.dialogs.len() > self.bounds.dialogs
            || self.octets > self.bounds.octets && self.dialogs.len() > 1
        {
            self.forget_first();
        }
    }

    /// All dialogs, the oldest first.
    pub fn dialogs(&self) -> impl DoubleEndedIterator<Item = &Dialog> + ExactSizeIterator {
        self.dialogs.iter()
    }

    /// A dialog by its number, if it is still there.
    pub fn dialog(&self, number: u64) -> Option<&Dialog> {
        self.dialogs.get(self.place(number)?)
    }

    /// The RTP streams of a call so far.
    pub fn rtp(&self, number: u64) -> Vec<RtpStream> {
        self.rtp.of(number)
    }

    /// Dialogs that went because a bound was reached.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Forgets everything; numbers go on.
    pub fn clear(&mut self) {
        self.dialogs.clear();
        self.numbers.clear();
        self.associations.clear();
        self.rtp.clear();
        self.octets = 0;
    }

    fn open(&mut self, call_id: &str, message: &Message) -> u64 {
        let uri = |name| {
            let value = message.header_bytes(name).unwrap_or_default();
            let uri = sip::NameAddr::parse(value).map_or("", |address| address.uri());
            Box::<str>::from(uri)
        };
        let users = (uri(Name::From), uri(Name::To));
        let number = match (message.method(), message.cseq()) {
            (Some(method), _) => self.add(method.as_str(), users),
            (None, Some((_, method))) => self.add(method.as_str(), users),
            (None, None) => self.add("", users),
        };
        self.numbers.insert(call_id.into(), number);
        if let Some(dialog) = self.dialog_mut(number) {
            dialog.call_id = call_id.into();
        }
        number
    }

    /// Adds a dialog without messages; returns its number.
    fn add(&mut self, method: &str, (from, to): (impl Into<Box<str>>, impl Into<Box<str>>)) -> u64 {
        let number = self.next_number;
        self.next_number += 1;
        self.dialogs.push_back(Dialog {
            number,
            call_id: Box::default(),
            method: method.into(),
            from: from.into(),
            to: to.into(),
            state: DialogState::Waiting,
            messages: Vec::new(),
            left_out: 0,
            association: None,
            point_codes: self.point_codes,
        });
        number
    }

    /// Numbers follow each other, so the first one tells where all are.
    fn place(&self, number: u64) -> Option<usize> {
        let first = self.dialogs.front()?.number;
        usize::try_from(number.checked_sub(first)?).ok()
    }

    fn dialog_mut(&mut self, number: u64) -> Option<&mut Dialog> {
        let place = self.place(number)?;
        self.dialogs.get_mut(place)
    }

    fn forget_first(&mut self) {
        if let Some(dialog) = self.dialogs.pop_front() {
            match dialog.association {
                Some(association) => drop(self.associations.remove(&association)),
                None => drop(self.numbers.remove(&dialog.call_id)),
            }
            self.rtp.take(dialog.number);
            let octets: usize = dialog.messages.iter().map(Recorded::held).sum();
            self.octets = self.octets.saturating_sub(octets);
            self.left_out += 1;
        }
    }
}

impl Recorded {
    fn held(&self) -> usize {
        self.octets.len() + self.label.len() + size_of::<Recorded>()
    }
}

impl Dialog {
    /// When the first message of it came.
    pub fn began(&self) -> Time {
        self.messages
            .first()
            .map_or(Time::default(), |message| message.time)
    }

    /// When the last one came.
    pub fn latest(&self) -> Time {
        self.messages
            .last()
            .map_or(Time::default(), |message| message.time)
    }

    /// Who sent the first message to whom, and over what.
    pub fn first_hop(&self) -> Option<(Endpoint, Endpoint, Carrier)> {
        let first = self.messages.first()?;
        Some((first.source, first.destination, first.carrier))
    }

    /// Whether a text is in it anywhere: in a message, whatever its letters' case.
    pub fn contains(&self, text: &str) -> bool {
        let wanted = text.to_lowercase();
        let has = |text: &str| text.to_lowercase().contains(&wanted);
        self.messages.iter().any(|message| match self.association {
            Some(_) => has(&message.label),
            None => has(&String::from_utf8_lossy(&message.octets)),
        })
    }

    /// A message of it as text.
    pub fn text<'m>(&self, message: &'m Recorded) -> Cow<'m, str> {
        match self.association {
            Some(_) => m3ua_text::in_full(&message.octets, self.point_codes).into(),
            None => String::from_utf8_lossy(&message.octets),
        }
    }

    /// Whether its messages are of SIP; else they are of M3UA.
    pub fn is_sip(&self) -> bool {
        self.association.is_none()
    }

    /// The messages as a diagram, an arrow for each, with the SCTP control chunks that went beside them, and the RTP streams of the
    /// call where they began; and for each arrow the place of its message, where it is one.
    pub fn ladder(
        &self,
        chunks: Option<&ChunkArrows>,
        streams: &[RtpStream],
    ) -> (Ladder, Vec<Option<usize>>) {
        let ways = self
            .messages
            .iter()
            .map(|message| (message.source, message.destination));
        let of_streams = streams
            .iter()
            .map(|stream| (stream.source, stream.destination));
        let columns = Columns::of(ways.clone().chain(of_streams));
        let began = self.began();
        let arrow = |time: Time, source, destination, label: &str| {
            Some(Arrow {
                time: format!("{:.3}", (time - began) as f64 / 1e9),
                from: columns.place(source)?,
                to: columns.place(destination)?,
                label: label.to_owned(),
                kind: ArrowKind::Transport,
                is_repeated: false,
            })
        };
        let messages = self.messages.iter().enumerate();
        let messages = messages.filter_map(|(at, message)| {
            let arrow = Arrow {
                kind: message.kind,
                is_repeated: message.is_repeated,
                ..arrow(
                    message.time,
                    message.source,
                    message.destination,
                    &message.label,
                )?
            };
            Some((message.time, Some(at), arrow))
        });
        let mut steps: Vec<(Time, Option<usize>, Arrow)> = messages.collect();
        if let Some(chunks) = chunks {
            let mut ends: Vec<Endpoint> = ways.flat_map(|(from, to)| [from, to]).collect();
            ends.sort_unstable();
            ends.dedup();
            let between = chunks.between(&ends, began, self.latest());
            steps.extend(between.filter_map(|chunk| {
                let arrow = arrow(chunk.time, chunk.source, chunk.destination, &chunk.label)?;
                Some((chunk.time, None, arrow))
            }));
        }
        steps.extend(streams.iter().filter_map(|stream| {
            let label = stream_label(stream);
            let arrow = arrow(stream.began, stream.source, stream.destination, &label)?;
            Some((stream.began, None, arrow))
        }));
        steps.sort_by_key(|(time, ..)| *time);
        let title = format!(
            "{}: {} → {} ({})",
            self.number, self.from, self.to, self.call_id
        );
        let mut ladder = Ladder::new(title, columns.names());
        let mut places = Vec::with_capacity(steps.len());
        for (_, place, arrow) in steps {
            places.push(place);
            ladder.push(arrow);
        }
        (ladder, places)
    }

    /// Adds a message where there are not too many; returns the octets that this takes.
    fn push(&mut self, mut recorded: Recorded, most: usize) -> usize {
        if self.messages.len() >= most {
            self.left_out += 1;
            return 0;
        }
        recorded.is_repeated = self.messages.iter().any(|other| {
            other.source == recorded.source
                && other.destination == recorded.destination
                && other.octets == recorded.octets
        });
        let held = recorded.held();
        self.messages.push(recorded);
        held
    }

    fn advance(&mut self, message: &Message) {
        let Some((_, method)) = message.cseq() else {
            return;
        };
        let is_call = &*self.method == "INVITE";
        let is_own = method.as_str() == &*self.method;
        self.state = match (message.status(), method.as_str()) {
            (None, "CANCEL") => DialogState::Cancelled,
            (None, "BYE") if is_call => DialogState::Completed,
            (None, _) if is_own && !is_call => DialogState::Waiting,
            // With credentials, or at another place.
            (None, "INVITE") if matches!(self.state, DialogState::Refused(_)) => {
                DialogState::Waiting
            }
            (Some(101..=199), "INVITE") if self.state == DialogState::Waiting => {
                DialogState::Ringing
            }
            (Some(200..=299), "INVITE")
                if matches!(self.state, DialogState::Waiting | DialogState::Ringing) =>
            {
                DialogState::Standing
            }
            (Some(200..=299), _) if is_own && !is_call => DialogState::Completed,
            (Some(status @ 300..), _)
                if is_own
                    && !matches!(
                        self.state,
                        DialogState::Standing | DialogState::Completed | DialogState::Cancelled
                    ) =>
            {
                DialogState::Refused(status)
            }
            _ => return,
        };
    }
}

impl DialogState {
    /// One word, or the status code.
    pub fn text(self) -> String {
        match self {
            DialogState::Waiting => "waiting".to_owned(),
            DialogState::Ringing => "ringing".to_owned(),
            DialogState::Standing => "standing".to_owned(),
            DialogState::Completed => "completed".to_owned(),
            DialogState::Cancelled => "cancelled".to_owned(),
            DialogState::Refused(status) => format!("refused {status}"),
            DialogState::Asp(AspState::Down) => "ASP down".to_owned(),
            DialogState::Asp(AspState::Inactive) => "ASP inactive".to_owned(),
            DialogState::Asp(AspState::Active) => "ASP active".to_owned(),
        }
    }
}

fn label(message: &Message) -> Box<str> {
    let mut label = match (message.method(), message.status()) {
        (Some(method), _) => method.as_str().to_owned(),
        (None, status) => format!(
            "{} {}",
            status.unwrap_or_default(),
            message.reason().unwrap_or_default()
        ),
    };
    if has_session_description(message) {
        label.push_str(" (SDP)");
    }
    label.into()
}

fn has_session_description(message: &Message) -> bool {
    let content_type = message.header_bytes(Name::ContentType);
    content_type.is_some_and(is_session_description) && !message.body().is_empty()
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::*;

    fn see(journal: &mut Journal, time: i64, (from, to): (u8, u8), text: &str) {
        let end = |host| Endpoint {
            address: IpAddr::V4(Ipv4Addr::new(10, 0, 0, host)),
            port: 5060,
        };
        journal.observe(&Event {
            time: Time(time * 1_000_000),
            file: 0,
            packet: time as u64,
            source: end(from),
            destination: end(to),
            kind: EventKind::Sip {
                carrier: Carrier::Udp,
                octets: text.as_bytes(),
                cut: false,
            },
        });
    }

    fn message(start: &str, call_id: &str, cseq: &str) -> String {
        format!(
            "{start}\r\nVia: SIP/2.0/UDP a;branch=z9hG4bK1\r\nFrom: <sip:a@x>;tag=1\r\nTo: <sip:b@x>\r\n\
             Call-ID: {call_id}\r\nCSeq: {cseq}\r\n\r\n"
        )
    }

    fn journal() -> Journal {
        let mut journal = Journal::new(JournalBounds::default(), 1);
        let invite = message("INVITE sip:b@x SIP/2.0", "one", "1 INVITE");
        see(&mut journal, 0, (1, 2), &invite);
        see(&mut journal, 500, (1, 2), &invite);
        journal
    }

    #[test]
    fn a_call_goes_its_way() {
        let mut journal = journal();
        let steps = [
            (
                600,
                (2, 1),
                "SIP/2.0 100 Trying",
                "1 INVITE",
                DialogState::Waiting,
            ),
            (
                601,
                (2, 1),
                "SIP/2.0 180 Ringing",
                "1 INVITE",
                DialogState::Ringing,
            ),
            (
                700,
                (2, 1),
                "SIP/2.0 200 OK",
                "1 INVITE",
                DialogState::Standing,
            ),
            (
                701,
                (1, 2),
                "ACK sip:b@x SIP/2.0",
                "1 ACK",
                DialogState::Standing,
            ),
            (
                800,
                (1, 2),
                "INVITE sip:b@x SIP/2.0",
                "2 INVITE",
                DialogState::Standing,
            ),
            (
                801,
                (2, 1),
                "SIP/2.0 488 No",
                "2 INVITE",
                DialogState::Standing,
            ),
            (
                900,
                (1, 2),
                "BYE sip:b@x SIP/2.0",
                "3 BYE",
                DialogState::Completed,
            ),
            (
                901,
                (2, 1),
                "SIP/2.0 200 OK",
                "3 BYE",
                DialogState::Completed,
            ),
        ];
        for (time, way, start, cseq, state) in steps {
            see(&mut journal, time, way, &message(start, "one", cseq));
            assert_eq!(
                journal.dialog(1).map(|dialog| dialog.state),
                Some(state),
                "{start}"
            );
        }
        let dialog = journal.dialog(1).expect("a dialog");
        assert_eq!((&*dialog.from, &*dialog.to), ("sip:a@x", "sip:b@x"));
        let repeated = dialog.messages.iter().filter(|message| message.is_repeated);
        assert_eq!(repeated.count(), 1);
        assert!(dialog.contains("RINGING") && !dialog.contains("nothing"));
        let ladder = dialog.ladder(None, &[]).0.to_terminal(100);
        assert!(
            ladder.contains("10.0.0.1") && ladder.contains("180 Ringing"),
            "{ladder}"
        );
    }

    #[test]
    fn requests_are_refused_and_repeated_with_credentials() {
        let mut journal = Journal::new(JournalBounds::default(), 1);
        for (start, cseq, state) in [
            ("REGISTER sip:x SIP/2.0", "1 REGISTER", DialogState::Waiting),
            ("SIP/2.0 401 No", "1 REGISTER", DialogState::Refused(401)),
            ("REGISTER sip:x SIP/2.0", "2 REGISTER", DialogState::Waiting),
            ("SIP/2.0 200 OK", "2 REGISTER", DialogState::Completed),
        ] {
            see(&mut journal, 1, (1, 2), &message(start, "r", cseq));
            assert_eq!(
                journal.dialog(1).map(|dialog| dialog.state),
                Some(state),
                "{start}"
            );
        }
        let mut journal = self::journal();
        see(
            &mut journal,
            3,
            (1, 2),
            &message("CANCEL sip:b@x SIP/2.0", "one", "1 CANCEL"),
        );
        see(
            &mut journal,
            4,
            (2, 1),
            &message("SIP/2.0 487 Gone", "one", "1 INVITE"),
        );
        assert_eq!(
            journal.dialog(1).map(|dialog| dialog.state),
            Some(DialogState::Cancelled)
        );
    }

    #[test]
    fn the_oldest_goes_when_there_is_too_much() {
        let bounds = JournalBounds {
            dialogs: 10,
            octets: 1 << 20,
            messages: 5,
        };
        let mut journal = Journal::new(bounds, 1);
        for number in 0..100 {
            let text = message("OPTIONS sip:x SIP/2.0", &number.to_string(), "1 OPTIONS");
            for _ in 0..7 {
                see(&mut journal, number, (1, 2), &text);
            }
        }
        assert_eq!((journal.dialogs().len(), journal.left_out()), (10, 90));
        assert!(journal.dialog(90).is_none());
        let last = journal.dialog(100).expect("the last one");
        assert_eq!(
            (&*last.call_id, last.messages.len(), last.left_out),
            ("99", 5, 2)
        );
        let bounds = JournalBounds {
            octets: 10_000,
            ..JournalBounds::default()
        };
        let mut journal = Journal::new(bounds, 1);
        for number in 0..100 {
            let text = message("OPTIONS sip:x SIP/2.0", &number.to_string(), "1 OPTIONS");
            see(&mut journal, number, (1, 2), &text);
        }
        assert!(journal.octets <= 10_000 && journal.dialogs().len() > 10);
    }

    #[test]
    fn what_is_mangled_is_borne() {
        let mut journal = Journal::new(JournalBounds::default(), 1);
        see(&mut journal, 1, (1, 2), "no message");
        see(&mut journal, 1, (1, 2), "INVITE sip:x SIP/2.0\r\n\r\n");
        assert_eq!(journal.dialogs().len(), 0);
        see(
            &mut journal,
            1,
            (1, 2),
            "SIP/2.0 200 OK\r\nCall-ID: x\r\n\r\n",
        );
        assert_eq!(journal.dialogs().len(), 1);
        journal.clear();
        assert!(journal.dialog(1).is_none());
    }
}
