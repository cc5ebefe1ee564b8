-- Keeps what became of a mail for whoever sent it.
-- KEYS 1 claim 2 mailed 3 done 4 changes 5 watch of changes
-- ARGV 1 epoch 2 writer 3 mail id 4 outcome 5 life ms 6 notice
-- Gives {ok|fenced|unknown, epoch held, nodes watching changes}

local now = clock()
local held = redis.call('HMGET', KEYS[1], 'epoch', 'writer')
if held[1] ~= ARGV[1] or held[2] ~= ARGV[2] then return {'fenced', held[1] or '0', {}} end
if not redis.call('ZSCORE', KEYS[2], ARGV[3]) then return {'unknown', held[1], {}} end
if not redis.call('SET', KEYS[3], ARGV[4], 'PX', ARGV[5], 'NX') then return {'ok', held[1], {}} end
announce(KEYS[4], ARGV[6], now)
return {'ok', held[1], watchers(KEYS[5], now)}
