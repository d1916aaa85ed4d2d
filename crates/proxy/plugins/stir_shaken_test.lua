local function server(settings, verstat)
  settings.url = "https://verify.example/"
  local server = simulate { settings = settings }
  server:register("sip:bob@example.com", "sip:bob@192.0.2.20")
  server:http(function(method, url, body)
    assert(method == "POST" and body:find('"identity":"token"', 1, true), body)
    return 200, '{"verstat": "' .. verstat .. '"}'
  end)
  return server
end

local CALL = "INVITE sip:bob@example.com\nX-Verification-Result: made up\n"

function test_the_result_goes_along()
  local sent = server({}, "TN-Validation-Passed"):send(CALL .. "Identity: token")[1]
  assert(sent:header("X-Verification-Result") == "TN-Validation-Passed")
end

function test_a_failed_verification_is_refused_where_that_is_wanted()
  assert(server({ reject_failed = true }, "TN-Validation-Failed"):send(CALL .. "Identity: token")[1].status == 438)
  local sent = server({}, "TN-Validation-Failed"):send(CALL .. "Identity: token")[1]
  assert(sent:header("X-Verification-Result") == "TN-Validation-Failed")
end

function test_without_an_identity_nothing_was_verified()
  local sent = server({}, "TN-Validation-Passed"):send(CALL)[1]
  assert(sent:header("X-Verification-Result") == "No-TN-Validation")
end

function test_what_the_service_makes_up_is_not_passed_on()
  local sent = server({}, "anything"):send(CALL .. "Identity: token")[1]
  assert(sent:header("X-Verification-Result") == "No-TN-Validation")
end
