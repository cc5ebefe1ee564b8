-- Stores a session's card; the higher counter wins.
-- KEYS 1 log 2 meta 3 chunks 4 asked 5 claim 6 sessions 7 sessions of the agent 8 changes
--      9 watch of changes
-- ARGV 1 session 2 agent 3 epoch 4 writer 5 counter 6 card 7 age ms 8 agent life ms 9 notice
-- Gives {ok|fenced|foreign, nodes watching changes}

local meta, now = KEYS[2], clock()
local claim = redis.call('HMGET', KEYS[5], 'epoch', 'writer')
if claim[1] ~= ARGV[3] or claim[2] ~= ARGV[4] then return {'fenced', {}, claim[1] or '0'} end
local m = redis.call('HMGET', meta, 'agent', 'counter')
if m[1] and m[1] ~= ARGV[2] then return {'foreign', {}} end
if tonumber(m[2] or -1) >= tonumber(ARGV[5]) then return {'ok', {}} end

if not m[1] then
  redis.call('DEL', KEYS[1], KEYS[3])
  redis.call('HSET', meta, 'agent', ARGV[2], 'created_at', whole(now))
end
redis.call('HSET', meta, 'counter', ARGV[5], 'card', ARGV[6], 'updated_at', whole(now))
redis.call('ZADD', KEYS[6], whole(now), ARGV[1])
redis.call('ZADD', KEYS[7], whole(now), ARGV[1])
redis.call('PEXPIRE', KEYS[7], ARGV[8])
keep_session(KEYS[1], meta, KEYS[3], KEYS[4], ARGV[7])
announce(KEYS[8], ARGV[9], now)
return {'ok', watchers(KEYS[9], now)}
