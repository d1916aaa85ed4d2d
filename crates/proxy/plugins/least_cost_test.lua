local function server()
  return simulate {
    settings = { carriers = { one = "sip:192.0.2.70", two = "sip:192.0.2.71" } },
    files = { rates = "# prefix;carrier;price\n49;one;0.02\n49;two;0.01\n4930;one;0.005\n" },
  }
end

local function called(number) return server():send("INVITE sip:" .. number .. "@example.com") end

function test_the_longest_prefix_decides()
  assert(called("+4930123456")[1].to == "udp:192.0.2.70:5060")
end

function test_the_cheapest_carrier_comes_first()
  assert(called("004989123456")[1].to == "udp:192.0.2.71:5060")
end

function test_the_next_carrier_is_tried_when_one_fails()
  local server = server()
  local sent = server:send("INVITE sip:+4989123456@example.com")
  local next_one
  for _, message in ipairs(server:respond(sent[1], 503)) do
    if message.method == "INVITE" then next_one = message end
  end
  assert(next_one.to == "udp:192.0.2.70:5060", next_one.to)
  assert(next_one.uri == "sip:+4989123456@example.com")
end

function test_there_is_no_route_to_other_countries()
  assert(called("+4412345")[1].status == 404)
end

function test_users_are_left_alone()
  local server = server()
  server:register("sip:bob@example.com", "sip:bob@192.0.2.20")
  assert(server:send("INVITE sip:bob@example.com")[1].to == "udp:192.0.2.20:5060")
  assert(server:tags().carrier == nil)
end

function test_the_carrier_is_in_the_record()
  local server = server()
  server:send("INVITE sip:+4989123456@example.com")
  assert(server:tags().carrier == "two")
  assert(server:counts().routed_two == 1)
end
