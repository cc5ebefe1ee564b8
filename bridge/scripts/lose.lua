-- Notes that the process which held a claim's connection is gone.
-- KEYS 1 claim 2 changes 3 watch of changes
-- ARGV 1 node 2 reason 3 life ms 4 notice
-- Gives the nodes watching changes

local claim, now = KEYS[1], clock()
local held = redis.call('HMGET', claim, 'node', 'closed_at')
if held[1] ~= ARGV[1] or held[2] ~= '0' then return {} end
redis.call('HSET', claim, 'closed_at', whole(now), 'close_reason', ARGV[2])
redis.call('PEXPIRE', claim, ARGV[3])
announce(KEYS[2], ARGV[4], now)
return watchers(KEYS[3], now)
