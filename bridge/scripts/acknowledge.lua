-- Forgets mail that is on the connector's disk.
-- KEYS 1 claim 2 mail 3 mailed
-- ARGV 1 epoch 2 writer 3 up to n
-- Gives 1, or 0 when the claim is another's

local held = redis.call('HMGET', KEYS[1], 'epoch', 'writer', 'journaled')
if held[1] ~= ARGV[1] or held[2] ~= ARGV[2] then return 0 end
local newest = redis.call('ZREVRANGE', KEYS[3], 0, 0, 'WITHSCORES')
local up_to = math.min(tonumber(ARGV[3]), tonumber(newest[2] or 0))
if up_to > tonumber(held[3] or 0) then
  redis.call('HSET', KEYS[1], 'journaled', whole(up_to))
  redis.call('XTRIM', KEYS[2], 'MINID', '=', whole(up_to + 1) .. '-0')
end
return 1
