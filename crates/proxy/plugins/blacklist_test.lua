local function server(settings)
  settings = settings or {}
  settings.url = "https://blacklist.example/check"
  return simulate { settings = settings }
end

local function call(server, number)
  return server:send("INVITE sip:bob@example.com\nFrom: <sip:" .. number .. "@example.com>;tag=1")[1].status
end

function test_a_number_on_the_list_is_declined_and_others_are_not()
  local server = server()
  server:http(function(method, url)
    assert(method == "GET")
    return 200, '{"blocked": ' .. tostring(url == "https://blacklist.example/check?number=%2B491234") .. "}"
  end)
  assert(call(server, "+491234") == 603)
  assert(call(server, "+495678") == 404)
  assert(server:counts().blocked == 1)
end

function test_an_answer_is_kept_for_a_while()
  local server, asked = server(), 0
  server:http(function() asked = asked + 1 return 200, '{"blocked": true}' end)
  for _ = 1, 3 do assert(call(server, "1") == 603) end
  assert(asked == 1)
  server:pass(301)
  assert(call(server, "1") == 603)
  assert(asked == 2)
end

function test_without_an_answer_the_setting_decides()
  assert(call(server(), "1") == 404)
  assert(call(server { without_answer = "block" }, "1") == 603)
  local server = server()
  server:http(function() return 500, "broken" end)
  assert(call(server, "1") == 404)
  assert(server:counts().unanswered == 1)
end
