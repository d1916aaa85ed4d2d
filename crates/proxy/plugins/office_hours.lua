-- Time-of-day forwarding: outside of office hours calls to some users go elsewhere.
--
-- settings.users: whom this is for, and where to, such as { office = "sip:voicemail@192.0.2.80" }
-- settings.opens, settings.closes: hours (default 9 and 17)
-- settings.days: the days on which the office is open, Sunday being 1 (default Monday to Friday)

local opens, closes = settings.opens or 9, settings.closes or 17
local days = {}
for _, day in ipairs(settings.days or { 2, 3, 4, 5, 6 }) do days[day] = true end

local function is_open()
  local now = os.date("*t")
  return days[now.wday] and now.hour >= opens and now.hour < closes
end

function on_route(request)
  if request.method ~= "INVITE" or request.in_dialog then return end
  local uri = tandem.uri(request.uri)
  local elsewhere = uri and uri.user and settings.users[uri.user]
  if elsewhere and not is_open() then
    request:tag("office", "closed")
    request:forward(elsewhere)
  end
end
