-- Notes who watches a session through one node.
-- KEYS 1 presence 2 changes 3 watch of changes
-- ARGV 1 node 2 watchers as JSON, '' for none 3 ms they count without renewal 4 notice, '' to renew
-- Gives the nodes watching changes

local now = clock()
if ARGV[2] == '' then
  redis.call('HDEL', KEYS[1], ARGV[1])
else
  redis.call('HSET', KEYS[1], ARGV[1], whole(now + ARGV[3]) .. ' ' .. ARGV[2])
  redis.call('PEXPIRE', KEYS[1], ARGV[3])
end
if ARGV[4] == '' then return {} end
announce(KEYS[2], ARGV[4], now)
return watchers(KEYS[3], now)
