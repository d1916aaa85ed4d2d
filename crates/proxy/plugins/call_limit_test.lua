local function ready()
  local server = simulate { settings = { limit = 2 } }
  server:register("sip:bob@example.com", "sip:bob@192.0.2.20")
  return server
end

local function call(server, id) return server:send("INVITE sip:bob@example.com\nCall-ID: " .. id)[1] end

function test_a_user_has_so_many_calls_and_no_more()
  local server = ready()
  assert(call(server, "1").method == "INVITE")
  assert(call(server, "2").method == "INVITE")
  assert(call(server, "3").status == 486)
  assert(server:counts().refused == 1)
end

function test_a_call_that_fails_makes_room()
  local server = ready()
  local first = call(server, "1")
  call(server, "2")
  server:respond(first, 486)
  assert(call(server, "3").method == "INVITE")
end

function test_a_call_that_ends_makes_room()
  local server = ready()
  local first = call(server, "1")
  call(server, "2")
  server:respond(first, 200)
  local bye = server:send([[BYE sip:bob@example.com
    Call-ID: 1
    To: <sip:bob@example.com>;tag=answer]])[1]
  server:respond(bye, 200)
  assert(call(server, "3").method == "INVITE")
end

function test_a_call_without_an_end_is_forgotten()
  local server = ready()
  call(server, "1")
  call(server, "2")
  server:pass(4 * 3600)
  server:register("sip:bob@example.com", "sip:bob@192.0.2.20")
  assert(call(server, "3").method == "INVITE")
end
