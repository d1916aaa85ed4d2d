//! The functions behind the global table `tandem`, and those that take the place of Lua's own.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use mlua::{Either, Error, Function, IntoLua, Lua, LuaString, Result, Table, Value};
use sip::{NameAddr, Scheme, Uri};

use super::context::{Context, OVER};
use super::json;
use super::shared::SharedValue;
use super::strings;
use crate::core::{Event, LogLevel, Setting};

/// How many octets that are read or copied count as one instruction.
const OCTETS_PER_INSTRUCTION: u64 = 64;

/// How many timers a script may have.
const MAXIMUM_TIMERS: usize = 16;

/// The shortest interval of a timer.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(100);

/// How long a line of the log may be.
const LONGEST_LINE: usize = 4096;

/// How long the name of what is counted, or a key of the dictionary, may be.
const LONGEST_NAME: usize = 256;

/// The functions that the prelude takes up. `question` is what a script yields first when it asks something.
pub(super) fn host(lua: &Lua, context: &Arc<Context>, question: &Table) -> Result<Table> {
    let host = lua.create_table()?;
    host.set("ASK", question)?;
    host.set("OVER", OVER)?;
    let shared = Arc::clone(context);
    host.set(
        "is_over",
        lua.create_function(move |_, ()| Ok(shared.meter.is_over()))?,
    )?;
    let shared = Arc::clone(context);
    host.set(
        "charge",
        lua.create_function(move |_, work: u64| shared.charge(work / 4))?,
    )?;
    host.set(
        "text",
        lua.create_function(|_, error: Error| Ok(reason(&error)))?,
    )?;
    host.set(
        "memory",
        lua.create_function(|lua, ()| Ok(lua.used_memory()))?,
    )?;
    strings::add(lua, &host, context)?;
    add_clock(lua, &host, context)?;
    add_dictionary(lua, &host, context)?;
    json::add(lua, &host, context)?;
    let shared = Arc::clone(context);
    host.set(
        "log",
        lua.create_function(move |_, (level, text): (String, LuaString)| {
            log(&shared, &level, &text)
        })?,
    )?;
    let shared = Arc::clone(context);
    host.set(
        "count",
        lua.create_function(move |_, (name, number): (String, Option<u64>)| {
            count(&shared, &name, number.unwrap_or(1))
        })?,
    )?;
    let shared = Arc::clone(context);
    host.set(
        "uri",
        lua.create_function(move |lua, text: LuaString| {
            shared.charge(text.as_bytes().len() as u64 / OCTETS_PER_INSTRUCTION)?;
            match text.to_str() {
                Ok(text) => parts(lua, &text),
                Err(_) => Ok(Parts::default()),
            }
        })?,
    )?;
    let shared = Arc::clone(context);
    host.set(
        "every",
        lua.create_function(move |_, (seconds, function): (f64, Function)| {
            every(&shared, seconds, function)
        })?,
    )?;
    Ok(host)
}

/// What an error says, without where it has come from.
pub(super) fn reason(error: &Error) -> String {
    match error {
        Error::CallbackError { cause, .. } | Error::WithContext { cause, .. } => reason(cause),
        Error::RuntimeError(text) | Error::MemoryError(text) => {
            let reason = text.split("\nstack traceback:").next();
            reason.unwrap_or_default().trim().to_owned()
        }
        Error::SyntaxError { message, .. } => message.clone(),
        other => other.to_string(),
    }
}

/// A setting as a script sees it.
pub(super) fn setting(lua: &Lua, setting: &Setting) -> Result<Value> {
    match setting {
        Setting::Boolean(value) => value.into_lua(lua),
        Setting::Integer(value) => value.into_lua(lua),
        Setting::Number(value) => value.into_lua(lua),
        Setting::Text(value) => value.as_ref().into_lua(lua),
        Setting::List(values) => {
            let list = lua.create_table_with_capacity(values.len(), 0)?;
            for value in values {
                list.raw_push(self::setting(lua, value)?)?;
            }
            list.into_lua(lua)
        }
        Setting::Table(values) => {
            let table = lua.create_table_with_capacity(0, values.len())?;
            for (name, value) in values {
                table.raw_set(name.as_ref(), self::setting(lua, value)?)?;
            }
            table.into_lua(lua)
        }
    }
}

fn add_clock(lua: &Lua, host: &Table, context: &Arc<Context>) -> Result<()> {
    let shared = Arc::clone(context);
    host.set(
        "clock",
        lua.create_function(move |_, ()| Ok(shared.clock()))?,
    )?;
    let system: Table = lua.globals().get("os")?;
    let (date, time): (Function, Function) = (system.get("date")?, system.get("time")?);
    let shared = Arc::clone(context);
    host.set(
        "date",
        lua.create_function(move |_, (format, at): (Option<String>, Option<i64>)| {
            let format = format.unwrap_or_else(|| "%c".to_owned());
            shared.charge(format.len() as u64)?;
            let format = match shared.is_utc && !format.starts_with('!') {
                true => format!("!{format}"),
                false => format,
            };
            let at = at.unwrap_or_else(|| shared.time());
            date.call::<Value>((format, at))
        })?,
    )?;
    let shared = Arc::clone(context);
    host.set(
        "time",
        lua.create_function(move |_, parts: Option<Table>| match parts {
            None => Ok(shared.time()),
            Some(parts) if shared.is_utc => seconds_of(&parts),
            Some(parts) => time.call::<i64>(parts),
        })?,
    )
}

/// Seconds from the beginning of 1970 to a time of day in UTC.
pub(super) fn seconds_of(parts: &Table) -> Result<i64> {
    let part = |name: &str, default: Option<i64>| -> Result<i64> {
        let value: Option<i64> = parts.get(name)?;
        let value = value.or(default);
        let value = value.filter(|value| value.unsigned_abs() < 1 << 31);
        value.ok_or_else(|| Error::runtime(format!("field '{name}' is missing in a date")))
    };
    let (year, month) = (part("year", None)?, part("month", None)? - 1);
    let year = year + month.div_euclid(12);
    let month = month.rem_euclid(12) + 1;
    // Years that begin in March, in eras of 400.
    let year = year - i64::from(month <= 2);
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + part("day", None)? - 1;
    let days = era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100
        + day_of_year
        - 719_468;
    let hours = days * 24 + part("hour", Some(12))?;
    Ok((hours * 60 + part("min", Some(0))?) * 60 + part("sec", Some(0))?)
}

fn add_dictionary(lua: &Lua, host: &Table, context: &Arc<Context>) -> Result<()> {
    let shared = Arc::clone(context);
    host.set(
        "get",
        lua.create_function(move |lua, key: LuaString| {
            let now = shared.now();
            match shared.shared.get(now, &shared.plugin, &key.as_bytes()) {
                None => Ok(Value::Nil),
                Some(SharedValue::Boolean(value)) => value.into_lua(lua),
                Some(SharedValue::Integer(value)) => value.into_lua(lua),
                Some(SharedValue::Number(value)) => value.into_lua(lua),
                Some(SharedValue::Octets(octets)) => lua.create_string(octets)?.into_lua(lua),
            }
        })?,
    )?;
    let shared = Arc::clone(context);
    host.set(
        "set",
        lua.create_function(
            move |_, (key, value, seconds): (LuaString, Value, Option<f64>)| {
                let value = match value {
                    Value::Boolean(value) => SharedValue::Boolean(value),
                    Value::Integer(value) => SharedValue::Integer(value),
                    Value::Number(value) => SharedValue::Number(value),
                    Value::String(text) => {
                        let octets = text.as_bytes();
                        shared.charge(octets.len() as u64 / OCTETS_PER_INSTRUCTION)?;
                        SharedValue::Octets((*octets).into())
                    }
                    other => {
                        let name = other.type_name();
                        return Err(Error::runtime(format!("a {name} cannot be shared")));
                    }
                };
                let (now, key) = (shared.now(), checked_key(&key)?);
                let lifetime = lifetime(seconds)?;
                Ok(shared
                    .shared
                    .set(now, &shared.plugin, &key.as_bytes(), value, lifetime))
            },
        )?,
    )?;
    let shared = Arc::clone(context);
    host.set(
        "add",
        lua.create_function(
            move |_, (key, number, seconds): (LuaString, i64, Option<f64>)| {
                let (now, key) = (shared.now(), checked_key(&key)?);
                let lifetime = lifetime(seconds)?;
                Ok(shared
                    .shared
                    .add(now, &shared.plugin, &key.as_bytes(), number, lifetime))
            },
        )?,
    )?;
    let shared = Arc::clone(context);
    host.set(
        "delete",
        lua.create_function(move |_, key: LuaString| {
            shared.shared.delete(&shared.plugin, &key.as_bytes());
            Ok(())
        })?,
    )
}

fn checked_key(key: &LuaString) -> Result<&LuaString> {
    match key.as_bytes().len() > LONGEST_NAME {
        true => Err(Error::runtime(format!(
            "the key is longer than {LONGEST_NAME} octets"
        ))),
        false => Ok(key),
    }
}

fn lifetime(seconds: Option<f64>) -> Result<Option<Duration>> {
    let lifetime = seconds.map(Duration::try_from_secs_f64).transpose();
    lifetime.map_err(|_| Error::runtime("the lifetime is no time in seconds"))
}

fn log(context: &Context, level: &str, text: &LuaString) -> Result<()> {
    let level = match level {
        "debug" => LogLevel::Debug,
        "info" => LogLevel::Info,
        "warn" => LogLevel::Warn,
        "error" => LogLevel::Error,
        _ => {
            return Err(Error::runtime(
                "the level is \"debug\", \"info\", \"warn\" or \"error\"",
            ));
        }
    };
    let text = text.as_bytes();
    let text = String::from_utf8_lossy(text.get(..LONGEST_LINE).unwrap_or(&text)).into();
    let plugin = Arc::clone(&context.plugin);
    context.report(Event::PluginLog {
        plugin,
        level,
        text,
    });
    Ok(())
}

fn count(context: &Context, name: &str, number: u64) -> Result<()> {
    if name.is_empty() || name.len() > LONGEST_NAME {
        return Err(Error::runtime("the name is empty, or too long"));
    }
    match context.counters.count(name, number) {
        true => Ok(()),
        false => Err(Error::runtime("too many names are counted under")),
    }
}

fn every(context: &Context, seconds: f64, function: Function) -> Result<()> {
    let interval = Duration::try_from_secs_f64(seconds);
    let interval = interval
        .ok()
        .filter(|interval| *interval >= SHORTEST_INTERVAL);
    let Some(interval) = interval else {
        return Err(Error::runtime("the interval is 0.1 seconds or more"));
    };
    match context.add_timer(interval, function) > MAXIMUM_TIMERS {
        true => Err(Error::runtime(format!(
            "a script may have {MAXIMUM_TIMERS} timers"
        ))),
        false => Ok(()),
    }
}

/// What the prelude makes the table of a URI of: scheme (a number for the usual ones, since each text costs), the URI where it is
/// not the text, user, host, port, parameters, display name, tag.
type Parts = (
    Option<Either<u8, String>>,
    Option<String>,
    Option<String>,
    Option<String>,
    Option<u16>,
    Option<Table>,
    Option<String>,
    Option<String>,
);

/// The parts of a URI, or of a header field that holds one; no scheme where it is none.
fn parts(lua: &Lua, text: &str) -> Result<Parts> {
    // Without brackets parameters belong to the field (RFC 3261 section 20.10), if it is one: only a field has a tag.
    let address = NameAddr::parse(text.as_bytes()).ok();
    let address = address.filter(|it| text.contains('<') || it.tag().is_some());
    let inner = address.as_ref().map_or(text.trim(), NameAddr::uri);
    let Ok(uri) = Uri::parse(inner) else {
        return Ok(Parts::default());
    };
    let (user, host, port, parameters) = match &uri {
        Uri::Sip(uri) => (
            uri.user().map(str::to_owned),
            Some(uri.host().to_string()),
            uri.port(),
            Some(uri.parameters()),
        ),
        Uri::Tel(uri) => (
            Some(uri.number().to_owned()),
            None,
            None,
            Some(uri.parameters()),
        ),
        Uri::Other(_) => (None, None, None, None),
    };
    let mut named = None;
    for parameter in parameters.into_iter().flatten() {
        let named = match &mut named {
            Some(table) => table,
            none => none.insert(lua.create_table()?),
        };
        let value = parameter.value.unwrap_or_default();
        named.set(parameter.name.to_ascii_lowercase(), value)?;
    }
    Ok((
        Some(match uri.scheme() {
            Scheme::Sip => Either::Left(1),
            Scheme::Sips => Either::Left(2),
            Scheme::Tel => Either::Left(3),
            Scheme::Other(name) => Either::Right(name.to_owned()),
        }),
        (inner.len() < text.len()).then(|| inner.to_owned()),
        user,
        host,
        port,
        named,
        address
            .as_ref()
            .and_then(|it| it.display_name().map(Cow::into_owned)),
        address.as_ref().and_then(|it| it.tag().map(str::to_owned)),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_day_are_counted_in_utc() {
        let lua = Lua::new();
        for (text, expected) in [
            ("{year=1970, month=1, day=1, hour=0}", 0),
            (
                "{year=2000, month=2, day=29, hour=12, min=30, sec=5}",
                951_827_405,
            ),
            ("{year=2026, month=11, day=29}", 1_795_953_600),
            // Months and days carry over.
            ("{year=2025, month=14, day=31, hour=0}", 1_772_496_000),
            ("{year=1969, month=12, day=31, hour=23, min=59, sec=59}", -1),
        ] {
            let parts: Table = lua.load(text).eval().expect("a table");
            assert_eq!(seconds_of(&parts).expect("a time"), expected, "{text}");
        }
        let none: Table = lua.load("{year=2000}").eval().expect("a table");
        assert!(seconds_of(&none).is_err());
    }
}
