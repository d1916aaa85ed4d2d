//! JSON for scripts.

use std::sync::Arc;

use mlua::{Error, IntoLua, Lua, LuaString, Result, Table, Value};
use serde_json::{Map, Number, Value as Json};

use super::context::Context;

/// How long a text may be.
const LONGEST: usize = 1 << 20;

/// How deep tables may be nested.
const DEEPEST: u32 = 64;

/// How many values a text that is written may have.
const MOST: u32 = 100_000;

/// Puts the functions, and what stands for null, into a table.
pub(super) fn add(lua: &Lua, host: &Table, context: &Arc<Context>) -> Result<()> {
    host.set("null", Value::NULL)?;
    let shared = Arc::clone(context);
    host.set(
        "encode",
        lua.create_function(move |lua, value: Value| {
            let mut left = MOST;
            let json = from_lua(&value, DEEPEST, &mut left)?;
            shared.charge(u64::from(MOST - left))?;
            let text = serde_json::to_vec(&json).map_err(Error::external)?;
            lua.create_string(text)
        })?,
    )?;
    let shared = Arc::clone(context);
    host.set(
        "decode",
        lua.create_function(move |lua, text: LuaString| {
            shared.charge(text.as_bytes().len() as u64 / 16)?;
            match decode(lua, &text.as_bytes())? {
                Ok(value) => Ok((value, None)),
                Err(error) => Ok((Value::Nil, Some(error))),
            }
        })?,
    )
}

/// Reads a text, and tells where it is wrong.
pub(super) fn decode(lua: &Lua, text: &[u8]) -> Result<std::result::Result<Value, String>> {
    if text.len() > LONGEST {
        return Ok(Err(format!("longer than {LONGEST} octets")));
    }
    match serde_json::from_slice::<Json>(text) {
        Ok(json) => Ok(Ok(to_lua(lua, &json)?)),
        Err(error) => Ok(Err(error.to_string())),
    }
}

fn to_lua(lua: &Lua, json: &Json) -> Result<Value> {
    match json {
        Json::Null => Ok(Value::NULL),
        Json::Bool(value) => value.into_lua(lua),
        Json::Number(number) => match number.as_i64() {
            Some(number) => number.into_lua(lua),
            None => number.as_f64().into_lua(lua),
        },
        Json::String(text) => text.as_str().into_lua(lua),
        Json::Array(values) => {
            let list = lua.create_table_with_capacity(values.len(), 0)?;
            for value in values {
                list.raw_push(to_lua(lua, value)?)?;
            }
            list.into_lua(lua)
        }
        Json::Object(values) => {
            let table = lua.create_table_with_capacity(0, values.len())?;
            for (name, value) in values {
                table.raw_set(name.as_str(), to_lua(lua, value)?)?;
            }
            table.into_lua(lua)
        }
    }
}

fn from_lua(value: &Value, depth: u32, left: &mut u32) -> Result<Json> {
    *left = left
        .checked_sub(1)
        .ok_or_else(|| Error::runtime("too many values for JSON"))?;
    let depth = depth
        .checked_sub(1)
        .ok_or_else(|| Error::runtime("tables are nested too deep for JSON"))?;
    match value {
        Value::Nil => Ok(Json::Null),
        other if other.is_null() => Ok(Json::Null),
        Value::Boolean(value) => Ok(Json::Bool(*value)),
        Value::Integer(number) => Ok(Json::from(*number)),
        Value::Number(number) => Number::from_f64(*number)
            .map(Json::Number)
            .ok_or_else(|| Error::runtime("JSON has no such number")),
        Value::String(text) => Ok(Json::String(text.to_string_lossy())),
        Value::Table(table) if table.raw_len() > 0 => {
            let values = (1..=table.raw_len()).map(|at| from_lua(&table.raw_get(at)?, depth, left));
            values.collect::<Result<_>>().map(Json::Array)
        }
        Value::Table(table) => {
            let mut map = Map::new();
            for pair in table.pairs::<String, Value>() {
                let (name, value) = pair?;
                map.insert(name, from_lua(&value, depth, left)?);
            }
            Ok(Json::Object(map))
        }
        other => {
            let name = other.type_name();
            Err(Error::runtime(format!("JSON has no {name}")))
        }
    }
}
