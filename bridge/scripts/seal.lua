-- Seals the audit records up to one of them, unless another process did.
-- KEYS 1 seals
-- ARGV 1 the record that the newest seal is of, or '' 2 upto 3 count 4 link 5 kid 6 signature
-- Gives 1 if it was sealed here, 0 if the newest seal is another

local newest = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)[1]
local upto = newest and newest[2][2] or ''
if upto ~= ARGV[1] then return 0 end
local now = clock()
redis.call('XADD', KEYS[1], 'MINID', '~', whole(now - AUDIT_KEPT), '*', 'upto', ARGV[2],
  'count', ARGV[3], 'link', ARGV[4], 'kid', ARGV[5], 'signature', ARGV[6])
redis.call('PEXPIRE', KEYS[1], AUDIT_KEPT)
return 1
