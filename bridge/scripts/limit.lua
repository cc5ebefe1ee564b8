-- Takes one from each bucket, or from none when one is empty; buckets fill evenly.
-- KEYS buckets
-- ARGV 1 id of this taking, then for each bucket: how many it gains in a minute, which is its size
-- Gives the milliseconds to wait, 0 when it was taken

local now, wait, left = clock(), 0, {}
for i, bucket in ipairs(KEYS) do
  local held = redis.call('HMGET', bucket, 'left', 'filled_at', 'id')
  if held[3] == ARGV[1] then return 0 end
  local size = tonumber(ARGV[i + 1])
  local gained = held[1] and math.max(0, now - held[2]) * size / 60000 or 0
  left[i] = math.min(size, tonumber(held[1] or size) + gained)
  if left[i] < 1 then wait = math.max(wait, math.ceil((1 - left[i]) * 60000 / size)) end
end
if wait > 0 then return wait end
for i, bucket in ipairs(KEYS) do
  redis.call('HSET', bucket, 'left', tostring(left[i] - 1), 'filled_at', whole(now), 'id', ARGV[1])
  redis.call('PEXPIRE', bucket, 60000)
end
return 0
