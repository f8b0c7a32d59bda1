-- Notes in a room's hash whether an activity is open, and keeps the hash at least as long as asked.
--
-- KEYS[1]  room        hash activity id -> 1 while open, 0 after
-- ARGV[1]  activity id
-- ARGV[2]  1 or 0
-- ARGV[3]  shortest time to live, milliseconds
--
-- Returns "written".

redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[3]) then
    redis.call('PEXPIRE', KEYS[1], ARGV[3])
end
return 'written'
