-- Claims an agent for one connector process.
-- KEYS 1 claim 2 agents 3 changes 4 watch of changes 5 mail 6 mailed
-- ARGV 1 agent 2 epoch 3 writer 4 node 5 card 6 connector 7 journaled 8 lease ms 9 life ms
--      10 most ms that an epoch or a mail's number may be ahead 11 notice 12 connection
-- Gives {ok|held|ahead, epoch held or the clock, nodes watching changes}

local claim, now = KEYS[1], clock()
local epoch = tonumber(ARGV[2])
local held = redis.call('HMGET', claim, 'epoch', 'writer', 'journaled', 'connection')
local current = tonumber(held[1] or 0)

if math.max(epoch, tonumber(ARGV[7])) > now + tonumber(ARGV[10]) then return {'ahead', whole(now), {}} end
if epoch < current or (epoch == current and held[2] ~= ARGV[3]) then
  return {'held', whole(current), {}}
end
local repeated = held[4] == ARGV[12]

redis.call('HSET', claim, 'epoch', ARGV[2], 'writer', ARGV[3], 'node', ARGV[4], 'card', ARGV[5],
  'connector', ARGV[6], 'connection', ARGV[12], 'connected_at', whole(now),
  'last_seen', whole(now), 'lease_until', whole(now + tonumber(ARGV[8])),
  'closed_at', '0', 'close_reason', 'ok',
  'journaled', whole(math.max(tonumber(held[3] or 0), tonumber(ARGV[7]))))
redis.call('ZADD', KEYS[2], whole(now), ARGV[1])
for _, key in ipairs({claim, KEYS[5], KEYS[6]}) do
  redis.call('PEXPIRE', key, ARGV[9])
end
if not repeated then
  redis.call('HDEL', claim, 'round_trip_ms') -- it was another connection's
  announce(KEYS[3], ARGV[11], now)
end
return {'ok', ARGV[2], watchers(KEYS[4], now)}
