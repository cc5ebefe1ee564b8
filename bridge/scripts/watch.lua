-- Registers a node as watching streams of one tenant, or renews its leases.
-- KEYS the streams' watch hashes
-- ARGV 1 node 2 lease ms

local until_ = whole(clock() + tonumber(ARGV[2]))
for _, watch in ipairs(KEYS) do
  redis.call('HSET', watch, ARGV[1], until_)
  redis.call('PEXPIRE', watch, 2 * tonumber(ARGV[2]))
end
return 1
