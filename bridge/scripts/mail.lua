-- Puts a message into an agent's mail; the same id again changes nothing.
-- KEYS 1 mail 2 mailed 3 claim 4 watch of the mail
-- ARGV 1 mail id 2 origin 3 message 4 not after or '' 5 life ms 6 signature or ''
-- Gives {ok|full|unsigned, n, nodes watching the mail}

local mail, mailed, now = KEYS[1], KEYS[2], clock()
local known = redis.call('ZSCORE', mailed, ARGV[1])
if known then return {'ok', whole(tonumber(known)), {}} end
if ARGV[6] == '' and needs_signature(KEYS[3]) then return {'unsigned', '0', {}} end
if redis.call('XLEN', mail) >= MAIL_WAITING then return {'full', '0', {}} end
local n = post(mail, mailed, KEYS[3], now, ARGV[5], ARGV[1], ARGV[2], ARGV[3], ARGV[4],
  ARGV[6])
return {'ok', whole(n), watchers(KEYS[4], now)}
