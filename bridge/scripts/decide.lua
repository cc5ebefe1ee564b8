-- Records the first answer to a question and mails it to the agent.
-- KEYS 1 rt 2 asked 3 audit 4 mail 5 mailed 6 claim 7 watch of the mail 8 changes
--      9 watch of changes 10 rules
-- ARGV 1 id 2 decision id 3 hash 4 answer 5 option or action 6 by 7 message 8 agent life ms
--      9 most bytes of a subject 10 notice 11 agent 12 session
--      13 signature or '' 14 version of the rules it was judged by 15 what is in the way of an
--      approval: rule, passkey or '' 16 people who must approve 17 who answers
--      18 decision id of the first approval, which the message carries, or '' 19 rule or ''
--      20 when a rule ends it, or '' 21 notice of a first approval 22 passkey or ''
-- Gives {unknown|again|recorded|needs_another|late|closed|refused|full, reason, by, at, answer,
--        nodes watching the mail, nodes watching changes}

local rt, now = KEYS[1], clock()
local r = redis.call('HMGET', rt, 'state', 'decision_id', 'decided_by', 'decided_at', 'answer',
  'reason', 'closed_by', 'closed_at', 'hash', 'kind', 'option_kinds', 'expires_at', 'agent',
  'session', 'title', 'risk', 'asked_at', 'truncated', 'half_decision_id', 'half_subject',
  'half_answer', 'half_by', 'half_at')
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
local by_rule = ARGV[19] ~= ''
if (redis.call('HGET', KEYS[10], 'version') or '') ~= ARGV[14] then return give('again') end
local ends = math.min(tonumber(r[12]) or math.huge, tonumber(ARGV[20]) or math.huge)
if now >= ends and not by_rule then return give('late', 'expired', '', whole(ends)) end
if r[9] ~= ARGV[3] then return give('refused', 'hash') end

if ARGV[13] == '' and not by_rule and needs_signature(KEYS[6]) then
  return give('refused', 'signature')
end

local chosen, kind, rejects = ARGV[5], ARGV[5], false
if by_rule and chosen == '' then
  kind, rejects = '', true -- it is cancelled
elseif r[10] == 'permission' then
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
if not rejects and ARGV[15] ~= '' then return give('refused', ARGV[15]) end

local half = r[19]
if half and half == ARGV[2] then return give('needs_another', '', r[22], r[23], r[21]) end
local signed = ARGV[13] == '' and 'no' or 'yes'
if not rejects and tonumber(ARGV[16]) > 1 and not by_rule then
  if not half then
    redis.call('HSET', rt, 'half_decision_id', ARGV[2], 'half_subject', ARGV[17],
      'half_answer', ARGV[4], 'half_by', ARGV[6], 'half_at', whole(now),
      'half_signature', ARGV[13])
    record_audit(KEYS[3], now, 'event', 'first_approval', 'roundTrip', ARGV[1],
      'sessionId', r[14], 'agent', r[13], 'title', r[15] or '', 'risk', r[16] or '',
      'hash', ARGV[3], 'askedAt', r[17] or '', 'answer', ARGV[4], 'by', ARGV[6],
      'decisionId', ARGV[2], 'signed', signed)
    announce(KEYS[8], ARGV[21], now)
    return {'needs_another', '', ARGV[6], whole(now), ARGV[4], {}, watchers(KEYS[9], now)}
  end
  if half ~= ARGV[18] then return give('again') end -- the message lacks the first approval
  if r[20] == ARGV[17] then return give('refused', 'same_person', r[22], r[23]) end
  if r[21] ~= ARGV[4] then return give('refused', 'other_answer', r[22], r[23], r[21]) end
end
if redis.call('ZSCORE', KEYS[5], ARGV[2]) then return give('refused', 'decision_id_used') end
if redis.call('XLEN', KEYS[4]) >= MAIL_WAITING then return give('full') end

redis.call('HSET', rt, 'state', 'decided', 'decision_id', ARGV[2], 'decided_by', ARGV[6],
  'decided_at', whole(now), 'answer', ARGV[4])
redis.call('HSET', KEYS[2], ARGV[1], 'decided')
record_audit(KEYS[3], now, 'event', 'decided', 'roundTrip', ARGV[1], 'sessionId', r[14],
  'agent', r[13], 'title', r[15] or '', 'risk', r[16] or '', 'hash', ARGV[3],
  'askedAt', r[17] or '', 'answer', ARGV[4], 'meaning', meaning(kind), 'by', ARGV[6],
  'decisionId', ARGV[2], 'signed', signed, 'rule', ARGV[19], 'passkey', ARGV[22])
post(KEYS[4], KEYS[5], KEYS[6], now, ARGV[8], ARGV[2], ARGV[6], ARGV[7], '', ARGV[13])
announce(KEYS[8], ARGV[10], now)
return {'recorded', '', ARGV[6], whole(now), ARGV[4], watchers(KEYS[7], now),
  watchers(KEYS[9], now)}
