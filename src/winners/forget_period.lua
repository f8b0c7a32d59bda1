-- Ends a user's cool-down if it rests on the given win, which was revoked.
--
-- KEYS[1]  period  string, a win record id
-- ARGV[1]  win record id
--
-- Returns how many keys were removed.

if redis.call('GET', KEYS[1]) == ARGV[1] then
    return redis.call('DEL', KEYS[1])
end
return 0
