-- The same as tandem.lua, for Kamailio's app_lua: the configuration calls it for INVITEs outside dialogs.
local carriers = {}
for digit = 0, 9 do carriers[tostring(digit)] = { name = "carrier-" .. digit, host = "127.0.0.1:PORT" } end

function choose(field)
  local caller = KSR.pv.get("$hdr(From)")
  local user = KSR.pv.get("$rU")
  local carrier = carriers[user:sub(-1)]
  if not caller or not carrier then return end
  KSR.hdr.append(field .. ": " .. carrier.name .. "\r\n")
  KSR.pv.sets("$ru", "sip:" .. user .. "@" .. carrier.host)
end
