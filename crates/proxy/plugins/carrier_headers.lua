-- Header normalisation for a carrier: what goes to its addresses has numbers as E.164, an asserted identity of ours, and
-- nothing that is only for us. The carrier is to be in the trust domain, or P-Asserted-Identity is withheld from it.
--
-- settings.hosts: hosts of the carrier, as they stand in the Request-URI
-- settings.country: the country code that national numbers get, such as "49"
-- settings.domain: the domain of our asserted identities
-- settings.remove: names of header fields that are taken off (default User-Agent and X-...)

local hosts = {}
for _, host in ipairs(settings.hosts) do hosts[host] = true end

local function e164(number)
  if number:match("^%+%d+$") then return number end
  local rest = number:match("^00(%d+)$")
  if rest then return "+" .. rest end
  rest = number:match("^0(%d+)$")
  if rest then return "+" .. settings.country .. rest end
end

function on_branch(branch)
  local target = tandem.uri(branch.target)
  if not target or not hosts[target.host] then return end
  local from = tandem.uri(branch:header("From"))
  local number = from and from.user and e164(from.user)
  if number then
    branch:set_header("P-Asserted-Identity", "<sip:" .. number .. "@" .. settings.domain .. ";user=phone>")
  end
  local called = target.user and e164(target.user)
  if called and branch:header("P-Called-Party-ID") == nil then
    branch:set_header("P-Called-Party-ID", "<tel:" .. called .. ">")
  end
  for _, name in ipairs(settings.remove or { "User-Agent" }) do branch:remove_header(name) end
  for _, field in ipairs(branch:headers()) do
    if field[1]:sub(1, 2):lower() == "x-" then branch:remove_header(field[1]) end
  end
end
