//! The object that a hook is called with: a message, what is known of it, and what is to become of it.
//!
//! A script has a number of its own for each call, as a light userdata. It means nothing but to the call that runs: there
//! is nothing to be allocated and collected for each message, and nothing that a script could keep.

use std::sync::{Arc, Mutex, PoisonError};

use mlua::{
    BorrowedBytes, BorrowedStr, Error, FromLuaMulti, IntoLua, IntoLuaMulti, LightUserData, Lua,
    LuaString, Result, Table, Value, Variadic,
};
use sip::{Flow, MAXIMUM_FIELDS, Message, Method, Name, Uri};

use super::HookName;
use crate::core::{Event, ForwardTo, Refusal, RequestAction};

/// How long a message may become.
const LONGEST_MESSAGE: usize = 65_535;

/// How many URIs a request may be sent to.
const MAXIMUM_TARGETS: usize = 64;

/// The fields that make a message part of its transaction and dialog, and tell where it ends.
const PROTECTED: [Name<'static>; 9] = [
    Name::Via,
    Name::From,
    Name::To,
    Name::CallId,
    Name::CSeq,
    Name::MaxForwards,
    Name::RecordRoute,
    Name::ContentLength,
    Name::MaxBreadth,
];

/// What a hook is about.
#[derive(Debug)]
pub(super) struct Subject {
    pub(super) hook: HookName,
    /// What the script has for it.
    object: LightUserData,
    /// It is there while the hook runs.
    pub(super) message: Option<Message>,
    /// Of a request: the way that it came.
    pub(super) arrival: Option<Flow>,
    /// The name by which its sender has proved who it is.
    pub(super) user: Option<Box<str>>,
    /// The Request-URI of a branch.
    pub(super) target: Option<Box<str>>,
    /// The status of a failure.
    pub(super) status: Option<u16>,
    /// The response that a branch has failed by.
    pub(super) response: Option<Message>,
    /// What was decided.
    pub(super) verdict: Option<RequestAction>,
    pub(super) is_changed: bool,
    pub(super) is_retargeted: bool,
    /// What the record of the call is to have.
    pub(super) tags: Vec<Event>,
}

/// How many tags a hook may set.
const MAXIMUM_TAGS: usize = 32;

impl Subject {
    pub(super) fn new(hook: HookName, object: LightUserData) -> Subject {
        Subject {
            hook,
            object,
            message: None,
            arrival: None,
            user: None,
            target: None,
            status: None,
            response: None,
            verdict: None,
            is_changed: false,
            is_retargeted: false,
            tags: Vec::new(),
        }
    }

    fn message(&self) -> Result<&Message> {
        let message = self.message.as_ref();
        message.ok_or_else(|| Error::runtime("the hook that this object was for is over"))
    }

    fn message_mut(&mut self) -> Result<&mut Message> {
        let message = self.message.as_mut();
        message.ok_or_else(|| Error::runtime("the hook that this object was for is over"))
    }

    /// The message, for the edit of a field.
    fn edited(&mut self, name: &str) -> Result<&mut Message> {
        let is_token = !name.is_empty()
            && name
                .bytes()
                .all(|octet| octet.is_ascii_alphanumeric() || b"-.!%*_+`'~".contains(&octet));
        if !is_token {
            return Err(Error::runtime("this is no name of a header field"));
        }
        let name = Name::parse(name);
        if PROTECTED.contains(&name) {
            let name = name.as_str();
            return Err(Error::runtime(format!("{name} cannot be changed")));
        }
        if matches!(self.hook, HookName::Failure) {
            return Err(Error::runtime("the request has been forwarded already"));
        }
        self.is_changed = true;
        self.message_mut()
    }

    fn check_length(&self, more: usize) -> Result<()> {
        match self.message()?.wire_length() + more > LONGEST_MESSAGE {
            true => Err(Error::runtime(format!(
                "the message would be longer than {LONGEST_MESSAGE} octets"
            ))),
            false => Ok(()),
        }
    }

    fn decide(&mut self, verdict: RequestAction) -> Result<()> {
        self.message()?;
        if self.verdict.is_some() {
            return Err(Error::runtime("it is decided already what becomes of it"));
        }
        self.verdict = Some(verdict);
        Ok(())
    }

    fn reply(&mut self, status: u16, reason: Option<String>, fields: Option<Table>) -> Result<()> {
        let is_invite = self.message()?.method() == Some(&Method::Invite);
        let lowest = match self.hook {
            HookName::Request | HookName::Register | HookName::Route if !is_invite => 200,
            HookName::Reply => return Err(Error::runtime("a response is not answered")),
            _ => 300,
        };
        if !(lowest..700).contains(&status) {
            return Err(Error::runtime(format!(
                "the status is {lowest} or more, and less than 700"
            )));
        }
        let reason = reason.unwrap_or_else(|| usual_reason(status).to_owned());
        if !is_line(reason.as_bytes()) {
            return Err(Error::runtime("the reason is no line of text"));
        }
        let mut refusal = Refusal::new(status, reason);
        if let Some(fields) = fields {
            for field in fields.pairs::<String, String>() {
                let (name, value) = field?;
                self.check_length(value.len())?;
                refusal = refusal.with(&name, &value);
            }
            // The order in a table is no order.
            refusal.fields.sort();
        }
        self.decide(RequestAction::Refuse(refusal))
    }

    fn redirect(&mut self, uris: &[LuaString]) -> Result<()> {
        let mut refusal = Refusal::new(302, "Moved Temporarily");
        for (place, uri) in checked(uris)?.iter().enumerate() {
            // Each less preferred than the one before (RFC 3261 section 20.10).
            let thousandths = 999 / (place + 1);
            refusal = refusal.with("Contact", &format!("<{uri}>;q=0.{thousandths:03}"));
        }
        self.may_forward(true)?;
        self.decide(RequestAction::Refuse(refusal))
    }

    fn may_forward(&self, is_of_requests: bool) -> Result<()> {
        match self.hook {
            HookName::Request | HookName::Register | HookName::Route => Ok(()),
            HookName::Failure if !is_of_requests => Ok(()),
            _ => Err(Error::runtime(format!(
                "this cannot be done in {}",
                self.hook.as_str()
            ))),
        }
    }

    fn forward(&mut self, groups: Vec<Vec<Box<str>>>) -> Result<()> {
        self.may_forward(false)?;
        self.decide(RequestAction::Forward(ForwardTo::Targets(groups)))
    }

    fn route(&mut self, uris: &[LuaString]) -> Result<()> {
        self.may_forward(true)?;
        let uris = checked(uris)?;
        self.decide(RequestAction::to(uris.iter().map(|uri| &**uri)))
    }

    fn discard(&mut self) -> Result<()> {
        let status = self.message()?.status();
        match self.hook {
            HookName::Reply if status.is_none_or(|status| status >= 200) => {
                return Err(Error::runtime("a final response cannot be dropped"));
            }
            HookName::Reply => {}
            _ => self.may_forward(true)?,
        }
        self.decide(RequestAction::Drop)
    }

    fn tag(&mut self, name: String, value: &LuaString) -> Result<()> {
        if self.tags.len() >= MAXIMUM_TAGS || name.len() + value.as_bytes().len() > 1024 {
            return Err(Error::runtime("too many tags, or too long"));
        }
        let message = self.message()?;
        let event = Event::CallTagged {
            call_id: message.call_id().unwrap_or_default().into(),
            from_tag: message.from_tag().unwrap_or_default().into(),
            name: name.into(),
            value: value.to_string_lossy().into(),
        };
        self.tags.push(event);
        Ok(())
    }

    fn set_uri(&mut self, uri: &LuaString) -> Result<()> {
        if self.hook != HookName::Request {
            return Err(Error::runtime(
                "the URI can be set in on_request; elsewhere forward() does it",
            ));
        }
        let uri = checked_uri(uri)?;
        self.check_length(uri.len())?;
        self.is_changed = true;
        self.is_retargeted = true;
        self.message_mut()?.set_request_uri(&uri);
        Ok(())
    }
}

/// The subject of the call that runs.
#[derive(Debug, Default)]
pub(super) struct Current(Mutex<Option<Box<Subject>>>);

impl Current {
    /// A call with a message begins to run, or goes on.
    pub(super) fn set(&self, subject: Box<Subject>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(subject);
    }

    /// It runs no more.
    pub(super) fn take(&self) -> Option<Box<Subject>> {
        let mut current = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        current.take()
    }

    /// Does something with what an object stands for.
    fn with<T>(
        &self,
        object: LightUserData,
        act: impl FnOnce(&mut Subject) -> Result<T>,
    ) -> Result<T> {
        let mut current = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match current.as_deref_mut() {
            Some(subject) if subject.object == object => act(subject),
            _ => Err(Error::runtime("the hook that this object was for is over")),
        }
    }
}

/// Gives objects their fields and methods. The prelude puts the three tables together to a metatable.
pub(super) fn add(lua: &Lua, host: &Table, current: &Arc<Current>) -> Result<()> {
    let metatable = lua.create_table()?;
    metatable.set("__name", "request")?;
    metatable.set("__metatable", false)?;
    lua.set_type_metatable::<LightUserData>(Some(metatable.clone()));
    host.set("metatable", metatable)?;
    let members = || -> Result<Members<'_>> {
        Ok(Members {
            lua,
            table: lua.create_table()?,
            current,
        })
    };
    let getters = members()?;
    add_getters(&getters)?;
    host.set("getters", getters.table)?;
    let setters = members()?;
    setters.add("uri", |_, this, uri: LuaString| this.set_uri(&uri))?;
    host.set("setters", setters.table)?;
    let methods = members()?;
    add_methods(&methods)?;
    host.set("methods", methods.table)
}

/// Functions whose first argument is an object.
struct Members<'a> {
    lua: &'a Lua,
    table: Table,
    current: &'a Arc<Current>,
}

impl Members<'_> {
    fn add<A: FromLuaMulti, R: IntoLuaMulti>(
        &self,
        name: &str,
        act: impl Fn(&Lua, &mut Subject, A) -> Result<R> + Send + 'static,
    ) -> Result<()> {
        let current = Arc::clone(self.current);
        let function =
            self.lua
                .create_function(move |lua, (object, words): (LightUserData, A)| {
                    current.with(object, |subject| act(lua, subject, words))
                })?;
        self.table.set(name, function)
    }
}

fn add_getters(getters: &Members<'_>) -> Result<()> {
    getters.add("method", |lua, this, ()| {
        let message = this.message()?;
        match (message.method(), message.cseq()) {
            (Some(method), _) => lua.create_string(method.as_str()),
            (None, Some((_, method))) => lua.create_string(method.as_str()),
            (None, None) => lua.create_string(""),
        }
    })?;
    getters.add("uri", |lua, this, ()| match this.message()?.request_uri() {
        Some(uri) => lua.create_string(uri)?.into_lua(lua),
        None => Ok(Value::Nil),
    })?;
    getters.add("call_id", |lua, this, ()| {
        lua.create_string(this.message()?.call_id().unwrap_or_default())
    })?;
    getters.add("in_dialog", |_, this, ()| {
        Ok(this.message()?.to_tag().is_some())
    })?;
    getters.add("body", |lua, this, ()| {
        lua.create_string(this.message()?.body())
    })?;
    getters.add("source", |_, this, ()| {
        Ok(this.arrival.map(|flow| flow.remote.ip().to_string()))
    })?;
    getters.add("port", |_, this, ()| {
        Ok(this.arrival.map(|flow| flow.remote.port()))
    })?;
    getters.add("transport", |_, this, ()| {
        Ok(this.arrival.map(|flow| flow.transport.to_string()))
    })?;
    getters.add("user", |_, this, ()| {
        Ok(this.user.as_deref().map(str::to_owned))
    })?;
    getters.add("target", |_, this, ()| {
        Ok(this.target.as_deref().map(str::to_owned))
    })?;
    getters.add("status", |_, this, ()| {
        Ok(this.status.or(this.message()?.status()))
    })?;
    getters.add("reason", |_, this, ()| {
        let response = match &this.response {
            Some(response) => response,
            None => this.message()?,
        };
        Ok(response.reason().map(str::to_owned))
    })
}

fn add_methods(methods: &Members<'_>) -> Result<()> {
    methods.add("header", |lua, this, name: BorrowedBytes| {
        header(lua, this.message()?, &name)
    })?;
    methods.add("headers", |lua, this, name: Option<BorrowedBytes>| {
        headers(lua, this.message()?, name.as_deref())
    })?;
    methods.add(
        "response_header",
        |lua, this, name: BorrowedBytes| match &this.response {
            Some(response) => header(lua, response, &name),
            None => Ok(Value::Nil),
        },
    )?;
    methods.add(
        "set_header",
        |_, this, (name, value): (BorrowedStr, BorrowedBytes)| {
            this.check_length(name.len() + value.len() + 4)?;
            let message = this.edited(&name)?;
            let name = Name::parse(&name);
            if !message.contains(name) {
                check_fields(message)?;
            }
            message.replace(name, &*value);
            Ok(())
        },
    )?;
    methods.add(
        "add_header",
        |_, this, (name, value): (BorrowedStr, BorrowedBytes)| {
            this.check_length(name.len() + value.len() + 4)?;
            let message = this.edited(&name)?;
            check_fields(message)?;
            message.push_back(Name::parse(&name), &*value);
            Ok(())
        },
    )?;
    methods.add("remove_header", |_, this, name: BorrowedStr| {
        let message = this.edited(&name)?;
        Ok(message.remove_all(Name::parse(&name)))
    })?;
    methods.add(
        "reply",
        |_, this, (status, reason, fields): (u16, Option<String>, Option<Table>)| {
            this.reply(status, reason, fields)
        },
    )?;
    methods.add("redirect", |_, this, uris: Variadic<LuaString>| {
        this.redirect(&uris)
    })?;
    methods.add("forward", |_, this, uris: Variadic<LuaString>| {
        let uris = checked(&uris)?;
        this.forward(uris.into_iter().map(|uri| vec![uri]).collect())
    })?;
    methods.add("fork", |_, this, uris: Variadic<LuaString>| {
        let uris = checked(&uris)?;
        this.forward(vec![uris])
    })?;
    methods.add("route", |_, this, uris: Variadic<LuaString>| {
        this.route(&uris)
    })?;
    methods.add("drop", |_, this, ()| this.discard())?;
    methods.add("tag", |_, this, (name, value): (String, LuaString)| {
        this.tag(name, &value)
    })
}

/// The value of the first field of a name. What is no text is no name.
fn header(lua: &Lua, message: &Message, name: &[u8]) -> Result<Value> {
    let Ok(name) = std::str::from_utf8(name) else {
        return Ok(Value::Nil);
    };
    match message.header_bytes(Name::parse(name)) {
        Some(value) => lua.create_string(value)?.into_lua(lua),
        None => Ok(Value::Nil),
    }
}

/// Whether there is room for another field, and for those that are added on the way.
fn check_fields(message: &Message) -> Result<()> {
    const ON_THE_WAY: usize = 16;
    match message.fields().count() + ON_THE_WAY < MAXIMUM_FIELDS {
        true => Ok(()),
        false => Err(Error::runtime("the message has too many fields")),
    }
}

/// The values of the fields of a name; without a name the names and values of all.
fn headers(lua: &Lua, message: &Message, name: Option<&[u8]>) -> Result<Table> {
    let list = lua.create_table()?;
    match name {
        Some(name) => {
            if let Ok(name) = std::str::from_utf8(name) {
                for value in message.values(Name::parse(name)) {
                    list.raw_push(lua.create_string(value)?)?;
                }
            }
        }
        None => {
            for (name, value) in message.fields() {
                let field = lua.create_table_with_capacity(2, 0)?;
                field.raw_push(lua.create_string(name.as_str())?)?;
                field.raw_push(lua.create_string(value)?)?;
                list.raw_push(field)?;
            }
        }
    }
    Ok(list)
}

fn checked(uris: &[LuaString]) -> Result<Vec<Box<str>>> {
    if uris.is_empty() || uris.len() > MAXIMUM_TARGETS {
        return Err(Error::runtime(format!(
            "1 to {MAXIMUM_TARGETS} URIs are expected"
        )));
    }
    uris.iter().map(checked_uri).collect()
}

/// A SIP URI, which leads somewhere.
fn checked_uri(uri: &LuaString) -> Result<Box<str>> {
    let text = uri.to_str()?;
    match Uri::parse(&text) {
        Ok(Uri::Sip(_)) => Ok((*text).into()),
        _ => Err(Error::runtime(format!("\"{}\" is no SIP URI", &*text))),
    }
}

fn is_line(octets: &[u8]) -> bool {
    octets.len() <= 256 && !octets.iter().any(|octet| octet.is_ascii_control())
}

/// The reason phrases of RFC 3261 section 21 for the statuses that scripts use most.
fn usual_reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        302 => "Moved Temporarily",
        403 => "Forbidden",
        404 => "Not Found",
        410 => "Gone",
        480 => "Temporarily Unavailable",
        484 => "Address Incomplete",
        486 => "Busy Here",
        488 => "Not Acceptable Here",
        500 => "Server Internal Error",
        503 => "Service Unavailable",
        600 => "Busy Everywhere",
        603 => "Decline",
        _ => "Decided By Plugin",
    }
}
