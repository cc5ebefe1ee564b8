-- Tells everybody in a tenant of a device or of a pairing, once.
-- KEYS 1 the hash of what it is about 2 changes 3 watch of changes
-- ARGV 1 notice 2 id of this telling
-- Gives the nodes watching changes

local now = clock()
if redis.call('HGET', KEYS[1], 'told') ~= ARGV[2] then
  redis.call('HSET', KEYS[1], 'told', ARGV[2])
  announce(KEYS[2], ARGV[1], now)
end
return watchers(KEYS[3], now)
