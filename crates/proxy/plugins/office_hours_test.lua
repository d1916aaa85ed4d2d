local function call(time, user)
  local server = simulate {
    settings = { users = { office = "sip:voicemail@192.0.2.80" } },
    time = os.time { year = 2026, month = 12, day = time.day, hour = time.hour },
  }
  server:register("sip:office@example.com", "sip:office@192.0.2.20")
  server:register("sip:bob@example.com", "sip:bob@192.0.2.21")
  return server:send("INVITE sip:" .. (user or "office") .. "@example.com")[1].uri
end

-- The first of December 2026 is a Tuesday.
function test_open()
  assert(call { day = 1, hour = 9 } == "sip:office@192.0.2.20")
  assert(call { day = 1, hour = 16 } == "sip:office@192.0.2.20")
end

function test_closed()
  assert(call { day = 1, hour = 8 } == "sip:voicemail@192.0.2.80")
  assert(call { day = 1, hour = 17 } == "sip:voicemail@192.0.2.80")
  assert(call { day = 5, hour = 12 } == "sip:voicemail@192.0.2.80")
end

function test_others_are_called_at_any_time()
  assert(call({ day = 5, hour = 3 }, "bob") == "sip:bob@192.0.2.21")
end
