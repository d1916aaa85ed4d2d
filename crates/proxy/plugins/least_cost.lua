-- Least-cost routing: the carriers of the longest prefix, the cheapest first.
--
-- files.rates: lines of prefix;carrier;price, such as 49;one;0.012
-- settings.carriers: the next hop of each carrier, such as { one = "sip:192.0.2.70" }
-- settings.international: what numbers from abroad begin with (default "00")

local rates, longest = {}, 0

for line in files.rates:gmatch("[^\r\n]+") do
  local prefix, carrier, price = line:match("^%s*%+?(%d+)%s*;%s*([%w_-]+)%s*;%s*([%d.]+)%s*$")
  if prefix then
    assert(settings.carriers[carrier], "no carrier " .. carrier)
    local list = rates[prefix] or {}
    list[#list + 1] = { carrier = carrier, price = tonumber(price) }
    rates[prefix] = list
    longest = math.max(longest, #prefix)
  end
end

for _, list in pairs(rates) do
  table.sort(list, function(one, other) return one.price < other.price end)
end

local function digits(user)
  local international = settings.international or "00"
  if user:sub(1, 1) == "+" then return user:sub(2) end
  if user:sub(1, #international) == international then return user:sub(#international + 1) end
end

function on_route(request)
  if request.method ~= "INVITE" or request.in_dialog then return end
  local uri = tandem.uri(request.uri)
  local number = uri and uri.user and digits(uri.user)
  if not number then return end
  for length = math.min(longest, #number), 1, -1 do
    local list = rates[number:sub(1, length)]
    if list then
      local hops = {}
      for at, rate in ipairs(list) do hops[at] = settings.carriers[rate.carrier] end
      request:tag("carrier", list[1].carrier)
      tandem.count("routed_" .. list[1].carrier)
      return request:route(table.unpack(hops))
    end
  end
  request:reply(404, "No Route")
end
