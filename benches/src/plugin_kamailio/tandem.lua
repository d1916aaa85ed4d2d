-- The same as kamailio.lua, as a plugin of ours.
local carriers = {}
for digit = 0, 9 do carriers[tostring(digit)] = { name = "carrier-" .. digit, host = "127.0.0.1:" .. settings.port } end

function on_request(request)
  if request.method ~= "INVITE" or request.in_dialog then return end
  local caller = request:header("From")
  local user = request.uri:match("^sip:([^@]+)@")
  local carrier = carriers[user:sub(-1)]
  if not caller or not carrier then return end
  request:set_header(settings.field, carrier.name)
  request.uri = "sip:" .. user .. "@" .. carrier.host
end
