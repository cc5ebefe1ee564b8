-- Replaces a tenant's rules, if they are still those that were read.
-- KEYS 1 rules 2 audit 3 changes 4 watch of changes
-- ARGV 1 version that was read, '' for none 2 version from now on 3 rules 4 notice
--      5 event 6 rule 7 words 8 by
-- Gives {1|0, nodes watching changes}

local now = clock()
local version = redis.call('HGET', KEYS[1], 'version') or ''
if version == ARGV[2] then return {1, watchers(KEYS[4], now)} end -- a reply was lost
if version ~= ARGV[1] then return {0, {}} end
redis.call('HSET', KEYS[1], 'version', ARGV[2], 'rules', ARGV[3])
record_audit(KEYS[2], now, 'event', ARGV[5], 'rule', ARGV[6], 'words', ARGV[7], 'by', ARGV[8])
announce(KEYS[3], ARGV[4], now)
return {1, watchers(KEYS[4], now)}
