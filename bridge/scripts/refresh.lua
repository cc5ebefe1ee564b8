-- Takes a family's newest refresh token, once; an older one ends the family.
-- KEYS 1 family
-- ARGV 1 number of the token shown 2 id of the request, by which it may be repeated
-- Gives the next number, 0 when there is no such family or token, -1 when it was used before

local held = redis.call('HMGET', KEYS[1], 'number', 'request', 'reused')
if not held[1] then return 0 end
if held[3] then return -1 end
local newest, shown = tonumber(held[1]), tonumber(ARGV[1])
if shown == newest then
  redis.call('HSET', KEYS[1], 'number', whole(shown + 1), 'request', ARGV[2])
  return shown + 1
end
if shown == newest - 1 and held[2] == ARGV[2] then return newest end
if shown > newest then return 0 end
redis.call('HSET', KEYS[1], 'reused', 1)
return -1
