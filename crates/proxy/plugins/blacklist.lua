-- Blacklist over HTTP: a service says whether a number may call. Its answers are kept for a while.
--
-- settings.url: asked as URL?number=NUMBER; it answers {"blocked": true} or {"blocked": false}
-- settings.keep: for how many seconds an answer is kept (default 300)
-- settings.without_answer: "allow" (default) or "block"

local function is_blocked(number)
  local known = tandem.shared.get(number)
  if known ~= nil then return known end
  local escaped = number:gsub("[^%w]", function(octet) return ("%%%02X"):format(octet:byte()) end)
  local response, why = tandem.get(settings.url .. "?number=" .. escaped)
  if not response or response.status ~= 200 or type(response.json) ~= "table" then
    tandem.log("warn", "the blacklist does not answer: " .. (why or response.status))
    tandem.count("unanswered")
    return settings.without_answer == "block"
  end
  local blocked = response.json.blocked == true
  tandem.shared.set(number, blocked, settings.keep or 300)
  return blocked
end

function on_request(request)
  if request.method ~= "INVITE" or request.in_dialog then return end
  local from = tandem.uri(request:header("From"))
  local number = from and from.user
  if number and is_blocked(number) then
    tandem.count("blocked")
    request:reply(603)
  end
end
