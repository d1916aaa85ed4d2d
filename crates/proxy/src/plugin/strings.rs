//! The functions of `string` that may take long, with a bound on their work and on what they make.

use std::sync::Arc;

use mlua::{Error, IntoLuaMulti, Lua, LuaString, MultiValue, Result, Table, Value};

use super::context::Context;
use super::pattern::{Matcher, Replacement};

/// How many steps of a pattern count as one instruction.
const STEPS_PER_INSTRUCTION: u64 = 4;

/// How many octets that are written count as one instruction.
const OCTETS_PER_INSTRUCTION: u64 = 64;

/// Puts the functions into a table.
pub(super) fn add(lua: &Lua, host: &Table, context: &Arc<Context>) -> Result<()> {
    let shared = Arc::clone(context);
    host.set(
        "rep",
        lua.create_function(
            move |lua, (text, count, separator): (LuaString, i64, Option<LuaString>)| {
                repeat(lua, &shared, &text, count, separator)
            },
        )?,
    )?;
    let shared = Arc::clone(context);
    host.set(
        "find",
        lua.create_function(
            move |lua, (text, pattern, from, is_plain): Search| -> Result<MultiValue> {
                if is_plain == Some(true) {
                    return find_plain(lua, &text, &pattern, from);
                }
                first_match(lua, &shared, &text, &pattern, from, true)
            },
        )?,
    )?;
    let shared = Arc::clone(context);
    host.set(
        "match",
        lua.create_function(
            move |lua, (text, pattern, from, _): Search| -> Result<MultiValue> {
                first_match(lua, &shared, &text, &pattern, from, false)
            },
        )?,
    )?;
    let shared = Arc::clone(context);
    host.set(
        "gmatch",
        lua.create_function(move |lua, (text, pattern): (LuaString, LuaString)| {
            let shared = Arc::clone(&shared);
            // From where to look, and where the last match has ended: it does not match empty there again.
            let (mut from, mut last) = (0, None);
            lua.create_function_mut(move |lua, ()| -> Result<MultiValue> {
                next_match(lua, &shared, &text, &pattern, &mut from, &mut last)
            })
        })?,
    )?;
    let shared = Arc::clone(context);
    host.set(
        "gsub",
        lua.create_function(
            move |lua, (text, pattern, by, maximum): (LuaString, LuaString, Value, Option<i64>)| {
                let by = Replacement::of(lua, by)?;
                substitute(lua, &shared, &text, &pattern, &by, maximum)
            },
        )?,
    )
}

type Search = (LuaString, LuaString, Option<i64>, Option<bool>);

fn repeat(
    lua: &Lua,
    context: &Context,
    text: &LuaString,
    count: i64,
    separator: Option<LuaString>,
) -> Result<LuaString> {
    let (text, separator) = (text.as_bytes(), separator.as_ref().map(LuaString::as_bytes));
    let separator = separator.as_deref().unwrap_or_default();
    let count = usize::try_from(count).unwrap_or(0);
    let length = (text.len() + separator.len()).saturating_mul(count);
    if length == 0 {
        return lua.create_string("");
    }
    if length > context.memory {
        return Err(Error::MemoryError("not enough memory".to_owned()));
    }
    context.charge(length as u64 / OCTETS_PER_INSTRUCTION)?;
    let mut whole = Vec::with_capacity(length);
    for number in 0..count {
        if number > 0 {
            whole.extend_from_slice(separator);
        }
        whole.extend_from_slice(&text);
    }
    lua.create_string(whole)
}

/// Where a search begins that is told so as Lua does: from 1, or from the end where it is negative.
fn start(length: usize, from: Option<i64>) -> Option<usize> {
    let from = from.unwrap_or(1);
    let start = match from {
        0.. => usize::try_from(from).ok()?.saturating_sub(1),
        _ => length.saturating_sub(usize::try_from(from.unsigned_abs()).ok()?),
    };
    (start <= length).then_some(start)
}

fn find_plain(
    lua: &Lua,
    text: &LuaString,
    wanted: &LuaString,
    from: Option<i64>,
) -> Result<MultiValue> {
    let (text, wanted) = (text.as_bytes(), wanted.as_bytes());
    let found = start(text.len(), from).and_then(|start| {
        let place = memchr::memmem::find(text.get(start..)?, &wanted)?;
        Some(start + place)
    });
    match found {
        Some(place) => (place + 1, place + wanted.len()).into_lua_multi(lua),
        None => Value::Nil.into_lua_multi(lua),
    }
}

/// Runs a matcher and counts what it has done.
fn with_matcher<T>(
    context: &Context,
    text: &LuaString,
    pattern: &LuaString,
    run: impl FnOnce(&mut Matcher<'_>) -> Result<T>,
) -> Result<T> {
    let (text, pattern) = (text.as_bytes(), pattern.as_bytes());
    let maximum = context.meter.left().saturating_mul(STEPS_PER_INSTRUCTION);
    let mut matcher = Matcher::new(&text, &pattern, maximum);
    let result = run(&mut matcher);
    context.charge(matcher.steps() / STEPS_PER_INSTRUCTION)?;
    result
}

fn first_match(
    lua: &Lua,
    context: &Context,
    text: &LuaString,
    pattern: &LuaString,
    from: Option<i64>,
    is_find: bool,
) -> Result<MultiValue> {
    let Some(start) = start(text.as_bytes().len(), from) else {
        return Value::Nil.into_lua_multi(lua);
    };
    with_matcher(context, text, pattern, |matcher| {
        let Some(whole) = matcher.search(start)? else {
            return Value::Nil.into_lua_multi(lua);
        };
        let captures = matcher.captures(lua, whole, !is_find)?;
        if !is_find {
            return Ok(captures);
        }
        let mut values = (whole.0 + 1, whole.1).into_lua_multi(lua)?;
        values.extend(captures);
        Ok(values)
    })
}

fn next_match(
    lua: &Lua,
    context: &Context,
    text: &LuaString,
    pattern: &LuaString,
    from: &mut usize,
    last: &mut Option<usize>,
) -> Result<MultiValue> {
    with_matcher(context, text, pattern, |matcher| {
        let length = text.as_bytes().len();
        while *from <= length {
            let Some(whole) = matcher.search(*from)? else {
                break;
            };
            if *last == Some(whole.1) {
                *from = whole.0 + 1;
                continue;
            }
            *from = whole.1;
            *last = Some(whole.1);
            return matcher.captures(lua, whole, true);
        }
        *from = length + 1;
        Value::Nil.into_lua_multi(lua)
    })
}

fn substitute(
    lua: &Lua,
    context: &Context,
    text: &LuaString,
    pattern: &LuaString,
    by: &Replacement,
    maximum: Option<i64>,
) -> Result<(LuaString, usize)> {
    let is_anchored = pattern.as_bytes().first() == Some(&b'^');
    let maximum = maximum.map_or(usize::MAX, |maximum| usize::try_from(maximum).unwrap_or(0));
    let octets = text.as_bytes();
    let mut whole = Vec::with_capacity(octets.len());
    let count = with_matcher(context, text, pattern, |matcher| {
        let (mut count, mut from, mut last) = (0, 0, None);
        while count < maximum {
            let Some(found) = matcher.search(from)? else {
                break;
            };
            whole.extend_from_slice(octets.get(from..found.0).unwrap_or_default());
            if last == Some(found.1) {
                // It is empty, and behind the one before.
                whole.extend(octets.get(found.0));
                from = found.0 + 1;
            } else {
                count += 1;
                matcher.replacement(lua, by, found, &mut whole)?;
                from = found.1;
                last = Some(found.1);
            }
            if whole.len() > context.memory {
                return Err(Error::MemoryError("not enough memory".to_owned()));
            }
            if is_anchored || from > octets.len() {
                break;
            }
        }
        whole.extend_from_slice(octets.get(from..).unwrap_or_default());
        Ok(count)
    })?;
    context.charge(whole.len() as u64 / OCTETS_PER_INSTRUCTION)?;
    Ok((lua.create_string(whole)?, count))
}
