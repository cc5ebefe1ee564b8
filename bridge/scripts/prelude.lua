-- Put before every script. Numbers that may pass 2^31 are written by whole(): Lua would write
-- 1e15 as "1e+15". Keys and arguments of each script are listed at its own top.

local DAY = 86400000
local CLOSED_KEPT = DAY -- a closed round-trip
local AUDIT_KEPT = 400 * DAY
local CHANGES_KEPT = DAY
local MAIL_IDS_KEPT = 10000
local MAIL_WAITING = 1000 -- unacknowledged; more are refused, never dropped

local function whole(number)
  return string.format('%.0f', number)
end

local function clock()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- The nodes whose lease on a stream lives; ended ones are forgotten.
local function watchers(watch, now)
  local nodes, leases = {}, redis.call('HGETALL', watch)
  for i = 1, #leases, 2 do
    if tonumber(leases[i + 1]) > now then
      nodes[#nodes + 1] = leases[i]
    else
      redis.call('HDEL', watch, leases[i])
    end
  end
  return nodes
end

local function announce(changes, notice, now)
  redis.call('XADD', changes, 'MAXLEN', '~', 1000, '*', 'notice', notice, 'at', whole(now))
  redis.call('PEXPIRE', changes, CHANGES_KEPT)
end

-- Fields are named as people read them; `answer` and `by` are JSON, times Unix milliseconds.
local function record_audit(audit, now, ...)
  redis.call('XADD', audit, 'MINID', '~', whole(now - AUDIT_KEPT), '*', 'at', whole(now), ...)
  redis.call('PEXPIRE', audit, AUDIT_KEPT)
end

-- What an option means: allow_once → allow; of a form, accept → allow.
local function meaning(kind)
  if string.sub(kind, 1, 5) == 'allow' or kind == 'accept' then return 'allow' end
  return kind == '' and '' or 'reject'
end

-- An open question pins its session; otherwise the session lives on from now.
local function keep_session(log, meta, chunks, asked, life)
  local pinned = redis.call('EXISTS', asked) == 1
  for _, key in ipairs({log, meta, chunks, asked}) do
    if pinned then
      redis.call('PERSIST', key)
    else
      redis.call('PEXPIRE', key, life)
    end
  end
end

-- Mail is numbered by time, so that numbers go on rising even if Redis forgot the last ones.
local function mail_number(mailed, claim, now)
  local newest = redis.call('ZREVRANGE', mailed, 0, 0, 'WITHSCORES')
  local journaled = tonumber(redis.call('HGET', claim, 'journaled') or 0)
  return math.max(now, tonumber(newest[2] or 0) + 1, journaled + 1)
end

-- Whether the agent's connector takes only what a paired device signed.
local function needs_signature(claim)
  local card = redis.call('HGET', claim, 'card')
  return card and cjson.decode(card).signed == 'required'
end

local function post(mail, mailed, claim, now, life, id, origin, message, not_after, signature)
  local n = mail_number(mailed, claim, now)
  redis.call('XADD', mail, whole(n) .. '-0',
    'id', id, 'origin', origin, 'message', message, 'notAfter', not_after,
    'signature', signature)
  redis.call('ZADD', mailed, whole(n), id)
  redis.call('ZREMRANGEBYRANK', mailed, 0, -MAIL_IDS_KEPT - 1)
  redis.call('PEXPIRE', mail, life)
  redis.call('PEXPIRE', mailed, life)
  return n
end
