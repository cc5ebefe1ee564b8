-- Appends a batch to one session's log, with the round-trips it opens and closes.
-- KEYS 1 log 2 meta 3 chunks 4 asked 5 watch of the log 6 claim 7 open 8 closed 9 sessions
--      10 sessions of the agent 11 changes 12 watch of changes 13 audit,
--      then one rt for each entry with an effect, in order
-- ARGV 1 session 2 agent 3 epoch 4 writer 5 most entries 6 most bytes 7 age ms 8 agent life ms
--      9 notice of a new session, then five for each entry: epoch seq prev payload effect
--      prev: stream id or ''; effect: '' or JSON {open|resolved: {field: text…}, notice}
-- Gives {ok|gap|fenced|foreign, epoch, seq, nodes watching the log, nodes watching changes}

local RT, FIRST = 13, 10
local KEEP_EVERY = 10000 -- a session's end and its place in the index need no more precision
local log, meta, chunks, asked = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local open, closed, changes, audit = KEYS[7], KEYS[8], KEYS[11], KEYS[13]
local session, agent, claimed = ARGV[1], ARGV[2], tonumber(ARGV[3])
local most_entries, most_bytes, age = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
local now = clock()

local m = redis.call('HMGET', meta, 'agent', 'epoch', 'seq', 'entries', 'bytes',
  'chunk_entries', 'chunk_bytes', 'chunk_at', 'kept_at')
local epoch, seq = tonumber(m[2] or 0), tonumber(m[3] or 0)

local claim = redis.call('HMGET', KEYS[6], 'epoch', 'writer')
if claim[1] ~= ARGV[3] or claim[2] ~= ARGV[4] then
  return {'fenced', whole(epoch), whole(seq), {}, {}}
end
if m[1] and m[1] ~= agent then
  return {'foreign', '0', '0', {}, {}}
end

-- Below: the connector's machine crashed and lost a tail that is stored here.
local function not_after(prev, epoch, seq)
  local e, s = string.match(prev, '(%d+)-(%d+)')
  e, s = tonumber(e), tonumber(s)
  return e < epoch or (e == epoch and s <= seq)
end

local announced = false
local function tell(notice)
  announce(changes, notice, now)
  announced = true
end

local function open_question(rt, effect, payload)
  local fields = effect.open
  if redis.call('EXISTS', rt) == 1 then return end -- an id is never opened twice
  local set = {}
  for name, text in pairs(fields) do
    set[#set + 1] = name
    set[#set + 1] = text
  end
  redis.call('HSET', rt, 'state', 'open', 'session', session, 'agent', agent, 'entry', payload,
    'epoch', whole(epoch), 'seq', whole(seq), unpack(set))
  redis.call('ZADD', open, fields.asked_at, fields.id)
  redis.call('HSET', asked, fields.id, 'open')
  tell(effect.notice)
end

-- The kind of the option, or the action, that a question was answered with; '' if with none.
local function answered(r, end_)
  if end_.answer == '' then return '' end
  local answer = cjson.decode(end_.answer)
  if r[3] ~= 'permission' then return answer.action or '' end
  return cjson.decode(r[4])[answer.optionId] or ''
end

local function close_question(rt, effect)
  local end_ = effect.resolved
  local r = redis.call('HMGET', rt, 'session', 'state', 'kind', 'option_kinds', 'title', 'risk',
    'hash', 'asked_at', 'decided_at')
  if r[1] ~= session or r[2] == 'closed' then return end
  redis.call('HSET', rt, 'state', 'closed', 'result', end_.result, 'reason', end_.reason,
    'closed_answer', end_.answer, 'closed_by', end_.by, 'closed_at', whole(now))
  redis.call('HDEL', rt, 'entry')
  redis.call('PEXPIRE', rt, CLOSED_KEPT)
  redis.call('ZREM', open, end_.id)
  redis.call('HDEL', asked, end_.id)
  redis.call('ZADD', closed, whole(now), end_.id)
  redis.call('ZREMRANGEBYSCORE', closed, '-inf', whole(now - CLOSED_KEPT))
  redis.call('PEXPIRE', closed, CLOSED_KEPT)
  record_audit(audit, now, 'event', 'closed', 'roundTrip', end_.id, 'sessionId', session,
    'agent', agent, 'title', r[5] or '', 'risk', r[6] or '', 'hash', r[7] or '',
    'askedAt', r[8] or '', 'decidedAt', r[9] or '', 'result', end_.result, 'reason', end_.reason,
    'answer', end_.answer, 'meaning', meaning(answered(r, end_)), 'by', end_.by)
  tell(effect.notice)
end

-- A session that expired begins anew; nothing of it may be left.
if not m[1] then
  redis.call('DEL', log, chunks)
end

local entries, bytes = tonumber(m[4] or 0), tonumber(m[5] or 0)
local chunk_entries, chunk_bytes = tonumber(m[6] or 0), tonumber(m[7] or 0)
local chunk_at = tonumber(m[8] or now)
local state, stored, rt = 'ok', 0, RT

for i = FIRST, #ARGV, 5 do
  local e, s, prev, payload, effect =
    tonumber(ARGV[i]), tonumber(ARGV[i + 1]), ARGV[i + 2], ARGV[i + 3], ARGV[i + 4]
  if effect ~= '' then rt = rt + 1 end
  if e > claimed then
    state = 'fenced'
    break
  end
  local ahead = e > epoch or (e == epoch and s > seq)
  if ahead then
    local follows = e == epoch and s == seq + 1
      or e > epoch and s == 1 and (prev == '' or not_after(prev, epoch, seq))
    if not follows then
      state = 'gap'
      break
    end
    epoch, seq = e, s
    redis.call('XADD', log, whole(epoch) .. '-' .. whole(seq), 'm', payload)
    stored = stored + 1
    bytes, chunk_bytes = bytes + #payload, chunk_bytes + #payload
    if effect ~= '' then
      local decoded = cjson.decode(effect)
      if decoded.open then
        open_question(KEYS[rt], decoded, payload)
      else
        close_question(KEYS[rt], decoded)
      end
    end
  end
end

if stored > 0 then
  entries, chunk_entries = entries + stored, chunk_entries + stored
  if chunk_entries * 16 >= most_entries or chunk_bytes * 16 >= most_bytes
    or (now - chunk_at) * 16 >= age then
    redis.call('RPUSH', chunks, string.format('%.0f-%.0f %.0f %.0f %.0f',
      epoch, seq, chunk_entries, chunk_bytes, now))
    chunk_entries, chunk_bytes, chunk_at = 0, 0, now
  end
  local is_due = rt > RT or now - tonumber(m[9] or 0) >= math.min(KEEP_EVERY, age / 16)
  local oldest
  while is_due or entries > most_entries or bytes > most_bytes do
    local chunk = redis.call('LINDEX', chunks, 0)
    if not chunk then break end
    local id, count, size, at = string.match(chunk, '(%S+) (%d+) (%d+) (%d+)')
    if entries <= most_entries and bytes <= most_bytes and now - at < age then break end
    redis.call('LPOP', chunks)
    entries, bytes, oldest = entries - count, bytes - size, id
  end
  if oldest then redis.call('XTRIM', log, 'MINID', '~', oldest) end

  if not m[1] then
    redis.call('HSET', meta, 'agent', agent, 'created_at', whole(now))
    tell(ARGV[9])
  end
  redis.call('HSET', meta, 'epoch', whole(epoch), 'seq', whole(seq), 'updated_at', whole(now),
    'entries', whole(entries), 'bytes', whole(bytes), 'chunk_entries', whole(chunk_entries),
    'chunk_bytes', whole(chunk_bytes), 'chunk_at', whole(chunk_at))
  if is_due then
    redis.call('HSET', meta, 'kept_at', whole(now))
    redis.call('ZADD', KEYS[9], whole(now), session)
    redis.call('ZADD', KEYS[10], whole(now), session)
    redis.call('PEXPIRE', KEYS[10], ARGV[8])
    keep_session(log, meta, chunks, asked, age)
  end
end

return {state, whole(epoch), whole(seq), stored > 0 and watchers(KEYS[5], now) or {},
  announced and watchers(KEYS[12], now) or {}}
