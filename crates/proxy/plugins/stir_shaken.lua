-- STIR/SHAKEN: a verification service looks at the Identity header field (RFC 8224), and its result goes along with the
-- call: as verstat in P-Asserted-Identity (ATIS-1000074), and in a header field of its own.
--
-- settings.url: is posted {"identity": ..., "from": ..., "to": ..., "date": ...}; answers {"verstat": "TN-Validation-Passed"}
-- settings.header: the header field for the result (default X-Verification-Result)
-- settings.reject_failed: whether calls whose verification fails are refused (438, RFC 8224 section 6.2.2)

local HEADER = settings.header or "X-Verification-Result"
local RESULTS = { ["TN-Validation-Passed"] = true, ["TN-Validation-Failed"] = true, ["No-TN-Validation"] = true }

local function verify(request, identity)
  if not identity then return "No-TN-Validation" end
  local response = tandem.post(settings.url, {
    identity = identity,
    from = request:header("From"),
    to = request:header("To"),
    date = request:header("Date"),
  })
  local result = response and response.status == 200 and type(response.json) == "table" and response.json.verstat
  return RESULTS[result] and result or "No-TN-Validation"
end

function on_request(request)
  if request.method ~= "INVITE" or request.in_dialog then return end
  -- Nobody else says this here.
  request:remove_header(HEADER)
  local result = verify(request, request:header("Identity"))
  tandem.count(result)
  request:tag("verstat", result)
  if result == "TN-Validation-Failed" and settings.reject_failed then
    return request:reply(438, "Invalid Identity Header")
  end
  request:set_header(HEADER, result)
  local asserted = tandem.uri(request:header("P-Asserted-Identity") or "")
  if asserted and asserted.user and asserted.host then
    local uri = ("<%s:%s;verstat=%s@%s>"):format(asserted.scheme, asserted.user, result, asserted.host)
    request:set_header("P-Asserted-Identity", uri)
  end
end
