---@meta
-- What plugins of `tandem proxy` find, for the Lua language server: add this directory to workspace.library.

---A request, in on_request, on_register and on_route.
---@class tandem.Request
---@field method string
---@field uri string The Request-URI. It may be set in on_request.
---@field call_id string
---@field in_dialog boolean Whether it belongs to a dialog: it has a tag in To.
---@field body string
---@field source string The IP address that it came from.
---@field port integer The port that it came from.
---@field transport "udp"|"tcp"|"tls"|"sctp"|"tls-sctp"|"ws"|"wss"
---@field user string? The name by which the sender has proved who it is: in on_register and on_route.
local Request = {}

---The value of the first field of a name.
---@param name string
---@return string?
function Request:header(name) end

---The values of all fields of a name, one by one; without a name all fields, as { name, value }.
---@param name? string
---@return table
function Request:headers(name) end

---@param name string
---@param value string
function Request:set_header(name, value) end

---@param name string
---@param value string
function Request:add_header(name, value) end

---@param name string
---@return integer removed
function Request:remove_header(name) end

---Answers the request.
---@param status integer 300 to 699; in other requests than INVITE also 2xx
---@param reason? string
---@param headers? table<string, string>
function Request:reply(status, reason, headers) end

---Answers 302 with other places, the most preferred first.
---@param ... string
function Request:redirect(...) end

---Sends the request to these URIs, one after the other until one serves it.
---@param ... string
function Request:forward(...) end

---Sends the request to all these URIs at the same time.
---@param ... string
function Request:fork(...) end

---Sends the request to these next hops, one after the other, and leaves its Request-URI as it is.
---@param ... string
function Request:route(...) end

---Forgets the request, without an answer.
function Request:drop() end

---Notes something in the record of the call.
---@param name string
---@param value string
function Request:tag(name, value) end

---A branch that is about to begin, in on_branch: changes are for this branch alone, and reply() refuses it.
---@class tandem.Branch: tandem.Request
---@field target string The Request-URI of the branch.

---A response on a branch, in on_reply. drop() is for provisional ones.
---@class tandem.Response
---@field status integer
---@field reason string
---@field method string
---@field call_id string
---@field body string
local Response = {}

---@param name string
---@return string?
function Response:header(name) end

---@param name? string
---@return table
function Response:headers(name) end

---@param name string
---@param value string
function Response:set_header(name, value) end

---@param name string
---@param value string
function Response:add_header(name, value) end

---@param name string
---@return integer removed
function Response:remove_header(name) end

function Response:drop() end

---@param name string
---@param value string
function Response:tag(name, value) end

---A branch that has failed, in on_failure: forward() and fork() try other URIs, reply() answers something else.
---@class tandem.Failure: tandem.Request
---@field status integer 408 where no response has come, 503 where the next hop was not reached
---@field reason string?
local Failure = {}

---A field of the response.
---@param name string
---@return string?
function Failure:response_header(name) end

---@class tandem.Dialog
---@field call_id string
---@field from_tag string
---@field to_tag string

---@class tandem.Contact
---@field uri string
---@field q number
---@field expires integer Seconds.

---@class tandem.Hop
---@field transport string
---@field address string
---@field port integer

---@class tandem.Uri
---@field uri string
---@field scheme string
---@field user string?
---@field host string?
---@field port integer?
---@field parameters table<string, string>
---@field name string? The display name.
---@field tag string?

---@class tandem.HttpRequest
---@field url string
---@field method? "GET"|"POST"
---@field headers? table<string, string>
---@field body? string
---@field json? table Written as the body.

---@class tandem.HttpResponse
---@field status integer
---@field body string
---@field json any The body, where it is JSON.

tandem = { json = {}, shared = {} }

---@param level "debug"|"info"|"warn"|"error"
---@param text string
function tandem.log(level, text) end

---Counts something: metric tandem_plugin_count.
---@param name string
---@param number? integer
function tandem.count(name, number) end

---The parts of a URI, or of a header field that holds one.
---@param text string
---@return tandem.Uri?
function tandem.uri(text) end

---Calls a function again and again. Only while the script is loaded.
---@param seconds number
---@param f function
function tandem.every(seconds, f) end

---Seconds since the script was loaded.
---@return number
function tandem.now() end

---The contacts of a user.
---@param address string
---@return tandem.Contact[]?, string? why
function tandem.location(address) end

---The next hops of a URI (RFC 3263).
---@param uri string
---@return tandem.Hop[]?, string? why
function tandem.resolve(uri) end

---@param realm string
---@param name string
---@return boolean?, string? why
function tandem.has_user(realm, name) end

---@param request tandem.HttpRequest
---@return tandem.HttpResponse?, string? why
function tandem.http(request) end

---@param url string
---@return tandem.HttpResponse?, string? why
function tandem.get(url) end

---@param url string
---@param content string|table
---@return tandem.HttpResponse?, string? why
function tandem.post(url, content) end

---A command to a Redis server; false where nothing is there.
---@param url string
---@param command string
---@param ... string|number
---@return string|integer|table|false|nil, string? why
function tandem.redis(url, command, ...) end

---@param value any
---@return string
function tandem.json.encode(value) end

---@param text string
---@return any, string? why
function tandem.json.decode(text) end

---What stands for null.
tandem.json.null = nil

---@param key string
---@return boolean|number|string|nil
function tandem.shared.get(key) end

---@param key string
---@param value boolean|number|string
---@param seconds? number
---@return boolean there_was_room
function tandem.shared.set(key, value, seconds) end

---@param key string
---@param number integer
---@param seconds? number
---@return integer? sum
function tandem.shared.add(key, number, seconds) end

---@param key string
function tandem.shared.delete(key) end

---The settings in the configuration.
---@type table
settings = {}

---The contents of the files in the configuration.
---@type table<string, string>
files = {}

---@type fun(request: tandem.Request)?
on_request = nil
---@type fun(request: tandem.Request)?
on_register = nil
---@type fun(request: tandem.Request)?
on_route = nil
---@type fun(branch: tandem.Branch)?
on_branch = nil
---@type fun(response: tandem.Response)?
on_reply = nil
---@type fun(failure: tandem.Failure)?
on_failure = nil
---@type fun(dialog: tandem.Dialog)?
on_dialog_end = nil
