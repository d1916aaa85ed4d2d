//! Commands of scripts to Redis servers, and the replies as values of Lua.

use bytes::Bytes;
use mlua::{Error, FromLuaMulti, IntoLua, Lua, LuaString, MultiValue, Result, Value, Variadic};

use crate::core::{Query, RedisCommand, RedisReply};

/// How long a command may be, with its arguments, and how many of them it may have.
const LONGEST: usize = 1 << 20;
const MOST_WORDS: usize = 1024;

/// Commands that wait, or change the connection: all calls of a worker share it.
const REFUSED: [&str; 32] = [
    "AUTH",
    "BLMOVE",
    "BLMPOP",
    "BLPOP",
    "BRPOP",
    "BRPOPLPUSH",
    "BZMPOP",
    "BZPOPMAX",
    "BZPOPMIN",
    "CLIENT",
    "DEBUG",
    "DISCARD",
    "EXEC",
    "HELLO",
    "MONITOR",
    "MULTI",
    "PSUBSCRIBE",
    "PSYNC",
    "PUNSUBSCRIBE",
    "QUIT",
    "REPLCONF",
    "RESET",
    "SELECT",
    "SSUBSCRIBE",
    "SUBSCRIBE",
    "SUNSUBSCRIBE",
    "SYNC",
    "UNSUBSCRIBE",
    "UNWATCH",
    "WAIT",
    "WAITAOF",
    "WATCH",
];

/// Those that wait when they have this word.
const WAITING: [&str; 2] = ["XREAD", "XREADGROUP"];

/// The query for a script's words, or why there is none.
pub(super) fn query(
    lua: &Lua,
    words: MultiValue,
) -> Result<std::result::Result<Query, &'static str>> {
    let (url, words) = <(Option<String>, Variadic<LuaString>)>::from_lua_multi(words, lua)?;
    let Some(url) = url else {
        return Ok(Err("no URL"));
    };
    let words: Vec<Bytes> = words
        .iter()
        .map(|word| Bytes::copy_from_slice(&word.as_bytes()))
        .collect();
    let Some(command) = words.first() else {
        return Ok(Err("no command"));
    };
    let is = |name: &&str| name.as_bytes().eq_ignore_ascii_case(command);
    let is_block = |word: &Bytes| word.eq_ignore_ascii_case(b"BLOCK");
    if REFUSED.iter().any(is) || WAITING.iter().any(is) && words.iter().any(is_block) {
        return Ok(Err("the command waits, or changes the connection"));
    }
    if words.len() > MOST_WORDS || words.iter().map(Bytes::len).sum::<usize>() > LONGEST {
        return Ok(Err("the command is too long"));
    }
    let url = url.into();
    Ok(Ok(Query::Redis(Box::new(RedisCommand { url, words }))))
}

/// What a script gets for a reply that is no error. Nothing there is `false`, as in the scripts of Redis itself: nil is
/// no answer.
pub(super) fn value(lua: &Lua, reply: &RedisReply) -> Result<Value> {
    match reply {
        RedisReply::Nil | RedisReply::Error(_) => Ok(Value::Boolean(false)),
        RedisReply::Integer(number) => number.into_lua(lua),
        RedisReply::Text(text) => lua.create_string(text)?.into_lua(lua),
        RedisReply::List(replies) => {
            let list = lua.create_table_with_capacity(replies.len(), 0)?;
            for reply in replies {
                list.raw_push(value(lua, reply)?)?;
            }
            list.into_lua(lua)
        }
    }
}

/// How deep the lists of a made-up reply may be within each other, and how many values it may have.
const DEEPEST: usize = 16;
const MOST_VALUES: usize = 10_000;

/// The reply that a test of a script has made up: what [`value`] would give for it. Nothing is no answer.
pub(super) fn reply(value: &Value, why: Option<LuaString>) -> Result<Option<RedisReply>> {
    match (value, why) {
        (Value::Nil, None) => Ok(None),
        (Value::Nil, Some(why)) => Ok(Some(RedisReply::Error(why.to_string_lossy().into()))),
        _ => made_up(value, DEEPEST, &mut MOST_VALUES.clone()).map(Some),
    }
}

/// A list may contain itself: its depth is bounded, and so is the number of values.
fn made_up(value: &Value, depth: usize, values: &mut usize) -> Result<RedisReply> {
    let left = values.checked_sub(1);
    *values = left.ok_or_else(|| Error::runtime("the reply has too many values"))?;
    match value {
        Value::Nil | Value::Boolean(false) => Ok(RedisReply::Nil),
        Value::Integer(number) => Ok(RedisReply::Integer(*number)),
        Value::String(text) => Ok(RedisReply::Text(Bytes::copy_from_slice(&text.as_bytes()))),
        Value::Table(list) => {
            let depth = depth.checked_sub(1);
            let depth =
                depth.ok_or_else(|| Error::runtime("the lists of the reply are too deep"))?;
            let replies = list.sequence_values::<Value>();
            let replies = replies.map(|value| made_up(&value?, depth, values));
            Ok(RedisReply::List(replies.collect::<Result<_>>()?))
        }
        other => {
            let name = other.type_name();
            Err(Error::runtime(format!("Redis has no {name}")))
        }
    }
}
