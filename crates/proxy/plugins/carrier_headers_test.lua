local function called(uri, from)
  local server = simulate {
    trusted = { "192.0.2.70" },
    settings = { hosts = { "192.0.2.70" }, country = "49", domain = "example.com" },
  }
  return server:send("INVITE " .. uri .. "\nFrom: <sip:" .. from .. "@example.com>;tag=1\n"
    .. "User-Agent: phone\nX-Internal: 1\nx-other: 2\nSubject: kept")[1]
end

function test_numbers_become_e164()
  local sent = called("sip:030123@192.0.2.70", "089456")
  assert(sent:header("P-Asserted-Identity") == "<sip:+4989456@example.com;user=phone>")
  assert(sent:header("P-Called-Party-ID") == "<tel:+4930123>")
  assert(called("sip:0044123@192.0.2.70", "+1555"):header("P-Called-Party-ID") == "<tel:+44123>")
end

function test_what_is_ours_stays_here()
  local sent = called("sip:030123@192.0.2.70", "alice")
  assert(sent:header("User-Agent") == nil and sent:header("X-Internal") == nil and sent:header("X-Other") == nil)
  assert(sent:header("Subject") == "kept")
  assert(sent:header("P-Asserted-Identity") == nil)
end

function test_others_get_the_request_as_it_is()
  local sent = called("sip:030123@192.0.2.71", "089456")
  assert(sent:header("User-Agent") == "phone" and sent:header("P-Asserted-Identity") == nil)
end
