-- Appends to the logs of sessions of one tenant, with the round-trips that this opens and closes.
-- KEYS 1 open 2 closed 3 sessions 4 changes 5 watch of changes 6 audit, then for each session
--      log, meta, chunks, asked, watch of the log, claim, sessions of the agent,
--      and one rt for each of its entries with an effect, in order
-- ARGV 1 most entries 2 most bytes 3 age ms 4 agent life ms, then for each session
--      session, agent, epoch, writer, notice of a new session, count of entries, of effects,
--      and five for each entry: epoch seq prev payload effect
--      prev: stream id or ''; effect: '' or JSON {open|resolved|escalated: {field: text…}, notice},
--      {noted: [field, text…], notice}, or a
--      notice alone, whose key is not looked at
-- Gives {nodes watching changes if there are any,
--        for each session {ok|gap|fenced|foreign, epoch, seq, nodes watching the log}}

local SHARED_KEYS, SHARED_ARGS, OWN_KEYS, OWN_ARGS, ENTRY_ARGS = 6, 4, 7, 7, 5
local KEEP_EVERY = 10000 -- a session's end and its place in the index need no more precision
local open, closed, sessions, changes, audit = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[6]
local most_entries, most_bytes, age = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local now = clock()
local at = whole(now)

-- The session at hand, and the last entry of its log.
local session, agent, log, meta, chunks, asked, epoch, seq

local claims = {} -- each is looked up once
local function has_claim(key, claimed, writer)
  local claim = claims[key] or redis.call('HMGET', key, 'epoch', 'writer')
  claims[key] = claim
  return claim[1] == claimed and claim[2] == writer
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
    'epoch', whole(epoch), 'seq', whole(seq), 'opened_at', at, unpack(set))
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
  if not r[1] and end_.title then -- decided by a rule before anybody was asked
    record_audit(audit, now, 'event', 'closed', 'roundTrip', end_.id, 'sessionId', session,
      'agent', agent, 'title', end_.title, 'risk', end_.risk, 'hash', end_.hash,
      'result', end_.result, 'reason', end_.reason, 'answer', end_.answer,
      'rule', end_.rule, 'words', end_.words)
    return
  end
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
    'answer', end_.answer, 'meaning', meaning(answered(r, end_)), 'by', end_.by,
    'rule', end_.rule, 'words', end_.words)
  tell(effect.notice)
end

local function escalate_question(rt, effect)
  local r = redis.call('HMGET', rt, 'session', 'state')
  if r[1] ~= session or r[2] ~= 'open' then return end
  if redis.call('HSETNX', rt, 'escalated_at', at) == 1 then tell(effect.notice) end
end

-- Stores the entries that follow; gives the state, and how many they are and how many bytes.
local function store(first, count, rt, claimed)
  local stored, size = 0, 0
  for i = first, first + (count - 1) * ENTRY_ARGS, ENTRY_ARGS do
    local e, s, prev, payload, effect =
      tonumber(ARGV[i]), tonumber(ARGV[i + 1]), ARGV[i + 2], ARGV[i + 3], ARGV[i + 4]
    if e > claimed then return 'fenced', stored, size end
    if e > epoch or (e == epoch and s > seq) then
      local follows = e == epoch and s == seq + 1
        or e > epoch and s == 1 and (prev == '' or not_after(prev, epoch, seq))
      if not follows then return 'gap', stored, size end
      epoch, seq = e, s
      redis.call('XADD', log, ARGV[i] .. '-' .. ARGV[i + 1], 'm', payload)
      stored, size = stored + 1, size + #payload
      if effect ~= '' then
        local decoded = cjson.decode(effect)
        if decoded.open then
          open_question(KEYS[rt], decoded, payload)
        elseif decoded.noted then
          record_audit(audit, now, unpack(decoded.noted))
          tell(decoded.notice)
        elseif decoded.escalated then
          escalate_question(KEYS[rt], decoded)
        elseif decoded.resolved then
          close_question(KEYS[rt], decoded)
        else
          tell(decoded.notice)
        end
      end
    end
    if effect ~= '' then rt = rt + 1 end
  end
  return 'ok', stored, size
end

-- What the log holds is one text in meta: six numbers, as they stand below. Counts what was stored,
-- and trims; gives the new text, and whether the session has to be kept from now on.
local function count(held, stored, size, is_due)
  local entries, bytes, chunk_entries, chunk_bytes, chunk_at, kept_at =
    string.match(held or '', '(%d+) (%d+) (%d+) (%d+) (%d+) (%d+)')
  entries, chunk_entries = (entries or 0) + stored, (chunk_entries or 0) + stored
  bytes, chunk_bytes = (bytes or 0) + size, (chunk_bytes or 0) + size
  chunk_at, kept_at = tonumber(chunk_at or now), tonumber(kept_at or 0)
  if chunk_entries * 16 >= most_entries or chunk_bytes * 16 >= most_bytes
    or (now - chunk_at) * 16 >= age then
    redis.call('RPUSH', chunks, string.format('%.0f-%.0f %.0f %.0f %.0f',
      epoch, seq, chunk_entries, chunk_bytes, now))
    chunk_entries, chunk_bytes, chunk_at = 0, 0, now
  end
  is_due = is_due or now - kept_at >= math.min(KEEP_EVERY, age / 16)
  local oldest
  while is_due or entries > most_entries or bytes > most_bytes do
    local chunk = redis.call('LINDEX', chunks, 0)
    if not chunk then break end
    local id, n, its_bytes, its_end = string.match(chunk, '(%S+) (%d+) (%d+) (%d+)')
    if entries <= most_entries and bytes <= most_bytes and now - its_end < age then break end
    redis.call('LPOP', chunks)
    entries, bytes, oldest = entries - n, bytes - its_bytes, id
  end
  if oldest then redis.call('XTRIM', log, 'MINID', '~', oldest) end
  return string.format('%.0f %.0f %.0f %.0f %.0f %.0f',
    entries, bytes, chunk_entries, chunk_bytes, chunk_at, is_due and now or kept_at), is_due
end

local function append(key, arg, entries, effects)
  log, meta, chunks, asked = KEYS[key], KEYS[key + 1], KEYS[key + 2], KEYS[key + 3]
  session, agent = ARGV[arg], ARGV[arg + 1]
  local m = redis.call('HMGET', meta, 'agent', 'epoch', 'seq', 'held')
  epoch, seq = tonumber(m[2] or 0), tonumber(m[3] or 0)
  if not has_claim(KEYS[key + 5], ARGV[arg + 2], ARGV[arg + 3]) then
    return {'fenced', whole(epoch), whole(seq), {}}
  end
  if m[1] and m[1] ~= agent then return {'foreign', '0', '0', {}} end
  -- A session that expired begins anew; nothing of it may be left.
  if not m[1] then redis.call('DEL', log, chunks) end

  local state, stored, size =
    store(arg + OWN_ARGS, entries, key + OWN_KEYS, tonumber(ARGV[arg + 2]))
  local last_epoch, last_seq = whole(epoch), whole(seq)
  if stored == 0 then return {state, last_epoch, last_seq, {}} end

  local held, is_due = count(m[4], stored, size, effects > 0)
  if not m[1] then
    redis.call('HSET', meta, 'agent', agent, 'created_at', at)
    tell(ARGV[arg + 4])
  end
  redis.call('HSET', meta, 'epoch', last_epoch, 'seq', last_seq, 'updated_at', at, 'held', held)
  if is_due then
    redis.call('ZADD', sessions, at, session)
    redis.call('ZADD', KEYS[key + 6], at, session)
    redis.call('PEXPIRE', KEYS[key + 6], ARGV[4])
    keep_session(log, meta, chunks, asked, age)
  end
  return {state, last_epoch, last_seq, watchers(KEYS[key + 4], now)}
end

local replies, key, arg = {}, SHARED_KEYS + 1, SHARED_ARGS + 1
while arg <= #ARGV do
  local entries, effects = tonumber(ARGV[arg + 5]), tonumber(ARGV[arg + 6])
  replies[#replies + 1] = append(key, arg, entries, effects)
  key, arg = key + OWN_KEYS + effects, arg + OWN_ARGS + entries * ENTRY_ARGS
end
return {announced and watchers(KEYS[5], now) or {}, replies}
