-- Call limit: so many calls at a time for each user. A call counts from its INVITE until it fails or ends.
--
-- settings.limit: calls at a time (default 2)
-- settings.longest: after how many seconds a call without an end does not count any more (default 4 hours)

local LIMIT, LONGEST = settings.limit or 2, settings.longest or 4 * 3600

local function release(call_id)
  local user = tandem.shared.get("call " .. call_id)
  if not user then return end
  tandem.shared.delete("call " .. call_id)
  if tandem.shared.add("user " .. user, -1, LONGEST) <= 0 then tandem.shared.delete("user " .. user) end
end

function on_route(request)
  if request.method ~= "INVITE" or request.in_dialog then return end
  local from = tandem.uri(request:header("From"))
  local user = request.user or (from and from.user)
  -- A call that goes on elsewhere counts once.
  if not user or tandem.shared.get("call " .. request.call_id) then return end
  if tandem.shared.add("user " .. user, 1, LONGEST) > LIMIT then
    tandem.shared.add("user " .. user, -1, LONGEST)
    tandem.count("refused")
    return request:reply(486, "Too Many Calls")
  end
  tandem.shared.set("call " .. request.call_id, user, LONGEST)
end

function on_reply(response)
  -- 401 and 407 bring the call again, with credentials.
  if response.method == "INVITE" and response.status >= 300 then release(response.call_id) end
end

function on_dialog_end(dialog) release(dialog.call_id) end
