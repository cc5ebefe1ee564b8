-- Tells everybody in a tenant, once, of what no key of the tenant's holds.
-- KEYS 1 told 2 changes 3 watch of changes
-- ARGV 1 notice 2 life ms of the memory that it was told
-- Gives the nodes watching changes

local now = clock()
if redis.call('SET', KEYS[1], '', 'NX', 'PX', ARGV[2]) then
  announce(KEYS[2], ARGV[1], now)
end
return watchers(KEYS[3], now)
