-- Removes the mark of a draw if it is still the one that was set.
--
-- KEYS[1]  mark  string: who draws
-- ARGV[1]  who drew
--
-- Returns how many keys were removed.

if redis.call('GET', KEYS[1]) == ARGV[1] then
    return redis.call('DEL', KEYS[1])
end
return 0
