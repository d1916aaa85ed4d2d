local function ready(settings)
  settings.home = { "+49" }
  local server = simulate { settings = settings }
  server:name("example.net", "udp:192.0.2.70:5060")
  return server
end

local function call(server, number)
  return server:send("INVITE sip:" .. number .. "@example.net")[1].status
end

function test_who_calls_abroad_too_often_is_blocked_for_a_while()
  local server = ready { limit = 3 }
  for _ = 1, 3 do assert(call(server, "+4412345") == nil) end
  assert(call(server, "+4412345") == 403)
  assert(call(server, "004412345") == 403)
  -- Calls at home go on.
  assert(call(server, "+4930123") == nil)
  assert(#server:log() == 1 and server:counts().blocked == 1 and server:counts().refused == 1)
  server:pass(3600)
  assert(call(server, "+4412345") == nil)
end

function test_who_calls_now_and_then_is_not()
  local server = ready { limit = 1 }
  for _ = 1, 5 do
    assert(call(server, "+4412345") == nil)
    server:pass(60)
  end
end

function test_somebody_is_told()
  local server, told = ready { limit = 0, alert = "https://alerts.example/" }, nil
  server:http(function(_, url, body) told = url .. " " .. body return 204 end)
  assert(call(server, "+4412345") == 403)
  assert(told == 'https://alerts.example/ {"calls":1,"user":"alice"}', told)
end
