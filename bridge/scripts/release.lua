-- Notes that a claim's connection ended, and why.
-- KEYS 1 claim 2 changes 3 watch of changes
-- ARGV 1 epoch 2 writer 3 connection 4 reason 5 life ms 6 notice
-- Gives the nodes watching changes

local claim, now = KEYS[1], clock()
local held = redis.call('HMGET', claim, 'epoch', 'writer', 'connection', 'closed_at')
if held[1] ~= ARGV[1] or held[2] ~= ARGV[2] or held[3] ~= ARGV[3] or held[4] ~= '0' then
  return {}
end
redis.call('HSET', claim, 'closed_at', whole(now), 'close_reason', ARGV[4])
redis.call('PEXPIRE', claim, ARGV[5])
announce(KEYS[2], ARGV[6], now)
return watchers(KEYS[3], now)
