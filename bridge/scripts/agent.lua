-- Stores an agent's card.
-- KEYS 1 claim 2 changes 3 watch of changes
-- ARGV 1 epoch 2 writer 3 card 4 notice
-- Gives {ok|fenced, epoch held, nodes watching changes}

local claim, now = KEYS[1], clock()
local held = redis.call('HMGET', claim, 'epoch', 'writer', 'card')
if held[1] ~= ARGV[1] or held[2] ~= ARGV[2] then return {'fenced', held[1] or '0', {}} end
if held[3] == ARGV[3] then return {'ok', held[1], {}} end
redis.call('HSET', claim, 'card', ARGV[3])
announce(KEYS[2], ARGV[4], now)
return {'ok', held[1], watchers(KEYS[3], now)}
