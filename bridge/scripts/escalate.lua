-- Notes, once, that a question is open for too long, and tells everybody.
-- KEYS 1 rt 2 audit 3 changes 4 watch of changes
-- ARGV 1 id 2 rule 3 notice
-- Gives the nodes watching changes, none if it was noted before

local now = clock()
local r = redis.call('HMGET', KEYS[1], 'state', 'session', 'agent', 'title', 'risk')
if r[1] ~= 'open' then return {} end
if redis.call('HSETNX', KEYS[1], 'escalated_at', whole(now)) == 0 then
  return watchers(KEYS[4], now)
end
record_audit(KEYS[2], now, 'event', 'escalated', 'roundTrip', ARGV[1], 'sessionId', r[2],
  'agent', r[3], 'title', r[4] or '', 'risk', r[5] or '', 'rule', ARGV[2])
announce(KEYS[3], ARGV[3], now)
return watchers(KEYS[4], now)
