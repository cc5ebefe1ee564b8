-- Writes one audit record, once.
-- KEYS 1 audit 2 the record's own id, remembered
-- ARGV field and value, in turn; `at` is set here

if not redis.call('SET', KEYS[2], 1, 'NX', 'PX', 600000) then return end
record_audit(KEYS[1], clock(), unpack(ARGV))
