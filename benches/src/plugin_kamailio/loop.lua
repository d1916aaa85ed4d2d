-- Loops until it is cut off, each second; no call has anything to do with it.
tandem.every(1, function() while true do end end)
