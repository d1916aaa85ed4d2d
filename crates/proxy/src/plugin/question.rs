//! What a script may ask: its words become a query of the core, and the answer becomes values.

use std::time::Instant;

use bytes::Bytes;
use mlua::{FromLuaMulti, IntoLua, IntoLuaMulti, Lua, LuaString, MultiValue, Result, Table, Value};
use sip::{Transport, Uri};

use super::{json, redis};
use crate::HostPort;
use crate::core::{AddressOfRecord, Answer, Destination, HttpRequest, Query, RedisReply};

/// How long the body of a request over HTTP may be.
const LONGEST_BODY: usize = 1 << 20;

/// The query that a script's words stand for, or why there is none.
pub(super) fn query(
    lua: &Lua,
    mut words: MultiValue,
) -> Result<std::result::Result<Query, &'static str>> {
    let kind = words.pop_front().unwrap_or(Value::Nil);
    let kind: LuaString = lua.unpack(kind)?;
    let kind = kind.to_str()?;
    Ok(match &*kind {
        "location" => location(&String::from_lua_multi(words, lua)?),
        "resolve" => resolve(&String::from_lua_multi(words, lua)?),
        "user" => {
            let (realm, username) = <(String, String)>::from_lua_multi(words, lua)?;
            Ok(Query::Credentials {
                realm: realm.into(),
                username: username.into(),
            })
        }
        "http" => http(<HttpWords>::from_lua_multi(words, lua)?)?,
        "redis" => redis::query(lua, words)?,
        _ => Err("there is no such question"),
    })
}

fn location(address: &str) -> std::result::Result<Query, &'static str> {
    const NO_ADDRESS: &str = "no address of record";
    let Ok(Uri::Sip(uri)) = Uri::parse(address) else {
        return Err(NO_ADDRESS);
    };
    let host: HostPort = uri.host().to_string().parse().map_err(|_| NO_ADDRESS)?;
    let address = AddressOfRecord::new(&uri, &host).ok_or(NO_ADDRESS)?;
    Ok(Query::Lookup(address))
}

fn resolve(uri: &str) -> std::result::Result<Query, &'static str> {
    let Ok(Uri::Sip(uri)) = Uri::parse(uri) else {
        return Err("no SIP URI");
    };
    let transport = match uri.parameter("transport") {
        Some(name) => {
            let transport = Transport::from_uri_parameter(name, uri.is_secure());
            Some(transport.ok_or("an unknown transport")?)
        }
        None => None,
    };
    let host = uri.host();
    let host = match host.address() {
        Some(address) => address.to_string(),
        None => host.to_string(),
    };
    Ok(Query::Resolve(Destination {
        host,
        port: uri.port(),
        transport,
        is_secure: uri.is_secure(),
        is_large: false,
        choice: None,
        addresses: Vec::new(),
    }))
}

type HttpWords = (String, Option<String>, Table, LuaString);

fn http(
    (method, url, headers, body): HttpWords,
) -> Result<std::result::Result<Query, &'static str>> {
    let Some(url) = url else {
        return Ok(Err("no URL"));
    };
    if !matches!(method.as_str(), "GET" | "POST") {
        return Ok(Err("the method is GET or POST"));
    }
    let body = Bytes::copy_from_slice(&body.as_bytes());
    if body.len() > LONGEST_BODY {
        return Ok(Err("the body is too long"));
    }
    let mut fields = Vec::new();
    for header in headers.sequence_values::<String>() {
        let header = header?;
        let (name, value) = header.split_once(": ").unwrap_or((&header, ""));
        fields.push((name.into(), value.into()));
    }
    // The order in a table is no order.
    fields.sort();
    Ok(Ok(Query::Http(Box::new(HttpRequest {
        method: method.into(),
        url: url.into(),
        fields,
        body,
    }))))
}

/// What a script gets for an answer: a value, or nil and why there is none.
pub(super) fn values(lua: &Lua, now: Instant, answer: &Answer) -> Result<MultiValue> {
    match answer {
        Answer::Bindings(bindings) => {
            let list = lua.create_table()?;
            for binding in bindings.iter().filter(|binding| binding.expires() > now) {
                let contact = lua.create_table()?;
                contact.set("uri", binding.contact())?;
                contact.set("q", f64::from(binding.q()) / 1000.0)?;
                let expires = binding.expires().saturating_duration_since(now);
                contact.set("expires", expires.as_secs())?;
                list.raw_push(contact)?;
            }
            list.into_lua_multi(lua)
        }
        Answer::Unknown => failed(lua, "unknown"),
        Answer::NextHops(hops) => {
            let list = lua.create_table()?;
            for hop in hops {
                let place = lua.create_table()?;
                place.set("transport", hop.transport.to_string())?;
                place.set("address", hop.remote.ip().to_string())?;
                place.set("port", hop.remote.port())?;
                list.raw_push(place)?;
            }
            list.into_lua_multi(lua)
        }
        Answer::Credentials(stored) => stored.is_some().into_lua_multi(lua),
        Answer::Http(response) => {
            let table = lua.create_table()?;
            table.set("status", response.status)?;
            table.set("body", lua.create_string(&response.body)?)?;
            // Of what is no JSON there is none.
            let json = json::decode(lua, &response.body)?;
            table.set("json", json.unwrap_or(Value::Nil))?;
            table.into_lua_multi(lua)
        }
        Answer::Redis(RedisReply::Error(why)) => failed(lua, why),
        Answer::Redis(reply) => redis::value(lua, reply)?.into_lua_multi(lua),
        Answer::Refused(_) | Answer::Full | Answer::Page(_) | Answer::Failed => {
            failed(lua, "no answer")
        }
    }
}

/// Nothing, and why.
pub(super) fn failed(lua: &Lua, why: &str) -> Result<MultiValue> {
    (Value::Nil, why.into_lua(lua)?).into_lua_multi(lua)
}
