-- Fraud brake: a user who calls abroad more often than the limit is blocked for a while, and somebody is told.
--
-- settings.limit: calls abroad in a window (default 5)
-- settings.window: seconds (default 60)
-- settings.block: for how many seconds the user is blocked (default 3600)
-- settings.abroad: what numbers abroad begin with (default "00" and "+")
-- settings.home: what of these is not abroad, such as { "0049", "+49" }
-- settings.alert: a URL that is posted {"user": ..., "calls": ...} (default: none)

local LIMIT, WINDOW, BLOCK = settings.limit or 5, settings.window or 60, settings.block or 3600

local function begins_with(text, prefixes)
  for _, prefix in ipairs(prefixes) do
    if text:sub(1, #prefix) == prefix then return true end
  end
  return false
end

function on_route(request)
  if request.method ~= "INVITE" or request.in_dialog then return end
  local called, from = tandem.uri(request.uri), tandem.uri(request:header("From"))
  local number, user = called and called.user, request.user or (from and from.user)
  if not number or not user then return end
  if not begins_with(number, settings.abroad or { "00", "+" }) or begins_with(number, settings.home or {}) then return end
  if tandem.shared.get("blocked " .. user) then
    tandem.count("refused")
    return request:reply(403, "Blocked For Suspected Fraud")
  end
  local calls = tandem.shared.add("calls " .. user, 1, WINDOW)
  if calls and calls > LIMIT then
    tandem.shared.set("blocked " .. user, true, BLOCK)
    tandem.count("blocked")
    tandem.log("warn", user .. " is blocked: " .. calls .. " calls abroad in " .. WINDOW .. " seconds")
    request:reply(403, "Blocked For Suspected Fraud")
    if settings.alert then tandem.post(settings.alert, { user = user, calls = calls }) end
  end
end
