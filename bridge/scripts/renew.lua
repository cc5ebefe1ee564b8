-- Extends a claim's lease; once an hour its sessions' lives are due as well.
-- KEYS 1 claim 2 mail 3 mailed 4 sessions of the agent
-- ARGV 1 epoch 2 writer 3 connection 4 ms since it was heard 5 lease ms 6 life ms 7 ms between sessions' turns
--      8 ms of a round trip to the connector, '' if it was not measured
-- Gives 0 lost, 1 renewed, 2 renewed and sessions are due

local claim, now = KEYS[1], clock()
local held = redis.call('HMGET', claim, 'epoch', 'writer', 'connection', 'sessions_at', 'closed_at')
if held[1] ~= ARGV[1] or held[2] ~= ARGV[2] or held[3] ~= ARGV[3] then return 0 end
if held[5] ~= '0' then return 0 end

redis.call('HSET', claim, 'last_seen', whole(now - tonumber(ARGV[4])),
  'lease_until', whole(now + tonumber(ARGV[5])))
if ARGV[8] ~= '' then redis.call('HSET', claim, 'round_trip_ms', ARGV[8]) end
for _, key in ipairs(KEYS) do
  redis.call('PEXPIRE', key, ARGV[6])
end
if now - tonumber(held[4] or 0) < tonumber(ARGV[7]) then return 1 end
redis.call('HSET', claim, 'sessions_at', whole(now))
return 2
