-- Records the first answer to a question and mails it to the agent.
-- KEYS 1 rt 2 asked 3 audit 4 mail 5 mailed 6 claim 7 watch of the mail 8 changes
--      9 watch of changes
-- ARGV 1 id 2 decision id 3 hash 4 answer 5 option or action 6 by 7 message 8 agent life ms
--      9 most bytes of a subject 10 notice 11 agent 12 session
--      13 signature or ''
-- Gives {unknown|recorded|late|closed|refused|full, reason, by, at, answer,
--        nodes watching the mail, nodes watching changes}

local rt, now = KEYS[1], clock()
local r = redis.call('HMGET', rt, 'state', 'decision_id', 'decided_by', 'decided_at', 'answer',
  'reason', 'closed_by', 'closed_at', 'hash', 'kind', 'option_kinds', 'expires_at', 'agent',
  'session', 'title', 'risk', 'asked_at', 'truncated')
local state, reason = r[1], r[6]

local function give(outcome, why, by, at, answer)
  return {outcome, why or '', by or '', at or whole(now), answer or '', {}, {}}
end

if not state or r[13] ~= ARGV[11] or r[14] ~= ARGV[12] then return give('unknown') end
if r[2] == ARGV[2] then return give('recorded', '', r[3], r[4], r[5]) end
if state == 'decided' or (state == 'closed' and r[2] and reason == 'decided') then
  return give('late', 'decided', r[3], r[4], r[5])
end
if state == 'closed' then
  return give(reason == 'expired' and 'late' or 'closed', reason, r[7], r[8])
end
if r[12] ~= '' and now >= tonumber(r[12]) then return give('late', 'expired', '', r[12]) end
if r[9] ~= ARGV[3] then return give('refused', 'hash') end

if ARGV[13] == '' and needs_signature(KEYS[6]) then return give('refused', 'signature') end

local chosen, kind, rejects = ARGV[5], ARGV[5], false
if r[10] == 'permission' then
  kind = cjson.decode(r[11])[chosen]
  if not kind then return give('refused', 'unknown_option') end
  rejects = string.sub(kind, 1, 6) == 'reject'
else
  if chosen ~= 'accept' and chosen ~= 'decline' and chosen ~= 'cancel' then
    return give('refused', 'unknown_option')
  end
  rejects = chosen ~= 'accept'
end
if not rejects and redis.call('HSTRLEN', rt, 'subject') > tonumber(ARGV[9]) then
  return give('refused', 'subject_too_big')
end
if not rejects and r[18] == '1' then return give('refused', 'truncated') end
if redis.call('ZSCORE', KEYS[5], ARGV[2]) then return give('refused', 'decision_id_used') end
if redis.call('XLEN', KEYS[4]) >= MAIL_WAITING then return give('full') end

redis.call('HSET', rt, 'state', 'decided', 'decision_id', ARGV[2], 'decided_by', ARGV[6],
  'decided_at', whole(now), 'answer', ARGV[4])
redis.call('HSET', KEYS[2], ARGV[1], 'decided')
record_audit(KEYS[3], now, 'event', 'decided', 'roundTrip', ARGV[1], 'sessionId', r[14],
  'agent', r[13], 'title', r[15] or '', 'risk', r[16] or '', 'hash', ARGV[3],
  'askedAt', r[17] or '', 'answer', ARGV[4], 'meaning', meaning(kind), 'by', ARGV[6],
  'decisionId', ARGV[2], 'signed', ARGV[13] == '' and 'no' or 'yes')
post(KEYS[4], KEYS[5], KEYS[6], now, ARGV[8], ARGV[2], ARGV[6], ARGV[7], '', ARGV[13])
announce(KEYS[8], ARGV[10], now)
return {'recorded', '', ARGV[6], whole(now), ARGV[4], watchers(KEYS[7], now),
  watchers(KEYS[9], now)}
