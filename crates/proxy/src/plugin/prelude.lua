-- Runs in each state before the script: takes away what reaches beyond it, and makes what is left obey the limits.
local host, grants = ...

local create, resume, status, yield = coroutine.create, coroutine.resume, coroutine.status, coroutine.yield
local is_yieldable = coroutine.isyieldable
local error, next, pcall, rawget, select, tostring, type, xpcall =
  error, next, pcall, rawget, select, tostring, type, xpcall
local set_metatable, load_chunk = setmetatable, load
local concat, unpack = table.concat, table.unpack
local is_over, charge, OVER, ASK = host.is_over, host.charge, host.OVER, host.ASK

-- The error of a limit cannot be caught.
local function passed_on(is_ok, first, ...)
  if is_ok then return true, first, ... end
  if is_over() then error(OVER, 0) end
  -- What has failed may have taken long, such as a text that finds no room.
  charge(100)
  return false, type(first) == "userdata" and host.text(first) or first
end

function _G.pcall(f, ...) return passed_on(pcall(f, ...)) end

-- A handler runs where the error was raised: no limit counts there when it is the error of one.
function _G.xpcall(f, handler, ...)
  local function handle(reason)
    if is_over() then return OVER end
    return handler(type(reason) == "userdata" and host.text(reason) or reason)
  end
  return passed_on(xpcall(f, handle, ...))
end

-- A question in a coroutine of the script's own suspends the whole hook.
local function resumed(co, is_ok, first, ...)
  if is_ok and first == ASK and status(co) == "suspended" then
    return resumed(co, resume(co, yield(first, ...)))
  end
  return passed_on(is_ok, first, ...)
end

function coroutine.resume(co, ...) return resumed(co, resume(co, ...)) end

function coroutine.wrap(f)
  local co = create(f)
  local function results(is_ok, ...)
    if not is_ok then error((...), 0) end
    return ...
  end
  return function(...) return results(resumed(co, resume(co, ...))) end
end

-- Functions for __gc, and those for __close on the way of an error, run where no limit counts; after one for __len, loops in
-- C are as long as it says. So that a script cannot add
-- them to a metatable later, what Lua looks into is a copy.
local EVENTS = {
  "__add", "__band", "__bnot", "__bor", "__bxor", "__call", "__concat", "__div", "__eq", "__idiv", "__index", "__le",
  "__lt", "__metatable", "__mod", "__mode", "__mul", "__name", "__newindex", "__pairs", "__pow", "__shl", "__shr", "__sub",
  "__tostring", "__unm",
}
local REFUSED = { "__close", "__gc", "__len" }
local get_metatable = getmetatable
-- The copy of a script's metatable, and the metatable of a copy.
local copies, originals = set_metatable({}, { __mode = "k" }), set_metatable({}, { __mode = "k" })

function _G.setmetatable(object, metatable)
  if type(metatable) ~= "table" then return set_metatable(object, metatable) end
  for at = 1, #REFUSED do
    if rawget(metatable, REFUSED[at]) ~= nil then error(REFUSED[at] .. " is not allowed", 2) end
  end
  local copy = copies[metatable]
  if not copy then
    copy = {}
    copies[metatable], originals[copy] = copy, metatable
  end
  for at = 1, #EVENTS do
    local event = EVENTS[at]
    copy[event] = rawget(metatable, event)
  end
  return set_metatable(object, copy)
end

function _G.getmetatable(object)
  -- That of all texts, and those of files, are nobody's to change.
  if type(object) == "string" then return { __index = string } end
  if type(object) == "userdata" then return false end
  local metatable = get_metatable(object)
  return originals[metatable] or metatable
end

-- What hooks are called with, and JSON's null, which is of the same type of Lua.
local metatable, null = host.metatable, host.null
local methods, getters, setters = host.methods, host.getters, host.setters

function metatable.__index(object, name)
  if object == null then error("attempt to get '" .. tostring(name) .. "' of JSON's null (tandem.json.null)", 2) end
  local method = methods[name]
  if method then return method end
  local getter = getters[name]
  if getter then return getter(object) end
end

function metatable.__newindex(object, name, value)
  if object == null then error("attempt to set '" .. tostring(name) .. "' of JSON's null (tandem.json.null)", 2) end
  local setter = setters[name]
  if not setter then error("attempt to set an unknown field '" .. tostring(name) .. "'", 2) end
  setter(object, value)
end

function metatable.__tostring(object) return object == null and "null" or "request" end

-- Lua would call them userdata values.
local function refuse(what, events)
  for at = 1, #events do
    metatable[events[at]] = function(one, other)
      local which = (one == null or other == null) and "JSON's null" or "a request"
      error("attempt to " .. what .. " " .. which, 2)
    end
  end
end

refuse("call", { "__call" })
refuse("compare", { "__lt", "__le" })
refuse("concatenate", { "__concat" })
refuse("get the length of", { "__len" })
refuse("calculate with", {
  "__add", "__band", "__bnot", "__bor", "__bxor", "__div", "__idiv", "__mod", "__mul", "__pow", "__shl", "__shr", "__sub", "__unm",
})

local function loaded(f, ...)
  if f == nil and is_over() then error(OVER, 0) end
  return f, ...
end

-- To read a program takes as long as it is.
local function metered(chunk)
  if type(chunk) ~= "function" then
    if type(chunk) == "string" then charge(#chunk) end
    return chunk
  end
  return function()
    local piece = chunk()
    if type(piece) == "string" then charge(#piece) end
    return piece
  end
end

function _G.load(chunk, name, _, ...)
  if select("#", ...) > 0 then return loaded(load_chunk(metered(chunk), name, "t", (...))) end
  return loaded(load_chunk(metered(chunk), name, "t"))
end

if not grants.io then _G.dofile, _G.loadfile, _G.io = nil, nil, nil end

function _G.collectgarbage(what)
  if what ~= "count" then error('only "count" is allowed', 2) end
  return host.memory() / 1024
end

function _G.print(...)
  local words = { ... }
  for at = 1, select("#", ...) do words[at] = tostring(words[at]) end
  host.log("info", concat(words, "\t"))
end

-- Functions in C count as one instruction each, however much they do: what they do with much is charged for.
local LONGEST = 10000000

local function charged(length)
  if length > 500 then
    if length > LONGEST then error("the list is too long", 3) end
    charge(length // 1 | 0)
  end
end

for _, name in next, { "insert", "remove" } do
  local original = table[name]
  table[name] = function(list, ...)
    charged(#list)
    return original(list, ...)
  end
end

-- Each value between two places may be one that __index makes up, however long the list is. A float does not overflow.
function table.concat(list, separator, first, last)
  charged((last or #list) + 0.0 - (first or 1))
  return concat(list, separator, first, last)
end

function table.unpack(list, first, last)
  charged((last or #list) + 0.0 - (first or 1))
  return unpack(list, first, last)
end

local sort = table.sort
function table.sort(list, ...)
  charged(#list)
  -- A list of n is sorted by n log n comparisons, each worth an instruction and more.
  local length, steps = #list, 9
  while length > 500 do length, steps = length // 2, steps + 1 end
  if steps > 9 then charge(4 * #list * steps) end
  return sort(list, ...)
end

local move = table.move
function table.move(from, first, last, ...)
  charged(last + 0.0 - first)
  return move(from, first, last, ...)
end

-- Texts of so many octets are worth the charge.
local LONG, OCTETS = 4096, 16

local function charged_text(text)
  if type(text) == "string" and #text > LONG then charge(#text // OCTETS) end
end

for library, names in next, {
  [string] = { "byte", "lower", "reverse", "sub", "unpack", "upper" },
  [utf8] = { "codepoint", "len", "offset" },
  [_G] = { "tonumber" },
} do
  for _, name in next, names do
    local original = library[name]
    library[name] = function(text, ...)
      charged_text(text)
      return original(text, ...)
    end
  end
end

-- These put texts together.
for library, names in next, { [string] = { "format", "pack" }, [table] = { "concat" } } do
  for _, name in next, names do
    local original = library[name]
    library[name] = function(...)
      local text = original(...)
      charged_text(text)
      return text
    end
  end
end

string.dump = nil
string.rep, string.find, string.match, string.gmatch, string.gsub =
  host.rep, host.find, host.match, host.gmatch, host.gsub

-- Time is the server's.
local system = os or {}
local format_date, make_time = host.date, host.time
local safe = grants.os and system or {}
safe.date, safe.time, safe.clock = format_date, make_time, host.clock
function safe.difftime(one, other) return one - other end
_G.os = safe
if package then package.loaded.os = safe end

-- Questions: the hook waits for the answer, and all else goes on.
local function answered(first, ...)
  if first == ASK then error((...), 2) end
  return first, ...
end

local function ask(...)
  if not is_yieldable() then error("nothing can be asked while the script is loaded", 2) end
  return answered(yield(ASK, ...))
end

-- A table costs less made here than filled from outside.
local take_apart, SCHEMES = host.uri, { "sip", "sips", "tel" }

local function uri(text)
  local scheme, inner, user, hostname, port, parameters, name, tag = take_apart(text)
  if not scheme then return nil end
  return {
    uri = inner or text,
    scheme = SCHEMES[scheme] or scheme,
    user = user,
    host = hostname,
    port = port,
    parameters = parameters or {},
    name = name,
    tag = tag,
  }
end

_G.tandem = {
  log = host.log,
  count = host.count,
  uri = uri,
  every = host.every,
  now = host.clock,
  json = { encode = host.encode, decode = host.decode, null = host.null },
  shared = { get = host.get, set = host.set, add = host.add, delete = host.delete },
}

function tandem.location(address) return ask("location", address) end

function tandem.resolve(uri) return ask("resolve", uri) end

function tandem.has_user(realm, name) return ask("user", realm, name) end

function tandem.http(request)
  if type(request) ~= "table" then error("a table is expected", 2) end
  local body, headers = request.body, {}
  for name, value in next, request.headers or {} do headers[#headers + 1] = name .. ": " .. value end
  if type(request.json) == "table" then
    body = host.encode(request.json)
    headers[#headers + 1] = "Content-Type: application/json"
  end
  return ask("http", request.method or (body and "POST" or "GET"), request.url, headers, body or "")
end

function tandem.redis(url, ...) return ask("redis", url, ...) end

function tandem.get(url) return tandem.http { url = url } end

function tandem.post(url, content)
  if type(content) == "table" then return tandem.http { method = "POST", url = url, json = content } end
  return tandem.http { method = "POST", url = url, body = content }
end
